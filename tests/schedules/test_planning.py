"""Planning time: what is alike is priced once, work grows with the program and no faster."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.planning import planned
from benchmarks.planning_programs import FAMILIES, Case, residual_blocks, softmax_and_matmul, transformer_with_library
from polyfuse.planning import program_costs
from polyfuse.planning.choose import Choice, Wishes, choices
from polyfuse.planning.program_costs import ProgramCosts
from polyfuse.strategies.situation import Situation


@pytest.mark.parametrize(
    ("family", "operations"), [("residual blocks", 63), ("attention heads", 18), ("independent outputs", 60)]
)
def test_groups_that_are_alike_share_a_price_and_no_plan_changes(
    family: str, operations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, shared = planned(FAMILIES[family].of(operations))
    monkeypatch.setattr(ProgramCosts, "_key", lambda *_: None)
    alone, each = planned(FAMILIES[family].of(operations))
    assert alone == plan
    assert each.placed > shared.placed


def slowness() -> float:
    """Times that this machine takes for a million steps, over 0.08 s; at least 1."""
    start = time.process_time()
    sum(k * k for k in range(1_000_000))
    return max(1.0, (time.process_time() - start) / 0.08)


def test_a_thousand_operations_are_planned_in_seconds() -> None:
    plan, measured = planned(residual_blocks(48))
    assert len(plan.scop.statements) > 1000
    assert measured.placed < 20_000, measured  # on any machine
    traced = sys.gettrace() is not None  # coverage makes planning several times slower
    assert measured.seconds < (40 if traced else 10 * slowness()), measured


@pytest.mark.parametrize(("program", "layers"), [(softmax_and_matmul, 6), (transformer_with_library, 3)])
def test_layers_that_are_alike_are_planned_once(
    program: Callable[[int], Case], layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many layers take twice as many kernels, but for one behind the last, and no more groups are scheduled to
    learn a price or a refusal, nor more questions asked; kernels like one that has a schedule take that one's."""
    scheduled: list[int | None] = []

    def counted(situation: Situation, wishes: Wishes, *others: Any) -> Iterator[Choice]:
        scheduled.append(wishes.number)
        return choices(situation, wishes, *others)

    monkeypatch.setattr(program_costs, "choices", counted)
    few = planned(program(layers))[1]
    known = scheduled.count(None)
    scheduled.clear()
    many = planned(program(2 * layers))[1]
    assert 2 * few.kernels - many.kernels in (0, 1)
    assert scheduled.count(None) <= 1.02 * known
    assert many.isl < 50  # beyond what was asked for half of the layers


@pytest.mark.parametrize("family", ["residual blocks", "pointwise chain", "softmax and matmul", "perceptron", "adam"])
def test_work_grows_with_the_program(family: str) -> None:
    """A program four times as long may take eight times the work, not sixteen times.  What isl was asked before in this
    process does not count: a few questions more or less."""
    small, large = (planned(FAMILIES[family].of(operations))[1] for operations in (60, 240))
    longer = large.statements / small.statements
    assert large.placed < 2 * longer * small.placed, (small, large)
    assert large.isl < 2 * longer * small.isl + 200, (small, large)
