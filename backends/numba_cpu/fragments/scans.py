"""Prefix scans over a slot axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from polyfuse.backends.numba_cpu.fragments.conversions import is_strong
from polyfuse.backends.numba_cpu.fragments.monoids import MONOID_OPERATIONS, MonoidOperation, neutral_state
from polyfuse.backends.numba_cpu.fragments.operation import Typed, Typer, literal, operation, refuse
from polyfuse.backends.numba_cpu.fragments.reductions import reduced_shape
from polyfuse.backends.numba_cpu.fragments.types import Fragment
from polyfuse.backends.numba_cpu.fragments.vectors import (
    Builder,
    Value,
    from_scalars,
    lane,
    lanes_of,
    pack,
    shuffle,
    splat,
    unpack,
)


def _merged(builder: Builder, monoid: MonoidOperation, fragment: Fragment, x: Value, y: Value) -> Value:
    return monoid.merge(builder, (fragment.dtype,), (x,), (y,))[0]


def _neutral(monoid: MonoidOperation, fragment: Fragment, ty: ir.Type) -> Value:
    return neutral_state(monoid, (fragment.dtype,), (ty,))[0]


def _scan_rows(
    builder: Builder, monoid: MonoidOperation, x: Fragment, vectors: Sequence[Value], axis: int, order: Sequence[int],
    exclusive: bool,
) -> tuple[list[Value], list[Value]]:
    """Along an axis before the vector axis: whole vectors, one position after the other.  (prefixes, totals)"""
    layout = x.layout
    per_row, assert_axis = len(layout.chunks), layout.axis
    assert assert_axis is not None
    leading = x.shape[:assert_axis]
    rows = np.moveaxis(np.arange(layout.rows).reshape(leading), axis, -1).reshape(-1, x.shape[axis])
    prefixes, totals = list(vectors), []
    for row in rows:
        for chunk in range(per_row):
            running = _neutral(monoid, x, vectors[int(row[0]) * per_row + chunk].type)
            for step, position in enumerate(order):
                index = int(row[position]) * per_row + chunk
                following = vectors[index] if step == 0 else _merged(builder, monoid, x, running, vectors[index])
                prefixes[index] = running if exclusive else following
                running = following
            totals.append(running)
    return prefixes, totals


def _scan_lanes(
    builder: Builder, monoid: MonoidOperation, x: Fragment, vectors: Sequence[Value], reverse: bool, exclusive: bool
) -> tuple[list[Value], list[Value]]:
    """Along the vector axis: log2 steps within a vector (Hillis and Steele, CACM 1986), a carry between vectors."""
    per_row = len(x.layout.chunks)
    prefixes, totals = list(vectors), []
    for row in range(x.layout.rows):
        carry = None
        chunks = range(per_row - 1, -1, -1) if reverse else range(per_row)
        for chunk in chunks:
            index = row * per_row + chunk
            within, before = _scan_vector(builder, monoid, x, vectors[index], reverse)
            count = lanes_of(within.type)
            total = lane(builder, within, 0 if reverse else count - 1)
            wanted = before if exclusive else within
            if carry is None:
                prefixes[index], carry = wanted, total
            else:
                prefixes[index] = _merged(builder, monoid, x, splat(builder, carry, count), wanted)
                carry = _merged(builder, monoid, x, carry, total)
        totals.append(carry)
    return prefixes, totals


def _scan_vector(
    builder: Builder, monoid: MonoidOperation, x: Fragment, vector: Value, reverse: bool
) -> tuple[Value, Value]:
    """(inclusive, exclusive) prefixes of the lanes."""
    count = lanes_of(vector.type)
    neutral = _neutral(monoid, x, vector.type)
    if count == 1:
        return vector, neutral

    def shifted(value: Value, by: int) -> Value:
        if reverse:
            return shuffle(builder, value, neutral, [k + by if k + by < count else count for k in range(count)])
        return shuffle(builder, value, neutral, [k - by if k >= by else count for k in range(count)])

    step = 1
    while step < count:
        vector = _merged(builder, monoid, x, shifted(vector, step), vector)
        step *= 2
    return vector, shifted(vector, 1)


def _scan(monoid: MonoidOperation, x: Any, axis: Any, threads: Any, exclusive: Any, reverse: Any) -> Typed:
    name = f"scan_{monoid.name}"
    if not is_strong(x):
        return None
    if x.dtype.kind not in monoid.kinds:
        raise refuse(f"{name} is not defined for {x.dtype}")
    if literal(threads, f"the block size of {name}") != 1:
        raise refuse(f"{name}: a block has one thread on a CPU")
    along = literal(axis, f"the axis of {name}")
    along = None if along is None or x.shape[along] == 1 else along % len(x.shape)
    without, backwards = bool(literal(exclusive, "exclusive")), bool(literal(reverse, "reverse"))
    total = x if along is None else Fragment(x.dtype, reduced_shape(x.shape, (along,)))

    def lower(builder: Builder, value: Value, *_: Value) -> Value:
        vectors = unpack(builder, x, value)
        if along is None:
            prefixes = [_neutral(monoid, x, v.type) for v in vectors] if without else vectors
            totals = pack(builder, total, vectors)
        elif along == x.layout.axis:
            prefixes, scalars = _scan_lanes(builder, monoid, x, vectors, backwards, without)
            totals = from_scalars(builder, total, scalars)
        else:
            order = range(x.shape[along])
            prefixes, rows = _scan_rows(
                builder, monoid, x, vectors, along, list(reversed(order) if backwards else order), without
            )
            totals = pack(builder, total, rows)
        first = pack(builder, x, prefixes)
        result = ir.Constant(ir.LiteralStructType([first.type, totals.type]), ir.Undefined)
        return builder.insert_value(builder.insert_value(result, first, 0), totals, 1)

    return types.Tuple([x, total]), lower


def _scan_operation(monoid: MonoidOperation) -> Typer:
    def scan(x: Any, axis: Any, bits: Any, threads: Any, exclusive: Any = False, reverse: Any = False) -> Typed:
        return _scan(monoid, x, axis, threads, exclusive, reverse)

    scan.__name__ = scan.__qualname__ = f"scan_{monoid.name}"
    return operation(scan)


SCANS = {f"scan_{name}": _scan_operation(monoid) for name, monoid in MONOID_OPERATIONS.items() if monoid.state == 1}
