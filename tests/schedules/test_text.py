"""The canonical text of plans."""

from __future__ import annotations

import numpy as np

from polyfuse.affine import Affine
from polyfuse.bindings import DerivedGuard, Guard, VolumeGuard
from polyfuse.text.guards import guard_text
from polyfuse.text.sizes import product_text, size_text
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
    text = str(plan(programs.rows_then_columns, "f32[M~4096, N~65536]"))
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
    assert "grid ceil(M*N/1024)" in str(plan(lambda x, y: np.exp(x) + y, "f32[M, N]", "f32[M, N]"))


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


def test_sizes_read_as_a_person_writes_them() -> None:
    n, m = Affine.symbol("N"), Affine.symbol("M")
    texts = [n.ceildiv(4), (n - 2).ceildiv(128), (n + m) // 2 + 1, n * -3, Affine.of(0), (3 * n).ceildiv(8) * 4]
    shown = ["ceil(N/4)", "ceil((N - 2)/128)", "floor((M + N)/2) + 1", "-3*N", "0", "4*ceil(3*N/8)"]
    assert [size_text(t) for t in texts] == shown
    assert product_text([n - 2, Affine.of(1), m]) == "(N - 2) x M"
    assert product_text([n - 2]) == "N - 2"
    assert product_text([]) == "1"
    assert size_text(Affine.symbol("MN") * 2, {"MN": "M*N"}) == "2*M*N"


def test_guards_read_as_bounds_and_divisors() -> None:
    n, m = Affine.symbol("N"), Affine.symbol("M")
    bounds = [Guard(n - 5), Guard(Affine.of(7) - n), Guard(n, 4), Guard(n - m), Guard(n - m - 1)]
    guards = [*bounds, VolumeGuard((n, m), 9)]
    shown = ["N >= 5", "N <= 7", "4 divides N", "M <= N", "M < N", "at most 9 elements in N x M"]
    assert [guard_text(g) for g in guards] == shown
    assert guard_text(DerivedGuard(Guard(Affine.symbol("MN"), 4), (("MN", (m, n)),))) == "4 divides M*N"
