"""What a schedule takes at least, without a price: those that take longer than the best are not priced, and are chosen
as if they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from polyfuse.cost import prices
from polyfuse.cost.prices import at_least, price
from polyfuse.places.builder import Refused, draft_schedule
from polyfuse.planning.choose import Choice, Wishes, choices
from polyfuse.planning.collapse import collapse
from polyfuse.planning.outlook import Outlook
from polyfuse.strategies.situation import Situation
from polyfuse.target import CPU, H200
from tests.schedules.test_few_prices import (
    doubly_centred,
    margins,
    normalised_backward,
    softmax_of_columns,
    standardised,
    whole_situation,
)

GROUPS: list[tuple[Callable[..., Any], tuple[str, ...]]] = [
    (lambda x: x.sum(axis=0), ("bf16[1000003, 131]",)),
    (lambda x: x.max(axis=0), ("u8[1000003, 131]",)),
    (lambda x: x.T.copy() * 2, ("f32[8191, 8193]",)),
    (lambda x: x.cumsum(axis=0), ("f32[16384, 8192]",)),
    (softmax_of_columns, ("f32[16384, 8192]",)),
    (standardised, ("f32[16384, 8192]",)),
    (margins, ("f32[16384, 4099]",)),
    (doubly_centred, ("f32[8192, 8192]",)),
    (normalised_backward, ("bf16[32768, 4096]", "bf16[4096]", "bf16[32768, 4096]")),
]


def collapsed(function: Callable[..., Any], *specs: str) -> Situation:
    situation, _ = whole_situation(function, *specs)
    return Situation(collapse(situation.group, situation.layouts), H200, situation.hints)


def header(choice: Choice) -> object:
    return choice.schedule and (choice.schedule.strategy, choice.schedule.parameters, choice.cost)


def in_turn(situation: Situation, pricer: Callable[..., Any], outlook: Outlook | None = None) -> list[object]:
    """What is chosen, then if all before were refuted."""
    return [header(choice) for choice in choices(situation, Wishes(), pricer, outlook=outlook)]


@pytest.mark.parametrize(("function", "specs"), GROUPS)
def test_no_schedule_takes_less_than_it_takes_at_least(
    function: Callable[..., Any], specs: tuple[str, ...]
) -> None:
    situation, proposals = whole_situation(function, *specs)
    drafts = 0
    for _, proposal in proposals:
        try:
            draft = draft_schedule("k", situation.group, proposal)
        except Refused:
            continue
        least = at_least(situation.scop, draft, H200, situation.hints)
        assert 0 < least <= price(situation.scop, draft, H200, situation.hints).seconds
        drafts += 1
    assert drafts


@pytest.mark.parametrize(("function", "specs"), GROUPS)
def test_what_has_no_price_is_chosen_in_the_same_order(function: Callable[..., Any], specs: tuple[str, ...]) -> None:
    situation = collapsed(function, *specs)
    assert in_turn(situation, price) == in_turn(situation, lambda *a: price(*a))  # of others nothing is known at least


def test_what_a_family_learns_is_the_same() -> None:
    found = []
    for pricer in (price, lambda *a: price(*a)):
        outlook = Outlook()
        for function, specs in GROUPS:
            next(choices(collapsed(function, *specs), Wishes(), pricer, outlook=outlook))
        found.append({family: (w.near, w.served, w.slowness, w.usual) for family, w in outlook.worth.items()})
    assert found[0] == found[1]


def test_what_moves_too_much_has_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 0
    accesses = prices.l1_accesses

    def counting(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        return accesses(*arguments)

    monkeypatch.setattr(prices, "l1_accesses", counting)  # which every price asks for
    situation = collapsed(lambda x: x.sum(axis=0), "bf16[1000003, 131]")
    next(choices(situation, Wishes()))
    few, count = count, 0
    next(choices(situation, Wishes(), lambda *a: price(*a)))
    assert 0 < few < count / 2, (few, count)


def test_of_a_core_nothing_is_known() -> None:
    situation, proposals = whole_situation(lambda x: 2 * x, "f32[16384, 4099]")
    draft = draft_schedule("k", situation.group, proposals[0][1])
    assert at_least(situation.scop, draft, CPU, situation.hints) == 0
