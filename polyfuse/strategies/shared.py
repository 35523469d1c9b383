"""Short axes along which results share what they read: a thread takes them whole, and reads, or computes, it once.

y = stack((a + b, a - b, a * b))       3 results of a thread from one element of a and one of b
y[n, c, p] = x[n, p] * w[c]            as many as there are c
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polyfuse.affine import Affine
from polyfuse.scop import Read
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.situation import Situation

MOST_SHARED = 16
"""Results of a thread along such an axis: each is in a register."""


def shared(situation: Situation, axes: Sequence[AxisClass], inner: AxisClass) -> Iterator[AxisClass]:
    """The classes of `axes` of a few elements, a constant, along which something is read again that runs along
    `inner`."""
    few = [a for a in axes if a is not inner and a.extent.is_constant and 1 < a.size(situation.hints) <= MOST_SHARED]
    for axis in few:
        if _is_read_again(situation, axis, inner):
            yield axis


def _is_read_again(situation: Situation, axis: AxisClass, inner: AxisClass) -> bool:
    for statement in situation.group.statements():
        of = situation.classes.statement(statement)
        if axis in of:
            along, across = _names(of, inner), _names(of, axis)
            indices = [_indexed(read) for read in statement.reads]
            if any(along & names and not across & names for names in indices):
                return True
    return False


def is_shifted(situation: Situation, inner: AxisClass, width: int) -> bool:
    """Whether something is read along `inner` where no vector of `width` elements begins."""
    for statement in situation.group.statements():
        along = _names(situation.classes.statement(statement), inner)
        for read in statement.reads:
            if any(isinstance(e, Affine) and along & e.names() and e.constant % width for e in read.index):
                return True
    return False


def _names(of: Sequence[AxisClass], axis: AxisClass) -> frozenset[str]:
    return frozenset(f"%{d}" for d, a in enumerate(of) if a is axis)


def _indexed(read: Read) -> frozenset[str]:
    """The dimensions that choose what is read; data do too, of which nothing is known."""
    if not all(isinstance(entry, Affine) for entry in read.index):
        return frozenset()
    return frozenset().union(*(entry.names() for entry in read.index if isinstance(entry, Affine)))
