"""Kernels that read the same array become one at once, when two of them have: not pair by pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan

LONG = 2500
"""Work that is enough for 16 of them, and more than twice of which pairs took."""


def lagged(count: int) -> Callable[[Any], tuple[Any, ...]]:
    def products(x: Any) -> tuple[Any, ...]:
        n = x.shape[1]
        return tuple((x[:, k:] * x[:, : n - k]).sum(axis=1) for k in range(1, count + 1))

    return products


def planned(count: int) -> Plan:
    return pf.jit(lagged(count)).plan(pf.spec("f32[N~20000, M~4096]"), target="h200")


@pytest.mark.parametrize("count", [16, 24])
def test_sums_over_the_same_rows_are_one_kernel(count: int) -> None:
    plan = planned(count)
    assert len(plan.kernels) == 1
    assert plan.work < LONG * count / 16


def test_each_is_right() -> None:
    plan, x = planned(16), np.random.default_rng(0).integers(-9, 9, (5, 4096)).astype(np.float32)
    for found, wanted in zip(run_plan(plan, [x]), lagged(16)(x.astype(np.float64)), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_what_the_user_wants_apart_stays_apart() -> None:
    plan = pf.jit(lagged(16), max_fusion_size=4).plan(pf.spec("f32[N~20000, M~4096]"), target="h200")
    assert len(plan.kernels) >= 8 and max(len(kernel.schedule.body) for kernel in plan.kernels) <= 4
