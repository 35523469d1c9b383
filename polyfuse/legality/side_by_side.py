"""Whether kernels may run side by side in one launch: what holds of each alone holds there if none touches what another
one stores, because their blocks are apart and run in no order.

    s = sum(x);  y = x - s     refused: block 0 of y needs s[], which a block of s stores in the same launch
    a = f(x);    b = g(y)      legal, whatever their grids
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

from polyfuse import sets
from polyfuse.dependences import flow_into
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.sets import BudgetExceeded
from polyfuse.verdict import LEGAL, Hazard, Instance, Verdict, Witness, illegal

Members = Sequence[KernelSchedule]


@dataclass(frozen=True, slots=True)
class MemberRule:
    """`check` returns LEGAL or the violation; `meaning` is the theorem that it establishes."""

    check: Callable[[Scop, Members], Verdict]
    meaning: str


def alike(scop: Scop, members: Members) -> Verdict:
    """A launch has one number of threads per block, and every barrier meets all of them; a cluster is a part of the
    launch's grid, which ranges of blocks would cut."""
    first = members[0]
    for other in members:
        if other.cluster > 1:
            sentence = f"{other.name} runs in clusters of {other.cluster} blocks, which are a launch of their own"
            return illegal(Hazard.CAPACITY, sentence, rule="alike")
        if other.cells is not None:
            sentence = f"{other.name} keeps values in shared memory of its threads, which is a launch of its own"
            return illegal(Hazard.CAPACITY, sentence, rule="alike")
        if other.grid_scans:
            sentence = f"blocks of {other.name} begin in order, which is a launch of their own"
            return illegal(Hazard.CAPACITY, sentence, rule="alike")
        if other.threads != first.threads:
            sentence = f"{first.name} has blocks of {first.threads} threads, {other.name} of {other.threads}"
            return illegal(Hazard.CAPACITY, sentence, rule="alike")
    return LEGAL


def independent(scop: Scop, members: Members) -> Verdict:
    """No member reads what another one stores."""
    for first, second in permutations(members, 2):
        for value in sorted(set(first.roots) & set(second.loads)):
            name = scop.statements[value].name
            sentence = f"{second.name} reads {name}, which {first.name} stores in the same launch"
            return illegal(Hazard.RAW, sentence, _reader(scop, value, second), rule="independent")
    return LEGAL


def disjoint(scop: Scop, members: Members) -> Verdict:
    """No value is stored by two members."""
    owner: dict[int, KernelSchedule] = {}
    for member in members:
        for root in member.roots:
            if owner.setdefault(root, member) is not member:
                sentence = f"{owner[root].name} and {member.name} both store {scop.statements[root].name}"
                return illegal(Hazard.WAW, sentence, rule="disjoint")
    return LEGAL


def undisturbed(scop: Scop, members: Members) -> Verdict:
    """No member reads a value whose memory another one's result takes."""
    for first, second in permutations(members, 2):
        for taken, root in first.reuses:
            if taken in second.loads:
                name, result = (scop.statements[v].name for v in (taken, root))
                sentence = f"{second.name} reads {name}, which {first.name} overwrites with {result}"
                return illegal(Hazard.WAR, sentence, _reader(scop, taken, second, result), rule="undisturbed")
    return LEGAL


MEMBER_RULES: Mapping[str, MemberRule] = {
    "independent": MemberRule(independent, "no member reads what another one stores: their blocks run in no order"),
    "disjoint": MemberRule(disjoint, "no value is stored by two members"),
    "undisturbed": MemberRule(undisturbed, "no member reads a buffer that another one overwrites in place"),
    "alike": MemberRule(alike, "all blocks of a launch have the same threads, and no cluster is cut"),
}


def prove_side_by_side(
    scop: Scop, members: Members, rules: Mapping[str, MemberRule] = MEMBER_RULES
) -> Verdict:
    """LEGAL, or the verdict of the first rule that is violated.  Each member is proved on its own, elsewhere; `scop` is
    that of the whole program.  One kernel alone is legal."""
    if len(members) < 2:
        return LEGAL
    verdicts = (rule.check(scop, members) for rule in rules.values())
    return next((verdict for verdict in verdicts if not verdict), LEGAL)


def _reader(scop: Scop, value: int, reader: KernelSchedule, writer: str = "") -> Witness | None:
    """An element of `value`, or of what is stored over it, and the instance of `reader` that needs it."""
    return next(_readers(scop, value, reader, writer or scop.statements[value].name), None)


def _readers(scop: Scop, value: int, reader: KernelSchedule, writer: str) -> Iterator[Witness]:
    for dependence in flow_into(scop, reader.body, value):
        try:
            point = sets.sample(dependence.relation)
        except BudgetExceeded:
            continue
        if point is not None:
            element = tuple(point[n] for n in dependence.elements)
            instance = tuple(point[n] for n in dependence.instances)
            sizes = tuple((n, v) for n, v in point.items() if n[0] not in "$@")
            reads = Instance(scop.statements[dependence.consumer].name, instance)
            yield Witness(Instance(writer, element), reads, sizes)
