"""Prefixes of many short rows: as many lanes as a row needs, several rows in a block, neighbours in each lane."""

from __future__ import annotations

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.schedule import LoopNest
from polyfuse.testing import assert_legal


def sums(x):
    return np.cumsum(x, axis=1)


def maxima(x):
    return np.maximum.accumulate(x, axis=1) - x


@pytest.mark.parametrize(
    ("n", "lanes", "piece", "rows"),
    [(3, 1, 4, 128), (10, 4, 4, 32), (37, 16, 4, 8), (66, 32, 4, 4), (101, 32, 4, 4), (500, 64, 4, 2)],
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


@pytest.mark.parametrize(
    ("dtype", "n", "lanes", "rows", "steps"),
    [
        *[(dtype, *case) for dtype in ("f32", "f16") for case in ((300, 32, 4, 3), (140, 32, 4, 2))],
        ("f32", 572, 32, 4, 5),
        ("f16", 571, 32, 4, 3),  # in frames
    ],
)
def test_warps_go_through_rows_where_more_lanes_would_be_idle(
    dtype: str, n: int, lanes: int, rows: int, steps: int
) -> None:
    """Prefixes of rows of 298 bfloat16, 400 MB in all, take an H100 155 us in 32 lanes, 206 in 128; in trips, or in as
    many pieces at once."""
    for function in (sums, maxima):
        plan = pf.jit(function).plan(pf.spec(f"{dtype}[N~{(64 << 20) // n}, M~{n}]"), target="h200")
        (kernel,) = plan.kernels
        tile, loops = dict(kernel.schedule.parameters), kernel.schedule.of_kind("loop")
        assert (tile["lanes"], tile["threads"] // tile["lanes"]) == (lanes, rows), tile
        assert [tile["chunks"], *[loop.extent.evaluate({"M": n}) for loop in loops]] in ([steps], [1, steps])
        assert "barrier" not in plan.source() or lanes > 32  # a warp keeps step by itself
        assert_legal(plan)
        x = np.random.default_rng(n).integers(-9, 9, (7, n)).astype({"f32": np.float32, "f16": np.float16}[dtype])
        (found,) = run_plan(plan, [x])
        np.testing.assert_array_equal(found, function(x.astype(np.float64)))


@pytest.mark.parametrize(("n", "piece"), [(20003, 4), (20004, 4), (20001, 4)])
def test_lanes_of_long_rows_hold_neighbours(n: int, piece: int) -> None:
    plan = pf.jit(sums).plan(pf.spec(f"f32[N~4096, M~{n}]"), target="h200")
    (kernel,) = plan.kernels
    assert dict(kernel.schedule.parameters)["vector"] == piece and kernel.schedule.of_kind("loop")
    assert_legal(plan)
    x = np.random.default_rng(n).integers(-9, 9, (2, n)).astype(np.float32)
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, np.cumsum(x, axis=1))


def columns(x):
    return np.cumsum(x, axis=1)


def drawdown(x):
    return (1 - x / np.maximum.accumulate(x, axis=0)).max(axis=0)


@pytest.mark.parametrize(("row", "lanes"), [(403, 512), (767, 1024), (3001, 256), (513, 256)])
def test_warps_that_run_through_odd_columns_keep_step(row: int, lanes: int) -> None:
    """So that they write the parts of a sector one soon after the other; whole rows where a block has so many."""
    plan = pf.jit(columns).plan(pf.spec(f"f32[L~{200_000 // row}, N~601, M~{row}]"), target="h200")
    (kernel,) = plan.kernels
    tile = dict(kernel.schedule.parameters)
    assert (tile["lanes"], tile["vector"], tile["unroll"], tile["in_step"]) == (lanes, 1, 8, 1), tile
    (nest,) = [item for item in kernel.schedule.order if isinstance(item, LoopNest)]
    assert nest.items[0] == "barrier"
    assert plan.source().count("    barrier()") == 2  # the last trip stands apart
    assert_legal(plan)
    x = np.random.default_rng(3).integers(-9, 9, (2, 21, 403)).astype(np.float32)
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, columns(x))


@pytest.mark.parametrize(("columns", "vector"), [(200_001, 1), (200_000, 4)])
def test_a_prefix_that_is_reduced_where_it_is_made_loads_several_rows_at_once(columns: int, vector: int) -> None:
    plan = pf.jit(drawdown).plan(pf.spec(f"f32[N~365, M~{columns}]"), target="h200")
    (kernel,) = plan.kernels
    tile = dict(kernel.schedule.parameters)
    assert (tile["unroll"], tile["vector"]) == (8, vector), tile
    assert plan.cost_analysis().seconds < 100e-6  # memory's time is 76
    assert_legal(plan)
    x = np.random.default_rng(3).uniform(1, 2, (37, 132 if vector > 1 else 133)).astype(np.float32)
    (found,) = run_plan(plan, [x])
    np.testing.assert_allclose(found, drawdown(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("width", [403, 400])
def test_masks_that_find_no_register_are_left_to_the_last_trip(width: int) -> None:
    """Of 8 or 16 rows at once, each with a mask: the assembler would wait for one before it asks for the next."""
    plan = pf.jit(columns).plan(pf.spec(f"f32[L~500, N~601, {width}]"), target="h200")
    source = plan.source()
    body = source[source.index("    for r in range(") : source.index("    if inside(")]
    (load,) = [line for line in body.splitlines() if " = load(" in line]
    mask = load.partition("mask=")[2].rstrip(")")
    assert not mask or f"    {mask} = tx < 403\n" in source or mask == "cols", load  # it is the same in all rows
    x = np.random.default_rng(3).integers(-9, 9, (2, 37, width)).astype(np.float32)
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, columns(x))


def test_a_few_masks_stay_in_the_loop() -> None:
    """Sums of four rows at once: their masks have registers, and one loop is less to read."""
    plan = pf.jit(lambda x: x.sum(0)).plan(pf.spec("f32[N~200001, M~512]"), target="h200")
    (kernel,) = plan.kernels
    assert kernel.parameters["unroll"] == 4
    source = plan.source()
    assert source.count("for r in range(") == 1 and "if inside(" not in source
