"""A schedule: for every statement of one kernel a place and a position in time, as plain values.

A *place* is written the way it is executed, from the machine to the statement: one affine expression of digits per
dimension of the statement (``i = b0``, ``j = 1024*c + 4*t + v``).  Digits are block indices, parts of the thread index,
loop counters and register slots, each in a box; the relation from instances to places, which proofs use, is the inverse
of that function.  A digit that does not occur means that the instance is replicated along it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import prod
from typing import Any, Literal, TypeVar, Union

from polyfuse.affine import Affine, digit
from polyfuse.bindings import AnyGuard
from polyfuse.dtypes import DType
from polyfuse.unravelled import Unravelled

Figure = TypeVar("Figure")
DigitKind = Literal["block", "thread", "loop", "slot"]


@dataclass(frozen=True, slots=True)
class Digit:
    """``0 <= $name < extent``.  Thread digits have a `stride`: their weight in the thread index.  Extents of blocks
    and loops may be symbolic; those of threads and slots are constants."""

    name: str
    kind: DigitKind
    extent: Affine
    stride: int = 0

    @property
    def count(self) -> int:
        """The extent of a thread or slot digit."""
        extent = self.extent
        assert not extent.terms, f"digit {self.name} has the symbolic extent {extent}"
        return extent.constant

    @property
    def number(self) -> int:
        """Of the digit of a block: 0 of the one in which blocks that follow each other differ, 1 of the next."""
        return int(self.name[1:])


class Scope(Enum):
    """Where a value lives between its producer and its consumers, innermost first."""

    REGISTER = "register"
    SPLIT = "register + shared"
    SHARED = "shared"
    GLOBAL = "global"


PlaceEntry = Union[Affine, Unravelled, str]  # a str names the placed statement whose value is the index (a gather)


Role = Literal["compute", "load", "store", "put", "get", "take", "partial", "total", "atomic"]


@dataclass(frozen=True, slots=True, init=False)
class Placed:
    """One statement of a kernel at one place and time.

    `role`: ``compute``; ``load`` (a global array into registers); ``store`` (registers into a global array); ``put``
    and ``get`` (registers into and out of a shared buffer); ``take`` (other registers of the same thread);
    ``partial`` (the block's share of a reduction into a global workspace); ``total`` (the shares of all blocks,
    combined in registers of the elected one); ``atomic`` (the block's share merged into the result itself, which the
    plan has filled with the neutral element before the kernel).  `value` is the id in
    the SCoP of the statement computed or of the value moved.  `place`: per dimension of the statement (compute), or of
    the value (moves); in front of a total's the number of the block whose share is read.  `path`: enclosing loops,
    outermost first, each with its pass number: equal pairs are the same loop; a block digit in front stands for the
    `Finish` over it.  `providers`: per read of the statement (compute), per component (total), or the single source
    (other moves), the placed statement that holds it.
    """

    name: str
    role: Role
    value: int
    place: tuple[PlaceEntry, ...]
    path: tuple[tuple[str, int], ...] = ()
    providers: tuple[str, ...] = ()
    component: int = 0
    _digits: frozenset[str] | None = field(default=None, init=False, compare=False, repr=False)
    _summed: frozenset[str] | None = field(default=None, init=False, compare=False, repr=False)

    def __init__(
        self,
        name: str,
        role: Role,
        value: int,
        place: tuple[PlaceEntry, ...],
        path: tuple[tuple[str, int], ...] = (),
        providers: tuple[str, ...] = (),
        component: int = 0,
    ) -> None:
        """What a frozen dataclass has, in half of its time: drafts have tens of thousands."""
        _SET_NAME(self, name)
        _SET_ROLE(self, role)
        _SET_VALUE(self, value)
        _SET_PLACE(self, place)
        _SET_PATH(self, path)
        _SET_PROVIDERS(self, providers)
        _SET_COMPONENT(self, component)
        _SET_DIGITS(self, None)
        _SET_SUMMED(self, None)

    def moved(self, place: tuple[PlaceEntry, ...]) -> Placed:
        """The same statement there."""
        return Placed(self.name, self.role, self.value, place, self.path, self.providers, self.component)

    def digits(self) -> frozenset[str]:
        """Names of the digits that the place uses."""
        if self._digits is None:
            entries = [e.names() for e in self.place if not isinstance(e, str)]
            used = frozenset([n[1:] for names in entries for n in names if n.startswith("$")])
            object.__setattr__(self, "_digits", used)
            return used
        return self._digits

    def summed(self, found: Callable[[], frozenset[str]]) -> frozenset[str]:
        """The digits that it sums over, found once: what that is depends on the SCoP that `value` is of alone."""
        known = self._summed
        if known is None:
            object.__setattr__(self, "_summed", known := found())
        return known


_SET_NAME, _SET_ROLE, _SET_VALUE, _SET_PLACE, _SET_PATH, _SET_PROVIDERS, _SET_COMPONENT, _SET_DIGITS, _SET_SUMMED = (
    Placed.__dict__[field].__set__
    for field in ("name", "role", "value", "place", "path", "providers", "component", "_digits", "_summed")
)


def in_frame(entry: Affine) -> bool:
    """Whether a place along a row depends on where the row begins in memory, see `polyfuse.strategies.frames`."""
    for atom, factor in entry.terms:
        if isinstance(atom, str):
            if factor < 0 and atom.startswith("$"):
                return True
        elif any(name.startswith("$") for name in atom.numerator.names()):
            return True
    return False


def window_index(holder: Placed, taker: Placed, slots: Collection[str]) -> tuple[tuple[tuple[str, ...], Affine], ...]:
    """Where in the registers of `holder` a ``take`` finds its elements: per dimension the slots along which the holder
    runs, outermost first, and the number wanted among what they count.  A slot along which both run alike is none of
    these: its registers are apart.

    x at [b, 4*t + 4*c + w - 4] taken at [b, 4*t + v + 1]:   ((), 0), ((c, w), v + 5)
    """
    found = []
    for held, wanted in zip(holder.place, taker.place, strict=True):
        assert isinstance(held, Affine) and isinstance(wanted, Affine)
        terms = [(f, a) for a, f in held.terms if isinstance(a, str) and a.startswith("$") and a[1:] in slots]
        counting = sorted((term for term in terms if wanted.coefficient(term[1]) != term[0]), key=lambda term: -term[0])
        fixed = held.substitute({name: 0 for _, name in counting})
        found.append((tuple(name[1:] for _, name in counting), wanted - fixed))
    return tuple(found)


def scanned_slots(at: PlaceEntry, digits: Iterable[Digit], used: Collection[str]) -> tuple[list[str], list[str]]:
    """Those of the `used` slots that a prefix placed at `at` runs through, the slowest first: with the pieces that all
    threads run through together, and inside of a thread's turn, which are shorter steps than those between threads.

    j = 1024*c + 4*t + v:   (c,), (v,)
    """
    assert isinstance(at, Affine)
    found = [(abs(at.coefficient(f"${d.name}")), d) for d in digits if d.name in used]
    thread = min([step for step, d in found if d.kind == "thread" and d.count > 1], default=0)
    slots = sorted([(-step, k, d.name) for k, (step, d) in enumerate(found) if d.kind == "slot"])
    pieces = [name for step, _, name in slots if thread and -step > thread]
    return pieces, [name for _, _, name in slots if name not in pieces]


@dataclass(frozen=True, slots=True)
class LoopNest:
    """One loop of the order tree: a digit and what it repeats."""

    digit: str
    items: tuple[TreeItem, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """What only the elected block runs: of the blocks that differ in the digit `digit` alone, the last to arrive.
    Every block comes here once, after all that stands before it."""

    digit: str
    items: tuple[TreeItem, ...]


TreeItem = Union[str, LoopNest, Finish]  # a str names a Placed; "barrier" and "barrier:k" are barriers


@dataclass(frozen=True, slots=True)
class SharedBox:
    """The part of a value that a block keeps in shared memory: per dimension an origin (affine in block and pinned
    loop digits and sizes) and a constant extent.  `pitch`: elements between neighbours, after padding.  `spans`: its
    rows are of a few elements, and one access takes several of them, see `polyfuse.spans`.  `copied`: it is filled by
    asynchronous copies of aligned vectors of so many elements, as they lie in memory; 0: threads put what they loaded.
    `packed`: its elements are less than a word, as they are in memory, and one access takes those of a word or more.
    """

    value: int
    name: str
    origin: tuple[Affine, ...]
    extents: tuple[int, ...]
    pitch: tuple[int, ...]
    spans: bool = False
    copied: int = 0
    packed: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Its cells, and those of vectors that begin or end beside it."""
        return (*self.extents[:-1], self.pitch[-2]) if self.copied else self.extents

    def cells(self, dtype: DType) -> DType:
        """What its cells hold of a value of `dtype`."""
        return dtype if self.copied or self.packed else dtype.compute


@dataclass(frozen=True, slots=True)
class Cells:
    """Of the values of a thread along the slot `slot`, those from `first` on live in cells of shared memory while
    threads combine: cells of the thread's own, which no other thread touches, so that they need no barrier.  `values`:
    the placed statements whose results outlive a combination; `kinds`: one of them for each of the cells, which values
    of one type and of the same slots share; `moves`: how often a part is put there or got.  `piece`: either part runs
    in pieces of so many, one behind the other, so that what no combination comes behind takes the registers of one
    piece; 0 where it runs as a whole."""

    slot: str
    first: int
    values: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    moves: int = 0
    piece: int = 0


@dataclass(frozen=True, slots=True)
class GridCombine:
    """The partial results of the placed reduction `reduction` in blocks that differ in the digit `digit` are combined
    by the block elected among them, in the `Finish` over that digit; or by atomic updates, where an ``atomic`` is all
    that reads them."""

    reduction: str
    digit: str


@dataclass(frozen=True, slots=True)
class GridScan:
    """The prefix of the placed scan `scan` goes on through the blocks that differ in the digit `digit` alone: each
    leaves its total, and takes those of all with a smaller digit.  Blocks of such a kernel begin in the order of their
    index.  `group`: totals of so many blocks that follow each other are also left as one, and so many of these.
    `lead`: so many blocks before a block of the device runs as block b, it leaves the total of block b + lead: what it
    takes is there."""

    scan: str
    digit: str
    group: int
    lead: int = 0


def nests(group: int, slots: int) -> bool:
    """Whether totals of groups, of so many values in each thread, are left for groups of them as well.  Kernels of
    single values have no registers for it: prefixes of 16384 x 8193 float32 along axis 0 take an H100 528 us without,
    595 at best with it."""
    return group > 1 and slots > 1


def stretch(group: int) -> int:
    """Blocks whose totals are cleared together; what one of them reads of single blocks is theirs, or of those of the
    stretch in front."""
    return max(256, 4 * group)


IN_PIECES = "pieces"
"""The parameter of kernels in which a core goes through each piece of a row by itself: how many there are at most."""


@dataclass(frozen=True, slots=True)
class KernelSchedule:
    """Decisions for one kernel.

    `strategy` and `parameters` say how the proposal came about and are what the text form prints.  `roots`: values
    stored.  `order`: the order tree.  `guards`: sizes for which it was made.  `cluster`: that many blocks of the
    device, which run together and reach each other's shared memory, make up one block; they share its threads evenly,
    in their order.  `border`: test once
    per block whether it lies inside, and leave the masks out there.  `ahead`: loops whose arrays are loaded one trip
    before they are used.  `rings`: loops whose arrays are copied to shared memory, with the trips that it holds: that
    of now and those after it, on their way.  `cells`: what lies in shared memory rather than in registers.
    `evict_last`: what is read stays in the last-level cache, and what is written leaves it first.  `reuses`:
    pairs (argument, root) where the root is stored into the argument's buffer.
    """

    name: str
    strategy: str
    parameters: tuple[tuple[str, int], ...]
    body: tuple[int, ...]
    roots: tuple[int, ...]
    loads: tuple[int, ...]
    digits: tuple[Digit, ...]
    placed: tuple[Placed, ...]
    order: tuple[TreeItem, ...]
    shared: tuple[SharedBox, ...] = ()
    grid_combine: tuple[GridCombine, ...] = ()
    grid_scans: tuple[GridScan, ...] = ()
    guards: tuple[AnyGuard, ...] = ()
    minimum_blocks: int = 1
    cluster: int = 1
    border: bool = False
    ahead: tuple[str, ...] = ()
    rings: tuple[tuple[str, int], ...] = ()
    cells: Cells | None = None
    evict_last: bool = False
    reuses: tuple[tuple[int, int], ...] = ()
    _kinds: dict[DigitKind, tuple[Digit, ...]] = field(default_factory=dict, init=False, compare=False, repr=False)
    _threads: int = field(default=0, init=False, compare=False, repr=False)  # counted when first asked for
    _figures: dict[Hashable, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def figure(self, what: Hashable, found: Callable[[], Figure]) -> Figure:
        """A figure that prices ask for again, found once."""
        if what not in self._figures:
            self._figures[what] = found()
        known: Figure = self._figures[what]
        return known

    def with_room(self, blocks: int) -> KernelSchedule:
        """The same with registers for so many blocks of a processor, of which all figures that were found are those of
        `self`: what depends on the number of blocks has it in its key."""
        found = replace(self, minimum_blocks=blocks)
        found._figures.update(self._figures)
        found._kinds.update(self._kinds)
        return found

    def digit(self, name: str) -> Digit:
        return next(d for d in self.digits if d.name == name)

    def finish_of(self, placed: Placed) -> str:
        """The block digit over which the `Finish` around a placed statement elects; empty for what every block runs."""
        first = placed.path[0][0] if placed.path else ""
        return first if first and self.digit(first).kind == "block" else ""

    def of_kind(self, kind: DigitKind) -> tuple[Digit, ...]:
        found = self._kinds.get(kind)
        if found is None:  # a price asks a hundred times
            found = self._kinds[kind] = tuple([d for d in self.digits if d.kind == kind])
        return found

    def summed_ahead(self) -> frozenset[str]:
        """The placed statements that totals which are left ahead are made of: they also run in another block."""
        by_name = self.by_name()
        todo = [scan.scan for scan in self.grid_scans if scan.lead]
        found = set(todo)
        while todo:
            placed = by_name[todo.pop()]
            fresh = {*placed.providers, *(e for e in placed.place if isinstance(e, str))} - found
            found |= fresh
            todo += fresh
        return frozenset(found)

    @property
    def filled(self) -> tuple[int, ...]:
        """The roots that blocks merge their shares into, and which hold the neutral element before."""
        return tuple(sorted({p.value for p in self.placed if p.role == "atomic"}))

    def copied_loads(self) -> frozenset[str]:
        """The loads that asynchronous copies bring to boxes."""
        values = {box.value for box in self.shared if box.copied}
        return frozenset(p.providers[0] for p in self.placed if p.role == "put" and p.value in values)

    def by_name(self) -> Mapping[str, Placed]:
        return {p.name: p for p in self.placed}

    @property
    def threads(self) -> int:
        """Threads of one block, which may be a cluster of blocks of the device."""
        if not self._threads:
            object.__setattr__(self, "_threads", prod([d.count for d in self.of_kind("thread")]))
        return self._threads

    @property
    def block_threads(self) -> int:
        """Threads of one block of the device."""
        return self.threads // self.cluster


def election(digits: Iterable[Digit], along: str) -> tuple[tuple[Affine, ...], tuple[Affine, ...]]:
    """Which of the elections over the block digit `along` a block takes part in, and how many there are, along each
    dimension: the other block digits, those of constant extent in mixed radix with the first one of a symbolic extent.
    """
    others = [d for d in digits if d.kind == "block" and d.name != along]
    others.sort(key=lambda d: not d.extent.is_constant)
    index, count = [Affine.of(0)], [Affine.of(1)]
    for d in others:
        if count[-1].is_constant:
            index[-1] += digit(d.name) * count[-1].constant
            count[-1] = d.extent * count[-1].constant
        else:
            index.append(digit(d.name))
            count.append(d.extent)
    return tuple(index), tuple(count)


@dataclass(frozen=True, slots=True)
class Step:
    """A leaf of the order tree with the loops around it."""

    name: str
    loops: tuple[str, ...] = field(default=())


def walk(order: tuple[TreeItem, ...], loops: tuple[str, ...] = ()) -> Iterator[Step]:
    """The leaves of an order tree in execution order, each loop body once."""
    for item in order:
        if isinstance(item, str):
            yield Step(item, loops)
        else:
            yield from walk(item.items, (*loops, item.digit))
