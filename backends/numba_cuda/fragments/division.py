"""Quotients of many slots by few divisors: one reciprocal serves all slots of a divisor, and every bit stays IEEE's.

    r = 1/d rounded;   q = x r;   q = q + (x - q d) r,  twice

with fused multiply-adds.  The first step makes q one of the two floats next to x/d, the second one then gives the
nearest (Markstein, Computation of elementary functions on the IBM RISC System/6000 processor, 1990), where remainder
and quotient stay normal numbers: dividends between the limits that `LARGE` and `QUOTIENT` set for their divisor, or
positive zero.  One branch takes a fragment with any other to division in float64 or, where registers are few or the
numbers are float64 themselves, to IEEE's.

A quotient of two float32 is no middle between two floats, not even between two subnormal ones, unless float64 has it
exactly, and else lies further from one than float64 errs: the nearest float64, rounded, is the nearest float32.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from polyfuse.backends.numba_cuda.fragments.declare import Emit
from polyfuse.backends.numba_cuda.fragments.slots import constant_of, intrinsic, keeps_cells, pack, spread
from polyfuse.backends.numba_cuda.fragments.values import (
    F32,
    F64,
    I32,
    I64,
    Builder,
    Fragment,
    Value,
    float32,
    float64,
)
from polyfuse.backends.numba_cuda.numba_api import ir

LARGE = {F32: 2.0**100, F64: 2.0**900}
"""Divisors and dividends of the quick way lie between 1/LARGE and it: reciprocals are normal numbers, remainders of the
last bit are numbers (2^-100 / 2^46 is 2^-146, 2^-900 / 2^104 is 2^-1004)."""
QUOTIENT = {F32: 2.0**120, F64: 2.0**1000}
"""And quotients between 1/QUOTIENT and it."""
MANY_OF_PIECES = 32
"""Slots from which a fragment divides in float64 there where values wait in cells: pieces have no registers for it.
Others do however few slots they have.  Softmax with elements below 2^-100 in rows of 37 to 4096 took an H200 397 to 502
us by IEEE's division, and 122 to 162 so, 122 to 135 without any such: benchmarks/results/quotients_h200.json."""
SHARING = 4
"""Slots per divisor from which one reciprocal for all of them is cheaper than a division for each."""


def shares_divisors(arguments: tuple[Any, ...], result: Fragment) -> bool:
    """Whether the operands of a division are floats of one kind with `SHARING` dividends to a divisor or more; a number
    in the text is one divisor, whose reciprocal the compiler knows."""
    left, right = arguments
    if isinstance(left, Fragment) and not isinstance(right, Fragment):
        return left.dtype == result.dtype and result.dtype in (float32, float64) and result.size >= SHARING
    fragments = isinstance(left, Fragment) and isinstance(right, Fragment)
    if not fragments or result.dtype not in (float32, float64) or {left.dtype, right.dtype} != {result.dtype}:
        return False
    return bool(left.size == result.size and right.size * SHARING <= result.size)


def has_own_divisors(arguments: tuple[Any, ...], result: Fragment) -> bool:
    """Whether there are several divisors, of one slot or few each: one by itself is a total, or its reciprocal, of rows
    that leave no registers."""
    _, right = arguments
    return isinstance(right, Fragment) and right.size > 1


def shared_quotients(left: Fragment, right: Any, result: Fragment) -> Emit:
    """An emitter of ``left / right``; `shares_divisors` holds."""
    shape = right.shape if isinstance(right, Fragment) else ()
    positions = np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), result.shape).ravel()

    def emit(b: Builder, x: Value, y: Value) -> Value:
        dividends, divisors = spread(b, left, x, result.dtype, result.shape), spread(b, right, y, result.dtype, shape)
        if all(is_power_of_two(d) for d in divisors):
            return pack(b, result, [b.fdiv(x, divisors[k]) for x, k in zip(dividends, positions, strict=True)])
        one = constant_of(divisors[0].type, 1.0)
        inverses = [b.fdiv(one, d) for d in divisors]
        pairs = [(slot, divisors[k], inverses[k]) for slot, k in zip(dividends, positions, strict=True)]
        limits = [_limits(b, d) for d in divisors]
        odd = [_outside(b, d, None) for d in divisors]
        odd += [b.and_(_outside(b, s, limits[k]), _nonzero(b, s)) for s, k in zip(dividends, positions, strict=True)]
        some = odd[0]
        for other in odd[1:]:
            some = b.or_(some, other)
        with b.if_else(some, likely=False) as (rarely, mostly):  # each side frees its dividends
            with rarely:
                exact = _exact(b, dividends, divisors, positions)
                rare = b.block
            with mostly:
                quick = [_quotient(b, *pair) for pair in pairs]
                most = b.block
        return pack(b, result, [_either(b, (q, most), (e, rare)) for q, e in zip(quick, exact, strict=True)])

    return emit


def _exact(b: Builder, dividends: list[Value], divisors: list[Value], positions: np.ndarray) -> list[Value]:
    """Any quotients: by IEEE's division one by one, or in float64, with a reciprocal of every divisor and a correction
    where a remainder is left.  None is of zeros, whose sign stays, and it is not a number where infinities are."""
    known = all(isinstance(d, ir.Constant) for d in divisors)
    if divisors[0].type == F64 or keeps_cells(b) and len(dividends) < MANY_OF_PIECES and not known:
        return [b.fdiv(x, divisors[k]) for x, k in zip(dividends, positions, strict=True)]
    wide = [b.fpext(d, F64) for d in divisors]
    inverses = [b.fdiv(constant_of(F64, 1.0), d) for d in wide]
    found = []
    for dividend, k in zip(dividends, positions, strict=True):
        x = b.fpext(dividend, F64)
        q = b.fmul(x, inverses[k])
        rest = intrinsic(b, "llvm.fma.f64", F64, [q, b.fsub(constant_of(F64, -0.0), wide[k]), x])
        corrected = intrinsic(b, "llvm.fma.f64", F64, [rest, inverses[k], q])
        is_left = b.fcmp_ordered("!=", rest, constant_of(F64, 0.0))
        found.append(b.fptrunc(b.select(is_left, corrected, q), F32))
    return found


def is_power_of_two(d: Value) -> bool:
    """Of a number in the text: the compiler makes a multiplication of the division."""
    return isinstance(d, ir.Constant) and math.isfinite(d.constant) and abs(math.frexp(d.constant)[0]) == 0.5


def _quotient(b: Builder, x: Value, d: Value, inverse: Value) -> Value:
    q = b.fmul(x, inverse)
    minus, fma = b.fsub(constant_of(d.type, -0.0), d), "llvm.fma.f32" if d.type == F32 else "llvm.fma.f64"
    for _ in range(2):
        rest = intrinsic(b, fma, d.type, [q, minus, x])
        q = intrinsic(b, fma, d.type, [rest, inverse, q])
    return q


def _size(b: Builder, x: Value) -> Value:
    return intrinsic(b, "__nv_fabsf" if x.type == F32 else "__nv_fabs", x.type, [x])


def _limits(b: Builder, d: Value) -> tuple[Value, Value]:
    """The least and the greatest dividend of the quick way for a divisor that is inside its own."""
    size, large, most = _size(b, d), LARGE[d.type], QUOTIENT[d.type]
    least, greatest = b.fmul(size, constant_of(d.type, 1 / most)), b.fmul(size, constant_of(d.type, most))
    low, high = constant_of(d.type, 1 / large), constant_of(d.type, large)
    least = b.select(b.fcmp_ordered(">", least, low), least, low)
    return least, b.select(b.fcmp_ordered("<", greatest, high), greatest, high)


def _outside(b: Builder, x: Value, limits: tuple[Value, Value] | None) -> Value:
    """True where a magnitude is beyond the limits (of divisors where None), also for infinities and NaN."""
    large = LARGE[x.type]
    low, high = limits or (constant_of(x.type, 1 / large), constant_of(x.type, large))
    size = _size(b, x)
    return b.or_(b.fcmp_unordered("<", size, low), b.fcmp_unordered(">", size, high))


def _nonzero(b: Builder, x: Value) -> Value:
    """Also of a negative zero, whose quotient would come out positive."""
    bits = I32 if x.type == F32 else I64
    return b.icmp_unsigned("!=", b.bitcast(x, bits), ir.Constant(bits, 0))


def _either(b: Builder, *choices: tuple[Value, Value]) -> Value:
    joined = b.phi(choices[0][0].type)
    for value, block in choices:
        joined.add_incoming(value, block)
    return joined
