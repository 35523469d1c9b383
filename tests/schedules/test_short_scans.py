"""Prefixes of many short rows: as many lanes as a row needs, several rows in a block, neighbours in each lane."""

from __future__ import annotations

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.testing import assert_legal


def sums(x):
    return np.cumsum(x, axis=1)


def maxima(x):
    return np.maximum.accumulate(x, axis=1) - x


@pytest.mark.parametrize(
    ("n", "lanes", "piece", "rows"),
    [(3, 1, 4, 128), (10, 4, 4, 32), (37, 16, 4, 8), (66, 32, 4, 4), (101, 32, 4, 4), (300, 128, 4, 1)],
)
def test_lanes_of_short_rows_share_a_block_where_there_is_much_to_do(n: int, lanes: int, piece: int, rows: int) -> None:
    for function in (sums, maxima):
        plan = pf.jit(function).plan(pf.spec(f"f32[N~{(64 << 20) // n}, M~{n}]"), target="h200")
        (kernel,) = plan.kernels
        tile = dict(kernel.schedule.parameters)
        assert (tile["lanes"], tile["vector"], tile["threads"] // tile["lanes"]) == (lanes, piece, rows), tile
        assert not kernel.schedule.of_kind("loop")
        assert_legal(plan)
        x = np.random.default_rng(n).standard_normal((37, n)).astype(np.float32)
        (found,) = run_plan(plan, [x])
        np.testing.assert_allclose(found, function(x.astype(np.float64)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("n", "piece"), [(20003, 4), (20004, 4), (20001, 4)])
def test_lanes_of_long_rows_hold_neighbours(n: int, piece: int) -> None:
    plan = pf.jit(sums).plan(pf.spec(f"f32[N~4096, M~{n}]"), target="h200")
    (kernel,) = plan.kernels
    assert dict(kernel.schedule.parameters)["vector"] == piece and kernel.schedule.of_kind("loop")
    assert_legal(plan)
    x = np.random.default_rng(n).integers(-9, 9, (2, n)).astype(np.float32)
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, np.cumsum(x, axis=1))
