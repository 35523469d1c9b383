"""Combining values across the threads of a block: butterflies of shuffles inside a warp, shared memory between warps.

The order of association is fixed: lane bits from the highest to bit 0, then the warps as a balanced tree in warp order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from polyfuse.backends.numba_cuda.fragments.declare import Emit, literal, operation
from polyfuse.backends.numba_cuda.fragments.monoids import MONOIDS, FragmentMonoid, State, tree
from polyfuse.backends.numba_cuda.fragments.positions import candidate, lowest_of_warp
from polyfuse.backends.numba_cuda.fragments.slots import intrinsic, special_register
from polyfuse.backends.numba_cuda.fragments.values import (
    I1,
    I8,
    I16,
    I32,
    I64,
    SHARED,
    Builder,
    DType,
    Pointer,
    Value,
    boolean,
    float32,
    float64,
    int32,
    itemsize,
    memory_type,
)
from polyfuse.backends.numba_cuda.numba_api import cgutils, ir, types

_ALTERNATING = 1024  # bytes up to which a second copy of a buffer is cheaper than a second barrier
ROUND_BYTES = 16384  # bytes of shared memory that one combination takes at most


def i32(value: int) -> Value:
    """A constant."""
    return ir.Constant(I32, value)


# ------------------------------------------------------------------------------------------ barriers, shared memory


def emit_barrier(b: Builder) -> None:
    """All threads of the block meet."""
    intrinsic(b, "llvm.nvvm.barrier0", ir.VoidType(), [], convergent=True)


@operation
def barrier() -> tuple[Any, Emit]:
    """All threads of the block meet; shared-memory accesses before are visible after."""
    return types.void, emit_barrier


def emit_warp_barrier(b: Builder) -> None:
    """All threads of the warp meet."""
    intrinsic(b, "llvm.nvvm.bar.warp.sync", ir.VoidType(), [i32(-1)], convergent=True)


@operation
def warp_barrier() -> tuple[Any, Emit]:
    """The same for the threads of each warp."""
    return types.void, emit_warp_barrier


def shared_buffer(b: Builder, dtype: DType, count: int) -> Value:
    """A new buffer of the block, 16-byte aligned."""
    name = b.module.get_unique_name("shared")
    buffer = cgutils.add_global_variable(b.module, ir.ArrayType(memory_type(dtype), count), name, SHARED)
    buffer.align, buffer.linkage = 16, "internal"
    buffer.initializer = ir.Constant(buffer.type.pointee, ir.Undefined)
    return b.bitcast(buffer, memory_type(dtype).as_pointer(SHARED))


@operation
def shared(dtype: Any, count: Any) -> tuple[Pointer, Emit]:
    """A block-shared buffer of `count` elements."""
    pointer = Pointer(dtype.instance_type, SHARED)
    return pointer, lambda b, *_: shared_buffer(b, pointer.dtype, literal(count, "the size of a shared buffer"))


# ------------------------------------------------------------------------------------------ shuffles


def shuffle(b: Builder, dtype: DType, value: Value, mode: int, lane: Value, clamp: int, threads: int) -> Value:
    """`value` of another lane.  `mode` 0 index, 1 up, 2 down, 3 xor; `clamp` as the c operand of PTX shfl.sync;
    8-byte values travel as two words."""
    if value.type in (I1, I8, I16):
        narrow = value.type
        return b.trunc(shuffle(b, dtype, b.zext(value, I32), mode, lane, clamp, threads), narrow)
    if dtype in (float32, float64):
        word = I32 if dtype == float32 else I64
        moved = _shuffle_words(b, b.bitcast(value, word), mode, lane, clamp, threads)
        return b.bitcast(moved, value.type)
    return _shuffle_words(b, value, mode, lane, clamp, threads)


def _shuffle_words(b: Builder, value: Value, mode: int, lane: Value, clamp: int, threads: int) -> Value:
    if value.type == I64:
        low = _shuffle_words(b, b.trunc(value, I32), mode, lane, clamp, threads)
        high = _shuffle_words(b, b.trunc(b.lshr(value, ir.Constant(I64, 32)), I32), mode, lane, clamp, threads)
        return b.or_(b.zext(low, I64), b.shl(b.zext(high, I64), ir.Constant(I64, 32)))
    members = i32((1 << threads) - 1 if threads < 32 else -1)
    arguments = [members, i32(mode), value, lane, i32(clamp)]
    pair = ir.LiteralStructType([I32, I1])
    return b.extract_value(intrinsic(b, "llvm.nvvm.shfl.sync.i32", pair, arguments, convergent=True), 0)


def butterfly(
    b: Builder, monoid: FragmentMonoid, dtypes: tuple[DType, ...], states: list[State], bits: int, threads: int
) -> list[State]:
    """Combine over the lane bits in `bits`, from the highest down.  Positions behind the values: see `positions`."""
    if monoid.states == 2 and bits & 31:
        return [_best_of_lanes(b, monoid, dtypes, state, bits, threads) for state in states]
    for bit in (16, 8, 4, 2, 1):
        if bits & bit:
            partners = [
                tuple(shuffle(b, t, s, 3, i32(bit), 31, threads) for t, s in zip(dtypes, state, strict=True))
                for state in states
            ]
            states = [monoid.merge(b, dtypes, mine, other) for mine, other in zip(states, partners, strict=True)]
    return states


def _best_of_lanes(
    b: Builder, monoid: FragmentMonoid, dtypes: tuple[DType, ...], state: State, bits: int, threads: int
) -> State:
    (top,) = butterfly(b, MONOIDS[monoid.name.removeprefix("arg")], dtypes[:1], [state[:1]], bits, threads)[0]
    position = candidate(b, dtypes[0], state, top)
    if bits & 31 == 31 and dtypes[1] == int32 and threads >= 32:
        return top, lowest_of_warp(b, position)
    return top, butterfly(b, MONOIDS["min"], dtypes[1:], [(position,)], bits, threads)[0][0]


@dataclass(frozen=True, slots=True)
class Dealt:
    """Combined values that lie with different lanes: those of this lane, the slot of the first one, and the lane bits
    along which all lanes have the same."""

    states: list[State]
    first: Value
    alike: int


def dealt_to_lanes(
    b: Builder, monoid: FragmentMonoid, dtypes: tuple[DType, ...], states: list[State], bits: int, threads: int
) -> Dealt:
    """What `butterfly` combines, for whoever needs each value in one lane: partners hand half of their slots over ::

        lane 0   a b c d      a + a'  b + b'        a + a' + ..
        lane 2   a'b'c'd'     c + c'  d + d'        c + c' + ..      and b, d in lanes 1 and 3: 3 shuffles for 8

    The same values meet in the same order.  Slots are halved while they are even.
    """
    lane, halved, rest = b.and_(special_register(b, "tid.x"), i32(31)), 0, bits & 31
    while rest and len(states) % 2 == 0 and monoid.states == 1:
        bit, half = 1 << rest.bit_length() - 1, len(states) // 2
        keeps_lower = b.icmp_unsigned("==", b.and_(lane, i32(bit)), i32(0))
        pairs = [(lower, upper) for (lower,), (upper,) in zip(states[:half], states[half:], strict=True)]
        mine = [b.select(keeps_lower, lower, upper) for lower, upper in pairs]
        given = [b.select(keeps_lower, upper, lower) for lower, upper in pairs]
        taken = [shuffle(b, dtypes[0], value, 3, i32(bit), 31, threads) for value in given]
        states = [monoid.merge(b, dtypes, (own,), (other,)) for own, other in zip(mine, taken, strict=True)]
        halved, rest = halved | bit, rest & ~bit
    first = b.mul(compact(b, lane, halved), i32(len(states)))
    return Dealt(butterfly(b, monoid, dtypes, states, rest, threads), first, rest)


# ------------------------------------------------------------------------------------------ exchange between warps


def to_memory(b: Builder, value: Value) -> Value:
    """A slot as it is stored: booleans as bytes."""
    return b.zext(value, I8) if value.type == I1 else value


def from_memory(b: Builder, dtype: DType, value: Value) -> Value:
    """A stored element as a slot."""
    return b.icmp_unsigned("!=", value, ir.Constant(I8, 0)) if dtype == boolean else value


class Exchange:
    """Buffers, one per component, through which warps exchange `elements` values, safe to visit again in a loop.

    A small buffer has two copies that alternate from visit to visit, so one barrier per visit is enough: a thread
    that writes a copy again has passed the barrier of the visit between, hence all have read it.  A large one has a
    barrier before it is written.
    """

    def __init__(self, b: Builder, dtypes: tuple[DType, ...], elements: int) -> None:
        self.dtypes = dtypes
        self.alternates = elements * sum(map(itemsize, dtypes)) <= _ALTERNATING
        self.buffers = [shared_buffer(b, t, elements * (2 if self.alternates else 1)) for t in dtypes]
        self.elements = elements
        if self.alternates:
            with b.goto_entry_block():
                self.turn = b.alloca(I32)
                b.store(i32(0), self.turn)

    def open(self, b: Builder) -> None:
        """Before the writes of a visit."""
        if not self.alternates:
            emit_barrier(b)
            self.views = self.buffers
            return
        turn = b.load(self.turn)
        self.views = [b.gep(buffer, [turn]) for buffer in self.buffers]
        b.store(b.xor(turn, i32(self.elements)), self.turn)

    def write(self, b: Builder, position: Value, state: State) -> None:
        """Store one state."""
        for view, value in zip(self.views, state, strict=True):
            b.store(to_memory(b, value), b.gep(view, [position]))

    def read(self, b: Builder, position: Value, count: int) -> list[State]:
        """`count` consecutive states from `position`, which is a multiple of a `count` that is a power of two."""
        columns = [read_shared(b, t, view, position, count) for t, view in zip(self.dtypes, self.views, strict=True)]
        return list(zip(*columns, strict=True))


def read_shared(b: Builder, dtype: DType, view: Value, position: Value, count: int) -> list[Value]:
    """`count` consecutive elements from `position`, as `Exchange.read`."""
    width = math.gcd(count, max(1, 16 // itemsize(dtype)))
    element, values = view.type.pointee, []
    for start in range(0, count, width):
        address = b.gep(view, [b.add(position, i32(start))])
        if width == 1:
            values.append(b.load(address))
            continue
        vector = b.load(b.bitcast(address, ir.VectorType(element, width).as_pointer(SHARED)))
        vector.align = width * itemsize(dtype)
        values += [b.extract_element(vector, i32(k)) for k in range(width)]
    return [from_memory(b, dtype, value) for value in values]


def subsets(mask: int) -> list[int]:
    """The numbers whose bits lie in `mask`, ascending."""
    return [n for n in range(mask + 1) if not n & ~mask]


def compact(b: Builder, value: Value, mask: int) -> Value:
    """The bits of `value` in `mask`, moved together."""
    result, position = i32(0), 0
    while mask:
        low = (mask & -mask).bit_length() - 1
        run = (~(mask >> low) & ((mask >> low) + 1)).bit_length() - 1
        part = b.and_(b.lshr(value, i32(low)), i32((1 << run) - 1))
        result = b.or_(result, b.shl(part, i32(position)))
        mask, position = mask & ~(((1 << run) - 1) << low), position + run
    return result


def spread_bits(b: Builder, value: Value, mask: int) -> Value:
    """The low bits of `value`, moved to the places of `mask`: the inverse of `compact`."""
    result, position = i32(0), 0
    for place in range(mask.bit_length()):
        if mask >> place & 1:
            bit = b.and_(b.lshr(value, i32(position)), i32(1))
            result, position = b.or_(result, b.shl(bit, i32(place))), position + 1
    return result


def between_warps(
    b: Builder, monoid: FragmentMonoid, dtypes: tuple[DType, ...], states: list[State], bits: int, threads: int
) -> list[State]:
    """Combine over the lane and warp bits in `bits`.

    The buffer is laid out as [slot][warp][lane class]: lanes that hold different values lie next to each other, and
    where there is one class the values of neighbouring warps do, and are read as vectors.
    """
    lanes, warp_bits, warps = bits & 31, bits >> 5, threads // 32
    classes = 32 >> lanes.bit_count()
    per_slot = warps * classes
    batch = max(1, min(len(states), ROUND_BYTES // (per_slot * sum(map(itemsize, dtypes)))))
    exchange = Exchange(b, dtypes, batch * per_slot)
    thread, members = special_register(b, "tid.x"), subsets(warp_bits)
    lane, warp = b.and_(thread, i32(31)), b.lshr(thread, i32(5))
    lane_class = compact(b, lane, ~lanes & 31)
    mine = b.add(b.mul(warp, i32(classes)), lane_class)
    group = b.add(b.mul(b.and_(warp, i32(~warp_bits & (warps - 1))), i32(classes)), lane_class)
    contiguous = classes == 1 and warp_bits & (warp_bits + 1) == 0
    combined: list[State] = []
    for start in range(0, len(states), batch):
        part = states[start : start + batch]
        dealt = dealt_to_lanes(b, monoid, dtypes, part, bits, threads)
        exchange.open(b)
        with b.if_then(b.icmp_unsigned("==", b.and_(lane, i32(dealt.alike)), i32(0))):
            place = b.add(mine, b.mul(dealt.first, i32(per_slot)))
            for k, state in enumerate(dealt.states):
                exchange.write(b, b.add(place, i32(k * per_slot)), state)
        emit_barrier(b)
        for k in range(len(part)):
            first = b.add(group, i32(k * per_slot))
            found = (
                exchange.read(b, first, len(members))
                if contiguous
                else [exchange.read(b, b.add(first, i32(m * classes)), 1)[0] for m in members]
            )
            combined.append(tree(b, monoid, dtypes, found))
    return combined
