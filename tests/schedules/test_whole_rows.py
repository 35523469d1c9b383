"""Elementwise rows that begin anywhere, a block for each: its threads are as many warps as leave little padding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.face.interpreted import run_plan
from polyfuse.legality import prove
from polyfuse.lower.inspect import flatten
from polyfuse.plan import Plan
from polyfuse.testing import assert_legal
from polyfuse.verdict import Hazard, Kind


def shifted(x: Any) -> Any:
    return x[:, 1:] - x[:, :-1]


def joined(x: Any, y: Any) -> Any:
    return np.concatenate([x, y], axis=1)


def planned(length: int) -> Plan:
    return pf.jit(shifted).plan(pf.spec(f"bf16[N~16384, M~{length}]"), target="h200")


def test_a_block_has_a_row() -> None:
    """On an H200 four parts of a row and a fifth one of six elements take 167 us, where 125 are the bytes: by ptxas the
    warps of a row issue 2,244 instructions so, and 6,740 in parts."""
    plan = planned(8192)
    (kernel,) = plan.kernels
    assert dict(kernel.parameters) == {"threads": 352, "unroll": 3, "vector": 8, "frames": 1}
    assert str(kernel.grid[0]) == "N" and len(kernel.grid) == 1
    assert_legal(plan)
    lowered = plan.launches[0].kernel
    loads = [op for op in flatten(lowered.body) if isinstance(op, ir.Load)]
    assert all(op.across and op.other is None for op in loads) and len(loads) == 2
    assert {(k.first, k.stop) for k in lowered.settled} == {(1, 3), (0, 2)}


def masked(x: Any, b: Any, m: Any) -> Any:
    return (x + b) * m * 1.25


@pytest.mark.parametrize("length", [2700, 5650, 6001, 7002, 8186, 8192, 8434, 8438])
def test_results_agree(length: int) -> None:
    x = np.random.default_rng(length).standard_normal((7, length)).astype(ml_dtypes.bfloat16)
    (found,) = run_plan(planned(length), [x])
    exact = shifted(x.astype(np.float32))
    np.testing.assert_allclose(found.astype(np.float32), exact, rtol=8e-3, atol=1e-6)


@pytest.mark.parametrize("length", [2701, 8191])
def test_rows_that_share_one_agree(length: int) -> None:
    """Flat they are quicker."""
    specs = (f"f16[N~16384, M~{length}]", f"f16[M~{length}]", f"f16[N~16384, M~{length}]")
    plan = pf.jit(masked).plan(*map(pf.spec, specs), target="h200", strategies={"multiply_1": "pointwise"})
    assert len(plan.kernels[0].grid) == 1 and plan.source().count("load_across(") == 1
    rng = np.random.default_rng(length)
    arguments = [rng.standard_normal(shape).astype(np.float16) for shape in ((7, length), (length,), (7, length))]
    (found,) = run_plan(plan, arguments)
    np.testing.assert_allclose(found, masked(*[a.astype(np.float64) for a in arguments]), rtol=2e-3, atol=2e-3)


def test_other_lengths_have_other_plans() -> None:
    (kernel,) = planned(8192).kernels
    sizes = [{"N": 7, "M": length} for length in (5640, 8192, 8448)]
    assert [all(g.holds(at) for g in kernel.guards) for at in sizes] == [False, True, False]


def test_longer_rows_are_refused() -> None:
    """Their last elements have no thread."""
    plan = planned(8192)
    (schedule,) = plan.schedules
    longer = replace(schedule, guards=tuple(g for g in schedule.guards if getattr(g, "modulus", 0)))
    verdict = prove(plan.scop, longer)
    assert (verdict.kind, verdict.hazard) == (Kind.ILLEGAL, Hazard.COVERAGE) and verdict.witness is not None


def test_parts_of_a_row_end_anywhere_in_it() -> None:
    """Nothing is known of where one array ends and the next one begins."""
    plan = pf.jit(joined).plan(pf.spec("bf16[N~60000, M~803]"), pf.spec("bf16[N~60000, K~700]"), target="h200")
    assert all("frames" not in dict(k.parameters) or len(k.grid) == 2 for k in plan.kernels)
