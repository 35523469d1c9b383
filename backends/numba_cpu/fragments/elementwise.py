"""Element-wise operations: broadcasting, dtype agreement, and the functions that are a few instructions each."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from polyfuse.backends.numba_cpu.fragments.conversions import (
    convert,
    is_operand,
    is_strong,
    narrow,
    slots_of,
    weak_element,
    widen,
)
from polyfuse.backends.numba_cpu.fragments.elements import Element, boolean, float64
from polyfuse.backends.numba_cpu.fragments.layouts import Shape
from polyfuse.backends.numba_cpu.fragments.operation import Typed, Typer, operation, operator_operation, refuse
from polyfuse.backends.numba_cpu.fragments.types import ElementType, Fragment
from polyfuse.backends.numba_cpu.fragments.vectors import (
    Builder,
    Value,
    constant,
    integer_like,
    intrinsic,
    pack,
    retyped,
    scalar_of,
    unpack,
)

# (builder, element of the operands, *vectors) -> vector
Lanewise = Callable[..., Value]


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """NumPy's broadcast of shapes; raises TypingError where there is none."""
    try:
        return tuple(int(n) for n in np.broadcast_shapes(*shapes))
    except ValueError:
        raise refuse(f"shapes {', '.join(map(str, shapes))} do not broadcast") from None


def _weak_meeting(weak: Sequence[tuple[Any, Element]], kinds: str) -> Element:
    """The dtype of weak operands among themselves: the widest kind, and fragments before literals."""
    kind = max((element.kind for _, element in weak), key="biuf".index)
    if kind == "u" and any(element.kind == "i" for _, element in weak):
        kind = "i"
    if kind not in kinds and kinds == "f":
        return float64
    ranked = sorted(weak, key=lambda item: (isinstance(item[0], Fragment), item[1].bits), reverse=True)
    return next(element for _, element in ranked if element.kind == kind)


def agreed(name: str, arguments: Sequence[Any], kinds: str) -> Fragment | None:
    """The fragment as which operands meet, or None where they are not all operands.

    Raises TypingError for fragments of different dtypes and for a dtype that the function does not take.
    """
    if not all(is_operand(argument) for argument in arguments):
        return None
    dtypes = {argument.dtype for argument in arguments if is_strong(argument)}
    if len(dtypes) > 1:
        raise refuse(f"{name}: fragments of dtypes {', '.join(sorted(map(str, dtypes)))} meet; use cast")
    weak = [(argument, found) for argument in arguments if (found := weak_element(argument)) is not None]
    dtype = next(iter(dtypes)) if dtypes else _weak_meeting(weak, kinds)
    if not dtype.is_float and any(element.is_float for _, element in weak):
        raise refuse(f"{name}: a float meets a fragment of dtype {dtype}; use cast")
    if dtype.kind not in kinds:
        raise refuse(f"{name} is not defined for {dtype}")
    shape = broadcast_shape([argument.shape for argument in arguments if isinstance(argument, Fragment)])
    return Fragment(dtype, shape, weak=not dtypes)


def elementwise(
    name: str, arguments: Sequence[Any], emit: Lanewise, kinds: str = "f", result: Element | None = None
) -> Typed:
    """The typing and lowering of one element-wise call."""
    meeting = agreed(name, arguments, kinds)
    if meeting is None:
        return None
    dtype, shape = meeting.dtype, meeting.shape
    fragment = Fragment(result or dtype, shape, meeting.weak and result is None)

    def lower(builder: Builder, *values: Value) -> Value:
        columns = [slots_of(builder, ty, v, dtype, shape) for ty, v in zip(arguments, values, strict=True)]
        return pack(builder, fragment, [emit(builder, dtype, *row) for row in zip(*columns, strict=True)])

    return fragment, lower


def named(
    name: str, arity: int, emit: Lanewise, kinds: str = "f", result: Element | None = None
) -> Typer:
    """An operation of the fragment language that works slot by slot."""

    def unary(x: Any) -> Typed:
        return elementwise(name, (x,), emit, kinds, result)

    def binary(x: Any, y: Any) -> Typed:
        return elementwise(name, (x, y), emit, kinds, result)

    def ternary(x: Any, y: Any, z: Any) -> Typed:
        return elementwise(name, (x, y, z), emit, kinds, result)

    function: Typer = (unary, binary, ternary)[arity - 1]
    function.__name__ = function.__qualname__ = name
    return operation(function)


def infix(keys: Sequence[Callable[..., Any]], function: Typer) -> None:
    """Give Python operators the meaning of an operation."""
    operator_operation(*keys)(function)


# ---------------------------------------------------------------------------------------------- arithmetic


def by_kind(floats: str, integers: str) -> Lanewise:
    """One builder method for floats, one for integers and booleans."""

    def emit(builder: Builder, dtype: Element, *operands: Value) -> Value:
        return getattr(builder, floats if dtype.is_float else integers)(*operands)

    return emit


def emit_negative(builder: Builder, dtype: Element, x: Value) -> Value:
    return builder.fneg(x) if dtype.is_float else builder.sub(constant(x.type, 0), x)


def emit_absolute(builder: Builder, dtype: Element, x: Value) -> Value:
    if dtype.is_float:
        return intrinsic(builder, "llvm.fabs", x)
    if dtype.kind == "u":
        return x
    negative = builder.icmp_signed("<", x, constant(x.type, 0))
    return builder.select(negative, builder.sub(constant(x.type, 0), x), x)


def emit_sign(builder: Builder, dtype: Element, x: Value) -> Value:
    zero, one = constant(x.type, 0), constant(x.type, 1)
    if dtype.kind == "u":
        return builder.select(builder.icmp_unsigned("!=", x, zero), one, zero)
    minus = constant(x.type, -1)
    if not dtype.is_float:
        positive = builder.select(builder.icmp_signed(">", x, zero), one, zero)
        return builder.select(builder.icmp_signed("<", x, zero), minus, positive)
    rest = builder.select(builder.fcmp_ordered("==", x, zero), zero, x)  # NaN passes
    positive = builder.select(builder.fcmp_ordered(">", x, zero), one, rest)
    return builder.select(builder.fcmp_ordered("<", x, zero), minus, positive)


def _ordered_extremum(builder: Builder, largest: bool, held: Value, x: Value) -> Value:
    """IEEE 754's maximum or minimum, for which 0.0 is more than -0.0, where a loop waits for `held`: all that is asked
    of `x` alone is known before.  LLVM's own expansion orders the two by the sign of `held` first, and asks whether
    what it has then is a NaN: two cores of an EPYC with AVX-512 took more than twice as long for the largest of 4
    million float32 (benchmarks/results/cpu_extremes.json).

    x > held ? x : held, held where one is no number; with the sign of +0.0 where x is that, since nothing less is left;
    x where it is no number.
    """
    symbol, zero = (">", 0) if largest else ("<", 1 << (8 * _width(x) - 1))
    found = builder.select(builder.fcmp_ordered(symbol, x, held), x, held)
    words = integer_like(x.type)
    absolute = intrinsic(builder, "llvm.fabs", found)
    signed = absolute if largest else builder.fneg(absolute)
    is_zero = builder.icmp_unsigned("==", builder.bitcast(x, words), constant(words, zero))
    found = builder.select(is_zero, signed, found)
    return builder.select(builder.fcmp_unordered("uno", x, x), x, found)


def _width(value: Value) -> int:
    """Bytes of a float."""
    return 8 if isinstance(scalar_of(value.type), ir.DoubleType) else 4


def extremum(largest: bool, flags: tuple[str, ...] = ()) -> Lanewise:
    """max or min; NaN propagates.  `flags` on floats: reductions pass ``nsz``, which halves the instructions."""
    word = "max" if largest else "min"

    def emit(builder: Builder, dtype: Element, x: Value, y: Value) -> Value:
        match dtype.kind:
            case "f" if flags or isinstance(x, ir.Constant) or isinstance(y, ir.Constant):
                return intrinsic(builder, f"llvm.{word}imum", x, y, flags=flags)
            case "f":
                return _ordered_extremum(builder, largest, x, y)
            case "b":
                return builder.or_(x, y) if largest else builder.and_(x, y)
            case kind:
                return intrinsic(builder, f"llvm.{'s' if kind == 'i' else 'u'}{word}", x, y)

    return emit


def number_extremum(largest: bool, flags: tuple[str, ...] = ()) -> Lanewise:
    """fmax or fmin: the number where one operand is NaN."""
    name = "llvm.maxnum" if largest else "llvm.minnum"

    def emit(builder: Builder, dtype: Element, x: Value, y: Value) -> Value:
        return intrinsic(builder, name, x, y, flags=flags)

    return emit


def comparison(symbol: str) -> Lanewise:
    """IEEE comparison: NaN differs from everything."""

    def emit(builder: Builder, dtype: Element, x: Value, y: Value) -> Value:
        if dtype.is_float:
            return (builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered)(symbol, x, y)
        return (builder.icmp_signed if dtype.kind == "i" else builder.icmp_unsigned)(symbol, x, y)

    return emit


def emit_left_shift(builder: Builder, dtype: Element, x: Value, amount: Value) -> Value:
    """As NumPy: a shift by the width or more gives 0."""
    fits = builder.icmp_unsigned("<", amount, constant(x.type, dtype.bits))
    return builder.select(fits, builder.shl(x, amount), constant(x.type, 0))


def emit_right_shift(builder: Builder, dtype: Element, x: Value, amount: Value) -> Value:
    fits = builder.icmp_unsigned("<", amount, constant(x.type, dtype.bits))
    if dtype.kind == "u":
        return builder.select(fits, builder.lshr(x, amount), constant(x.type, 0))
    return builder.ashr(x, builder.select(fits, amount, constant(x.type, dtype.bits - 1)))


def emit_multiply_high(builder: Builder, dtype: Element, x: Value, y: Value) -> Value:
    wide = retyped(x.type, ir.IntType(2 * dtype.bits))
    product = builder.mul(builder.zext(x, wide), builder.zext(y, wide))
    return builder.trunc(builder.lshr(product, constant(wide, dtype.bits)), x.type)


add = named("add", 2, by_kind("fadd", "add"), "iuf")
subtract = named("subtract", 2, by_kind("fsub", "sub"), "iuf")
multiply = named("multiply", 2, by_kind("fmul", "mul"), "iuf")
divide = named("divide", 2, by_kind("fdiv", "sdiv"), "f")
divide_short = named("divide_short", 2, by_kind("fdiv", "sdiv"), "f")
negative = named("negative", 1, emit_negative, "iuf")
absolute = named("absolute", 1, emit_absolute, "iuf")
sign = named("sign", 1, emit_sign, "iuf")
maximum = named("maximum", 2, extremum(True), "biuf")
minimum = named("minimum", 2, extremum(False), "biuf")
fmax = named("fmax", 2, number_extremum(True))
fmin = named("fmin", 2, number_extremum(False))
less = named("less", 2, comparison("<"), "biuf", boolean)
less_equal = named("less_equal", 2, comparison("<="), "biuf", boolean)
greater = named("greater", 2, comparison(">"), "biuf", boolean)
greater_equal = named("greater_equal", 2, comparison(">="), "biuf", boolean)
equal = named("equal", 2, comparison("=="), "biuf", boolean)
not_equal = named("not_equal", 2, comparison("!="), "biuf", boolean)
bitwise_and = named("bitwise_and", 2, by_kind("and_", "and_"), "biu")
bitwise_or = named("bitwise_or", 2, by_kind("or_", "or_"), "biu")
bitwise_xor = named("bitwise_xor", 2, by_kind("xor", "xor"), "biu")
invert = named("invert", 1, by_kind("not_", "not_"), "biu")
left_shift = named("left_shift", 2, emit_left_shift, "iu")
right_shift = named("right_shift", 2, emit_right_shift, "iu")
multiply_high = named("multiply_high", 2, emit_multiply_high, "u")

for _keys, _function in (
    ((operator.add, operator.iadd), add),
    ((operator.sub, operator.isub), subtract),
    ((operator.mul, operator.imul), multiply),
    ((operator.truediv, operator.itruediv), divide),
    ((operator.and_, operator.iand), bitwise_and),
    ((operator.or_, operator.ior), bitwise_or),
    ((operator.xor, operator.ixor), bitwise_xor),
    ((operator.lshift, operator.ilshift), left_shift),
    ((operator.rshift, operator.irshift), right_shift),
    ((operator.lt,), less),
    ((operator.le,), less_equal),
    ((operator.gt,), greater),
    ((operator.ge,), greater_equal),
    ((operator.eq,), equal),
    ((operator.ne,), not_equal),
    ((operator.neg,), negative),
    ((operator.invert,), invert),
):
    infix(_keys, _function)


# ---------------------------------------------------------------------------------------------- floats


def rounding(name: str) -> Lanewise:
    def emit(builder: Builder, dtype: Element, *operands: Value) -> Value:
        return intrinsic(builder, name, *operands)

    return emit


def emit_isnan(builder: Builder, dtype: Element, x: Value) -> Value:
    return builder.fcmp_unordered("uno", x, x)


def emit_isinf(builder: Builder, dtype: Element, x: Value) -> Value:
    return builder.fcmp_ordered("==", intrinsic(builder, "llvm.fabs", x), constant(x.type, math.inf))


def emit_isfinite(builder: Builder, dtype: Element, x: Value) -> Value:
    return builder.fcmp_ordered("<", intrinsic(builder, "llvm.fabs", x), constant(x.type, math.inf))


def emit_signbit(builder: Builder, dtype: Element, x: Value) -> Value:
    ty = integer_like(x.type)
    return builder.icmp_signed("<", builder.bitcast(x, ty), constant(ty, 0))


def emit_nextafter(builder: Builder, dtype: Element, x: Value, y: Value) -> Value:
    """One step of the bit pattern away from or towards zero."""
    ty = integer_like(x.type)
    word = builder.bitcast(x, ty)
    outward = builder.xor(
        builder.fcmp_ordered("<", y, x), builder.fcmp_ordered(">", x, constant(x.type, 0))
    )
    one = constant(ty, 1)
    moved = builder.bitcast(builder.select(outward, builder.add(word, one), builder.sub(word, one)), x.type)
    smallest = intrinsic(builder, "llvm.copysign", builder.bitcast(one, x.type), y)
    moved = builder.select(builder.fcmp_ordered("==", x, constant(x.type, 0)), smallest, moved)
    moved = builder.select(builder.fcmp_ordered("==", x, y), y, moved)
    return builder.select(builder.fcmp_unordered("uno", x, y), builder.fadd(x, y), moved)


def emit_rsqrt(builder: Builder, dtype: Element, x: Value) -> Value:
    return builder.fdiv(constant(x.type, 1), intrinsic(builder, "llvm.sqrt", x))


isnan = named("isnan", 1, emit_isnan, result=boolean)
isinf = named("isinf", 1, emit_isinf, result=boolean)
isfinite = named("isfinite", 1, emit_isfinite, result=boolean)
signbit = named("signbit", 1, emit_signbit, result=boolean)
floor = named("floor", 1, rounding("llvm.floor"))
ceil = named("ceil", 1, rounding("llvm.ceil"))
trunc = named("trunc", 1, rounding("llvm.trunc"))
rint = named("rint", 1, rounding("llvm.rint"))
copysign = named("copysign", 2, rounding("llvm.copysign"))
nextafter = named("nextafter", 2, emit_nextafter)
sqrt = named("sqrt", 1, rounding("llvm.sqrt"))
rsqrt = named("rsqrt", 1, emit_rsqrt)
fma = named("fma", 3, rounding("llvm.fma"))


# ---------------------------------------------------------------------------------------------- selection, casts


@operation
def where(condition: Any, x: Any, y: Any) -> Typed:
    """``condition ? x : y`` slot by slot."""
    meeting = agreed("where", (x, y), "biuf")
    found = condition.dtype if isinstance(condition, Fragment) else weak_element(condition)
    if meeting is None or found != boolean:
        return None
    dtype = meeting.dtype
    shape = broadcast_shape([meeting.shape, condition.shape if isinstance(condition, Fragment) else ()])
    fragment = Fragment(dtype, shape, meeting.weak and shape == ())

    def lower(builder: Builder, *values: Value) -> Value:
        masks = slots_of(builder, condition, values[0], boolean, shape)
        left = slots_of(builder, x, values[1], dtype, shape)
        right = slots_of(builder, y, values[2], dtype, shape)
        return pack(builder, fragment, [builder.select(*row) for row in zip(masks, left, right, strict=True)])

    return fragment, lower


def element_of(argument: Any, name: str) -> Element:
    """The element that a dtype argument names."""
    if isinstance(argument, ElementType):
        return argument.element
    raise refuse(f"{name}: expected a dtype of the fragment language, got {argument}")


@operation
def cast(x: Any, dtype: Any) -> Typed:
    """`x` converted to `dtype`; a 16-bit float gives float32 slots rounded to its precision."""
    if not is_operand(x):
        return None
    source = x.dtype if isinstance(x, Fragment) else weak_element(x)
    assert source is not None
    shape = x.shape if isinstance(x, Fragment) else ()
    target = element_of(dtype, "cast")
    fragment = Fragment(target.compute, shape)

    def lower(builder: Builder, value: Value, _: Value) -> Value:
        slots = slots_of(builder, x, value, source, shape)
        slots = [convert(builder, slot, source, target.compute) for slot in slots]
        if target != target.compute:
            slots = [widen(builder, narrow(builder, slot, target), target) for slot in slots]
        return pack(builder, fragment, slots)

    return fragment, lower


@operation
def bitcast(x: Any, dtype: Any) -> Typed:
    """The bits of `x` read as `dtype`, which has the same width."""
    if not isinstance(x, Fragment):
        return None
    target = element_of(dtype, "bitcast")
    if target.bits != x.dtype.bits or "b" in (target.kind, x.dtype.kind) or target != target.compute:
        raise refuse(f"bitcast: {x.dtype} and {target} differ in width or are not plain numbers")
    fragment = Fragment(target, x.shape)

    def lower(builder: Builder, value: Value, _: Value) -> Value:
        vectors = unpack(builder, x, value)
        if scalar_of(vectors[0].type) == target.register:
            return value
        return pack(builder, fragment, [builder.bitcast(v, retyped(v.type, target.register)) for v in vectors])

    return fragment, lower


@operator_operation(bool, operator.truth)
def truth(x: Any) -> Typed:
    """A 0-d boolean fragment as the condition of an ``if``."""
    if not isinstance(x, Fragment) or x.size != 1:
        return None
    return types.boolean, lambda builder, value: convert(builder, value, x.dtype, boolean)
