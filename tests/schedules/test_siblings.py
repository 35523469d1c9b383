"""Reductions over classes that no statement has together: one kernel, whose lanes take parts of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.plan import Plan
from polyfuse.testing import assert_equivalent, assert_legal


def t_statistics(a: Any, b: Any) -> Any:
    va, vb = a.var(axis=1, ddof=1), b.var(axis=1, ddof=1)
    return (a.mean(axis=1) - b.mean(axis=1)) / np.sqrt(va / a.shape[1] + vb / b.shape[1])


def three(a: Any, b: Any, c: Any) -> Any:
    return a.sum(axis=1) + b.max(axis=1) * c.mean(axis=1)


def pooled(a: Any, b: Any) -> Any:
    return a.mean(axis=1) + b.mean(axis=1)


def planned(function: Any, *specs: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h200")


CASES = [
    ("rows", t_statistics, ("f32[N~200003, J~100]", "f32[N, K~83]"), {"N": 9, "J": 100, "K": 75}),
    ("rows", t_statistics, ("f32[N~200003, 100]", "f32[N, 84]"), {"N": 9}),
    ("rows", three, ("f32[N~20003, J~700]", "f32[N, K~384]", "f32[N, M~90]"), {"N": 9, "J": 516, "K": 300, "M": 88}),
    ("rows", three, ("f32[N~2003, J~700]", "bf16[N, K~50000]", "f32[N, M~90]"), {"N": 9, "J": 516, "K": 5000, "M": 88}),
    ("columns", pooled, ("f32[N~2003, J~200, 256]", "f32[N, K~150, 256]"), {"N": 2, "J": 150, "K": 131}),
]


@pytest.mark.parametrize(("strategy", "function", "specs", "sizes"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_lanes_take_parts_of_each(
    strategy: str, function: Any, specs: tuple[str, ...], sizes: dict[str, int]
) -> None:
    """Statistics of rows of 100 and of 83: 3.6 us on an H100 of 4 MB, 13.4 where every lane reads all of the shorter
    ones; of 146 MB 51 us, 60 in two kernels."""
    plan = planned(function, *specs)
    assert [k.strategy for k in plan.kernels] == [strategy]
    reductions = [line for line in str(plan).splitlines() if "axis=" in line]
    assert reductions and all("combine" in line for line in reductions)
    assert_legal(plan)
    assert_equivalent(planned(function, *specs, fuse=False), plan, seeds=(0,), sizes=[sizes])

