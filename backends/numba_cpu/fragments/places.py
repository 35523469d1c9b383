"""Where a load or a store reaches: the addresses of the vectors of a tile."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types

from polyfuse.backends.numba_cpu.fragments.conversions import convert, index_value, slots_of, weak_element
from polyfuse.backends.numba_cpu.fragments.elements import boolean, int64
from polyfuse.backends.numba_cpu.fragments.elementwise import broadcast_shape
from polyfuse.backends.numba_cpu.fragments.layouts import LANES, Offset, Size, Tile
from polyfuse.backends.numba_cpu.fragments.operation import refuse
from polyfuse.backends.numba_cpu.fragments.types import Fragment, Pointer, TileType
from polyfuse.backends.numba_cpu.fragments.vectors import I64, Builder, Value, lane, lanes_of, splat, untyped


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

    def matrices(
        self, builder: Builder, pointer: Value, offset: Value, sizes: Value, inner: int
    ) -> Iterator[tuple[list[int], Value, int | Value]]:
        """For every position of the axes but `inner` (of unit stride) and the last one: the numbers of its rows, the
        address of its first slot, and the stride along the last axis.  Only where the offset is equal in all of it."""
        known = self._sizes(builder, sizes)
        stride, moves = self._stride(builder, known), self._row_moves(builder, offset)
        axis, shape = self.tile.axis, self.tile.shape
        assert axis is not None
        per_row = len(Fragment(boolean, shape).layout.chunks)
        element = self.pointer.dtype.memory
        for place in itertools.product(*(range(1 if d == inner else n) for d, n in enumerate(shape[:axis]))):
            rows = [
                int(np.ravel_multi_index((*place[:inner], k, *place[inner + 1 :]), shape[:axis]))
                for k in range(shape[inner])
            ]
            first = self.tile.offset((*place, *(0,) * (len(shape) - axis)))
            base = _moved(builder, untyped(pointer), first, known, element)
            yield rows, builder.gep(base, [moves[rows[0] * per_row]], source_etype=element), stride

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
    return builder.add(offsets, lane_steps(builder, lanes_of(offsets.type), stride))


def lane_steps(builder: Builder, lanes: int, stride: int | Value) -> Value:
    ty = ir.VectorType(I64, lanes)
    if isinstance(stride, int):
        return ir.Constant(ty, [k * stride for k in range(lanes)])
    return builder.mul(splat(builder, stride, lanes), ir.Constant(ty, list(range(lanes))))


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
