"""Sums and maxima of magnitudes mask nothing that is 0 where their loads are masked; all others do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.testing import assert_legal

Function = Callable[..., Any]


def reflected(x, v):
    return x - 2 * v[:, None] * (v[:, None] * x).sum(0)


def unit(x):
    return x / np.sqrt((x * x).sum(1, keepdims=True))


def halved(x):
    return x / (0.5 * x - x * 2).sum(1, keepdims=True)


def scaled(x):
    return x / np.abs(x).max(1, keepdims=True)


def nearest(x, y):
    return np.abs(x - y).max(1), ((x - y) * (x - y)).sum(1)


def weighted(x, s):
    """Of which one factor is there beyond the row as well, and may be no number."""
    return (x * s[:, None]).sum(1)


def paired(x, w):
    """In vectors that begin where memory has them, and of which nobody else uses what they hold."""
    return (x * w).sum(1)


def counted(x):
    return (x * x + 1).sum(1)


def quotients(x, y):
    return (x / y).sum(1)


def highest(x):
    return (x * x).max(1)


def reduced(function: Function, *specs: str) -> list[str]:
    """The lines of a plan that reduce what threads hold."""
    plan = pf.jit(function, verify=True).plan(*map(pf.spec, specs), target="h200")
    assert_legal(plan)
    lines = [line for line in plan.source().splitlines() if "reduce_sum(" in line or "reduce_max(" in line]
    assert lines
    return lines


ROWS = "f32[N~100000, M~65]"
UNMASKED: list[tuple[Function, tuple[str, ...]]] = [
    (reflected, ("f32[N~126, M~8000]", "f32[N]")),
    (unit, (ROWS,)),
    (unit, ("bf16[N~100000, M~777]",)),
    (halved, (ROWS,)),
    (scaled, (ROWS,)),
    (nearest, (ROWS, ROWS)),
]
MASKED: list[tuple[Function, tuple[str, ...]]] = [
    (weighted, (ROWS, "f32[N]")),
    (paired, ("bf16[N~100000, M~1111]", "bf16[M]")),
    (counted, (ROWS,)),
    (quotients, (ROWS, ROWS)),
    (highest, (ROWS,)),
    (scaled, ("i32[N~100000, M~65]",)),  # the magnitude of the least integer is negative
]


@pytest.mark.parametrize(("function", "specs"), UNMASKED)
def test_what_is_zero_beyond_a_row_is_not_masked(function: Function, specs: tuple[str, ...]) -> None:
    """A truth for each element that waits for its load: 14.3 us for 4 MB reflected on an H100, 5.8 without."""
    assert not any("where" in line for line in reduced(function, *specs))


@pytest.mark.parametrize(("function", "specs"), MASKED)
def test_what_may_be_anything_there_is_masked(function: Function, specs: tuple[str, ...]) -> None:
    assert any("where" in line for line in reduced(function, *specs))


@pytest.mark.parametrize(("function", "specs"), [*UNMASKED, *MASKED])
def test_results_at_lengths_of_the_class(function: Function, specs: tuple[str, ...]) -> None:
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    _, columns = plan.program.arguments[0].shape
    length = 64 if function is reflected else columns.evaluate({"M": int(specs[0].split("M~")[1].rstrip("]"))})
    random = np.random.default_rng(length)
    arrays = []
    for argument in plan.program.arguments:
        shape = tuple(n.evaluate({"N": 7, "M": length}) for n in argument.shape)
        arrays.append(random.integers(1, 9, shape).astype(argument.dtype.numpy))
    if function is weighted:
        arrays[1][3] = np.inf
    expected = function(*[a.astype(np.float64) for a in arrays])
    expected = expected if isinstance(expected, tuple) else (expected,)
    for found, exact in zip(run_plan(plan, arrays), expected, strict=True):
        np.testing.assert_allclose(found.astype(np.float64), exact, rtol=1e-2 if "bf16" in specs[0] else 1e-5)
