"""Totals of what is summed along fewer axes anyway are sums of those sums, where that is cheaper."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.reference import evaluate
from polyfuse.rewrites.nested import nested, nestings
from polyfuse.testing import assert_legal


def margins(x):
    return x.sum(0), x.sum(1), x.sum()


def centred(x):
    return x - x.mean(0, keepdims=True) - x.mean(1, keepdims=True) + x.mean()


def planes(x):
    return x.sum(2), x.sum((1, 2)), x.sum()


def extremes(x):
    return x.max(0), x.max((0, 1))


def transposed(x):
    return np.einsum("ijk->kj", x), np.einsum("ijk->k", x), x.sum((1, 2))


def shares(x):
    """The totals of shares follow from the total that makes them shares."""
    y = x / x.sum()
    return y.sum(0), y.sum(1), y.sum()


def margins_of_three(x):
    return x.sum((0, 1)), x.sum((0, 2)), x.sum((1, 2))


def two_margins(x):
    return x.max((0, 2)), x.max((1, 2))


CASES = (
    (margins_of_three, "f32[500, 600, 400]", 245e-6, (7, 12, 33)),
    (two_margins, "f32[500, 600, 400]", 130e-6, (7, 12, 33)),
    (margins, "f32[12000, 12000]", 155e-6, (30, 47)),
    (centred, "f32[12000, 12000]", 435e-6, (30, 47)),
    (planes, "f32[500, 600, 400]", 127e-6, (7, 12, 33)),
    (extremes, "f32[500, 600, 400]", 122e-6, (7, 12, 33)),
)


@pytest.mark.parametrize(("function", "spec", "most", "shape"), CASES)
def test_elements_are_read_once_for_all_their_sums(
    function: Callable[..., Any], spec: str, most: float, shape: tuple[int, ...]
) -> None:
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    assert plan.cost_analysis().seconds < most
    assert_legal(plan)
    small = pf.jit(function).plan(pf.spec(f"f32[{', '.join(map(str, shape))}]"), target="h200")
    program = nested(small.program, nestings(small.program))
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float32)
    expected = function(x.astype(np.float64))
    for mine, exact in zip(
        evaluate(program, [x]), expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        np.testing.assert_allclose(mine, exact, rtol=1e-5, atol=1e-4)


ORDERS = ((transposed, (5, 6, 7)), (shares, (30, 47)), (planes, (4, 5, 6)), (margins_of_three, (4, 5, 6)))


@pytest.mark.parametrize(("function", "shape"), ORDERS)
def test_sums_of_sums_in_any_order(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    plan = pf.jit(function).plan(pf.spec(f"f32[{', '.join(map(str, shape))}]"), target="h200")
    found = nestings(plan.program)
    assert found
    program = nested(plan.program, found)
    x = np.random.default_rng(1).uniform(1, 2, shape).astype(np.float32)
    exactly = function(x.astype(np.float64))
    for mine, ours, exact in zip(evaluate(program, [x]), run_plan(plan, [x]), exactly, strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-5)
        np.testing.assert_allclose(ours, exact, rtol=1e-5)


def test_where_one_kernel_has_both_nothing_changes() -> None:
    for function in (lambda x: (x.sum(1), x.sum()), lambda x: (x.max(0), x.max())):
        plan = pf.jit(function).plan(pf.spec("f32[12000, 12000]"), target="h200")
        assert len(plan.kernels) == 1


def test_sums_that_are_rounded_are_no_parts() -> None:
    function = pf.jit(lambda x: (x.sum(0, dtype=x.dtype), x.sum(dtype=x.dtype)))
    plan = function.plan(pf.spec("f16[300, 400]"), target="h200")
    assert all(n.part.dtype.name != "f16" for n in nestings(plan.program))


def test_sums_of_other_arrays_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with each they took a second of a program of 500 sums."""
    counted: list[Any] = []
    module = sys.modules["polyfuse.rewrites.nested"]
    kept = module._kept

    def counting(node: Any) -> Any:
        counted.append(node)
        return kept(node)

    monkeypatch.setattr(module, "_kept", counting)
    arrays = [f"f32[{8 + k}, 16]" for k in range(60)]
    program = pf.jit(lambda *xs: tuple(x.sum() for x in xs)).plan(*map(pf.spec, arrays), target="h200").program
    counted.clear()
    assert not nestings(program)
    assert 0 < len(counted) <= 4 * len(arrays)
