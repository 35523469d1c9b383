"""Which dimensions of a group run together: the union of (statement, dimension) pairs linked by accesses.

``e[i, j] = exp(x[i, j] - m[i])`` links e's i with x's dimension 0 and with m's i.  A link that would put two dimensions
of one statement into one class (``x + x.T``) is left out; that access is then a transposition, not an alignment.
Links are taken in the order: identical index, identical index of a common input, index with an offset, parts of
dimensions that run together (``x[64*j + k]``), equal steps along them (``x[2*j]`` and ``x[2*k + 1]``), and what runs
along a prefix from the last element to the first (``c[-j + n - 1]``), whose places are those of the prefix mirrored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from polyfuse.affine import Affine, dimension
from polyfuse.places.proposal import Group
from polyfuse.scop import Read, Statement

Key = tuple[int, int]  # (statement or array, dimension); arrays that are only loaded have keys of their own


@dataclass(frozen=True, slots=True)
class AxisClass:
    """Dimensions that run together.  `reduced_by`: reductions that sum over it.  `weight`: bytes of arrays whose last
    dimension (unit stride) it is.  `run`: scans along it start anew at every multiple of so many elements; 0 where one
    does not, or something sums over it."""

    number: int
    extent: Affine
    members: frozenset[Key]
    reduced_by: frozenset[int]
    scanned_by: frozenset[int]
    weight: int
    run: int = 0

    def size(self, hints: Mapping[str, int]) -> int:
        """At least 1: tiles for one element serve none as well, tiles of nothing serve nobody."""
        return max(1, self.extent.evaluate(hints))


@dataclass(slots=True)
class _Union:
    """Union-find that keeps, per class, the dimension each statement has in it."""

    parent: dict[Key, Key] = field(default_factory=dict)
    members: dict[Key, dict[int, int]] = field(default_factory=dict)

    def add(self, key: Key) -> None:
        if key not in self.parent:
            self.parent[key] = key
            self.members[key] = {key[0]: key[1]}

    def find(self, key: Key) -> Key:
        while self.parent[key] != key:
            self.parent[key] = self.parent[self.parent[key]]
            key = self.parent[key]
        return key

    def join(self, a: Key, b: Key) -> bool:
        """False when some statement would have two dimensions in one class."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return True
        small, large = (b, a) if len(self.members[b]) < len(self.members[a]) else (a, b)
        for owner, dim in self.members[small].items():
            if self.members[large].get(owner, dim) != dim:
                return False
        self.parent[small] = large
        self.members[large].update(self.members.pop(small))
        return True


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes of a group, and the class of every (statement, dimension)."""

    axes: tuple[AxisClass, ...]
    of: Mapping[Key, AxisClass]
    mirrored: Mapping[Key, Affine] = field(default_factory=dict)
    """Of dimensions that run against the rest of their class, what both indices add up to."""
    _of_statement: dict[int, tuple[AxisClass, ...]] = field(default_factory=dict, compare=False, repr=False)

    def anchored(self, group: Group) -> tuple[AxisClass, ...]:
        """The classes that need a split: those of roots and those that something reduces or scans.  The places of all
        others follow from their readers."""
        return tuple(
            a for a in self.axes if a.reduced_by or a.scanned_by or any(k[0] in group.roots for k in a.members)
        )

    def statement(self, statement: Statement) -> tuple[AxisClass, ...]:
        found = self._of_statement.get(statement.id)
        if found is None:  # every strategy asks for each
            of, value = self.of, statement.id
            found = self._of_statement[value] = tuple([of[value, d] for d in range(len(statement.extents))])
        return found


def _plain(entry: object) -> tuple[int, int] | None:
    """(dimension, offset) of ``%k + offset``, else None."""
    if not isinstance(entry, Affine) or len(entry.terms) != 1:
        return None
    atom, factor = entry.terms[0]
    if factor != 1 or not isinstance(atom, str) or not atom.startswith("%"):
        return None
    return int(atom[1:]), entry.constant


def unit_dimension(entry: object) -> int | None:
    """The last dimension along which an index moves by one element: 1 in ``4096*%0 + %1``."""
    if not isinstance(entry, Affine):
        return None
    found = [int(a[1:]) for a, f in entry.terms if isinstance(a, str) and a.startswith("%") and abs(f) == 1]
    return max(found, default=None)


def _links(group: Group) -> list[tuple[int, int, Key, Key]]:
    """(priority, order, key of the reader, key of what is read)."""
    found = []
    order = 0
    for statement in group.statements():
        for read in statement.reads:
            produced = read.source in group.body
            kept = _kept(group, read)
            for d, entry in enumerate(read.index):
                plain = _plain(entry)
                if plain is None:
                    continue
                offset = plain[1] != 0
                priority = (2 if offset else 0) + (0 if produced else 1)
                found.append((priority, order, (statement.id, plain[0]), (read.source, kept[d])))
                order += 1
    return sorted(found)


def _join_steps(group: Group, union: _Union) -> None:
    """Join what steps alike along dimensions that run together: `j` and `k` of ``x[2*j]`` and ``y[2*k + 1]``, where x
    and y are computed from the same elements.  Readers come behind what they read, so that this goes on through
    several levels."""
    first: dict[tuple[Key, tuple[int, ...], int], Key] = {}
    for statement in group.statements():
        for read in statement.reads:
            kept = _kept(group, read)
            for d, entry in enumerate(read.index):
                steps = _steps(entry) if _plain(entry) is None else ()
                for dim, factor in steps:
                    source, reader = (read.source, kept[d]), (statement.id, dim)
                    union.add(source)
                    along = union.find(source), tuple(f for _, f in steps), factor
                    union.join(first.setdefault(along, reader), reader)


def _steps(entry: object) -> tuple[tuple[int, int], ...]:
    """(dimension, factor) of ``64*%j + %k``, where each steps by another, and of ``2*%j + 1``; none for others."""
    if not isinstance(entry, Affine) or not entry.is_linear:
        return ()
    terms = [(int(a[1:]), f) for a, f in entry.terms if isinstance(a, str) and a.startswith("%")]
    if len(terms) == 1:
        return tuple(terms)
    distinct = len(terms) == len(entry.terms) and len({f for _, f in terms}) == len(terms)
    return tuple(sorted(terms, key=lambda term: term[1])) if distinct else ()


def _kept(group: Group, read: Read) -> tuple[int, ...]:
    source = group.scop.statements[read.source]
    if read.source in group.body and isinstance(source, Statement):
        return source.kept
    return tuple(range(len(read.index)))


def classify(group: Group, hints: Mapping[str, int]) -> Classes:
    """The classes of `group`, numbered by first appearance in canonical order."""
    union = _Union()
    statements = group.statements()
    for statement in statements:
        for d in range(len(statement.extents)):
            union.add((statement.id, d))
    for _, _, reader, source in _links(group):
        union.add(source)
        union.join(reader, source)
    _join_steps(group, union)
    mirrored = _mirrored(group, union)
    weights = _weights(group, union, hints)
    by_root: dict[Key, list[Key]] = defaultdict(list)
    for key in union.parent:
        by_root[union.find(key)].append(key)
    axes: list[AxisClass] = []
    of: dict[Key, AxisClass] = {}
    for statement in statements:
        for d in range(len(statement.extents)):
            root = union.find((statement.id, d))
            if (statement.id, d) in of:
                continue
            keys = [k for k in by_root[root] if k[0] in group.body]
            axis = AxisClass(
                len(axes),
                _extent(group, keys, hints),
                frozenset(keys),
                frozenset(k[0] for k in keys if _role(group, k) == "reduced"),
                frozenset(k[0] for k in keys if _role(group, k) == "scanned"),
                weights.get(root, 0),
                _run(group, keys),
            )
            axes.append(axis)
            of.update((k, axis) for k in keys)
    return Classes(tuple(axes), of, mirrored)


def _mirrored(group: Group, union: _Union) -> dict[Key, Affine]:
    """Join what reads a prefix backwards with it: a block that has the prefix has its mirror image, too."""
    found: dict[Key, Affine] = {}
    if all(statement.scanned is None for statement in group.statements()):
        return found
    for statement in group.statements():
        for read in statement.reads:
            kept = _kept(group, read) if read.source in group.body else ()
            for entry, d in zip(read.index, kept, strict=False):
                backwards = _backwards(entry)
                if backwards is None:
                    continue
                reader, source = (statement.id, backwards[0]), (read.source, d)
                ours, theirs = _along(group, union, reader), _along(group, union, source)
                roles = {_role(group, key) for key in ours}
                if roles != {"kept"} or "scanned" not in {_role(group, key) for key in theirs}:
                    continue
                if found.keys().isdisjoint([*ours, *theirs]) and union.join(reader, source):
                    found |= dict.fromkeys(ours, backwards[1])
    return found


def _along(group: Group, union: _Union, key: Key) -> list[Key]:
    """The dimensions of statements in the class of one."""
    return [(owner, d) for owner, d in union.members[union.find(key)].items() if owner in group.body]


def _backwards(entry: object) -> tuple[int, Affine] | None:
    """(dimension, c) of ``-%k + c``, where no dimension is in c; else None."""
    if not isinstance(entry, Affine) or not entry.is_linear:
        return None
    along = [(a, f) for a, f in entry.terms if isinstance(a, str) and a.startswith("%")]
    if len(along) != 1 or along[0][1] != -1:
        return None
    name = along[0][0]
    return int(name[1:]), entry + dimension(int(name[1:]))


def _extent(group: Group, keys: list[Key], hints: Mapping[str, int]) -> Affine:
    """The largest extent of a member (they differ only across offsets)."""
    extents = dict[Affine, None]()
    for owner, d in keys:
        statement = group.scop.statements[owner]
        assert isinstance(statement, Statement)
        extents[statement.extents[d]] = None
    if len(extents) == 1:  # nearly always
        return next(iter(extents))
    return max(extents, key=lambda e: (e.evaluate(hints), str(e)))


def _run(group: Group, keys: list[Key]) -> int:
    statements = [(group.scop.statements[owner], d) for owner, d in keys]
    along = [s for s, d in statements if isinstance(s, Statement) and (s.scanned == d or d in s.reduced)]
    runs = {0 if s.is_reduction else s.run for s in along}
    return runs.pop() if len(runs) == 1 else 0


def _role(group: Group, key: Key) -> str:
    statement = group.scop.statements[key[0]]
    assert isinstance(statement, Statement)
    if key[1] in statement.reduced:
        return "reduced"
    return "scanned" if statement.scanned == key[1] else "kept"


def _weights(group: Group, union: _Union, hints: Mapping[str, int]) -> dict[Key, int]:
    """Bytes moved with unit stride along each class: loads by reads whose last index is plain, and stores."""
    weights: dict[Key, int] = defaultdict(int)

    def add(key: Key, value: int) -> None:
        if key in union.parent:
            weights[union.find(key)] += volume(group, value, hints)

    seen: set[tuple[int, Key]] = set()
    for statement in group.statements():
        for read in statement.reads:
            if read.source in group.loads and read.index:
                along = unit_dimension(read.index[-1])
                if along is not None and (read.source, (statement.id, along)) not in seen:
                    seen.add((read.source, (statement.id, along)))
                    add((statement.id, along), read.source)
        if statement.id in group.roots and statement.kept:
            add((statement.id, statement.kept[-1]), statement.id)
        _inherit(group, statement, union, weights)
    return weights


def _inherit(group: Group, statement: Statement, union: _Union, weights: dict[Key, int]) -> None:
    """What moves along a producer's dimension moves along the reader's that steps it: r in ``p[4096*q + r]``."""
    for read in statement.reads:
        if read.source not in group.body:
            continue
        for d, entry in zip(_kept(group, read), read.index, strict=True):
            along = unit_dimension(entry)
            if along is None:
                continue
            source, reader = union.find((read.source, d)), union.find((statement.id, along))
            if source != reader:
                weights[reader] += weights.get(source, 0)


def volume(group: Group, value: int, hints: Mapping[str, int]) -> int:
    """Bytes of a whole value at the hinted sizes."""
    count = sum(d.itemsize for d in group.scop.statements[value].dtypes)
    for extent in group.scop.shape(value):
        count *= max(0, extent.evaluate(hints))
    return count
