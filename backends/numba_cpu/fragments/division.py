"""Quotients and remainders with NumPy's rules, for integers and floats."""

from __future__ import annotations

import operator

from llvmlite import ir

from polyfuse.backends.numba_cpu.fragments.elements import Element
from polyfuse.backends.numba_cpu.fragments.elementwise import infix, named
from polyfuse.backends.numba_cpu.fragments.vectors import (
    Builder,
    Value,
    constant,
    intrinsic,
    lanes_of,
    retyped,
    shared_function,
    uniform_number,
)


def _safe_divisor(builder: Builder, dtype: Element, x: Value, y: Value) -> Value:
    """`y` with the divisors that trap replaced by 1: zero, and -1 under the lowest integer."""
    bad = builder.icmp_unsigned("==", y, constant(y.type, 0))
    if dtype.kind == "i":
        lowest = builder.icmp_unsigned("==", x, constant(x.type, -(1 << (dtype.bits - 1))))
        minus = builder.icmp_unsigned("==", y, constant(y.type, -1))
        bad = builder.or_(bad, builder.and_(lowest, minus))
    return builder.select(bad, constant(y.type, 1), y)


def _quotient(builder: Builder, dtype: Element, x: Value, y: Value) -> Value:
    """`x / y` towards zero, for a divisor that does not trap.  No CPU divides integer vectors: up to 32 bits a float64
    division is exact after truncation, as quotients of such numbers lie 2^-32 apart and 2^-53 is its error."""
    signed = dtype.kind == "i"
    if lanes_of(x.type) == 1 or dtype.bits == 64 or uniform_number(y) is not None:
        return (builder.sdiv if signed else builder.udiv)(x, y)
    wide = retyped(x.type, ir.DoubleType())
    to_float = builder.sitofp if signed else builder.uitofp
    ratio = builder.fdiv(to_float(x, wide), to_float(y, wide))
    return (builder.fptosi if signed else builder.fptoui)(ratio, x.type)


def _divide_integers(builder: Builder, dtype: Element, x: Value, y: Value) -> tuple[Value, Value, Value]:
    """(quotient towards zero, its remainder, the safe divisor)."""
    safe = _safe_divisor(builder, dtype, x, y)
    if uniform_number(y) not in (None, 0, -1):
        safe = y
    quotient = _quotient(builder, dtype, x, safe)
    return quotient, builder.sub(x, builder.mul(quotient, safe)), safe


def _is_zero(builder: Builder, y: Value) -> Value:
    return builder.icmp_unsigned("==", y, constant(y.type, 0))


def _inexact(builder: Builder, remainder: Value, divisor: Value) -> Value:
    """Where rounding down differs from truncation: a remainder whose sign is not the divisor's."""
    zero = constant(remainder.type, 0)
    opposite = builder.icmp_signed("<", builder.xor(remainder, divisor), zero)
    return builder.and_(builder.icmp_unsigned("!=", remainder, zero), opposite)


def emit_floor_divide(builder: Builder, dtype: Element, x: Value, y: Value) -> Value:
    if dtype.is_float:
        return shared_function(builder, "floor_divide", _float_floor_divide, x, y)
    quotient, remainder, safe = _divide_integers(builder, dtype, x, y)
    if dtype.kind == "i":
        lower = builder.sub(quotient, constant(quotient.type, 1))
        quotient = builder.select(_inexact(builder, remainder, safe), lower, quotient)
    return builder.select(_is_zero(builder, y), constant(x.type, 0), quotient)


def emit_remainder(builder: Builder, dtype: Element, x: Value, y: Value) -> Value:
    if dtype.is_float:
        return shared_function(builder, "remainder", _float_remainder, x, y)
    _, remainder, safe = _divide_integers(builder, dtype, x, y)
    if dtype.kind == "i":
        moved = builder.add(remainder, safe)
        remainder = builder.select(_inexact(builder, remainder, safe), moved, remainder)
    return builder.select(_is_zero(builder, y), constant(x.type, 0), remainder)


def emit_fmod(builder: Builder, dtype: Element, x: Value, y: Value) -> Value:
    if dtype.is_float:
        return shared_function(builder, "fmod", _float_fmod, x, y)
    _, remainder, _ = _divide_integers(builder, dtype, x, y)
    return builder.select(_is_zero(builder, y), constant(x.type, 0), remainder)


def _float_fmod(builder: Builder, x: Value, y: Value) -> Value:
    """C fmod: LLVM calls the run-time library, lane by lane."""
    return builder.frem(x, y)


def _float_remainder(builder: Builder, x: Value, y: Value) -> Value:
    """The sign of the divisor, as Python and np.remainder; a zero result takes it too."""
    zero = constant(x.type, 0)
    remainder = builder.frem(x, y)
    opposite = builder.xor(
        builder.fcmp_ordered("<", remainder, zero), builder.fcmp_ordered("<", y, zero)
    )
    moved = builder.select(opposite, builder.fadd(remainder, y), remainder)
    signed_zero = intrinsic(builder, "llvm.copysign", zero, y)
    return builder.select(builder.fcmp_ordered("==", remainder, zero), signed_zero, moved)


def _float_floor_divide(builder: Builder, x: Value, y: Value) -> Value:
    """NumPy's algorithm (npy_divmod): the exact remainder first, so that the quotient rounds in one direction."""
    zero, one = constant(x.type, 0), constant(x.type, 1)
    remainder = builder.frem(x, y)
    quotient = builder.fdiv(builder.fsub(x, remainder), y)
    opposite = builder.and_(
        builder.fcmp_unordered("!=", remainder, zero),
        builder.xor(builder.fcmp_ordered("<", remainder, zero), builder.fcmp_ordered("<", y, zero)),
    )
    quotient = builder.select(opposite, builder.fsub(quotient, one), quotient)
    whole = intrinsic(builder, "llvm.floor", quotient)
    far = builder.fcmp_ordered(">", builder.fsub(quotient, whole), constant(x.type, 0.5))
    whole = builder.select(far, builder.fadd(whole, one), whole)
    ratio = builder.fdiv(x, y)
    signed_zero = intrinsic(builder, "llvm.copysign", zero, ratio)
    whole = builder.select(builder.fcmp_ordered("==", quotient, zero), signed_zero, whole)
    return builder.select(builder.fcmp_ordered("==", y, zero), ratio, whole)


floor_divide = named("floor_divide", 2, emit_floor_divide, "iuf")
remainder = named("remainder", 2, emit_remainder, "iuf")
fmod = named("fmod", 2, emit_fmod, "iuf")
infix((operator.floordiv, operator.ifloordiv), floor_divide)
infix((operator.mod, operator.imod), remainder)
