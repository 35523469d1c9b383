"""The verdicts of all rules on random programs and schedules, checked instance by instance, both ways.

``python -m tests.legality.brute --count 10000`` checks more: benchmarks/results/legality_brute_force.json.
"""

from __future__ import annotations

from typing import Any

import pytest

from polyfuse.legality import RULES
from tests.legality.brute import run
from tests.legality.tamper import CHANGES

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


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_accepted_and_refused_something(record: dict[str, Any], rule: str) -> None:
    assert record["by rule"].get(f"{rule} legal", 0) >= 10
    assert record["by rule"].get(f"{rule} illegal", 0) >= 1


@pytest.mark.parametrize("derived", ["dependence", "halo", "scope", "guard"])
def test_what_isl_derives_was_enumerated(record: dict[str, Any], derived: str) -> None:
    assert record["by rule"].get(f"{derived} derived", 0) >= 50


@pytest.mark.parametrize("change", sorted({c.__name__ for c in CHANGES}))
def test_every_change_was_made(record: dict[str, Any], change: str) -> None:
    assert record["changes"].get(change)
