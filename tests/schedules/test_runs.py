"""Sums of many floats on a CPU are summed in runs of a few hundred additions, however few numbers a row has."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.expr import Reduce, topological
from polyfuse.rewrites.split import LANES, RUN, RUNS, split_reductions


def spread(x: Any) -> Any:
    return x.mean(), x.var()


@pytest.mark.parametrize("shape", [(50001, 3), (1000003, 3), (5000000, 2), (40000, 5), (20001, 2, 3), (150001,)])
def test_narrow_rows_are_as_exact_as_one_row(shape: tuple[int, ...]) -> None:
    """In runs of as many rows as fill one of 8,192 numbers, means of 50001 x 3 around three millions erred by 35."""
    x = (np.random.default_rng(0).standard_normal(shape) + 3e6).astype(np.float32)
    mean, variance = pf.jit(spread)(x)
    exact = x.astype(np.float64)
    assert abs(float(mean) - exact.mean()) < 0.3
    assert abs(float(variance) - exact.var()) < 0.1


@pytest.mark.parametrize("shape", ["N~1000000, 3", "N~1000000, 40", "N~1000000, 2, 3", "N~100000000", "N~9000000, 1"])
def test_no_lane_adds_up_more_than_a_run(shape: str) -> None:
    spec, total = pf.spec(f"f32[{shape}]"), pf.jit(lambda x: x.sum())
    whole, target = total.plan(spec, target="h200").program, total.plan(spec, target="cpu").target
    program, _ = split_reductions(whole, target, whole.hints)
    first, second, *_ = [n for n in topological(program.outputs) if isinstance(n, Reduce)]
    inside = [first.operands[0].shape[k].evaluate({}) for k in first.axes]
    wide = [n for n in inside if n > 1]
    assert prod(wide) <= RUN // LANES * min(LANES, wide[-1])
    assert prod(second.operands[0].shape[k].evaluate({}) for k in second.axes) <= RUNS
