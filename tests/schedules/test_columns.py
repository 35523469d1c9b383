"""Columns: where lanes have none, where warps meet for a few rows, and what blocks that share a class may sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.plan import Plan
from polyfuse.testing import assert_equivalent, assert_legal


def summed(x: Any) -> Any:
    return x.sum(axis=0)


def varied(x: Any) -> Any:
    return np.abs(x[1:] - x[:-1]).sum(axis=0)


def cosines(x: Any, y: Any) -> Any:
    return (x * y).sum(axis=1) / np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1) + 1e-6)


def margins(x: Any) -> Any:
    return x.sum(axis=0), x.sum(axis=-1), (x * x).sum()


def planned(function: Any, *specs: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h100")


@pytest.mark.parametrize("function", [summed, varied])
@pytest.mark.parametrize("spec", ["f32[728177, 72]", "f32[385505, 136]", "f32[262144, 200]", "bf16[201649, 520]"])
def test_blocks_whose_lanes_have_no_column_are_many_or_narrow(function: Any, spec: str) -> None:
    """One block of 256 threads per processor, 14 of 32 lanes of which load nothing, takes an H100 111 us for what four
    load in 81, and 512 threads of 8 lanes."""
    plan = planned(function, spec)
    kernel = plan.kernels[0]
    assert kernel.strategy == "columns"
    assert kernel.cost.blocks >= 3 * 132 or dict(kernel.schedule.parameters)["lanes"] == 8


@pytest.mark.parametrize("spec", ["f32[371, 6, 11776]", "f32[2000, 5, 2556]", "bf16[700, 9, 4096]"])
def test_a_few_rows_are_summed_where_no_warps_meet(spec: str) -> None:
    """Of 371 x 6 x 11776 float32 threads sum their own columns in 77 us on an H100; four warps that meet take 102."""
    plan = planned(cosines, spec, spec)
    assert [k.strategy for k in plan.kernels] == ["in_thread"]


@pytest.mark.parametrize("spec", ["bf16[N~174762, 24, 25]", "f32[N~2184533, 2, 12]"])
def test_threads_with_results_of_their_own_do_not_add_up_one(spec: str) -> None:
    """Threads along rows that the first sum keeps were to share what the last block adds up for the total: refuted, one
    schedule after the other, until nothing was left to share a kernel."""
    plan = planned(margins, spec)
    assert len(plan.kernels) <= 2
    assert "to which it does not belong" not in plan.explain()
    assert_legal(plan)
    assert_equivalent(planned(margins, spec, fuse=False), plan, seeds=(0,), sizes=[{"N": 300}])
