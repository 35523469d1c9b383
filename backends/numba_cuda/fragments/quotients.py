"""Quotients and square roots of a fragment's slots, every bit IEEE's, with one branch for all of them.

    r = 1/|d| about;  r = r + r (1 - r |d|);  q = x r;  q = q + (x - q |d|) r,  twice;  the sign of d

with fused multiply-adds: what ptxas makes of a division as well, but for a test and a branch, which cost as much again,
in front of each.  Remainders that are nothing are rounded down, to -0, so that a quotient of nothing keeps its sign.

    y = 1/sqrt(x) about;  s = x y;  s = s + (x - s s) y/2

Numbers far from 1 take the way of IEEE's instruction, all slots of a fragment at once.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from polyfuse.backends.numba_cuda.fragments.arithmetic import emit_fma, emit_negative, libdevice
from polyfuse.backends.numba_cuda.fragments.declare import Emit
from polyfuse.backends.numba_cuda.fragments.division import shares_divisors
from polyfuse.backends.numba_cuda.fragments.slots import assembly, constant_of, intrinsic, pack, seldom, spread
from polyfuse.backends.numba_cuda.fragments.values import F32, I32, Builder, DType, Fragment, Value, float32
from polyfuse.backends.numba_cuda.numba_api import ir

FAR = 60
"""Dividends of the quick way are nothing or at least 2^-FAR, divisors at most 2^FAR: quotients are normal numbers or
infinite, and remainders of the last bit, 2^-48 of the dividend, are numbers.  Where a reciprocal or a quotient is
infinite, or an operand is no number, the result is none."""
LEAST_ROOT, ROOTS = 0x0D000000, 0x727FFFFF
"""The bits of the least number whose root goes the quick way, 2^-101, and of how many beyond it."""

FEWEST, MOST = 9, 16
"""Slots of a fragment for which one branch pays.  On an H100: local deviations of 5 x 5 150 us and 137 with one branch,
of 4 MB 8.3 and 7.5; LSTM gates of 16 MB 8.2 and 6.5; and of 96 programs and sizes none is slower by more than 2 in a
hundred but for noise.  Fewer slots are those of elementwise kernels, which have other work beside: rounding to 8 bits
165 and 175 us, Black and Scholes' prices 117 and 108.  More take registers for both ways: returns of rows of 2001 in 32
slots 110 and 128.  Quotients of more have several branches: prefixes along the middle of 500 x 1500 x 64 over
magnitudes, in 64 slots, 176 us one by one, 147 in parts of 16, 156 in one; of 300 x 6000 x 24 170, 152 and 151."""


def roots_pay(result: Fragment) -> bool:
    """Whether square roots of this fragment are computed together."""
    return bool(result.dtype == float32 and FEWEST <= result.size <= MOST)


def quotients_pay(arguments: tuple[Any, ...], result: Fragment) -> bool:
    """Whether quotients of this fragment are, or those of its parts."""
    return bool(result.dtype == float32 and result.size >= FEWEST) and not shares_divisors(arguments, result)


def quotients(left: Any, right: Any, result: Fragment) -> Emit:
    """An emitter of ``left / right`` of float32.  Numbers in the text are divided one by one, but for reciprocals:
    weights of a WENO scheme, 0.333 over squares, took an H100 205 us so, and 222 together."""

    def emit(b: Builder, x: Value, y: Value) -> Value:
        dividends = spread(b, left, x, result.dtype, result.shape)
        divisors = spread(b, right, y, result.dtype, result.shape)
        if any(isinstance(v, ir.Constant) and v.constant != 1.0 for v in dividends):
            return pack(b, result, [b.fdiv(v, d) for v, d in zip(dividends, divisors, strict=True)])
        found = list[Value]()
        for at in range(0, result.size, MOST):
            found += _together(b, dividends[at : at + MOST], divisors[at : at + MOST])
        return pack(b, result, found)

    return emit


def _together(b: Builder, dividends: list[Value], divisors: list[Value]) -> list[Value]:
    """Their quotients, with one branch for all of them."""
    found = [_own_quotient(b, x, d) for x, d in zip(dividends, divisors, strict=True)]
    rare = (b.fdiv(x, d) for x, d in zip(dividends, divisors, strict=True))
    return seldom(b, _are_far(b, dividends, divisors, found), found, lambda: rare)


def roots(argument: Fragment, result: Fragment) -> Emit:
    """An emitter of the square root of float32."""

    def emit(b: Builder, x: Value) -> Value:
        slots = spread(b, argument, x, result.dtype, result.shape)
        tests = [_is_nothing(b, slot) for slot in slots]
        near = [b.select(test, constant_of(F32, 1.0), slot) for test, slot in zip(tests, slots, strict=True)]
        found = [_own_root(b, slot) for slot in near]
        far = reduce(b.or_, (_is_far_root(b, slot) for slot in near))
        rare = (intrinsic(b, "__nv_sqrtf", F32, [slot]) for slot in near)
        whole = seldom(b, far, found, lambda: rare)
        return pack(b, result, [b.select(*chosen) for chosen in zip(tests, slots, whole, strict=True)])

    return emit


def emit_root(b: Builder, t: DType, x: Value) -> Value:
    """The square root of a float.  IEEE's of float32 goes a long way round for nothing, as behind `maximum` and of rows
    of nothing: one stands in for it."""
    if x.type != F32:
        return libdevice("sqrt")(b, t, x)
    test = _is_nothing(b, x)
    return b.select(test, x, intrinsic(b, "__nv_sqrtf", F32, [b.select(test, constant_of(F32, 1.0), x)]))


def _is_nothing(b: Builder, x: Value) -> Value:
    return b.fcmp_ordered("==", x, constant_of(F32, 0.0))


def _own_quotient(b: Builder, x: Value, d: Value) -> Value:
    size = intrinsic(b, "__nv_fabsf", F32, [d])
    r = assembly(b, "rcp.approx.ftz.f32 $0, $1;", "=f,f", F32, [size], effect=False)
    r = emit_fma(b, float32, r, emit_fma(b, float32, emit_negative(b, float32, r), size, constant_of(F32, 1.0)), r)
    q = r
    if not (isinstance(x, ir.Constant) and x.constant == 1.0):
        q = b.fmul(x, r)
        for _ in range(2):
            rest = intrinsic(b, "llvm.nvvm.fma.rm.f", F32, [emit_negative(b, float32, q), size, x])
            q = emit_fma(b, float32, rest, r, q)
    sign = b.and_(b.bitcast(d, I32), ir.Constant(I32, -(1 << 31)))
    return b.bitcast(b.xor(b.bitcast(q, I32), sign), F32)


def _are_far(b: Builder, dividends: list[Value], divisors: list[Value], found: list[Value]) -> Value:
    none = constant_of(F32, 0.0)
    for q in found:  # becomes no number where one of them is infinite or none
        none = emit_fma(b, float32, q, constant_of(F32, 0.0), none)
    tests = [b.fcmp_unordered("uno", none, none)]
    big = constant_of(F32, 2.0**FAR)
    for d in dict.fromkeys(divisors):
        tests.append(b.fcmp_ordered(">", intrinsic(b, "__nv_fabsf", F32, [d]), big))
    least = ir.Constant(I32, 2 * ((127 - FAR) << 23) - 1)
    for x in dict.fromkeys(dividends):
        if not isinstance(x, ir.Constant):
            twice = b.shl(b.bitcast(x, I32), ir.Constant(I32, 1))
            tests.append(b.icmp_unsigned("<", b.sub(twice, ir.Constant(I32, 1)), least))
    return reduce(b.or_, tests)


def _own_root(b: Builder, x: Value) -> Value:
    y = assembly(b, "rsqrt.approx.ftz.f32 $0, $1;", "=f,f", F32, [x], effect=False)
    s, half = b.fmul(x, y), b.fmul(y, constant_of(F32, 0.5))
    return emit_fma(b, float32, emit_fma(b, float32, emit_negative(b, float32, s), s, x), half, s)


def _is_far_root(b: Builder, x: Value) -> Value:
    above = b.sub(b.bitcast(x, I32), ir.Constant(I32, LEAST_ROOT))
    return b.icmp_unsigned(">", above, ir.Constant(I32, ROOTS))
