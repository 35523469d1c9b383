"""Along which classes arrays are read."""

from __future__ import annotations

from polyfuse.affine import Affine
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
                names = [n for e in read.index if isinstance(e, Affine) for n in e.names() if n.startswith("%")]
                found.append(frozenset(of[int(name[1:])] for name in names))
    return found


def are_chosen(situation: Situation, inner: AxisClass) -> bool:
    """Whether data choose the rows of some array that is read along `inner`, element by element."""
    for statement in situation.group.statements():
        along = {f"%{d}" for d, axis in enumerate(situation.classes.statement(statement)) if axis is inner}
        for read in statement.reads:
            last = read.index[-1] if read.index else None
            if not read.affine and isinstance(last, Affine) and along & last.names():
                return True
    return False
