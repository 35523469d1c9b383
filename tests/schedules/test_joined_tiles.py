"""Permutations of short rows: tiles of several classes, which threads fill by another division of their index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import ZERO, Affine, FloorDiv
from polyfuse.banks import at_lanes, lane_turns
from polyfuse.face.interpreted import run_plan
from polyfuse.kernel import Load, Store
from polyfuse.legality import prove
from polyfuse.lower.inspect import flatten
from polyfuse.plan import Plan
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.testing import assert_legal
from polyfuse.verdict import Kind

TYPES = {"bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "u8": np.uint8}


def permuted(*order: int) -> Callable[[Any], Any]:
    return lambda x: np.ascontiguousarray(np.transpose(x, order))


CASES: dict[str, tuple[str, Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "reversed": ("f32[11, N~269493, 17]", permuted(2, 1, 0), ((11, 29, 17),)),
    "no constant lengths": ("f32[A~11, N~269493, C~17]", permuted(2, 1, 0), ((11, 29, 17),)),
    "halves in vectors": ("bf16[40, 2, N~26312, 3, 24]", permuted(1, 2, 4, 0, 3), ((40, 2, 3, 3, 24),)),
    "rows that both have": ("f32[N~2467, 7, M~1045, 3]", permuted(2, 0, 3, 1), ((9, 7, 50, 3),)),
    "columns of 23": ("f32[23, 22, 182, N~162, 3]", permuted(4, 3, 1, 2, 0), ((23, 22, 182, 5, 3),)),
    "a lane too many": ("f32[2, N~1993, 13, 14, 67]", permuted(4, 0, 1, 3, 2), ((2, 3, 13, 14, 67),)),
    "two of them": ("f32[11, N~269493, 17], f32[11, N, 17]", lambda x, y: (x + 2 * y).T, ((11, 29, 17),) * 2),
    "another beside": (
        "f32[23, 22, 182, N~162, 3], f32[3, N, 22, 182, 23]",
        lambda x, y: permuted(4, 3, 1, 2, 0)(x) * y,
        ((23, 22, 182, 5, 3), (3, 5, 22, 182, 23)),
    ),
    "a number and a row beside": (
        "f32[11, N~269493, 17], f32[], f32[11]",
        lambda x, a, b: x.T * a + b,
        ((11, 29, 17), (), (11,)),
    ),
}


def planned(case: str) -> Plan:
    specs, function, _ = CASES[case]
    return pf.jit(function).plan(*[pf.spec(f"{s}]") for s in specs.rstrip("]").split("], ")], target="h200")


@pytest.mark.parametrize("case", CASES)
def test_short_rows_pass_through_tiles_of_several_classes(case: str) -> None:
    specs, function, shapes = CASES[case]
    plan = planned(case)
    (kernel,) = plan.kernels
    assert kernel.strategy == "joined_tiles"
    assert_legal(plan)
    random = np.random.default_rng(0)
    arrays = [random.integers(0, 99, shape).astype(TYPES[specs.partition("[")[0]]) for shape in shapes]
    (found,) = run_plan(plan, arrays)
    expected = function(*[array.astype(np.float64) for array in arrays])
    np.testing.assert_array_equal(np.asarray(found, np.float64), expected)


def put_of(schedule: KernelSchedule) -> Placed:
    (put,) = [p for p in schedule.placed if p.role == "put"]
    return put


def with_put(schedule: KernelSchedule, place: tuple[Affine, ...]) -> KernelSchedule:
    put = put_of(schedule)
    provider = put.providers[0]
    moved = [replace(p, place=place) if p.name in (put.name, provider) else p for p in schedule.placed]
    return replace(schedule, placed=tuple(moved))


def test_threads_that_are_left_over_put_nothing() -> None:
    """132 threads have seven rows of 17 and 13 of the eighth, which those of the next step put."""
    plan = planned("reversed")
    (schedule,) = plan.schedules
    assert schedule.block_threads == 132 and prove(plan.scop, schedule)
    first, row, last = put_of(schedule).place
    assert isinstance(row, Affine)
    kept = [(a, f) for a, f in row.terms if not (isinstance(a, FloorDiv) and f == 7)]
    assert len(kept) == len(row.terms) - 1
    verdict = prove(plan.scop, with_put(schedule, (first, Affine(tuple(kept), row.constant), last)))
    assert verdict.kind is Kind.ILLEGAL and "written by other threads" in str(verdict)


@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_a_tile_that_reads_what_nobody_put_is_refused(dimension: int) -> None:
    plan = planned("reversed")
    (schedule,) = plan.schedules
    place = list(put_of(schedule).place)
    place[dimension] = place[dimension] + Affine.of(1)
    assert prove(plan.scop, with_put(schedule, tuple(place))).kind is Kind.ILLEGAL


def turns(plan: Plan) -> dict[str, float]:
    """Of the first warps for each element of a thread, by what they do with shared memory."""
    (schedule,), (launch,) = plan.schedules, plan.launches
    tiles = [op for op in flatten(launch.kernel.body) if isinstance(op, (Load, Store)) and op.array.endswith("_tile")]
    spans = {"put" if isinstance(op, Store) else "get": op.span for op in tiles}
    boxes, found = {box.value: box for box in schedule.shared}, dict[str, float]()
    for move in schedule.placed:
        if move.role in ("put", "get"):
            box = boxes[move.value]
            position = sum([(e - o) * n for e, o, n in zip(move.place, box.origin, box.pitch, strict=True)], start=ZERO)
            itemsize = box.cells(plan.scop.dtype(move.value)).itemsize
            at, width = at_lanes(position, schedule.digits, schedule.block_threads), spans[move.role]
            found[move.role] = float(lane_turns(at, itemsize, width)) / width
    return found


@pytest.mark.parametrize("case", CASES)
def test_lanes_meet_in_few_banks(case: str) -> None:
    assert sum(turns(planned(case)).values()) <= 3.25  # of a put and a get


def test_rows_apart_are_put_by_parts_of_a_warp_each() -> None:
    """376 x 88 x 3256 bfloat16 reversed, 135 us on an H200 with sixteen lanes of a warp along a row, 130 with four."""
    plan = pf.jit(permuted(2, 1, 0)).plan(pf.spec("bf16[376, 88, 3256]"), target="h200")
    assert turns(plan) == {"put": 1 / 2, "get": 1}  # words of two are put


def test_long_rows_and_parts_of_arrays_are_left_to_others() -> None:
    for spec, function in (
        ("f32[104, N~5000, 400]", permuted(2, 1, 0)),
        ("f32[11, N~269493, 4, 17]", lambda x: x[:, :, 3].T + 1),
        ("f32[11, N~269493, 18]", lambda x: x[:, :, 1:].T + 1),
    ):
        plan = pf.jit(function).plan(pf.spec(spec), target="h200")
        assert all(kernel.strategy != "joined_tiles" for kernel in plan.kernels)
        assert_legal(plan)


@pytest.mark.parametrize("seed", range(12))
def test_random_short_rows_are_right(seed: int) -> None:
    random = Random(seed)
    rank = random.choice((3, 4, 4, 5))
    shape = [random.choice((2, 3, 5, 6, 7, 11, 12, 16, 23, 24)) for _ in range(rank)]
    long = random.randrange(rank)
    order = random.sample(range(rank), rank)
    shape[long] = 1
    shape[long] = 40_000_000 // int(np.prod(shape))
    sizes = [f"N~{n}" if k == long else str(n) for k, n in enumerate(shape)]
    dtype = random.choice(("f32", "u8", "f64"))
    plan = pf.jit(permuted(*order)).plan(pf.spec(f"{dtype}[{', '.join(sizes)}]"), target="h200")
    assert_legal(plan)
    least = random.choice((1, 2, 29, 64))
    shape[long] = next(n for n in range(least, 1000) if all(g.advisory or g.holds({"N": n}) for g in plan.guards))
    x = np.random.default_rng(seed).integers(0, 200, shape).astype(TYPES[dtype])
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, np.transpose(x, order))
