"""The verdicts of all rules on random programs and schedules, checked instance by instance, both ways.

``python -m tests.legality.brute --count 10000`` checks more: benchmarks/results/legality_brute_force.json.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from polyfuse.legality import RULES
from tests.legality.brute import run
from tests.legality.cases import random_case
from tests.legality.compare import disagreements
from tests.legality.tamper import CHANGES, ELECTIONS, Change

SCHEDULES, MERGED = 400, 80


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return run(SCHEDULES, seed=0, show=0)


@pytest.fixture(scope="module")
def merged() -> dict[str, Any]:
    """Of schedules whose blocks merge their shares into the result."""
    return run(MERGED, seed=0, show=0, merged=True)


def test_verdicts_on_atomics_agree_with_enumeration(merged: dict[str, Any]) -> None:
    assert merged["schedules"] == MERGED and not merged["disagreements"]
    assert merged["by rule"]["atomic illegal"] >= 5
    for what in ("legal", "illegal"):
        assert merged["by rule"][f"schedule with atomics {what}"] >= MERGED / 4


def test_verdicts_agree_with_enumeration(record: dict[str, Any]) -> None:
    assert record["schedules"] == SCHEDULES
    assert not record["disagreements"]


def test_legal_and_illegal_schedules_were_both_many(record: dict[str, Any]) -> None:
    assert record["by rule"]["schedule legal"] >= SCHEDULES / 4
    assert record["by rule"]["schedule illegal"] >= SCHEDULES / 4


def test_few_questions_were_too_long(record: dict[str, Any]) -> None:
    assert sum(n for name, n in record["by rule"].items() if name.endswith(" unknown")) <= SCHEDULES / 100


def test_elections_were_accepted_and_refused(record: dict[str, Any]) -> None:
    assert record["by rule"]["schedule with an election legal"] >= 10
    assert record["by rule"]["schedule with an election illegal"] >= 10


@pytest.mark.parametrize("rule", sorted(RULES.keys() - {"atomic"}))
def test_every_rule_accepted_and_refused_something(record: dict[str, Any], rule: str) -> None:
    assert record["by rule"].get(f"{rule} legal", 0) >= 10
    assert record["by rule"].get(f"{rule} illegal", 0) >= 1


@pytest.mark.parametrize("derived", ["dependence", "halo", "scope", "guard"])
def test_what_isl_derives_was_enumerated(record: dict[str, Any], derived: str) -> None:
    assert record["by rule"].get(f"{derived} derived", 0) >= 50


@pytest.mark.parametrize("change", sorted({c.__name__ for c in CHANGES} - {c.__name__ for c in ELECTIONS}))
def test_every_change_was_made(record: dict[str, Any], change: str) -> None:
    assert record["changes"].get(change)


@pytest.mark.parametrize("change", ELECTIONS, ids=lambda change: change.__name__)
def test_every_change_of_an_election_was_made(change: Change) -> None:
    """Few random schedules have one, so that each change is made to the first that it applies to."""
    for seed in range(20_000):
        case = random_case(Random(seed))
        if case is None or case.faults or not case.schedule.grid_combine:
            continue
        changed = change(Random(seed), case.scop, case.schedule)
        if changed is not None and changed != case.schedule:
            assert not disagreements(replace(case, schedule=changed))[0]
            return
    pytest.fail(f"{change.__name__} applies to no schedule")
