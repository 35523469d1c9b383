"""A x with Aᵀ y in one read of A, whatever lies between them: rows of a few elements in a few lanes each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.cost.alone import BEGIN
from polyfuse.face.interpreted import run_plan
from polyfuse.strategies.one_pass import one_pass
from polyfuse.strategies.situation import Situation
from polyfuse.target import named
from polyfuse.testing import assert_legal

ROWS = 8_000_000


def logistic_gradient(x, w, y):
    p = 1 / (1 + np.exp(-(x @ w)))
    return x.T @ (p - y) / x.shape[0]


def squares(x, w, y):
    r = x @ w - y
    return r @ r, 2 * (x.T @ r)


def weighted_by_norm(x, w, y):
    n = np.sqrt((x * x).sum(1))
    return (x * (y / (n + 1))[:, None]).sum(0) + w


def specs(dtype: str, columns: str) -> list[Any]:
    """Of a matrix, a vector along its rows and one along its columns."""
    return [pf.spec(f"{dtype}[N~{ROWS}, {columns}]"), pf.spec(f"{dtype}[{columns}]"), pf.spec(f"{dtype}[N~{ROWS}]")]


CASES = [(f, n) for f in (logistic_gradient, squares, weighted_by_norm) for n in (3, 4, 10, 16, 30, 48, 64)]


@pytest.mark.parametrize(("function", "columns"), CASES)
def test_short_rows_are_read_once(function: Callable[..., Any], columns: int) -> None:
    """Rows of 30 in whole warps: half of the lanes had nothing to do; of 4 and 10, two kernels read them twice."""
    plan = pf.jit(function).plan(*specs("f32", str(columns)), target="h200")
    bytes_ = 4 * ROWS * (columns + 1)
    assert sum(kernel.cost.bytes_read for kernel in plan.kernels) < 1.1 * bytes_
    launches = len(plan.kernels) * (plan.target.launch + BEGIN)
    assert sum(k.seconds for k in plan.kernels) < 1.3 * (launches + bytes_ / plan.target.bandwidth)
    assert_legal(plan)


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("columns", [3, 4, 10, 30, 33, 64])
@pytest.mark.parametrize("function", [logistic_gradient, squares, weighted_by_norm])
def test_their_sums_are_right(function: Callable[..., Any], columns: int, dtype: str) -> None:
    random, kind = np.random.default_rng(columns), pf.spec(f"{dtype}[]").dtype.numpy
    x, w, y = (random.integers(-2, 3, s).astype(kind) for s in ((5001, columns), (columns,), (5001,)))
    plan = pf.jit(function).plan(*specs(dtype, f"C~{columns}"), target="h200")
    found = run_plan(plan, [x, w, y])
    expected = function(*(a.astype(np.float64) for a in (x, w, y)))
    tolerance = 3e-2 if dtype == "bf16" else 1e-4
    for mine, exact in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(mine.astype(np.float64), exact, rtol=tolerance, atol=tolerance * np.abs(exact).max())


@pytest.mark.parametrize("columns", [300, 1500, 4099])
def test_rows_of_a_trip_divide_those_of_a_block(columns: int) -> None:
    """Blocks of 128 rows took three at once, where registers hold as many, and left out two: proofs refused them."""
    (kernel,) = pf.jit(lambda a: (a.sum(0), a.sum(1))).plan(pf.spec(f"f32[131072, {columns}]"), target="h200").kernels
    proposals = one_pass(Situation(kernel.group, named("h200"), {}))
    assert proposals
    for given in [dict(proposal.parameters) for proposal in proposals]:
        assert given["share"] % (given["threads"] // given["lanes"] * given["unroll"]) == 0
