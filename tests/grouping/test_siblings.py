"""Kernels that read the same array become one at once, when two of them have: not pair by pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan

LONG = 4000
"""Work that is enough for ten of them; pairs took 6,877."""


def correlated(x: Any) -> Any:
    c, n = x - x.mean(axis=1, keepdims=True), x.shape[1]
    return np.stack([(c[:, k:] * c[:, : n - k]).mean(axis=1) for k in range(1, 9)])


def lagged(count: int) -> Callable[[Any], tuple[Any, ...]]:
    def products(x: Any) -> tuple[Any, ...]:
        n = x.shape[1]
        return tuple((x[:, k:] * x[:, : n - k]).sum(axis=1) for k in range(1, count + 1))

    return products


def planned(function: Callable[..., Any], **options: Any) -> Plan:
    return pf.jit(function, **options).plan(pf.spec("f32[N~20000, M~4096]"), target="h200")


def test_sums_over_the_same_rows_are_one_kernel() -> None:
    plan = planned(correlated)
    assert len(plan.kernels) == 1
    assert plan.work < LONG


@pytest.mark.parametrize(("count", "kernels"), [(12, 1), (16, 2)])
def test_not_where_fewer_in_each_are_faster(count: int, kernels: int) -> None:
    plan = planned(lagged(count))
    assert len(plan.kernels) == kernels
    together = planned(lagged(count), together=[tuple(v for k in plan.kernels for v in k.stores)])
    assert len(together.kernels) == 1
    assert plan.cost_analysis().seconds <= together.cost_analysis().seconds


def test_each_is_right() -> None:
    plan, x = planned(lagged(8)), np.random.default_rng(0).integers(-9, 9, (5, 4096)).astype(np.float32)
    for found, wanted in zip(run_plan(plan, [x]), lagged(8)(x.astype(np.float64)), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_what_the_user_wants_apart_stays_apart() -> None:
    plan = planned(lagged(16), max_fusion_size=4)
    assert len(plan.kernels) >= 8 and max(len(kernel.schedule.body) for kernel in plan.kernels) <= 4
