"""The rules, by name.  A rule looks at one schedule and answers with the first violation it finds, or with LEGAL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from polyfuse.legality.combine import combined, scanned
from polyfuse.legality.coverage import covered, stored_once
from polyfuse.legality.memory import boxed, gathered, provided, synchronised
from polyfuse.legality.order import ordered
from polyfuse.legality.relations import Proof
from polyfuse.legality.scope import scoped
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.sets import BudgetExceeded
from polyfuse.verdict import LEGAL, Verdict, unknown


@dataclass(frozen=True, slots=True)
class Rule:
    """`check` returns LEGAL or the violation; `meaning` is the theorem that it establishes."""

    check: Callable[[Proof], Verdict]
    meaning: str


RULES: Mapping[str, Rule] = {
    "provided": Rule(provided, "every read is served by a placed statement that holds the value read"),
    "stored": Rule(gathered, "a value read at positions that are data is in memory before the kernel starts"),
    "coverage": Rule(covered, "every element of every root is stored by some thread"),
    "once": Rule(stored_once, "no element of a root is stored by two threads"),
    "scope": Rule(scoped, "every value lives where its consumers need it: same thread, or same block through a box"),
    "order": Rule(ordered, "every instance runs after all instances it depends on"),
    "combine": Rule(combined, "partial results of a reduction are each counted exactly once, inside one block"),
    "scan": Rule(scanned, "prefixes run through loop, thread and slot in increasing order of the scanned dimension"),
    "box": Rule(boxed, "every access to a shared buffer lies inside it"),
    "barrier": Rule(synchronised, "a barrier separates every write of a shared box from its reads and the next write"),
}


def prove(scop: Scop, schedule: KernelSchedule, rules: Mapping[str, Rule] = RULES) -> Verdict:
    """LEGAL, or the verdict of the first rule that is violated or cannot be decided within isl's budget."""
    proof = Proof(scop, schedule)
    for name, rule in rules.items():
        try:
            verdict = rule.check(proof)
        except BudgetExceeded as reason:
            return unknown(f"{schedule.name}: rule {name} was not decided: {reason.message}", rule=name)
        if not verdict:
            return verdict
    return LEGAL
