"""What a first call waits for: how many schedules are priced until the kernels of a program are found.  Counts, which
no machine changes; a price takes about a millisecond of a core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polyfuse.bindings import Layout
from polyfuse.cost.prices import price
from polyfuse.options import Options
from polyfuse.places.proposal import Group
from polyfuse.plan import Plan
from polyfuse.planning import program_costs
from polyfuse.planning.outlook import Outlook
from polyfuse.planning.planner import plan_program
from polyfuse.strategies.catalogue import propose
from polyfuse.strategies.situation import Situation
from polyfuse.target import H200
from tests.schedules.programs import program


def standardised(x: Any) -> Any:
    d = x - x.mean(axis=0)
    return d / np.sqrt((d * d).mean(axis=0))


def with_ddof(x: Any) -> Any:
    return (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)


def scores(x: Any) -> Any:
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-6)


def batch_normalised(x: Any, gain: Any, bias: Any) -> Any:
    d = x - x.mean(axis=(0, 1, 2))
    return d / np.sqrt((d * d).mean(axis=(0, 1, 2)) + 1e-5) * gain + bias


def correlations(x: Any, y: Any) -> Any:
    d, e = x - x.mean(axis=0), y - y.mean(axis=0)
    return (d * e).mean(axis=0) / (x.std(axis=0) * y.std(axis=0))


def softmax_of_columns(x: Any) -> Any:
    e = np.exp(x - x.max(axis=0))
    return e / e.sum(axis=0)


def doubly_centred(x: Any) -> Any:
    return x - x.mean(axis=0) - x.mean(axis=1, keepdims=True) + x.mean()


def normalised_backward(x: Any, gain: Any, g: Any) -> Any:
    """Gradients of a layer normalisation with a gain."""
    centred = x - x.mean(axis=-1, keepdims=True)
    scale = ((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5
    hat, gained = centred * scale, g * gain
    along = gained.mean(axis=-1, keepdims=True) + hat * (gained * hat).mean(axis=-1, keepdims=True)
    return scale * (gained - along), (g * hat).sum(axis=0), g.sum(axis=0)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ np.swapaxes(k, -1, -2)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)) @ v


CASES: list[tuple[Callable[..., Any], tuple[str, ...], int]] = [
    (standardised, ("f32[16384, 8192]",), 210),
    (with_ddof, ("f32[20000, 6000]",), 190),
    (scores, ("f32[100000, 512]",), 210),
    (batch_normalised, ("f32[64, 56, 56, 128]", "f32[128]", "f32[128]"), 245),
    (correlations, ("f32[30000, 3001]", "f32[30000, 3001]"), 265),
    (softmax_of_columns, ("f32[16384, 8192]",), 105),
    (doubly_centred, ("f32[8192, 8192]",), 345),
    (normalised_backward, ("bf16[32768, 4096]", "bf16[4096]", "bf16[32768, 4096]"), 740),
    (attention, ("f32[12, 1024, 64]",) * 3, 156),
]


def planned(function: Callable[..., Any], *specs: str) -> tuple[Plan, int]:
    """The plan and the number of schedules that were priced for it."""
    count = 0

    def counting(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        return price(*arguments)

    traced = program(function, *specs)
    return plan_program(traced, H200, Options(), tuple(Layout() for _ in traced.arguments), counting), count


@pytest.mark.parametrize(("function", "specs", "most"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_kernels_are_found_with_few_prices(
    function: Callable[..., Any], specs: tuple[str, ...], most: int
) -> None:
    """836 for the first of them, 963 for correlations, where every group tried all of its proposals, and every form of
    a program was taken apart and built again; 1,515 for the gradients where every group of several statements did."""
    _, count = planned(function, *specs)
    assert count <= most, count


@pytest.mark.parametrize(("function", "specs", "most"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_what_is_left_out_changes_no_plan(
    function: Callable[..., Any], specs: tuple[str, ...], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, count = planned(function, *specs)
    monkeypatch.setattr(Outlook, "parts", lambda self, situation, proposals: [proposals])
    every, more = planned(function, *specs)
    assert str(replace(every, work=0)) == str(replace(few, work=0))
    assert count <= more


def test_a_kernel_that_is_chosen_is_priced_with_all_proposals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search may guess, the plan may not: only the dearest of a lone statement's proposals seem worth a price."""
    expected, _ = planned(standardised, "f32[16384, 8192]")

    def worst(self: Outlook, situation: Any, proposals: Any) -> Any:
        found = [p for p in proposals if p[1].strategy == "rows"], [p for p in proposals if p[1].strategy != "rows"]
        return list(found) if all(found) and len(situation.group.body) > 1 else [proposals]

    monkeypatch.setattr(program_costs.Outlook, "parts", worst)
    made, _ = planned(standardised, "f32[16384, 8192]")
    assert not {k.schedule.strategy for k in made.kernels} & {"rows"}
    assert {k.schedule.strategy for k in expected.kernels} >= {"columns"}


def test_a_group_that_is_dear_for_its_family_is_priced_with_all_proposals() -> None:
    costs = program_costs.program_costs(program(softmax_of_columns, "f32[16384, 8192]"), H200, Options(), ())
    body = frozenset(v for v in range(costs.count) if not costs.is_input(v))
    group = Group(costs.scop, body, frozenset(costs.scop.outputs), frozenset(range(costs.count)) - body)
    situation = Situation(group, H200, costs.hints)
    proposals = list(enumerate(next(iter(propose(situation)))))
    outlook = Outlook()
    assert outlook.parts(situation, proposals) == [proposals]
    outlook.learn(situation, proposals, [(p, 1e-4 * (k + 1)) for k, p in proposals])
    assert [p for _, p in outlook.parts(situation, proposals)[0]] == [proposals[0][1]]
    assert outlook.suffices(situation, proposals, [1e-4])
    assert not outlook.suffices(situation, proposals, [2e-4, 3e-4])
    assert not outlook.suffices(situation, proposals, [])
