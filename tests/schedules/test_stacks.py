"""Reductions over arrays that were stacked for it become operations on the arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf


def nearby(x: Any) -> list[Any]:
    return [x[i : x.shape[0] - 2 + i, j : x.shape[1] - 2 + j] for i in range(3) for j in range(3)]


STACKS: dict[str, Callable[[Any], Any]] = {
    "minimum.reduce of a list": lambda x: np.minimum.reduce(nearby(x)),
    "mean of a stack": lambda x: np.mean(np.stack(nearby(x)), axis=0),
    "sum of a stack, last": lambda x: np.stack(nearby(x), axis=-1).sum(axis=-1),
    "keepdims": lambda x: np.stack([x, x * 2, x * 3]).sum(axis=0, keepdims=True),
    "concatenate": lambda x: np.concatenate([x[None], x[None] * 2]).max(axis=0),
    "longer parts": lambda x: np.concatenate([np.stack([x, x * 2]), np.stack([x * 3, x + 1])]).prod(axis=0),
    "truths": lambda x: np.any([x[1:] > 0, x[:-1] > 1], axis=0),
    "with other axes": lambda x: np.stack(nearby(x)).max(axis=(0, 2)),
    "everything": lambda x: np.stack([x, x * 2]).max(),
    "variance": lambda x: np.stack([x, x * 2, x * 3]).var(axis=0),
    "assigned": lambda x: _assigned(x).sum(axis=0),
}


def _assigned(x: Any) -> Any:
    found = np.zeros((3, *x.shape), np.float32)
    found[0] = x
    found[2] = x * 2
    return found


def drawn(dtype: Any = np.float32) -> Any:
    return (np.random.default_rng(5).standard_normal((20, 30)) * 3).astype(dtype)


@pytest.mark.parametrize("name", STACKS)
def test_results(name: str) -> None:
    function, x = STACKS[name], drawn()
    expected, got = function(x.astype(np.float64)), pf.jit(function)(x)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", sorted(STACKS.keys() - {"variance"}))  # which centres what is stacked
def test_no_stack_is_made(name: str) -> None:
    plan = pf.jit(STACKS[name]).plan(drawn(), target="h200")
    assert "region" not in {s.name for s in plan.scop.statements}


def test_a_reduction_that_is_still_one_has_the_other_axes() -> None:
    plan = pf.jit(STACKS["with other axes"]).plan(drawn(), target="h200")
    (total,) = [s for s in plan.scop.statements if getattr(s, "is_reduction", False)]
    assert len(total.extents) == 2


OTHERS: dict[str, Callable[[Any], Any]] = {
    "positions": lambda x: np.stack([x, x * 2]).argmax(axis=0),
    "along another axis": lambda x: np.stack([x, x * 2]).sum(axis=1),
    "many": lambda x: np.stack([x * k for k in range(20)]).sum(axis=0),
    "of symbolic length": lambda x: np.concatenate([x, x * 2]).sum(axis=0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_reductions_stay(name: str) -> None:
    function, x = OTHERS[name], drawn()
    plan = pf.jit(function).plan(x, target="h200")
    assert [s for s in plan.scop.statements if getattr(s, "is_reduction", False)]
    np.testing.assert_allclose(pf.jit(function)(x), function(x), rtol=1e-4, atol=1e-4)


def test_sums_of_short_words_are_added_up_in_longer_ones() -> None:
    """256 + 1/2 + 1/2 in bfloat16, which would round twice."""
    parts = [np.full(64, value, np.float32) for value in (256, 0.5, 0.5, 0.5, 0.5)]
    x = np.stack(parts).astype(pf.spec("bf16[]").dtype.numpy)
    got = pf.jit(lambda x: np.stack([x[k] for k in range(5)]).sum(axis=0))(x)
    np.testing.assert_array_equal(np.asarray(got, np.float32), 258.0)
