"""Reductions whose partial results lie in several blocks: which they are, what follows them, how their shares are read.

    s = sum(x[i], i = 8192*b0 + ...)      share of every block; total = sum over b0; what reads s runs on the total
"""

from __future__ import annotations

from collections.abc import Mapping

from polyfuse.affine import Affine, digit
from polyfuse.places.proposal import Group, Proposal
from polyfuse.places.refused import Refused
from polyfuse.schedule import Digit
from polyfuse.verdict import Hazard, illegal


def dealt_over(group: Group, proposal: Proposal) -> dict[int, str]:
    """By reduction: the block digit along which its partial results lie.  Raises Refused where there are two."""
    found: dict[int, str] = {}
    for statement in group.statements() if proposal.combines else ():
        if not statement.is_reduction:
            continue
        anchors = (proposal.anchors.get((statement.id, d)) for d in statement.reduced)
        names = frozenset().union(*(a.steps() for a in anchors if a is not None))
        over = sorted(d for d in proposal.combines if f"${d}" in names)
        if len(over) > 1:
            sentence = f"the partial results of {statement.name} lie in blocks along {over[0]} and {over[1]}"
            raise Refused(illegal(Hazard.COMBINE, sentence, rule="combine"))
        if over:
            found[statement.id] = over[0]
    return found


def finished_in(group: Group, over_blocks: Mapping[int, str]) -> dict[int, str]:
    """By statement: the block digit over which totals that it depends on are taken, empty where there are none.

    Raises Refused for what depends on totals along two digits, or would have to be combined a second time.
    """
    found: dict[int, str] = {}
    if not over_blocks:
        return dict.fromkeys(group.body, "")
    for statement in group.statements():
        inside = [r.source for r in statement.reads if r.source in found]
        after = sorted({over_blocks.get(source) or found[source] for source in inside} - {""})
        again = after and statement.id in over_blocks
        if len(after) > 1 or again:
            along = " and ".join(after)
            why = "lies in several blocks again" if again else "no block has both"
            sentence = f"{statement.name} needs totals over the blocks along {along}, and {why}"
            raise Refused(illegal(Hazard.SCOPE, sentence, rule="scope"))
        found[statement.id] = after[0] if after else ""
    return found


def is_share_slot(name: str) -> bool:
    """Whether a slot counts the shares that a thread reads at once, see `dealt`."""
    return name[:1] == "q" and name[1:].isdecimal()


def dealt(along: str, proposal: Proposal, digits: dict[str, Digit]) -> tuple[Affine, str]:
    """The number of the block whose share a thread reads, and the loop over it, empty where there is none.  New digits
    are added to `digits`."""
    combination = proposal.combines[along]
    number, weight = Affine.of(0), 1
    for t in sorted((d for d in digits.values() if d.name in combination.threads), key=lambda d: d.stride):
        number += digit(t.name) * weight
        weight *= t.count
    if combination.at_once > 1:
        name = f"q{along[1:]}"
        digits.setdefault(name, Digit(name, "slot", Affine.of(combination.at_once)))
        number += digit(name) * weight
        weight *= combination.at_once
    trips = digits[along].extent.ceildiv(weight)
    if trips == Affine.of(1):
        return number, ""
    loop = f"p{along[1:]}"
    digits.setdefault(loop, Digit(loop, "loop", trips))
    return number + digit(loop) * weight, loop
