"""Masked, gathered and scattered accesses lane by lane, in a loop, where the processor has no instruction for them.

LLVM would expand each lane of such an access into a branch of its own: a thousand of them for a tile of 32 x 32.
"""

from __future__ import annotations

from llvmlite import ir

from polyfuse.backends.numba_cpu.fragments.vectors import (
    Builder,
    Value,
    each_lane,
    scalar_of,
    shared_function,
    stack_slot,
)

_BYTE = ir.IntType(8)
_POINTER = ir.PointerType()


def read_lanes(builder: Builder, other: Value, addresses: Value, mask: Value) -> Value:
    """The words at `addresses` where `mask` holds, else the lanes of `other`."""
    return shared_function(builder, "read_lanes", _read_body, other, addresses, mask, inline=False)


def write_lanes(builder: Builder, words: Value, addresses: Value, mask: Value) -> None:
    """Store the lanes of `words` at `addresses` where `mask` holds, in order."""
    shared_function(builder, "write_lanes", _write_body, words, addresses, mask, inline=False)


def _in_memory(builder: Builder, value: Value) -> Value:
    slot = stack_slot(builder, value.type)
    builder.store(value, slot)
    return slot


def _bytes(builder: Builder, mask: Value) -> Value:
    """The mask in bytes, as many as lanes: one of a single lane is a vector as well."""
    return builder.zext(mask, ir.VectorType(_BYTE, mask.type.count))


def _read_body(builder: Builder, other: Value, addresses: Value, mask: Value) -> Value:
    scalar = scalar_of(other.type)
    slots = [_in_memory(builder, v) for v in (other, addresses, _bytes(builder, mask))]
    with each_lane(builder, other.type.count) as k:
        result, address, wanted = (
            builder.gep(slot, [k], source_etype=ty) for slot, ty in zip(slots, (scalar, _POINTER, _BYTE), strict=True)
        )
        with builder.if_then(builder.icmp_unsigned("!=", builder.load(wanted, typ=_BYTE), _BYTE(0))):
            word = builder.load(builder.load(address, typ=_POINTER), typ=scalar)
            word.align = 1
            builder.store(word, result)
    return builder.load(slots[0], typ=other.type)


def _write_body(builder: Builder, words: Value, addresses: Value, mask: Value) -> Value:
    scalar = scalar_of(words.type)
    slots = [_in_memory(builder, v) for v in (words, addresses, _bytes(builder, mask))]
    with each_lane(builder, words.type.count) as k:
        source, address, wanted = (
            builder.gep(slot, [k], source_etype=ty) for slot, ty in zip(slots, (scalar, _POINTER, _BYTE), strict=True)
        )
        with builder.if_then(builder.icmp_unsigned("!=", builder.load(wanted, typ=_BYTE), _BYTE(0))):
            builder.store(builder.load(source, typ=scalar), builder.load(address, typ=_POINTER)).align = 1
    return words
