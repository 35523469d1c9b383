"""Illegal schedules are refused, each by its rule, with a sentence and a witness; and each rule is needed for that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from polyfuse.dtypes import f16
from polyfuse.legality import RULES, Rule, prove
from polyfuse.legality.relations import Proof
from polyfuse.places.proposal import Combination
from polyfuse.verdict import LEGAL, Hazard, Kind
from tests.legality import programs
from tests.legality.legal import CHUNK, CHUNKS, merged_rows
from tests.legality.refusals import REFUSALS
from tests.legality.schedules import M, N, block, c, schedule

NEEDED_FOR = {
    "executed": "thread_digits_that_overlap",
    "provided": "wrong_component",
    "stored": "gather_of_what_the_kernel_computes",
    "coverage": "grid_one_block_short",
    "once": "tiles_that_overlap",
    "scope": "halo_missing",
    "order": "producer_after_consumer",
    "combine": "threads_counted_twice",
    "atomic": "share_not_merged",
    "scan": "prefix_out_of_order",
    "box": "cells_at_one_address",
    "barrier": "no_barrier_around_the_loop",
    "reuse": "overwritten_before_a_neighbour_reads",
}
"""Per rule a refusal that is lost without it."""

CHECKS = {
    ("grid", "stored_once"): "share_stored_by_two_elections",
    ("grid", "_stored_before"): "shares_of_another_election",
    ("structure", "_finishes"): "two_elections_over_one_digit",
    ("structure", "_combinations"): "combined_twice",
    ("scope", "_put_by_the_elected"): "box_that_only_the_elected_block_fills",
    ("scope", "_only_elected"): "total_read_by_every_block",
    ("combine", "_complete"): "share_of_a_block_left_out",
    ("atomic", "stored_once"): "share_merged_by_blocks_that_nothing_tells_apart",
    ("atomic", "_every_share"): "share_not_merged",
}
"""Checks of what blocks hand on to the one that is elected, parts of rules: module and function, and a refusal that is
lost without it."""

ACCEPT = Rule(lambda proof: LEGAL, "accepts everything")


def assert_refused_by_its_rule_alone(name: str, rules: Mapping[str, Rule] = RULES) -> None:
    refusal = REFUSALS[name]()
    assert prove(refusal.scop, refusal.legal, rules, atomics=refusal.atomics).kind is Kind.LEGAL
    verdict = prove(refusal.scop, refusal.tampered, rules, atomics=refusal.atomics)
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
    assert prove(refusal.scop, refusal.tampered, weaker, atomics=refusal.atomics).kind is Kind.LEGAL


@pytest.mark.parametrize("check_of", CHECKS, ids=".".join)
def test_without_a_check_of_elections_its_refusal_is_lost(
    check_of: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, function = check_of
    refusal = REFUSALS[CHECKS[check_of]]()
    assert prove(refusal.scop, refusal.tampered, dict(RULES), atomics=refusal.atomics).kind is Kind.ILLEGAL
    accept = (lambda proof: iter(())) if module == "structure" else (lambda *arguments: LEGAL)
    monkeypatch.setattr(f"polyfuse.legality.{module}.{function}", accept)
    assert prove(refusal.scop, refusal.tampered, dict(RULES), atomics=refusal.atomics).kind is Kind.LEGAL


def test_shares_are_merged_in_any_order_only_where_the_user_allows_it() -> None:
    scop, legal = merged_rows()
    assert prove(scop, legal, atomics=True)
    verdict = prove(scop, legal)
    assert (verdict.kind, verdict.rule, verdict.hazard) == (Kind.ILLEGAL, "atomic", Hazard.COMBINE)
    assert "in an order that varies, which atomics=True allows" in verdict.sentence
    assert prove(scop, legal, {**RULES, "atomic": ACCEPT})


@pytest.mark.parametrize("monoid", ["argmax", "moments"])
def test_what_no_single_update_merges_is_refused(monoid: str) -> None:
    scop, legal = merged_rows()
    statements = tuple(replace(s, monoid=monoid) if s.name == "sum" else s for s in scop.statements)  # type: ignore[arg-type]
    verdict = RULES["atomic"].check(Proof(replace(scop, statements=statements), legal, atomics=True))
    assert (verdict.rule, verdict.hazard) == ("atomic", Hazard.COMBINE)


def test_shares_that_memory_would_round_are_refused() -> None:
    scop, legal = merged_rows()
    statements = tuple(replace(s, dtypes=(f16,)) if s.name == "sum" else s for s in scop.statements)
    verdict = RULES["atomic"].check(Proof(replace(scop, statements=statements), legal, atomics=True))
    assert verdict.sentence == "sum is summed in f32, and f16 in memory holds less"


def test_no_argument_makes_room_for_what_is_filled_before_the_kernel() -> None:
    x = programs.array(0, M, N)
    y = programs.array(1, M)
    row = programs.reduce("sum", programs.exp(programs.add(x, programs.along(y, x.shape, 0))), 1)
    places = {"add": [c, *CHUNK], "exp": [c, *CHUNK], "sum": [c, *CHUNK]}
    program = programs.program([x, y], [row])
    shares = {"b": Combination(("t",))}
    scop, legal = schedule(program, [block("c", M), *CHUNKS], places, combines=shares, atomic=True)
    argument = next(s.id for s in scop.statements if s.name == "x1")
    verdict = prove(scop, replace(legal, reuses=((argument, scop.outputs[0]),)), atomics=True)
    assert verdict.rule == "reuse" and "is filled before the kernel reads x1" in verdict.sentence
