"""Permutations whose rows are short, begin off sectors or leave tiles empty; each case was timed beside a copy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from benchmarks.permutations import drawn
from polyfuse.affine import Affine
from polyfuse.face.interpreted import run_plan
from polyfuse.legality import prove
from polyfuse.plan import Plan
from polyfuse.testing import assert_legal
from polyfuse.verdict import Kind

TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64, "u8": np.uint8}

# spec, order, strategy, some of its parameters, a small shape of the same class
Case = tuple[str, tuple[int, ...], str, dict[str, int], tuple[int, ...]]
CASES: dict[str, Case] = {
    "tiles as short as a row": ("bf16[16, N~142784, 48]", (0, 2, 1), "tiles", {"tile": 64}, (16, 136, 48)),
    "vectors in sectors": (
        "bf16[B~40, N~1576, 2, M~1080]",
        (0, 3, 2, 1),
        "tiles",
        {"frames": 16, "vector": 8},
        (2, 72, 2, 88),
    ),
    "pairs in sectors": ("f32[N~9282, M~10002]", (1, 0), "tiles", {"frames": 8, "vector": 2}, (74, 138)),
    "bytes in longer pieces": ("u8[N~10016, M~19984]", (1, 0), "tiles", {"tile": 128, "vector": 8}, (144, 272)),
    "rows of one vector": ("f32[A~167, B~729, 4, C~116]", (1, 3, 0, 2), "tiles", {"rows": 4}, (19, 3, 4, 20)),
    "rows of two vectors": ("bf16[A~56, 5, 16, C~27976]", (1, 3, 0, 2), "tiles", {"rows": 16}, (11, 5, 16, 72)),
    "rows of five": ("f32[5, N~232049, M~47]", (2, 1, 0), "tiles", {"rows": 5}, (5, 37, 47)),
    "rows of no constant length": ("f32[C~5, N~232049, M~47]", (2, 1, 0), "tiles", {"rows": 5}, (3, 37, 47)),
    "rows of thirteen": (
        "f32[2, N~1993, 13, 14, M~67]",
        (4, 0, 1, 3, 2),
        "joined_tiles",
        {"tile": 70, "columns": 65},
        (2, 3, 13, 14, 67),
    ),
    "rows of seven bytes": ("u8[24, 7, N~1104, 2, M~856]", (0, 4, 3, 2, 1), "tiles", {"rows": 7}, (24, 7, 19, 2, 72)),
    "rows of seven doubles": ("f64[7, N~170512, M~24]", (2, 1, 0), "tiles", {"rows": 7}, (7, 40, 24)),
    "short rows are read": ("f32[A~128, N~118400, 4]", (2, 1, 0), "pixel_tiles", {}, (36, 41, 4)),
    "and odd ones": ("bf16[A~1317, 3, N~10195, 3]", (1, 3, 2, 0), "pixel_tiles", {}, (67, 3, 43, 3)),
    "and bytes": ("u8[A~1317, N~30195, 5]", (2, 1, 0), "pixel_tiles", {}, (67, 43, 5)),
    "bytes of four colours": ("u8[A~24704, 4, M~496, 4]", (3, 1, 0, 2), "pointwise", {"vector": 4}, (3, 4, 24, 4)),
    "rows of bytes": ("u8[10, N~9427, M~2110]", (1, 0, 2), "pointwise", {"frames": 1, "vector": 8}, (10, 3, 2102)),
    "rows of half a tile": (
        "u8[A~27, B~125, C~39, 2, N~725]",
        (4, 0, 3, 2, 1),
        "tiles",
        {"columns": 128, "vector": 1},
        (2, 29, 7, 2, 21),
    ),
    "bytes along short rows": ("u8[A~213, N~939600]", (1, 0), "tiles", {}, (85, 80)),
}


def planned(case: str) -> Plan:
    spec, order, *_ = CASES[case]
    return pf.jit(lambda x: np.ascontiguousarray(np.transpose(x, order))).plan(pf.spec(spec), target="h200")


@pytest.mark.parametrize("case", CASES)
def test_permutations_are_as_planned_and_right(case: str) -> None:
    spec, order, strategy, parameters, shape = CASES[case]
    plan = planned(case)
    (kernel,) = plan.kernels
    assert kernel.strategy == strategy
    assert parameters.items() <= dict(kernel.parameters).items()
    assert_legal(plan)
    x = np.random.default_rng(0).integers(0, 200, shape).astype(TYPES[spec.partition("[")[0]])
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found.astype(np.float64), np.transpose(x, order).astype(np.float64))


@pytest.mark.parametrize("seed", [3, 20, 32, 87, 107, 113, 117, 123, 147, 199, 215, 216, 228, 242])
def test_drawn_permutations_are_legal(seed: int) -> None:
    """Of the 260 of the record these were the slowest once."""
    dtype, shape, order = drawn(seed)
    spec = pf.spec(f"{dtype}[{', '.join(map(str, shape))}]")
    assert_legal(pf.jit(lambda x: np.ascontiguousarray(np.transpose(x, order))).plan(spec, target="h200"))


@pytest.mark.parametrize("case", ["rows of five", "vectors in sectors", "short rows are read"])
def test_a_tile_that_reads_what_nobody_put_is_refused(case: str) -> None:
    plan = planned(case)
    (schedule,) = plan.schedules
    assert prove(plan.scop, schedule)
    by_one = {p.name: replace(p, place=(p.place[0] + Affine.of(1), *p.place[1:])) for p in schedule.placed}
    moved = [by_one[p.name] if p.role == "put" else p for p in schedule.placed]
    assert prove(plan.scop, replace(schedule, placed=tuple(moved))).kind is Kind.ILLEGAL


def test_lanes_of_rows_that_are_longer_than_the_kernel_allows_are_another_plan() -> None:
    """Eight lanes have rows of five, and would leave the rest of longer ones."""
    plan = planned("rows of no constant length")
    sizes = {"C": 7, "N": 232049, "M": 47}
    assert all(g.holds(sizes) for g in plan.guards)
    assert not all(g.holds(sizes | {"C": 9}) for g in plan.guards)


def test_blocks_that_read_the_rest_of_a_sector_follow_each_other() -> None:
    """Pieces of 48 bytes: 258 us on an H200 with all pieces of a column before the rest of a row, 211 so."""

    def planes(x: Any) -> Any:
        return np.ascontiguousarray(np.transpose(x, (2, 0, 3, 1)))

    (kernel,) = pf.jit(planes).plan(pf.spec("bf16[40, 2040, 80, 24]"), target="h200").kernels
    grid = sorted(kernel.schedule.of_kind("block"), key=lambda d: d.number)
    assert [str(d.extent) for d in grid] == ["80", "33", "40"]


@pytest.mark.parametrize(
    ("spec", "order", "extents"),
    [
        ("f32[220, 9, 26326]", (2, 1, 0), ["9", "412"]),
        ("bf16[550440, 184]", (1, 0), ["3", "8601"]),
        ("f32[16, 272, 18336]", (0, 2, 1), ["5", "287", "16"]),
    ],
    ids=["rows are torn", "a long row of tiles", "matrices apart"],
)
def test_blocks_whose_pieces_meet_are_near_each_other(spec: str, order: tuple[int, ...], extents: list[str]) -> None:
    """On an H200: 132 us along the longest class before the middle one, 106 so; 130 along the results before what is
    read, 118 so; 166 from matrix to matrix, 153 so."""
    x = pf.spec(spec)
    (kernel,) = pf.jit(lambda x: np.ascontiguousarray(np.transpose(x, order))).plan(x, target="h200").kernels
    grid = sorted(kernel.schedule.of_kind("block"), key=lambda d: d.number)
    assert [str(d.extent) for d in grid][-len(extents) :] == extents


def test_blocks_that_write_the_rest_of_a_row_follow_each_other() -> None:
    """Rows of 208 bytes: 177 us on an H200 with all rows of one block of columns before others, 136 so."""
    x = pf.spec("bf16[104, 16, 216, 288]")
    (kernel,) = pf.jit(lambda x: np.ascontiguousarray(x.T)).plan(x, target="h200").kernels
    grid = sorted(kernel.schedule.of_kind("block"), key=lambda d: d.number)
    assert [str(d.extent) for d in grid][-2:] == ["16", "216"]
