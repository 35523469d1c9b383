"""Every strategy, in order of preference at equal price."""

from __future__ import annotations

from collections.abc import Iterator

from polyfuse.places.proposal import Proposal
from polyfuse.strategies.pointwise import pointwise
from polyfuse.strategies.reduction import reduction
from polyfuse.strategies.serial import serial
from polyfuse.strategies.situation import Situation

STRATEGIES = (
    pointwise,  # elementwise groups
    reduction,  # rows and columns of one or several reductions
    serial,  # always there: a thread per element of the lead, loops over what is reduced
)


def propose(situation: Situation) -> Iterator[Proposal]:
    """All proposals for the group, best guesses first."""
    for strategy in STRATEGIES:
        yield from strategy(situation)
