"""Reductions over slots and threads, and contractions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from polyfuse.backends.numba_cpu.fragments.conversions import is_strong
from polyfuse.backends.numba_cpu.fragments.elements import Element
from polyfuse.backends.numba_cpu.fragments.elementwise import broadcast_shape
from polyfuse.backends.numba_cpu.fragments.layouts import Shape
from polyfuse.backends.numba_cpu.fragments.monoids import MONOID_OPERATIONS, MonoidOperation, State
from polyfuse.backends.numba_cpu.fragments.operation import Typed, Typer, literal, operation, refuse
from polyfuse.backends.numba_cpu.fragments.types import Fragment
from polyfuse.backends.numba_cpu.fragments.vectors import (
    Builder,
    Value,
    gathered,
    joined,
    lane,
    lanes_of,
    pack,
    shuffle,
    spread,
    unpack,
)

Dtypes = tuple[Element, ...]


def checked_axes(name: str, argument: Any, shape: Shape) -> tuple[int, ...]:
    """A literal tuple of axes of `shape`, sorted."""
    axes = literal(argument, f"the axes of {name}")
    axes = axes if isinstance(axes, tuple) else (axes,)
    if any(not -len(shape) <= axis < len(shape) for axis in axes):
        raise refuse(f"{name}: axes {axes} of a fragment of shape {shape}")
    return tuple(sorted({axis % len(shape) for axis in axes}))


def reduced_shape(shape: Shape, axes: Sequence[int]) -> Shape:
    return tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))


def tree(builder: Builder, monoid: MonoidOperation, dtypes: Dtypes, states: Sequence[State]) -> State:
    """Combine neighbours until one state is left: a balanced tree in the order given."""
    level = list(states)
    while len(level) > 1:
        merged = [
            monoid.merge(builder, dtypes, *level[k : k + 2]) for k in range(0, len(level) - 1, 2)
        ]
        level = merged + level[len(level) - len(level) % 2 :]
    return level[0]


def fold_lanes(builder: Builder, monoid: MonoidOperation, dtypes: Dtypes, state: State) -> State:
    """The lanes of one vector combined: halves where the order does not matter, else neighbours."""
    while (count := lanes_of(state[0].type)) > 1:
        half = count // 2
        if monoid.exact(dtypes[0]):
            left, right = range(half), range(half, 2 * half)
        else:
            left, right = range(0, 2 * half, 2), range(1, 2 * half, 2)
        sides = [tuple(shuffle(builder, v, None, list(lanes)) for v in state) for lanes in (left, right)]
        merged = monoid.merge(builder, dtypes, *sides)
        if count % 2:
            merged = tuple(
                joined(builder, v, lane(builder, whole, count - 1)) for v, whole in zip(merged, state, strict=True)
            )
        state = merged
    return state


def fold_vectors(builder: Builder, monoid: MonoidOperation, dtypes: Dtypes, states: Sequence[State]) -> State:
    """All lanes of consecutive vectors combined, as a balanced tree over the slots in C order."""
    if monoid.exact(dtypes[0]):
        widths = dict.fromkeys(lanes_of(state[0].type) for state in states)
        whole = [tree(builder, monoid, dtypes, [s for s in states if lanes_of(s[0].type) == w]) for w in widths]
        return tree(builder, monoid, dtypes, [fold_lanes(builder, monoid, dtypes, state) for state in whole])
    level = list(states)
    while len(level) > 1:
        level = _halved(builder, monoid, dtypes, level)
    return fold_lanes(builder, monoid, dtypes, level[0])


def _halved(builder: Builder, monoid: MonoidOperation, dtypes: Dtypes, level: list[State]) -> list[State]:
    """One level of the tree over slots that lie in several vectors: pairs of whole vectors give one vector of sums of
    neighbours; a vector without a partner of its width folds on its own, or joins its predecessor."""
    result: list[State] = []
    position = 0
    while position < len(level):
        state = level[position]
        width = lanes_of(state[0].type)
        follower = level[position + 1] if position + 1 < len(level) else None
        if width % 2:  # an odd vector must be the last: gather what is left slot by slot
            scalars = [
                tuple(lane(builder, v, k) for v in s) for s in level[position:] for k in range(lanes_of(s[0].type))
            ]
            pairs = [monoid.merge(builder, dtypes, *scalars[k : k + 2]) for k in range(0, len(scalars) - 1, 2)]
            pairs += scalars[len(scalars) - len(scalars) % 2 :]
            result.append(tuple(gathered(builder, column) for column in zip(*pairs, strict=True)))
            break
        if follower is not None and lanes_of(follower[0].type) == width:
            pair = [(a, b) for a, b in zip(state, follower, strict=True)]
            even = tuple(shuffle(builder, a, b, list(range(0, 2 * width, 2))) for a, b in pair)
            odd = tuple(shuffle(builder, a, b, list(range(1, 2 * width, 2))) for a, b in pair)
            result.append(monoid.merge(builder, dtypes, even, odd))
            position += 2
            continue
        even = tuple(shuffle(builder, v, None, list(range(0, width, 2))) for v in state)
        odd = tuple(shuffle(builder, v, None, list(range(1, width, 2))) for v in state)
        result.append(monoid.merge(builder, dtypes, even, odd))
        position += 1
    return result


def reduce_slots(
    builder: Builder,
    monoid: MonoidOperation,
    dtypes: Dtypes,
    columns: Sequence[State],
    shape: Shape,
    axes: Sequence[int],
) -> list[State]:
    """The vectors of the reduced fragment, from the states of the vectors of `shape` in C order."""
    layout = Fragment(dtypes[0], shape).layout
    if layout.axis is None:
        return list(columns)
    per_row = len(layout.chunks)
    leading = shape[: layout.axis]
    rows = np.arange(layout.rows).reshape(leading)
    kept = [axis for axis in range(len(leading)) if axis not in axes]
    gone = [axis for axis in range(len(leading)) if axis in axes]
    grouped = rows.transpose([*kept, *gone]).reshape(int(np.prod([leading[a] for a in kept], dtype=int)), -1)
    if layout.axis not in axes:
        return [
            tree(builder, monoid, dtypes, [columns[int(row) * per_row + chunk] for row in group])
            for group in grouped
            for chunk in range(per_row)
        ]
    scalars = [
        fold_vectors(
            builder, monoid, dtypes, [columns[int(row) * per_row + chunk] for row in group for chunk in range(per_row)]
        )
        for group in grouped
    ]
    target = Fragment(dtypes[0], reduced_shape(shape, axes)).layout
    vectors, start = [], 0
    for lanes in target.chunks * target.rows:
        states = scalars[start : start + lanes]
        vectors.append(tuple(gathered(builder, column) for column in zip(*states, strict=True)))
        start += lanes
    return vectors


def _results(fragments: Sequence[Fragment]) -> Any:
    return fragments[0] if len(fragments) == 1 else types.Tuple(list(fragments))


def _packed(builder: Builder, fragments: Sequence[Fragment], states: Sequence[State]) -> Value:
    """The result of a reduction: a fragment, or a tuple of the components of its state."""
    values = [
        pack(builder, fragment, column)
        for fragment, column in zip(fragments, zip(*states, strict=True), strict=True)
    ]
    if len(values) == 1:
        return values[0]
    result = ir.Constant(ir.LiteralStructType([value.type for value in values]), ir.Undefined)
    for position, value in enumerate(values):
        result = builder.insert_value(result, value, position)
    return result


def checked_operands(name: str, monoid: MonoidOperation, operands: Sequence[Any]) -> Shape | None:
    """The common shape of the state's components, or None where they are not fragments."""
    if not all(is_strong(operand) for operand in operands):
        return None
    if operands[0].dtype.kind not in monoid.kinds:
        raise refuse(f"{name} is not defined for {operands[0].dtype}")
    if monoid.state == 2 and not operands[1].dtype.is_integer:
        raise refuse(f"{name}: the index must be an integer, got {operands[1]}")
    return broadcast_shape([operand.shape for operand in operands])


def _reduction(name: str, monoid: MonoidOperation, operands: Sequence[Any], axes_argument: Any) -> Typed:
    shape = checked_operands(name, monoid, operands)
    if shape is None:
        return None
    axes = checked_axes(name, axes_argument, shape)
    dtypes = tuple(operand.dtype for operand in operands)
    results = [Fragment(dtype, reduced_shape(shape, axes)) for dtype in dtypes]

    def lower(builder: Builder, *values: Value) -> Value:
        columns = [
            spread(builder, unpack(builder, ty, v), ty.shape, shape) for ty, v in zip(operands, values, strict=False)
        ]
        states = reduce_slots(builder, monoid, dtypes, list(zip(*columns, strict=True)), shape, axes)
        return _packed(builder, results, states)

    return _results(results), lower


def _reduce_operation(monoid: MonoidOperation) -> Typer:
    name = f"reduce_{monoid.name}"

    def single(x: Any, axes: Any) -> Typed:
        return _reduction(name, monoid, (x,), axes)

    def pair(value: Any, index: Any, axes: Any) -> Typed:
        return _reduction(name, monoid, (value, index), axes)

    function: Typer = single if monoid.state == 1 else pair
    function.__name__ = function.__qualname__ = name
    return operation(function)


def _threads_operation(monoid: MonoidOperation) -> Typer:
    """Across threads: a block has one on a CPU, so the operand is the result."""
    name = f"threads_{monoid.name}"

    def check(threads: Any) -> None:
        if literal(threads, f"the block size of {name}") != 1:
            raise refuse(f"{name}: a block has one thread on a CPU, the kernel has {threads.literal_value}")

    def single(x: Any, bits: Any, threads: Any) -> Typed:
        check(threads)
        return (x, lambda builder, value, *_: value) if isinstance(x, Fragment) else None

    def pair(value: Any, index: Any, bits: Any, threads: Any) -> Typed:
        check(threads)

        def lower(builder: Builder, first: Value, second: Value, *_: Value) -> Value:
            state = (*zip(unpack(builder, value, first), unpack(builder, index, second), strict=True),)
            return _packed(builder, [value, index], state)

        return types.Tuple([value, index]), lower

    function: Typer = single if monoid.state == 1 else pair
    function.__name__ = function.__qualname__ = name
    return operation(function)


REDUCTIONS = {f"reduce_{name}": _reduce_operation(monoid) for name, monoid in MONOID_OPERATIONS.items()}
THREAD_REDUCTIONS = {f"threads_{name}": _threads_operation(monoid) for name, monoid in MONOID_OPERATIONS.items()}
