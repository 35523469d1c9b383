"""exp, log and their relatives, for lanes of float32 and float64.

Polynomials are minimax fits of this project (Remez exchange in 40 digits); reductions follow W. J. Cody and W. Waite,
*Software Manual for the Elementary Functions* (1980), logarithms fdlibm's e_log.c.  Errors stay below 1.1 units in the
last place, log2 and log10 of exact powers are exact.
"""

from __future__ import annotations

import math

from polyfuse.backends.numba_cpu.fragments.reals import (
    Real,
    horner,
    in_double,
    mathematical,
    power_of_two,
    scaled,
)

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
# ln 2 in two parts: the upper has trailing zeros, so that its product with an exponent is exact.
LN2_PARTS_32 = (0.693145751953125, 1.42860682030941723212e-06)
LN2_PARTS_64 = (0.693147180369123816490, 1.90821492927058770002e-10)

# (exp(r) - 1 - r) / r^2 on |r| <= ln(2)/2: relative errors 2^-29.5 and 2^-65.7
EXPONENTIAL_32 = (
    0.000199075545487394,
    0.0013933643450900525,
    0.008333286057849722,
    0.04166646497758474,
    0.1666666675626742,
    0.5000000013461631,
)
EXPONENTIAL_64 = (
    1.609122143169099e-10,
    2.0918129891893526e-09,
    2.5052055917905083e-08,
    2.755726330018324e-07,
    2.755731926545325e-06,
    2.4801587336422673e-05,
    0.00019841269841253714,
    0.0013888888888879082,
    0.008333333333333337,
    0.04166666666666668,
    0.16666666666666666,
    0.5,
)
# (2^r - 1) / r on |r| <= 1/2: 2^-27
EXPONENTIAL_2_32 = (
    0.00015469717527248034,
    0.001339086720799284,
    0.00961803084372586,
    0.055503571049118475,
    0.24022651083489915,
    0.6931471880286192,
)
# (log(1 + m) - m) / m^2 on |m| <= 1/3: 2^-28
LOGARITHM_32 = (
    0.12211962451556911,
    -0.12734204535510665,
    0.1070355294590487,
    -0.1221960713384276,
    0.14308633404969429,
    -0.16678094651985265,
    0.1999946976083925,
    -0.24999838699438384,
    0.3333333684380621,
    -0.5000000036230658,
)
# fdlibm's e_log.c: log(1 + f) = f - f^2/2 + s*(f^2/2 + R(s^2)), s = f / (2 + f)
LOGARITHM_64 = (
    1.479819860511658591e-01,
    1.531383769920937332e-01,
    1.818357216161805012e-01,
    2.222219843214978396e-01,
    2.857142874366239149e-01,
    3.999999999940941908e-01,
    6.666666666666735130e-01,
)


def reduced(x: Real) -> tuple[Real, Real]:
    """(r, n) with ``x = r + n*ln(2)``, ``|r| <= ln(2)/2`` and n an integer."""
    high, low = LN2_PARTS_64 if x.is_double else LN2_PARTS_32
    n, exponent = x.nearest(LOG2_E)
    return (-n).fma(low, (-n).fma(high, x)), exponent


def exponential_tail(r: Real) -> Real:
    """``exp(r) - 1`` for a reduced argument."""
    return (r * r).fma(horner(r, EXPONENTIAL_64 if r.is_double else EXPONENTIAL_32), r)


def exponential(x: Real, exponent: int = 0) -> Real:
    """``exp(x) * 2**exponent`` without an overflow in between."""
    low, high = (-746.0, 711.0) if x.is_double else (-104.0, 90.0)
    r, n = reduced(x.clamp(low, high))
    return scaled(exponential_tail(r) + 1, n + exponent)


def exponential_2(x: Real) -> Real:
    if x.is_double:
        n, exponent = x.clamp(-1076.0, 1025.0).nearest()
        return scaled(exponential_tail((x.clamp(-1076.0, 1025.0) - n) * LN2) + 1, exponent)
    clamped = x.clamp(-151.0, 129.0)
    n, exponent = clamped.nearest()
    r = clamped - n
    return scaled(r.fma(horner(r, EXPONENTIAL_2_32), 1), exponent)


def exponential_minus_1(x: Real) -> Real:
    """``2^n * (exp(r) - 1) + (2^n - 1)``; half of 2^n, so that the largest arguments do not overflow early."""
    low, high = (-40.0, 709.9) if x.is_double else (-20.0, 88.9)
    r, n = reduced(x.clamp(low, high))
    half = power_of_two(n - 1)
    result = half.fma(exponential_tail(r), half - 0.5) * 2
    tiny = 2.0**-55 if x.is_double else 2.0**-26
    return (abs(x) < tiny).choose(x, result)  # keeps the sign of zero and the bits of subnormal numbers


def _split(x: Real) -> tuple[Real, Real]:
    """(m, e) with ``x = (1 + m) * 2**e`` and 1 + m in [2/3, 4/3), in float64 [sqrt(1/2), sqrt(2)), for normal positive
    numbers."""
    threshold, shift = (0x3FE6A09E667F3BCD, 52) if x.is_double else (0x3F2AAAAB, 23)
    exponent = (x.bits() - threshold) >> shift
    return (x.bits() - (exponent << shift)).as_float() - 1, exponent.to_float()


def _normal(x: Real) -> tuple[Real, Real]:
    """(`x` scaled out of the subnormal range, the exponent to take off)."""
    smallest, up = (2.2250738585072014e-308, 54) if x.is_double else (1.1754943508222875e-38, 25)
    tiny = x < smallest
    return tiny.choose(x * 2.0**up, x), tiny.choose(x.constant(-up), 0)


def _log_limits(x: Real, result: Real) -> Real:
    """`result` with the values that any logarithm takes at 0, at negative arguments, infinity and NaN."""
    result = x.equals(0).choose(-math.inf, result)
    result = (x < 0).choose(math.nan, result)
    return (x < math.inf).choose(result, x + x)


def _log_parts_64(m: Real) -> tuple[Real, Real]:
    """log(1 + m) as an unevaluated sum of two doubles."""
    s = m / (m + 2)
    z = s * s
    half = m * m * 0.5
    tail = s * (half + z * horner(z, LOGARITHM_64))
    high = m - half
    return high, (m - high) - half + tail


def natural_log(x: Real) -> Real:
    normal, shift = _normal(x)
    m, exponent = _split(normal)
    exponent = exponent + shift
    if not x.is_double:
        tail = (m * m).fma(horner(m, LOGARITHM_32), m)
        return _log_limits(x, exponent.fma(LN2, tail))
    s = m / (m + 2)
    z = s * s
    half = m * m * 0.5
    correction = s.fma(half + z * horner(z, LOGARITHM_64), exponent * LN2_PARTS_64[1])
    return _log_limits(x, exponent.fma(LN2_PARTS_64[0], m - (half - correction)))


def _log_in_base(x: Real, base: tuple[float, float], unit: tuple[float, float]) -> Real:
    """``e * unit + log(1 + m) * base``, each factor a sum of two doubles and every product exact to about 2^-100."""
    normal, shift = _normal(x)
    m, exponent = _split(normal)
    exponent = exponent + shift
    high, low = _log_parts_64(m)
    product = high * base[0]
    rest = high.fma(base[0], -product) + high.fma(base[1], low * base[0])
    whole = exponent * unit[0]
    rest = rest + exponent.fma(unit[0], -whole) + exponent * unit[1]
    total = whole + product
    rest = rest + ((whole - total) + product)
    return _log_limits(x, total + rest)


@in_double
def log_base_2(x: Real) -> Real:
    return _log_in_base(x, (LOG2_E, 2.0355273740931033e-17), (1.0, 0.0))


@in_double
def log_base_10(x: Real) -> Real:
    return _log_in_base(x, (0.4342944819032518, 1.098319650216765e-17), (0.3010299956639812, -2.8037281277851704e-18))


def log_plus_1(x: Real) -> Real:
    """log(1 + x) from the scaled argument ``x * 2^-e + (2^-e - 1)``, which is exact where 1 + x is not."""
    total = x + 1
    threshold, shift = (0x3FE6A09E667F3BCD, 52) if x.is_double else (0x3F2AAAAB, 23)
    exponent = (total.bits() - threshold) >> shift
    finite = total < math.inf
    exponent = finite.choose(exponent, 0)
    scale = power_of_two(-(exponent >> 1)) * power_of_two((exponent >> 1) - exponent)
    m = x.fma(scale, scale - 1)
    e = exponent.to_float()
    if x.is_double:
        high, low = _log_parts_64(m)
        result = e.fma(LN2_PARTS_64[0], high + (low + e * LN2_PARTS_64[1]))
    else:
        result = e.fma(LN2, (m * m).fma(horner(m, LOGARITHM_32), m))
    result = _log_limits(total, result)
    return x.equals(0).choose(x, result)


exp = mathematical("exp", 1, exponential)
exp_short = mathematical("exp_short", 1, exponential)
exp2 = mathematical("exp2", 1, exponential_2)
expm1 = mathematical("expm1", 1, exponential_minus_1)
log = mathematical("log", 1, natural_log)
log2 = mathematical("log2", 1, log_base_2)
log10 = mathematical("log10", 1, log_base_10)
log1p = mathematical("log1p", 1, log_plus_1)
