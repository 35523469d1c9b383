"""Collapse neighbouring dimensions that every access of a group traverses contiguously into one.

    y[i, j] = relu(x[i, j] + z[i, j])   0 <= i < M, 0 <= j < N
 -> y[k]    = relu(x[k] + z[k])         0 <= k < MN                 MN bound at launch to the product M*N

isl knows no product of sizes, so a product of two symbols becomes a fresh symbol (`Program.derived`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from polyfuse.affine import ZERO, Affine
from polyfuse.bindings import Layout
from polyfuse.places.proposal import Group
from polyfuse.planning.joining import Merge, in_parts, intact, merged, of_parts, pair_at, position
from polyfuse.planning.picks import picked
from polyfuse.planning.thin import without_thin
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Read, Scop, Statement


def collapse(group: Group, layouts: Mapping[int, Layout], *, alike: bool = False) -> Group:
    """The group over a SCoP in which its statements, and arrays of short rows, have as few dimensions as accesses
    allow.  `alike`: a reduction sums over as many as where it is with what it sums and nothing else, or more, and one
    row is scheduled as several are."""
    if not alike:
        return _joined(without_thin(group, layouts), layouts, {})
    least = {s.id: _fewest(group.scop, s, layouts) for s in group.statements() if len(s.reduced) > 1}
    return _joined(group, layouts, least)


def _joined(group: Group, layouts: Mapping[int, Layout], least: Mapping[int, int]) -> Group:
    """With neighbouring dimensions made one; `least`: dimensions that a reduction sums over in any case."""
    while True:
        pair = _mergeable(group, layouts, least)
        if pair is None:
            return picked(group, layouts)
        group = merged(group, pair)


def sums_apart(group: Group, collapsed: Group, layouts: Mapping[int, Layout]) -> str:
    """A reduction of `collapsed`, by name, that sums over more dimensions than where it is alone; else empty."""
    for statement in (s for s in group.statements() if len(s.reduced) > 1):
        found = collapsed.scop.statements[statement.id]
        if isinstance(found, Statement) and len(found.reduced) > _fewest(group.scop, statement, layouts):
            return statement.name
    return ""


def as_scheduled(group: Group, layouts: Mapping[int, Layout], schedule: KernelSchedule) -> Group:
    """The group with the dimensions that places of `schedule` have."""
    found = collapse(group, layouts)
    ranks = [(p, found.scop.statements[p.value]) for p in schedule.placed if p.role == "compute"]
    same = all(isinstance(s, Statement) and len(p.place) == len(s.extents) for p, s in ranks)
    return found if same else collapse(group, layouts, alike=True)


def _fewest(scop: Scop, reduction: Statement, layouts: Mapping[int, Layout]) -> int:
    """Dimensions that a reduction sums over in a kernel with all that is computed for it alone, element by element."""
    body, loads, todo = {reduction.id}, set[int](), [reduction]
    while todo:
        for read in todo.pop().reads:
            source = scop.statements[read.source]
            if isinstance(source, Statement) and source.monoid is None:
                todo += [source] if source.id not in body else []
                body.add(source.id)
            else:
                loads.add(read.source)
    alone = _joined(Group(scop, frozenset(body), frozenset((reduction.id,)), frozenset(loads)), layouts, {})
    found = alone.scop.statements[reduction.id]
    assert isinstance(found, Statement)
    return len(found.reduced)


def _mergeable(group: Group, layouts: Mapping[int, Layout], least: Mapping[int, int]) -> Merge | None:
    """Looked for from the largest result, then from every reduction: nothing else need have the reduced dimensions."""
    lead = max(group.roots, key=lambda v: (len(group.scop.shape(v)), v))
    reductions = [s.id for s in group.statements() if s.is_reduction and s.id != lead]
    for start in (lead, *reductions):
        statement = group.scop.statements[start]
        assert isinstance(statement, Statement)
        for d in range(len(statement.extents) - 1):
            found = _spread(group, layouts, start, d)
            if found is not None and not _sums_too_few(group, found, least):
                return found
    return None if least else _shifted(group, layouts)


SHORT = 16
"""Elements of the rows whose neighbours are those of one long row: channels of a pixel."""


def _shifted(group: Group, layouts: Mapping[int, Layout]) -> Merge | None:
    """Two dimensions that a reduction runs over, of which the inner one is short, and the outer one read at neighbours:
    ``x[i, j + 1, c]`` is ``x'[i, 3*j + c + 3]``."""
    for statement in group.statements():
        for d in range(len(statement.extents) - 1) if statement.is_reduction else ():
            inner = statement.extents[d + 1]
            if {d, d + 1} <= set(statement.reduced) and inner.is_constant and 1 < inner.constant <= SHORT:
                found = _spread(group, layouts, statement.id, d, is_shifted=True)
                if found is not None:
                    return found
    return None


def _sums_too_few(group: Group, merge: Merge, least: Mapping[int, int]) -> bool:
    """Whether a reduction would sum over fewer dimensions than it may."""
    found = [(group.scop.statements[value], d) for value, d in merge.statements.items()]
    sums = [s for s, d in found if isinstance(s, Statement) and d in s.reduced]
    return any(len(s.reduced) <= least.get(s.id, 1) for s in sums)


def _spread(
    group: Group, layouts: Mapping[int, Layout], lead: int, d: int, is_shifted: bool = False
) -> Merge | None:
    """Follow dimensions (d, d+1) of `lead` through every access; None as soon as one separates them."""
    first = group.scop.statements[lead]
    assert isinstance(first, Statement)
    extents = first.extents[d], first.extents[d + 1]
    walk = _Walk(group, layouts, extents, {lead: d}, [lead], is_shifted=is_shifted)
    if not walk.is_through():
        return None
    merge = Merge(walk.statements, walk.arrays, walk.extents, walk.parts, is_shifted)
    return merge if _consistent(group, merge) else None


@dataclass(slots=True)
class _Walk:
    """Two dimensions of those `extents` on their way from statement to statement.  `todo`: statements to go on from.
    Each method says whether they stay side by side."""

    group: Group
    layouts: Mapping[int, Layout]
    extents: tuple[Affine, Affine]
    statements: dict[int, int]
    todo: list[int]
    arrays: dict[int, int] = field(default_factory=dict)
    parts: set[int] = field(default_factory=set)
    is_shifted: bool = False

    def is_through(self) -> bool:
        """To the end."""
        while self.todo:
            statement = self.group.scop.statements[self.todo.pop()]
            assert isinstance(statement, Statement)
            at = self.statements[statement.id]
            if not intact(statement, at, self.extents, self.is_shifted) or not self._to_readers(statement, at):
                return False
            if not all(self._to_source(read, at) for read in statement.reads):
                return False
        return True

    def _to_readers(self, statement: Statement, d: int) -> bool:
        """Readers inside the group must see the two kept dimensions side by side."""
        return d in statement.reduced or self._read_side_by_side(statement.id, statement.kept.index(d))

    def _to_source(self, read: Read, at: int) -> bool:
        q = position(read, at, self.is_shifted)
        if q == -1:  # it mentions neither, and must not read what is merged elsewhere; checked again at the end
            return read.source not in self.statements and read.source not in self.arrays
        if q == -2:
            if self.is_shifted:
                return False
            q = of_parts(read, at, self.extents[0])
            return q >= 0 and self._to_parts(read.source, q)
        source = self.group.scop.statements[read.source]
        if source.shape[q + self.is_shifted : q + 2] != self.extents[self.is_shifted :]:
            return False
        if read.source not in self.group.body:
            return self._to_array(read.source, q)
        assert isinstance(source, Statement)
        d = source.kept[q]
        if source.kept[q + 1] != d + 1:
            return False
        if read.source not in self.statements:
            self.statements[read.source] = d
            self.todo.append(read.source)
        return self.statements[read.source] == d

    def _to_parts(self, array: int, q: int) -> bool:
        """To an array that is read in parts of ``extents[0]`` rows.  Parts of inner dimensions begin where those of the
        next one do only if all rows are in some part."""
        shape, rows = self.group.scop.shape(array), self.extents[0]
        is_whole = shape[q + 1] == self.extents[1] and (q == 0 or shape[q] % rows.constant == ZERO)
        return array not in self.group.body and is_whole and self._to_array(array, q, rows)

    def _to_array(self, array: int, q: int, rows: Affine | None = None) -> bool:
        """To one that lies row behind row.  `rows`: it is read in parts of so many."""
        if array in self.arrays:
            return self.arrays[array] == q and (array in self.parts) is (rows is not None)
        if self.layouts.get(array, Layout()).strides is not None:
            return False
        self.arrays[array] = q
        self.parts |= {array} if rows is not None else set()
        return self._read_side_by_side(array, q, rows)

    def _read_side_by_side(self, source: int, q: int, rows: Affine | None = None) -> bool:
        """Whether all readers inside the group have dimensions q and q + 1 of `source` as neighbours; they join in.
        `rows`: or all take parts of so many rows."""
        for reader in self.group.scop.readers.get(source, ()):
            if reader not in self.group.body:
                continue
            other = self.group.scop.statements[reader]
            assert isinstance(other, Statement)
            for read in other.reads:
                if read.source != source:
                    continue
                e = pair_at(read.index, q, self.is_shifted) if rows is None else in_parts(read.index, q, rows)
                if e is None or e < 0 or self.statements.get(reader, e) != e:
                    return False
                if reader not in self.statements:
                    self.statements[reader] = e
                    self.todo.append(reader)
        return True


def _consistent(group: Group, merge: Merge) -> bool:
    """Every read of a merged value, by any statement of the group, is a merged read."""
    for statement in group.statements():
        for read in statement.reads:
            q = merge.arrays.get(read.source)
            source = group.scop.statements[read.source]
            if q is None and read.source in merge.statements and isinstance(source, Statement):
                d = merge.statements[read.source]
                q = source.kept.index(d) if d in source.kept else None
            if q is None:
                continue
            at = merge.statements.get(statement.id)
            if at is None:
                return False
            is_part = read.source in merge.parts
            if q != (of_parts(read, at, merge.extents[0]) if is_part else position(read, at, merge.is_shifted)):
                return False
    return True
