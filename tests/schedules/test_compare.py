"""Exact counts of what fusing removes."""

from __future__ import annotations

import pytest

from polyfuse.algebra import Formula, size
from polyfuse.explain.compare import compare
from polyfuse.plan import Plan
from tests.schedules import programs
from tests.schedules.programs import both

N = Formula(size("N"))


def test_scaled_biased_relu_moves_28_n_then_12_n_bytes() -> None:
    loose, fused = both(programs.biased, "f32[N]", "f32[N]")
    difference = compare(loose, fused)
    assert difference.launches == (3, 1)
    assert difference.hbm_bytes == (28 * N, 12 * N)
    assert fused.hbm_bytes < loose.hbm_bytes
    assert fused.hbm_bytes.at(N=1000) == 12_000
    assert difference.fused == [("t", "u", "y")]


def test_measured_times_stand_beside_predicted_ones() -> None:
    def measure(plan: Plan) -> list[float]:
        return [1e-3] * len(plan.steps)

    difference = compare(*both(programs.biased, "f32[N]", "f32[N]"), measure=measure)
    assert difference.measured == pytest.approx((3e-3, 1e-3))
    assert "measured time        3 ms      1 ms" in str(difference)


def test_the_table() -> None:
    text = str(compare(*both(programs.biased, "f32[N]", "f32[N]"), sizes={"N": 1000}))
    assert text.split("\n\n")[0].splitlines()[:7] == [
        "                   before     after",
        "launches                3         1",
        "intermediates           2         0",
        "tensor accesses         7         3",
        "HBM bytes            28*N      12*N",
        "  at N = 1000       28 kB     12 kB",
        "peak memory         16 kB     12 kB",
    ]
    assert text.endswith("fused   t + u + y")


def test_gated_sigmoid_touches_eight_tensors_then_four() -> None:
    difference = compare(*both(programs.gate, "f32[N]", "f32[N]", "f32[N]"))
    assert difference.accesses == (8, 4)
    assert difference.intermediates_removed == 2
    assert difference.launches == (3, 1)


def test_five_operations_read_each_input_once_and_write_once() -> None:
    difference = compare(*both(programs.chain, "f32[M, N]", "f32[M, N]"))
    assert difference.launches == (5, 1)
    assert [t.name for t in difference.after.steps[0].traffic.reads] == ["x", "y"]
    assert len(difference.after.steps[0].traffic.writes) == 1
    assert difference.intermediates_removed == 4


def test_without_fusion_every_value_of_the_users_is_stored_and_no_other() -> None:
    loose, _ = both(programs.rows_then_columns, "f32[M, N]")
    assert [k.stores for k in loose.kernels] == [("sum",), ("r",), ("c",)]
    product = programs.plan(lambda x, w: x @ w, "f32[64, 32]", "f32[32, 16]", fuse=False, library=False)
    assert len(product.kernels) == 1, "the products of a matrix product are not a value of the user's"
