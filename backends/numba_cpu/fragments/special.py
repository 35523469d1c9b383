"""erf, erfc, the gamma functions, cbrt, hypot and power.

Polynomials are minimax fits of this project; the scaled complementary error function in (x - 4)/(x + 4) follows
M. M. Shepherd and J. G. Laframboise, Math. Comp. 36 (1981).
"""

from __future__ import annotations

import math
import operator

from llvmlite import ir

from polyfuse.backends.numba_cpu.fragments.elements import Element
from polyfuse.backends.numba_cpu.fragments.elementwise import infix, named
from polyfuse.backends.numba_cpu.fragments.exponential import exponential, natural_log
from polyfuse.backends.numba_cpu.fragments.reals import (
    Real,
    horner,
    in_double,
    library_call,
    mathematical,
    on_values,
)
from polyfuse.backends.numba_cpu.fragments.vectors import Builder, Value, constant, intrinsic, lanes_of, shared_function

# erf(x) / x - 1 in x^2 on [0, 1]: 2^-29.6; log(erfc(x)) on [1, 4]: 2^-35 of erf
ERF_SMALL_32 = (
    7.853877531619132e-05,
    -0.0008010198262436548,
    0.005188328186418862,
    -0.02685381219099736,
    0.11283585154976807,
    -0.3761262582492003,
    0.1283791657268232,
)
ERF_LARGE_32 = (
    -2.1697373152691878e-05,
    0.00044146970399984735,
    -0.004205270073679397,
    0.025210299534435182,
    -0.10842203497869142,
    -0.6332164577022541,
    -1.1295802803310107,
    0.00018846113669510926,
)
# erf(x) / x - 1 in x^2 on [0, 0.49]: 2^-69; (1 + 2x) erfcx(x) in (x - 4)/(x + 4) on [0.65, 28]: 2^-62
ERF_SMALL_64 = (
    -9.816090103785239e-10,
    1.4500462549781974e-08,
    -1.6343556714882115e-07,
    1.646107867809169e-06,
    -1.4925618429808725e-05,
    0.00012055332323362228,
    -0.000854832701449521,
    0.005223977625364846,
    -0.026866170645127304,
    0.11283791670955115,
    -0.37612638903183754,
    0.12837916709551257,
)
ERFCX_64 = (
    2.884076671994263e-09,
    -1.0041670676715687e-08,
    -2.107506624935973e-08,
    1.0433930435003092e-07,
    7.877254168263684e-08,
    -8.207977563400416e-07,
    2.9073222573013407e-07,
    5.707353413203783e-06,
    -1.1220608780136658e-05,
    -2.4398407663267753e-05,
    0.00015062125558045652,
    -0.00019925687540183048,
    -0.0007577732089927838,
    0.005031970004051429,
    -0.01619773406720711,
    0.037167515535196434,
    -0.06633036581156496,
    0.09373283499846012,
    -0.10103906603632778,
    0.06809705425469025,
    0.015379652102620074,
    -0.1396211168405625,
    1.2329951186255526,
)


def _complementary(size: Real) -> Real:
    """erfc on [0.65, infinity): exp(-x^2) with the rounding error of the square, times the fitted factor."""
    x = size.clamp(0.65, 28.0)
    square = x * x
    error = x.fma(x, -square)
    factor = horner((x - 4) / (x + 4), ERFCX_64) / (x.fma(2, 1))
    decay = exponential(-square)
    return decay.fma(-error * factor, decay * factor)


def error_function(x: Real) -> Real:
    size = abs(x)
    square = size * size
    if x.is_double:
        near = x.fma(horner(square.clamp(0.0, 0.5), ERF_SMALL_64), x)
        return (size < 0.7).choose(near, (1 - _complementary(size)).with_sign_of(x))
    near = x.fma(horner(square, ERF_SMALL_32), x)
    far = 1 - exponential(horner(size.clamp(0.0, 4.0), ERF_LARGE_32))
    return (size < 1.0).choose(near, far.with_sign_of(x))


@in_double
def complementary_error_function(x: Real) -> Real:
    size = abs(x)
    near = 1 - x.fma(horner((x * x).clamp(0.0, 0.5), ERF_SMALL_64), x)
    far = _complementary(size)
    return (size < 0.7).choose(near, (x < 0).choose(2 - far, far))


@in_double
def cube_root(x: Real) -> Real:
    """exp(log(|x|) / 3), then one Newton step with an exact residual; subnormal numbers are scaled first."""
    size = abs(x)
    tiny = size < 1e-300
    scale = tiny.choose(x.constant(2.0**54), 1.0)
    a = size * scale
    y = exponential(natural_log(a) * (1 / 3))
    square = y * y
    residual = y.fma(square, -a) + y * y.fma(y, -square)
    y = (y - residual / (3 * square)) * tiny.choose(x.constant(2.0**-18), 1.0)
    regular = (size > 0) & (size < math.inf)
    return regular.choose(y.with_sign_of(x), x + x)


@in_double
def hypotenuse(x: Real, y: Real) -> Real:
    """max * sqrt(1 + (min/max)^2), scaled so that neither end of the range over- or underflows."""
    a, b = abs(x), abs(y)
    large, small = (a > b).choose(a, b), (a > b).choose(b, a)
    scale = (large > 2.0**500).choose(x.constant(2.0**-600), (small < 2.0**-450).choose(x.constant(2.0**600), 1.0))
    inverse = (large > 2.0**500).choose(x.constant(2.0**600), (small < 2.0**-450).choose(x.constant(2.0**-600), 1.0))
    up, down = large * scale, small * scale
    spread = up > down * 2.0**60
    square = up * up
    total = square + down * down
    error = up.fma(up, -square) + ((square - total) + down * down)
    root = total.sqrt()
    root = (total > 0).choose(root + ((-root).fma(root, total) + error) / (2 * root), root)
    result = spread.choose(large, root * inverse)
    infinite = a.equals(math.inf) | b.equals(math.inf)
    return infinite.choose(math.inf, (x.is_nan | y.is_nan).choose(x + y, result))


def real_power(x: Real, y: Real) -> Real:
    """float32: exp(y log|x|) in float64 is exact enough; float64: the C library, which keeps 2^-65."""
    if x.is_double:
        return library_call("pow", x, y)
    base, exponent = x.double(), y.double()
    size = exponential((exponent * natural_log(abs(base))).clamp(-800.0, 800.0)).single()
    half = y * 0.5
    whole = y.equals(y.call("llvm.floor"))
    odd = whole & ~half.equals(half.call("llvm.floor"))
    negative = x.bits() < 0
    result = (negative & odd).choose(-size, size)
    result = ((x < 0) & (x > -math.inf) & ~whole).choose(math.nan, result)
    result = (abs(x).equals(1.0) & abs(y).equals(math.inf)).choose(1.0, result)
    result = (x.is_nan | y.is_nan).choose(x + y, result)
    return (x.equals(1.0) | y.equals(0)).choose(1.0, result)


def _square_and_multiply(builder: Builder, x: Value, y: Value) -> Value:
    """x to the unsigned y, until every exponent of the vector is used up; the product wraps."""
    zero, one = constant(x.type, 0), constant(x.type, 1)
    entry, loop, done = builder.block, builder.append_basic_block("bit"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    result, base, rest = (builder.phi(x.type) for _ in range(3))
    for phi, first in ((result, one), (base, x), (rest, y)):
        phi.add_incoming(first, entry)
    odd = builder.icmp_unsigned("!=", builder.and_(rest, one), zero)
    product = builder.select(odd, builder.mul(result, base), result)
    shifted = builder.lshr(rest, one)
    for phi, following in ((result, product), (base, builder.mul(base, base)), (rest, shifted)):
        phi.add_incoming(following, loop)
    more = builder.icmp_unsigned("!=", shifted, zero)
    if lanes_of(x.type) > 1:
        more = intrinsic(builder, "llvm.vector.reduce.or", more, result=ir.IntType(1))
    builder.cbranch(more, loop, done)
    builder.position_at_end(done)
    return product


def _signed_power(builder: Builder, x: Value, y: Value) -> Value:
    """A negative exponent, which NumPy refuses, gives 1/x truncated."""
    zero, one = constant(x.type, 0), constant(x.type, 1)
    below = builder.icmp_signed("<", y, zero)
    product = _square_and_multiply(builder, x, builder.select(below, zero, y))
    minus = builder.icmp_signed("==", x, constant(x.type, -1))
    even = builder.icmp_unsigned("==", builder.and_(y, one), zero)
    unit = builder.or_(builder.icmp_signed("==", x, one), builder.and_(minus, even))
    inverse = builder.select(unit, one, builder.select(minus, x, zero))
    return builder.select(below, inverse, product)


def emit_power(builder: Builder, dtype: Element, x: Value, y: Value) -> Value:
    if dtype.is_float:
        return shared_function(builder, "power", on_values(real_power), x, y)
    if dtype.kind == "i":
        return shared_function(builder, "power.signed", _signed_power, x, y)
    return shared_function(builder, "power.unsigned", _square_and_multiply, x, y)


erf = mathematical("erf", 1, error_function)
erfc = mathematical("erfc", 1, complementary_error_function)
cbrt = mathematical("cbrt", 1, cube_root)
hypot = mathematical("hypot", 2, hypotenuse)
lgamma = mathematical("lgamma", 1, in_double(lambda x: library_call("lgamma", x)))
tgamma = mathematical("tgamma", 1, in_double(lambda x: library_call("tgamma", x)))
power = named("power", 2, emit_power, "iuf")
infix((operator.pow,), power)
