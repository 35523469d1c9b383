"""Planning time: what is alike is priced once, work grows with the program and no faster."""

from __future__ import annotations

import sys

import pytest

from benchmarks.planning import planned
from benchmarks.planning_programs import FAMILIES, residual_blocks
from polyfuse.planning.program_costs import ProgramCosts


@pytest.mark.parametrize(("family", "operations"), [("residual blocks", 63), ("attention heads", 18), ("adam", 60)])
def test_groups_that_are_alike_share_a_price_and_no_plan_changes(
    family: str, operations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, shared = planned(FAMILIES[family].of(operations))
    monkeypatch.setattr(ProgramCosts, "_key", lambda *_: None)
    alone, each = planned(FAMILIES[family].of(operations))
    assert alone == plan
    assert each.placed > shared.placed


def test_a_thousand_operations_are_planned_in_seconds() -> None:
    plan, measured = planned(residual_blocks(48))
    assert len(plan.scop.statements) > 1000
    traced = sys.gettrace() is not None  # coverage makes planning several times slower
    assert measured.seconds < (40 if traced else 10), measured


@pytest.mark.parametrize("family", ["residual blocks", "pointwise chain", "softmax and matmul", "perceptron", "adam"])
def test_work_grows_with_the_program(family: str) -> None:
    """A program four times as long may take eight times the work, not sixteen times.  What isl was asked before in this
    process does not count: a few questions more or less."""
    small, large = (planned(FAMILIES[family].of(operations))[1] for operations in (80, 320))
    longer = large.statements / small.statements
    assert large.placed < 2 * longer * small.placed, (small, large)
    assert large.isl < 2 * longer * small.isl + 200, (small, large)
