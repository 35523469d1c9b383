"""Truths that elementwise results are chosen by: predicates of the compiler, not registers."""

from __future__ import annotations

from typing import Any

import numpy as np

import polyfuse as pf
from polyfuse.cost import registers
from polyfuse.plan import Plan


def near_the_largest(x: Any) -> Any:
    return np.where(x >= x.max(axis=-1, keepdims=True) - 3, x, -1e9)


def planned(function: Any, *specs: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h200")


def test_rows_that_are_masked_by_what_they_reduce_to_are_held() -> None:
    """One kernel reads them once: by ptxas it takes 92 registers for 64 elements, which left no room for a second block
    while every truth counted as one.  135 us by the price of an H200; 199 in two kernels."""
    plan = planned(near_the_largest, "bf16[8192, 16384]")
    (kernel,) = plan.kernels
    assert kernel.strategy == "rows"
    (cost,) = plan.cost_analysis().kernels.values()
    assert cost.occupancy * kernel.schedule.block_threads >= 512


def predicates(plan: Plan) -> set[str]:
    """Of the values of the only kernel, those that take no registers."""
    (kernel,) = plan.kernels
    values = {p.name: plan.scop.statements[p.value].name for p in kernel.schedule.placed}
    return {values[name] for name in registers.predicates(plan.scop, kernel.schedule)}


def test_truths_that_are_kept_while_threads_combine_are_registers() -> None:
    def kept(x: Any, y: Any) -> Any:
        chosen = x > y
        s = np.where(chosen, x, 0).sum(axis=-1, keepdims=True)
        return np.where(chosen, x / s, 0)

    assert predicates(planned(near_the_largest, "f32[8192, 4096]")) == {"less_equal"}
    assert not predicates(planned(kept, *["f32[8192, 4096]"] * 2))
