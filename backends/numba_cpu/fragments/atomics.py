"""Atomic updates of memory, one slot after the other."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from polyfuse.backends.numba_cpu.fragments.conversions import narrow, slots_of, widen
from polyfuse.backends.numba_cpu.fragments.elements import Element, boolean
from polyfuse.backends.numba_cpu.fragments.monoids import MONOID_OPERATIONS, MonoidOperation
from polyfuse.backends.numba_cpu.fragments.operation import Typed, absent, literal, operation, refuse
from polyfuse.backends.numba_cpu.fragments.places import Access, check_stored, checked_place
from polyfuse.backends.numba_cpu.fragments.vectors import I64, Builder, Value, lane, lanes_of

# Monoids that the machine updates in one instruction on integers.
_DIRECT = {
    ("sum", "i"): "add",
    ("sum", "u"): "add",
    ("max", "i"): "max",
    ("max", "u"): "umax",
    ("min", "i"): "min",
    ("min", "u"): "umin",
    ("bitor", "i"): "or",
    ("bitor", "u"): "or",
    ("bitand", "i"): "and",
    ("bitand", "u"): "and",
    ("bitxor", "i"): "xor",
    ("bitxor", "u"): "xor",
}


@operation
def atomic(
    monoid: Any, pointer: Any, offset: Any, tile: Any, value: Any, sizes: Any = (), mask: Any = None
) -> Typed:
    """``memory = monoid(memory, value)`` for every slot, atomically among all blocks (relaxed order)."""
    found = MONOID_OPERATIONS.get(literal(monoid, "the monoid of atomic"))
    if found is None or found.state != 1:
        raise refuse(f"atomic: no atomic update for the monoid {monoid.literal_value}")
    place = checked_place("atomic", pointer, offset, tile, sizes, mask)
    check_stored("atomic", place, value)
    dtype, shape = place.pointer.dtype, place.tile.shape
    if dtype.kind not in found.kinds:
        raise refuse(f"atomic: {found.name} is not defined for {dtype}")

    def lower(
        builder: Builder, _: Value, p: Value, at: Value, __: Value, v: Value, given: Value, masked: Value
    ) -> None:
        slots = slots_of(builder, value, v, dtype.compute, shape)
        masks = [None] * len(slots) if absent(mask) else slots_of(builder, mask, masked, boolean, shape)
        accesses = list(place.accesses(builder, p, at, given))
        for access, slot, truth in zip(accesses, slots, masks, strict=True):
            for k in range(lanes_of(slot.type)):
                address = _lane_address(builder, access, k, dtype)
                operand = lane(builder, slot, k)
                if truth is None:
                    _update(builder, found, dtype, address, operand)
                    continue
                with builder.if_then(lane(builder, truth, k)):
                    _update(builder, found, dtype, address, operand)

    return types.void, lower


def _lane_address(builder: Builder, access: Access, k: int, dtype: Element) -> Value:
    if access.offsets is not None:
        step = lane(builder, access.offsets, k)
    elif isinstance(access.stride, int):
        step = I64(k * access.stride)
    else:
        step = builder.mul(access.stride, I64(k))
    return builder.gep(access.address, [step], source_etype=dtype.memory)


def _update(builder: Builder, monoid: MonoidOperation, dtype: Element, address: Value, operand: Value) -> None:
    direct = _DIRECT.get((monoid.name, dtype.kind))
    if direct is not None:
        builder.atomic_rmw(direct, address, operand, "monotonic")
        return
    _compare_and_swap(builder, monoid, dtype, address, operand)


def _compare_and_swap(
    builder: Builder, monoid: MonoidOperation, dtype: Element, address: Value, operand: Value
) -> None:
    """Retry until no other block came between reading and writing; floats travel as integers of their width."""
    word = ir.IntType(dtype.bits)
    first = builder.load_atomic(address, "monotonic", dtype.itemsize, typ=word)
    entry = builder.block
    loop, done = builder.append_basic_block("retry"), builder.append_basic_block("updated")
    builder.branch(loop)
    builder.position_at_end(loop)
    seen = builder.phi(word)
    seen.add_incoming(first, entry)
    old = widen(builder, builder.bitcast(seen, dtype.memory), dtype)
    new = monoid.merge(builder, (dtype.compute,), (old,), (operand,))[0]
    wanted = builder.bitcast(narrow(builder, new, dtype), word)
    outcome = builder.cmpxchg(address, seen, wanted, "monotonic")
    seen.add_incoming(builder.extract_value(outcome, 0), builder.block)
    builder.cbranch(builder.extract_value(outcome, 1), done, loop)
    builder.position_at_end(done)
