"""Quotients of many slots by few divisors: one reciprocal serves all slots of a divisor, and every bit stays IEEE's.

    r = 1/d rounded;   q = x r;   q = q + (x - q d) r,  twice

with fused multiply-adds.  The first step makes q one of the two floats next to x/d, the second one then gives the
nearest (Markstein, Computation of elementary functions on the IBM RISC System/6000 processor, 1990), where no remainder
underflows: for magnitudes between 1/`LARGE` and `LARGE`, or positive zero.  One branch takes a fragment with any other
to IEEE's division, which costs a reciprocal and a test of its own for every slot, and in float64 a call besides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyfuse.backends.numba_cuda.fragments.declare import Emit
from polyfuse.backends.numba_cuda.fragments.slots import constant_of, intrinsic, pack, spread, unpack
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

LARGE = {F32: 2.0**60, F64: 2.0**500}
"""So that quotients, and remainders of the last bit, stay inside the normal numbers."""
SHARED = 4
"""Slots per divisor from which one reciprocal for all of them is cheaper than a division for each."""


def shares_divisors(arguments: tuple[Any, ...], result: Fragment) -> bool:
    """Whether the operands of a division are floats of one kind with `SHARED` dividends to a divisor or more."""
    left, right = arguments
    fragments = isinstance(left, Fragment) and isinstance(right, Fragment)
    if not fragments or result.dtype not in (float32, float64) or {left.dtype, right.dtype} != {result.dtype}:
        return False
    return bool(left.size == result.size and right.size * SHARED <= result.size)


def shared_quotients(left: Fragment, right: Fragment, result: Fragment) -> Emit:
    """An emitter of ``left / right``; `shares_divisors` holds."""
    positions = np.broadcast_to(np.arange(right.size).reshape(right.shape), result.shape).ravel()

    def emit(b: Builder, x: Value, y: Value) -> Value:
        dividends, divisors = spread(b, left, x, result.dtype, result.shape), unpack(b, right, y)
        one = constant_of(divisors[0].type, 1.0)
        inverses = [b.fdiv(one, d) for d in divisors]
        pairs = [(slot, divisors[k], inverses[k]) for slot, k in zip(dividends, positions, strict=True)]
        odd = [_outside(b, d) for d in divisors] + [b.and_(_outside(b, s), _nonzero(b, s)) for s in dividends]
        some = odd[0]
        for other in odd[1:]:
            some = b.or_(some, other)
        with b.if_else(some, likely=False) as (rarely, mostly):  # each side frees its dividends
            with rarely:
                exact = [b.fdiv(slot, divisor) for slot, divisor, _ in pairs]
                rare = b.block
            with mostly:
                quick = [_quotient(b, *pair) for pair in pairs]
                most = b.block
        return pack(b, result, [_either(b, (q, most), (e, rare)) for q, e in zip(quick, exact, strict=True)])

    return emit


def _quotient(b: Builder, x: Value, d: Value, inverse: Value) -> Value:
    q = b.fmul(x, inverse)
    minus, fma = b.fsub(constant_of(d.type, -0.0), d), "llvm.fma.f32" if d.type == F32 else "llvm.fma.f64"
    for _ in range(2):
        rest = intrinsic(b, fma, d.type, [q, minus, x])
        q = intrinsic(b, fma, d.type, [rest, inverse, q])
    return q


def _outside(b: Builder, x: Value) -> Value:
    """True where a magnitude is beyond the bounds, also for infinities and NaN."""
    size, large = intrinsic(b, "__nv_fabsf" if x.type == F32 else "__nv_fabs", x.type, [x]), LARGE[x.type]
    small = b.fcmp_unordered("<", size, constant_of(x.type, 1 / large))
    return b.or_(small, b.fcmp_unordered(">", size, constant_of(x.type, large)))


def _nonzero(b: Builder, x: Value) -> Value:
    """Also of a negative zero, whose quotient would come out positive."""
    bits = I32 if x.type == F32 else I64
    return b.icmp_unsigned("!=", b.bitcast(x, bits), ir.Constant(bits, 0))


def _either(b: Builder, *choices: tuple[Value, Value]) -> Value:
    joined = b.phi(choices[0][0].type)
    for value, block in choices:
        joined.add_incoming(value, block)
    return joined
