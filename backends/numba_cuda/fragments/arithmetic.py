"""Slot arithmetic with NumPy's rules: integer division, shifts, powers, comparisons, NaN-propagating extrema.

Every function here is an emitter ``op(builder, dtype, *slots) -> slot``; `dtype` is the type of the operands.
"""

from __future__ import annotations

from collections.abc import Callable

from polyfuse.backends.numba_cuda.fragments.division import is_power_of_two
from polyfuse.backends.numba_cuda.fragments.slots import assembly, constant_of, intrinsic
from polyfuse.backends.numba_cuda.fragments.values import (
    F32,
    I32,
    Builder,
    DType,
    Value,
    boolean,
    float32,
    is_float,
    is_signed,
    itemsize,
    register_type,
)
from polyfuse.backends.numba_cuda.numba_api import ir

Op = Callable[..., Value]


def zero(dtype: DType) -> Value:
    """The zero of a register type."""
    return constant_of(register_type(dtype), 0)


def by_kind(of_floats: str, of_integers: str) -> Op:
    """The LLVM instruction of one name on floats and another on integers."""
    return lambda b, t, *slots: getattr(b, of_floats if is_float(t) else of_integers)(*slots)


def libdevice(name: str) -> Op:
    """The function `name` of libdevice, ``__nv_NAMEf`` in single precision."""
    return lambda b, t, *slots: intrinsic(b, f"__nv_{name}{'f' if t == float32 else ''}", register_type(t), list(slots))


def emit_negative(b: Builder, t: DType, x: Value) -> Value:
    """``-x``; unsigned integers wrap."""
    return b.fsub(constant_of(x.type, -0.0), x) if is_float(t) else b.neg(x)


def emit_absolute(b: Builder, t: DType, x: Value) -> Value:
    """The magnitude; of the least signed integer it is that integer, as in NumPy."""
    if is_float(t):
        return libdevice("fabs")(b, t, x)
    return b.select(b.icmp_signed("<", x, zero(t)), b.neg(x), x) if is_signed(t) else x


def emit_sign(b: Builder, t: DType, x: Value) -> Value:
    """-1, 0 or 1; NaN stays NaN."""
    if not is_float(t):
        above = b.zext(compare(">")(b, t, x, zero(t)), x.type)
        return b.sub(above, b.zext(b.icmp_signed("<", x, zero(t)), x.type)) if is_signed(t) else above
    one, minus_one = constant_of(x.type, 1.0), constant_of(x.type, -1.0)
    neither = b.select(b.fcmp_unordered("uno", x, x), x, zero(t))
    not_above = b.select(b.fcmp_ordered("<", x, zero(t)), minus_one, neither)
    return b.select(b.fcmp_ordered(">", x, zero(t)), one, not_above)


def compare(symbol: str) -> Op:
    """A comparison to i1: NaN is unequal to everything, integers by their signedness."""

    def op(b: Builder, t: DType, x: Value, y: Value) -> Value:
        if is_float(t):
            return (b.fcmp_unordered if symbol == "!=" else b.fcmp_ordered)(symbol, x, y)
        return (b.icmp_signed if is_signed(t) else b.icmp_unsigned)(symbol, x, y)

    return op


# ------------------------------------------------------------------------------------------ division


def _safe_divisor(b: Builder, t: DType, x: Value, y: Value) -> Value:
    """The divisor, or 1 where the quotient is undefined in LLVM: by zero, and the least integer by -1."""
    undefined = b.icmp_unsigned("==", y, zero(t))
    if is_signed(t):
        least, minus_one = ir.Constant(x.type, -(1 << (x.type.width - 1))), ir.Constant(x.type, -1)
        overflow = b.and_(b.icmp_unsigned("==", x, least), b.icmp_unsigned("==", y, minus_one))
        undefined = b.or_(undefined, overflow)
    return b.select(undefined, ir.Constant(x.type, 1), y)


def _power_of_two(y: Value) -> int | None:
    """log2 of a constant divisor that is a positive power of two."""
    value = getattr(y, "constant", None)
    return value.bit_length() - 1 if isinstance(value, int) and value > 0 and not value & (value - 1) else None


def emit_divide(b: Builder, t: DType, x: Value, y: Value) -> Value:
    """The quotient of floats.  IEEE's division of float32 goes a long way round for a dividend of zero, as those of a
    mask or behind `maximum` are, 106 us instead of 67 for 52 million of them on an H100: a divisor by itself stands in
    for it, and zero with both signs for the quotient, where there is one."""
    if x.type != F32 or isinstance(x, ir.Constant) or is_power_of_two(y):
        return b.fdiv(x, y)
    none = b.fcmp_ordered("==", x, zero(t))
    quotient = b.fdiv(b.select(none, y, x), y)
    sign = b.and_(b.bitcast(y, I32), ir.Constant(I32, -(1 << 31)))
    signed_zero = b.bitcast(b.xor(b.bitcast(x, I32), sign), F32)
    return b.select(b.and_(none, b.fcmp_ordered("!=", y, zero(t))), signed_zero, quotient)


def emit_floor_divide(b: Builder, t: DType, x: Value, y: Value) -> Value:
    """The floor of the quotient; integers by zero give 0."""
    if is_float(t):
        return _float_floor_divide(b, t, x, y)
    shift = _power_of_two(y)
    if shift is not None:
        return (b.ashr if is_signed(t) else b.lshr)(x, ir.Constant(x.type, shift))
    divisor = _safe_divisor(b, t, x, y)
    if not is_signed(t):
        quotient = b.udiv(x, divisor)
    else:
        rest = b.srem(x, divisor)
        down = b.and_(b.icmp_signed("!=", rest, zero(t)), b.icmp_signed("<", b.xor(rest, divisor), zero(t)))
        quotient = b.sub(b.sdiv(x, divisor), b.zext(down, x.type))
    return b.select(b.icmp_unsigned("==", y, zero(t)), zero(t), quotient)


def emit_remainder(b: Builder, t: DType, x: Value, y: Value) -> Value:
    """The remainder with the sign of the divisor; integers by zero give 0."""
    if is_float(t):
        return _float_remainder(b, t, x, y)
    if _power_of_two(y) is not None:
        return b.and_(x, ir.Constant(x.type, y.constant - 1))
    divisor = _safe_divisor(b, t, x, y)
    if not is_signed(t):
        return b.urem(x, divisor)
    rest = b.srem(x, divisor)
    up = b.and_(b.icmp_signed("!=", rest, zero(t)), b.icmp_signed("<", b.xor(rest, divisor), zero(t)))
    return b.select(up, b.add(rest, divisor), rest)


def emit_fmod(b: Builder, t: DType, x: Value, y: Value) -> Value:
    """The remainder with the sign of the dividend; integers by zero give 0."""
    if is_float(t):
        return libdevice("fmod")(b, t, x, y)
    return (b.srem if is_signed(t) else b.urem)(x, _safe_divisor(b, t, x, y))


def _divmod(b: Builder, t: DType, x: Value, y: Value) -> tuple[Value, Value, Value]:
    """``fmod(x, y)``, the same with the sign of y, and whether the two differ (npy_divmod of NumPy)."""
    rest = emit_fmod(b, t, x, y)
    negative_y, negative_rest = b.fcmp_ordered("<", y, zero(t)), b.fcmp_ordered("<", rest, zero(t))
    moved = b.and_(b.fcmp_unordered("!=", rest, zero(t)), b.xor(negative_y, negative_rest))
    return rest, b.select(moved, b.fadd(rest, y), rest), moved


def _float_remainder(b: Builder, t: DType, x: Value, y: Value) -> Value:
    _, moved_rest, _ = _divmod(b, t, x, y)
    signed_zero = libdevice("copysign")(b, t, zero(t), y)
    return b.select(b.fcmp_ordered("==", moved_rest, zero(t)), signed_zero, moved_rest)


def _float_floor_divide(b: Builder, t: DType, x: Value, y: Value) -> Value:
    rest, _, moved = _divmod(b, t, x, y)
    one = constant_of(x.type, 1.0)
    quotient = b.fdiv(b.fsub(x, rest), y)
    quotient = b.select(moved, b.fsub(quotient, one), quotient)
    below = libdevice("floor")(b, t, quotient)
    half = constant_of(x.type, 0.5)
    nearest = b.select(b.fcmp_ordered(">", b.fsub(quotient, below), half), b.fadd(below, one), below)
    plain = b.fdiv(x, y)
    signed_zero = libdevice("copysign")(b, t, zero(t), plain)
    result = b.select(b.fcmp_ordered("==", quotient, zero(t)), signed_zero, nearest)
    return b.select(b.fcmp_ordered("==", y, zero(t)), plain, result)


# ------------------------------------------------------------------------------------------ powers, shifts, products


def emit_power(b: Builder, t: DType, x: Value, y: Value) -> Value:
    """``x**y``; integers wrap, and to a negative power they give the truncated quotient (0 unless x is 1 or -1)."""
    if is_float(t):
        return libdevice("pow")(b, t, x, y)
    exponent = getattr(y, "constant", None)
    if isinstance(exponent, int) and exponent >= 0:
        return _constant_power(b, x, exponent)
    result = _integer_power(b, x, y)
    if not is_signed(t):
        return result
    one, minus_one = ir.Constant(x.type, 1), ir.Constant(x.type, -1)
    odd = b.icmp_unsigned("!=", b.and_(y, one), zero(t))
    sign_of = b.select(b.and_(odd, b.icmp_unsigned("==", x, minus_one)), minus_one, one)
    unit = b.or_(b.icmp_unsigned("==", x, one), b.icmp_unsigned("==", x, minus_one))
    return b.select(b.icmp_signed("<", y, zero(t)), b.select(unit, sign_of, zero(t)), result)


def _constant_power(b: Builder, x: Value, exponent: int) -> Value:
    result = None
    while exponent:
        if exponent & 1:
            result = x if result is None else b.mul(result, x)
        exponent >>= 1
        x = b.mul(x, x) if exponent else x
    return ir.Constant(x.type, 1) if result is None else result


def _integer_power(b: Builder, x: Value, y: Value) -> Value:
    """Square and multiply, in a loop over the bits of the exponent."""
    before = b.block
    loop, after = b.append_basic_block("power"), b.append_basic_block("powered")
    one = ir.Constant(x.type, 1)
    b.branch(loop)
    b.position_at_end(loop)
    result, base, rest = b.phi(x.type), b.phi(x.type), b.phi(x.type)
    odd = b.icmp_unsigned("!=", b.and_(rest, one), ir.Constant(x.type, 0))
    multiplied = b.select(odd, b.mul(result, base), result)
    squared, halved = b.mul(base, base), b.lshr(rest, one)
    b.cbranch(b.icmp_unsigned("!=", halved, ir.Constant(x.type, 0)), loop, after)
    for phi, first, again in ((result, one, multiplied), (base, x, squared), (rest, y, halved)):
        phi.add_incoming(first, before)
        phi.add_incoming(again, loop)
    b.position_at_end(after)
    return multiplied


def _shift(b: Builder, shifted: Op, x: Value, y: Value, beyond: Value) -> Value:
    """`shifted` by y, or `beyond` where y is not below the width, which LLVM leaves undefined."""
    width = x.type.width
    amount = getattr(y, "constant", None)
    if isinstance(amount, int):
        return shifted(x, y) if 0 <= amount < width else beyond
    inside = b.icmp_unsigned("<", y, ir.Constant(y.type, width))
    return b.select(inside, shifted(x, b.select(inside, y, ir.Constant(y.type, 0))), beyond)


def emit_left_shift(b: Builder, t: DType, x: Value, y: Value) -> Value:
    """``x << y``; 0 where y is not below the width."""
    return _shift(b, b.shl, x, y, zero(t))


def emit_right_shift(b: Builder, t: DType, x: Value, y: Value) -> Value:
    """``x >> y``, arithmetic for signed types; all sign bits where y is not below the width."""
    if not is_signed(t):
        return _shift(b, b.lshr, x, y, zero(t))
    return _shift(b, b.ashr, x, y, b.ashr(x, ir.Constant(x.type, x.type.width - 1)))


def emit_multiply_high(b: Builder, t: DType, x: Value, y: Value) -> Value:
    """The upper half of the double-width product."""
    width = x.type.width
    if width == 64:
        return intrinsic(b, "__nv_mul64hi" if is_signed(t) else "__nv_umul64hi", x.type, [x, y])
    wide, extend = ir.IntType(2 * width), b.sext if is_signed(t) else b.zext
    return b.trunc(b.lshr(b.mul(extend(x, wide), extend(y, wide)), ir.Constant(wide, width)), x.type)


def emit_fma(b: Builder, t: DType, x: Value, y: Value, z: Value) -> Value:
    """``x * y + z`` with one rounding."""
    if not is_float(t):
        return b.add(b.mul(x, y), z)
    return intrinsic(b, f"llvm.fma.f{8 * itemsize(t)}", x.type, [x, y, z])


# ------------------------------------------------------------------------------------------ extrema


def extremum(name: str) -> Op:
    """``max`` or ``min`` where NaN propagates."""
    symbol = ">" if name == "max" else "<"

    def op(b: Builder, t: DType, x: Value, y: Value) -> Value:
        if t == boolean:
            return (b.or_ if name == "max" else b.and_)(x, y)
        if t == float32:  # one instruction of sm_80 and later
            return assembly(b, f"{name}.NaN.f32 $0, $1, $2;", "=f,f,f", x.type, [x, y], effect=False)
        if is_float(t):
            keep = b.or_(b.fcmp_unordered("uno", x, x), b.fcmp_ordered(symbol, x, y))
            return b.select(keep, x, y)
        return b.select(compare(symbol)(b, t, x, y), x, y)

    return op


# ------------------------------------------------------------------------------------------ bit patterns of floats


def is_nan(b: Builder, t: DType, x: Value) -> Value:
    """True for NaN."""
    return b.fcmp_unordered("uno", x, x)


def is_infinite(b: Builder, t: DType, x: Value) -> Value:
    """True for both infinities."""
    return b.fcmp_ordered("==", emit_absolute(b, t, x), constant_of(x.type, float("inf")))


def is_finite(b: Builder, t: DType, x: Value) -> Value:
    """False for NaN and infinities."""
    return b.fcmp_ordered("<", emit_absolute(b, t, x), constant_of(x.type, float("inf")))


def sign_bit(b: Builder, t: DType, x: Value) -> Value:
    """The sign bit, also of zeros and NaN."""
    pattern = ir.IntType(8 * itemsize(t))
    return b.icmp_signed("<", b.bitcast(x, pattern), ir.Constant(pattern, 0))
