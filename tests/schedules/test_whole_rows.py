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
    warps of a row issue 2,244 instructions so, and 7,060 in parts."""
    plan = planned(8192)
    (kernel,) = plan.kernels
    assert dict(kernel.parameters) == {"threads": 352, "unroll": 3, "vector": 8, "frames": 1}
    assert str(kernel.grid[0]) == "N" and len(kernel.grid) == 1
    assert_legal(plan)
    lowered = plan.launches[0].kernel
    loads = [op for op in flatten(lowered.body) if isinstance(op, ir.Load)]
    assert all(op.across and op.other is None for op in loads) and len(loads) == 2
    assert {(k.first, k.stop) for k in lowered.settled} == {(1, 3), (0, 2)}


def weighted(x: Any, w: Any) -> Any:
    return (x[:, 1:] - x[:, :-1]) * w[1:]


@pytest.mark.parametrize("length", [2700, 5650, 6001, 7002, 8186, 8192, 8434, 8438])
def test_results_agree(length: int) -> None:
    x = np.random.default_rng(length).standard_normal((7, length)).astype(ml_dtypes.bfloat16)
    (found,) = run_plan(planned(length), [x])
    exact = shifted(x.astype(np.float32))
    np.testing.assert_allclose(found.astype(np.float32), exact, rtol=8e-3, atol=1e-6)


@pytest.mark.parametrize("length", [8187, 8192])
def test_what_rows_share_agrees(length: int) -> None:
    plan = pf.jit(weighted).plan(pf.spec(f"f16[N~16384, M~{length}]"), pf.spec(f"f16[M~{length}]"), target="h200")
    assert len(plan.kernels[0].grid) == 1 and plan.source().count("load_across(") == 1
    assert plan.source().count("load_neighbours(") == 1
    rng = np.random.default_rng(length)
    arguments = [rng.standard_normal(shape).astype(np.float16) for shape in ((7, length), (length,))]
    (found,) = run_plan(plan, arguments)
    np.testing.assert_allclose(found, weighted(*[a.astype(np.float64) for a in arguments]), rtol=2e-3, atol=2e-3)


def test_what_lies_in_order_is_walked_flat() -> None:
    """Bias and relu of bfloat16 take 127 us on an H200 flat, where 125 are the bytes."""
    specs = (pf.spec("f16[N~44739, M~3001]"), pf.spec("f16[M~3001]"))
    plan = pf.jit(lambda x, b: np.maximum(x + b, 0)).plan(*specs, target="h200")
    assert plan.kernels[0].strategy == "flat"


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
