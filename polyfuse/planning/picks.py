"""Short rows out of which every read picks one element are read as what they are in memory, one long row.

    y[i, j] = f(x[i, j, 0], x[i, j, 1], x[i, j, 2])     x of M x N x 3
 -> y[i, j] = f(x[i, 3*j], x[i, 3*j + 1], x[i, 3*j + 2])     x of M x 3*N

What neighbours along j read then lies side by side along one dimension, as what stencils read does.  What is computed
of short rows elementwise goes with them: ``x`` may be ``float32(bytes)``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from polyfuse.affine import Affine
from polyfuse.bindings import Layout
from polyfuse.places.proposal import Group
from polyfuse.planning.joining import Merge, intact, merged, position
from polyfuse.scop import AnyStatement, Read, Scop, Statement

SHORT, MANY = 8, 64
"""Elements of a row at most, and rows at least: neighbouring threads have neighbouring rows."""


def picked(group: Group, layouts: Mapping[int, Layout]) -> Group:
    """The group over a SCoP in which such values have one dimension less."""
    reads: dict[int, list[Read]] = defaultdict(list)
    for statement in group.statements():
        for read in statement.reads:
            reads[read.source].append(read)
    for value in sorted(reads, reverse=True):
        count = _picks(group, value, reads[value]) if value not in group.roots else 0
        merge = _of_what(group, layouts, value) if count else None
        if merge is not None:
            group = _joined(merged(group, merge), value, count)
    return group


def _picks(group: Group, value: int, reads: Sequence[Read]) -> int:
    """The length of the rows of a value where every read picks one element of the same and together they pick most;
    else 0."""
    shape = group.scop.shape(value)
    if len(shape) < 2 or not shape[-1].is_constant or not 1 < (count := shape[-1].constant) <= SHORT:
        return 0
    hints = group.scop.program.hints
    if shape[-2].evaluate({name: hints.get(name, MANY) for name in shape[-2].names()}) < MANY:
        return 0
    *_, row, element = reads[0].index
    if not isinstance(row, Affine) or row.is_constant or not isinstance(element, Affine) or not element.is_constant:
        return 0
    last = {read.index[-1] for read in reads}
    alike = len({read.index[:-1] for read in reads}) == 1
    constant = all(isinstance(entry, Affine) and entry.is_constant for entry in last)
    return count if alike and constant and 2 * len(last) > count else 0


def _readers(group: Group, value: int) -> list[tuple[Statement, Read]]:
    return [(statement, read) for statement in group.statements() for read in statement.reads if read.source == value]


def _of_what(group: Group, layouts: Mapping[int, Layout], value: int) -> Merge | None:
    """The last two dimensions of `value` and of all that it is computed from along these; None where something else
    reads that, or where it does not lie row behind row."""
    first = len(group.scop.shape(value)) - 2
    extents = (group.scop.shape(value)[first], group.scop.shape(value)[first + 1])
    merge = Merge({}, {}, extents)
    statements, arrays, todo = dict[int, int](), dict[int, int](), [(value, first)]
    while todo:
        found, q = todo.pop()
        if found in group.loads:
            if layouts.get(found, Layout()).strides is not None or arrays.setdefault(found, q) != q:
                return None
            continue
        statement = group.scop.statements[found]
        assert isinstance(statement, Statement)
        if statement.reduced or statement.scanned is not None or not intact(statement, q, extents):
            return None
        if statements.setdefault(found, q) != q:
            return None
        places = [(read, position(read, q)) for read in statement.reads]
        if any(at == -2 or at >= 0 and group.scop.shape(read.source)[at : at + 2] != extents for read, at in places):
            return None
        todo += [(read.source, at) for read, at in places if at >= 0]
    merge = Merge(statements, arrays, extents)
    return merge if all(_is_whole(group, merge, source, q) for source, q in _below(merge, value)) else None


def _below(merge: Merge, value: int) -> list[tuple[int, int]]:
    """What `value` is computed from."""
    return [(source, q) for source, q in {**merge.statements, **merge.arrays}.items() if source != value]


def _is_whole(group: Group, merge: Merge, source: int, q: int) -> bool:
    """Whether all that read a value are merged themselves, along the same dimensions of it; and no one stores it."""
    readers = _readers(group, source)
    along = [s.id in merge.statements and position(read, merge.statements[s.id]) == q for s, read in readers]
    return source not in group.roots and all(along)


def _joined(group: Group, value: int, count: int) -> Group:
    """The group with the reads of `value` that pick."""
    statements: list[AnyStatement] = list(group.scop.statements)
    for statement in group.statements():
        reads = tuple([_row(read, count) if read.source == value else read for read in statement.reads])
        statements[statement.id] = replace(statement, reads=reads)
    scop = Scop(group.scop.program, tuple(statements), group.scop.outputs, group.scop.readers)
    return Group(scop, group.body, group.roots, group.loads)


def _row(read: Read, count: int) -> Read:
    *outer, row, element = read.index
    assert isinstance(row, Affine) and isinstance(element, Affine)
    return replace(read, index=(*outer, row * count + element))
