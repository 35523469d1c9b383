"""Rows that begin anywhere and are reduced alone: short ones in few lanes, bytes, and loops apart from a row's ends."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.face.interpreted import run_plan
from polyfuse.legality import prove
from polyfuse.lower.border import masks
from polyfuse.lower.inspect import flatten
from polyfuse.plan import Plan
from polyfuse.testing import assert_legal
from polyfuse.verdict import Hazard, Kind
from tests.schedules.test_frames import moved

DTYPES = {"u8": np.uint8, "i8": np.int8, "bool": np.bool_, "i16": np.int16, "f16": np.float16}
FUNCTIONS = {
    "max": lambda x: np.max(x, axis=1),
    "min": lambda x: np.min(x, axis=1),
    "sum": lambda x: np.sum(x, axis=1),
    "any": lambda x: np.any(x > 0, axis=1),
    "argmax": lambda x: np.argmax(x, axis=1),
    "argmin": lambda x: np.argmin(x, axis=1),
}
BYTES = 134_000_000


def biased_softmax(x, bias):
    z = x + bias
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def planned(function: str, dtype: str, length: int) -> Plan:
    rows = BYTES // (length * DTYPES[dtype]().itemsize)
    return pf.jit(FUNCTIONS[function]).plan(pf.spec(f"{dtype}[N~{rows}, M~{length}]"), target="h200")


def tiles(plan: Plan) -> dict[str, int]:
    return dict(plan.kernels[0].parameters)


def drawn(dtype: str, shape: tuple[int, int], seed: int) -> np.ndarray:
    """Few values, so that many are the largest."""
    rng = np.random.default_rng(seed)
    low = -3 if np.dtype(DTYPES[dtype]).kind in "if" else 0
    return rng.integers(low, 4, shape).astype(DTYPES[dtype])


def assert_agrees(plan: Plan, function: str, x: np.ndarray) -> None:
    (found,) = run_plan(plan, [x])
    exact = FUNCTIONS[function](x.astype(np.float64) if x.dtype.kind == "f" else x)
    np.testing.assert_array_equal(found, exact.astype(found.dtype))


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [33, 131, 257])
def test_short_rows_lie_in_few_lanes(function: str, dtype: str, length: int) -> None:
    """In single elements the largest of 1000003 rows of 131 bytes take an H200 95 us, of 31; where those of 500009 rows
    of 257 bfloat16 are 115, of 61."""
    plan = planned(function, dtype, length)
    assert tiles(plan).get("frames") == 1 and tiles(plan)["vector"] > 1
    for rows in (1, 19):
        assert_agrees(plan, function, drawn(dtype, (rows, length), rows))


@pytest.mark.parametrize("remainder", [1, 3, 5, 7])
def test_short_rows_of_all_remainders(remainder: int) -> None:
    for function, dtype in (("max", "u8"), ("argmin", "f16"), ("sum", "i8")):
        length = 128 + remainder
        assert_agrees(planned(function, dtype, length), function, drawn(dtype, (21, length), remainder))


@pytest.mark.parametrize("function", ["argmax", "argmin"])
def test_the_first_nan_is_the_largest_and_the_least(function: str) -> None:
    plan = planned(function, "f16", 33)
    x = np.random.default_rng(0).standard_normal((24, 33)).astype(np.float16)
    for row in range(1, 24):
        x[row, row] = x[row, -1] = np.nan
    assert_agrees(plan, function, x)
    worst = -np.inf if function == "argmax" else np.inf
    # what lies beside a row is as large and comes earlier
    assert_agrees(plan, function, np.full((9, 33), worst, np.float16))


def test_a_wrong_shift_of_short_rows_is_refused() -> None:
    for function, dtype in (("max", "u8"), ("argmax", "f16")):
        plan = planned(function, dtype, 131)
        (schedule,) = plan.schedules[-1:]
        assert prove(plan.scop, schedule).kind is Kind.LEGAL
        for times, by in ((2, 0), (1, 8), (-1, 0)):
            verdict = prove(plan.scop, moved(schedule, times, by))
            assert (verdict.kind, verdict.hazard) == (Kind.ILLEGAL, Hazard.COMBINE) and verdict.witness is not None


LOOPS = {
    "bytes": ("max", "u8", 8191),
    "sums of bytes": ("sum", "i8", 30013),
    "halves": ("max", "f16", 8191),
    "positions": ("argmax", "f16", 30011),
}


@pytest.mark.parametrize("case", LOOPS)
def test_loops_ask_for_the_ends_of_rows_in_trips_of_their_own(case: str) -> None:
    function, dtype, usual = LOOPS[case]
    plan = planned(function, dtype, usual)
    span = tiles(plan)["lanes"] * tiles(plan)["chunks"] * 8
    loops = [op for op in plan.launches[0].kernel.body if isinstance(op, ir.For)]
    whole = [op for loop in loops for op in loop.body if isinstance(op, ir.Load) and not op.cut]
    assert len(loops) == 2 and len(whole) == 1 and whole[0].vector == 8
    rest = usual % 8
    for length in (span + rest, 2 * span - 8 + rest, 2 * span + rest, 3 * span - 8 + rest):  # one trip to three whole
        assert_agrees(plan, function, drawn(dtype, (5, length), length))


def test_rows_shorter_than_a_trip_have_another_plan() -> None:
    plan = planned("max", "u8", 8191)
    span = tiles(plan)["lanes"] * tiles(plan)["chunks"] * 8
    assert any(g.expression == Affine.symbol("M") - span and not g.advisory for g in plan.schedules[0].guards)


def test_a_loop_that_may_be_shorter_than_a_row_stays_one() -> None:
    """Nothing says that rows have a whole trip: without its guard the kernel asks in every one."""
    from polyfuse.lower.kernel import lower

    plan = planned("max", "u8", 8191)
    (schedule,) = plan.schedules
    loose = replace(schedule, guards=tuple(g for g in schedule.guards if g.modulus))
    kernel = lower(plan.scop, loose, {}).kernel
    assert len([op for op in kernel.body if isinstance(op, ir.For)]) == 1
    assert all(op.cut for op in flatten(kernel.body) if isinstance(op, ir.Load))


COLUMNS = {
    "largest": (lambda x: np.max(x, axis=0), "u8[N~32767, M~8191]"),
    "largest in shares": (lambda x: np.max(x, axis=0), "i8[N~1000003, M~131]"),
    "sums": (lambda x: np.sum(x, axis=0), "u8[N~1000003, M~131]"),
    "any": (lambda x: np.any(x, axis=0), "bool[N~32767, M~8189]"),
    "least halves": (lambda x: np.min(x, axis=0), "f16[N~16383, M~8191]"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_of_bytes_are_read_in_whole_vectors(case: str) -> None:
    """Single bytes of 1000003 x 131 take an H200 171 us, of which 31 are their bytes."""
    function, spec = COLUMNS[case]
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    first = plan.schedules[0]
    assert first.strategy == "columns" and dict(first.parameters)["vector"] == 8
    assert_legal(plan)
    rest, dtype = int(spec.partition("M~")[2][:-1]) % 8, spec.partition("[")[0]
    for rows in (16, 23, 255, 256, 257, 263, 600):  # of eight or sixteen parts
        for length in (8 + rest, 32 + rest):
            x = drawn(dtype, (rows, length), rows)
            (found,) = run_plan(plan, [x])
            np.testing.assert_array_equal(found, function(x).astype(found.dtype))


def test_trips_that_have_all_their_rows_ask_for_none() -> None:
    """What is one number of each row keeps the rows apart, in frames."""

    def function(x, w):
        return np.max(x * w[:, None], axis=0)

    specs = "u8[N~32767, M~8191]", "u8[N~32767]"
    kernel = pf.jit(function).plan(*map(pf.spec, specs), target="h200").launches[0].kernel
    whole, ends = [op for op in kernel.body if isinstance(op, ir.For)]
    row = Affine.symbol(f"${whole.digit}")
    for loop, asks in ((whole, False), (ends, True)):
        assert any(row.names() & w.names() for w in masks(loop.body)) is asks


def test_bytes_that_a_mask_would_replace_with_what_is_loaded_are_not_masked() -> None:
    """What a load leaves out is 0 already, which is the least byte; or it gets the least one."""
    function, spec = COLUMNS["largest in shares"]
    for dtype, others in (("u8", set()), ("i8", {"-128"})):
        source = pf.jit(function).plan(pf.spec(spec.replace("i8", dtype)), target="h200").source()
        (part,) = [line for line in source.splitlines() if "max_share_part = " in line]
        assert "where(" not in part and set(re.findall(r" load.*other=([-\d]+)", source)) == others


SHARES = {
    "sums": ("sum", "i16", "sum"),
    "largest bytes": ("max", "u8", "max"),
    "positions": ("argmin", "f16", "argmin"),
}


@pytest.mark.parametrize("case", SHARES)
def test_shares_of_long_rows_are_cut_where_memory_has_vectors(case: str) -> None:
    """Where 64 rows of 2000003 bfloat16 are larger than 0 takes an H200 81 us in single elements, of 60."""
    function, dtype, name = SHARES[case]
    spec, rng = pf.spec(f"{dtype}[N~64, M~2000003]"), np.random.default_rng(0)
    plan = pf.jit(FUNCTIONS[function]).plan(spec, target="h200")
    assert {"frames", "share"} <= tiles(plan).keys()
    plan = pf.jit(FUNCTIONS[function]).plan(spec, target="h200", tiles={name: {"share": 16384}})
    assert (tiles(plan)["frames"], tiles(plan)["share"]) == (1, 16384)
    for length in (3, 19, 16379, 16387, 32771, 3 * 16384 + 3):  # less than a share to three whole ones
        assert_agrees(plan, function, rng.integers(0, 4, (3, length)).astype(DTYPES[dtype]))
    schedule = plan.schedules[-1]
    for times, by in ((2, 0), (1, 8), (-1, 0)):
        verdict = prove(plan.scop, moved(schedule, times, by))
        assert (verdict.kind, verdict.hazard) == (Kind.ILLEGAL, Hazard.COMBINE) and verdict.witness is not None


def test_shares_that_lie_inside_of_a_row_ask_for_no_end() -> None:
    kernel = planned("max", "u8", 2_000_003).launches[0].kernel
    (choice,) = [op for op in kernel.body if isinstance(op, ir.If) and op.orelse]
    assert sum(isinstance(op, ir.Elect) for op in flatten(kernel.body)) == 1  # what follows the shares is written once
    for part, cut in ((choice.body, False), (choice.orelse, True)):
        loads = [op for op in flatten(part) if isinstance(op, ir.Load) and op.array == "x_in"]
        assert [(op.vector, op.cut) for op in loads] == [(8, cut)]


def test_rows_of_a_block_lie_side_by_side() -> None:
    """Softmax of 4096 x 12 x 49 rows of 49 with a bias for each of 12 x 49: the rows of a block 58 KB apart take an
    H100 333 us, side by side 228."""
    plan = pf.jit(biased_softmax).plan(*map(pf.spec, ("f16[N~4096, 12, 49, 49]", "f16[12, 49, 49]")), target="h200")
    (kernel,) = plan.kernels
    (load,) = [p for p in kernel.schedule.placed if p.role == "load" and len(p.place) == 3]
    ty = next(d for d in kernel.schedule.of_kind("thread") if d.name == "ty")
    along = [d for d, entry in enumerate(load.place) if isinstance(entry, Affine) and "$ty" in entry.names()]
    assert ty.count > 1 and along[0] == 1  # of 12 * 49 rows, not of 4096 batches
    assert_legal(plan)


def test_results_are_those_of_numpy_where_rows_lie_side_by_side() -> None:
    draw = np.random.default_rng(7)
    x, bias = (draw.standard_normal((*batch, 3, 49, 49)).astype(np.float16) for batch in ((5,), ()))
    specs = ("f16[N~4096, 3, 49, 49]", "f16[3, 49, 49]")
    (found,) = run_plan(pf.jit(biased_softmax).plan(*map(pf.spec, specs), target="h200"), [x, bias])
    wanted = biased_softmax(x.astype(np.float64), bias.astype(np.float64))
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2e-2, atol=1e-3)


def test_few_rows_side_by_side_leave_the_longest_class_to_threads() -> None:
    """Of three rows next to each other thirteen of sixteen threads would find none."""
    plan = pf.jit(biased_softmax).plan(*map(pf.spec, ("f16[N~400000, 3, 49]", "f16[3, 49]")), target="h200")
    (kernel,) = plan.kernels
    (load,) = [p for p in kernel.schedule.placed if p.role == "load" and len(p.place) == 3]
    used = [entry.names() if isinstance(entry, Affine) else () for entry in load.place]
    assert "$ty" in used[0] or "$ty" not in used[1]
