"""load, store, advance and shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import types

from polyfuse.backends.numba_cpu.fragments.accesses import read, streams, write, write_nontemporal
from polyfuse.backends.numba_cpu.fragments.conversions import index_value, narrow, slots_of, widen
from polyfuse.backends.numba_cpu.fragments.elements import boolean
from polyfuse.backends.numba_cpu.fragments.elementwise import element_of
from polyfuse.backends.numba_cpu.fragments.frame import scratch_address
from polyfuse.backends.numba_cpu.fragments.operation import Typed, absent, literal, operation
from polyfuse.backends.numba_cpu.fragments.places import Place, check_stored, checked_place
from polyfuse.backends.numba_cpu.fragments.transposes import read_transposed, unit_axis, write_transposed
from polyfuse.backends.numba_cpu.fragments.types import Fragment, Pointer
from polyfuse.backends.numba_cpu.fragments.vectors import I1, Builder, Value, intrinsic, pack, untyped


@operation
def load(pointer: Any, offset: Any, tile: Any, sizes: Any = (), mask: Any = None, other: Any = 0) -> Typed:
    """Read the slots of a tile; slots masked off get `other` and touch no memory."""
    place = checked_place("load", pointer, offset, tile, sizes, mask)
    dtype, shape = place.pointer.dtype, place.tile.shape
    fragment = Fragment(dtype.compute, shape)

    def lower(builder: Builder, p: Value, at: Value, _: Value, given: Value, masked: Value, fill: Value) -> Value:
        values = (p, at, given)
        if absent(mask):
            words = _read_tile(builder, place, values)
        else:
            masks = slots_of(builder, mask, masked, boolean, shape)
            fills = slots_of(builder, other, fill, dtype.compute, shape)
            words = _read_masked(builder, place, values, masks, [narrow(builder, v, dtype) for v in fills])
        return pack(builder, fragment, [widen(builder, word, dtype) for word in words])

    return fragment, lower


Values = tuple[Value, Value, Value]  # pointer, offset, sizes


def _read_tile(builder: Builder, place: Place, values: Values) -> list[Value]:
    across = unit_axis(place)
    if across is not None:
        return read_transposed(builder, place, values, *across)
    return [read(builder, access, place.pointer.dtype, None, None) for access in place.accesses(builder, *values)]


def _read_masked(
    builder: Builder, place: Place, values: Values, masks: Sequence[Value], others: Sequence[Value]
) -> list[Value]:
    """A tile that would be transposed is, where every slot is wanted; its masked form is a gather."""

    def by_vector() -> list[Value]:
        accesses = place.accesses(builder, *values)
        rows = zip(accesses, masks, others, strict=True)
        return [read(builder, access, place.pointer.dtype, mask, other) for access, mask, other in rows]

    if unit_axis(place) is None:
        return by_vector()
    results: list[tuple[list[Value], Value]] = []
    with builder.if_else(_all_set(builder, masks), likely=True) as (whole, partial):
        with whole:
            results.append((_read_tile(builder, place, values), builder.block))
        with partial:
            results.append((by_vector(), builder.block))
    merged = []
    for column in zip(*(words for words, _ in results), strict=True):
        phi = builder.phi(column[0].type)
        for word, (_, block) in zip(column, results, strict=True):
            phi.add_incoming(word, block)
        merged.append(phi)
    return merged


def _all_set(builder: Builder, masks: Sequence[Value]) -> Value:
    """One bit: whether every slot is wanted."""
    total = I1(1)
    for mask in masks:
        wide = isinstance(mask.type, ir.VectorType)
        every = intrinsic(builder, "llvm.vector.reduce.and", mask, result=I1) if wide else mask
        total = builder.and_(total, every)
    return total


@operation
def store(pointer: Any, offset: Any, tile: Any, value: Any, sizes: Any = (), mask: Any = None) -> Typed:
    """Write the slots of a tile; `value` broadcasts to it, slots masked off touch no memory."""
    place = checked_place("store", pointer, offset, tile, sizes, mask)
    dtype, shape = place.pointer.dtype, place.tile.shape
    check_stored("store", place, value)

    def lower(builder: Builder, p: Value, at: Value, _: Value, v: Value, given: Value, masked: Value) -> None:
        slots = slots_of(builder, value, v, dtype.compute, shape)
        words = [narrow(builder, slot, dtype) for slot in slots]
        if streams(place, mask):
            write_nontemporal(builder, list(place.accesses(builder, p, at, given)), dtype, words)
        elif absent(mask):
            _write_tile(builder, place, (p, at, given), words)
        else:
            masks = slots_of(builder, mask, masked, boolean, shape)
            _write_masked(builder, place, (p, at, given), masks, words)

    return types.void, lower


def _write_tile(builder: Builder, place: Place, values: Values, words: Sequence[Value]) -> None:
    across = unit_axis(place)
    if across is not None:
        write_transposed(builder, place, values, *across, words)
        return
    for access, word in zip(place.accesses(builder, *values), words, strict=True):
        write(builder, access, place.pointer.dtype, word, None)


def _write_masked(
    builder: Builder, place: Place, values: Values, masks: Sequence[Value], words: Sequence[Value]
) -> None:
    def by_vector() -> None:
        for access, mask, word in zip(place.accesses(builder, *values), masks, words, strict=True):
            write(builder, access, place.pointer.dtype, word, mask)

    if unit_axis(place) is None:
        by_vector()
        return
    with builder.if_else(_all_set(builder, masks), likely=True) as (whole, partial):
        with whole:
            _write_tile(builder, place, values, words)
        with partial:
            by_vector()


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
