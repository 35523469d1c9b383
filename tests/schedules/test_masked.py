"""Values that a reduction masked are used as it left them, and sums mask no terms that are 0 already."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.dtypes import f32
from polyfuse.face.interpreted import run_plan
from polyfuse.lower.border import masks
from polyfuse.lower.masked import with_masked_values
from polyfuse.lower.neutral import without_idle_masks
from polyfuse.schedule import Digit
from polyfuse.terms import Apply, Const, Expr, Inside, Ref

V, C, ROW, N = digit("v"), digit("c"), digit("ty"), Affine.symbol("N")
COUNTS = (N - 1 - V,)
WHERE = (*COUNTS, 4 - ROW)
LOAD = ir.Load("x", "a", (ROW, V), WHERE, None, Const(0.0, f32))
CUT = replace(LOAD, vector=8, cut=True)
THREADS = (Digit("tx", "thread", Affine.of(32)), Digit("ty", "thread", Affine.of(4), 32))
X = Ref("x", f32)
LOWEST = Const(float("-inf"), f32)


def masked(value: Expr, other: Const = LOWEST) -> Apply:
    return Apply("where", (Inside(COUNTS), value, other), f32)


def maximum(value: Expr) -> ir.Reduce:
    return ir.Reduce(("m",), "max", (value,), ("v",))


def total(value: Expr, *slots: str) -> ir.Reduce:
    return ir.Reduce(("s",), "sum", (value,), slots or ("v",))


def store(value: Expr, *where: Affine) -> ir.Store:
    return ir.Store("y", (ROW, V), value, where or WHERE)


def shifted(value: Expr) -> ir.Let:
    return ir.Let("d", Apply("subtract", (value, Ref("m", f32)), f32))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# ---------------------------------------------------------------------------------------------- what reductions leave


def test_a_load_gives_what_the_reduction_wants() -> None:
    found = with_masked_values((LOAD, maximum(masked(X)), shifted(X), store(Ref("d", f32))), THREADS)
    assert found == (replace(LOAD, other=LOWEST), maximum(X), shifted(X), store(Ref("d", f32)))


def test_cut_vectors_are_masked_behind_all_loads_and_once() -> None:
    kept = Ref("x.kept", f32)
    found = with_masked_values((CUT, maximum(masked(X)), shifted(X), store(Ref("d", f32))), THREADS)
    assert found == (CUT, ir.Let("x.kept", masked(X)), maximum(kept), shifted(kept), store(Ref("d", f32)))


def test_single_elements_are_masked_as_they_are_loaded() -> None:
    """Of a value made of two loads, one of which asks for its row besides: one mask where nobody sees another row."""
    other = replace(LOAD, name="w", array="b", index=(V,), where=COUNTS)
    added = ir.Let("z", Apply("add", (X, Ref("w", f32)), f32))
    z, kept = Ref("z", f32), Ref("z.kept", f32)
    body = (LOAD, other, added, maximum(masked(z)), shifted(z), store(Ref("d", f32)))
    wider = Apply("where", (Inside(WHERE), z, LOWEST), f32)
    left = (ir.Let("z.kept", wider), maximum(kept), shifted(kept), store(Ref("d", f32)))
    assert with_masked_values(body, THREADS) == (LOAD, other, added, *left)


def test_where_another_row_is_seen_the_mask_stays() -> None:
    other = replace(LOAD, name="w", array="b", index=(V,), where=COUNTS)
    added = ir.Let("z", Apply("add", (X, Ref("w", f32)), f32))
    z, kept = Ref("z", f32), Ref("z.kept", f32)
    seen = ir.Store("y", (ROW, V), Ref("d", f32), COUNTS)
    found = with_masked_values((LOAD, other, added, maximum(masked(z)), shifted(z), seen), THREADS)
    assert found == (LOAD, other, added, ir.Let("z.kept", masked(z)), maximum(kept), shifted(kept), seen)


def test_masks_of_rows_of_a_batch_are_one() -> None:
    """Softmax of 513 with a row of a mask for each batch: by ptxas 5 of its 48 loads were on their way at once, 291 us
    on an H100; 138 with one mask.  What is kept asks for the row as well, by a count, as what is stored does."""

    def function(x: Any, w: Any) -> Any:
        z = x + w[:, None]
        e = np.exp(z - z.max(axis=2, keepdims=True))
        return e / e.sum(axis=2, keepdims=True)

    plan = pf.jit(function).plan(pf.spec("f32[B~16, N~6000, M~513]"), pf.spec("f32[B~16, M~513]"), target="h200")
    source = plan.source()
    (counted,) = re.findall(r"(\w+) = rows & \(c <= M - tx - 1 >> 5\)\n", source)
    assert f"_kept = where({counted}, " in source and re.search(rf"store\(.*mask={counted}\)", source)
    assert source.count("mask=rows & mask)") == 1 and source.count("mask=mask)") == 1  # of the loads


SEEN = {
    "stored in all elements": (store(X, WHERE[1]),),
    "summed as it is": (total(X), store(Ref("s", f32))),
    "an index": (ir.Store("y", (X,), Const(1.0, f32), WHERE),),
    "a mask": (ir.Store("y", (ROW, V), Const(1.0, f32), WHERE, X),),
}


@pytest.mark.parametrize("load", [LOAD, CUT])
@pytest.mark.parametrize("case", SEEN)
def test_what_somebody_sees_stays(load: ir.Load, case: str) -> None:
    body = (load, maximum(masked(X)), *SEEN[case])
    assert with_masked_values(body, THREADS) == body


def test_a_load_keeps_what_other_rows_see() -> None:
    """Rows that do not exist are combined with others, as zeros."""
    body = (LOAD, maximum(masked(X)), ir.Combine(("t",), "sum", (X,), 127), store(Ref("t", f32)))
    assert with_masked_values(body, THREADS)[0] == LOAD


def test_what_is_used_outside_of_a_branch_stays() -> None:
    body = (LOAD, ir.If(X, (maximum(masked(X)), shifted(X), store(Ref("d", f32)))))
    assert with_masked_values(body, THREADS) == body


# ---------------------------------------------------------------------------------------------- masks of zeros

TOP = (replace(LOAD, other=LOWEST), maximum(X), ir.Combine(("m",), "max", (Ref("m", f32),), 31), shifted(X))
POWER = ir.Let("e", Apply("exp", (Ref("d", f32),), f32))
TERM = masked(Ref("e", f32), Const(0.0, f32))
JOINED = ir.Combine(("s",), "sum", (Ref("s", f32),), 31)


def test_exponentials_of_padding_are_zero() -> None:
    assert without_idle_masks((*TOP, POWER, total(TERM), JOINED)) == (*TOP, POWER, total(Ref("e", f32)), JOINED)


def test_what_was_masked_in_front_takes_its_own_name() -> None:
    kept = Ref("e.kept", f32)
    body = (*TOP, POWER, ir.Let("e.kept", TERM), total(kept), JOINED, store(kept))
    e = Ref("e", f32)
    assert without_idle_masks(body) == (*TOP, POWER, total(e), JOINED, store(e))


NEEDED = {
    "of other slots": (*TOP, POWER, total(TERM, "v", "c"), JOINED),
    "of other threads": (*TOP, POWER, total(TERM), replace(JOINED, bits=127)),
    "of another maximum": (*TOP, ir.Let("m", Const(1.0, f32)), shifted(X), POWER, total(TERM), JOINED),
    "of no exponential": (*TOP, total(masked(Ref("d", f32), Const(0.0, f32))), JOINED),
    "of padding that is no maximum's": (LOAD, *TOP[1:], POWER, total(TERM), JOINED),
    "of other elements": (
        *TOP,
        POWER,
        total(Apply("where", (Inside((N - 2 - V,)), Ref("e", f32), Const(0.0, f32)), f32)),
        JOINED,
    ),
}


@pytest.mark.parametrize("case", NEEDED)
def test_masks_that_are_needed_stay(case: str) -> None:
    assert without_idle_masks(NEEDED[case]) == NEEDED[case]


# ---------------------------------------------------------------------------------------------- programs


@pytest.mark.parametrize("length", [777, 1000, 3001])
def test_softmax_masks_its_rows_once(length: int) -> None:
    plan = pf.jit(softmax).plan(pf.spec(f"f16[N~100000, M~{length}]"), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "rows" and plan.source().count("where") <= 1


@pytest.mark.parametrize("length", [777, 3001])
@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan])
def test_rows_without_numbers_are_what_numpy_makes_of_them(length: int, value: float) -> None:
    plan = pf.jit(softmax).plan(pf.spec(f"f16[N~100000, M~{length}]"), target="h200")
    x = np.random.default_rng(0).standard_normal((6, length)).astype(np.float16)
    x[1, 5], x[2, length - 1], x[3] = value, value, value
    (found,) = run_plan(plan, (x,))
    with np.errstate(invalid="ignore"):
        exact = softmax(x.astype(np.float64))
    np.testing.assert_allclose(found, exact, rtol=4e-3, atol=1e-5)


@pytest.mark.parametrize("length", [8201, 9999])
def test_a_sum_of_rows_leaves_out_no_row_where_a_load_leaves_out_an_element(length: int) -> None:
    """The condition of a load that asks for a column too is none of a sum over rows: it was 0 where the last of the
    columns that a thread has is beyond the row."""

    def least(x: Any) -> Any:
        at = x.argmin(axis=1, keepdims=True)
        return at.sum(axis=0, keepdims=True), np.where(x > 1, x, at)

    plan = pf.jit(least, verify=True).plan(pf.spec("f32[5, K~9999]"), target="h100")
    assert [k.strategy for k in plan.kernels] == ["one_pass"]
    x = np.random.default_rng(0).standard_normal((5, length)).astype(np.float32)
    for got, exact in zip(run_plan(plan, [x]), least(x), strict=True):
        np.testing.assert_array_equal(got, exact)


@pytest.mark.parametrize("first", ["max", "min"])
def test_what_one_reduction_masks_others_of_a_loop_do_not_see(first: str) -> None:
    """Their running results leave the loop: the largest of a row took what the least had put outside of it."""

    def spread(x: Any) -> Any:
        ends = (x.max(axis=(0, 1)), x.min(axis=(0, 1)))
        flat = x.reshape(-1)
        return (ends[0] - ends[1] if first == "max" else -ends[1] + ends[0]), flat[::2], x.reshape(3, 2, 6)

    plan = pf.jit(spread).plan(pf.spec("i64[6, 6]"), target="h200")
    x = np.random.default_rng(0).integers(0, 2, (6, 6))
    for got, exact in zip(run_plan(plan, [x]), spread(x), strict=True):
        np.testing.assert_array_equal(got, exact)


def test_a_value_of_the_next_trip_is_seen() -> None:
    """As a running maximum that is stored in front, which takes what the load leaves outside."""
    running = ir.Let("top", Apply("maximum", (Ref("top", f32), X), f32))
    body = (ir.Store("y", (ROW, V), Ref("top", f32)), LOAD, maximum(masked(X)), running)
    loop = (ir.Let("top", LOWEST), ir.For("r", Affine.of(3), body))
    assert with_masked_values(loop, THREADS) == loop


# ---------------------------------------------------------------------------------------------- columns in loops


RUNNING = Ref("top", f32)


def looped(load: ir.Load, reduced: Expr, where: tuple[Affine, ...]) -> tuple[ir.Op, ...]:
    """A running maximum of what is loaded in each trip, stored where `where` holds."""
    running = ir.Let("top", Apply("maximum", (RUNNING, Ref("m", f32)), f32))
    loop = ir.For("r", Affine.of(3), (load, maximum(reduced), running))
    return ir.Let("top", LOWEST), loop, ir.Store("y", (ROW,), RUNNING, where)


def test_a_loop_loads_what_its_reduction_wants() -> None:
    """What the load leaves out besides, rows that do not exist, nobody sees."""
    found = with_masked_values(looped(LOAD, masked(X), (4 - ROW,)), THREADS)
    assert found == looped(replace(LOAD, other=LOWEST), X, (4 - ROW,))


@pytest.mark.parametrize(("load", "where"), [
    (LOAD, ()),  # of rows that do not exist the least would be stored, in place of 0 or the least
    (replace(LOAD, mask=Ref("b", f32)), (4 - ROW,)),  # of which a condition on data leaves some out
    (CUT, (4 - ROW,)),
])  # fmt: skip
def test_a_loop_keeps_masks_that_somebody_sees(load: ir.Load, where: tuple[Affine, ...]) -> None:
    body = looped(load, masked(X), where)
    assert with_masked_values(body, THREADS) == body


@pytest.mark.parametrize("function", [
    lambda x: x.max(axis=1), lambda x: np.prod(x, axis=1), lambda x: (x.min(axis=1), x.max(axis=1)),
    lambda x: np.exp(x).sum(axis=1), lambda x: np.any(x > 2, axis=1), lambda x: np.log(np.exp(x).sum(axis=1) + x[:, 0]),
    lambda x: (x.max(axis=1), x.sum(axis=1)),
])  # fmt: skip
@pytest.mark.parametrize("shape", [(2, 9, 33), (3, 8, 1), (1, 21, 130)])
def test_columns_are_numpys(function: Any, shape: tuple[int, ...]) -> None:
    plan = pf.jit(function).plan(pf.spec("f64[B~64, K~4096, N~1023]"), target="h200")
    x = np.random.default_rng(shape[2]).standard_normal(shape)
    expected = function(x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for mine, exact in zip(run_plan(plan, [x]), expected, strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-12)


def test_loads_of_columns_do_not_wait_for_predicates() -> None:
    """On an H200, of 64 x 4096 x 1023 float32: the largest 299 us with a mask of its own behind each load, 278 without;
    sums of exponentials 345 and 264 to 276, whether there is one of more than 2 of 16 x 1000 x 16001 308 and 247."""
    spec = pf.spec("f32[B~64, K~4096, N~1023]")
    source = pf.jit(lambda x: x.max(axis=1)).plan(spec, target="h200").source()
    assert "other=-INF)" in source and "where(" not in source
    for function in (lambda x: np.exp(x).sum(axis=1), lambda x: np.any(x > 2, axis=1)):
        plan = pf.jit(function).plan(spec, target="h200")
        whole = next(op for op in plan.launches[0].kernel.body if isinstance(op, ir.For))
        row = f"${whole.digit}"
        assert not any(row in w.names() for w in masks(whole.body))  # the last trip is apart


# ---------------------------------------------------------------------------------------------- padding


def padded(value: Expr, where: tuple[Affine, ...] = COUNTS, other: Const = LOWEST) -> ir.Let:
    return ir.Let("p", Apply("where", (Inside(where), value, other), f32))


P = Ref("p", f32)
ZERO = Const(0.0, f32)


def test_padding_is_what_a_load_gets_in_place_of_what_it_leaves_out() -> None:
    body = (LOAD, padded(X), store(P))
    assert with_masked_values(body, THREADS) == (replace(LOAD, other=LOWEST), ir.Let("p", X), store(P))
    around = (LOAD, padded(X, other=ZERO), ir.Let("q", masked(P, ZERO)), store(Ref("q", f32)))
    assert with_masked_values(around, THREADS) == (LOAD, ir.Let("p", X), ir.Let("q", P), store(Ref("q", f32)))


@pytest.mark.parametrize("body", [
    (LOAD, padded(X, (*WHERE, 3 - V)), store(P)),  # it leaves out more than the load
    (LOAD, padded(X), store(Apply("add", (P, X), f32))),  # something else takes what is loaded
    (replace(LOAD, mask=Ref("b", f32)), padded(X), store(P)),
    (CUT, padded(X), store(P)),
])  # fmt: skip
def test_padding_of_its_own_stays(body: tuple[ir.Op, ...]) -> None:
    assert with_masked_values(body, THREADS) == body


def test_padding_around_padding_stays() -> None:
    body = (LOAD, padded(X, WHERE, ZERO), ir.Let("q", masked(P)), store(Ref("q", f32)))
    found = with_masked_values(body, THREADS)
    assert found == (LOAD, ir.Let("p", X), ir.Let("q", masked(P)), store(Ref("q", f32)))


def box(x: Any, inner: float, outer: float) -> Any:
    p = np.pad(x, 1, constant_values=inner)
    p = np.pad(p, 1, constant_values=outer)
    return np.lib.stride_tricks.sliding_window_view(p, (3, 3, 3))[::2, ::2, ::2].max(axis=(-1, -2, -3))


@pytest.mark.parametrize("strategy", ["in_thread", "windows"])
@pytest.mark.parametrize(("inner", "outer"), [(0, 0), (-9, -9), (0, -9), (-9, 0)])
def test_padding_twice_is_numpys(strategy: str, inner: float, outer: float) -> None:
    def function(x: Any) -> Any:
        return box(x, inner, outer)

    wishes = {"strategies": {"max": strategy}}
    plan = pf.jit(function, **wishes).plan(pf.spec("f64[L~100, M~200, N~300]"), target="h200")
    assert strategy in [k.strategy for k in plan.kernels]
    for shape in ((5, 6, 36), (1, 2, 4)):
        x = np.random.default_rng(3).standard_normal(shape) - 4
        np.testing.assert_array_equal(run_plan(plan, [x])[0], function(x))
