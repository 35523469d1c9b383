"""Every rule's verdict against enumeration, both ways."""

from __future__ import annotations

from collections.abc import Mapping

from polyfuse.legality import RULES
from polyfuse.legality.relations import Proof
from polyfuse.sets import BudgetExceeded
from polyfuse.verdict import Kind, Verdict, unknown
from tests.legality.cases import Case
from tests.legality.oracle import faults

FORM = ("executed", "provided")
"""Rules on the form of a schedule, which the others and the enumeration take for granted."""


def verdicts(case: Case) -> dict[str, Verdict]:
    """Per rule; only those on form where one of them refuses.  A question that is too long is answered by unknown,
    which refuses without a claim."""
    proof = Proof(case.scop, case.schedule, atomics=True)
    found: dict[str, Verdict] = {}
    for name, rule in RULES.items():
        try:
            found[name] = rule.check(proof)
        except BudgetExceeded as error:
            found[name] = unknown(str(error), rule=name)
        if name in FORM and not found[name]:
            return found
    return found


def disagreements(case: Case) -> tuple[list[str], dict[str, Verdict]]:
    """Rules whose verdict is not what enumeration says, in words; and the verdicts."""
    found = verdicts(case)
    if any(not found[name] for name in FORM):
        return [], found
    seen: dict[tuple[tuple[str, int], ...], dict[str, str]] = {}

    def enumerated(sizes: Mapping[str, int]) -> dict[str, str]:
        key = tuple(sorted(sizes.items()))
        if key not in seen:
            seen[key] = faults(case.scop, case.schedule, sizes)
        return seen[key]

    wrong = [
        f"{name} accepts, but at {dict(sizes)}: {sentence}"
        for sizes in case.sizes
        for name, sentence in enumerated(sizes).items()
        if name not in found or (found[name].kind is Kind.LEGAL and not _left(name, found))
    ]
    for name, verdict in found.items():
        tried = _where(case, verdict)
        if verdict.kind is Kind.ILLEGAL and tried and not any(name in enumerated(s) for s in tried):
            wrong.append(f"{name} refuses at {tried}: {verdict}")
    return wrong, found


def _left(name: str, found: dict[str, Verdict]) -> bool:
    """Order is not looked at where a get reads what is put nowhere: that is refused by the rules on boxes and scope."""
    return name == "order" and not (found["box"] and found["scope"])


def _where(case: Case, verdict: Verdict) -> list[Mapping[str, int]]:
    """The sizes at which an illegal verdict claims a violation; none where they are too large to enumerate."""
    if verdict.witness is None:
        return [*case.sizes]
    sizes = {**dict.fromkeys(case.scop.program.symbols, 1), **dict(verdict.witness.sizes)}
    return [sizes] if max(sizes.values(), default=0) <= 12 else []
