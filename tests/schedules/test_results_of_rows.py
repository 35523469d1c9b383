"""Long arrays of short rows, of which each makes a few results: a lane has its part of a row once for all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.testing import assert_legal


def product(x, w):
    return x @ w


def activated(x, w):
    h = x @ w
    return h / (1 + np.exp(-1.702 * h))


def farthest(x, w):
    return np.max(x[:, None, :] - w[None, :, :], -1)


def planned(function: Any, dtype: str, rows: int, length: int, results: int) -> pf.Plan:
    shape = f"{results}, {length}" if function is farthest else f"{length}, {results}"
    specs = [pf.spec(f"{dtype}[M~{rows}, {length}]"), pf.spec(f"{dtype}[{shape}]")]
    return pf.jit(function, library=False).plan(*specs, target="h200")


@pytest.mark.parametrize("function", [product, activated, farthest])
@pytest.mark.parametrize("dtype, length, results", [("f32", 64, 4), ("f16", 64, 3), ("f32", 33, 3), ("f32", 128, 2)])
def test_a_lane_has_all_results_of_its_rows(function: Any, dtype: str, length: int, results: int) -> None:
    plan = planned(function, dtype, 1_600_000, length, results)
    assert_legal(plan)
    kernel = plan.kernels[0]  # what follows may have one of its own
    assert kernel.strategy == "rows"
    columns = dict(kernel.schedule.parameters)["columns"]
    assert columns >= results > columns // 2
    chance = np.random.default_rng(length)
    numpy_dtype = {"f32": "f4", "f16": "f2"}[dtype]
    x = chance.standard_normal((37, length)).astype(numpy_dtype)
    w = chance.standard_normal((results, length) if function is farthest else (length, results)).astype(numpy_dtype)
    (found,) = run_plan(plan, [x, w])
    exact = function(x.astype("f8"), w.astype("f8"))
    np.testing.assert_allclose(found, exact, atol={"f32": 1e-4, "f16": 0.05}[dtype])


def test_more_results_have_tiles() -> None:
    """Eight of them in every lane would take more registers than their rows do."""
    (kernel,) = planned(product, "f32", 1_200_000, 40, 5).kernels
    assert "columns" not in dict(kernel.schedule.parameters)


def test_few_rows_have_what_they_had() -> None:
    plan = planned(product, "f32", 1000, 64, 4)
    assert all("columns" not in dict(kernel.schedule.parameters) for kernel in plan.kernels)


def test_a_plan_is_for_about_as_many_results() -> None:
    specs = [pf.spec("f32[M~1600000, 64]"), pf.spec("f32[64, N~4]")]
    plan = pf.jit(product, library=False).plan(*specs, target="h200")
    (kernel,) = plan.kernels
    assert dict(kernel.schedule.parameters)["columns"] == 4
    for results, serves in ((3, True), (4, True), (2, False), (5, False), (33, False)):
        assert all(guard.holds({"M": 1_600_000, "N": results}) for guard in plan.guards) is serves
