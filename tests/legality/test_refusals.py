"""Illegal schedules are refused, each by its rule, with a sentence and a witness; and each rule is needed for that."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from polyfuse.legality import RULES, Rule, prove
from polyfuse.verdict import LEGAL, Kind
from tests.legality.refusals import REFUSALS

NEEDED_FOR = {
    "executed": "thread_digits_that_overlap",
    "provided": "wrong_component",
    "stored": "gather_of_what_the_kernel_computes",
    "coverage": "grid_one_block_short",
    "once": "tiles_that_overlap",
    "scope": "halo_missing",
    "order": "producer_after_consumer",
    "combine": "threads_counted_twice",
    "scan": "prefix_out_of_order",
    "box": "cells_at_one_address",
    "barrier": "no_barrier_around_the_loop",
    "reuse": "overwritten_before_a_neighbour_reads",
}
"""Per rule a refusal that is lost without it."""

CHECKS = {
    ("grid", "_stored_once"): "share_stored_by_two_elections",
    ("grid", "_stored_before"): "shares_of_another_election",
    ("structure", "_finishes"): "two_elections_over_one_digit",
    ("structure", "_combinations"): "combined_twice",
    ("scope", "_put_by_the_elected"): "box_that_only_the_elected_block_fills",
    ("scope", "_only_elected"): "total_read_by_every_block",
    ("combine", "_complete"): "share_of_a_block_left_out",
}
"""Checks of what blocks hand on to the one that is elected, parts of rules: module and function, and a refusal that is
lost without it."""

ACCEPT = Rule(lambda proof: LEGAL, "accepts everything")


def assert_refused_by_its_rule_alone(name: str, rules: Mapping[str, Rule] = RULES) -> None:
    refusal = REFUSALS[name]()
    assert prove(refusal.scop, refusal.legal, rules).kind is Kind.LEGAL
    verdict = prove(refusal.scop, refusal.tampered, rules)
    assert (verdict.kind, verdict.rule, verdict.hazard) == (Kind.ILLEGAL, refusal.rule, refusal.hazard)
    assert refusal.words in verdict.sentence
    assert str(verdict.witness or "") == refusal.witness


@pytest.mark.parametrize("name", REFUSALS)
def test_refused(name: str) -> None:
    assert_refused_by_its_rule_alone(name)


def test_every_rule_is_named() -> None:
    assert NEEDED_FOR.keys() == RULES.keys()
    assert all(rule.meaning for rule in RULES.values())


@pytest.mark.parametrize("rule", RULES)
def test_without_the_rule_its_refusal_is_lost(rule: str) -> None:
    refusal = REFUSALS[NEEDED_FOR[rule]]()
    assert refusal.rule == rule
    weaker = {**RULES, rule: ACCEPT}
    with pytest.raises(AssertionError):
        assert_refused_by_its_rule_alone(NEEDED_FOR[rule], weaker)
    assert prove(refusal.scop, refusal.tampered, weaker).kind is Kind.LEGAL


@pytest.mark.parametrize("check_of", CHECKS, ids=".".join)
def test_without_a_check_of_elections_its_refusal_is_lost(
    check_of: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, function = check_of
    refusal = REFUSALS[CHECKS[check_of]]()
    assert prove(refusal.scop, refusal.tampered, dict(RULES)).kind is Kind.ILLEGAL
    accept = (lambda proof: iter(())) if module == "structure" else (lambda *arguments: LEGAL)
    monkeypatch.setattr(f"polyfuse.legality.{module}.{function}", accept)
    assert prove(refusal.scop, refusal.tampered, dict(RULES)).kind is Kind.LEGAL
