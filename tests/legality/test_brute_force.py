"""The verdicts of all rules on random programs and schedules, checked instance by instance, both ways.

``python -m tests.legality.brute --count 10000`` checks more: benchmarks/results/legality_brute_force.json.
"""

from __future__ import annotations

from typing import Any

import pytest

from polyfuse.legality import RULES
from tests.legality.brute import run
from tests.legality.tamper import CHANGES, ELECTIONS

SCHEDULES = 400


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return run(SCHEDULES, seed=0, show=0)


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


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_accepted_and_refused_something(record: dict[str, Any], rule: str) -> None:
    assert record["by rule"].get(f"{rule} legal", 0) >= 10
    assert record["by rule"].get(f"{rule} illegal", 0) >= 1


@pytest.mark.parametrize("derived", ["dependence", "halo", "scope", "guard"])
def test_what_isl_derives_was_enumerated(record: dict[str, Any], derived: str) -> None:
    assert record["by rule"].get(f"{derived} derived", 0) >= 50


@pytest.mark.parametrize("change", sorted({c.__name__ for c in (*CHANGES, *ELECTIONS)}))
def test_every_change_was_made(record: dict[str, Any], change: str) -> None:
    assert record["changes"].get(change)
