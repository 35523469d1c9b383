"""The operations of the fragment language on NumPy, for all threads of some blocks in lock step."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from polyfuse import dtypes
from polyfuse.affine import Affine
from polyfuse.backends.interpreter import collectives
from polyfuse.backends.interpreter.copies import Copies
from polyfuse.backends.interpreter.faults import MisalignedVector, OutOfBounds
from polyfuse.backends.interpreter.fragment import Fragment, FragmentError, Operand, as_fragment, lifted, meet, operate
from polyfuse.backends.interpreter.functions import apply, convert
from polyfuse.backends.interpreter.launch import Carries, Elections, shared_memories
from polyfuse.backends.interpreter.layouts import Pointer, Size, Tile
from polyfuse.backends.interpreter.meeting import check_meeting
from polyfuse.backends.interpreter.memory import BROKEN_SPAN, BROKEN_VECTOR, broken_spans, broken_vectors
from polyfuse.backends.interpreter.special import Array
from polyfuse.backends.interpreter.tracker import Bools, Clock, Ints
from polyfuse.codegen.language import DTYPE_NAMES
from polyfuse.dtypes import DType
from polyfuse.kernel import Kernel, carry_counters, carry_rows, carry_words
from polyfuse.scalars import FUNCTIONS, MONOIDS

WARP = 32


@dataclass(slots=True)
class Cells:
    """What all threads keep, ``(blocks, threads, *shape)``."""

    dtype: DType
    shape: tuple[int, ...]
    array: Array | None = None


@dataclass(slots=True)
class Runtime:
    """The operations of the language for some blocks in lock step."""

    kernel: Kernel
    grid: tuple[int, ...]
    blocks: Ints
    elections: Elections
    carries: Carries
    counts: dict[tuple[str, int], int]
    checks: bool
    clock: Clock = field(default_factory=Clock)
    active: Bools | None = None
    buffers: int = 0
    copies: Copies = field(default_factory=Copies)

    def __post_init__(self) -> None:
        self.copies = Copies(np.zeros((len(self.blocks), self.kernel.threads), np.int64))

    def namespace(self) -> dict[str, Any]:
        """The names that a printed module may use."""
        names: dict[str, Any] = {text: dtypes.BY_NAME[short] for short, text in DTYPE_NAMES.items()}
        names |= {f: partial(operate, f) for f in FUNCTIONS}
        for monoid in MONOIDS:
            names[f"reduce_{monoid}"] = partial(self.reduce, monoid)
            names[f"threads_{monoid}"] = partial(self.combine, monoid)
            names[f"scan_{monoid}"] = partial(self.scan, monoid)
            names[f"carry_{monoid}"] = partial(self.carry, monoid)
        own = (
            "thread block in_turn leave slots load store atomic advance shared full take constant cast bitcast scalar "
            "contract barrier warp_barrier cluster_arrive cluster_wait exchange own_cells put_cells get_cells elect "
            "inside index64 evict_last copy_async copy_cut commit_copies wait_copies load_across load_cut "
            "load_neighbours store_cut where_cut at_least at_most"
        ).split()
        names |= {n: getattr(self, n) for n in own}
        return names | {"Tile": Tile, "Size": Size, "_assign": self.assign, "_branch": self.branch}

    # ------------------------------------------------------------------------------------------ indices
    @property
    def index(self) -> DType:
        return dtypes.i64 if self.kernel.index_bits == 64 else dtypes.i32

    def thread(self, threads: int = 0, blocks: int = 1) -> Fragment:
        """Of the cluster, where one of `blocks` blocks of `threads` threads is what the kernel calls a block."""
        if blocks > 1 and threads * blocks != self.kernel.threads:
            raise FragmentError(f"{blocks} blocks of {threads} threads in a cluster of {self.kernel.threads}")
        return Fragment(np.arange(self.kernel.threads).astype(self.index.numpy).reshape(1, -1), self.index)

    def block(self, axis: int, blocks: int = 1) -> Fragment:
        number = self.blocks if axis == 0 else np.zeros_like(self.blocks)  # several axes launch as one
        return Fragment(number.astype(self.index.numpy).reshape(-1, 1), self.index)

    def in_turn(self, turns: Pointer, blocks: int) -> Fragment:
        """Blocks begin in the order of their index here."""
        if turns.memory.data.any() or blocks != math.prod(self.grid):
            raise FragmentError(f"turns for {blocks} blocks of {math.prod(self.grid)}, from {turns.memory.data}")
        return self.block(0)

    def index64(self, x: Operand) -> Fragment:
        return self.cast(x if isinstance(x, Fragment) else self.constant(x, dtypes.i64), dtypes.i64)

    def slots(self, shape: tuple[int, ...], axis: int) -> Fragment:
        lead = [1] * len(shape)
        lead[axis] = shape[axis]
        return Fragment(np.arange(shape[axis]).astype(self.index.numpy).reshape(1, 1, *lead), self.index)

    def inside(self, *conditions: Operand) -> Fragment:
        result = self.constant(True, dtypes.bool_)
        for condition in conditions:
            result = result & (as_fragment(condition, self.index) >= 0)
        return result

    # ------------------------------------------------------------------------------------------ values
    def constant(self, value: Operand, dtype: DType) -> Fragment:
        if isinstance(value, Fragment):
            raise FragmentError("constant() takes a Python number; cast() converts fragments")
        if isinstance(value, int) and dtype.is_float:
            value = float(value)
        return as_fragment(value, dtype)

    def full(self, shape: tuple[int, ...], value: Operand, dtype: DType) -> Fragment:
        base = as_fragment(value, dtype)
        (array,) = lifted([base], len(shape))
        return Fragment(np.broadcast_to(array, (*array.shape[:2], *shape)), dtype.compute)

    def take(self, x: Fragment, start: int, tile: Tile) -> Fragment:
        numbers = start + tile.offsets(())
        flat = x.array.reshape(*x.array.shape[:2], -1)
        if numbers.min() < 0 or numbers.max() >= flat.shape[2]:
            raise FragmentError(f"take: {tile} from {start} leaves a fragment of shape {x.shape}")
        return Fragment(flat[:, :, numbers.ravel()].reshape(*flat.shape[:2], *tile.shape), x.dtype)

    def cast(self, x: Fragment, dtype: DType) -> Fragment:
        return Fragment(apply("cast", [x.array], dtype), dtype.compute)

    def bitcast(self, x: Fragment, dtype: DType) -> Fragment:
        if x.dtype.itemsize != dtype.itemsize:
            raise FragmentError(f"bitcast from {x.dtype} to {dtype}: widths differ")
        return Fragment(apply("bitcast", [x.array], dtype), dtype)

    def scalar(self, x: Fragment) -> int:
        values = np.unique(x.array)
        if x.shape or values.size != 1:
            raise FragmentError("scalar() takes a 0-d fragment that is equal in all threads")
        return int(values[0])

    # ------------------------------------------------------------------------------------------ memory
    def shared(self, dtype: DType, count: int) -> Pointer:
        memory = list(shared_memories(self.kernel, len(self.blocks), self.checks).values())[self.buffers]
        self.buffers += 1
        if memory.dtype != dtype or memory.shape != (count,):
            raise FragmentError(f"shared buffer {memory.name} is {memory.dtype}{list(memory.shape)}")
        return Pointer(memory, 0, count)

    def own_cells(self, dtype: DType, shape: tuple[int, ...], threads: int) -> Cells:
        """Of every thread; nothing in them yet."""
        if threads * self.kernel.cluster != self.kernel.threads:
            raise FragmentError(f"cells of {threads} threads in a kernel of {self.kernel.threads}")
        return Cells(dtype, shape)

    def put_cells(self, cells: Cells, value: Fragment) -> None:
        if value.dtype != cells.dtype.compute or not _fits(value.shape, cells.shape):
            raise FragmentError(f"{value.dtype}{value.shape} is kept in cells of {cells.dtype}{cells.shape}")
        shape = (len(self.blocks), self.kernel.threads, *cells.shape)
        found, old = np.broadcast_to(value.array, shape), cells.array
        if cells.dtype != value.dtype:
            found = convert(found, cells.dtype)
        if self.active is not None:
            active = np.broadcast_to(self.active, shape[:2]).reshape(*shape[:2], *([1] * len(cells.shape)))
            if old is None and not active.all():
                raise FragmentError("a thread keeps nothing in its cells")
            found = found if old is None else np.where(active, found, old)
        cells.array = found

    def get_cells(self, cells: Cells) -> Fragment:
        if cells.array is None:
            raise FragmentError("cells are read before anything is kept in them")
        return Fragment(cells.array, cells.dtype.compute)

    def evict_last(self, pointer: Pointer) -> Pointer:
        return pointer

    def advance(self, pointer: Pointer, offset: Operand) -> Pointer:
        step = offset.array.astype(np.int64) if isinstance(offset, Fragment) else int(offset)
        return Pointer(pointer.memory, pointer.origin + step, pointer.copies)

    def load(
        self,
        pointer: Pointer,
        offset: Operand,
        tile: Tile,
        sizes: Sequence[int] = (),
        mask: Operand | None = None,
        other: Operand = 0,
        some: Operand | None = None,
    ) -> Fragment:
        element, used = self._elements(pointer, offset, tile, sizes, mask)
        if some is not None:
            used = used & as_fragment(some, dtypes.bool_).array.reshape((-1, 1) + (1,) * (used.ndim - 2))
        return self._loaded(pointer, element, used, other)

    def _loaded(self, pointer: Pointer, element: Ints, used: Bools, other: Operand | None) -> Fragment:
        """`other`: None for anything, of which nothing that is kept may depend."""
        compute = pointer.memory.dtype.compute
        if isinstance(other, Fragment):
            (left,) = lifted([as_fragment(other, compute)], used.ndim - 2)
            return Fragment(np.where(used, self._loaded(pointer, element, used, 0).array, left), compute)
        if other is None:  # conspicuous
            largest = 1 if compute.kind == "b" else (1 << (8 * compute.itemsize - 1)) - 1
            other = math.nan if compute.is_float else largest
        missing = float(other) if compute.is_float and isinstance(other, int) else other
        default = as_fragment(bool(missing) if compute.kind == "b" else missing, compute).array.reshape(-1)[0]
        return Fragment(pointer.memory.load(element, used, self._units(used), self.clock, default), compute)

    def store(
        self,
        pointer: Pointer,
        offset: Operand,
        tile: Tile,
        value: Operand,
        sizes: Sequence[int] = (),
        mask: Operand | None = None,
    ) -> None:
        element, used = self._elements(pointer, offset, tile, sizes, mask, whole=True)
        pointer.memory.store(element, used, self._stored(pointer, value, used), self._units(used), self.clock)

    def load_cut(
        self,
        pointer: Pointer,
        offset: Operand,
        tile: Tile,
        low: Operand,
        high: Operand,
        end: Operand = 0,
        mask: Operand | None = None,
        sizes: Sequence[int] = (),
        other: Operand | None = 0,
    ) -> Fragment:
        counted = self._counted(low, high, mask, tile.shape[-1])
        element, used = self._elements(pointer, offset, tile, sizes, counted, cut=True)
        self._check_end(pointer, end)
        return self._loaded(pointer, element, used, other)

    def _check_end(self, pointer: Pointer, end: Operand) -> None:
        if int(end.array.max() if isinstance(end, Fragment) else end) != math.prod(pointer.memory.shape):
            raise FragmentError(f"{pointer.memory.name} ends elsewhere")

    def load_across(self, pointer: Pointer, offset: Operand, tile: Tile, *bounds: Any, **options: Any) -> Fragment:
        return self.load_cut(pointer, offset, replace(tile, vector=1), *bounds, **options)

    def load_neighbours(
        self,
        pointer: Pointer,
        offset: Operand,
        tile: Tile,
        steps: Sequence[int],
        lows: Sequence[Operand],
        highs: Sequence[Operand],
        **options: Any,
    ) -> tuple[Fragment, ...]:
        ends = zip(steps, lows, highs, strict=True)
        return tuple([self.load_across(pointer, offset + step, tile, low, high, **options) for step, low, high in ends])

    def store_cut(
        self,
        pointer: Pointer,
        offset: Operand,
        tile: Tile,
        value: Operand,
        low: Operand,
        high: Operand,
        mask: Operand | None = None,
        sizes: Sequence[int] = (),
    ) -> None:
        counted = self._counted(low, high, mask, tile.shape[-1])
        element, used = self._elements(pointer, offset, tile, sizes, counted, cut=True)
        pointer.memory.store(element, used, self._stored(pointer, value, used), self._units(used), self.clock)

    def where_cut(
        self, low: Operand, high: Operand, x: Fragment, other: Operand, mask: Operand | None = None
    ) -> Fragment:
        chosen = self._counted(low, high, mask, x.shape[-1])
        condition, value, rest = lifted([chosen, x, as_fragment(other, x.dtype)], len(x.shape))
        return Fragment(np.where(condition, value, rest), x.dtype)

    def at_least(self, x: Fragment, axis: int, first: int, stop: int, value: int) -> Fragment:
        return self._known(x, axis, first, stop, value, x.array >= value)

    def at_most(self, x: Fragment, axis: int, first: int, stop: int, value: int) -> Fragment:
        return self._known(x, axis, first, stop, value, x.array <= value)

    def _known(self, x: Fragment, axis: int, first: int, stop: int, value: int, holds: Bools) -> Fragment:
        """What the compiled runtimes are told, which is checked here."""
        places = np.arange(x.shape[axis]).reshape(-1, *([1] * (len(x.shape) - 1 - axis)))
        chosen = (first <= places) & (places < stop)
        if self.checks and not np.all(holds | ~chosen):
            raise FragmentError(f"slots {first} to {stop} along axis {axis} are not what they are known to be: {value}")
        return Fragment(np.where(chosen, np.asarray(value, x.array.dtype), x.array), x.dtype)

    def _counted(self, low: Operand, high: Operand, mask: Operand | None, extent: int) -> Fragment:
        """Of vectors of `extent` the elements from `low` on and before `high`, where `mask` holds."""
        ends = [as_fragment(bound, self.index) for bound in (low, high)]
        rank = max(1, *[len(end.shape) for end in ends])
        first, last = lifted(ends, rank)
        if first.shape[-1] != 1 or last.shape[-1] != 1:
            raise FragmentError("the elements of a vector that count begin or end at several places")
        number = np.arange(extent)
        counted = Fragment((first <= number) & (number < last), dtypes.bool_)
        return counted if mask is None else counted & as_fragment(mask, dtypes.bool_)

    def atomic(
        self,
        monoid: str,
        pointer: Pointer,
        offset: Operand,
        tile: Tile,
        value: Operand,
        sizes: Sequence[int] = (),
        mask: Operand | None = None,
    ) -> None:
        element, used = self._elements(pointer, offset, tile, sizes, mask)
        stored = self._stored(pointer, value, used)
        pointer.memory.update(monoid, element, used, stored, self._units(used), self.clock)

    def copy_async(
        self,
        buffer: Pointer,
        into: Operand,
        cells: Tile,
        pointer: Pointer,
        offset: Operand,
        tile: Tile,
        sizes: Sequence[int] = (),
        mask: Operand | None = None,
    ) -> None:
        self._begin_copy(buffer, into, cells, pointer, tile, self._elements(pointer, offset, tile, sizes, mask))

    def copy_cut(
        self,
        buffer: Pointer,
        into: Operand,
        cells: Tile,
        pointer: Pointer,
        offset: Operand,
        tile: Tile,
        sizes: Sequence[int] = (),
        end: Operand = 0,
        mask: Operand | None = None,
    ) -> None:
        self._check_end(pointer, end)
        taken = self._elements(pointer, offset, tile, sizes, mask, reaches=True)
        self._begin_copy(buffer, into, cells, pointer, tile, taken)

    def _begin_copy(
        self, buffer: Pointer, into: Operand, cells: Tile, pointer: Pointer, tile: Tile, taken: tuple[Ints, Bools]
    ) -> None:
        """`taken`: elements of the array, and which of them are copied; cells of others get zeros."""
        if buffer.memory.dtype != pointer.memory.dtype or cells.shape != tile.shape:
            raise FragmentError(f"{pointer.memory.name} in {tile} does not fit {buffer.memory.name} in {cells}")
        (at, used), (element, begun) = taken, self._elements(buffer, into, cells, (), None)
        ends = (pointer.memory, buffer.memory, at, element, used, begun)
        self.copies.begin(*ends, self._units(used), self.clock)

    def commit_copies(self) -> None:
        self.copies.commit(self.active)

    def wait_copies(self, pending: int) -> None:
        self.copies.wait(pending, self.active, self.clock)

    def _stored(self, pointer: Pointer, value: Operand, used: Bools) -> Array:
        (array,) = lifted([as_fragment(value, pointer.memory.dtype.compute)], used.ndim - 2)
        try:
            return np.broadcast_to(array, used.shape)
        except ValueError as error:
            raise FragmentError(f"a value of shape {array.shape[2:]} for a tile of {used.shape[2:]}") from error

    def _units(self, used: Bools) -> Ints:
        unit = self.blocks.reshape(-1, 1) * self.kernel.threads + np.arange(self.kernel.threads)
        return np.broadcast_to(unit.reshape(*unit.shape, *([1] * (used.ndim - 2))), used.shape)

    def _elements(
        self,
        pointer: Pointer,
        offset: Operand,
        tile: Tile,
        sizes: Sequence[int],
        mask: Operand | None,
        whole: bool = False,
        cut: bool = False,
        reaches: bool = False,
    ) -> tuple[Ints, Bools]:
        """Flat elements of the memory and which of them are accessed, of shape ``(blocks, threads, *tile.shape)``.
        `whole`: spans have no gaps.  `cut`: of a vector some may be.  `reaches`: vectors that begin in an array may end
        past its end, what lies there is not accessed."""
        memory, rank = pointer.memory, len(tile.shape)
        lead = (len(self.blocks), self.kernel.threads)
        shape = (*lead, *tile.shape)
        (start,) = lifted([as_fragment(offset, self.index)], rank)
        _check_fits("an offset", start, tile)
        address = start.astype(np.int64) + tile.offsets(sizes)
        if isinstance(pointer.origin, int):
            address = address + pointer.origin
        else:
            address = address + pointer.origin.reshape(*pointer.origin.shape[:2], *([1] * rank))
        used = np.ones(shape, np.bool_)
        if self.active is not None:
            used &= self.active.reshape(*self.active.shape, *([1] * rank))
        if mask is not None:
            (chosen,) = lifted([as_fragment(mask, dtypes.bool_)], rank)
            _check_fits("a mask", chosen, tile)
            used &= chosen
        address = np.broadcast_to(address, shape)
        self._check(pointer, tile, address, used, whole, cut, reaches)
        if reaches:
            used = used & (address < math.prod(memory.shape))
        if pointer.copies:
            address = address + np.arange(len(self.blocks)).reshape(-1, *([1] * (rank + 1))) * memory.shape[0]
        return address, used

    def _check(
        self, pointer: Pointer, tile: Tile, address: Ints, used: Bools, whole: bool, cut: bool, reaches: bool
    ) -> None:
        memory = pointer.memory
        last = address // tile.vector * tile.vector if reaches else address
        bad = used & ((address < 0) | (last >= math.prod(memory.shape)))
        if bad.any():
            unit, element = int(self._units(used)[bad][0]), int(address[bad][0])
            sentence = f"element {element} of {memory.name} lies outside its {math.prod(memory.shape)} elements"
            raise memory.fault(OutOfBounds, sentence, unit, element, None)
        if tile.vector > 1 and self.checks:
            broken = broken_vectors(address, used, tile.vector, memory.dtype.itemsize, cut=cut)
            if broken.any():
                unit, element = int(self._units(used)[broken][0]), int(address[broken][0])
                raise memory.fault(MisalignedVector, BROKEN_VECTOR, unit, element, None)
        if tile.span > 1 and self.checks:
            broken = broken_spans(address, used, tile.span, tile.first, whole)
            if broken.any():
                unit, element = int(self._units(used)[broken][0]), int(address[broken][0])
                raise memory.fault(MisalignedVector, BROKEN_SPAN, unit, element, None)

    # ------------------------------------------------------------------------------------------ collectives
    def reduce(self, monoid: str, *arguments: Any) -> Fragment | tuple[Fragment, ...]:
        *values, axes = arguments
        arrays = lifted(values)
        state = collectives.reduce(monoid, arrays, [2 + a for a in axes])
        return _state(state, values)

    def combine(self, monoid: str, *arguments: Any) -> Fragment | tuple[Fragment, ...]:
        *values, bits, threads, blocks = arguments if len(arguments) == MONOIDS[monoid].state + 3 else (*arguments, 1)
        self._meet(bits, threads * blocks)
        if isinstance(values[0], tuple):  # several by themselves, at once
            found = [collectives.combine_threads(monoid, lifted([v]), bits, threads * blocks) for v in values[0]]
            return tuple(Fragment(state[0], v.dtype) for state, v in zip(found, values[0], strict=True))
        return _state(collectives.combine_threads(monoid, lifted(values), bits, threads * blocks), values)

    def scan(
        self, monoid: str, x: Fragment, axis: int | None, bits: int, threads: int, exclusive: bool, reverse: bool
    ) -> tuple[Fragment, Fragment]:
        self._meet(bits, threads)
        place = None if axis is None else 2 + axis
        prefix, total = collectives.scan(monoid, x.array, place, bits, threads, exclusive, reverse)
        return Fragment(prefix, x.dtype), Fragment(total, x.dtype)

    def leave(
        self,
        x: Fragment,
        words: Pointer,
        line: Operand,
        number: Operand,
        count: Operand,
        group: int,
        bits: int,
        threads: int,
    ) -> None:
        """See `Carries`."""
        place, own = self._in_line(x, words, line, number, count, group, bits, threads)
        self.carries.leave(words.memory, place, own, int(self.blocks[0]), x.array)

    def carry(
        self,
        monoid: str,
        x: Fragment,
        words: Pointer,
        arrived: Pointer,
        line: Operand,
        number: Operand,
        count: Operand,
        group: int,
        bits: int,
        threads: int,
    ) -> Generator[None, None, Fragment]:
        """See `Carries`; pauses until all blocks in front have left their totals."""
        place, own = self._in_line(x, words, line, number, count, group, bits, threads)
        blocks = self.scalar(as_fragment(count, self.index))
        counters = carry_counters(Affine.of(blocks), group, math.prod(x.shape)).constant
        if (place + 1) * counters > arrived.memory.data.size or arrived.memory.data.any():
            raise FragmentError(f"line {place} has not {counters} counters in {arrived.memory.name} that are zero")
        while (totals := self.carries.before(words.memory, place, own)) is None:
            yield
        return Fragment(collectives.carried(monoid, totals, x.array, bits, threads, group), x.dtype)

    def _in_line(
        self,
        x: Fragment,
        words: Pointer,
        line: Operand,
        number: Operand,
        count: Operand,
        group: int,
        bits: int,
        threads: int,
    ) -> tuple[int, int]:
        """The line and the place in it of the block."""
        self._meet(bits, threads)
        place, own, blocks = (self.scalar(as_fragment(n, self.index)) for n in (line, number, count))
        columns = carry_words(threads, bits, math.prod(x.shape), x.dtype)
        rows = carry_rows(Affine.of(blocks), group, math.prod(x.shape)).constant
        if (place + 1) * rows * columns > words.memory.data.size or not 0 <= own < blocks:
            raise FragmentError(f"block {own} of {blocks} in line {place} has no place in {words.memory.name}")
        return place, own

    def contract(self, accumulator: Fragment, x: Fragment, y: Fragment, axes: tuple[int, ...]) -> Fragment:
        meet([accumulator, x, y])
        start, left, right = lifted([accumulator, x, y])
        return Fragment(collectives.contract(start, left, right, [2 + a for a in axes]), accumulator.dtype)

    def _meet(self, bits: int, threads: int) -> None:
        if threads != self.kernel.threads:
            raise FragmentError(f"a collective operation of {threads} threads in a block of {self.kernel.threads}")
        if bits:
            self._check_meeting(threads if bits >= WARP else WARP, "a collective operation")
        if bits >= WARP:
            self.clock.barrier()

    # ------------------------------------------------------------------------------------------ structure
    def barrier(self) -> None:
        self._check_meeting(self.kernel.threads, "a barrier")
        self.clock.barrier()

    def warp_barrier(self) -> None:
        self._check_meeting(WARP, "a barrier")
        self.clock.warp_barrier()

    def cluster_arrive(self) -> None:
        """Nothing: the threads of a cluster run in lock step, and touch each other's memory in combinations only."""

    def cluster_wait(self) -> None:
        self._check_meeting(self.kernel.threads, "a barrier of the cluster")

    def exchange(
        self, values: tuple[Fragment, ...], axis: int | None, bits: int, threads: int, blocks: int
    ) -> tuple[Fragment, ...]:
        self._meet(bits, threads * blocks)
        along = None if axis is None else 2 + axis
        met = collectives.exchanged(lifted(values), along, bits, threads, threads * blocks)
        return tuple(Fragment(m, v.dtype) for m, v in zip(met, values, strict=True))

    def elect(self, counter: Pointer, group: Operand, count: Operand, blocks: int = 1) -> Fragment:
        """See `Elections`; blocks that elect run one at a time, so group and count have one value."""
        self._check_meeting(self.kernel.threads, "an election")
        place, members = self.scalar(as_fragment(group, self.index)), self.scalar(as_fragment(count, self.index))
        block, name = int(self.blocks[0]), counter.memory.name
        self.clock.barrier()
        arrived = self.elections.arrive(counter.memory, place, members, block, self.clock.phase)
        self.counts[name, place] = members
        self.clock.arrived(arrived, math.prod(self.grid))
        return self.constant(arrived is not None, dtypes.bool_)

    def branch(self, condition: Fragment) -> Iterator[None]:
        """Runs a body once with those threads active for which `condition` holds, if there are any."""
        if condition.dtype != dtypes.bool_ or math.prod(condition.shape) != 1:
            raise FragmentError("the condition of an `if` is a bool fragment of one slot")
        outer = self.active
        taken = condition.array.reshape(condition.array.shape[:2])
        inside: Bools = taken if outer is None else outer & taken
        if inside.any():
            self.active = None if inside.all() else inside
            yield
            self.active = outer

    def assign(self, names: Sequence[str], variables: Mapping[str, Any], values: Sequence[Any]) -> tuple[Any, ...]:
        """The values that `names` have after an assignment: inactive threads keep theirs, types stay."""
        return tuple(self._kept(n, variables.get(n), v) for n, v in zip(names, values, strict=True))

    def _kept(self, name: str, old: Any, new: Any) -> Any:
        if not isinstance(old, Fragment):
            return new
        if not isinstance(new, Fragment) or (new.dtype, new.shape) != (old.dtype, old.shape):
            raise FragmentError(f"{name} changes its type from {old.dtype}{old.shape}")
        if self.active is None:
            return new
        active = self.active.reshape(*self.active.shape, *([1] * len(new.shape)))
        return Fragment(np.where(active, new.array, old.array), new.dtype)

    def _check_meeting(self, together: int, what: str) -> None:
        if self.active is not None and self.checks:
            check_meeting(self.active, None, self.blocks, self.kernel.threads, together, what)


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether `shape` broadcasts to `wanted`."""
    pairs = zip(reversed(shape), reversed(wanted), strict=False)
    return len(shape) <= len(wanted) and all(n in (1, m) for n, m in pairs)


def _check_fits(what: str, array: Array, tile: Tile) -> None:
    if not _fits(array.shape[2:], tile.shape):
        raise FragmentError(f"{what} of shape {array.shape[2:]} for a tile of {tile.shape}")


def _state(state: Sequence[Array], values: Sequence[Fragment]) -> Fragment | tuple[Fragment, ...]:
    result = tuple(Fragment(s, v.dtype) for s, v in zip(state, values, strict=True))
    return result[0] if len(result) == 1 else result
