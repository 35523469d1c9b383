"""Programs whose sums in one pass are cheaper by partitions that need no search are not searched as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.grouping.at_once import at_once, comes_near
from polyfuse.planning import planner
from polyfuse.planning.program_costs import program_costs
from polyfuse.target import H200
from polyfuse.testing import assert_legal


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def standardise(x):
    centred = x - x.mean(axis=0)
    return centred / np.sqrt((centred * centred).mean(axis=0) + 1e-5)


def loss(x, labels):
    m = x.max(axis=1)
    total = np.log(np.exp(x - m[:, None]).sum(axis=1))
    return (total + m - np.take_along_axis(x, labels[:, None], 1)[:, 0]).mean()


def logsumexp(x):
    m = x.max(axis=0)
    return np.log(np.exp(x - m).sum(axis=0)) + m


CASES: dict[str, tuple[Callable[..., Any], tuple[str, ...], int]] = {
    "softmax": (softmax, ("bf16[N~2048, M~100001]",), 1),
    "loss": (loss, ("bf16[N~4096, M~50257]", "i64[N~4096]"), 2),
    "standardise": (standardise, ("f32[N~16384, M~8192]",), 2),
    "logsumexp": (logsumexp, ("f32[N~8192, M~8191]",), 1),
}


def searched(monkeypatch: pytest.MonkeyPatch, case: str) -> tuple[pf.Plan, int]:
    """The plan of a case, and how often the program as it is was searched."""
    function, specs, _ = CASES[case]
    searches = 0

    def counted(*args: Any) -> Any:
        nonlocal searches
        searches += 1
        return grouped(*args)

    grouped = planner.grouped
    monkeypatch.setattr(planner, "grouped", counted)
    return pf.jit(function).plan(*map(pf.spec, specs), target="h200"), searches


@pytest.mark.parametrize("case", CASES)
def test_what_is_cheaper_for_certain_is_not_searched_for(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    plan, searches = searched(monkeypatch, case)
    assert searches == 0 and len(plan.kernels) == CASES[case][2]
    assert "max_sumexp" in str(plan) or "moments" in str(plan)
    assert_legal(plan)


@pytest.mark.parametrize("case", CASES)
def test_the_plan_is_about_as_cheap_as_that_of_a_search(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    function, specs, _ = CASES[case]
    plan, _ = searched(monkeypatch, case)
    monkeypatch.setattr(planner, "in_one_pass_at_once", lambda costs, layouts: None)
    other = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    assert plan.cost_analysis().seconds <= 1.01 * other.cost_analysis().seconds


@pytest.mark.parametrize(("case", "shape"), [("softmax", (2, 100001)), ("standardise", (9, 300))])
def test_it_computes_what_was_written(
    monkeypatch: pytest.MonkeyPatch, case: str, shape: tuple[int, int]
) -> None:
    plan, _ = searched(monkeypatch, case)
    dtype = plan.program.arguments[0].dtype.numpy
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    (found,) = run_plan(plan, [x])
    error = 1e-2 if dtype.itemsize == 2 else 1e-5
    np.testing.assert_allclose(found.astype(float), CASES[case][0](x.astype(float)), rtol=error, atol=error)


def test_rows_that_are_held_are_searched_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cheaper than one kernel that takes what its bytes take."""
    monkeypatch.setitem(CASES, "short rows", (softmax, ("f32[N~65536, M~1024]",), 1))
    plan, searches = searched(monkeypatch, "short rows")
    assert searches == 1 and "max_sumexp" not in str(plan)


def test_a_user_that_says_how_long_planning_may_take_has_a_search() -> None:
    plan = pf.jit(standardise, planning_seconds=5).plan(pf.spec("f32[N~16384, M~8192]"), target="h200")
    assert len(plan.kernels) == 2


def costs_of(function: Callable[..., Any], *specs: str) -> Any:
    program = pf.jit(function, fuse=False).plan(*map(pf.spec, specs), target="h200").program
    return program_costs(program, H200, pf.jit(function).plan(*map(pf.spec, specs), target="h200").options, ())


def test_the_partitions_are_one_kernel_and_those_around_small_values() -> None:
    held = at_once(costs_of(softmax, "f32[65536, 1024]"))
    assert held is not None and len(held.kernels) == 1
    costs = costs_of(softmax, "f32[65536, 1024]")
    assert comes_near(costs, at_once(costs))
    mean = at_once(costs_of(lambda x: (x * x).sum(axis=1).mean(), "f32[65536, 1024]"))
    assert mean is not None and len(mean.kernels) in (1, 2)
    assert at_once(costs_of(lambda x: x + 1, "f32[65536, 1024]")) is None  # nothing to partition
