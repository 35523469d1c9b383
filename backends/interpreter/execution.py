"""The operations of kernel IR on NumPy, for all threads of some blocks in lock step.

A value is an array ``(blocks, threads, *slots)`` in which any extent may be 1.  Threads that do not take a branch are
masked; barriers and collective operations check that a whole block (or warp) takes part.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np

from polyfuse.affine import Affine
from polyfuse.backends.interpreter import collectives
from polyfuse.backends.interpreter.copies import Copies
from polyfuse.backends.interpreter.faults import (
    KernelFault,
    MisalignedVector,
    OutOfBounds,
    UnknownCondition,
    Witness,
)
from polyfuse.backends.interpreter.functions import apply
from polyfuse.backends.interpreter.launch import Carries, Elections, shared_memories
from polyfuse.backends.interpreter.meeting import check_meeting
from polyfuse.backends.interpreter.memory import (
    BROKEN_SPAN,
    BROKEN_VECTOR,
    Memory,
    broken_spans,
    broken_vectors,
    element_of,
)
from polyfuse.backends.interpreter.special import Array
from polyfuse.backends.interpreter.tracker import Bools, Clock, Ints
from polyfuse.codegen.strides import element_strides
from polyfuse.dtypes import DType
from polyfuse.kernel import (
    Apply,
    ArrayParameter,
    AsyncCopy,
    AtomicUpdate,
    Barrier,
    Carry,
    Combine,
    CommitCopies,
    Const,
    Contract,
    Elect,
    Exchange,
    Expr,
    For,
    If,
    Index,
    Inside,
    Keep,
    Kept,
    Kernel,
    Leave,
    Let,
    Load,
    Neighbours,
    Op,
    Reduce,
    Ref,
    Scan,
    SharedBuffer,
    Store,
    Take,
    WaitCopies,
)
from polyfuse.kernel_types import memories

WARP = 32
Steps = Generator[None, None, None]


@dataclass(slots=True)
class Execution:
    """Some blocks in lock step.  `first`: the block of the launch from which on the kernel's own `blocks` count;
    `launched`: how many the launch has."""

    kernel: Kernel
    sizes: Mapping[str, int]
    grid: tuple[int, ...]
    blocks: Ints
    memory: dict[str, Memory]
    values: dict[str, Array]
    elections: Elections
    carries: Carries
    counts: dict[tuple[str, int], int]
    checks: bool
    first: int
    launched: int
    clock: Clock = field(default_factory=Clock)
    digits: dict[str, Any] = field(default_factory=dict)
    affines: dict[Affine, Array] = field(default_factory=dict)
    loops: set[str] = field(default_factory=set)
    buffers: dict[str, ArrayParameter | SharedBuffer] = field(default_factory=dict)
    unit: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    copies: Copies = field(default_factory=Copies)

    def run(self) -> Steps:
        """Executes the kernel; pauses wherever another block may run."""
        kernel, rank = self.kernel, len(self.kernel.slots)
        self.buffers = memories(kernel)
        self.memory = self.memory | shared_memories(kernel, len(self.blocks), self.checks)
        self.digits = dict(self.sizes)
        rest = self.blocks.reshape(-1, 1, *([1] * rank))
        for axis, extent in enumerate(self.grid):
            self.digits[f"$b{axis}"] = rest % extent
            rest = rest // extent
        thread = np.arange(kernel.threads, dtype=np.int64).reshape(1, -1, *([1] * rank))
        self.digits["$t"] = thread
        self.unit = (self.first + self.blocks).reshape(-1, 1, *([1] * rank)) * kernel.threads + thread
        for digit in kernel.digits:
            self.digits[f"${digit.name}"] = thread // digit.stride % digit.extent
        for axis, slot in enumerate(kernel.slots):
            shape = [1] * (2 + rank)
            shape[2 + axis] = slot.extent
            self.digits[f"${slot.name}"] = np.arange(slot.extent, dtype=np.int64).reshape(shape)
        self.copies = Copies(np.zeros((len(self.blocks), kernel.threads), np.int64))
        yield from self._block(kernel.body, None)

    # ------------------------------------------------------------------------------------------ operations
    def _block(self, body: Sequence[Op], active: Bools | None) -> Steps:
        for op in body:
            yield from self._step(op, active)

    def _step(self, op: Op, active: Bools | None) -> Steps:
        match op:
            case Let(name, value):
                self._bind(name, self._value(value), active)
            case Load():
                self._bind(op.name, self._load(op, active), active)
            case Neighbours(loads):
                yield from self._block(loads, active)
            case Take():
                self._bind(op.name, self._take(op), active)
            case Store() | AtomicUpdate():
                self._store(op, active)
            case Keep(cells, value):
                self._bind(f"{cells}[]", self._value(value), active)
            case Kept(name, cells):
                self._bind(name, self.values[f"{cells}[]"], active)
            case Reduce(names, monoid, values, slots):
                operands = [self._over(self._value(v), slots) for v in values]
                state = collectives.reduce(monoid, operands, self._axes(slots))
                for name, result in zip(names, state, strict=True):
                    self._bind(name, result, active)
            case Contract():
                self._bind(op.name, self._contract(op), active)
            case Combine(names, monoid, values, bits):
                self._gather_threads(bits, active)
                operands = [self._value(v) for v in values]
                for name, result in zip(
                    names, collectives.combine_threads(monoid, operands, bits, self.kernel.threads), strict=True
                ):
                    self._bind(name, result, active)
            case Exchange(names, values, bits, slot):
                self._gather_threads(bits, active)
                operands = [self._value(v) for v in values]
                kernel, axis = self.kernel, self._axes((slot,))[0] if slot else None
                met = collectives.exchanged(operands, axis, bits, kernel.block_threads, kernel.threads)
                for name, result in zip(names, met, strict=True):
                    self._bind(name, result, active)
            case Scan():
                self._scan(op, active)
            case Leave():
                self._leave(op, active)
            case Carry():
                yield from self._carry(op, active)
            case For():
                yield from self._loop(op, active)
            case If():
                yield from self._branch(op, active)
            case Barrier(scope):
                self._meet(active, self.kernel.threads if scope == "block" else WARP, "a barrier")
                self.clock.barrier() if scope == "block" else self.clock.warp_barrier()
                yield
            case Elect():
                yield
                self._elect(op, active)
            case AsyncCopy():
                self._copy(op, active)
            case CommitCopies():
                self.copies.commit(active)
            case WaitCopies(pending):
                self.copies.wait(pending, active, self.clock)
            case _:
                assert_never(op)

    def _bind(self, name: str, value: Array, active: Bools | None) -> None:
        """Binds `name`; threads that are not active keep what they had."""
        if active is not None and name in self.values:
            value = np.where(active, value, self.values[name])
        self.values[name] = value

    def _loop(self, op: For, active: Bools | None) -> Steps:
        digit, body, trips = f"${op.digit}", op.body, self._affine(op.extent)
        trips = trips if op.until is None else np.minimum(trips, self._affine(op.until))
        varies = trips.min() != trips.max()
        self.loops.add(digit)
        for k in range(int(trips.max())):
            self.digits[digit] = k
            inside = (k < trips) if active is None else active & (k < trips)
            yield from self._block(body, inside if varies else active)
        self.loops.discard(digit)

    def _branch(self, op: If, active: Bools | None) -> Steps:
        condition = self._value(op.condition)
        for taken, body in ((condition, op.body), (~condition, op.orelse)):
            inside: Bools = taken if active is None else taken & active
            if not body or not inside.any():
                continue
            if op.uniform and self.checks:
                self._meet(inside, self.kernel.threads, "a branch declared uniform", active)
            yield from self._block(body, None if inside.all() else inside)

    def _take(self, op: Take) -> Array:
        """Per slot axis of the value the number read there; an axis along which it is constant has number 0 only."""
        value, slots = self._value(op.value), self.kernel.slots
        axes = {s.name: 2 + k for k, s in enumerate(slots)}
        extents = {s.name: s.extent for s in slots}
        numbers = [np.arange(n).reshape([1] * k + [n] + [1] * (value.ndim - k - 1)) for k, n in enumerate(value.shape)]
        for counted, at in op.index:
            rest = self._affine(at)
            for slot in reversed(counted):
                if value.shape[axes[slot]] > 1:
                    numbers[axes[slot]] = rest % extents[slot]
                rest = rest // extents[slot]
        taken: Array = value[tuple(np.broadcast_arrays(*numbers))]
        return taken

    def _contract(self, op: Contract) -> Array:
        left, right = self._over(self._value(op.left), op.slots), self._value(op.right)
        return collectives.contract(self.values[op.name], left, right, self._axes(op.slots))

    def _scan(self, op: Scan, active: Bools | None) -> None:
        self._gather_threads(op.bits, active)
        slots = (op.slot,) if op.slot else ()
        value = self._over(self._value(op.value), slots)
        axis = self._axes(slots)[0] if op.slot else None
        prefix, total = collectives.scan(
            op.monoid, value, axis, op.bits, self.kernel.threads, op.exclusive, op.reverse
        )
        self._bind(op.name, prefix, active)
        self._bind(op.total, total, active)

    def _leave(self, op: Leave, active: Bools | None) -> None:
        self._gather_threads(op.bits, active)
        line, number = self._at(op.words, op.line), int(self._affine(op.number).max())
        block = self.first + int(self.blocks[0])
        self.carries.leave(self.memory[op.words], line, number, block, self._value(op.value))

    def _carry(self, op: Carry, active: Bools | None) -> Steps:
        """Of one block, as where blocks elect: it waits for the totals of those in front."""
        self._gather_threads(op.bits, active)
        words, like = self.memory[op.words], self._value(op.value)
        line, number = self._at(op.words, op.line), int(self._affine(op.number).max())
        while (totals := self.carries.before(words, line, number)) is None:
            yield
        before = collectives.carried(op.monoid, totals, like, op.bits, self.kernel.threads, op.group)
        self._bind(op.name, before, active)

    def _elect(self, op: Elect, active: Bools | None) -> None:
        """One arrival of this block; election mode runs one block at a time, so values are 0-d here."""
        self._meet(active, self.kernel.threads, "an election")
        block, counter = self.first + int(self.blocks[0]), self.memory[op.counter]
        group, count = self._at(op.counter, op.group), int(self._affine(op.count).max())
        self.clock.barrier()
        members = self.elections.arrive(counter, group, count, block, self.clock.phase)
        self.counts[counter.name, group] = count
        self.clock.arrived(members, self.launched)
        shape = (1,) * (2 + len(self.kernel.slots))
        self._bind(op.name, np.full(shape, members is not None), active)

    # ------------------------------------------------------------------------------------------ memory
    def _load(self, op: Load, active: Bools | None) -> Array:
        entries, used = self._indices(op.array, op.index, (*op.where, *op.some), op.mask, active)
        if op.vector > 1 and not op.across and self.checks:
            self._check_vectors(op.array, op.vector, entries, used, op.cut)
        if op.span > 1 and self.checks:
            self._check_spans(op, entries, used)
        other = op.other.value if op.other is not None else None if op.cut or op.across else 0
        element = self._element(op.array, entries, used)
        found = self.memory[op.array].load(element, used, self._units(used), self.clock, other)
        return found if op.instead is None else np.where(used, found, self._value(op.instead))

    def _store(self, op: Store | AtomicUpdate, active: Bools | None) -> None:
        value = self._value(op.value)
        entries, used = self._indices(op.array, op.index, op.where, op.mask, active, value)
        if op.vector > 1 and self.checks:
            self._check_vectors(op.array, op.vector, entries, used, isinstance(op, Store) and op.cut)
        if isinstance(op, Store) and op.span > 1 and self.checks:
            self._check_spans(op, entries, used)
        element = self._element(op.array, entries, used)
        memory, units = self.memory[op.array], self._units(used)
        value = np.broadcast_to(value, used.shape)
        if isinstance(op, Store):
            memory.store(element, used, value, units, self.clock)
        else:
            memory.update(op.monoid, element, used, value, units, self.clock)

    def _copy(self, op: AsyncCopy, active: Bools | None) -> None:
        at, used = self._indices(op.array, op.index, op.where, None, active, bounded=not op.cut)
        always = tuple(condition * 0 for condition in op.where)  # cells get zeros where nothing is read
        into, begun = self._indices(op.buffer, op.into, always, None, active)
        if op.vector > 1 and self.checks:
            self._check_vectors(op.array, op.vector, at, used)
            self._check_vectors(op.buffer, op.vector, into, begun)
        shape = np.broadcast_shapes(used.shape, begun.shape)
        ends = [np.broadcast_to(self._element(*end), shape) for end in ((op.array, at, used), (op.buffer, into, begun))]
        masks = [np.broadcast_to(mask, shape) for mask in (used, begun)]
        if op.cut:
            masks[0] = self._reached(op, ends[0], masks[0])
        source, target = self.memory[op.array], self.memory[op.buffer]
        self.copies.begin(source, target, ends[0], ends[1], masks[0], masks[1], self._units(masks[0]), self.clock)

    def _reached(self, op: AsyncCopy, element: Ints, used: Bools) -> Bools:
        """What an array has of vectors that may begin before a row and end behind it, and behind the array."""
        count = self.memory[op.array].data.size
        outside = used & ((element < 0) | (element // op.vector * op.vector >= count))
        if self.checks and outside.any():
            sentence = f"a vector begins outside of the {count} elements of {op.array}"
            raise self._fault(OutOfBounds, sentence, outside, op.array, (int(element[outside][0]),))
        return used & (element < count)

    def _indices(
        self,
        array: str,
        index: Sequence[Affine | Ref],
        where: Sequence[Affine],
        mask: Expr | None,
        active: Bools | None,
        value: Array | None = None,
        bounded: bool = True,
    ) -> tuple[list[Ints], Bools]:
        """Index per dimension and the elements that are accessed, all of one shape ``(blocks, threads, *slots)``.
        `bounded`: each index stays within its dimension."""
        entries = [self._affine(i) if isinstance(i, Affine) else self.values[i.name].astype(np.int64) for i in index]
        conditions = [self._holds(a) for a in where]
        conditions += [self._value(mask)] if mask is not None else []
        conditions += [active] if active is not None else []
        full = np.ones((len(self.blocks), self.kernel.threads, *([1] * len(self.kernel.slots))), np.bool_)
        shapes = [e.shape for e in (*entries, *conditions)] + ([value.shape] if value is not None else [])
        used = np.broadcast_to(full, np.broadcast_shapes(full.shape, *shapes))
        for condition in conditions:
            used = used & condition
        entries = [np.broadcast_to(e, used.shape) for e in entries]
        if self.checks and bounded:
            self._check_bounds(array, entries, used)
        return entries, used

    def _check_bounds(self, array: str, entries: Sequence[Ints], used: Bools) -> None:
        buffer = self.buffers[array]
        shape = buffer.shape if isinstance(buffer, SharedBuffer) else self.memory[array].shape
        for dimension, (entry, extent) in enumerate(zip(entries, shape, strict=True)):
            bad = used & ((entry < 0) | (entry >= extent))
            if bad.any():
                index = tuple(int(e[bad][0]) for e in entries)
                sentence = f"index {index[dimension]} of dimension {dimension} is outside 0 .. {extent - 1}"
                raise self._fault(OutOfBounds, sentence, bad, array, index)

    def _check_vectors(
        self, array: str, vector: int, entries: Sequence[Ints], used: Bools, cut: bool = False
    ) -> None:
        """The slots of a vector are consecutive in memory, aligned, and all accessed or none; `cut`: or some."""
        itemsize = self.memory[array].dtype.itemsize
        bad = broken_vectors(self._address(array, entries, used), used, vector, itemsize, cut=cut)
        if bad.any():
            index = tuple(int(e[bad][0]) for e in entries)
            raise self._fault(MisalignedVector, BROKEN_VECTOR, bad, array, index)

    def _check_spans(self, op: Load | Store, entries: Sequence[Ints], used: Bools) -> None:
        """Spans are accessed for all their slots or none, and each element of one that is stored has a slot.  The first
        slot is the same element of one in all threads."""
        address = self._address(op.array, entries, used)
        bad = broken_spans(address, used, op.span, int(address.flat[0]) % op.span, isinstance(op, Store))
        if bad.any():
            index = tuple(int(e[bad][0]) for e in entries)
            raise self._fault(MisalignedVector, BROKEN_SPAN, bad, op.array, index)

    def _address(self, array: str, entries: Sequence[Ints], used: Bools) -> Ints:
        strides = [p.evaluate(self.sizes) for p in element_strides(self.buffers[array])]
        return np.broadcast_to(element_of(entries, strides), used.shape)

    def _element(self, array: str, entries: Sequence[Ints], used: Bools) -> Ints:
        """Flat elements: C order of the logical shape in global memory, pitches and one copy per block in shared."""
        buffer = self.buffers[array]
        if isinstance(buffer, SharedBuffer):
            rows = np.arange(len(self.blocks), dtype=np.int64).reshape(-1, *([1] * (used.ndim - 1)))
            return np.broadcast_to(element_of(entries, buffer.pitch) + rows * buffer.elements, used.shape)
        strides, running = [], 1
        for extent in reversed(self.memory[array].shape):
            strides.append(running)
            running *= extent
        return np.broadcast_to(element_of(entries, strides[::-1]), used.shape)

    def _units(self, used: Bools) -> Ints:
        return np.broadcast_to(self.unit, used.shape)

    def _holds(self, condition: Affine) -> Bools:
        """Where ``condition >= 0``; what is known of it, and of others that differ by a number, is so."""
        value = self._affine(condition)
        for known in self.kernel.settled if self.checks else ():
            same, opposite = (known.condition.terms == c.terms for c in (condition, -condition))
            if same or opposite:
                places = self.digits[f"${known.slot}"]
                beyond = known.condition.constant - condition.constant if same else known.condition.constant
                wrong = value + beyond < 0 if same else beyond - (value - condition.constant) < 0
                wrong = wrong & (known.first <= places) & (places < known.stop)
                if wrong.any():
                    sentence = f"{known.condition} >= 0 is known to hold and does not"
                    bad = np.broadcast_to(wrong, np.broadcast_shapes(wrong.shape, self.unit.shape))
                    raise self._fault(UnknownCondition, sentence, bad, "", ())
        return value >= 0

    # ------------------------------------------------------------------------------------------ values
    def _value(self, expr: Expr) -> Array:
        match expr:
            case Ref(name):
                return self.values[name]
            case Const(value, dtype):
                return self._constant(value, dtype)
            case Index(affine, dtype):
                return self._affine(affine).astype(dtype.compute.numpy)
            case Inside(where):
                result = np.ones((1,) * (2 + len(self.kernel.slots)), np.bool_)
                for affine in where:
                    result = result & self._holds(affine)
                return result
            case Apply(function, operands, dtype):
                return apply(function, [self._value(o) for o in operands], dtype)
            case _:
                assert_never(expr)

    def _constant(self, value: bool | int | float, dtype: DType) -> Array:
        return np.full((1,) * (2 + len(self.kernel.slots)), value, dtype.compute.numpy)

    def _affine(self, affine: Affine) -> Array:
        known = self.affines.get(affine)
        if known is None:
            shape = (1,) * (2 + len(self.kernel.slots))
            known = np.zeros(shape, np.int64) + affine.evaluate(self.digits)
            if not affine.names() & self.loops:
                self.affines[affine] = known
        return known

    def _at(self, memory: str, index: Sequence[Affine]) -> int:
        """The place of an index, of one block, in C order along the first dimensions of a buffer."""
        place = 0
        for entry, extent in zip(index, self.memory[memory].shape, strict=False):
            place = place * extent + int(self._affine(entry).max())
        return place

    def _axes(self, slots: Sequence[str]) -> list[int]:
        """Array axes of slots."""
        return [2 + k for k, s in enumerate(self.kernel.slots) if s.name in slots]

    def _over(self, value: Array, slots: Sequence[str]) -> Array:
        """`value` repeated along `slots`, so that a reduction counts every slot."""
        shape = list(value.shape)
        for axis in self._axes(slots):
            shape[axis] = self.kernel.slots[axis - 2].extent
        return np.broadcast_to(value, shape)

    # ------------------------------------------------------------------------------------------ meeting
    def _gather_threads(self, bits: int, active: Bools | None) -> None:
        """A collective operation over thread-id `bits`: a block meets where warps do, else each warp does."""
        if bits >= WARP:
            self._meet(active, self.kernel.threads, "a collective operation")
            self.clock.barrier()
        elif bits:
            self._meet(active, WARP, "a collective operation")

    def _meet(self, active: Bools | None, together: int, what: str, among: Bools | None = None) -> None:
        """All of each `together` threads are active or none; with `among`, all of those that were active before."""
        if active is None or not self.checks:
            return
        before = None if among is None else among.reshape(among.shape[:2])
        check_meeting(active.reshape(active.shape[:2]), before, self.blocks, self.kernel.threads, together, what)

    def _fault(
        self, kind: type[KernelFault], sentence: str, bad: Bools, buffer: str, index: tuple[int, ...]
    ) -> KernelFault:
        position = np.unravel_index(int(np.argmax(bad)), bad.shape)
        return kind(sentence, Witness(self.first + int(self.blocks[position[0]]), int(position[1]), buffer, index))
