"""Normalisations over a few rows between other axes: a thread has whole columns of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.testing import assert_legal

Array = Any


def softmax(x: Array) -> Array:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def norms(x: Array) -> Array:
    centred = x - np.mean(x, axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=1, keepdims=True) + 1)


@pytest.mark.parametrize("rows", [2, 3, 7, 8, 9, 10, 19, 21, 24, 31, 32])
@pytest.mark.parametrize("program", [softmax, norms])
def test_a_thread_has_columns_of_few_rows(program: Any, rows: int) -> None:
    plan = pf.jit(program).plan(pf.spec(f"f32[L~{40_000_000 // rows // 2500}, N~{rows}, M~2500]"), target="h200")
    (kernel,) = plan.kernels
    tile = dict(kernel.parameters)
    assert kernel.schedule.strategy == "panels" and tile["lanes"] == tile["threads"] == 128
    assert rows <= tile["unroll"] < rows + 4 and tile["unroll"] * tile["vector"] <= 64
    assert_legal(plan)
    x = np.random.default_rng(rows).standard_normal((3, rows, 132)).astype(np.float32)
    (found,) = run_plan(plan, [x])
    np.testing.assert_allclose(found, program(x.astype(np.float64)), rtol=1e-5, atol=1e-6)


def test_what_has_other_rows_has_another_plan() -> None:
    """Rows that every call of the class has are not asked for."""
    plan = pf.jit(softmax).plan(pf.spec("f32[L~5000, N~7, M~2500]"), target="h200")
    assert "u < n1" not in plan.source()
    sizes = {"L": 5000, "M": 2500}
    guards = [g for g in plan.guards if isinstance(g, pf.bindings.Guard)]
    for rows in (6, 8):
        assert not all(g.holds({**sizes, "N": rows}) for g in guards if g.expression.names() <= {"L", "M", "N"})


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f64"])
def test_columns_of_other_dtypes(dtype: str) -> None:
    plan = pf.jit(softmax).plan(pf.spec(f"{dtype}[L~16, N~21, M~262144]"), target="h200")
    (kernel,) = plan.kernels
    assert dict(kernel.parameters)["lanes"] == 128
    x = np.random.default_rng(3).standard_normal((2, 22, 264)).astype(pf.spec(f"{dtype}[]").dtype.numpy)
    (found,) = run_plan(plan, [x])
    error = {"bf16": 1e-2, "f16": 2e-3, "f64": 1e-12}[dtype]
    np.testing.assert_allclose(found.astype(np.float64), softmax(x.astype(np.float64)), rtol=error, atol=error)
