"""One place of a scan's rows, beside the scan: a reduction with the same bits; alone: the reduction of all elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.planning import planner
from polyfuse.rewrites.last_places import reduced, sites
from polyfuse.testing import assert_legal

Function = Callable[..., Any]


def shares(x):
    c = np.cumsum(x, 1)
    return c / c[:, -1:]


def from_the_middle(x):
    c = np.cumsum(x, 1)
    return c - c[:, 3][:, None]


def products(x):
    c = np.cumprod(x, axis=1)
    return c * c[:, -1:], c


def behind_each_other(x):
    c = np.cumsum(x[:, ::-1], 1)[:, ::-1]
    return c / c[:, :1]


def in_columns(x):
    c = np.cumsum(x, 0)
    return c / c[-1]


def below_the_last(x):
    """Prices of paths: the exponential of the last place, where the path stays below a barrier."""
    s = np.exp(np.cumsum(x * 0.01, 1))
    return np.where(s.max(axis=1) < 1.2, s[:, -1], 0)


CASES: dict[str, tuple[Function, str]] = {
    "shares": (shares, "f32[N~32768, 2001]"),
    "shares, 16 bits": (shares, "bf16[N~32768, 2001]"),
    "a place in the middle": (from_the_middle, "f32[N~32768, 2001]"),
    "products": (products, "f32[N~32768, 1001]"),
    "backwards": (behind_each_other, "f32[N~32768, 2001]"),
    "whole numbers": (from_the_middle, "i64[N~32768, 2001]"),
    "of what is made of prefixes": (below_the_last, "f32[N~32768, 2001]"),
    "of a row that lanes hold once": (below_the_last, "f32[N~400000, 256]"),
    "of 100": (below_the_last, "bf16[N~400000, 100]"),
}
DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i64": np.int64}


@pytest.mark.parametrize("case", CASES)
def test_a_row_and_what_needs_its_last_element_are_one_kernel(case: str) -> None:
    function, spec = CASES[case]
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    (kernel,) = plan.kernels
    assert "max(region" in str(plan) and kernel.strategy == "rows"
    assert_legal(plan)


def in_one(function: Function, spec: str) -> Plan:
    """The plan with the elements as reductions, whatever it costs."""
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    program = reduced(plan.program, sites(plan.program))
    return planner.plan_program(program, plan.target, plan.options, plan.layouts)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "function", [shares, from_the_middle, products, behind_each_other, in_columns, below_the_last]
)
def test_the_bits_are_those_of_the_element(function: Function, dtype: str) -> None:
    x = np.random.default_rng(1).integers(-3, 9, (5, 40)).astype(DTYPES[dtype])
    if dtype == "f32":
        x[0, 7], x[1, -1], x[2] = np.nan, np.inf, -0.0
    plain = pf.jit(function).plan(pf.spec(f"{dtype}[5, 40]"), target="h200")
    with np.errstate(all="ignore"):
        for found, wanted in zip(run_plan(in_one(function, f"{dtype}[5, 40]"), [x]), run_plan(plain, [x]), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)


def test_the_last_share_is_one() -> None:
    """Prefixes over their last one end with 1: a sum that adds up in another order would not give that."""
    x = np.random.default_rng(2).random((7, 2001)).astype(np.float32)
    (found,) = run_plan(pf.jit(shares).plan(pf.spec("f32[N~32768, 2001]"), target="h200"), [x])
    assert (found[:, -1] == 1).all()


ALONE: dict[str, tuple[Function, str]] = {
    "the last prefix": (lambda x: np.cumsum(x, 1)[:, -1], "f32[N~32768, 2001]"),
    "of 16 bits": (lambda x: np.cumsum(x, 1)[:, -1], "bf16[N~32768, 2001]"),
    "the last product": (lambda x: np.cumprod(x, axis=1)[:, -1] + 1, "f32[N~32768, 2001]"),
    "backwards": (lambda x: np.cumsum(x[:, ::-1], 1)[:, ::-1][:, 0], "f32[N~32768, 2001]"),
}


@pytest.mark.parametrize("case", ALONE)
def test_the_last_place_alone_is_the_reduction(case: str) -> None:
    function, spec = ALONE[case]
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    assert "scan" not in str(plan) and len(plan.kernels) == 1
    x = np.random.default_rng(4).random((3, 2001)).astype(DTYPES[spec.split("[")[0]])
    (found,) = run_plan(plan, [x])
    np.testing.assert_allclose(found.astype(np.float64), function(x.astype(np.float64)), rtol=1e-2)


STAYS: dict[str, Function] = {
    "another place": lambda x: np.cumsum(x, 1)[:, -2],
    "the largest so far": lambda x: np.maximum.accumulate(x, axis=1)[:, -1],
    "of every row another": lambda x: np.diagonal(np.cumsum(x, 1)),
}


@pytest.mark.parametrize("case", STAYS)
def test_other_places_and_scans_stay_as_they_are(case: str) -> None:
    plan = pf.jit(STAYS[case]).plan(pf.spec("f32[N~4096, 2001]"), target="h200")
    assert "scan" in str(plan)


def test_what_varies_along_the_scan_is_no_site() -> None:
    def function(x):
        return np.cumsum(x, 1) - np.cumsum(x, 1)[:, ::-1]

    plan = pf.jit(function).plan(pf.spec("f32[N~4096, 2001]"), target="h200")
    assert sites(plan.program) == ()


@pytest.mark.parametrize("shape", [(0, 5), (4, 1), (3, 0)])
def test_short_and_empty_rows(shape: tuple[int, int]) -> None:
    x = np.ones(shape, np.float32)
    found = pf.jit(shares, backend="interpreter")(x)
    np.testing.assert_array_equal(found, shares(x))
    if shape[1]:
        np.testing.assert_array_equal(pf.jit(ALONE["the last prefix"][0], backend="interpreter")(x), x.sum(1))
