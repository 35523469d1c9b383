"""Dimensions of one element vanish, of statements and of the arrays that they read, so that rows lie where they lie.

    y[i, j] = 2 * x[i, j, 0]   0 <= i < N, 0 <= j < 1      ->      y[i] = 2 * x[i]   0 <= i < N
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from polyfuse.affine import ONE, ZERO, Affine, dimension
from polyfuse.bindings import Layout
from polyfuse.places.proposal import Group
from polyfuse.planning.joining import array
from polyfuse.scop import AnyStatement, Read, Scop, Statement
from polyfuse.terms import substituted


def without_thin(group: Group, layouts: Mapping[int, Layout]) -> Group:
    """The group over a SCoP in which no statement, and no array that lies row behind row, has dimensions of one element
    beside others, where all that is read of them is the first element."""
    gone = _vanishing(group, layouts)
    if not any(gone.values()):
        return group
    statements: list[AnyStatement] = list(group.scop.statements)
    for value in group.loads:
        if away := gone[value]:
            shape = statements[value].shape
            statements[value] = array(statements[value], tuple([n for q, n in enumerate(shape) if q not in away]))
    for statement in group.statements():
        statements[statement.id] = _without(statement, gone, group)
    local = Scop(group.scop.program, tuple(statements), group.scop.outputs, group.scop.readers)
    return Group(local, group.body, group.roots, group.loads)


def _vanishing(group: Group, layouts: Mapping[int, Layout]) -> dict[int, set[int]]:
    """By statement and by array that the group loads, the dimensions that vanish."""
    found = {s.id: _thin(s) for s in group.statements()}
    for value in group.loads:
        shape = group.scop.shape(value)
        is_dense = layouts.get(value, Layout()).strides is None
        thin = {q for q, n in enumerate(shape) if n == ONE} if is_dense else set()
        found[value] = thin if len(thin) < len(shape) else set()
    while any(found.values()):
        pairs = [(s, read) for s in group.statements() for read in s.reads]
        wanted = [(read.source, d) for s, read in pairs for d in _wanted(s, read, found, group)]
        if not wanted:
            break
        for source, dim in wanted:
            found[source].discard(dim)
    return found


def _thin(statement: Statement) -> set[int]:
    """Dimensions of one element, but the last one that is reduced; none where there are no others."""
    found = {d for d, n in enumerate(statement.extents) if n == ONE and d != statement.scanned}
    if statement.reduced and found >= set(statement.reduced):
        found.remove(statement.reduced[-1])
    return found if len(found) < len(statement.extents) else set()


def _dims(read: Read, group: Group) -> Sequence[int]:
    """The dimension of what is read that each entry of the index is along: of a statement, or of an array."""
    source = group.scop.statements[read.source]
    return source.kept if read.source in group.body and isinstance(source, Statement) else range(len(read.index))


def _wanted(statement: Statement, read: Read, gone: Mapping[int, set[int]], group: Group) -> list[int]:
    """The dimensions that would vanish of what is read, but of which data or a guard choose the element."""
    first = {f"%{d}": ZERO for d in gone[statement.id]}
    pairs = [(d, e) for d, e in zip(_dims(read, group), read.index, strict=True) if d in gone[read.source]]
    return [d for d, e in pairs if not isinstance(e, Affine) or e.substitute(first) != ZERO]


def _without(statement: Statement, gone: Mapping[int, set[int]], group: Group) -> Statement:
    left = [d for d in range(len(statement.extents)) if d not in gone[statement.id]]
    values = {f"%{d}": ZERO for d in gone[statement.id]} | {f"%{d}": dimension(k) for k, d in enumerate(left)}

    def thinned(read: Read) -> Read:
        pairs = zip(_dims(read, group), read.index, strict=True)
        kept = [e for d, e in pairs if d not in gone[read.source]]
        index = tuple([e.substitute(values) if isinstance(e, Affine) else e for e in kept])
        return replace(read, index=index, where=tuple([w.substitute(values) for w in read.where]))

    return replace(
        statement,
        extents=tuple([statement.extents[d] for d in left]),
        reads=tuple([thinned(read) for read in statement.reads]),
        body=tuple([substituted(b, values) for b in statement.body]),
        reduced=tuple([left.index(d) for d in statement.reduced if d in left]),
        scanned=None if statement.scanned is None else left.index(statement.scanned),
    )
