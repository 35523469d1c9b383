"""Masks of values by counts: the same elements, without a predicate that their loads keep until they have arrived."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.dtypes import f32
from polyfuse.face.interpreted import run_plan
from polyfuse.lower.counted import ELEMENTS, PREDICATES, STORED, with_counts
from polyfuse.terms import Apply, Const, Inside, Ref

T, C, V, N = digit("t"), digit("c"), digit("v"), Affine.symbol("N")
LOWEST = Const(float("-inf"), f32)


def load(where: tuple[Affine, ...], name: str = "x") -> ir.Load:
    return ir.Load(name, "a", (T + 4 * C,), where, None, Const(0.0, f32))


def kept(where: tuple[Affine, ...], name: str = "x") -> ir.Let:
    return ir.Let(f"{name}.kept", Apply("where", (Inside(where), Ref(name, f32), LOWEST), f32))


def mask_of(op: ir.Op) -> tuple[Affine, ...]:
    assert isinstance(op, ir.Let) and isinstance(op.value, Apply)
    (inside, *_) = op.value.operands
    assert isinstance(inside, Inside)
    return inside.where


@pytest.mark.parametrize("condition", [N - 1 - T - 4 * C, T + 4 * C - N, N + 2 * T - 4 * C + 4 * V - 9], ids=str)
def test_a_count_holds_where_the_condition_does(condition: Affine) -> None:
    slots = (ir.Slot("c", 5), ir.Slot("v", 2))
    body = (load((condition,)), kept((condition,)))
    if not condition.coefficient("$v"):  # 5 elements have predicates of their own
        assert with_counts(body, slots) == body
        slots = (ir.Slot("c", PREDICATES + 1),)
    loaded, value = with_counts(body, slots)
    (count,) = mask_of(value)
    assert loaded == body[0] and count != condition
    ranges = [range(s.extent) for s in slots]
    for n, t, *at in product(range(40), range(6), *ranges):
        values = {"N": n, "$t": t, "$v": 0} | {f"${s.name}": k for s, k in zip(slots, at, strict=True)}
        assert (count.evaluate(values) >= 0) == (condition.evaluate(values) >= 0)


def test_few_elements_and_many_stay_as_they_are() -> None:
    where = (N - 1 - T - 4 * C,)
    for extent in (PREDICATES, ELEMENTS + 1):
        body = (load(where), kept(where))
        assert with_counts(body, (ir.Slot("c", extent),)) == body
    two = (load(where), load(where, "y"), kept(where))
    assert with_counts(two, (ir.Slot("c", ELEMENTS // 2),)) != two
    assert with_counts(two, (ir.Slot("c", ELEMENTS // 2 + 1),)) == two


def test_what_no_load_shares_or_many_use_stays() -> None:
    where, other, slots = (N - 1 - T - 4 * C,), (N - 2 - T - 4 * C,), (ir.Slot("c", 16),)
    body = (load(where), kept(other))
    assert with_counts(body, slots) == body
    often = (load(where), *(kept(where, name) for name in "xyz"))
    assert with_counts(often, slots) == often
    single = (load((N - 1 - T - C,)), kept((N - 1 - T - C,)))
    assert with_counts(single, slots) == single  # nothing to divide by


def stored(where: tuple[Affine, ...]) -> ir.Store:
    return ir.Store("b", (T + 4 * C,), Ref("x", f32), where)


@pytest.mark.parametrize("of_values", [False, True])
def test_stores_count_where_a_load_shares_two_conditions(of_values: bool) -> None:
    rows, columns = N - 1 - T - 4 * C, Affine.symbol("M") - 1 - V
    slots = (ir.Slot("c", STORED + 1),)
    body = (load((columns, rows)), stored((columns, rows)))
    loaded, store = with_counts(body, slots, of_values=of_values)
    assert loaded == body[0] and isinstance(store, ir.Store)
    (first, count) = store.where
    assert first == columns and count != rows
    for n, t, c in product(range(80), range(6), range(STORED + 1)):
        values = {"N": n, "$t": t, "$c": c}
        assert (count.evaluate(values) >= 0) == (rows.evaluate(values) >= 0)
    pieces = (*body[:1], load((columns, rows - 4 * STORED), "y"), body[1])
    half = (ir.Slot("c", STORED // 2 + 1),)
    assert with_counts(pieces, half, of_values=of_values) != pieces, "the elements of all loads count"


def test_stores_of_few_elements_or_one_condition_stay() -> None:
    rows, columns = N - 1 - T - 4 * C, Affine.symbol("M") - 1 - V
    few = (load((columns, rows)), stored((columns, rows)))
    assert with_counts(few, (ir.Slot("c", STORED),)) == few
    single = (load((rows,)), stored((rows,)))
    assert with_counts(single, (ir.Slot("c", 2 * STORED),)) == single
    other = (load((columns, rows)), stored((columns, rows - 1)))
    assert with_counts(other, (ir.Slot("c", 2 * STORED),)) == other


def test_stores_count_with_values() -> None:
    """Rows of decibels below their maximum: 5 of 32 loads were on their way, 378 us on an H200, and 136 so."""
    rows, slots = N - 1 - T - 4 * C, (ir.Slot("c", 16),)
    body = (load((rows,)), kept((rows,)), stored((rows,)))
    loaded, value, store = with_counts(body, slots)
    assert loaded == body[0] and isinstance(store, ir.Store)
    assert store.where == mask_of(value) != (rows,)
    assert with_counts(body, slots, of_values=False) == body


def over_their_norm(x: Any) -> Any:
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("shape", [(2, 512, 7, 7), (3, 450, 5, 9), (1, 300, 7, 7)])
def test_panels_store_by_counts(shape: tuple[int, ...]) -> None:
    """By ptxas 1,312 instructions, 64 registers and 56 bytes spilled with masks that both share."""
    function = pf.jit(over_their_norm, strategies={"divide": "panels"})
    plan = function.plan(pf.spec("f32[N~1024, C~512, H~7, W~7]"), target="h200")
    assert re.search(r"store\(.*mask=cols & \(u <= \w+ - ty - 1 >> \d\)\)", plan.source())
    x = np.random.default_rng(shape[1]).standard_normal(shape, np.float32)
    (found,) = run_plan(plan, (x,))
    np.testing.assert_allclose(found, over_their_norm(x.astype(np.float64)), rtol=1e-5)


def scaled(x: Any, w: Any) -> Any:
    z = x / w[:, None]
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def by_batch(x: Any, w: Any) -> Any:
    z = x + w[:, None]
    e = np.exp(z - z.max(axis=2, keepdims=True))
    return e / e.sum(axis=2, keepdims=True)


def test_rows_that_are_masked_behind_arithmetic_are_counted() -> None:
    """By ptxas 17 of 32 loads were on their way at once, then two after each other: 188 us on an H200, 121 so."""
    plan = pf.jit(scaled).plan(pf.spec("f32[N~16384, M~4001]"), pf.spec("f32[N~16384]"), target="h200")
    source = plan.source()
    assert re.search(r"load\(.*mask=tx \+ 128 \* c < M\)", source)
    assert "mask = c <= M - tx - 1 >> 7" in source
    assert re.search(r"\w+_kept = where\(mask, ", source) and re.search(r"store\(.*mask=mask\)", source)


@pytest.mark.parametrize("columns", [2049, 2500, 3333, 4001])
def test_results_of_counted_rows(columns: int) -> None:
    plan = pf.jit(scaled).plan(pf.spec("f32[N~16384, M~4001]"), pf.spec("f32[N~16384]"), target="h200")
    rng = np.random.default_rng(columns)
    x, w = rng.standard_normal((3, columns), np.float32), rng.uniform(0.5, 2, 3).astype(np.float32)
    (found,) = run_plan(plan, (x, w))
    np.testing.assert_allclose(found, scaled(x.astype(np.float64), w.astype(np.float64)), rtol=1e-4, atol=1e-9)


def test_one_division_tells_the_indices_of_a_block() -> None:
    """Both of rows of a batch: with a remainder of its own softmax of rows of 513 took 80 registers, 64 without."""
    plan = pf.jit(by_batch).plan(pf.spec("f32[B~16, N~6000, M~513]"), pf.spec("f32[B~16, M~513]"), target="h200")
    source = plan.source()
    assert "b1 = block(0) // ((N + 3) // 4)" in source
    assert "b0 = block(0) - b1 * ((N + 3) // 4)" in source
    assert "%" not in source


def test_three_indices_of_a_block() -> None:
    def biased(x: Any, w: Any, v: Any) -> Any:
        z = x + w[:, None, None] + v[:, None]
        e = np.exp(z - z.max(axis=3, keepdims=True))
        return e / e.sum(axis=3, keepdims=True)

    specs = "f32[A~8, B~16, N~700, M~513]", "f32[A~8, M~513]", "f32[B~16, M~513]"
    plan = pf.jit(biased).plan(*map(pf.spec, specs), target="h200")
    source = plan.source()
    assert "above0 = block(0) // " in source and "b2 = above0 // " in source and "b1 = above0 - b2 * " in source
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(shape, np.float32) for shape in ((2, 3, 5, 401), (2, 401), (3, 401))]
    (found,) = run_plan(plan, arrays)
    np.testing.assert_allclose(found, biased(*(x.astype(np.float64) for x in arrays)), rtol=1e-4, atol=1e-9)
