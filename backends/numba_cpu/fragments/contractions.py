"""Contractions: sums of products over slot axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyfuse.backends.numba_cpu.fragments.conversions import is_strong, slots_of
from polyfuse.backends.numba_cpu.fragments.elements import Element
from polyfuse.backends.numba_cpu.fragments.elementwise import broadcast_shape
from polyfuse.backends.numba_cpu.fragments.layouts import Shape, vector_layout
from polyfuse.backends.numba_cpu.fragments.monoids import MONOID_OPERATIONS
from polyfuse.backends.numba_cpu.fragments.operation import Typed, operation, refuse
from polyfuse.backends.numba_cpu.fragments.reductions import checked_axes, reduce_slots, reduced_shape
from polyfuse.backends.numba_cpu.fragments.types import Fragment
from polyfuse.backends.numba_cpu.fragments.vectors import (
    Builder,
    Value,
    gathered,
    intrinsic,
    lane,
    lanes_of,
    pack,
    spread,
    unpack,
)


@operation
def contract(acc: Any, x: Any, y: Any, axes: Any) -> Typed:
    """``acc + sum over axes of x * y``: one chain of fused multiply-adds per slot of `acc`, in C order of the axes.

    Along the lanes of vectors a chain would wait for itself at every slot; there the chains of the lanes are summed as
    a balanced tree, then added to `acc`.
    """
    if not all(is_strong(operand) for operand in (acc, x, y)):
        return None
    dtype = acc.dtype
    if {x.dtype, y.dtype} != {dtype}:
        raise refuse(f"contract: {acc.dtype}, {x.dtype} and {y.dtype} differ; use cast")
    shape = broadcast_shape([x.shape, y.shape])
    gone = checked_axes("contract", axes, shape)
    result = Fragment(dtype, broadcast_shape([acc.shape, reduced_shape(shape, gone)]))
    lanes = vector_layout(shape).axis

    def lower(builder: Builder, a: Value, u: Value, v: Value, _: Value) -> Value:
        totals = slots_of(builder, acc, a, dtype, result.shape)
        if lanes not in gone:
            return pack(builder, result, _chains(builder, totals, ((x, u), (y, v)), shape, gone, result.shape))
        outer = tuple(axis for axis in gone if axis != lanes)
        inner = reduced_shape(shape, outer)
        partial = _chains(builder, None, ((x, u), (y, v)), shape, outer, inner)
        columns = [(vector,) for vector in partial]
        sums = reduce_slots(builder, MONOID_OPERATIONS["sum"], (dtype,), columns, inner, (lanes,))
        whole = spread(builder, [s for (s,) in sums], reduced_shape(inner, (lanes,)), result.shape)
        plus = builder.fadd if dtype.is_float else builder.add
        return pack(builder, result, [plus(t, s) for t, s in zip(totals, whole, strict=True)])

    return result, lower


def _chains(
    builder: Builder,
    totals: list[Value] | None,
    operands: Sequence[tuple[Fragment, Value]],
    shape: Shape,
    gone: Sequence[int],
    target: Shape,
) -> list[Value]:
    """The products of every position of the axes `gone`, added to `totals` one after the other."""
    dtype = operands[0][0].dtype
    for slot in np.ndindex(*(shape[axis] for axis in gone)):
        place = dict(zip(gone, slot, strict=True))
        left, right = (slots_at(builder, fragment, value, place, target) for fragment, value in operands)
        if totals is None:
            product = builder.fmul if dtype.is_float else builder.mul
            totals = [product(*row) for row in zip(left, right, strict=True)]
        else:
            totals = [_accumulate(builder, dtype, *row) for row in zip(totals, left, right, strict=True)]
    assert totals is not None
    return totals


def _accumulate(builder: Builder, dtype: Element, total: Value, x: Value, y: Value) -> Value:
    if dtype.is_float:
        return intrinsic(builder, "llvm.fma", x, y, total)
    return builder.add(total, builder.mul(x, y))


def slots_at(builder: Builder, fragment: Fragment, value: Value, place: dict[int, int], target: Shape) -> list[Value]:
    """The slice of a fragment at the positions of some axes, broadcast to `target`."""
    rank = len(target)
    shape = (1,) * (rank - len(fragment.shape)) + fragment.shape
    slots = np.arange(fragment.size).reshape(shape)
    for axis, position in place.items():
        slots = slots.take([position if shape[axis] > 1 else 0], axis)
    vectors = unpack(builder, fragment, value)
    slice_fragment = Fragment(fragment.dtype, slots.shape)
    layout, numbers = slice_fragment.layout, slots.ravel()
    pieces, start = [], 0
    for lanes in layout.chunks * layout.rows:
        found = [fragment.layout.locate(int(number)) for number in numbers[start : start + lanes]]
        first = found[0][0]
        whole = all(item == (first, k) for k, item in enumerate(found)) and lanes_of(vectors[first].type) == lanes
        if whole:
            pieces.append(vectors[first])
        else:
            pieces.append(gathered(builder, [lane(builder, vectors[vector], k) for vector, k in found]))
        start += lanes
    return spread(builder, pieces, slots.shape, target)
