"""Exponentials that a cascade takes wait beside what it takes them of, where that is needed later: with two conditions
and two arrays besides, more waits in shared memory than a block has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.testing import assert_equivalent, assert_legal


def centred(x: Any) -> Any:
    i, j = np.arange(x.shape[0])[:, None], np.arange(x.shape[1])[None, :]
    v = x + (i - j).astype(np.float32) * 0.125
    v = np.where(i == j, v / (1.0 + np.abs(v).max(axis=1, keepdims=True)), 0.0)
    e = np.exp(v - v.max(axis=1, keepdims=True))
    return (e * v).sum(axis=1) / e.sum(axis=1), v.sum()


@pytest.mark.parametrize("spec", ["f32[N~64, M~262144]", "f32[N~16384, M~4099]", "f32[N~8192, M~8192]"])
def test_no_plan_takes_more_than_a_block_has(spec: str) -> None:
    plan = pf.jit(centred, verify=True).plan(pf.spec(spec), target="h200")
    assert len(plan.kernels) <= 3 and not plan.fallback
    assert all(kernel.shared_bytes <= plan.target.shared_on_demand for kernel in plan.kernels)
    assert_legal(plan)


def test_results_are_those_without_fusion() -> None:
    plans = [pf.jit(centred, fuse=fuse).plan(pf.spec("f32[N~64, M~300]"), target="h200") for fuse in (False, "all")]
    assert_equivalent(*plans, sizes=[{"N": 5, "M": 12}])
