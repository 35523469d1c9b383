"""What prices are made of: executions, bytes and operations of a schedule at given sizes."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from sys import maxsize

from polyfuse.affine import Affine, Atom
from polyfuse.dtypes import DType
from polyfuse.places.narrow_cells import as_in_memory
from polyfuse.scalars import FUNCTIONS, merge_cost, merge_steps
from polyfuse.schedule import KernelSchedule, Placed, PlaceEntry
from polyfuse.scop import ReadEntry, Scop, Statement
from polyfuse.terms import Apply, Const, Expr, is_count
from polyfuse.unravelled import Unravelled


@dataclass(frozen=True, slots=True)
class Cost:
    """Predicted figures of one kernel.  Bytes of main memory, operations as `scalars` counts them, registers per
    thread, bytes of shared memory per block, resident blocks per processor, seconds; `bound` names the largest term;
    `evict_last`: its loads are to stay in the last-level cache longer than its stores."""

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
    evict_last: bool = False

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
        self._blocks = prod([self.extent[name] for name in self.blocks_of])
        self._products: dict[tuple[frozenset[str], tuple[str, ...]], int] = {}
        self._volumes: dict[tuple[Affine, ...], int] = {}
        self._positions: dict[tuple[int, tuple[PlaceEntry, ...]], Affine] = {}
        self.vectors: dict[tuple[int, tuple[PlaceEntry, ...]], tuple[str, int]] = {}  # what `polyfuse.cost.l1` found

    @staticmethod
    def of(schedule: KernelSchedule, hints: Mapping[str, int]) -> Sizes:
        """Those of a schedule, which prices and what goes before them share."""
        return schedule.figure(("sizes", tuple(hints.items())), lambda: Sizes(schedule, hints))

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
        return self._blocks

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
            terms, constant, step = dict[Atom, int](), 0, 1
            for entry, extent in zip(reversed(move.place), reversed(scop.shape(move.value)), strict=True):
                if not isinstance(entry, Affine):
                    break
                for atom, factor in entry.terms:
                    terms[atom] = terms.get(atom, 0) + factor * step
                constant += entry.constant * step
                step *= max(1, extent.evaluate(self.hints))
            found = self._positions[key] = Affine.build(terms, constant)
        return found


def looked_up(schedule: KernelSchedule, move: Placed) -> frozenset[str]:
    """The digits on which the positions of a gather depend: each has an index of its own."""
    names = [entry for entry in move.place if isinstance(entry, str)]
    return frozenset[str]().union(*[schedule.by_name()[name].digits() for name in names]) if names else _NONE


def moved_bytes(scop: Scop, move: Placed, sizes: Sizes) -> int:
    return sizes.volume(scop.shape(move.value)) * scop.dtype(move.value, move.component).itemsize


MEMORY_GRANULE = 64
"""Bytes that memory moves at least.  On an H200, of 576 MB of float32 in rows of n elements, one of each: n = 8, 12 and
16 take 141 to 161 us, as the whole does, 20 120, 24 100, 32 88, 48 61, 64 53."""


def touched_bytes(scop: Scop, loads: Sequence[Placed], sizes: Sizes) -> int:
    """Bytes of one array that any of `loads` reads, as a box of rows: half of them for ``x[::2]``."""
    load = loads[0]
    shape = [max(0, extent.evaluate(sizes.hints)) for extent in scop.shape(load.value)]
    extents = dict(sizes.atoms)
    places = [[_walked(e, d, shape[d], sizes, extents) for d, e in enumerate(p.place)] for p in loads]
    itemsize = scop.dtype(load.value, load.component).itemsize
    return min(box_of_rows(places, shape, itemsize, extents), _of_points(places, itemsize, extents))


def _of_points(places: Sequence[Sequence[PlaceEntry]], itemsize: int, extents: Mapping[str, int]) -> int:
    """Bytes that memory moves of all points at `places`, each by itself: a diagonal has few in its box."""
    if not all(isinstance(entry, Affine) for place in places for entry in place):
        return maxsize
    atoms = {frozenset[str]().union(*[e.names() for e in place if isinstance(e, Affine)]) for place in places}
    different = len({tuple(place) for place in places})
    points = max(prod([extents.get(atom, 1) for atom in used]) for used in atoms)
    return different * points * max(itemsize, MEMORY_GRANULE)


def _walked(entry: PlaceEntry, d: int, whole: int, sizes: Sizes, extents: dict[str, int]) -> PlaceEntry:
    """Where a flat walk goes along a dimension of an array, as a digit of its own, the count of which is added to
    `extents`."""
    if not isinstance(entry, Unravelled) or entry.is_plain:
        return entry
    rows = entry.extent if entry.in_row else entry.rows
    extents[f"${d}~"] = rows.evaluate(sizes.hints) if rows is not None else -(-whole // abs(entry.step))
    return entry.step * Affine.symbol(f"${d}~") + entry.first


def box_of_rows(
    places: Sequence[Sequence[PlaceEntry | ReadEntry]],
    shape: Sequence[int],
    itemsize: int,
    extents: Mapping[str, int],
) -> int:
    """Bytes that memory moves of an array of `shape` for what is at `places`, where each atom of `extents` runs from 0;
    others are sizes, as one.

    x[:, 3] of rows of 12 float32: all of them; of 32: half of them
    """
    used, size = itemsize, itemsize  # bytes moved of one index of the dimensions behind, and of all of it
    for d in range(len(shape) - 1, -1, -1):
        first, count, step = _positions([place[d] for place in places], shape[d], extents)
        if used < size:
            used *= count
        elif step > 1:
            used = count * _granules(first * size, size, step * size)
        else:
            used = _granules(first * size, count * size, shape[d] * size)
        size *= shape[d]
        used = min(used, size)
    return used


def _granules(start: int, size: int, pitch: int) -> int:
    """Bytes that memory moves for a piece of `size` bytes at `start` in every row of `pitch` bytes, on average; as many
    as there are where other rows use the rest."""
    if size >= pitch:
        return pitch
    step = gcd(pitch, MEMORY_GRANULE)
    starts = [(start + k) % MEMORY_GRANULE for k in range(0, MEMORY_GRANULE, step)]
    moved = sum([-(-(first + size) // MEMORY_GRANULE) for first in starts]) * MEMORY_GRANULE // len(starts)
    return min(pitch, moved)


def _positions(
    entries: Sequence[PlaceEntry | ReadEntry], whole: int, extents: Mapping[str, int]
) -> tuple[int, int, int]:
    """(first, number, step) of the positions that `entries` take along a dimension of `whole` elements."""
    ends, step = list[tuple[Affine, int, int]](), 0
    for entry in entries:
        if not isinstance(entry, Affine) or any(_divides(atom, extents) for atom, _ in entry.terms):
            return 0, whole, 1  # data, or a division
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
        return 0, whole, 1  # a distance that goes with the sizes
    for _, low, _ in ends:
        step = gcd(step, low - first)
    first = min(low for _, low, _ in ends)
    reach = max(high for _, _, high in ends) - first
    step = max(1, step)
    return max(0, first), min(whole, reach // step + 1), step


def _divides(atom: Atom, extents: Mapping[str, int]) -> bool:
    """Whether a term divides what runs; a quotient of sizes is one number."""
    return not isinstance(atom, str) and not extents.keys().isdisjoint(atom.numerator.names())


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


ISSUED: dict[str, dict[str, int]] = {
    "f32": {
        **{"divide": 16, "sqrt": 14, "exp": 10, "sign": 13, "remainder": 40, "fmod": 38, "floor_divide": 105},
        **{"floor": 3, "ceil": 3, "trunc": 3, "rint": 3, "exp2": 3, "expm1": 35, "log": 32, "log2": 34, "log10": 32},
        **{"log1p": 45, "sin": 22, "cos": 24, "tan": 48, "arcsin": 28, "arccos": 28, "arctan": 25, "arctan2": 43},
        **{"sinh": 32, "cosh": 26, "tanh": 25, "arcsinh": 56, "arccosh": 66, "arctanh": 56, "cbrt": 17, "hypot": 30},
        **{"erf": 30, "erfc": 40, "power": 90, "lgamma": 90, "tgamma": 90},
    },
    "f64": {
        **{"divide": 20, "sqrt": 26, "exp": 26, "expm1": 80, "exp2": 26, "log": 155, "log2": 155, "log10": 155},
        **{"log1p": 145, "sin": 58, "cos": 58, "tan": 110, "arcsin": 160, "arccos": 160, "arctan": 160, "arctan2": 180},
        **{"sinh": 90, "cosh": 80, "tanh": 96, "arcsinh": 200, "arccosh": 200, "arctanh": 180, "cbrt": 61},
        **{"hypot": 60, "erf": 90, "erfc": 120, "power": 215, "lgamma": 300, "tgamma": 300},
    },
    "i32": {"floor_divide": 45, "remainder": 45},
    "i64": {"floor_divide": 32, "remainder": 32},
}
"""Instructions of functions, per dtype, in those of float32 that a processor begins in the same time.  On an H100: of
4 and 16 of each of 34 million float32, and 8 of 17 million float64 (benchmarks/results/functions_h100.json); arccos,
arctanh, erf, the gamma functions, and those of float64 that were not measured, are as their like; integers by arrays.
Those of float64 are the differences of 4 and 12 values of as many elements on an H200, absolute values of normal ones,
of which a warp has both sides of every branch: logarithms of elements between 0.3 and 2.8 take 84.
Three quotients and a root each for 67 million pairs of bodies take an H200 185 us, exponentials of 268 million
differences 120."""
BY_CONSTANT = {1: 5, 2: 5, 4: 5, 8: 21}
"""The same of a quotient of integers by a constant, by their bytes."""
APPROXIMATED = 3
"""Of how many instructions a function takes one where its result is rounded to 16 bits, so that approximations do: what
rows in frames take was fitted as if each were one, and softmax of rows of 777 bfloat16, 144 us on an H200, was to take
168 with half of them, 144 with a third."""
POWER_OF_CONSTANT = 20
"""Of a constant, whose logarithm is one as well: 60 million elements rounded to powers of two take an H100 164 us."""


@lru_cache(maxsize=100_000)
def applications(term: Expr) -> int:
    """Functions applied in one evaluation of a body: at least an instruction each, but for what is computed once."""
    if not isinstance(term, Apply) or is_count(term):
        return 0
    return 1 + sum(applications(o) for o in term.operands)


@lru_cache(maxsize=100_000)
def instructions(term: Expr) -> int:
    """As `applications`, with what is known of functions that take several."""
    if not isinstance(term, Apply) or is_count(term):
        return 0
    return _issued(term) + sum(instructions(o) for o in term.operands)


def of_function(function: str, dtype: DType) -> int:
    """Instructions of one application that gives a result of `dtype`, whatever its operands."""
    return ISSUED.get(dtype.compute.name, {}).get(function, 1)


def _issued(term: Apply) -> int:
    """Of the function itself; integers are divided by constants in products, and by powers of two in shifts."""
    first, last = term.operands[0], term.operands[-1]
    if term.function in ("floor_divide", "remainder") and isinstance(last, Const) and not term.dtype.is_float:
        shifts = int(last.value) & (int(last.value) - 1) == 0
        return 1 if shifts else BY_CONSTANT[term.dtype.itemsize]
    if term.function == "power" and isinstance(first, Const):
        return POWER_OF_CONSTANT
    each = of_function(term.function, term.dtype)
    return each if term.dtype.compute is term.dtype else max(1, each // APPROXIMATED)


HALF = frozenset(("minimum", "maximum", "fmin", "fmax"))
"""Functions of which a processor begins half as many in a cycle as of sums and products, by the throughputs of CUDA's
programming guide for compute capability 9.0.  On an H200, medians of nine neighbours by 19 exchanges: of 64 million
float32 183 us, of which 164 are minima and maxima at that rate, of 256 million bytes 739 of 656; they were to take 140
and 360.  Comparisons are left out: ptxas does bits of bytes in fewer instructions than they have functions."""


@lru_cache(maxsize=100_000)
def half_rate(term: Expr) -> int:
    """Of the functions that one evaluation of a body applies, those of `HALF`."""
    if not isinstance(term, Apply):
        return 0
    return (term.function in HALF) + sum([half_rate(o) for o in term.operands])


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


def placed_at_half_rate(
    scop: Scop, placed: Placed, sizes: Sizes, threads: int, body: Callable[[Expr], Expr] = identity
) -> int:
    """Of all executions the functions of `HALF`, without what merges a reduction: that is in the figures of rows."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement):
        return 0
    each = sum([half_rate(body(b)) for b in statement.body])
    if not each:
        return 0
    count = sizes.product(placed.digits() | {loop for loop, _ in placed.path}, ("slot", "loop"))
    return each * count * threads * sizes.blocks(placed)


def box_bytes(scop: Scop, schedule: KernelSchedule) -> int:
    total = 0
    for box in schedule.shared:
        elements = 1 + sum((n - 1) * p for n, p in zip(box.shape, box.pitch, strict=True))
        total += elements * box.cells(scop.dtype(box.value)).itemsize
    total += sum([trips * trip_bytes(scop, schedule, loop) for loop, trips in schedule.rings])
    return total + cell_bytes(scop, schedule) + _mail_bytes(scop, schedule)


def reduces(scop: Scop, placed: Placed) -> bool:
    """Whether a placed statement computes a reduction."""
    statement = scop.statements[placed.value]
    return placed.role == "compute" and isinstance(statement, Statement) and statement.is_reduction


_NONE = frozenset[str]()


def summed_digits(scop: Scop, placed: Placed) -> frozenset[str]:
    """The digits that a placed reduction sums over; none for other statements."""
    return _NONE if placed.role != "compute" else placed.summed(lambda: _summed(scop, placed))


def _summed(scop: Scop, placed: Placed) -> frozenset[str]:
    statement = scop.statements[placed.value]
    if not isinstance(statement, Statement) or not statement.is_reduction:
        return _NONE
    entries = [e for d in statement.reduced if isinstance(e := placed.place[d], Affine)]
    return frozenset([name[1:] for e in entries for name in e.steps() if name.startswith("$")])


def _mail_bytes(scop: Scop, schedule: KernelSchedule) -> int:
    """Shared memory into which the blocks of a cluster push partial results, at least: of every thread that holds other
    ones than its neighbours, from each block."""
    total, threads = 0, schedule.block_threads
    for placed in schedule.placed if schedule.cluster > 1 else ():
        statement, over = scop.statements[placed.value], summed_digits(scop, placed)
        bits = sum([(d.count - 1) * d.stride for d in schedule.of_kind("thread") if d.name in over])
        peers, members = 1 << (bits // threads).bit_count(), 1 << (bits % threads).bit_count()
        if peers > 1:
            total += peers * (threads // members) * sum(d.compute.itemsize for d in statement.dtypes)
    return total


def trip_bytes(scop: Scop, schedule: KernelSchedule, loop: str) -> int:
    """Shared memory of what a block loads in one trip of a loop, where every thread has cells of its own."""
    total = 0
    for load in (p for p in schedule.placed if p.role == "load" and loop in p.digits()):
        slots = prod([d.count for d in schedule.of_kind("slot") if d.name in load.digits()])
        total += slots * schedule.block_threads * scop.dtype(load.value, load.component).itemsize
    return total


def cell_bytes(scop: Scop, schedule: KernelSchedule) -> int:
    """Shared memory of a block for what waits outside of registers."""
    cells, total = schedule.cells, 0
    if cells is None:
        return 0
    slots, by_name = {d.name: d.count for d in schedule.of_kind("slot")}, schedule.by_name()
    narrow = as_in_memory(scop, schedule)
    for placed in (by_name[name] for name in cells.kinds):
        others = prod(slots[name] for name in placed.digits() if name in slots and name != cells.slot)
        dtype = narrow.get(placed.name, scop.dtype(placed.value, placed.component).compute)
        total += (slots[cells.slot] - cells.first) * others * dtype.itemsize * schedule.block_threads
    return total
