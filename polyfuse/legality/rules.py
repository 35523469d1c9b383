"""The rules, by name.  A rule looks at one schedule and answers with the first violation it finds, or with LEGAL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from polyfuse import sets
from polyfuse.legality.atomic import merged
from polyfuse.legality.barrier import synchronised
from polyfuse.legality.boxes import boxed
from polyfuse.legality.combine import combined
from polyfuse.legality.coverage import covered, stored_once
from polyfuse.legality.memory import provided, stored
from polyfuse.legality.order import ordered
from polyfuse.legality.relations import Proof
from polyfuse.legality.reuse import reused
from polyfuse.legality.scan import scanned
from polyfuse.legality.scope import scoped
from polyfuse.legality.structure import executed
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.sets import BudgetExceeded
from polyfuse.verdict import LEGAL, Verdict, unknown


@dataclass(frozen=True, slots=True)
class Rule:
    """`check` returns LEGAL or the violation; `meaning` is the theorem that it establishes."""

    check: Callable[[Proof], Verdict]
    meaning: str


# The first two look at the form of a schedule and speak for every later one, which takes it for granted.
RULES: Mapping[str, Rule] = {
    "executed": Rule(executed, "every placed statement runs once, in its loops, on digits that do not overlap"),
    "provided": Rule(provided, "every read is served by a placed statement that holds the value read"),
    "stored": Rule(stored, "a value that is loaded or gathered is in memory before the kernel starts"),
    "coverage": Rule(covered, "every element of every root is stored by some thread"),
    "once": Rule(stored_once, "no element of a root is stored twice"),
    "box": Rule(boxed, "every access to a shared buffer lies inside it, and its cells lie apart"),
    "scope": Rule(scoped, "every value lives where its consumers need it: same thread, or same block through a box"),
    "order": Rule(ordered, "every instance runs after all instances it depends on"),
    "combine": Rule(combined, "every contribution to a reduction is counted exactly once, where blocks meet"),
    "atomic": Rule(merged, "shares are merged into a result in any order only where that is allowed, each once"),
    "scan": Rule(scanned, "prefixes run through loop, thread and slot in increasing order of the scanned dimension"),
    "barrier": Rule(synchronised, "a barrier separates every write of a shared cell from other threads' touches of it"),
    "reuse": Rule(reused, "a buffer is overwritten in place only after every read of the same element"),
}


def prove(
    scop: Scop, schedule: KernelSchedule, rules: Mapping[str, Rule] = RULES, *, atomics: bool = False
) -> Verdict:
    """LEGAL, or the verdict of the first rule that is violated or cannot be decided within isl's budget.  `atomics`:
    the user allows results that depend on the order of blocks.

    With all rules, a schedule of one SCoP is proved once: the planner asks again whenever a neighbour was refused.
    """
    return _proved(_Same(scop), schedule, atomics) if rules is RULES else _prove(scop, schedule, rules, atomics)


LENGTH = 10
"""Budgets of a query about a statement that has no schedule else: a tenth of a second at isl's usual speed."""


def prove_at_length(scop: Scop, schedule: KernelSchedule, *, atomics: bool = False) -> Verdict:
    """As `prove`, with ten times the budget."""
    with sets.at_length(LENGTH):
        return _prove(scop, schedule, RULES, atomics)


class _Same:
    """A SCoP as a key: equal to itself only."""

    def __init__(self, scop: Scop) -> None:
        self.scop = scop

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.scop is self.scop

    def __hash__(self) -> int:
        return id(self.scop)


@lru_cache(maxsize=1024)
def _proved(same: _Same, schedule: KernelSchedule, atomics: bool) -> Verdict:
    return _prove(same.scop, schedule, RULES, atomics)


def _prove(scop: Scop, schedule: KernelSchedule, rules: Mapping[str, Rule], atomics: bool) -> Verdict:
    proof = Proof(scop, schedule, atomics)
    for name, rule in rules.items():
        try:
            verdict = rule.check(proof)
        except BudgetExceeded as reason:
            return unknown(f"{schedule.name}: rule {name} was not decided: {reason.message}", rule=name)
        if not verdict:
            return verdict
    return LEGAL
