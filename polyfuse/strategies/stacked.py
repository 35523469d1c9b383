"""Results that are stacked of several reductions: a thread that has these has all that is made of them.

    y[k, i] = sum(x[i, :]) where k < 1 else max(x[i, :])      i = b0,  k in the registers of a thread, not b1

Where blocks had the places of the stack each would reduce all rows again, for one of the results.
"""

from __future__ import annotations

from dataclasses import replace

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.in_thread import is_stored_along
from polyfuse.strategies.situation import Situation, slot

MOST = 16
"""Results of each row that a thread has."""
SLOT = "k"


def stacked(proposal: Proposal, axis: AxisClass) -> Proposal:
    """The proposal with a slot in place of the block digit that deals `axis`, if there is one."""
    places = [proposal.anchors[key] for key in axis.members if key in proposal.anchors]
    if not places or any(place != places[0] for place in places):
        return proposal
    block = next((d for d in proposal.digits if d.kind == "block" and places[0] == Affine.symbol(f"${d.name}")), None)
    if block is None or block.extent != axis.extent or SLOT in {d.name for d in proposal.digits}:
        return proposal
    within, rest = {f"${block.name}": Affine.symbol(f"${SLOT}")}, [d for d in proposal.digits if d is not block]
    first = next((n for n, d in enumerate(rest) if d.kind == "slot"), len(rest))
    return replace(
        proposal,
        digits=(*rest[:first], slot(SLOT, axis.extent.constant), *rest[first:]),
        anchors={key: place.substitute(within) for key, place in proposal.anchors.items()},
        finished={key: place.substitute(within) for key, place in proposal.finished.items()},
    )


def is_made_of_rows(situation: Situation) -> bool:
    """Whether results run along what is reduced as well: a thread might not have room for all."""
    return any(a.reduced_by and is_stored_along(situation, a) for a in situation.axes)


def beside_reductions(situation: Situation) -> AxisClass | None:
    """The short class that no reduction, and no prefix, runs along, where there is one."""
    if situation.target.kind == "cpu":
        return None
    summed = (*situation.reductions, *situation.scans)
    along = {axis for statement in summed for axis in situation.classes.statement(statement)}
    short = [a for a in situation.axes if a not in along and a.extent.is_constant and 1 < a.extent.constant <= MOST]
    return short[0] if summed and len(short) == 1 else None
