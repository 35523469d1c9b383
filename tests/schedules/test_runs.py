"""Sums of many floats on a CPU are summed in runs of a few hundred additions, however few numbers a row has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.expr import Reduce, topological
from polyfuse.rewrites.split import LANES, RUN, split_reductions


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


@pytest.mark.parametrize(("shape", "rows"), [("N~1000000, 3", 256), ("N~1000000, 40", 128), ("N~1000000, 2, 3", 128)])
def test_no_lane_adds_up_more_than_a_run(shape: str, rows: int) -> None:
    plan = pf.jit(lambda x: x.sum()).plan(pf.spec(f"f32[{shape}]"), target="cpu")
    program, _ = split_reductions(plan.program, plan.target, plan.program.hints)
    sums = [n for n in topological(program.outputs) if isinstance(n, Reduce)]
    extents = [n.operands[0].shape for n in sums]
    runs = [e[-len(shape.split(",")) :] for e in extents if len(e) > 2]
    assert rows in [int(r[0].evaluate({})) for r in runs if r[0].is_constant]
    assert rows <= RUN // LANES
