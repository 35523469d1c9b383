"""Schedules of a wrong form: one change of a legal schedule each, refused with the sentence in the table, word by word.

What these rules let through is taken for granted by the others and by the lowering.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from polyfuse.legality import RULES, prove
from polyfuse.verdict import Kind
from tests.legality.form_changes import SCHEDULES, Change, made
from tests.legality.form_faults import EXECUTED, PROVIDERS, STORED


@dataclass(frozen=True)
class Fault:
    rule: str
    given: str
    change: Change
    sentence: str


def faults() -> dict[str, Fault]:
    tables = {kind: ("executed", table) for kind, table in EXECUTED.items()}
    tables |= {"provided": ("provided", PROVIDERS), "stored": ("stored", STORED)}
    return {
        f"{kind}: {name}": Fault(rule, *entry)
        for kind, (rule, table) in tables.items()
        for name, entry in table.items()
    }


FAULTS = faults()


@pytest.mark.parametrize("given", SCHEDULES)
def test_the_schedules_to_be_changed_are_legal(given: str) -> None:
    scop, kernel = made(given)
    assert prove(scop, kernel).kind is Kind.LEGAL


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_form_is_refused_in_these_words(name: str) -> None:
    fault = FAULTS[name]
    scop, kernel = made(fault.given)
    verdict = prove(scop, fault.change(kernel))
    assert (verdict.kind, verdict.rule, verdict.sentence) == (Kind.ILLEGAL, fault.rule, fault.sentence)


def test_the_tables_are_of_rules_that_there_are() -> None:
    assert {fault.rule for fault in FAULTS.values()} <= RULES.keys()
