"""load and store: rows as vectors, masked or not, strided, gathered and scattered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from polyfuse.backends.numba_cpu.fragments.conversions import (
    convert,
    index_value,
    narrow,
    slots_of,
    weak_element,
    widen,
)
from polyfuse.backends.numba_cpu.fragments.elements import Element, boolean, int64
from polyfuse.backends.numba_cpu.fragments.elementwise import broadcast_shape, element_of
from polyfuse.backends.numba_cpu.fragments.frame import scratch_address
from polyfuse.backends.numba_cpu.fragments.layouts import LANES, Offset, Shape, Size, Tile
from polyfuse.backends.numba_cpu.fragments.operation import Typed, absent, literal, operation, refuse
from polyfuse.backends.numba_cpu.fragments.types import Fragment, Pointer, TileType, vector_type
from polyfuse.backends.numba_cpu.fragments.vectors import (
    I1,
    I32,
    I64,
    Builder,
    Value,
    constant,
    intrinsic,
    lane,
    lanes_of,
    pack,
    shuffle,
    splat,
    untyped,
)

ADDRESS = ir.PointerType()
# A constant stride up to this is read by contiguous vectors and shuffles, beyond it by a gather.
WIDEST_SHUFFLED_STRIDE = 4


@dataclass(frozen=True, slots=True)
class Access:
    """One vector access: `lanes` elements from `address`, `stride` elements apart (a constant or a 64-bit value);
    or, with `offsets`, lane k at ``address + offsets[k]`` elements."""

    address: Value
    lanes: int
    stride: int | Value
    offsets: Value | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call reads or writes: argument types and values of pointer, offset, tile and sizes."""

    pointer: Pointer
    offset: Any
    tile: Tile
    sizes: Any

    @property
    def gathers(self) -> bool:
        """Whether the offset differs between slots of one row."""
        axis = self.tile.axis
        if axis is None or not isinstance(self.offset, Fragment):
            return False
        aligned = (1,) * (len(self.tile.shape) - len(self.offset.shape)) + self.offset.shape
        return aligned[axis] > 1

    def accesses(self, builder: Builder, pointer: Value, offset: Value, sizes: Value) -> Iterator[Access]:
        """The accesses of every vector of the tile, in C order."""
        known = self._sizes(builder, sizes)
        stride = self._stride(builder, known)
        moves = self._row_moves(builder, offset)
        element = self.pointer.dtype.memory
        chunks = Fragment(boolean, self.tile.shape).layout.chunks
        for row, inner in enumerate(self.tile.row_offsets()):
            base = _moved(builder, untyped(pointer), inner, known, element)
            start = 0
            for chunk, lanes in enumerate(chunks):
                move = moves[row * len(chunks) + chunk]
                at = _advanced(builder, base, start, stride, element)
                if lanes_of(move.type) > 1:
                    yield Access(at, lanes, 0, _with_stride(builder, move, stride))
                else:
                    yield Access(builder.gep(at, [move], source_etype=element), lanes, stride)
                start += LANES

    def _sizes(self, builder: Builder, value: Value) -> dict[str, Value]:
        names = self.tile.sizes
        if not names:
            return {}
        values = cgutils.unpack_tuple(builder, value)
        return {
            name: index_value(builder, ty, v) for name, ty, v in zip(names, self.sizes, values, strict=True)
        }

    def _stride(self, builder: Builder, known: dict[str, Value]) -> int | Value:
        axis = self.tile.axis
        stride = 0 if axis is None else self.tile.strides[axis]
        if isinstance(stride, Size):
            return builder.mul(known[stride.name], I64(stride.factor))
        return stride

    def _row_moves(self, builder: Builder, offset: Value) -> list[Value]:
        """The offset argument for every vector: one number where it is equal along the row, else one per lane."""
        layout = Fragment(boolean, self.tile.shape).layout
        if not isinstance(self.offset, Fragment) or self.offset.size == 1:
            return [index_value(builder, self.offset, offset)] * layout.vectors
        vectors = slots_of(builder, self.offset, offset, self.offset.dtype, self.tile.shape)
        wide = [convert(builder, vector, self.offset.dtype, int64) for vector in vectors]
        return wide if self.gathers else [lane(builder, vector, 0) for vector in wide]


def _moved(builder: Builder, pointer: Value, offset: Offset, known: dict[str, Value], element: ir.Type) -> Value:
    """`pointer` moved by the offset of a row; constants stay constants, so that they become part of the address."""
    for name, factor in offset.terms:
        pointer = builder.gep(pointer, [builder.mul(known[name], I64(factor))], source_etype=element)
    return builder.gep(pointer, [I64(offset.constant)], source_etype=element) if offset.constant else pointer


def _advanced(builder: Builder, base: Value, start: int, stride: int | Value, element: ir.Type) -> Value:
    if start == 0 or (isinstance(stride, int) and stride == 0):
        return base
    step = I64(start * stride) if isinstance(stride, int) else builder.mul(stride, I64(start))
    return builder.gep(base, [step], source_etype=element)


def _with_stride(builder: Builder, offsets: Value, stride: int | Value) -> Value:
    """Lane offsets plus lane number times stride."""
    if isinstance(stride, int) and stride == 0:
        return offsets
    return builder.add(offsets, _lane_steps(builder, lanes_of(offsets.type), stride))


def _lane_steps(builder: Builder, lanes: int, stride: int | Value) -> Value:
    ty = ir.VectorType(I64, lanes)
    if isinstance(stride, int):
        return ir.Constant(ty, [k * stride for k in range(lanes)])
    return builder.mul(splat(builder, stride, lanes), ir.Constant(ty, list(range(lanes))))


def _addresses(builder: Builder, access: Access, dtype: Element) -> Value:
    """The address of every lane, as a vector."""
    if access.lanes == 1:
        return _as_vector(builder, access.address, ir.VectorType(ADDRESS, 1))
    steps = access.offsets if access.offsets is not None else _lane_steps(builder, access.lanes, access.stride)
    base = splat(builder, builder.ptrtoint(access.address, I64), access.lanes)
    total = builder.add(base, builder.mul(steps, constant(steps.type, dtype.itemsize)))
    return builder.inttoptr(total, ir.VectorType(ADDRESS, access.lanes))


# ---------------------------------------------------------------------------------------------- reading


def _read(builder: Builder, access: Access, dtype: Element, mask: Value | None, other: Value | None) -> Value:
    """The memory words of one access."""
    scalar, unit = dtype.memory, access.offsets is None and access.stride == 1
    if mask is None and access.offsets is None:
        if unit or access.lanes == 1:
            return _aligned(builder.load(access.address, typ=vector_type(scalar, access.lanes)), dtype)
        if isinstance(access.stride, int) and -1 <= access.stride <= WIDEST_SHUFFLED_STRIDE:
            return _read_strided(builder, access, dtype)
    ty = ir.VectorType(scalar, access.lanes)
    truth = _mask_vector(builder, mask, access.lanes)
    passthrough = _as_vector(builder, other, ty) if other is not None else ir.Constant(ty, ir.Undefined)
    align = I32(dtype.itemsize)
    if (unit or access.lanes == 1) and access.offsets is None:
        words = intrinsic(
            builder,
            "llvm.masked.load",
            access.address,
            align,
            truth,
            passthrough,
            result=ty,
            overloads=(ty, ADDRESS),
        )
    else:
        at = _addresses(builder, access, dtype)
        words = intrinsic(
            builder, "llvm.masked.gather", at, align, truth, passthrough, result=ty, overloads=(ty, at.type)
        )
    return lane(builder, words, 0) if access.lanes == 1 else words


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


def _write(builder: Builder, access: Access, dtype: Element, words: Value, mask: Value | None) -> None:
    scalar, unit = dtype.memory, access.offsets is None and access.stride == 1
    if mask is None and access.offsets is None and (unit or access.lanes == 1):
        _aligned(builder.store(words, access.address), dtype)
        return
    ty = ir.VectorType(scalar, access.lanes)
    values, truth = _as_vector(builder, words, ty), _mask_vector(builder, mask, access.lanes)
    void, align = ir.VoidType(), I32(dtype.itemsize)
    if (unit or access.lanes == 1) and access.offsets is None:
        operands = (values, access.address, align, truth)
        intrinsic(builder, "llvm.masked.store", *operands, result=void, overloads=(ty, ADDRESS))
        return
    at = _addresses(builder, access, dtype)
    intrinsic(builder, "llvm.masked.scatter", values, at, align, truth, result=void, overloads=(ty, at.type))


def _write_all(builder: Builder, accesses: Sequence[Access], dtype: Element, words: Sequence[Value]) -> None:
    for access, word in zip(accesses, words, strict=True):
        _write(builder, access, dtype, word, None)


def _write_nontemporal(builder: Builder, accesses: Sequence[Access], dtype: Element, words: Sequence[Value]) -> None:
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


def _streams(place: Place, mask: Any) -> bool:
    """Whether a store consists of whole cache lines and its pointer asks for non-temporal stores."""
    tile, dtype = place.tile, place.pointer.dtype
    lines = [lanes * dtype.itemsize % 64 == 0 for lanes in Fragment(boolean, tile.shape).layout.chunks]
    unit = tile.axis is not None and tile.strides[tile.axis] == 1
    return place.pointer.nontemporal and absent(mask) and unit and not place.gathers and all(lines)


# ---------------------------------------------------------------------------------------------- the operations


def checked_place(name: str, pointer: Any, offset: Any, tile: Any, sizes: Any, mask: Any) -> Place:
    """The place of a call; raises TypingError where its arguments do not fit together."""
    if not isinstance(pointer, Pointer) or not isinstance(tile, TileType):
        raise refuse(f"{name}: expected a pointer and a tile, got {pointer} and {tile}")
    layout = tile.tile
    given = 0 if isinstance(sizes, types.Omitted) else len(sizes) if isinstance(sizes, types.BaseTuple) else -1
    if given != len(layout.sizes):
        raise refuse(f"{name}: the tile needs the sizes {layout.sizes} as a tuple, got {sizes}")
    if isinstance(offset, Fragment) and not offset.dtype.is_integer:
        raise refuse(f"{name}: offsets must be integers, got {offset}")
    shape = layout.shape
    for meaning, argument in (("offset", offset), ("mask", mask)):
        if isinstance(argument, Fragment) and broadcast_shape([argument.shape, shape]) != shape:
            raise refuse(f"{name}: a {meaning} of shape {argument.shape} does not broadcast to the tile's {shape}")
    if isinstance(mask, Fragment) and mask.dtype != boolean:
        raise refuse(f"{name}: the mask must be boolean, got {mask}")
    return Place(pointer, offset, layout, sizes)


def mask_vectors(builder: Builder, mask: Any, value: Value, shape: Shape) -> list[Value | None]:
    if absent(mask):
        return [None] * Fragment(boolean, shape).layout.vectors
    return list(slots_of(builder, mask, value, boolean, shape))


@operation
def load(pointer: Any, offset: Any, tile: Any, sizes: Any = (), mask: Any = None, other: Any = 0) -> Typed:
    """Read the slots of a tile; slots masked off get `other` and touch no memory."""
    place = checked_place("load", pointer, offset, tile, sizes, mask)
    dtype, shape = place.pointer.dtype, place.tile.shape
    fragment = Fragment(dtype.compute, shape)

    def lower(builder: Builder, p: Value, at: Value, _: Value, given: Value, masked: Value, fill: Value) -> Value:
        accesses = place.accesses(builder, p, at, given)
        if absent(mask):
            words = [_read(builder, access, dtype, None, None) for access in accesses]
            return pack(builder, fragment, [widen(builder, word, dtype) for word in words])
        masks = mask_vectors(builder, mask, masked, shape)
        fills = slots_of(builder, other, fill, dtype.compute, shape)
        slots = []
        for access, truth, instead in zip(accesses, masks, fills, strict=True):
            word = _read(builder, access, dtype, truth, narrow(builder, instead, dtype))
            slots.append(widen(builder, word, dtype))
        return pack(builder, fragment, slots)

    return fragment, lower


@operation
def store(pointer: Any, offset: Any, tile: Any, value: Any, sizes: Any = (), mask: Any = None) -> Typed:
    """Write the slots of a tile; `value` broadcasts to it, slots masked off touch no memory."""
    place = checked_place("store", pointer, offset, tile, sizes, mask)
    dtype, shape = place.pointer.dtype, place.tile.shape
    check_stored("store", place, value)

    def lower(builder: Builder, p: Value, at: Value, _: Value, v: Value, given: Value, masked: Value) -> None:
        accesses = list(place.accesses(builder, p, at, given))
        slots = slots_of(builder, value, v, dtype.compute, shape)
        words = [narrow(builder, slot, dtype) for slot in slots]
        if _streams(place, mask):
            _write_nontemporal(builder, accesses, dtype, words)
            return
        for access, word, truth in zip(accesses, words, mask_vectors(builder, mask, masked, shape), strict=True):
            _write(builder, access, dtype, word, truth)

    return types.void, lower


def check_stored(name: str, place: Place, value: Any) -> None:
    """Raise TypingError where `value` cannot be written to `place`."""
    dtype, shape = place.pointer.dtype, place.tile.shape
    if isinstance(value, Fragment):
        if value.dtype != dtype.compute and not value.weak:
            raise refuse(f"{name}: {value.dtype} slots into {dtype} memory; use cast")
        if broadcast_shape([value.shape, shape]) != shape:
            raise refuse(f"{name}: a value of shape {value.shape} does not broadcast to the tile's {shape}")
    elif weak_element(value) is None:
        raise refuse(f"{name}: expected a fragment or a number, got {value}")


@operation
def advance(pointer: Any, offset: Any) -> Typed:
    """`pointer` moved by `offset` elements, in 64-bit arithmetic."""
    if not isinstance(pointer, Pointer):
        return None

    def lower(builder: Builder, p: Value, at: Value) -> Value:
        return builder.gep(untyped(p), [index_value(builder, offset, at)], source_etype=pointer.dtype.memory)

    return pointer, lower


@operation
def shared(dtype: Any, count: Any) -> Typed:
    """Scratch memory of `count` elements, on a cache line of its own; every block of a chunk uses the same memory."""
    element = element_of(dtype, "shared")
    bytes_needed = literal(count, "the count of a shared buffer") * element.itemsize

    def lower(builder: Builder, *_: Value) -> Value:
        return scratch_address(builder, bytes_needed)

    return Pointer(element), lower
