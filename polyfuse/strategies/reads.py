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
