"""Making and converting fragments: full, constant, cast, bitcast, where, slots; and loop bounds and conditions."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyfuse.backends.numba_cuda.fragments.declare import (
    Emit,
    declare_operator,
    dtype_argument,
    literal,
    meeting,
    operation,
)
from polyfuse.backends.numba_cuda.fragments.slots import (
    assembly,
    broadcast_shape,
    convert,
    dtype_of,
    is_scalar,
    pack,
    shape_of,
    spread,
    unpack,
)
from polyfuse.backends.numba_cuda.fragments.values import (
    F32,
    I1,
    I16,
    I32,
    Builder,
    DType,
    Fragment,
    TileType,
    Value,
    bfloat16,
    boolean,
    float64,
    int32,
    int64,
    is_half,
    itemsize,
    register_dtype,
    register_type,
)
from polyfuse.backends.numba_cuda.numba_api import (
    TypingError,
    ir,
    lowering_registry,
    types,
)


@operation
def full(shape: Any, value: Any, dtype: Any) -> tuple[Fragment, Emit]:
    """A fragment of equal slots."""
    fragment = Fragment(register_dtype(dtype_argument(dtype)), tuple(literal(shape, "the shape of full")))
    return fragment, lambda b, _, v, __: pack(b, fragment, spread(b, value, v, fragment.dtype, fragment.shape))


@operation
def take(value: Any, start: Any, tile: Any) -> tuple[Fragment, Emit] | None:
    """Other registers of the same thread: slot `start` plus the tile's offset of `value`, counted in C order."""
    if not isinstance(value, Fragment) or not isinstance(tile, TileType):
        return None
    first, fragment = literal(start, "the start of take"), Fragment(value.dtype, tile.tile.shape)
    numbers = [first + constant for constant, _ in tile.tile.offsets()]
    if tile.tile.sizes or min(numbers) < 0 or max(numbers) >= value.size:
        raise TypingError(f"take: {tile} from {first} leaves {value}")

    def emit(b: Builder, v: Value, _: Value, __: Value) -> Value:
        slots = unpack(b, value, v)
        return pack(b, fragment, [slots[number] for number in numbers])

    return fragment, emit


@operation
def constant(value: Any, dtype: Any) -> tuple[Fragment, Emit]:
    """A 0-d fragment."""
    fragment = Fragment(register_dtype(dtype_argument(dtype)), ())
    return fragment, lambda b, v, _: pack(b, fragment, spread(b, value, v, fragment.dtype, ()))


def round_to(b: Builder, dtype: DType, value: Value) -> Value:
    """A float32 or float64 slot rounded to a 16-bit type, as float32."""
    if dtype == bfloat16:
        value = value if value.type == F32 else b.fptrunc(value, F32)
        bits = assembly(b, "cvt.rn.bf16.f32 $0, $1;", "=h,f", I16, [value], effect=False)
        return b.bitcast(b.shl(b.zext(bits, I32), ir.Constant(I32, 16)), F32)
    source, letter = ("f32", "f") if value.type == F32 else ("f64", "d")
    bits = assembly(b, f"cvt.rn.f16.{source} $0, $1;", f"=h,{letter}", I16, [value], effect=False)
    return assembly(b, "cvt.f32.f16 $0, $1;", "=f,h", F32, [bits], effect=False)


@operation
def cast(x: Any, dtype: Any) -> tuple[Fragment, Emit] | None:
    """Conversion; to float16 or bfloat16 it rounds, and the result is float32 as these have no registers."""
    if not isinstance(x, Fragment) and not is_scalar(x):
        return None
    target, source = dtype_argument(dtype), dtype_of(x)
    fragment = Fragment(register_dtype(target), shape_of(x))

    def one(b: Builder, slot: Value) -> Value:
        if not is_half(target):
            return convert(b, slot, source, target)
        exact = source == float64
        return round_to(b, target, slot if exact else convert(b, slot, source, fragment.dtype))

    def emit(b: Builder, value: Value, _: Value) -> Value:
        return pack(b, fragment, [one(b, s) for s in spread(b, x, value, source, fragment.shape)])

    return fragment, emit


@operation
def index64(x: Any) -> tuple[Fragment, Emit] | None:
    """An index as int64."""
    if not isinstance(x, Fragment) and not is_scalar(x):
        return None
    fragment = Fragment(int64, shape_of(x), weak=getattr(x, "weak", True))
    return fragment, lambda b, v: pack(b, fragment, spread(b, x, v, int64, fragment.shape))


@operation
def scalar(x: Any) -> tuple[Any, Emit] | None:
    """A fragment of one slot as Numba's number, for `range`."""
    if is_scalar(x):
        return types.unliteral(x), lambda b, v: v
    if not isinstance(x, Fragment) or x.size != 1:
        return None
    return x.dtype, lambda b, v: v


@operation
def bitcast(x: Any, dtype: Any) -> tuple[Fragment, Emit] | None:
    """The bits of a value as another type of the same width."""
    if not isinstance(x, Fragment) and not is_scalar(x):
        return None
    source, target = dtype_of(x), dtype_argument(dtype)
    if is_half(target) or itemsize(source) != itemsize(target):
        raise TypingError(f"bitcast from {source} to {target}: the widths in registers differ")
    fragment = Fragment(target, shape_of(x))

    def one(b: Builder, slot: Value) -> Value:
        if boolean in (source, target):
            return convert(b, slot, source, target)
        return b.bitcast(slot, register_type(target))

    return fragment, lambda b, v, _: pack(b, fragment, [one(b, s) for s in spread(b, x, v, source, fragment.shape)])


@operation
def where(condition: Any, x: Any, y: Any) -> tuple[Fragment, Emit] | None:
    """x where the condition holds, else y."""
    meet = meeting(x, y)
    if meet is None or dtype_of(condition) != boolean:
        return None
    shape = broadcast_shape(shape_of(condition), meet.shape)
    weak = meet.weak and (is_scalar(condition) or condition.weak)
    fragment = Fragment(meet.dtype, shape, weak)

    def emit(b: Builder, c: Value, u: Value, v: Value) -> Value:
        conditions = spread(b, condition, c, boolean, shape)
        left, right = spread(b, x, u, meet.dtype, shape), spread(b, y, v, meet.dtype, shape)
        return pack(b, fragment, [b.select(*slots) for slots in zip(conditions, left, right, strict=True)])

    return fragment, emit


@operation
def at_least(x: Any, axis: Any, first: Any, stop: Any, value: Any) -> tuple[Fragment, Emit] | None:
    """Integers or truths of which the slots from `first` to before `stop` along an axis are known to be `value` or
    more: `value` is taken for them, so that what they are compared with needs no instruction."""
    return _known(x, axis, first, stop, value)


@operation
def at_most(x: Any, axis: Any, first: Any, stop: Any, value: Any) -> tuple[Fragment, Emit] | None:
    """The same where they are `value` or less."""
    return _known(x, axis, first, stop, value)


def _known(x: Any, axis: Any, first: Any, stop: Any, value: Any) -> tuple[Fragment, Emit] | None:
    if not isinstance(x, Fragment) or not isinstance(x.dtype, types.Integer | types.Boolean):
        return None
    along, begin, end, number = (literal(part, "what is known of slots") for part in (axis, first, stop, value))
    known = np.array(x.known or [None] * x.size, object).reshape(x.shape)
    known[(slice(None),) * along + (slice(begin, end),)] = int(number)
    return Fragment(x.dtype, x.shape, x.weak, tuple(known.flat)), lambda b, v, *_: v


def _slots(shape: Any, axis: Any, dtype: DType) -> tuple[Fragment, Emit]:
    extents, along = literal(shape, "the shape of slots"), literal(axis, "the axis of slots")
    kept = tuple(extent if k == along % len(extents) else 1 for k, extent in enumerate(extents))
    fragment = Fragment(dtype, kept)
    llvm = register_type(dtype)
    return fragment, lambda b, *_: pack(b, fragment, [ir.Constant(llvm, k) for k in range(fragment.size)])


@operation
def slots(shape: Any, axis: Any) -> tuple[Fragment, Emit]:
    """``0 .. shape[axis]-1`` along an axis, extent 1 elsewhere."""
    return _slots(shape, axis, int32)


@operation
def slots64(shape: Any, axis: Any) -> tuple[Fragment, Emit]:
    """`slots` in a kernel with 64-bit indices."""
    return _slots(shape, axis, int64)


@operation
def inside(*bounds: Any) -> tuple[Fragment, Emit] | None:
    """The conjunction of ``a >= 0`` over the arguments."""
    if not bounds or not all(isinstance(a, Fragment) or is_scalar(a) for a in bounds):
        return None
    shape = broadcast_shape(*map(shape_of, bounds))
    fragment = Fragment(boolean, shape, weak=all(getattr(a, "weak", True) for a in bounds))

    def emit(b: Builder, *values: Value) -> Value:
        result = [ir.Constant(I1, 1)] * int(np.prod(shape))
        for bound, value in zip(bounds, values, strict=True):
            indices = spread(b, bound, value, dtype_of(bound), shape)
            tests = {s: b.icmp_signed(">=", s, ir.Constant(s.type, 0)) for s in indices}
            result = [b.and_(old, tests[s]) for old, s in zip(result, indices, strict=True)]
        return pack(b, fragment, result)

    return fragment, emit


def _truth(x: Any) -> tuple[Any, Emit] | None:
    """A condition of one slot, for `if`."""
    if not isinstance(x, Fragment) or x.size != 1 or x.dtype != boolean:
        return None
    return boolean, lambda b, v: v


declare_operator(_truth, bool)


def _to_scalar(context: Any, b: Builder, source: Fragment, target: Any, value: Value) -> Value:
    return convert(b, unpack(b, source, value)[0], source.dtype, target)


lowering_registry.lower_cast(Fragment, types.Integer)(_to_scalar)
lowering_registry.lower_cast(Fragment, Fragment)(lambda context, b, source, target, value: value)
