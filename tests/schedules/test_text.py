"""The canonical text of plans."""

from __future__ import annotations

import numpy as np

from tests.schedules import programs
from tests.schedules.programs import plan


def test_softmax_is_one_kernel_whose_values_stay_in_registers() -> None:
    assert str(plan(programs.softmax, "f32[N~65536, 4096]")) == (
        "kernel m_d_s_y   rows lanes=256 chunks=4 vector=4   grid N   block 256\n"
        "  m = max(x, axis=1)   register, combine block\n"
        "  d = x - m            register\n"
        "  e = exp(d)           register\n"
        "  s = sum(e, axis=1)   register, combine block\n"
        "  y = e / s            global"
    )


def test_kernels_are_blocks_of_lines() -> None:
    text = str(plan(programs.rows_then_columns, "f32[M~4096, N~4096]"))
    first, second = text.split("\n\n")
    assert first.splitlines()[1] == "  sum = sum(x, axis=1)   global, combine block"
    assert second.splitlines()[1:] == [
        "  r = x / sum          register",
        "  c = sum(r, axis=0)   global, combine block",
    ]


def test_views_are_read_as_subscripts_and_products_of_sizes_are_spelled_out() -> None:
    def views(x, y):
        u = x[::2] + y
        v = u.T * 2
        return u, v

    text = str(plan(views, "f32[2*N, M]", "f32[N, M]"))
    assert "u = x[2*i, j] + y" in text
    assert "u[j, i]" in text
    assert "grid ceil(M*N/4096)" in str(plan(lambda x, y: np.exp(x) + y, "f32[M, N]", "f32[M, N]"))


def test_constants_are_short_and_exact_in_their_dtype() -> None:
    def scaled(x):
        y = x * np.float32(0.1)
        return y

    assert "y = x * 0.1 " in str(plan(scaled, "f32[N]"))


def test_equality_ignores_names_sizes_and_the_order_of_statements() -> None:
    def one(x, y):
        a = np.exp(x)
        b = np.sin(y)
        return a + b

    def other(first, second):
        right = np.sin(second)
        left = np.exp(first)
        total = right + left
        return total

    mine, theirs = plan(one, "f32[N, 64]", "f32[N, 64]"), plan(other, "f32[rows, 64]", "f32[rows, 64]")
    assert mine == theirs and hash(mine) == hash(theirs)
    assert str(mine) != str(theirs)


def test_plans_that_compute_or_launch_something_else_differ() -> None:
    loose, fused = programs.both(programs.softmax, "f32[N, 4096]")
    assert loose != fused
    assert fused != plan(programs.softmax, "f32[N, 4096]", target="cpu")
    assert plan(lambda x: x * 2, "f32[N]") != plan(lambda x: x * 3, "f32[N]")
    assert plan(lambda x, y: x - y, "f32[N]", "f32[N]") != plan(lambda x, y: y - x, "f32[N]", "f32[N]")
