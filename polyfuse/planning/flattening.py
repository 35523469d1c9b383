"""A group over one dimension, along which whole vectors lie whatever the length of rows; what rows share is wrapped.

    y[i, j] = relu(x[i, j] + b[j])            0 <= i < M, 0 <= j < N
 -> y[k]    = relu(x[k] + b[k mod N])         0 <= k < MN

What runs along some dimensions alone is read where the flat index is unravelled: along the last ones at its place in
their rows, along the first ones at the number of the row, along others at that number among those that lie together.
What is sliced, reversed or lies in another order is read where it is along every dimension:

    y[i, j] = x[j, 2*i + 1]    ->    y[k] = x[k mod N, 2*(k // N) + 1]

`collapse` joins what needs none of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from polyfuse.affine import ZERO, Affine, dimension
from polyfuse.bindings import Layout
from polyfuse.expr import DataIndex, Program, Shape
from polyfuse.places.proposal import Group
from polyfuse.planning.collapse import as_scheduled, collapse
from polyfuse.planning.joining import array, product
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import AnyStatement, Read, ReadEntry, Scop, Statement
from polyfuse.terms import affines
from polyfuse.unravelled import Unravelled

FLAT = "flat"
"""The strategy of schedules whose statements run over one dimension."""

Dims = tuple[int, ...]
"""The dimensions of the lead that those of a value run along, in order."""


def group_of(schedule: KernelSchedule, group: Group, layouts: Mapping[int, Layout]) -> Group:
    """The statements as they were scheduled."""
    if schedule.strategy != FLAT:
        return as_scheduled(group, layouts, schedule)
    flat = flattened(collapse(group, layouts), layouts)
    assert flat is not None, "what was flattened once can be again"
    return flat


def flattened(group: Group, layouts: Mapping[int, Layout]) -> Group | None:
    """A collapsed group over one dimension; None where it has one, or something lies across rows."""
    statements = group.statements()
    lead = max(statements, key=lambda s: len(s.extents))
    if len(lead.extents) < 2 or any(s.reduced or s.scanned is not None for s in statements):
        return None
    if any(layouts.get(v, Layout()).strides is not None for v in group.loads | group.roots):
        return None
    whole = tuple(range(len(lead.extents)))
    apart: frozenset[int] = frozenset()
    while True:
        found = _Flat(group, lead.extents, apart, dict.fromkeys(group.roots, whole))
        if all(found.rewrite(s) for s in reversed(statements)):
            return found.group() if found.wraps else None
        if found.bent is None or found.bent in apart:
            return None
        apart |= {found.bent}


@dataclass(slots=True)
class _Flat:
    """`apart`: arrays that are read along every dimension by itself.  `runs`: of values of the group; `statements`,
    `arrays`: as they become; `wraps`: whether some index does; `bent`: the array that can only be read so."""

    old: Group
    extents: Shape
    apart: frozenset[int]
    runs: dict[int, Dims]
    statements: dict[int, Statement] = field(default_factory=dict)
    arrays: dict[int, Shape] = field(default_factory=dict)
    program: Program = field(init=False)
    wraps: bool = False
    bent: int | None = None

    def __post_init__(self) -> None:
        self.program = self.old.scop.program

    def rewrite(self, statement: Statement) -> bool:
        """Whether a statement, all of whose readers are known, can run over the flat dimension."""
        runs = self.runs.get(statement.id, ())
        if tuple([self.extents[d] for d in runs]) != statement.extents:
            return False
        mentioned = [e for body in statement.body for e in affines(body)]
        mentioned += [e for read in statement.reads for e in read.where]
        if any(name.startswith("%") for e in mentioned for name in e.names()):
            return False
        reads = [self._read(read, runs) for read in statement.reads]
        whole = tuple(range(len(self.extents)))
        self.statements[statement.id] = replace(
            statement, extents=(self._size(whole),), reads=tuple([r for r in reads if r is not None])
        )
        return None not in reads

    def _read(self, read: Read, runs: Dims) -> Read | None:
        entries = [_dimension(e) if isinstance(e, Affine) else None for e in read.index]
        plain = all(d is not None or isinstance(e, DataIndex) for e, d in zip(read.index, entries, strict=True))
        if read.source in self.old.body:
            along = tuple([runs[d] for d in entries if d is not None])
            known = self.runs.setdefault(read.source, along) if plain else None
            return replace(read, index=(dimension(0),)) if known == along and read.affine else None
        if read.source in self.apart:
            return self._along_each(read, runs)
        found = self._in_pieces(read, runs, entries) if plain else None
        if found is None:
            self.bent = read.source
        return found

    def _along_each(self, read: Read, runs: Dims) -> Read | None:
        """Where the walk is along every dimension of an array by itself."""
        shape = self.old.scop.shape(read.source)
        if self.arrays.setdefault(read.source, shape) != shape:
            return None
        index: list[ReadEntry] = []
        for entry in read.index:
            if isinstance(entry, Affine) and not any(name.startswith("%") for name in entry.names()):
                index.append(entry)
                continue
            found = _stepped(entry) if isinstance(entry, Affine) else None
            if found is None:
                return None
            d, step, first = found
            index.append(replace(self._along(runs[d]), step=step, first=first))
        self.wraps = True
        return replace(read, index=tuple(index))

    def _along(self, d: int) -> Unravelled:
        """Where the walk is along one dimension."""
        last = len(self.extents) - 1
        if d == last:
            return Unravelled(dimension(0), self.extents[last], in_row=True)
        behind = self._size(tuple(range(d + 1, last + 1)))
        return Unravelled(dimension(0), behind, in_row=False, rows=self.extents[d] if d else None)

    def _in_pieces(self, read: Read, runs: Dims, entries: Sequence[int | None]) -> Read | None:
        """At the element of the flat array, or of one that rows share."""
        pieces = _pieces([None if d is None else runs[d] for d in entries])
        if sum(bool(dims) for _, dims in pieces) > 1:
            return None  # across rows: neighbours lie far apart
        index, shape = list[ReadEntry](), list[Affine]()
        for start, dims in pieces:
            entry = read.index[start]
            if isinstance(entry, DataIndex):
                index.append(entry)
                shape.append(self.old.scop.shape(read.source)[start])
                continue
            found = self._entry(dims)
            if found is None or self._extents(read.source, start, dims) != [self.extents[d] for d in dims]:
                return None
            index.append(found)
            shape.append(self._size(dims))
        if self.arrays.setdefault(read.source, tuple(shape)) != tuple(shape):
            return None
        return replace(read, index=tuple(index))

    def _extents(self, source: int, start: int, dims: Dims) -> list[Affine]:
        return list(self.old.scop.shape(source)[start : start + len(dims)])

    def _entry(self, dims: Dims) -> ReadEntry | None:
        """All dimensions, or neighbouring ones."""
        last = len(self.extents) - 1
        if dims == tuple(range(last + 1)):
            return dimension(0)
        if dims == tuple(range(dims[0], last + 1)):
            self.wraps = True
            return Unravelled(dimension(0), self._size(dims), in_row=True)
        if dims == tuple(range(len(dims))):
            self.wraps = True
            return Unravelled(dimension(0), self._size(tuple(range(len(dims), last + 1))), in_row=False)
        if dims and dims == tuple(range(dims[0], dims[-1] + 1)):
            self.wraps = True
            behind = self._size(tuple(range(dims[-1] + 1, last + 1)))
            return Unravelled(dimension(0), behind, in_row=False, rows=self._size(dims))
        return None

    def _size(self, dims: Dims) -> Affine:
        """The product of the extents of some dimensions."""
        total = Affine.of(1)
        for d in dims:
            self.program, total = product(self.program, (total, self.extents[d]))
        return total

    def group(self) -> Group:
        scop = self.old.scop
        statements: list[AnyStatement] = list(scop.statements)
        for value, shape in self.arrays.items():
            statements[value] = array(statements[value], shape)
        for value, statement in self.statements.items():
            statements[value] = statement
        return Group(
            Scop(self.program, tuple(statements), scop.outputs, scop.readers),
            *(self.old.body, self.old.roots, self.old.loads),
        )


def _dimension(entry: Affine) -> int | None:
    """k of ``%k``."""
    found = _stepped(entry)
    return found[0] if found is not None and found[1:] == (1, ZERO) else None


def _stepped(entry: Affine) -> tuple[int, int, Affine] | None:
    """(k, 2, n) of ``2*%k + n``, where n is of sizes alone."""
    named = [(atom, factor) for atom, factor in entry.terms if isinstance(atom, str)]
    walked = [(atom, factor) for atom, factor in named if atom.startswith("%")]
    if len(walked) != 1 or len(named) < len(entry.terms):
        return None
    ((atom, step),) = walked
    return int(atom[1:]), step, entry - step * Affine.symbol(atom)


def _pieces(along: Sequence[int | None]) -> list[tuple[int, Dims]]:
    """Where runs of neighbouring dimensions begin, and which these are; data are on their own."""
    found: list[tuple[int, Dims]] = []
    for k, d in enumerate(along):
        if d is not None and found and found[-1][1] and found[-1][1][-1] + 1 == d:
            found[-1] = found[-1][0], (*found[-1][1], d)
        else:
            found.append((k, () if d is None else (d,)))
    return found
