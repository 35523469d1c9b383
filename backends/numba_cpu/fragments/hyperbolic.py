"""sinh, cosh, tanh and their inverses, from the exponential family; errors below 3 units in the last place."""

from __future__ import annotations

import math

from polyfuse.backends.numba_cpu.fragments.exponential import (
    LN2,
    exponential,
    exponential_minus_1,
    log_plus_1,
    natural_log,
)
from polyfuse.backends.numba_cpu.fragments.reals import Real, horner, in_double, mathematical

# tanh on |x| <= 7.9 as an odd over an even polynomial: 1.3 units in the last place of float32
TANH_P = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
TANH_Q = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)


def hyperbolic_tangent(x: Real) -> Real:
    if x.is_double:
        size = abs(x).clamp(0.0, 22.0)
        t = exponential_minus_1(size + size)
        return (t / (t + 2)).with_sign_of(x)
    c = x.clamp(-7.90531110763549805, 7.90531110763549805)
    s = c * c
    return (abs(x) < 0.0004).choose(x, c * horner(s, TANH_P) / horner(s, TANH_Q))


@in_double
def hyperbolic_sine(x: Real) -> Real:
    size = abs(x)
    t = exponential_minus_1(size.clamp(0.0, 40.0))
    near = (t + t / (t + 1)) * 0.5
    return (size < 22.0).choose(near, exponential(size, -1)).with_sign_of(x)


@in_double
def hyperbolic_cosine(x: Real) -> Real:
    half = exponential(abs(x), -1)
    return half + 0.25 / half


@in_double
def inverse_hyperbolic_sine(x: Real) -> Real:
    size = abs(x)
    square = size * size
    near = log_plus_1(size + square / (1 + (square + 1).sqrt()))
    return (size > 2.0**28).choose(natural_log(size) + LN2, near).with_sign_of(x)


@in_double
def inverse_hyperbolic_cosine(x: Real) -> Real:
    t = x - 1
    near = log_plus_1(t + (t * t + 2 * t).sqrt())
    return (x > 2.0**28).choose(natural_log(x) + LN2, near)


@in_double
def inverse_hyperbolic_tangent(x: Real) -> Real:
    size = abs(x)
    result = log_plus_1(2 * size / (1 - size)) * 0.5
    result = (size > 1).choose(math.nan, result)
    return result.with_sign_of(x)


sinh = mathematical("sinh", 1, hyperbolic_sine)
cosh = mathematical("cosh", 1, hyperbolic_cosine)
tanh = mathematical("tanh", 1, hyperbolic_tangent)
arcsinh = mathematical("arcsinh", 1, inverse_hyperbolic_sine)
arccosh = mathematical("arccosh", 1, inverse_hyperbolic_cosine)
arctanh = mathematical("arctanh", 1, inverse_hyperbolic_tangent)
