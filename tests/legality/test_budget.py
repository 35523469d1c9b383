"""What isl cannot decide within its budget is unknown: never an exception, never taken for legal, never a hang."""

from __future__ import annotations

import time

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality import RULES, guard_of, may_reuse, prove
from polyfuse.legality.relations import Proof
from polyfuse.sets import Constraint, Relation, box, equal
from polyfuse.verdict import Kind
from tests.legality import programs
from tests.legality.refusals import REFUSALS
from tests.legality.schedules import N, block, digit, schedule, thread

t = digit("t")


@pytest.fixture
def no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every new question exceeds its budget; old answers are forgotten."""
    monkeypatch.setattr(sets, "BUDGET", 3)
    for known in (sets._parse, sets._difference, sets._single_valued, sets._implied):
        known.cache_clear()


@pytest.mark.usefixtures("no_budget")
@pytest.mark.parametrize("name", REFUSALS)
def test_unknown_or_refused_by_form_but_never_an_exception(name: str) -> None:
    refusal = REFUSALS[name]()
    assert prove(refusal.scop, refusal.legal).kind is Kind.UNKNOWN
    verdict = prove(refusal.scop, refusal.tampered)
    assert verdict.kind in (Kind.UNKNOWN, Kind.ILLEGAL)
    assert verdict.rule in RULES
    if verdict.kind is Kind.UNKNOWN:
        assert "was not decided: the query needs more than 3 isl operations" in verdict.sentence
        assert not verdict


@pytest.mark.usefixtures("no_budget")
def test_reuse_and_guards_are_unknown_too() -> None:
    place = [32 * digit("b") + t]
    scop, kernel = schedule(programs.chain(N), [block("b", N.ceildiv(32)), thread("t", 1, 32)], {"exp": place})
    verdict = may_reuse(scop, kernel, programs.statement(scop, "x0"), programs.statement(scop, "exp"))
    assert (verdict.kind, verdict.rule) == (Kind.UNKNOWN, "reuse")
    domain = Relation(("@i",), box(["@i"], [N]))
    assert guard_of(domain, Relation(("@i",), (equal(Affine.symbol("@i"), t), *box(["$t"], [N])), ("$t",))) is None


def test_a_hard_query_stops_within_its_budget() -> None:
    """Coprime strides over many dimensions: a projection that isl eliminates dimension by dimension."""
    steps = (101, 103, 107, 109, 113, 127, 131, 137)
    names = [f"$e{n}" for n in range(len(steps))]
    total = Affine.of(0)
    for name, step in zip(names, steps, strict=True):
        total += Affine.symbol(name) * step
    i = Affine.symbol("@i")
    reached = Relation(("@i",), (equal(i, total), *box(names, [N] * len(names))), tuple(names))
    shifted = (Constraint(i - total - 1), Constraint(total + 3 - i))
    other = Relation(("@i",), (*shifted, *box(names, [N] * len(names))), tuple(names))
    started = time.perf_counter()
    with pytest.raises(sets.BudgetExceeded):
        sets.is_subset(reached, other)
    assert time.perf_counter() - started < 20  # 1 to 3 on an idle machine


def test_rules_other_than_on_form_ask_isl_only_through_the_budget() -> None:
    """A legal schedule without any digit needs no question that a budget could refuse."""
    scop, kernel = schedule(programs.chain(1), [], {"exp": [Affine.of(0)]})
    assert all(rule.check(Proof(scop, kernel)) for rule in RULES.values())


def test_a_lone_statement_that_no_budget_decides_is_asked_about_at_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot be taken apart, and a program without a schedule for it has none at all."""
    monkeypatch.setattr(sets, "BUDGET", 800)
    for known in (sets._parse, sets._difference, sets._single_valued, sets._implied):
        known.cache_clear()
    x = np.ones((300, 500), np.float32)
    plan = pf.jit(lambda x: x.sum(axis=1), target="h200").lower(x).plan
    monkeypatch.setattr(sets, "BUDGET", 60_000)
    assert prove(plan.scop, plan.launches[0].schedule)
