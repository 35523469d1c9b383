"""Functions of float32 for results that are rounded to 16 bits: few instructions, errors that these do not show.

A quotient by a divisor that several slots share is a product with its reciprocal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from polyfuse.backends.numba_cuda.fragments.arithmetic import Op, by_kind, libdevice
from polyfuse.backends.numba_cuda.fragments.declare import Emit
from polyfuse.backends.numba_cuda.fragments.slots import assembly, constant_of, intrinsic, pack, seldom, spread
from polyfuse.backends.numba_cuda.fragments.values import F32, Builder, DType, Fragment, Value, float32
from polyfuse.backends.numba_cuda.numba_api import ir

HALF_LOG2_E = 0.7213475204444817
EXTREME = 2.0**126
"""Divisors beyond it, or below its reciprocal, have none that is a normal number."""


def _short(exact: Op, instruction: str, operands: int) -> Op:
    """One instruction in single precision; exact in double precision, where nothing asks for it."""
    text = f"{instruction} {', '.join(f'${k}' for k in range(operands + 1))};"
    constraints = ",".join(["=f", *["f"] * operands])

    def op(b: Builder, t: DType, *slots: Value) -> Value:
        if t != float32:
            return exact(b, t, *slots)
        return assembly(b, text, constraints, slots[0].type, list(slots), effect=False)

    return op


divide_short = _short(by_kind("fdiv", "sdiv"), "div.full.f32", 2)
tanh_short = _short(libdevice("tanh"), "tanh.approx.f32", 1)
_power_short = _short(libdevice("exp2"), "ex2.approx.ftz.f32", 1)
_reciprocal_short = _short(libdevice("frcp_rn"), "rcp.approx.ftz.f32", 1)


def exp_short(b: Builder, t: DType, x: Value) -> Value:
    """The square of ``2**(x/2 log2 e)``, which is a normal number wherever the result is a number at all: where the
    instruction need not know others, it takes one issue slot, else four."""
    if t != float32:
        return libdevice("exp")(b, t, x)
    root = _power_short(b, t, b.fmul(x, constant_of(x.type, HALF_LOG2_E)))
    return b.fmul(root, root)


def shared_short_quotients(left: Fragment, right: Any, result: Fragment) -> Emit:
    """An emitter of ``left / right`` of float32, where `division.shares_divisors`."""
    shape = right.shape if isinstance(right, Fragment) else ()
    positions = np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), result.shape).ravel()

    def emit(b: Builder, x: Value, y: Value) -> Value:
        dividends, divisors = spread(b, left, x, result.dtype, result.shape), spread(b, right, y, result.dtype, shape)
        inverses = [_inverse_of(b, result.dtype, d) for d in divisors]
        quick = [b.fmul(slot, inverses[k]) for slot, k in zip(dividends, positions, strict=True)]
        usual = _has_inverse(b, divisors[0])
        for d in divisors[1:]:
            usual = b.and_(usual, _has_inverse(b, d))
        pairs = zip(dividends, positions, strict=True)
        rare = (divide_short(b, result.dtype, slot, divisors[k]) for slot, k in pairs)
        found = seldom(b, b.not_(usual), quick, lambda: rare)
        return pack(b, result, found)

    return emit


def _inverse_of(b: Builder, t: DType, d: Value) -> Value:
    if isinstance(d, ir.Constant):
        return b.fdiv(constant_of(d.type, 1.0), d)
    return _reciprocal_short(b, t, d)


def _has_inverse(b: Builder, d: Value) -> Value:
    """Whether a divisor has a reciprocal that is a normal number."""
    size = intrinsic(b, "__nv_fabsf", F32, [d])
    above = b.fcmp_ordered(">=", size, constant_of(F32, 1 / EXTREME))
    return b.and_(above, b.fcmp_ordered("<=", size, constant_of(F32, EXTREME)))
