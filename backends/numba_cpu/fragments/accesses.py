"""One vector access: contiguous, strided, gathered or masked; and stores past the cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from llvmlite import binding, ir

from polyfuse.backends.numba_cpu.fragments.elements import Element, boolean
from polyfuse.backends.numba_cpu.fragments.lane_loops import read_lanes, write_lanes
from polyfuse.backends.numba_cpu.fragments.operation import absent
from polyfuse.backends.numba_cpu.fragments.places import Access, Place, lane_steps
from polyfuse.backends.numba_cpu.fragments.types import Fragment, vector_type
from polyfuse.backends.numba_cpu.fragments.vectors import (
    I1,
    I32,
    I64,
    Builder,
    Value,
    constant,
    gathered,
    intrinsic,
    joined,
    lane,
    scalar_of,
    shuffle,
    splat,
    stack_slot,
    uniform_number,
)

ADDRESS = ir.PointerType()
NEVER = 1024  # more bits than an element has


@dataclass(frozen=True, slots=True)
class AccessInstructions:
    """From how many bits per element on the processor has instructions for masked rows, gathers and scatters."""

    masked_bits: int
    gather_bits: int
    scatter_bits: int


def _host_instructions() -> AccessInstructions:
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return AccessInstructions(8 if features.get("avx512bw") else 32, 32, 32)
    return AccessInstructions(32, 32, NEVER) if features.get("avx2") else AccessInstructions(NEVER, NEVER, NEVER)


INSTRUCTIONS = _host_instructions()
# A constant stride up to this is read by contiguous vectors and shuffles.
WIDEST_SHUFFLED_STRIDE = 4
# So few lanes are read one by one: LLVM then reads a slot that is repeated along a vector as a broadcast from memory.
FEWEST_GATHERED = 8


def _addresses(builder: Builder, access: Access, dtype: Element) -> Value:
    """The address of every lane, as a vector."""
    if access.lanes == 1 and access.offsets is None:
        return _as_vector(builder, access.address, ir.VectorType(ADDRESS, 1))
    steps = access.offsets if access.offsets is not None else lane_steps(builder, access.lanes, access.stride)
    base = splat(builder, builder.ptrtoint(access.address, I64), access.lanes)
    total = builder.add(base, builder.mul(steps, constant(steps.type, dtype.itemsize)))
    return builder.inttoptr(total, ir.VectorType(ADDRESS, access.lanes))


def _is_one(stride: Any) -> bool:
    return isinstance(stride, int) and stride == 1


# ---------------------------------------------------------------------------------------------- reading


def read(builder: Builder, access: Access, dtype: Element, mask: Value | None, other: Value | None) -> Value:
    """The memory words of one access."""
    scalar, unit = dtype.memory, access.offsets is None and (access.lanes == 1 or _is_one(access.stride))
    if mask is None and access.offsets is None:
        if unit:
            return _aligned(builder.load(access.address, typ=vector_type(scalar, access.lanes)), dtype)
        if isinstance(access.stride, int) and -1 <= access.stride <= WIDEST_SHUFFLED_STRIDE:
            return _read_strided(builder, access, dtype)
        if access.lanes <= FEWEST_GATHERED:
            return gathered(builder, [_read_lane(builder, access, dtype, k) for k in range(access.lanes)])
    ty = ir.VectorType(scalar, access.lanes)
    truth = _mask_vector(builder, mask, access.lanes)
    passthrough = _as_vector(builder, other, ty) if other is not None else constant(ty, 0)
    words = (_read_row if unit else _gather)(builder, access, dtype, truth, passthrough)
    return lane(builder, words, 0) if access.lanes == 1 else words


def _read_row(builder: Builder, access: Access, dtype: Element, truth: Value, other: Value) -> Value:
    """Consecutive elements under a mask."""
    ty = other.type
    if dtype.bits >= max(WORD_BITS, INSTRUCTIONS.masked_bits):
        return _masked_words(builder, access, dtype, truth, other)
    if dtype.bits >= INSTRUCTIONS.masked_bits:
        operands = (_near(builder, access.address, truth), I32(dtype.itemsize), truth, other)
        return intrinsic(builder, "llvm.masked.load", *operands, result=ty, overloads=(ty, ADDRESS))
    every = intrinsic(builder, "llvm.vector.reduce.and", truth, result=I1)
    with builder.if_else(every, likely=True) as (whole, partial):
        with whole:
            plain, first = _aligned(builder.load(access.address, typ=ty), dtype), builder.block
        with partial:
            is_single = access.lanes == 1  # which the mask forbids
            slow = other if is_single else read_lanes(builder, other, _addresses(builder, access, dtype), truth)
            second = builder.block
    words = builder.phi(ty)
    words.add_incoming(plain, first)
    words.add_incoming(slow, second)
    return words


def _masked_words(builder: Builder, access: Access, dtype: Element, truth: Value, other: Value) -> Value:
    """Consecutive elements of whole words under a mask, by x86's own instructions, a register at a time.

    LLVM's generic masked load will not do: where some lanes are known to be off, and the others are one condition, LLVM
    22 makes of those of a whole register a load without a mask, which reads what lies behind the array (rows of 20
    float32 summed beside a concatenation), or fails an assertion, which ends the process.
    """
    signs = builder.sext(truth, ir.VectorType(ir.IntType(dtype.bits), access.lanes))
    found, whole = [], REGISTER_BITS // dtype.bits
    for start in range(0, access.lanes, whole):
        count = min(whole, access.lanes - start)
        lanes = whole if 2 * count > whole else whole // 2  # a register, or half of one
        picked = [min(start + k, access.lanes) for k in range(lanes)]
        mask = shuffle(builder, signs, constant(signs.type, 0), picked)
        address = builder.gep(access.address, [I64(start)], source_etype=dtype.memory)
        address = _near(builder, address, shuffle(builder, truth, constant(truth.type, 0), picked))
        name = f"llvm.x86.{_LOADS[scalar_of(dtype.memory)]}{'.256' if lanes == whole else ''}"
        loaded = intrinsic(builder, name, address, mask, result=ir.VectorType(dtype.memory, lanes), overloads=())
        part = shuffle(builder, loaded, None, range(count))
        found.append(_as_vector(builder, part, ir.VectorType(dtype.memory, count)))
    words = _as_vector(builder, reduce(lambda first, second: joined(builder, first, second), found), other.type)
    number = uniform_number(other)
    is_nothing = number == 0 and math.copysign(1, number) > 0
    return words if is_nothing else builder.select(truth, words, other)


def _near(builder: Builder, address: Value, truth: Value) -> Value:
    """The address of a masked row, or one on the stack where no lane is on.  Masks hide what lies outside of an array,
    but where no memory is, a processor takes many times as long to hide it as to read."""
    function = builder.function
    nowhere = getattr(function, _NOWHERE, None)
    if nowhere is None:
        with builder.goto_entry_block():
            nowhere = stack_slot(builder, ir.ArrayType(ir.IntType(8), WIDEST_ROW))
        setattr(function, _NOWHERE, nowhere)
    return builder.select(intrinsic(builder, "llvm.vector.reduce.or", truth, result=I1), address, nowhere)


_NOWHERE = "polyfuse_nowhere"
WIDEST_ROW = 256  # bytes of a masked access, at most
WORD_BITS, REGISTER_BITS = 32, 256
_LOADS = {
    ir.FloatType(): "avx.maskload.ps",
    ir.DoubleType(): "avx.maskload.pd",
    ir.IntType(32): "avx2.maskload.d",
    ir.IntType(64): "avx2.maskload.q",
}
"""x86's loads of a register of words, of which those whose sign in a mask is not set are zero."""


def _gather(builder: Builder, access: Access, dtype: Element, truth: Value, other: Value) -> Value:
    ty, at = other.type, _addresses(builder, access, dtype)
    if dtype.bits < INSTRUCTIONS.gather_bits:
        return read_lanes(builder, other, at, truth)
    operands = (at, I32(dtype.itemsize), truth, other)
    return intrinsic(builder, "llvm.masked.gather", *operands, result=ty, overloads=(ty, at.type))


def _read_lane(builder: Builder, access: Access, dtype: Element, k: int) -> Value:
    step = I64(k * access.stride) if isinstance(access.stride, int) else builder.mul(access.stride, I64(k))
    address = builder.gep(access.address, [step], source_etype=dtype.memory)
    return _aligned(builder.load(address, typ=dtype.memory), dtype)


def _read_strided(builder: Builder, access: Access, dtype: Element) -> Value:
    """A small constant stride: contiguous vectors that end with the last slot, then shuffles.  Only memory between the
    first and the last slot is read."""
    scalar, lanes, stride = dtype.memory, access.lanes, int(access.stride)
    if stride == 0:
        return splat(builder, _aligned(builder.load(access.address, typ=scalar), dtype), lanes)
    ty = ir.VectorType(scalar, lanes)

    def at(start: int) -> Value:
        address = builder.gep(access.address, [I64(start)], source_etype=scalar)
        return _aligned(builder.load(address, typ=ty), dtype)

    if stride == -1:
        return shuffle(builder, at(1 - lanes), None, range(lanes - 1, -1, -1))
    span = (lanes - 1) * stride + 1
    starts = [min(k * lanes, span - lanes) for k in range(stride)]
    result = at(starts[0])
    picked: list[int] = [k * stride if k * stride < lanes else 0 for k in range(lanes)]
    result = shuffle(builder, result, None, picked)
    for piece, start in enumerate(starts[1:], 1):
        block = at(start)
        choice = [
            lanes + k * stride - start if piece * lanes <= k * stride < (piece + 1) * lanes else k
            for k in range(lanes)
        ]
        result = shuffle(builder, result, block, choice)
    return result


def _aligned(instruction: Value, dtype: Element) -> Value:
    instruction.align = dtype.itemsize
    return instruction


def _mask_vector(builder: Builder, mask: Value | None, lanes: int) -> Value:
    ty = ir.VectorType(I1, lanes)
    return constant(ty, 1) if mask is None else _as_vector(builder, mask, ty)


def _as_vector(builder: Builder, value: Value, ty: ir.Type) -> Value:
    """A scalar as a vector of one lane; vectors stay."""
    if isinstance(value.type, ir.VectorType):
        return value
    return builder.insert_element(ir.Constant(ty, ir.Undefined), value, I32(0))


# ---------------------------------------------------------------------------------------------- writing


def write(builder: Builder, access: Access, dtype: Element, words: Value, mask: Value | None) -> None:
    scalar, unit = dtype.memory, access.offsets is None and (access.lanes == 1 or _is_one(access.stride))
    if mask is None and unit:
        _aligned(builder.store(words, access.address), dtype)
        return
    ty = ir.VectorType(scalar, access.lanes)
    values, truth = _as_vector(builder, words, ty), _mask_vector(builder, mask, access.lanes)
    (_write_row if unit else _scatter)(builder, access, dtype, truth, values)


def _write_row(builder: Builder, access: Access, dtype: Element, truth: Value, words: Value) -> None:
    if dtype.bits >= INSTRUCTIONS.masked_bits:
        operands = (words, _near(builder, access.address, truth), I32(dtype.itemsize), truth)
        overloads = (words.type, ADDRESS)
        intrinsic(builder, "llvm.masked.store", *operands, result=ir.VoidType(), overloads=overloads)
        return
    if access.lanes == 1:
        with builder.if_then(lane(builder, truth, 0)):
            _aligned(builder.store(words, access.address), dtype)
        return
    every = intrinsic(builder, "llvm.vector.reduce.and", truth, result=I1)
    with builder.if_else(every, likely=True) as (whole, partial):
        with whole:
            _aligned(builder.store(words, access.address), dtype)
        with partial:
            write_lanes(builder, words, _addresses(builder, access, dtype), truth)


def _scatter(builder: Builder, access: Access, dtype: Element, truth: Value, words: Value) -> None:
    at = _addresses(builder, access, dtype)
    if dtype.bits < INSTRUCTIONS.scatter_bits:
        write_lanes(builder, words, at, truth)
        return
    operands = (words, at, I32(dtype.itemsize), truth)
    intrinsic(builder, "llvm.masked.scatter", *operands, result=ir.VoidType(), overloads=(words.type, at.type))


def _write_all(builder: Builder, accesses: Sequence[Access], dtype: Element, words: Sequence[Value]) -> None:
    for access, word in zip(accesses, words, strict=True):
        write(builder, access, dtype, word, None)


def write_nontemporal(builder: Builder, accesses: Sequence[Access], dtype: Element, words: Sequence[Value]) -> None:
    """Stores past the cache where every address is on a cache line, which is looked up once per call; else plain ones.
    The kernel's entry point ends with the fence that such stores need."""
    low = I64(0)
    for access in accesses:
        low = builder.or_(low, builder.ptrtoint(access.address, I64))
    on_line = builder.icmp_unsigned("==", builder.and_(low, I64(63)), I64(0))
    mark = builder.module.add_metadata([I32(1)])
    with builder.if_else(on_line, likely=True) as (streaming, plain):
        with streaming:
            for access, word in zip(accesses, words, strict=True):
                instruction = builder.store(word, access.address)
                instruction.align = 64
                instruction.set_metadata("nontemporal", mark)
        with plain:
            _write_all(builder, accesses, dtype, words)


def streams(place: Place, mask: Any) -> bool:
    """Whether a store consists of whole cache lines and its pointer asks for non-temporal stores."""
    tile, dtype = place.tile, place.pointer.dtype
    lines = [lanes * dtype.itemsize % 64 == 0 for lanes in Fragment(boolean, tile.shape).layout.chunks]
    unit = tile.axis is not None and tile.strides[tile.axis] == 1
    return place.pointer.nontemporal and absent(mask) and unit and not place.gathers and all(lines)
