"""What blocks inside and blocks at the border end with is written once, behind both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.dtypes import f32
from polyfuse.face.interpreted import run_plan
from polyfuse.lower.common import branches
from polyfuse.terms import Const, Inside, Ref
from polyfuse.testing import assert_legal


def total(x):
    return x.sum()


def normal_equations(x, y):
    return x.T @ x, x.T @ y


def variation(x):
    return np.abs(x[1:] - x[:-1]).sum() + np.abs(x[:, 1:] - x[:, :-1]).sum()


def spread_of_pairs(x, m):
    d = x - m
    return d.T @ d


CASES: tuple[tuple[Callable[..., Any], tuple[str, ...], tuple[tuple[tuple[int, ...], ...], ...]], ...] = (
    (total, ("f32[N~67108865]",), (((5,),), ((126976 * 2 + 77,),))),
    (normal_equations, ("f32[N~8388608, 8]", "f32[N~8388608]"), (((131073, 8), (131073,)), ((65536, 8), (65536,)))),
    (variation, ("f32[N~8191, M~8193]",), (((40, 133),), ((1, 4097),))),
    (spread_of_pairs, ("f32[N~5592405, 12]", "f32[12]"), (((131073, 12), (12,)), ((43000, 12), (12,)))),
)


@pytest.mark.parametrize(("function", "specs", "shapes"), CASES)
def test_threads_combine_behind_the_branch(
    function: Callable[..., Any], specs: tuple[str, ...], shapes: tuple[tuple[tuple[int, ...], ...], ...]
) -> None:
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    (launch,) = plan.launches
    assert isinstance(launch.kernel, ir.Kernel)
    border = next(op for op in launch.kernel.body if isinstance(op, ir.If))
    assert border.orelse and not any(isinstance(op, ir.Combine) for op in (*border.body, *border.orelse))
    assert sum(isinstance(op, ir.Elect) for op in launch.kernel.body) == 1
    assert_legal(plan)
    for shape in shapes:
        arrays = [np.random.default_rng(k).integers(-4, 5, s).astype(np.float32) for k, s in enumerate(shape)]
        found, expected = run_plan(plan, arrays), function(*[a.astype(np.float64) for a in arrays])
        for mine, exact in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_allclose(mine, exact, rtol=1e-6)


INSIDE = Inside((Affine.symbol("N") - 8,))
ZERO = ir.Let("s", Const(0.0, f32))
ONCE, TWICE = ir.Let("s", Ref("a", f32)), ir.Let("s", Ref("b", f32))
TOGETHER = ir.Combine(("t",), "sum", (Ref("s", f32),), 31)


def test_what_both_begin_and_end_with_is_outside() -> None:
    found = branches(INSIDE, (ZERO, ONCE, TOGETHER), (ZERO, TWICE, TOGETHER))
    assert found == (ZERO, ir.If(INSIDE, (ONCE,), (TWICE,)), TOGETHER)


def test_what_both_load_first_is_loaded_in_front() -> None:
    load = ir.Load("m", "m_in", (Affine.of(0),))
    found = branches(INSIDE, (load, ZERO, ONCE, TOGETHER), (load, ZERO, TWICE, TOGETHER))
    assert found == (load, ZERO, ir.If(INSIDE, (ONCE,), (TWICE,)), TOGETHER)


@pytest.mark.parametrize(
    ("body", "orelse"),
    [
        ((ONCE, TOGETHER), (TWICE, TOGETHER)),  # s is a value of either branch
        ((ZERO, ONCE, TOGETHER), (ZERO, TWICE)),
        ((ZERO, ONCE, ZERO), (ZERO, TWICE, ZERO)),  # nothing that threads do together
    ],
)
def test_else_both_stay_whole(body: tuple[ir.Op, ...], orelse: tuple[ir.Op, ...]) -> None:
    assert branches(INSIDE, body, orelse) == (ir.If(INSIDE, body, orelse),)
