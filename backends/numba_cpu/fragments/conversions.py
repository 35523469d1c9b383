"""Conversions between element types, of weak scalars, and between memory and registers."""

from __future__ import annotations

import math
import platform
from typing import Any

from llvmlite import binding, ir
from numba.core import types

from polyfuse.backends.numba_cpu.fragments.elements import (
    Element,
    boolean,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from polyfuse.backends.numba_cpu.fragments.layouts import Shape, vector_layout
from polyfuse.backends.numba_cpu.fragments.operation import refuse
from polyfuse.backends.numba_cpu.fragments.types import Fragment
from polyfuse.backends.numba_cpu.fragments.vectors import (
    I32,
    Builder,
    Value,
    constant,
    intrinsic,
    retyped,
    splat,
    spread,
    uniform_number,
    unpack,
)

_BY_NAME = {
    e.name: e for e in (int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64)
}


def weak_element(ty: Any) -> Element | None:
    """The element type of a weak operand (a number, a weak fragment), or None for anything else."""
    if isinstance(ty, Fragment):
        return ty.dtype if ty.weak else None
    if isinstance(ty, types.Literal):
        ty = ty.literal_type
    if isinstance(ty, types.Omitted):
        return {bool: boolean, int: int64, float: float64}.get(type(ty.value))
    if isinstance(ty, types.Boolean):
        return boolean
    return _BY_NAME.get(str(ty)) if isinstance(ty, types.Integer | types.Float) else None


def is_operand(ty: Any) -> bool:
    """True for what an element-wise operation takes: a fragment or a weak scalar."""
    return isinstance(ty, Fragment) or weak_element(ty) is not None


def is_strong(ty: Any) -> bool:
    """True for a fragment whose dtype decides what others convert to."""
    return isinstance(ty, Fragment) and not ty.weak


def _folded(value: Any, target: Element) -> Any:
    """A Python number converted as the machine would, at compile time."""
    if target.kind == "b":
        return int(value != 0)
    if target.is_float:
        return float(value)
    if not isinstance(value, float):
        return value
    wide = _passed(target)
    least, most = -(1 << (wide - 1)), (1 << wide if target == uint64 else 1 << (wide - 1)) - 1
    nearest = 0 if math.isnan(value) else most if value >= most else least if value <= least else int(value)
    return nearest


def convert(builder: Builder, value: Value, source: Element, target: Element) -> Value:
    """`value` converted slot by slot between compute types, with NumPy's rules; a float out of the range of the
    integers saturates, where NumPy leaves the result undefined."""
    if source == target:
        return value
    ty = retyped(value.type, target.register)
    number = uniform_number(value)
    if number is not None:
        return constant(ty, _folded(number, target))
    if target.kind == "b":
        zero = constant(value.type, 0)
        return (builder.fcmp_unordered if source.is_float else builder.icmp_unsigned)("!=", value, zero)
    match source.kind, target.kind:
        case "f", "f":
            return builder.fptrunc(value, ty) if source.bits > target.bits else builder.fpext(value, ty)
        case "f", _:
            return _float_to_integer(builder, value, target)
        case "b" | "u", "f":
            return builder.uitofp(value, ty)
        case "i", "f":
            return builder.sitofp(value, ty)
        case "b", _:
            return builder.zext(value, ty)
    if source.bits == target.bits:
        return value
    if source.bits > target.bits:
        return builder.trunc(value, ty)
    return builder.sext(value, ty) if source.kind == "i" else builder.zext(value, ty)


def _float_to_integer(builder: Builder, value: Value, target: Element) -> Value:
    """Truncation.  Narrow and unsigned targets go through a wider signed type, so that they wrap as in NumPy; for
    uint64, than which none is wider, negative numbers do."""
    wide = _passed(target)
    ty = retyped(value.type, ir.IntType(wide))
    result = intrinsic(builder, "llvm.fptosi.sat", value, result=ty, overloads=(ty, value.type))
    if target == uint64:
        positive = intrinsic(builder, "llvm.fptoui.sat", value, result=ty, overloads=(ty, value.type))
        result = builder.select(builder.fcmp_ordered("<", value, constant(value.type, 0)), result, positive)
    return result if wide == target.bits else builder.trunc(result, retyped(value.type, target.register))


def _passed(target: Element) -> int:
    """The bits of the signed integers by way of which floats become those of `target`."""
    return {8: 32, 16: 32, 32: 64 if target.kind == "u" else 32, 64: 64}[target.bits]


def weak(builder: Builder, ty: Any, value: Value, target: Element) -> Value:
    """A weak operand as one slot of `target`."""
    source = weak_element(ty)
    if source is None:
        raise refuse(f"{ty} is neither a fragment nor a number")
    if isinstance(ty, Fragment):
        return convert(builder, value, source, target)
    if isinstance(ty, types.Omitted):
        return constant(target.register, _folded(ty.value, target))
    if source.kind == "b" and value.type != boolean.register:
        value = builder.icmp_unsigned("!=", value, constant(value.type, 0))
    return convert(builder, value, source, target)


def slots_of(builder: Builder, ty: Any, value: Value, target: Element, shape: Shape) -> list[Value]:
    """The vectors of an operand broadcast to `shape`; fragments keep their dtype, weak scalars become `target`."""
    if isinstance(ty, Fragment) and not ty.weak:
        return spread(builder, unpack(builder, ty, value), ty.shape, shape)
    scalar = weak(builder, ty, value, target)
    layout = vector_layout(shape)
    splats = {lanes: splat(builder, scalar, lanes) for lanes in dict.fromkeys(layout.chunks)}
    return [splats[lanes] for lanes in layout.chunks] * layout.rows


def index_value(builder: Builder, ty: Any, value: Value) -> Value:
    """An index scalar (0-d fragment, Numba integer or literal) as a 64-bit integer."""
    if isinstance(ty, Fragment):
        if ty.size != 1 or not ty.dtype.is_integer:
            raise refuse(f"expected an index scalar, got {ty}")
        return convert(builder, value, ty.dtype, int64 if ty.dtype.kind == "i" else uint64)
    return weak(builder, ty, value, int64)


# ---------------------------------------------------------------------------------------------- memory


def _has_half_instructions() -> bool:
    """Whether LLVM converts float16 in hardware; elsewhere it would call a run-time library that is not linked."""
    return bool(binding.get_host_cpu_features().get("f16c")) or platform.machine() in ("aarch64", "arm64")


HALF_INSTRUCTIONS = _has_half_instructions()


def widen(builder: Builder, words: Value, element: Element) -> Value:
    """Memory words as register slots: bytes to i1, 16-bit floats to float32, all else unchanged."""
    if element.kind == "b":
        return builder.icmp_unsigned("!=", words, constant(words.type, 0))
    if not (element.is_float and element.bits == 16):
        return words
    if element == float16:
        if HALF_INSTRUCTIONS:
            half = builder.bitcast(words, retyped(words.type, ir.HalfType()))
            return builder.fpext(half, retyped(words.type, ir.FloatType()))
        return half_to_float(builder, words)
    high = builder.shl(builder.zext(words, retyped(words.type, I32)), constant(retyped(words.type, I32), 16))
    return builder.bitcast(high, retyped(words.type, ir.FloatType()))


def narrow(builder: Builder, slots: Value, element: Element) -> Value:
    """Register slots as memory words, the inverse of `widen`; floats round to nearest even."""
    if element.kind == "b":
        return builder.zext(slots, retyped(slots.type, ir.IntType(8)))
    if not (element.is_float and element.bits == 16):
        return slots
    if element == float16:
        if HALF_INSTRUCTIONS:
            # LLVM moves a rounding to float32 in front of this into one from double, which is a call of that library.
            single = intrinsic(builder, "llvm.arithmetic.fence", slots)
            half = builder.fptrunc(single, retyped(slots.type, ir.HalfType()))
            return builder.bitcast(half, retyped(slots.type, ir.IntType(16)))
        return float_to_half(builder, slots)
    return _float_to_bfloat(builder, slots)


def _float_to_bfloat(builder: Builder, slots: Value) -> Value:
    ty = retyped(slots.type, I32)
    word = builder.bitcast(slots, ty)
    odd = builder.and_(builder.lshr(word, constant(ty, 16)), constant(ty, 1))
    up = builder.add(word, builder.add(odd, constant(ty, 0x7FFF)))
    quiet = builder.or_(word, constant(ty, 0x400000))  # a NaN must not round to an infinity
    kept = builder.select(builder.fcmp_unordered("uno", slots, slots), quiet, up)
    return builder.trunc(builder.lshr(kept, constant(ty, 16)), retyped(slots.type, ir.IntType(16)))


def half_to_float(builder: Builder, words: Value) -> Value:
    """float16 bits to float32 in integer arithmetic: scaling by 2^112 also normalises subnormal numbers."""
    ty = retyped(words.type, I32)
    single = retyped(words.type, ir.FloatType())
    word = builder.zext(words, ty)
    magnitude = builder.shl(builder.and_(word, constant(ty, 0x7FFF)), constant(ty, 13))
    scaled = builder.fmul(builder.bitcast(magnitude, single), constant(single, 2.0**112))
    special = builder.icmp_unsigned(">=", magnitude, constant(ty, 0x7C00 << 13))
    bits = builder.select(
        special, builder.or_(magnitude, constant(ty, 0x7F800000)), builder.bitcast(scaled, ty)
    )
    sign = builder.shl(builder.and_(word, constant(ty, 0x8000)), constant(ty, 16))
    return builder.bitcast(builder.or_(bits, sign), single)


def float_to_half(builder: Builder, slots: Value) -> Value:
    """float32 to float16 bits in integer arithmetic, rounding to nearest even; subnormal results by a float add whose
    unit in the last place is the smallest float16."""
    ty = retyped(slots.type, I32)
    word = builder.bitcast(slots, ty)
    magnitude = builder.and_(word, constant(ty, 0x7FFFFFFF))
    odd = builder.and_(builder.lshr(magnitude, constant(ty, 13)), constant(ty, 1))
    rounded_up = builder.add(magnitude, builder.add(odd, constant(ty, 0xFFF - (112 << 23))))
    normal = builder.lshr(rounded_up, constant(ty, 13))
    half = constant(slots.type, 0.5)
    aligned = builder.fadd(builder.bitcast(magnitude, slots.type), half)
    subnormal = builder.sub(builder.bitcast(aligned, ty), builder.bitcast(half, ty))
    finite = builder.select(builder.icmp_unsigned("<", magnitude, constant(ty, 113 << 23)), subnormal, normal)
    overflow = builder.icmp_unsigned(">=", magnitude, constant(ty, 0x477FF000))  # 65520 rounds to infinity
    nan = builder.icmp_unsigned(">", magnitude, constant(ty, 0x7F800000))
    special = builder.select(nan, constant(ty, 0x7E00), constant(ty, 0x7C00))
    result = builder.select(overflow, special, finite)
    sign = builder.and_(builder.lshr(word, constant(ty, 16)), constant(ty, 0x8000))
    return builder.trunc(builder.or_(result, sign), retyped(slots.type, ir.IntType(16)))
