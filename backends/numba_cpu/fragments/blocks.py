"""Where a kernel runs (`thread`, `block`, `slots`), constants, counted loops, and the meeting points of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.imputils import RefType, iternext_impl, lower_builtin
from numba.extending import models, register_model

from polyfuse.backends.numba_cpu.fragments.conversions import (
    convert,
    index_value,
    is_operand,
    is_strong,
    slots_of,
    weak_element,
)
from polyfuse.backends.numba_cpu.fragments.elements import Element, boolean, int32, int64
from polyfuse.backends.numba_cpu.fragments.elementwise import agreed, broadcast_shape, comparison, element_of
from polyfuse.backends.numba_cpu.fragments.frame import block_index
from polyfuse.backends.numba_cpu.fragments.layouts import LANES
from polyfuse.backends.numba_cpu.fragments.operation import Typed, Typer, literal, operation, refuse
from polyfuse.backends.numba_cpu.fragments.types import Fragment, Pointer, TileType
from polyfuse.backends.numba_cpu.fragments.vectors import (
    I32,
    I64,
    Builder,
    Value,
    constant,
    from_scalars,
    pack,
    slot_scalars,
    spread,
    stack_slot,
    untyped,
)

MAX_AXES = 3
# Numba refuses another meaning of the name `range`, so `compile_function` renames it.
INDEX_RANGE = "index_range"


def _thread(index: Element) -> Typer:
    """A block has one thread on a CPU, number 0."""

    def thread() -> Typed:
        return Fragment(index, ()), lambda builder: constant(index.register, 0)

    return operation(thread)


def _block(index: Element) -> Typer:
    def block(axis: Any) -> Typed:
        number = literal(axis, "the axis of a block index")
        if not 0 <= number < MAX_AXES:
            raise refuse(f"block({number}): a grid has axes 0 to {MAX_AXES - 1}")

        def lower(builder: Builder, _: Value) -> Value:
            return convert(builder, block_index(builder, number), int64, index)

        return Fragment(index, ()), lower

    return operation(block)


def _slots(index: Element) -> Typer:
    def slots(shape: Any, axis: Any) -> Typed:
        extents, number = literal(shape, "the shape of slots"), literal(axis, "the axis of slots")
        fragment = Fragment(index, tuple(n if k == number else 1 for k, n in enumerate(extents)))

        def lower(builder: Builder, *_: Value) -> Value:
            vectors = []
            for chunk, lanes in enumerate(fragment.layout.chunks):
                numbers = [chunk * LANES + k for k in range(lanes)]
                ty = ir.VectorType(index.register, lanes)
                vectors.append(ir.Constant(ty, numbers) if lanes > 1 else constant(index.register, numbers[0]))
            return pack(builder, fragment, vectors)

        return fragment, lower

    return operation(slots)


# ---------------------------------------------------------------------------------------------- counted loops


class RangeIterator(types.SimpleIteratorType):
    """Counts weak index scalars from 0; the state is the next index, in a stack slot, and the end."""

    def __init__(self, index: Fragment) -> None:
        self.index = index
        super().__init__(f"range_iterator({index})", index)


class RangeType(types.SimpleIterableType):
    """``range(n)`` over index scalars."""

    def __init__(self, index: Fragment) -> None:
        self.index = index
        super().__init__(f"range({index})", RangeIterator(index))


@register_model(RangeType)
class RangeModel(models.PrimitiveModel):
    def __init__(self, manager: Any, ty: RangeType) -> None:
        super().__init__(manager, ty, ty.index.dtype.register)


@register_model(RangeIterator)
class RangeIteratorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, ty: RangeIterator) -> None:
        super().__init__(manager, ty, ir.LiteralStructType([ir.PointerType(), ty.index.dtype.register]))


def _range(index: Element) -> Typer:
    def count(stop: Any) -> Typed:
        if not is_operand(stop):
            return None
        loop = Fragment(index, (), weak=True)

        def lower(builder: Builder, value: Value) -> Value:
            return convert(builder, index_value(builder, stop, value), int64, index)

        return RangeType(loop), lower

    return operation(count)


@lower_builtin("getiter", RangeType)
def start_loop(context: Any, builder: Builder, signature: Any, arguments: Any) -> Value:
    (stop,) = arguments
    with builder.goto_entry_block():
        counter = stack_slot(builder, stop.type)
    builder.store(constant(stop.type, 0), counter)
    state = ir.Constant(context.get_value_type(signature.return_type), ir.Undefined)
    state = builder.insert_value(state, counter, 0)
    return builder.insert_value(state, stop, 1)


@lower_builtin("iternext", RangeIterator)
@iternext_impl(RefType.UNTRACKED)
def step_loop(context: Any, builder: Builder, signature: Any, arguments: Any, result: Any) -> None:
    counter, stop = (builder.extract_value(arguments[0], k) for k in range(2))
    position = builder.load(counter, typ=stop.type)
    result.yield_(position)
    result.set_valid(builder.icmp_signed("<", position, stop))
    builder.store(builder.add(position, constant(stop.type, 1), flags=("nsw",)), counter)


# ---------------------------------------------------------------------------------------------- values


@operation
def full(shape: Any, value: Any, dtype: Any) -> Typed:
    """`value`, a number or a fragment, broadcast to `shape`."""
    extents, element = literal(shape, "the shape of full"), element_of(dtype, "full").compute
    fragment = Fragment(element, extents)
    if not is_operand(value):
        return None
    if is_strong(value):
        if value.dtype != element:
            raise refuse(f"full: a fragment of {value.dtype} as {element}; use cast")
        if broadcast_shape([value.shape, extents]) != extents:
            raise refuse(f"full: shape {value.shape} does not broadcast to {extents}")

    def lower(builder: Builder, _: Value, v: Value, __: Value) -> Value:
        return pack(builder, fragment, slots_of(builder, value, v, element, extents))

    return fragment, lower


@operation
def take(value: Any, start: Any, tile: Any) -> Typed:
    """Other registers of the same thread: slot `start` plus the tile's offset of `value`, counted in C order."""
    if not isinstance(value, Fragment) or not isinstance(tile, TileType):
        return None
    first, layout = literal(start, "the start of take"), tile.tile
    fragment = Fragment(value.dtype, layout.shape)
    numbers = [first + layout.offset(slot).constant for slot in np.ndindex(layout.shape)]
    if layout.sizes or min(numbers) < 0 or max(numbers) >= value.size:
        raise refuse(f"take: {layout} from {first} leaves {value}")

    def lower(builder: Builder, v: Value, _: Value, __: Value) -> Value:
        scalars = slot_scalars(builder, value, v)
        return from_scalars(builder, fragment, [scalars[number] for number in numbers])

    return fragment, lower


@operation
def constant_fragment(value: Any, dtype: Any) -> Typed:
    """A 0-d fragment from a weak value."""
    element = element_of(dtype, "constant").compute
    if weak_element(value) is None:
        return None
    return Fragment(element, ()), lambda builder, v, _: slots_of(builder, value, v, element, ())[0]


@operation
def scalar(x: Any) -> Typed:
    """A 0-d fragment as a weak number."""
    if not isinstance(x, Fragment) or x.size != 1:
        return None
    return Fragment(x.dtype, (), weak=True), lambda builder, value: value


@operation
def index64(x: Any) -> Typed:
    """An index as 64 bits, so that arithmetic on it does not wrap."""
    if not is_operand(x):
        return None
    shape = x.shape if isinstance(x, Fragment) else ()
    source = x.dtype if isinstance(x, Fragment) else int64
    fragment = Fragment(int64, shape)

    def lower(builder: Builder, value: Value) -> Value:
        vectors = slots_of(builder, x, value, source, shape)
        return pack(builder, fragment, [convert(builder, vector, source, int64) for vector in vectors])

    return fragment, lower


@operation
def inside(*conditions: Any) -> Typed:
    """The conjunction of ``a >= 0`` over index scalars and fragments."""
    if not conditions or not all(is_operand(condition) for condition in conditions):
        return None
    meetings = [agreed("inside", (condition,), "biu") for condition in conditions]
    fragments = [meeting for meeting in meetings if meeting is not None]
    shape = broadcast_shape([fragment.shape for fragment in fragments])
    result = Fragment(boolean, shape)
    holds = comparison(">=")

    def lower(builder: Builder, *values: Value) -> Value:
        total: list[Value] = []
        for condition, fragment, value in zip(conditions, fragments, values, strict=True):
            vectors = slots_of(builder, condition, value, fragment.dtype, fragment.shape)
            truths = [holds(builder, fragment.dtype, v, constant(v.type, 0)) for v in vectors]
            wide = spread(builder, truths, fragment.shape, shape)
            total = wide if not total else [builder.and_(x, y) for x, y in zip(total, wide, strict=True)]
        return pack(builder, result, total)

    return result, lower


# ---------------------------------------------------------------------------------------------- meeting points


@operation
def barrier() -> Typed:
    """Nothing: a block has one thread."""
    return types.void, lambda builder: None


@operation
def warp_barrier() -> Typed:
    return types.void, lambda builder: None


@operation
def cluster_arrive() -> Typed:
    """Nothing: a cluster has one block."""
    return types.void, lambda builder: None


@operation
def cluster_wait() -> Typed:
    return types.void, lambda builder: None


@operation
def exchange(values: Any, axis: Any, bits: Any, threads: Any, blocks: Any) -> Typed:
    """The values themselves: a cluster has one block."""
    return values, lambda builder, held, *rest: held


@operation
def elect(counter: Any, group: Any, count: Any) -> Typed:
    """True in the block that arrives last of `count` at ``counter[group]``, which it resets to zero.

    The update releases this block's stores and acquires those of the blocks before it.
    """
    if not isinstance(counter, Pointer) or counter.dtype != int32:
        return None

    def lower(builder: Builder, pointer: Value, at: Value, total: Value) -> Value:
        position = index_value(builder, group, at)
        address = builder.gep(untyped(pointer), [position], source_etype=I32)
        before = builder.atomic_rmw("add", address, I32(1), "acq_rel")
        wanted = builder.trunc(builder.sub(index_value(builder, count, total), I64(1)), I32)
        last = builder.icmp_signed("==", before, wanted)
        with builder.if_then(last):
            builder.atomic_rmw("xchg", address, I32(0), "monotonic")
        return last

    return Fragment(boolean, ()), lower


IndexRuntime = dict[str, Callable[..., Any]]


def index_runtime(bits: int) -> IndexRuntime:
    """The operations whose result is an index, for kernels compiled with 32- or 64-bit indices."""
    index = int64 if bits == 64 else int32
    return {"thread": _thread(index), "block": _block(index), "slots": _slots(index), INDEX_RANGE: _range(index)}
