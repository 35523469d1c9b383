"""Positions of extremes take one register inside kernels of a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.dtypes import i32, i64
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.scop import Statement
from polyfuse.testing import assert_legal


def positions(plan: Plan) -> set[Any]:
    """The dtypes of the positions that the plan's reductions carry."""
    found = (s for s in plan.scop.statements if isinstance(s, Statement) and s.monoid in ("argmax", "argmin"))
    return {s.dtypes[1] for s in found}


def planned(function: Callable[..., Any], spec: str, target: str = "h200") -> Plan:
    return pf.jit(function).plan(pf.spec(spec), target=target)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_short_axes_have_short_positions_and_long_results(axis: int | None) -> None:
    plan = planned(lambda x: x.argmax(axis), "f32[300, 4096]")
    assert positions(plan) == {i32}
    assert plan.program.outputs[0].dtype == i64 and len(plan.kernels) == 1
    assert_legal(plan)
    x = np.random.default_rng(0).integers(0, 5, (300, 4096)).astype(np.float32)
    x[7, 9] = x[7, 3] = np.nan
    np.testing.assert_array_equal(run_plan(plan, [x])[0], x.argmax(axis))


def test_symbols_are_guarded_and_other_plans_serve_longer_ones() -> None:
    plan = planned(lambda x: x.argmin(1), "f32[N, M]")
    assert positions(plan) == {i32}
    assert all(g.holds({"N": 3, "M": 5000}) for g in plan.guards if not getattr(g, "advisory", False))
    assert not all(g.holds({"N": 1, "M": 2**31}) for g in plan.guards)
    assert positions(planned(lambda x: x.argmin(1), "i8[N, M~3000000000]")) == {i64}


def test_positions_that_may_not_fit_stay_long() -> None:
    assert positions(planned(lambda x: x.argmax(), "i8[70000, 70000]")) == {i64}
    assert positions(planned(lambda x: np.exp(x).argmax(1), "f32[300, 4096]", "cpu")) == {i64}
