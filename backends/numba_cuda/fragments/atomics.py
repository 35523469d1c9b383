"""Atomic updates: native where the hardware has them, a loop of compare-and-swap elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from math import prod
from typing import Any

from polyfuse.backends.numba_cuda.fragments.accesses import Placed, addresses, placed, predicates, space_name
from polyfuse.backends.numba_cuda.fragments.declare import Emit, literal, operation
from polyfuse.backends.numba_cuda.fragments.elementwise import kind_of
from polyfuse.backends.numba_cuda.fragments.formats import Access, narrow, widen
from polyfuse.backends.numba_cuda.fragments.memory import stored_value
from polyfuse.backends.numba_cuda.fragments.monoids import MONOIDS, FragmentMonoid, accepts
from polyfuse.backends.numba_cuda.fragments.slots import assembly, shape_of, spread
from polyfuse.backends.numba_cuda.fragments.values import (
    GLOBAL,
    I32,
    I64,
    Builder,
    DType,
    Value,
    float32,
    float64,
    is_signed,
    itemsize,
    memory_type,
    register_dtype,
)
from polyfuse.backends.numba_cuda.numba_api import TypingError, ir, target_capability, types

# the integer instruction of a monoid: signed, unsigned
_NATIVE = {
    "sum": ("add", "add"),
    "max": ("max", "umax"),
    "min": ("min", "umin"),
    "bitor": ("or", "or"),
    "bitand": ("and", "and"),
    "bitxor": ("xor", "xor"),
}

_IDEMPOTENT = frozenset(("max", "min", "bitor", "bitand"))
"""Monoids that keep a value which they are given twice."""


def _native(monoid: FragmentMonoid, dtype: DType) -> str | None:
    """The `atomicrmw` operation for integers of 4 and 8 bytes."""
    if kind_of(register_dtype(dtype)) not in "iu" or itemsize(dtype) < 4 or monoid.name not in _NATIVE:
        return None
    signed, unsigned = _NATIVE[monoid.name]
    return signed if is_signed(dtype) else unsigned


def _vector_width(where: Placed, monoid: FragmentMonoid) -> int:
    """Elements of one atomic instruction: sm_90 adds vectors of float32 in global memory."""
    vectors = monoid.name == "sum" and where.pointer.dtype == float32 and where.pointer.space == GLOBAL
    return where.access.width if vectors and target_capability() >= (9, 0) else 1


def _add_floats(b: Builder, where: Placed, address: Value, values: list[Value]) -> None:
    name = "f32" if where.pointer.dtype == float32 else "f64"
    vector, braces = ("", "$1") if len(values) == 1 else (f".v{len(values)}", "")
    if vector:
        braces = "{" + ", ".join(f"${k + 1}" for k in range(len(values))) + "}"
    text = f"red.{space_name(where.pointer)}.add{vector}.{name} [$0], {braces};"
    constraints = ",".join(["l"] + ["f" if name == "f32" else "d"] * len(values) + ["~{memory}"])
    arguments = [b.ptrtoint(address, I64), *values]
    assembly(b, text, constraints, ir.VoidType(), arguments, effect=True)


def _swap_loop(b: Builder, where: Placed, monoid: FragmentMonoid, address: Value, value: Value) -> None:
    """Compare and swap the word that holds the element until nobody came between."""
    dtype = where.pointer.dtype
    word = I64 if itemsize(dtype) == 8 else I32
    place = b.ptrtoint(address, I64)
    shift = None
    if itemsize(dtype) < 4:  # the aligned word around it
        shift = b.trunc(b.shl(b.and_(place, ir.Constant(I64, 3)), ir.Constant(I64, 3)), I32)
        place = b.and_(place, ir.Constant(I64, -4))
    target = b.inttoptr(place, word.as_pointer(where.pointer.space))
    before = b.block
    loop, after = b.append_basic_block("swap"), b.append_basic_block("swapped")
    first = b.load(target)
    b.branch(loop)
    b.position_at_end(loop)
    seen = b.phi(word)
    merged = _merged_word(b, monoid, dtype, seen, shift, value)
    outcome = b.cmpxchg(target, seen, merged, "monotonic", "monotonic")
    seen.add_incoming(first, before)
    seen.add_incoming(b.extract_value(outcome, 0), loop)
    b.cbranch(b.extract_value(outcome, 1), after, loop)
    b.position_at_end(after)


def _merged_word(
    b: Builder, monoid: FragmentMonoid, dtype: DType, seen: Value, shift: Value | None, value: Value
) -> Value:
    """The word with its element replaced by ``monoid(element, value)``."""
    single = Access(dtype, 1)
    stored = ir.IntType(8 * itemsize(dtype))
    bits = seen if shift is None else b.trunc(b.lshr(seen, shift), stored)
    (old,) = widen(b, single, [b.bitcast(bits, memory_type(dtype))])
    (new,) = monoid.merge(b, (register_dtype(dtype),), (old,), (value,))
    (packed,) = narrow(b, single, [new])
    packed = b.bitcast(packed, stored)
    if shift is None:
        return packed
    hole = b.not_(b.shl(ir.Constant(I32, (1 << stored.width) - 1), shift))
    return b.or_(b.and_(seen, hole), b.shl(b.zext(packed, I32), shift))


def _update(b: Builder, where: Placed, monoid: FragmentMonoid, address: Value, values: list[Value]) -> None:
    """One element, or a vector of them where one instruction takes it."""
    dtype = where.pointer.dtype
    native = _native(monoid, dtype)
    if native is not None:
        b.atomic_rmw(native, address, values[0], "monotonic")
    elif monoid.name == "sum" and dtype in (float32, float64):
        _add_floats(b, where, address, values)
    else:
        _swap_loop(b, where, monoid, address, values[0])


def _is_one_update(where: Placed, monoid: FragmentMonoid, value: Any) -> bool:
    """Whether all slots update one element with one value, and once does as well: what a thread reports of any of its
    data indices.  Sums of 21 rows of 16 float32 of a table: a branch instead of 21."""
    same = all(prod(shape_of(argument)) == 1 for argument in (where.offset, value))
    return monoid.name in _IDEMPOTENT and same and len(set(where.tile.offsets())) == 1


def _any(b: Builder, predicates: Sequence[Value | None]) -> Value | None:
    """Whether any of some predicates holds; None where one always does."""
    found: Value | None = None
    for predicate in predicates:
        if predicate is None:
            return None
        found = predicate if found is None else b.or_(found, predicate)
    return found


@operation
def atomic(
    monoid: Any, pointer: Any, offset: Any, tile: Any, value: Any, sizes: Any = (), mask: Any = None
) -> tuple[Any, Emit] | None:
    """``pointer[...] = monoid(pointer[...], value)`` for every slot, each as one atomic update."""
    name = literal(monoid, "the monoid of an atomic update")
    where = placed(pointer, offset, tile, sizes, mask)
    if where is None:
        return None
    chosen = MONOIDS[name]
    if chosen.states > 1:
        raise TypingError(f"{name} has no atomic update: its state is a pair")
    stored_value(value, where)
    dtype = register_dtype(where.pointer.dtype)
    accepts(chosen, dtype)

    once = _is_one_update(where, chosen, value)

    def emit(b: Builder, _: Value, p: Value, at: Value, __: Value, v: Value, n: Value, m: Value) -> None:
        width, step = _vector_width(where, chosen), where.access.width
        slots = spread(b, value, v, dtype, where.tile.shape)
        targets = list(zip(addresses(b, where, p, at, n), predicates(b, where, m), strict=True))
        if once:
            targets = [(targets[0][0], _any(b, [predicate for _, predicate in targets]))]
        for k, (address, predicate) in enumerate(targets):
            with contextlib.nullcontext() if predicate is None else b.if_then(predicate):
                for j in range(0, step, width):
                    element = b.gep(address, [ir.Constant(I32, j)]) if j else address
                    _update(b, where, chosen, element, slots[k * step + j : k * step + j + width])

    return types.void, emit
