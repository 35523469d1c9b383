"""sin, cos and tanh in single precision without a branch for each element.

libdevice guards every element by branches of its own, so that the elements of a vector wait for each other, and the
sine and the cosine of one value share nothing.  Here they are computed in a straight line, which the compiler shares
among functions of the same value; one branch takes the fragments with a large angle to libdevice.

Angles are reduced by pi/2 in three parts (Cody and Waite), polynomials of Cephes' sinf.c: errors below 1.6 units in
the last place up to `LARGE_ANGLE`, over random angles and over the neighbours of all multiples of pi/2.  tanh is a
minimax polynomial of this project near zero and ``1 - 2/(exp(2x) + 1)`` beyond: errors below 3.1 units.
"""

from __future__ import annotations

from polyfuse.backends.numba_cuda.fragments.arithmetic import libdevice
from polyfuse.backends.numba_cuda.fragments.declare import Emit
from polyfuse.backends.numba_cuda.fragments.slots import assembly, constant_of, intrinsic, pack, spread
from polyfuse.backends.numba_cuda.fragments.values import F32, I32, Builder, DType, Fragment, Value, float32
from polyfuse.backends.numba_cuda.numba_api import ir

TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.57079601287841796875, 3.1391647326017846e-7, 5.390302529957765e-15)
# 1.5 * 2^23: added to a float below 2^22 in magnitude, it leaves the nearest integer in the low bits of the sum.
ROUNDING = 12582912.0
LARGE_ANGLE = 105615.0
SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2, -0.5, 1.0)

# (tanh(x)/x - 1)/x^2 in x^2 for |x| <= NEAR_ZERO, highest power first
NEAR_ZERO = 0.65
TANH = (-0.005515154451131821, 0.020469410344958305, -0.05368801951408386, 0.1333083063364029, -0.3333325982093811)
TWO_LOG2_E = 2.885390081777927
SIGN = -(1 << 31)


def _fma(b: Builder, x: Value | float, y: Value | float, z: Value | float) -> Value:
    terms = [v if isinstance(v, ir.Value) else constant_of(F32, v) for v in (x, y, z)]
    return intrinsic(b, "llvm.fma.f32", F32, terms)


def _horner(b: Builder, z: Value, coefficients: tuple[float, ...]) -> Value:
    result = constant_of(F32, coefficients[0])
    for coefficient in coefficients[1:]:
        result = _fma(b, result, z, coefficient)
    return result


def _circular(b: Builder, x: Value, turn: int) -> Value:
    """sin of x plus `turn` quarter turns; NaN for infinities."""
    shifted = _fma(b, x, TWO_OVER_PI, ROUNDING)
    turns = b.fsub(shifted, constant_of(F32, ROUNDING))
    rest = x
    for part in HALF_PI:
        rest = _fma(b, turns, -part, rest)
    z = b.fmul(rest, rest)
    # The sum with zero keeps the sign of a zero argument.
    sine = _fma(b, _horner(b, z, SINE), _fma(b, z, rest, 0.0), rest)
    cosine = _horner(b, z, COSINE)
    quadrant = b.add(b.bitcast(shifted, I32), ir.Constant(I32, turn))
    odd = b.icmp_unsigned("!=", b.and_(quadrant, ir.Constant(I32, 1)), ir.Constant(I32, 0))
    picked = b.bitcast(b.select(odd, cosine, sine), I32)
    sign = b.shl(b.and_(quadrant, ir.Constant(I32, 2)), ir.Constant(I32, 30))
    return b.bitcast(b.xor(picked, sign), F32)


def circular(name: str, turn: int, argument: Fragment, result: Fragment) -> Emit:
    """An emitter of ``sin`` (turn 0) or ``cos`` (turn 1) of a float32 fragment."""

    def emit(b: Builder, value: Value) -> Value:
        slots = spread(b, argument, value, float32, result.shape)
        near = [_circular(b, slot, turn) for slot in slots]
        sizes = [intrinsic(b, "__nv_fabsf", F32, [slot]) for slot in slots]
        large = [b.fcmp_ordered(">", size, constant_of(F32, LARGE_ANGLE)) for size in sizes]
        some = large[0]
        for one in large[1:]:
            some = b.or_(some, one)
        before = b.block
        with b.if_then(some, likely=False):
            function = _apart(b, f"__nv_{name}f")
            far = [
                b.select(one, b.call(function, [slot]), quick)
                for one, slot, quick in zip(large, slots, near, strict=True)
            ]
            inside = b.block
        joined = []
        for quick, slow in zip(near, far, strict=True):
            phi = b.phi(F32)
            phi.add_incoming(quick, before)
            phi.add_incoming(slow, inside)
            joined.append(phi)
        return pack(b, result, joined)

    return emit


def _apart(b: Builder, name: str) -> Value:
    """A function of the module that calls libdevice's `name` and is called itself: its 150 instructions stand there
    once, where copies for each element double the time that a kernel of many sines takes to compile."""
    own = f"far_{name.strip('_')}"
    if own not in b.module.globals:
        function = ir.Function(b.module, ir.FunctionType(F32, [F32]), own)
        function.linkage = "internal"
        function.attributes.add("noinline")
        inner = ir.IRBuilder(function.append_basic_block("entry"))
        inner.ret(intrinsic(inner, name, F32, [function.args[0]]))
    return b.module.globals[own]


def tanh(b: Builder, t: DType, x: Value) -> Value:
    """The hyperbolic tangent; libdevice's in double precision."""
    if t != float32:
        return libdevice("tanh")(b, t, x)
    bits = b.bitcast(x, I32)
    size = b.bitcast(b.and_(bits, ir.Constant(I32, ~SIGN)), F32)
    z = b.fmul(size, size)
    near = _fma(b, b.fmul(_horner(b, z, TANH), z), size, size)
    exponent = b.fmul(size, constant_of(F32, TWO_LOG2_E))
    power = assembly(b, "ex2.approx.ftz.f32 $0, $1;", "=f,f", F32, [exponent], effect=False)
    divisor = b.fadd(power, constant_of(F32, 1.0))
    inverse = assembly(b, "rcp.approx.ftz.f32 $0, $1;", "=f,f", F32, [divisor], effect=False)
    far = _fma(b, inverse, -2.0, 1.0)
    result = b.select(b.fcmp_ordered(">", size, constant_of(F32, NEAR_ZERO)), far, near)
    return b.bitcast(b.or_(b.bitcast(result, I32), b.and_(bits, ir.Constant(I32, SIGN))), F32)
