"""What prices are made of: executions, bytes, operations and registers of a schedule at given sizes."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod

from polyfuse.affine import Affine
from polyfuse.expr import IndexEntry
from polyfuse.places.products import folded_products
from polyfuse.scalars import FUNCTIONS, merge_cost, merge_steps
from polyfuse.schedule import KernelSchedule, Placed, PlaceEntry, window_index
from polyfuse.scop import Scop, Statement
from polyfuse.terms import Apply, Expr, Inside, Ref

BASE_REGISTERS = 20  # addresses, indices and temporaries of a small kernel as ptxas reports it


@dataclass(frozen=True, slots=True)
class Cost:
    """Predicted figures of one kernel.  Bytes of main memory, operations as `scalars` counts them, registers per
    thread, bytes of shared memory per block, resident blocks per processor, seconds; `bound` names the largest term."""

    bytes_read: int
    bytes_written: int
    cache_bytes: int
    flops: int
    registers: int
    shared: int
    occupancy: int
    blocks: int
    seconds: float
    bound: str

    @property
    def hbm_bytes(self) -> int:
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Operations per byte of main memory."""
        return self.flops / max(1, self.hbm_bytes)

    @property
    def picoseconds(self) -> int:
        return int(self.seconds * 1e12)


@lru_cache(maxsize=100_000)
def operations(term: Expr) -> int:
    """Operations of one evaluation of a body."""
    if not isinstance(term, Apply):
        return 0
    return FUNCTIONS[term.function].cost + sum(operations(o) for o in term.operands)


def identity(term: Expr) -> Expr:
    return term


class Sizes:
    """Extents of digits at the hinted sizes."""

    def __init__(self, schedule: KernelSchedule, hints: Mapping[str, int]) -> None:
        self.hints = hints
        self.extent = {d.name: max(1, d.extent.evaluate(hints)) for d in schedule.digits}
        self.kind = {d.name: d.kind for d in schedule.digits}
        self.atoms = {f"${name}": count for name, count in self.extent.items()}
        self.digit = {d.name: d for d in schedule.digits}
        self.loops = frozenset(n for n, kind in self.kind.items() if kind == "loop")
        self.blocks_of = frozenset(n for n, kind in self.kind.items() if kind == "block")
        self._products: dict[tuple[frozenset[str], tuple[str, ...]], int] = {}
        self._volumes: dict[tuple[Affine, ...], int] = {}
        self._positions: dict[tuple[int, tuple[PlaceEntry, ...]], Affine] = {}

    def product(self, names: frozenset[str] | set[str], kinds: tuple[str, ...] = ()) -> int:
        """Of the extents of those digits among `names` that are of one of the `kinds` (none: of any)."""
        key = (frozenset(names), kinds)
        count = self._products.get(key)
        if count is None:
            count = 1
            for name in names:
                if name in self.extent and (not kinds or self.kind[name] in kinds):
                    count *= self.extent[name]
            self._products[key] = count
        return count

    def blocks(self, placed: Placed) -> int:
        """How many run it: all, or one of those that differ in the digit that an election is held over."""
        if placed.path and placed.path[0][0] in self.blocks_of:
            return self.product(self.blocks_of - {placed.path[0][0]})
        return self.product(self.blocks_of)

    def volume(self, shape: tuple[Affine, ...]) -> int:
        """Elements of an array."""
        count = self._volumes.get(shape)
        if count is None:
            count = self._volumes[shape] = prod([max(0, extent.evaluate(self.hints)) for extent in shape])
        return count

    def position(self, scop: Scop, move: Placed) -> Affine:
        """The number of the element in its array, which lies in row-major order, along the dimensions behind any that
        data choose."""
        key = (move.value, move.place)
        found = self._positions.get(key)
        if found is None:
            found, step = Affine.of(0), 1
            for entry, extent in zip(reversed(move.place), reversed(scop.shape(move.value)), strict=True):
                if not isinstance(entry, Affine):
                    break
                found += entry * step
                step *= max(1, extent.evaluate(self.hints))
            self._positions[key] = found
        return found


def moved_bytes(scop: Scop, move: Placed, sizes: Sizes) -> int:
    return sizes.volume(scop.shape(move.value)) * scop.dtype(move.value, move.component).itemsize


MEMORY_GRANULE = 64
"""Bytes that memory moves at least: elements of a row that lie closer are all moved."""


def touched_bytes(scop: Scop, loads: Sequence[Placed], sizes: Sizes) -> int:
    """Bytes of one array that any of `loads` reads, as a box of rows: half of them for ``x[::2]``."""
    load = loads[0]
    shape = [max(0, extent.evaluate(sizes.hints)) for extent in scop.shape(load.value)]
    places = [p.place for p in loads]
    return box_of_rows(places, shape, scop.dtype(load.value, load.component).itemsize, sizes.atoms)


def box_of_rows(
    places: Sequence[Sequence[PlaceEntry | IndexEntry]],
    shape: Sequence[int],
    itemsize: int,
    extents: Mapping[str, int],
) -> int:
    """Bytes of an array of `shape` at `places`, where each atom of `extents` runs from 0; others are sizes, as one."""
    count = itemsize
    for d, whole in enumerate(shape):
        least = -(-MEMORY_GRANULE // itemsize) if d == len(shape) - 1 else 1
        count *= min(whole, _positions([place[d] for place in places], least, whole, extents))
    return count


def _positions(
    entries: Sequence[PlaceEntry | IndexEntry], least: int, whole: int, extents: Mapping[str, int]
) -> int:
    """Positions that `entries` take along a dimension of `whole` elements: of steps below `least` all in between."""
    ends, step = list[tuple[Affine, int, int]](), 0
    for entry in entries:
        if not isinstance(entry, Affine) or not all(isinstance(atom, str) for atom, _ in entry.terms):
            return whole  # data, or a division
        low = high = entry.constant
        fixed = Affine.of(0)
        for atom, factor in entry.terms:
            if isinstance(atom, str) and atom in extents:
                reach, step = factor * (extents[atom] - 1), gcd(step, factor)
                low, high = low + min(reach, 0), high + max(reach, 0)
            else:
                fixed += Affine(((atom, factor),))
        ends.append((fixed, low, high))
    fixed, first, _ = ends[0]
    if any(other != fixed for other, _, _ in ends):
        return whole  # a distance that goes with the sizes
    for _, low, _ in ends:
        step = gcd(step, low - first)
    reach = max(high for _, _, high in ends) - min(low for _, low, _ in ends)
    return reach // (step if step >= least else 1) + 1


def element_operations(statement: Statement, bodies: Sequence[Expr] | None = None) -> int:
    """Operations of one execution of a statement: its terms, and the merge of a reduction or prefix."""
    terms = statement.body if bodies is None else bodies
    return sum([operations(b) for b in terms]) + merge_cost(statement.monoid)


def placed_operations(
    scop: Scop, placed: Placed, sizes: Sizes, threads: int, body: Callable[[Expr], Expr] = identity
) -> int:
    """Operations of all executions: replicated ones cost issue slots like any other.  `body`: what of a term is
    computed."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement):
        return 0
    each = element_operations(statement, [body(b) for b in statement.body])
    used = placed.digits() | {loop for loop, _ in placed.path} if placed.path else placed.digits()
    count = sizes.product(used, ("slot", "loop")) * threads * sizes.blocks(placed)
    return each * count


ISSUED = {"divide": 16, "sqrt": 14, "exp": 10}
"""Instructions of functions of float32 that round as IEEE 754 asks for.  On an H200: three quotients and a root each
for 67 million pairs of bodies take 185 us, exponentials of 268 million differences 120."""


@lru_cache(maxsize=100_000)
def applications(term: Expr) -> int:
    """Functions applied in one evaluation of a body: at least an instruction each."""
    return 1 + sum(applications(o) for o in term.operands) if isinstance(term, Apply) else 0


@lru_cache(maxsize=100_000)
def instructions(term: Expr) -> int:
    """As `applications`, with what is known of functions that take several."""
    if not isinstance(term, Apply):
        return 0
    own = ISSUED.get(term.function, 1) if term.dtype.name == "f32" else 1
    return own + sum(instructions(o) for o in term.operands)


def element_instructions(statement: Statement, count: Callable[[Expr], int] = instructions) -> int:
    """Instructions of one execution of a statement, at least."""
    return sum([count(b) for b in statement.body]) + merge_steps(statement.monoid)


def placed_instructions(
    scop: Scop,
    placed: Placed,
    sizes: Sizes,
    threads: int,
    folded: Container[str],
    instructions_of: Callable[[Expr], int] = applications,
) -> int:
    """Instructions of all executions, at least; a multiply that a contraction absorbs is none."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement) or placed.name in folded:
        return 0
    count = sizes.product(placed.digits() | {loop for loop, _ in placed.path}, ("slot", "loop"))
    return element_instructions(statement, instructions_of) * count * threads * sizes.blocks(placed)


def box_bytes(scop: Scop, schedule: KernelSchedule) -> int:
    total = 0
    for box in schedule.shared:
        elements = 1 + sum((n - 1) * p for n, p in zip(box.extents, box.pitch, strict=True))
        total += elements * scop.dtype(box.value).compute.itemsize
    total += sum([trips * trip_bytes(scop, schedule, loop) for loop, trips in schedule.rings])
    return total + cell_bytes(scop, schedule)


def trip_bytes(scop: Scop, schedule: KernelSchedule, loop: str) -> int:
    """Shared memory of what a block loads in one trip of a loop, where every thread has cells of its own."""
    total = 0
    for load in (p for p in schedule.placed if p.role == "load" and loop in p.digits()):
        slots = prod([d.count for d in schedule.of_kind("slot") if d.name in load.digits()])
        total += slots * schedule.block_threads * scop.dtype(load.value, load.component).itemsize
    return total


def cell_bytes(scop: Scop, schedule: KernelSchedule) -> int:
    """Shared memory of a block for what waits outside of registers: the largest values, as many as do at once."""
    cells = schedule.cells
    if cells is None or not cells.at_once:
        return 0
    slots = {d.name: d.count for d in schedule.of_kind("slot")}
    found = []
    for placed in (p for p in schedule.placed if p.name in cells.values):
        others = prod(slots[name] for name in placed.digits() if name in slots and name != cells.slot)
        itemsize = scop.dtype(placed.value, placed.component).compute.itemsize
        found.append((slots[cells.slot] - cells.first) * others * itemsize * schedule.block_threads)
    return sum(sorted(found)[-cells.at_once :])


def register_need(scop: Scop, schedule: KernelSchedule, sizes: Sizes, through: Container[str] = ()) -> int:
    """The widest moment: values alive between their definition and last use, in order of the placed statements.
    `through`: those that are the registers of what they read."""
    order, seen = list(reversed(schedule.placed)), _outside_cells(schedule, sizes)
    folded = folded_products(scop, schedule)
    chained = _chained(scop, schedule, folded)
    held, last, windowed = _held_by(schedule, through), dict[str, int](), _window_words(scop, schedule, sizes)
    for k, placed in enumerate(order):
        for provider in placed.providers:
            last[provider] = last[held.get(provider, provider)] = k
    alive: dict[str, int] = {}
    words = widest = 0
    for k, placed in enumerate(order):
        if placed.role in ("load", "get", "compute") and placed.name not in folded and placed.name not in held:
            own = windowed.get(placed.name) or _words(scop, placed, seen(placed), chained.get(placed.name, frozenset()))
            if not windowed and _moves_only(scop, placed):  # the registers of what it chooses from
                sources = {held.get(provider, provider) for provider in placed.providers}
                own = min(own, sum(alive.get(source, 0) for source in sources))
                words -= sum(alive.pop(source, 0) for source in sources if last.get(source) == k)
            alive[placed.name] = own
            words += own
        widest = max(widest, words)
        for provider in placed.providers:
            for source in (provider, held.get(provider, provider)):
                if last.get(source) == k:
                    words -= alive.pop(source, 0)
    return BASE_REGISTERS + widest + _words_ahead(scop, schedule, sizes)


def _held_by(schedule: KernelSchedule, through: Container[str]) -> dict[str, str]:
    """Whose registers a placed statement is, where it has none of its own: those that are taken, or passed on."""
    found: dict[str, str] = {}
    for placed in reversed(schedule.placed):
        if placed.providers and (placed.role == "take" or placed.name in through):
            found[placed.name] = found.get(placed.providers[0], placed.providers[0])
    return found


def _moves_only(scop: Scop, placed: Placed) -> bool:
    """Whether a statement computes nothing: its results are values that it reads, in other places or by regions."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement):
        return False
    return not statement.is_reduction and statement.scanned is None and all(map(_chooses, statement.body))


@lru_cache(maxsize=100_000)
def _chooses(term: Expr) -> bool:
    if not isinstance(term, Apply):
        return isinstance(term, Ref)
    by_region = term.function == "where" and isinstance(term.operands[0], Inside)
    return by_region and all(map(_chooses, term.operands[1:]))


def _chained(scop: Scop, schedule: KernelSchedule, folded: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Values that are computed for one product of a chain of multiply-adds, which takes them one by one: the slots that
    it sums over."""
    by_name, readers = schedule.by_name(), dict[str, set[str]]()
    for placed in schedule.placed:
        for provider in placed.providers:
            readers.setdefault(provider, set()).add(placed.name)
    found = dict[str, frozenset[str]]()
    for product, chain in folded.items():
        over = frozenset(name[1:] for name in _summed(scop, by_name[chain]))
        for provider in by_name[product].providers:
            if by_name[provider].role == "compute" and readers[provider] == {product}:
                found[provider] = over
    return found


def _outside_cells(schedule: KernelSchedule, sizes: Sizes) -> Callable[[Placed], Sizes]:
    """The sizes that the registers of a placed statement see: what waits in cells passes through a few at a time, and
    where a kernel runs in pieces, so does all that nothing holds while threads combine."""
    cells = schedule.cells
    if cells is None:
        return lambda _: sizes
    held, passing = Sizes(schedule, sizes.hints), Sizes(schedule, sizes.hints)
    held.extent[cells.slot] = cells.first
    passing.extent[cells.slot] = min(cells.piece or cells.first, cells.first)
    waiting = frozenset(cells.values)
    return lambda placed: held if placed.name in waiting else passing


def _words_ahead(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> int:
    """Registers for what is loaded a trip before it is used."""
    early = [p for p in schedule.placed if p.role == "load" and p.digits() & set(schedule.ahead)]
    return sum([_words(scop, p, sizes) for p in early])


def least_registers(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> int:
    """What a compiler can reach that is told to: a result takes the registers of the operands that it is the last to
    read, slot by slot, and what only enters sums is added up as it comes.  (Softmax of 32 words a thread: 80 as it
    likes, 64 where the launch bounds ask for it.)"""
    return max([words for words, _ in moments(scop, schedule, sizes)], default=BASE_REGISTERS)


def moments(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> list[tuple[int, Placed]]:
    """The least registers at every placed statement, in order."""
    folded, seen = folded_products(scop, schedule), _outside_cells(schedule, sizes)
    order = _with_readers(schedule) if schedule.cells and schedule.cells.piece else list(reversed(schedule.placed))
    last = {provider: k for k, placed in enumerate(order) for provider in placed.providers}
    whole = {provider for placed in order if not _sums(scop, placed) for provider in placed.providers}
    always = BASE_REGISTERS + _words_ahead(scop, schedule, sizes)
    alive: dict[str, int] = {}
    words, found = 0, list[tuple[int, Placed]]()
    for k, placed in enumerate(order):
        for provider in placed.providers:
            if last[provider] == k:
                words -= alive.pop(provider, 0)
        if placed.role in ("load", "get", "compute") and placed.name not in folded:
            kept = placed.role != "compute" or placed.name in whole
            words -= alive.get(placed.name, 0)
            alive[placed.name] = own = _words(scop, placed, seen(placed)) if kept else 1
            words += own
        found.append((always + words, placed))
    return found


def _with_readers(schedule: KernelSchedule) -> list[Placed]:
    """The placed statements of a kernel that runs in pieces, in order, its loads in front of their first readers."""
    by_name, order = schedule.by_name(), list[Placed]()
    for placed in reversed(schedule.placed):
        if placed.role != "load":
            order += [p for p in map(by_name.__getitem__, placed.providers) if p.role == "load" and p not in order]
            order.append(placed)
    return order


def _sums(scop: Scop, placed: Placed) -> bool:
    statement = scop.statements[placed.value]
    return placed.role == "compute" and isinstance(statement, Statement) and statement.is_reduction


def _window_words(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> dict[str, int]:
    """32-bit registers of values in a kernel with windows, which the compiler walks row by row: of a window the rows
    that one row of results reaches and one ahead, of what is computed the row at hand.

    Two Jacobi steps in windows of 12 x 8 and 10 x 6: 96 registers (ptxas), where all windows whole would be 236.
    """
    by_name, slots = schedule.by_name(), {d.name: d.count for d in schedule.of_kind("slot")}
    takers = [p for p in schedule.placed if p.role == "take"]
    summed = frozenset().union(*[_summed(scop, p) for p in schedule.placed]) if takers else frozenset()
    held: dict[str, list[tuple[int, int, int]]] = {}  # per dimension: first and last number taken, and those at once
    for taker in takers:
        (holder,) = taker.providers
        index = window_index(by_name[holder], taker, slots)
        found = held.setdefault(holder, [(at.constant, at.constant, 0) for _, at in index])
        for d, (_, at) in enumerate(index):
            steps = [(name, factor * (slots[name[1:]] - 1)) for name, factor in at.terms if isinstance(name, str)]
            low = at.constant + sum(min(s, 0) for _, s in steps)
            high = at.constant + sum(max(s, 0) for _, s in steps)
            along = sum(abs(s) for name, s in steps if name not in summed)  # results; a sum takes them together
            found[d] = (min(found[d][0], low), max(found[d][1], high), max(found[d][2], along))
    words: dict[str, int] = {}
    for placed in schedule.placed if takers else ():
        each = max(1, scop.dtype(placed.value, placed.component).compute.itemsize // 4)
        if placed.name in held:
            spans = [(high - low + 1, high - low + 1 - run) for low, high, run in held[placed.name]]
            outer = next((d for d, (_, _, run) in enumerate(held[placed.name]) if run), 0)
            words[placed.name] = each * prod([min(n, r + 1) if d == outer else n for d, (n, r) in enumerate(spans)])
        elif placed.role == "compute":
            words[placed.name] = max(1, _words(scop, placed, sizes) // _outermost(placed, slots))
    return words


def _summed(scop: Scop, placed: Placed) -> frozenset[str]:
    """The digits, as ``$name``, that a placed reduction sums over."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement) or not statement.is_reduction:
        return frozenset()
    return frozenset().union(*[_names(placed.place[d]) for d in statement.reduced])


def _outermost(placed: Placed, slots: Mapping[str, int]) -> int:
    """The extent of the slots along the first dimension that has some."""
    for entry in placed.place:
        counts = [slots[n[1:]] for n in _names(entry) if n[1:] in slots]
        if counts:
            return prod(counts)
    return 1


def _words(scop: Scop, placed: Placed, sizes: Sizes, without: frozenset[str] = frozenset()) -> int:
    """32-bit registers of one value: its slots, without those a reduction sums over."""
    used = placed.digits() - {name[1:] for name in _summed(scop, placed)} - without
    words = max(1, scop.dtype(placed.value, placed.component).compute.itemsize // 4)
    return sizes.product(used, ("slot",)) * words


def _names(entry: object) -> frozenset[str]:
    return entry.names() if isinstance(entry, Affine) else frozenset()
