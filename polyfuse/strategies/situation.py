"""What every strategy looks at: the group, its classes, the machine, the sizes expected."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod

from polyfuse.affine import ONE, Affine, Atom
from polyfuse.bindings import AnyGuard, Guard, Layout
from polyfuse.places.proposal import Group
from polyfuse.schedule import Digit
from polyfuse.scop import Read, Scop, Statement
from polyfuse.strategies.classes import AxisClass, Classes, classify
from polyfuse.target import Target

LONGEST = 8
"""Elements of a vector at most, each of which takes registers of its own."""
LINE = 128
"""Bytes of a line: lanes that take elements of one side by side read it once."""
LITTLE = 16
"""What is a sixteenth of all bytes turns no grid: tables that rows share."""


@dataclass(frozen=True)
class Situation:
    """`hints`: a value for every size symbol.  `layouts`: of arrays that are not plain C order with 16-byte bases."""

    group: Group
    target: Target
    hints: Mapping[str, int]
    layouts: Mapping[int, Layout] = field(default_factory=dict)
    tiles: Mapping[str, int] = field(default_factory=dict)  # the user's tile sizes, by parameter name
    invariant: bool = False  # reductions are associated by what they run over alone
    atomics: bool = False  # shares of blocks may meet in any order

    @property
    def scop(self) -> Scop:
        return self.group.scop

    @cached_property
    def classes(self) -> Classes:
        return classify(self.group, self.hints)

    @cached_property
    def axes(self) -> tuple[AxisClass, ...]:
        """The classes that a proposal splits."""
        return self.classes.anchored(self.group)

    @cached_property
    def numbers(self) -> dict[int | None, list[tuple[int, int]]]:
        """By the number of their class the dimensions (statement, dimension); by None those of one element, whatever
        their class is called."""
        found: dict[int | None, list[tuple[int, int]]] = {}
        for statement in self.group.statements():
            for d, axis in enumerate(self.classes.statement(statement)):
                found.setdefault(None if axis.extent == ONE else axis.number, []).append((statement.id, d))
        return found

    @cached_property
    def row_widths(self) -> dict[Affine, int]:
        """Of classes by extent, as far as they are known: every shape of rows asks."""
        return {}

    @cached_property
    def borders(self) -> dict[int, list[tuple[Statement, set[Affine]]]]:
        """By class where conditions change along it, as far as it is known: several proposals ask (`pieces`)."""
        return {}

    @cached_property
    def _vectors(self) -> dict[tuple[Affine, bool], int]:
        """What `vector` found, as far as it was asked: every proposal asks."""
        return {}

    @cached_property
    def reductions(self) -> tuple[Statement, ...]:
        return tuple(s for s in self.group.statements() if s.is_reduction)

    @cached_property
    def scans(self) -> tuple[Statement, ...]:
        return tuple(s for s in self.group.statements() if s.scanned is not None)

    @cached_property
    def lead(self) -> Statement:
        """The root with the largest domain: its dimensions give the grid."""
        roots = [s for s in self.group.statements() if s.id in self.group.roots]
        return max(roots, key=lambda s: (self.points(s), -s.id))

    def nearest(self, axes: Iterable[AxisClass]) -> list[AxisClass]:
        """Classes whose elements become blocks, in the order of their digits: on a device blocks that run side by side
        take what lies side by side, so that they share lines of the cache and pages of memory (standard deviations
        along axis 1 of 256 x 1024 x 768 on an H200: 306 us with all the first columns before any others)."""
        if self.target.kind == "cpu":
            return sorted(axes, key=lambda a: (-a.size(self.hints), a.number))
        place = {axis.number: d for d, axis in enumerate(self.classes.statement(self.lead))}
        return sorted(axes, key=lambda a: (-place.get(a.number, -1), a.number))

    def numbered(self, axes: Sequence[AxisClass]) -> dict[int, int]:
        """The number of the block digit of each class, of `axes` in the order of `nearest`, but first what long arrays
        are read along again and again: blocks that read the same follow each other, and the cache has it.  On an H100,
        one result of each two or three of the planes of 576 MB float32: 624 us a plane after the other, where the bytes
        of all take 380."""
        again = self._read_again
        order = sorted(axes, key=lambda a: -again.get(a.number, 0))
        return {axis.number: k for k, axis in enumerate(order)}

    @cached_property
    def _read_again(self) -> Mapping[int, int]:
        """Per class: bytes of arrays along none of whose dimensions it runs, where the last-level cache forgets them
        before they are read again, as it sees all else that is read and written for one element of the class: seven
        copies of 32 MB float32, 152 us on an H100 one after the other, where all bytes take 85.  Not where that is less
        than one of `LITTLE` parts of all bytes."""
        used: dict[int, set[int]] = {}
        for statement in self.group.statements() if self.target.kind == "cuda" else ():
            axes = self.classes.statement(statement)
            for read in (r for r in statement.reads if r.source in self.group.loads):
                names = frozenset[str]().union(*[e.names() for e in read.index if isinstance(e, Affine)])
                whole = all(isinstance(e, Affine) for e in read.index)
                along = {a.number for d, a in enumerate(axes) if f"%{d}" in names or not whole}
                used.setdefault(read.source, set()).update(along)
        found: dict[int, int] = {}
        arrays = {source: self._bytes(source) for source in used}
        once = sum(arrays.values()) + sum(map(self._bytes, self.group.roots))
        for axis in self.axes:
            count = axis.size(self.hints)
            again = sum([arrays[source] for source, along in used.items() if axis.number not in along])
            forgotten = again + (once - again) // count > self.target.l2_kept
            if forgotten and again * (count - 1) * LITTLE > once:
                found[axis.number] = again
        return found

    def _bytes(self, value: int) -> int:
        """Of an array, or of all that a statement leaves."""
        elements = prod([self.size(extent) for extent in self.scop.shape(value)])
        return elements * sum(d.itemsize for d in self.scop.statements[value].dtypes)

    @cached_property
    def steps(self) -> Mapping[int, int]:
        """Per class, by how many elements of the longest array that is read in place one moves in memory."""
        found: dict[int, int] = {}
        longest = -1
        for statement in self.group.statements():
            for read in statement.reads:
                shape = [self.size(extent) for extent in self.scop.shape(read.source)]
                entries = [entry for entry in read.index if isinstance(entry, Affine)]
                if read.source in self.group.loads and len(entries) == len(shape) and prod(shape) > longest:
                    position = sum((e * prod(shape[d + 1 :]) for d, e in enumerate(entries)), Affine.of(0))
                    axes = self.classes.statement(statement)
                    found = {axis.number: position.coefficient(f"%{d}") for d, axis in enumerate(axes)}
                    longest = prod(shape)
        return found

    @cached_property
    def is_busy(self) -> bool:
        """Whether there is much to do, and a row for every processor: kernels for classes of lengths pay.  On an H200,
        of float32, half vectors and words: group normalisation of 8,296 planes of 14,214 228 and 249 us, layernorm of
        20000 x 3002 133 and 143, softmax of 1,300,000 x 50 131 and 139."""
        return self.has_much and self.fills

    @cached_property
    def fills(self) -> bool:
        """Whether there is a row for every processor."""
        return self.rows >= self.target.processors or not self.target.busy_bytes

    @cached_property
    def rows(self) -> int:
        """Elements of all classes that nothing sums over."""
        return prod(axis.size(self.hints) for axis in self.axes if not axis.reduced_by)

    @cached_property
    def has_much(self) -> bool:
        """Whether a launch hides little of what there is to do."""
        elements = max((self.points(s) for s in self.group.statements()), default=0)
        many = elements * max(self.long_itemsizes, default=1) >= self.target.busy_bytes
        return many and self.target.kind == "cuda"

    def points(self, statement: Statement) -> int:
        count = 1
        for axis in self.classes.statement(statement):
            count *= axis.size(self.hints)
        return count

    def size(self, extent: Affine) -> int:
        """As of an `AxisClass`: at least 1."""
        return max(1, extent.evaluate(self.hints))

    @cached_property
    def inner(self) -> AxisClass | None:
        """The class along which most bytes lie with unit stride; ties go to the later dimension of the lead."""
        axes = [a for a in self.axes if a.weight > 0]
        if not axes:
            return self.axes[-1] if self.axes else None
        return max(axes, key=lambda a: (a.weight, a.number))

    def vector(self, extent: Affine, *, flat: bool) -> int:
        """Elements per access, `widest` as far as sizes and alignments of this call allow.

        `flat`: the extent is a whole contiguous array, so that rows need no common alignment.
        """
        known = self._vectors.get((extent, flat))
        if known is None:
            known = self._vectors[extent, flat] = self._vector(extent, flat=flat)
        return known

    def _vector(self, extent: Affine, *, flat: bool) -> int:
        values = self.group.loads | self.group.roots
        dtypes = [d for v in values for d in self.scop.statements[v].dtypes if self.scop.shape(v)]
        if not dtypes:
            return 1
        if self.target.kind == "cpu":  # what one result of a row is in does not matter to those along it
            added = [s for s in self.group.statements() if s.is_reduction]
            if added:
                along = [self.scop.statements[v] for v in self._long(values, 8) if self.scop.shape(v)]
                dtypes = [d for s in (*along, *added) for d in s.dtypes]
            return self._cpu_vector([d.compute.itemsize for d in dtypes])
        width = self.widest
        for value in values:
            layout = self.layouts.get(value)
            if layout is None or not self.scop.shape(value):
                continue
            if layout.strides is not None:
                return 1
            width = min(width, max(1, layout.alignment // self.scop.dtype(value).itemsize))
        while width > 1 and not flat and self.size(extent) % width:
            width //= 2
        return width if width > 1 or flat else 1

    def width(self, extent: Affine, *, flat: bool) -> int:
        """As `vector`, but no more than the user asked for."""
        most = self.vector(extent, flat=flat)
        return min(most, power_below(self.tiles.get("vector", most)))

    def _cpu_vector(self, itemsizes: list[int]) -> int:
        """Two full vector registers of the widest type a value computes in."""
        return max(1, 2 * self.target.vector_bytes // max(itemsizes))

    def divisible(self, extent: Affine, width: int) -> tuple[AnyGuard, ...]:
        """The guards that `width` divides `extent` and, where a wider access would be possible, that no more does."""
        if extent.is_constant or self.target.kind == "cpu":
            return ()
        odd = self.size(extent) % (2 * width) != 0  # else it is a layout, not the size, that forbids more
        wider = (Guard(extent, 2 * width, negated=True, advisory=True),) if odd and width < self.widest else ()
        if width == 1 or all(f % width == 0 for _, f in extent.terms) and extent.constant % width == 0:
            return wider
        return (Guard(extent, width), *wider)

    def fits(self, extent: Affine, capacity: int) -> tuple[AnyGuard, ...]:
        """The guards of a schedule for sizes up to `capacity`: those that half of it would not serve, or any where it
        is the least that there is."""
        if extent.is_constant:
            return ()
        full = self.size(extent) > capacity // 2
        least = (Guard(extent - capacity // 2 - 1, advisory=True),) if full else ()
        return (*least, Guard(Affine.of(capacity) - extent))

    def in_trips(self, extent: Affine, span: int, *, short: bool) -> tuple[AnyGuard, ...]:
        """The guards of a schedule whose lanes go through rows in trips of `span` elements, where there is much to do:
        rows that leave half of them idle have a kernel of their own, as have those of several trips where the lanes are
        so few because one is `short`.  Least and greatest of 3 x 3 windows of 6553600 x 8 float32 take an H100 595
        us by a kernel for rows of 64, 107 by their own."""
        size = self.size(extent)
        if extent.is_constant or not self.has_much or size <= span // 2:
            return ()
        most = (Guard(Affine.of(span) - extent, advisory=True),) if short and size <= span else ()
        return (Guard(extent - span // 2 - 1, advisory=True), *most)

    def aligned(self, axis: AxisClass, width: int) -> tuple[AnyGuard, ...]:
        """The guards that all that is read further along rows by sizes, as the second part of a concatenation, begins
        with a whole vector; where something does not at the sizes at hand, that it does not."""
        shifts = dict.fromkeys(self._shifts(axis)) if width > 1 and self.target.kind == "cuda" else {}
        odd = [shift for shift in shifts if shift.evaluate(self.hints) % width]
        if odd:
            return (Guard(odd[0], width, negated=True, advisory=True),)
        return tuple([Guard(shift, width) for shift in shifts])

    def _shifts(self, axis: AxisClass) -> Iterator[Affine]:
        for statement in self.group.statements():
            along = {f"%{d}" for d, a in enumerate(self.classes.statement(statement)) if a is axis}
            for read in statement.reads:
                last = read.index[-1] if read.index else None
                if not isinstance(last, Affine) or not any(last.coefficient(name) == 1 for name in along):
                    continue
                sizes = [(a, f) for a, f in last.terms if a not in along]
                shift = Affine(tuple(sizes), 0) if sizes else Affine.of(0)
                if sizes and shift.is_linear and not any(n.startswith("%") for n in shift.names()):
                    yield shift if sizes[0][1] > 0 else -shift

    @cached_property
    def widest(self) -> int:
        """The vector width that a size divisible by everything would get: as many elements as 16 bytes hold of the
        narrowest long array, but no more than they hold of one that is written.  A vector of results in two stores
        leaves gaps between those of the threads of a warp: 134 million bytes to float32 on an H200 in vectors of eight
        took 271 us, of four 169.
        """
        values = [v for v in self.group.loads | self.group.roots if self.scop.shape(v)]
        sizes = [d.itemsize for v in self._long(values) for d in self.scop.statements[v].dtypes]
        if not sizes:
            return 1
        written = [v for v in self._long(values, 8) if v in self.group.roots]  # colours make one grey, rows one sum
        stored = [d.itemsize for v in written for d in self.scop.statements[v].dtypes]
        return max(1, min(LONGEST, self.target.vector_bytes // max([min(sizes), *stored])))

    @cached_property
    def long_itemsizes(self) -> tuple[int, ...]:
        """Bytes of the elements of every array that the group reads or writes, but for those that others are much
        longer than."""
        return tuple(d.itemsize for v in sorted(self.long_values) for d in self.scop.statements[v].dtypes)

    @cached_property
    def long_values(self) -> frozenset[int]:
        """These arrays."""
        return frozenset(self._long(self.group.loads | self.group.roots))

    def _long(self, values: Iterable[int], parts: int = 2) -> list[int]:
        """Of `values`, those that have one of so many `parts` of the elements of the longest or more."""
        counts = {v: prod(self.size(n) for n in self.scop.shape(v)) for v in sorted(values)}
        return [v for v, count in counts.items() if parts * count >= max(counts.values())]


def as_read(
    situation: Situation, axes: Sequence[AxisClass], held: Mapping[int, int], piece: int
) -> Sequence[AxisClass]:
    """Classes in the order in which the longest array lies along them, where a block reads pieces of it of fewer than
    `piece` bytes; empty where pieces are longer, or the array is the same along some of them.  `held`: by class, how
    many elements of it a block has."""
    steps, run = {n: abs(step) for n, step in situation.steps.items()}, 1
    if any(not steps.get(axis.number) for axis in axes if situation.size(axis.extent) > 1):
        return ()
    for axis in sorted(situation.axes, key=lambda a: steps.get(a.number, 0)):
        size = situation.size(axis.extent)
        if steps.get(axis.number) != run or size < 2:
            continue
        run *= min(held.get(axis.number, 1), size)
        if held.get(axis.number, 1) < size:
            break
    if run * max(situation.long_itemsizes, default=1) >= piece:
        return ()
    return sorted(axes, key=lambda a: steps.get(a.number, 0))


def row_width(situation: Situation, extent: Affine) -> int:
    """Whole vectors or single words, so that many shapes share few kernels; what fits, where there is much to do."""
    known = situation.row_widths.get(extent)
    if known is None:
        known = situation.row_widths[extent] = _row_width(situation, extent)
    return known


def _row_width(situation: Situation, extent: Affine) -> int:
    width = situation.width(extent, flat=False)
    if "vector" not in situation.tiles:
        width = _widest_row(situation, extent, width)
    if width == situation.widest or "vector" in situation.tiles or situation.is_busy:
        return width
    return min(width, max(1, 4 * situation.widest // situation.target.vector_bytes))


def _widest_row(situation: Situation, extent: Affine, width: int) -> int:
    """The widest access with which the rows of some array along `extent` begin: of slices, as ``x[:, 1:]``, the length
    says nothing of that, and lanes that have a vector of single elements each lie apart.  Of elements that do, as
    ``x[:, ::4]``, as many as lie in a vector of memory: of 328 MB of bfloat16, two of four apart for a lane take an
    H200 76 us, eight 167; of float32, one 76, four 88."""
    if width == 1:
        return 1
    scop, hints = situation.scop, situation.hints
    long = situation._long(situation.group.loads | situation.group.roots)
    lengths, steps = set[int](), set[int]()
    for statement in situation.group.statements():
        axes = situation.classes.statement(statement)
        along = {f"%{d}" for d, axis in enumerate(axes) if axis.extent == extent}
        steps |= {1} if statement.id in long and any(f"%{d}" in along for d in statement.kept) else set()
        for read in statement.reads:
            steps |= _steps(situation, read, along) if read.source in long else set()
            last = read.index[-1] if len(read.index) > 1 and read.source in situation.group.loads else None
            if isinstance(last, Affine) and along & last.names():
                lengths.add(scop.shape(read.source)[-1].evaluate(hints))
        shape = scop.shape(statement.id)
        if statement.id in situation.group.roots and len(shape) > 1 and shape[-1] == extent:
            lengths.add(extent.evaluate(hints))
    apart = min(steps, default=1)
    if 1 < apart < LINE // min(situation.long_itemsizes, default=1):
        width = max(1, min(width, situation.widest // power_below(apart)))
    while width > 1 and lengths and all(length % width for length in lengths):
        width //= 2
    return width


def _steps(situation: Situation, read: Read, along: Container[str]) -> set[int]:
    """How far apart in memory the elements lie that a read takes one after another along a dimension."""
    found, stride = set[int](), 1
    for entry, extent in zip(reversed(read.index), reversed(situation.scop.shape(read.source)), strict=True):
        if isinstance(entry, Affine):
            found |= {abs(factor) * stride for name, factor in entry.terms if name in along}
        stride *= max(1, situation.size(extent))
    return found


def power_above(n: int) -> int:
    """The least power of two that is at least `n`."""
    return 1 << max(0, n - 1).bit_length()


def power_below(n: int) -> int:
    """The greatest power of two that is at most `n`, which is at least 1."""
    return 1 << (max(1, n).bit_length() - 1)


@lru_cache(maxsize=10_000)  # as the others: proposals have a few digits in many sizes
def block(name: str, extent: Affine) -> Digit:
    return Digit(name, "block", extent)


@lru_cache(maxsize=10_000)
def thread(name: str, stride: int, extent: int) -> Digit:
    return Digit(name, "thread", Affine.of(extent), stride)


@lru_cache(maxsize=10_000)
def slot(name: str, extent: int) -> Digit:
    return Digit(name, "slot", Affine.of(extent))


@lru_cache(maxsize=10_000)
def loop(name: str, extent: Affine) -> Digit:
    return Digit(name, "loop", extent)


def mixed(*parts: tuple[Digit | None, int]) -> Affine:
    """``sum(weight * digit)`` over the parts that exist."""
    terms: dict[Atom, int] = {}
    for part, weight in parts:
        if part is not None and (part.extent.terms or part.extent.constant != 1):
            name = f"${part.name}"
            terms[name] = terms.get(name, 0) + weight
    return Affine.build(terms, 0)


def block_digits(
    axes: Sequence[AxisClass], steps: Mapping[int, int], ty: Digit | None = None
) -> tuple[list[Digit], dict[int, Affine]]:
    """One block digit per parallel class.  `steps`: elements that one takes of a class, else 1; `ty` deals those of the
    class that has some, or of the first class, to threads."""
    step = [steps.get(axis.number, 1) for axis in axes]
    digits = [block(f"b{k}", axis.extent.ceildiv(step[k])) for k, axis in enumerate(axes)]
    first = next((k for k, axis in enumerate(axes) if axis.number in steps), 0)
    dealt = [ty if k == first else None for k in range(len(axes))]
    splits = [mixed((b, n), (t, 1)) for b, n, t in zip(digits, step, dealt, strict=True)]
    return digits, {axis.number: split for axis, split in zip(axes, splits, strict=True)}
