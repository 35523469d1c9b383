"""Along which classes arrays are read."""

from __future__ import annotations

from collections.abc import Sequence

from polyfuse.affine import Affine
from polyfuse.scop import Read
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.situation import Situation


def loaded_along(situation: Situation) -> list[frozenset[AxisClass]]:
    """Per read of an array that a group loads, the classes that choose what is read; data do too, of which nothing is
    known."""
    found = []
    for statement in situation.group.statements():
        of = situation.classes.statement(statement)
        for read in statement.reads:
            if read.source in situation.group.loads:
                found.append(along(of, read))
    return found


def along(of: Sequence[AxisClass], read: Read) -> frozenset[AxisClass]:
    """The classes along which a read goes, `of` the dimensions of the statement that reads."""
    names = [n for e in read.index if isinstance(e, Affine) for n in e.names() if n.startswith("%")]
    return frozenset(of[int(name[1:])] for name in names)


def are_chosen(situation: Situation, inner: AxisClass) -> bool:
    """Whether data choose the rows of some array that is read along `inner`, element by element."""
    for statement in situation.group.statements():
        names = {f"%{d}" for d, axis in enumerate(situation.classes.statement(statement)) if axis is inner}
        for read in statement.reads:
            last = read.index[-1] if read.index else None
            if not read.affine and isinstance(last, Affine) and names & last.names():
                return True
    return False


def lies_along(of: Sequence[AxisClass], read: Read) -> tuple[AxisClass, ...]:
    """The class of each dimension of an array that is read whole, element by element, `of` the dimensions of the
    statement that reads; empty where it is read otherwise, as at neighbours or in steps."""
    found = []
    for entry in read.index:
        if not isinstance(entry, Affine) or read.where:
            return ()
        if entry.is_constant:
            continue
        names = [a for a, f in entry.terms if isinstance(a, str) and a.startswith("%") and f == 1]
        if len(entry.terms) != 1 or not names or entry.constant:
            return ()
        found.append(of[int(names[0][1:])])
    return tuple(found)
