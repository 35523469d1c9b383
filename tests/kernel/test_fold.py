"""Conditions on constants are decided while lowering: backends never see one."""

from __future__ import annotations

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.dtypes import bool_, f32
from polyfuse.lower.fold import folded, folded_term
from polyfuse.terms import Apply, Const, Inside, Ref

X, Y, P = Ref("x", f32), Ref("y", f32), Ref("p", bool_)
FAILS, HOLDS = Inside((Affine.of(-1), digit("b0"))), Inside((Affine.of(0),))


def both(function: str, *operands: ir.Expr) -> Apply:
    return Apply(function, operands, bool_)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (FAILS, Const(False, bool_)),
        (HOLDS, Const(True, bool_)),
        (Inside((Affine.of(3), digit("r") - 1)), Inside((digit("r") - 1,))),
        (Apply("where", (FAILS, X, Y), f32), Y),
        (Apply("where", (HOLDS, X, Y), f32), X),
        (Apply("negative", (Apply("where", (HOLDS, X, Y), f32),), f32), Apply("negative", (X,), f32)),
        (both("bitwise_and", HOLDS, P), P),
        (both("bitwise_and", P, FAILS), Const(False, bool_)),
        (both("bitwise_or", P, FAILS), P),
        (both("bitwise_or", HOLDS, P), Const(True, bool_)),
        (both("invert", FAILS), Const(True, bool_)),
        (both("less", Const(1, f32), X), both("less", Const(1, f32), X)),
    ],
)
def test_terms(term: ir.Expr, expected: ir.Expr) -> None:
    assert folded_term(term) == expected


def test_loops_of_one_trip_and_none_are_no_loops() -> None:
    test = Apply("where", (Inside((-digit("r"),)), X, Y), f32)
    body = (ir.Let("z", test),)
    assert folded([ir.For("r", Affine.of(1), body)]) == (ir.Let("z", X),)
    assert folded([ir.For("r", Affine.of(0), body)]) == ()
    assert folded([ir.For("r", Affine.of(2), body)]) == (ir.For("r", Affine.of(2), body),)


def test_branches_and_masks_that_are_known() -> None:
    x, y = ir.Let("x", X), ir.Let("y", Y)
    assert folded([ir.If(FAILS, (x,), (y,)), ir.If(HOLDS, (x,), (y,))]) == (y, x)
    assert folded([ir.Load("x", "a", (), mask=HOLDS)]) == (ir.Load("x", "a", ()),)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(1, 70), (70, 1), (1, 1), (2, 3)])
@pytest.mark.parametrize("reduce", ["sum", "max", "argmax"])
def test_reductions_of_short_concatenations(axis: int, shape: tuple[int, int], reduce: str) -> None:
    """An axis of two, one element from each part, was a test of -1 that no backend compiles."""

    def program(x, y):
        return getattr(np.concatenate([x, y], axis=axis), reduce)(axis=axis)

    x, y = (np.random.default_rng(k).standard_normal(shape).astype(np.float32) for k in (1, 2))
    np.testing.assert_allclose(pf.jit(program)(x, y), program(x, y), rtol=1e-6)


def test_components_of_a_state_take_no_statement_s_name() -> None:
    """A long row is split into two statements, ``argmax`` and ``argmax_1``: the index needs a third name."""
    x = np.random.default_rng(3).standard_normal((3, 300_000)).astype(np.float32)
    largest = pf.jit(lambda a: a.argmax(axis=1), backend="numba_cpu")(x)
    least = pf.jit(lambda a: a.argmin(axis=1), backend="numba_cpu")(x)
    np.testing.assert_array_equal(largest, x.argmax(axis=1))
    np.testing.assert_array_equal(least, x.argmin(axis=1))
