"""Prefixes of rows that begin anywhere in memory, in aligned vectors that the ends of a row cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.face.interpreted import run_plan
from polyfuse.legality import prove
from polyfuse.lower.inspect import flatten
from polyfuse.plan import Plan
from polyfuse.testing import assert_legal
from polyfuse.verdict import Kind
from tests.schedules.test_frames import moved

DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "i64": np.int64, "i8": np.int8}
BYTES = 268_000_000


def sums(x: Any) -> Any:
    return np.cumsum(x, axis=1)


def maxima(x: Any) -> Any:
    return np.maximum.accumulate(x, axis=1)


def backward(x: Any) -> Any:
    return np.cumsum(x[:, ::-1], axis=1)[:, ::-1]


def shares(x: Any) -> Any:
    c = np.cumsum(x * x + 1, axis=1)
    return c / c[:, -1:]


def before(x: Any) -> Any:
    return np.cumsum(x, axis=1) - x


def planned(function: Callable[[Any], Any], dtype: str, length: int) -> Plan:
    rows = BYTES // (length * np.dtype(DTYPES[dtype]).itemsize)
    return pf.jit(function).plan(pf.spec(f"{dtype}[N~{rows}, M~{length}]"), target="h200")


def tiles(plan: Plan) -> dict[str, int]:
    return dict(plan.kernels[0].parameters)


def drawn(dtype: str, shape: tuple[int, int]) -> np.ndarray:
    return np.random.default_rng(shape[1]).integers(-2, 3, shape).astype(DTYPES[dtype])


def assert_agrees(plan: Plan, function: Callable[[Any], Any], x: np.ndarray) -> None:
    (found,) = run_plan(plan, [x])
    exact = function(x.astype(np.int64 if x.dtype.kind == "i" else np.float64))
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=2e-2 if x.dtype.itemsize == 2 else 1e-5, atol=1e-6)


FRAMED = [("bf16", 777), ("bf16", 8191), ("f16", 37), ("i64", 1501), ("f32", 2001)]


@pytest.mark.parametrize(("dtype", "length"), FRAMED)
def test_lanes_have_aligned_vectors(dtype: str, length: int) -> None:
    plan = planned(sums, dtype, length)
    vector = 16 // np.dtype(DTYPES[dtype]).itemsize
    assert len(plan.kernels) == 1 and (tiles(plan).get("frames"), tiles(plan)["vector"]) == (1, vector)
    moves = [op for op in flatten(plan.launches[0].kernel.body) if isinstance(op, (ir.Load, ir.Store))]
    assert {op.vector for op in moves} == {vector}
    assert_legal(plan)
    for rows in (1, 9, 16):  # rows of all remainders, more of them than a block has
        assert_agrees(plan, sums, drawn(dtype, (rows, length)))


@pytest.mark.parametrize("function", [maxima, backward, shares, before])
@pytest.mark.parametrize("remainder", [1, 3, 4, 7])
def test_rows_of_all_remainders(function: Callable[[Any], Any], remainder: int) -> None:
    """What lies beside a row comes into no prefix, from either end."""
    length = 1200 + remainder
    plan = planned(function, "f16", length)
    assert_legal(plan)
    assert_agrees(plan, function, drawn("f16", (11, length)))


@pytest.mark.parametrize("function", [sums, maxima])
def test_what_lies_beside_a_row_is_neutral(function: Callable[[Any], Any]) -> None:
    plan = planned(function, "i64", 1501)
    assert tiles(plan).get("frames") == 1
    x = drawn("i64", (8, 1501)) - 100
    x[1::2] = 10**15  # what a vector has of the next row, or of the one before, is larger than all of this one
    assert_agrees(plan, function, x)


def test_lengths_of_the_same_remainder_share_a_kernel() -> None:
    plan = planned(sums, "bf16", 2001)
    loops = bool(plan.schedules[0].of_kind("loop"))
    assert tiles(plan).get("frames") == 1
    for length in (1993, 2009, *((17, 4001) if loops else ())):
        assert_agrees(plan, sums, drawn("bf16", (9, length)))


def test_a_wrong_shift_is_refused() -> None:
    for dtype, length in (("bf16", 777), ("i64", 1501), ("f32", 2001)):
        plan = planned(sums, dtype, length)
        (schedule,) = plan.schedules
        assert prove(plan.scop, schedule).kind is Kind.LEGAL
        for times, by in ((2, 0), (1, 8), (-1, 0)):
            verdict = prove(plan.scop, moved(schedule, times, by))
            assert verdict.kind is Kind.ILLEGAL and verdict.witness is not None, (dtype, times, by)


@pytest.mark.parametrize(
    ("dtype", "length", "why"),
    [("f32", 2000, "whole vectors"), ("f32", 37, "a warp has a row of words"), ("bf16", 1024, "whole vectors")],
)
def test_rows_without_a_frame(dtype: str, length: int, why: str) -> None:
    plan = planned(sums, dtype, length)
    assert "frames" not in tiles(plan), why
    assert_agrees(plan, sums, drawn(dtype, (5, length)))


def test_little_is_not_framed() -> None:
    plan = pf.jit(sums).plan(pf.spec("bf16[N~20, M~777]"), target="h200")
    assert "frames" not in tiles(plan)


STEPS = (
    "({v} * 2 + 1)",
    "np.cumsum({v}, axis=1)",
    "np.maximum.accumulate({v}, axis=1)",
    "({v})[:, 2:]",
    "({v})[:, ::-1]",
    "({v} + ({v})[:1])",
    "(({v})[:, 1:] - ({v})[:, :-1])",
    "({v} - ({v}).max(axis=1, keepdims=True))",
    "({v} + ({v})[:, -1:])",
)


@pytest.mark.parametrize("seed", range(24))
def test_programs_around_a_scan(seed: int) -> None:
    """Slices and rows that all share begin elsewhere than the rows that are written."""
    rng = np.random.default_rng(seed)
    text = "x"
    for step in (*rng.choice(STEPS, 2), STEPS[1 + seed % 2], *rng.choice(STEPS, 1)):
        text = step.format(v=text)
    function = eval(f"lambda x: {text}", {"np": np})
    dtype, length = str(rng.choice(["bf16", "f16", "i64"])), int(rng.integers(33, 1500)) | 1
    plan = planned(function, dtype, length)
    assert_legal(plan)
    assert_agrees(plan, function, drawn(dtype, (9, length)))
