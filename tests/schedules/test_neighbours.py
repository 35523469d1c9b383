"""Rows of words in frames beside what begins elsewhere: vectors made of two, neighbours out of the same ones, short
rows and stencils."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.dtypes import f32
from polyfuse.face.interpreted import run_plan
from polyfuse.kernel import Load, Neighbours, Store
from polyfuse.lower.inspect import flatten
from polyfuse.lower.neighbours import with_neighbours
from polyfuse.plan import Plan
from polyfuse.spans import read_together, vectors_across
from polyfuse.terms import Const, Ref
from polyfuse.testing import assert_legal


def differences(x: Any) -> Any:
    return x[:, 1:] - x[:, :-1]


def three(x: Any) -> Any:
    return x[:, 2:] + x[:, 1:-1] - x[:, :-2]


def far(x: Any) -> Any:
    return x[:, 9:] - x[:, :-9]


def cropped(x: Any) -> Any:
    return x[:, 1:-1] * 2


def gradient(x: Any) -> Any:
    return x[2:, 1:-1] - x[:-2, 1:-1], x[1:-1, 2:] - x[1:-1, :-2]


def in_parts(function: Callable[..., Any], *specs: str) -> Plan:
    """A block has a part of a row, whatever its length."""
    (kernel,) = pf.jit(function).plan(*map(pf.spec, specs), target="h200").kernels
    wishes = {kernel.stores[0]: "pointwise"}  # flat is as quick
    tiles = {kernel.stores[0]: {"threads": 128, "unroll": 2}}
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200", tiles=tiles, strategies=wishes)
    assert dict(plan.kernels[0].parameters).get("frames") == 1
    return plan


def loads(plan: Plan) -> list[Load]:
    return [op for op in flatten(plan.launches[0].kernel.body) if isinstance(op, Load)]


def neighbours(plan: Plan) -> list[Neighbours]:
    """Of the blocks inside of rows, and of the others."""
    return [op for op in flatten(plan.launches[0].kernel.body) if isinstance(op, Neighbours)]


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    made = np.random.default_rng(seed).integers(-100, 100, shape)  # sums of these are exact
    return made.astype(pf.spec(f"{dtype}[]").dtype.numpy)


KINDS = {"f32": 4, "f64": 2, "i32": 4, "i64": 2, "f16": 8}


@pytest.mark.parametrize("dtype", KINDS)
def test_neighbours_are_one_operation(dtype: str) -> None:
    plan = in_parts(differences, f"{dtype}[N~8192, M~8190]")
    assert_legal(plan)
    both = neighbours(plan)
    assert len(both) == (1 if dtype == "f16" else 2) and all(op.steps == (0, 1) for op in both)
    assert all(op.across and op.vector == KINDS[dtype] for op in loads(plan))
    assert plan.source().count("load_neighbours(") == len(both) and "load_across(" not in plan.source()


def test_blocks_inside_of_rows_ask_for_no_ends() -> None:
    """Wherever a row begins in memory, less than a vector of places lie in front of it."""
    plan = in_parts(differences, "f32[N~8192, M~8192]")
    inside, others = neighbours(plan)
    assert not any(op.where for op in inside.loads) and all(len(op.where) == 2 for op in others.loads)
    assert "(0, 1), (0, 0), (4, 4)," in plan.source()
    assert all(op.other is None for op in loads(plan))  # in either branch


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("function", [differences, three, far, cropped], ids=lambda f: f.__name__)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 514, 1031])
def test_results_agree_however_short_rows_are(function: Callable[..., Any], dtype: str, length: int) -> None:
    """Rows of as many elements beyond whole vectors as those of the plan; arrays that end inside of vectors."""
    beyond = {"differences": 1, "three": 2, "far": 9, "cropped": 2}[function.__name__]
    long = 8192 + (length + beyond) % 8
    if (long - beyond) % KINDS[dtype] == 0:
        return  # rows of results begin with vectors
    plan = in_parts(function, f"{dtype}[N~8192, M~{long}]")
    for rows in (1, 5):
        x = values((rows, length + beyond), dtype)
        (found,) = run_plan(plan, [x])
        np.testing.assert_array_equal(found, function(x))


def test_a_pair_apart_is_two_loads() -> None:
    """Of nine elements in between nothing is read twice."""
    plan = in_parts(far, "f32[N~8192, M~8196]")
    assert [op.across for op in loads(plan)] == [True] * 4 and "load_neighbours" not in plan.source()


def test_three_in_a_row_are_made_of_three_vectors() -> None:
    plan = in_parts(three, "f32[N~8192, M~8193]")
    assert [op.steps for op in neighbours(plan)] == [(0, 1, 2)] * 2 and vectors_across(4, 2) == 3
    assert "(0, 1, 2)" in plan.source()


@pytest.mark.parametrize(("length", "rows", "unroll"), [(305, 4, 3), (115, 4, 1), (643, 2, 3), (1003, 1, 2)])
def test_warps_have_short_rows(length: int, rows: int, unroll: int) -> None:
    spec, wishes = pf.spec(f"f32[N~{80_000_000 // length}, M~{length}]"), {"multiply": "pointwise"}
    plan = pf.jit(cropped).plan(spec, target="h200", strategies=wishes)  # flat is as quick
    (kernel,) = plan.kernels
    tile = {"threads": 128, "unroll": unroll, "rows": rows, "vector": 4, "frames": 1}
    assert {"rows": 1, **dict(kernel.parameters)} == tile and len(kernel.grid) == (1 if rows > 1 else 2)
    assert_legal(plan)
    for count in (1, 3, 9):
        x = values((count, length), "f32")
        (found,) = run_plan(plan, [x])
        np.testing.assert_array_equal(found, cropped(x))


STENCILS = {
    "five points": lambda x: x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1],
    "nine points": lambda x: sum(x[i : i + x.shape[0] - 2, j : j + x.shape[1] - 2] for i in range(3) for j in range(3)),
}


@pytest.mark.parametrize("case", STENCILS)
def test_stencils_stay_in_windows(case: str) -> None:
    """In frames each row is read for every row of results, and each vector moved: blurred rows of 9999 take an H200 313
    us so, 260 in windows."""
    plan = pf.jit(STENCILS[case]).plan(pf.spec("f32[N~8193, M~8191]"), target="h200")
    assert [kernel.strategy for kernel in plan.kernels] == ["windows"]


def test_what_neighbours_save_is_priced() -> None:
    pair, apart = (
        in_parts(f, f"f32[N~8192, M~{m}]").cost_analysis().seconds for f, m in ((differences, 8192), (far, 8200))
    )
    assert pair < apart


# ---------------------------------------------------------------------------------------------- what becomes one

V, T, B, N = digit("v"), digit("t"), digit("b0"), Affine.symbol("N")
FIRST = Load("a", "x", (B, T + V), (N - 1 - V,), None, Const(0.0, f32), 4, across=True)
NEXT = replace(FIRST, name="b", index=(B, T + V + 1))
STORE = Store("y", (B, T + V), Ref("a", f32))


def merged(*body: ir.Op, itemsize: int = 4) -> tuple[ir.Op, ...]:
    return with_neighbours(body, "v", {"x": itemsize, "y": itemsize})


def test_the_order_is_that_of_memory() -> None:
    assert merged(NEXT, FIRST) == (Neighbours((FIRST, NEXT)),)


def test_others_stay_where_they_are() -> None:
    other = Load("c", "y", (T,))
    assert merged(other, FIRST, other, NEXT) == (other, Neighbours((FIRST, NEXT)), other)


def test_bodies_of_loops_and_branches_are_looked_through() -> None:
    loop, branch = ir.For("k", N, (FIRST, NEXT)), ir.If(Ref("c", f32), (FIRST,), (FIRST, NEXT))
    both = (Neighbours((FIRST, NEXT)),)
    assert merged(loop, branch) == (replace(loop, body=both), replace(branch, orelse=both))


APART = {
    "a store in between": (FIRST, STORE, NEXT),
    "another array": (FIRST, replace(NEXT, array="y")),
    "another row": (FIRST, replace(NEXT, index=(B + 1, T + V + 1))),
    "another condition": (FIRST, replace(NEXT, where=(N - 1 - B,))),
    "another rest": (FIRST, replace(NEXT, other=None)),
    "far away": (FIRST, replace(NEXT, index=(B, T + V + 8))),
    "single elements": (replace(FIRST, across=False, vector=1), replace(NEXT, across=False, vector=1)),
}


@pytest.mark.parametrize("case", APART)
def test_nothing_else_becomes_one(case: str) -> None:
    assert merged(*APART[case]) == APART[case]


def test_bytes_stay_apart() -> None:
    assert merged(FIRST, NEXT, itemsize=1) == (FIRST, NEXT)


GROUPS = [
    ([(0, 2)], 4, ((0,),)),
    ([(1, 2), (0, 2)], 4, ((1, 0),)),
    ([(0, 1), (1, 2)], 4, ((0, 1),)),
    ([(0, 1), (4, 1)], 4, ((0,), (1,))),
    ([(0, 2), (5, 2)], 4, ((0, 1),)),
    ([(0, 2), (6, 2)], 4, ((0,), (1,))),
    ([(0, 2), (1, 2), (2, 2), (13, 2)], 4, ((0, 1, 2), (3,))),
    ([(0, 2), (1, 2), (2, 2), (9, 2)], 4, ((0, 1, 2, 3),)),
    ([(0, 2), (9, 2)], 8, ((0, 1),)),
]


@pytest.mark.parametrize(("begins", "width", "groups"), GROUPS)
def test_vectors_are_read_together_where_they_are_fewer(
    begins: list[tuple[int, int]], width: int, groups: tuple[tuple[int, ...], ...]
) -> None:
    assert read_together(tuple(begins), width) == groups


# ---------------------------------------------------------------------------------------------- pieces of long rows


def joined(x: Any, y: Any, z: Any) -> Any:
    return np.concatenate([x, y, z], axis=1)


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_blocks_inside_of_a_piece_load_it_alone(dtype: str) -> None:
    """Of two of them those that meet there, in rows of three."""
    lengths = (3001, 2000, 3050)
    specs = [pf.spec(f"{dtype}[N~8192, {length}]") for length in lengths]
    plan = pf.jit(joined).plan(*specs, target="h200", tiles={"region": {"threads": 128}})
    (kernel,) = plan.kernels
    assert dict(kernel.parameters)["frames"] == 1 and len(kernel.grid) == 2
    assert_legal(plan)
    bodies, at = [], plan.launches[0].kernel.body[-1]
    while isinstance(at, ir.If):
        bodies.append(at.body)
        (at,) = at.orelse if len(at.orelse) == 1 else (None,)
    arrays = [{op.array for op in body if isinstance(op, Load)} for body in bodies]
    assert len(arrays) == 3 and all(len(names) < 3 for names in arrays) and arrays.count({"z_in"}) == 1
    x = [values((3, length), dtype, seed) for seed, length in enumerate(lengths)]
    (found,) = run_plan(plan, x)
    np.testing.assert_array_equal(found, joined(*x))


def test_kernels_without_slots_have_a_price() -> None:
    """Rows of one element are framed as others are."""
    for atomics in (False, True):
        counted = pf.jit(lambda x: np.count_nonzero(x, axis=-1, keepdims=True), atomics=atomics)
        assert counted.plan(pf.spec("f64[64, 1]"), target="h200").cost_analysis().seconds > 0
