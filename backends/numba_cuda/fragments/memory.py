"""Loads and stores of tiles: whole accesses, each plain or under one condition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from polyfuse.backends.numba_cuda.fragments.accesses import (
    Placed,
    addresses,
    fits,
    masked_load,
    masked_store,
    placed,
    plain_load,
    plain_store,
    predicates,
)
from polyfuse.backends.numba_cuda.fragments.declare import Emit, given, operation
from polyfuse.backends.numba_cuda.fragments.formats import narrow, widen
from polyfuse.backends.numba_cuda.fragments.slots import is_scalar, pack, seldom, spread
from polyfuse.backends.numba_cuda.fragments.values import (
    GLOBAL,
    I64,
    Builder,
    Fragment,
    Pointer,
    Value,
    boolean,
    register_dtype,
)
from polyfuse.backends.numba_cuda.numba_api import TypingError, ir, types


def _taken(where: Placed, elements: list[Value]) -> list[Value]:
    """The slots in C order from the elements of all accesses."""
    width, found = where.access.width, list[Any]([None] * len(where.tile.offsets()))
    for k, group in enumerate(where.groups):
        for slot, element in group:
            found[slot] = elements[k * width + element]
    return found


def _arranged(where: Placed, slots: list[Value]) -> list[Value]:
    """The elements of all accesses from the slots; what lies between the slots of a load is any of them."""
    found = []
    for group in where.groups:
        elements = [slots[group[0][0]]] * where.access.width
        for slot, element in group:
            elements[element] = slots[slot]
        found += elements
    return found


@operation
def load(
    pointer: Any, offset: Any, tile: Any, sizes: Any = (), mask: Any = None, other: Any = 0, some: Any = None
) -> tuple[Fragment, Emit] | None:
    """Read a tile; slots masked off get `other` and touch no memory.  `some`: whether any slot of the block is read;
    where none is, a branch passes all of the masks by."""
    where = placed(pointer, offset, tile, sizes, mask)
    if where is None:
        return None
    access, shape = where.access, where.tile.shape
    fragment = Fragment(register_dtype(where.pointer.dtype), shape)

    def emit(b: Builder, p: Value, at: Value, _: Value, n: Value, m: Value, fill: Value, s: Value) -> Value:
        targets = addresses(b, where, p, at, n)
        if where.mask is None:
            words = [word for address in targets for word in plain_load(b, where, address)]
            return pack(b, fragment, _taken(where, widen(b, access, words)))
        kind, value = (other, fill) if given(other) else (types.literal(0), ir.Constant(I64, 0))
        others = narrow(b, access, _arranged(where, spread(b, kind, value, fragment.dtype, shape)))

        def masked() -> Iterator[Value]:
            for k, (address, predicate) in enumerate(zip(targets, predicates(b, where, m), strict=True)):
                unread = others[k * access.count : (k + 1) * access.count]
                yield from masked_load(b, where, access, address, predicate, unread)

        words = seldom(b, spread(b, some, s, boolean, ())[0], others, masked) if given(some) else list(masked())
        return pack(b, fragment, _taken(where, widen(b, access, words)))

    return fragment, emit


def stored_value(value: Any, where: Placed) -> None:
    """Raise TypingError where a value has not the register type of its memory or does not broadcast to the tile."""
    pointer = where.pointer
    strong = isinstance(value, Fragment) and not value.weak
    if strong and value.dtype != register_dtype(pointer.dtype):
        raise TypingError(f"cannot store {value} through {pointer}: use cast()")
    if not isinstance(value, Fragment) and not is_scalar(value):
        raise TypingError(f"cannot store {value}")
    fits(value, where.tile)


@operation
def store(
    pointer: Any, offset: Any, tile: Any, value: Any, sizes: Any = (), mask: Any = None
) -> tuple[Any, Emit] | None:
    """Write a tile; `value` broadcasts to it."""
    where = placed(pointer, offset, tile, sizes, mask)
    if where is None:
        return None
    stored_value(value, where)
    access = where.access

    def emit(b: Builder, p: Value, at: Value, _: Value, v: Value, n: Value, m: Value) -> None:
        slots = spread(b, value, v, register_dtype(where.pointer.dtype), where.tile.shape)
        words = narrow(b, access, _arranged(where, slots))
        targets = zip(addresses(b, where, p, at, n), predicates(b, where, m), strict=True)
        for k, (address, predicate) in enumerate(targets):
            part = words[k * access.count : (k + 1) * access.count]
            if predicate is None:
                plain_store(b, where, address, part)
            else:
                masked_store(b, where, access, address, predicate, part)

    return types.void, emit


@operation
def advance(pointer: Any, offset: Any) -> tuple[Pointer, Emit] | None:
    """The pointer plus an offset in elements, in 64-bit arithmetic."""
    if not isinstance(pointer, Pointer):
        return None

    def emit(b: Builder, p: Value, at: Value) -> Value:
        (wide,) = spread(b, offset, at, types.int64, ())
        return b.gep(p, [wide])

    return pointer, emit


@operation
def evict_last(pointer: Any) -> tuple[Pointer, Emit] | None:
    """The pointer to a read-only array of global memory, whose loads ask the last-level cache to let other data go
    first."""
    if not isinstance(pointer, Pointer):
        return None
    if not pointer.readonly or pointer.space != GLOBAL:
        raise TypingError(f"{pointer} is not to a read-only array")
    return Pointer(pointer.dtype, pointer.space, readonly=True, evicted_last=True), lambda b, p: p
