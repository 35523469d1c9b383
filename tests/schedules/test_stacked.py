"""What is stacked of several reductions is made by the threads that have them, in the same kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.strategies.stacked import MOST
from polyfuse.testing import assert_legal


def statistics(axes: Any, at: int) -> Callable[..., Any]:
    return lambda x: np.stack([x.mean(axes), x.std(axes), x.min(axes), x.max(axes)], at)


def sum_and_largest(x: Any) -> Any:
    return np.concatenate([x.sum(1, keepdims=True), x.max(1, keepdims=True)], 1)


def in_three_places(x: Any) -> Any:
    return x - x.max(1, keepdims=True) + np.arange(3.0, dtype=np.float32)[:, None, None]


CASES = (
    (statistics(1, 0), "f32[N~20000, M~4096]", (3, 4096)),
    (statistics(1, 1), "f32[N~20000, M~4096]", (3, 4096)),
    (statistics(1, 1), "bf16[N~20000, M~4093]", (3, 4093)),
    (statistics(0, 0), "f32[N~20000, M~4096]", (517, 64)),
    (statistics(0, -1), "f32[N~20000, M~4096]", (517, 64)),
    (statistics(None, 0), "f32[N~20000, M~4096]", (517, 64)),
    (statistics((2, 3), -1), "f32[B~64, C~64, H~112, W~112]", (2, 3, 112, 112)),
    (statistics((0, 2, 3), 0), "f32[B~64, C~64, H~112, W~112]", (5, 3, 64, 64)),
    (statistics(1, 1), "f32[B~256, N~512, M~768]", (2, 33, 64)),
    (sum_and_largest, "f32[N~20000, M~4096]", (3, 4096)),
    (lambda x: x.sum(1)[:, None] * np.arange(8.0, dtype=np.float32), "f32[N~20000, M~4096]", (3, 4096)),
    (in_three_places, "f32[N~8000, M~4096]", (3, 4096)),
)


@pytest.mark.parametrize(("function", "spec", "shape"), CASES)
def test_it_is_one_kernel(function: Callable[..., Any], spec: str, shape: tuple[int, ...]) -> None:
    plan = pf.jit(function, verify=True).plan(pf.spec(spec), target="h200")
    assert_legal(plan)
    assert len(plan.kernels) == 1
    x = np.random.default_rng(0).integers(-4, 5, shape).astype(pf.spec(spec).dtype.numpy)
    (found,) = run_plan(plan, [x])
    np.testing.assert_allclose(np.asarray(found, np.float64), function(x.astype(np.float64)), rtol=2e-2, atol=2e-2)


def test_too_many_are_joined_by_another_kernel() -> None:
    thresholds = [0.05 * k for k in range(MOST + 4)]
    function = pf.jit(lambda x: np.stack([(x > t).sum(1) for t in thresholds]))
    plan = function.plan(pf.spec("f32[N~20000, M~4096]"), target="h200")
    assert len(plan.kernels) > 1


def test_rows_are_reduced_once() -> None:
    plan = pf.jit(statistics(1, 1)).plan(pf.spec("f32[N~20000, M~4096]"), target="h200")
    cost = plan.cost_analysis()
    assert cost.hbm_bytes.at(**cost.sizes) < 1.01 * 4 * (20000 * 4096 + 20000 * 4)
    assert plan.source().count("load(x_in") <= 2  # whole rows, and those of fewer elements than there are lanes
