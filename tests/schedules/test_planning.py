"""Planning time: what is alike is priced once, and plans do not change for it."""

from __future__ import annotations

import pytest

from benchmarks.planning import planned
from polyfuse.choose import Choice
from polyfuse.program_costs import ProgramCosts

Values = frozenset[int]


def test_groups_that_are_alike_share_a_price_and_no_plan_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, _ = planned(60)

    def each_on_its_own(self: ProgramCosts, body: Values, roots: Values, loads: Values) -> tuple[int, bool]:
        choice = self.choice(body, roots, loads)
        picoseconds = choice.cost.picoseconds if choice.cost is not None else self.floor(roots, loads)
        return picoseconds, choice.verdict is None

    monkeypatch.setattr(ProgramCosts, "_judged", each_on_its_own)
    assert planned(60)[0] == plan


def test_a_hundred_operations_are_planned_in_seconds() -> None:
    plan, seconds = planned(100)
    assert len(plan.scop.statements) > 100
    assert seconds < 5


def test_repeated_blocks_cost_few_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operands of ``x + gelu(x)`` stand in the same order in every block, so that its kernels are alike."""
    asked = list[int]()
    choose = ProgramCosts._choose

    def counted(self: ProgramCosts, body: Values, roots: Values, loads: Values) -> Choice:
        asked[-1] += 1
        return choose(self, body, roots, loads)

    monkeypatch.setattr(ProgramCosts, "_choose", counted)
    for operations in (160, 320):
        asked.append(0)
        planned(operations)
    assert asked[1] < 1.3 * asked[0], asked
