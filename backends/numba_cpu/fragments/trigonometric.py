"""sin, cos, tan and their inverses.

Reductions by pi/2 run in float64 with two or three parts of pi/2 (Cody and Waite) and a compensated remainder; vectors
with a huge argument take the C library.  Polynomials: fdlibm's k_sin.c, k_cos.c, e_asin.c; Cephes' sinf.c for
float32; atan a minimax fit of this project.  Errors below 1.5 units in the last place; in float64 those of arctan2
below 2, of tan below 3.
"""

from __future__ import annotations

import math

from polyfuse.backends.numba_cpu.fragments.reals import (
    Real,
    horner,
    in_double,
    library_call,
    mathematical,
    with_fallback,
)

TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
EIGHTHS = (  # pi/4, pi/2, 3 pi/4 and pi, and what these doubles lack
    (0.7853981633974483, 3.061616997868383e-17),
    HALF_PI[:2],
    (2.356194490192345, 9.184850993605148e-17),
    (2 * HALF_PI[0], 2 * HALF_PI[1]),
)

SINE_64 = (
    1.58969099521155010221e-10,
    -2.50507602534068634195e-08,
    2.75573137070700676789e-06,
    -1.98412698298579493134e-04,
    8.33333333332248946124e-03,
    -1.66666666666666324348e-01,
)
COSINE_64 = (
    -1.13596475577881948265e-11,
    2.08757232129817482790e-09,
    -2.75573143513906633035e-07,
    2.48015872894767294178e-05,
    -1.38888888888741095749e-03,
    4.16666666666666019037e-02,
)
SINE_32 = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COSINE_32 = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
# (atan(x) / x - 1) / x^2 in x^2 on [0, tan(pi/8)^2]: 2^-64
ARCTANGENT_64 = (
    -0.013943694736253703,
    0.030662510300738598,
    -0.04105670319708918,
    0.04719721270527249,
    -0.05258096230158595,
    0.0588193130369791,
    -0.06666642466582919,
    0.07692306757687581,
    -0.090909090676776,
    0.11111111110766854,
    -0.14285714285711631,
    0.19999999999999993,
    -0.3333333333333333,
)
ARCSINE_P = (
    3.47933107596021167570e-05,
    7.91534994289814532176e-04,
    -4.00555345006794114027e-02,
    2.01212532134862925881e-01,
    -3.25565818622400915405e-01,
    1.66666666666666657415e-01,
)
ARCSINE_Q = (
    7.70381505559019352791e-02,
    -6.88283971605453293030e-01,
    2.02094576023350569471e00,
    -2.40339491173441421878e00,
    1.0,
)


def _reduced(x: Real) -> tuple[Real, Real, Real]:
    """(r, its rounding error, quadrant) of a float64: ``x = quadrant * pi/2 + r + error``, for ``|x| < 2^22``.

    The first product is subtracted with one rounding, which is none where the difference cancels; the error of the
    second one is kept.
    """
    n, quadrant = x.nearest(TWO_OVER_PI)
    first = (-n).fma(HALF_PI[0], x)
    product = n * HALF_PI[1]
    error = n.fma(HALF_PI[1], -product)
    r = first - product
    return r, ((first - r) - product) - n.fma(HALF_PI[2], error), quadrant


def _sine(r: Real, error: Real) -> Real:
    """sin(r + error) on |r| <= pi/4."""
    z = r * r
    if not r.is_double:
        return (z * r).fma(horner(z, SINE_32), r)
    cube = z * r
    tail = horner(z, SINE_64[:-1])
    return r - ((z * (error * 0.5 - cube * tail) - error) - cube * SINE_64[-1])


def _cosine(r: Real, error: Real) -> Real:
    z = r * r
    if not r.is_double:
        return (z * z).fma(horner(z, COSINE_32), 1 - z * 0.5)
    half = z * 0.5
    whole = 1 - half
    return whole + (((1 - whole) - half) + (z * z * horner(z, COSINE_64) - r * error))


def _quarter_turns(x: Real) -> tuple[Real, Real, Real]:
    """(sin(r), cos(r), quadrant) in the precision of `x`."""
    if x.is_double:
        r, error, quadrant = _reduced(x)
        return _sine(r, error), _cosine(r, error), quadrant
    wide = x.double()
    n, quadrant = wide.nearest(TWO_OVER_PI)
    r = (-n).fma(HALF_PI[1], (-n).fma(HALF_PI[0], wide)).single()
    zero = r.constant(0)
    narrow = Real(x.builder, x.builder.trunc(quadrant.value, r.bits().value.type))
    return _sine(r, zero), _cosine(r, zero), narrow


def _huge(x: Real) -> Real:
    """Finite arguments beyond the reduction; infinities and NaN give NaN without help."""
    size = abs(x)
    return (size > (2.0**22 if x.is_double else 2.0**30)) & (size < math.inf)


def _circular(x: Real, turn: int) -> Real:
    """sin of x plus `turn` quarter turns."""
    sine, cosine, quadrant = _quarter_turns(x)
    place = quadrant + turn
    picked = (place & 1).equals(0).choose(sine, cosine)
    return (picked.bits() ^ ((place & 2) << (62 if x.is_double else 30))).as_float()


def sine(x: Real) -> Real:
    result = x.equals(0).choose(x, _circular(x, 0))
    return with_fallback(_huge(x), result, lambda: library_call("sin", x))


def cosine(x: Real) -> Real:
    return with_fallback(_huge(x), _circular(x, 1), lambda: library_call("cos", x))


def tangent(x: Real) -> Real:
    wide = x if x.is_double else x.double()
    r, error, quadrant = _reduced(wide)
    top, bottom = _sine(r, error), _cosine(r, error)
    odd = (quadrant & 1).equals(1)
    ratio = odd.choose(-bottom, top) / odd.choose(top, bottom)
    result = wide.equals(0).choose(wide, ratio)
    huge = (abs(x) > 2.0**22) & (abs(x) < math.inf)
    return with_fallback(huge, result if x.is_double else result.single(), lambda: library_call("tan", x))


def _arctangent_core(x: Real) -> Real:
    z = x * x
    return (x * z).fma(horner(z, ARCTANGENT_64), x)


@in_double
def arctangent(x: Real) -> Real:
    """Arguments above tan(3 pi/8) go to -1/x, above tan(pi/8) to (x - 1)/(x + 1)."""
    size = abs(x)
    large = size > 2.414213562373095
    middle = size > 0.4142135623730950
    top = large.choose(-1.0, middle.choose(size - 1, size))
    bottom = large.choose(size, middle.choose(size + 1, 1.0))
    core = _arctangent_core(top / bottom)
    offset = large.choose(x.constant(HALF_PI[0]), middle.choose(x.constant(HALF_PI[0] / 2), 0.0))
    rest = large.choose(x.constant(HALF_PI[1]), middle.choose(x.constant(HALF_PI[1] / 2), 0.0))
    return (offset + (core + rest)).with_sign_of(x)


def _arcsine_ratio(z: Real) -> Real:
    return z * horner(z, ARCSINE_P) / horner(z, ARCSINE_Q)


@in_double
def arcsine(x: Real) -> Real:
    """asin(x) = pi/2 - 2 asin(sqrt((1 - x)/2)) above one half; outside [-1, 1] the root gives NaN."""
    size = abs(x)
    large = size > 0.5
    z = large.choose((1 - size) * 0.5, x * x)
    root = z.sqrt()
    base = large.choose(root, size)
    arc = base.fma(_arcsine_ratio(z), base)
    # The rounding error of the root, which the subtraction would otherwise show in full.
    error = (-root).fma(root, z) / (root + root + 5e-324)
    upper = HALF_PI[0] - (arc + arc - (HALF_PI[1] - 2 * error))
    return large.choose(upper, arc).with_sign_of(x)


@in_double
def arccosine(x: Real) -> Real:
    size = abs(x)
    large = size > 0.5
    z = large.choose((1 - size) * 0.5, x * x)
    root = z.sqrt()
    ratio = _arcsine_ratio(z)
    error = large.choose((-root).fma(root, z) / (root + root + 5e-324), 0.0)
    half = root + (root * ratio + error)
    near_one = half + half
    near_minus_one = 2 * HALF_PI[0] - (near_one - 2 * HALF_PI[1])
    middle = HALF_PI[0] - (x - (HALF_PI[1] - x * ratio))
    return large.choose((x < 0).choose(near_minus_one, near_one), middle)


def arctangent_2(y: Real, x: Real) -> Real:
    if not x.is_double:
        return _arctangent_2_wide(y.double(), x.double()).single()
    return _arctangent_2_wide(y, x)


def _arctangent_2_wide(y: Real, x: Real) -> Real:
    """The angle of (x, y), as k pi/4 and what is beyond: the smaller over the larger coordinate, or their difference
    over their sum, so that a quotient and the last sum are all that rounds; zeros and infinities as in C."""
    size_x, size_y = abs(x), abs(y)
    steep, backwards = size_y > size_x, x.bits() < 0
    small, large = steep.choose(size_x, size_y), steep.choose(size_y, size_x)
    huge = large > 1e300  # whose sum may be infinite
    small, large = huge.choose(small * 0.5, small), huge.choose(large * 0.5, large)
    alike = small.equals(large)
    middle = ((small > large * 0.4142135623730950) | alike) & ~large.equals(0)
    top = alike.choose(0.0, middle.choose(small - large, small))
    bottom = alike.choose(1.0, middle.choose(small + large, large))
    core = _arctangent_core(top / bottom)
    core = (steep ^ backwards).choose(-core, core)
    high = low = x.constant(0.0)
    eighths = (middle & ~backwards, steep & ~middle, middle & backwards, backwards & ~steep & ~middle)
    for where, parts in zip(eighths, EIGHTHS, strict=True):
        high, low = where.choose(x.constant(parts[0]), high), where.choose(x.constant(parts[1]), low)
    angle = high + (core + low)
    return (x.is_nan | y.is_nan).choose(x + y, angle).with_sign_of(y)


sin = mathematical("sin", 1, sine)
cos = mathematical("cos", 1, cosine)
tan = mathematical("tan", 1, tangent)
arcsin = mathematical("arcsin", 1, arcsine)
arccos = mathematical("arccos", 1, arccosine)
arctan = mathematical("arctan", 1, arctangent)
arctan2 = mathematical("arctan2", 2, arctangent_2)
