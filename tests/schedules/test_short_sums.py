"""Sums of small integers take one register inside kernels of a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.dtypes import i32, i64, u64
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.scop import Statement
from polyfuse.testing import assert_legal


def sums(plan: Plan) -> set[Any]:
    """The dtypes in which the plan adds up."""
    return {s.dtypes[0] for s in plan.scop.statements if isinstance(s, Statement) and s.monoid == "sum"}


def planned(function: Callable[..., Any], spec: str, target: str = "h200") -> Plan:
    return pf.jit(function).plan(pf.spec(spec), target=target)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(1),
        lambda x: x.sum(0),
        lambda x: x.sum(),
        lambda x: np.cumsum(x, 1),
        lambda x: np.count_nonzero(x > 1, axis=1),
        lambda x: np.where(x > 3, 5, -7).sum(1),
        lambda x: x.astype(np.int64)[:, ::-1].sum(0),
    ],
)
@pytest.mark.parametrize("dtype", ["u8", "i16"])
def test_what_cannot_leave_32_bits_is_added_up_in_them(function: Callable[..., Any], dtype: str) -> None:
    plan = planned(function, f"{dtype}[30, 409]")
    assert sums(plan) == {i32} and plan.program.outputs[0].dtype in (i64, u64) and len(plan.kernels) == 1
    assert_legal(plan)
    limits = np.iinfo(pf.spec(f"{dtype}[]").dtype.numpy)
    x = np.random.default_rng(0).integers(limits.min, limits.max, (30, 409), limits.dtype, endpoint=True)
    expected = function(x)
    (found,) = run_plan(plan, [x])
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_sizes_are_guarded_and_other_plans_serve_larger_ones() -> None:
    plan = planned(lambda x: x.sum(), "u8[N~2000, M~2000]")
    assert sums(plan) == {i32}
    needed = [g for g in plan.guards if not getattr(g, "advisory", False)]
    assert all(g.holds({"N": 2896, "M": 2896}) for g in needed)
    assert not all(g.holds({"N": 2903, "M": 2903}) for g in needed)  # of 255 each more than 2**31
    assert sums(planned(lambda x: x.sum(), "u8[N~20000, M~20000]")) == {u64}
    assert sums(planned(lambda x: x.sum(), "bool[N~20000, M~20000]")) == {i32}


def test_sums_that_may_not_fit_stay_long() -> None:
    assert sums(planned(lambda x: x.sum(1), "u8[3, 8421505]")) == {u64}
    assert sums(planned(lambda x: x.sum(1), "i32[300, 409]")) == {i64}
    assert sums(planned(lambda x: x.astype(np.uint64).sum(1), "i8[300, 409]")) == {u64}  # -1 is 2**64 - 1 there
    assert sums(planned(lambda x: x.sum(1), "u8[300, 409]", "cpu")) == {u64}


def test_moments_of_integers_are_one_pass() -> None:
    assert len(planned(lambda x: x.std(1), "u8[20000, 20480]").kernels) == 1
