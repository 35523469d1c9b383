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
        "peak memory         20 kB     12 kB",
    ]
    assert text.endswith("fused   t + u + y")
