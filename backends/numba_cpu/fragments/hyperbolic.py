"""sinh, cosh, tanh and their inverses, from the exponential family; errors below 3 units in the last place."""

from __future__ import annotations

import math

from polyfuse.backends.numba_cpu.fragments.exponential import (
    LN2,
    exponential,
    exponential_minus_1,
    exponential_tail,
    log_plus_1,
    natural_log,
    reduced,
)
from polyfuse.backends.numba_cpu.fragments.reals import Real, horner, in_double, mathematical, power_of_two

# (tanh(x) / x - 1) / x^2 in x^2 on |x| <= 0.61: 2^-28 of tanh
TANH_NEAR = (
    -0.005835004141739102,
    0.020749466108231068,
    -0.053771770531523023,
    0.13331806068146268,
    -0.33333294691527143,
)


def hyperbolic_tangent(x: Real) -> Real:
    if x.is_double:
        size = abs(x).clamp(0.0, 22.0)
        t = exponential_minus_1(size + size)
        return (t / (t + 2)).with_sign_of(x)
    size = abs(x).clamp(0.0, 9.1)
    r, n = reduced(size + size)
    far = 1 - 2 / (((exponential_tail(r) + 1) * power_of_two(n)) + 1)
    square = x * x
    near = (x * square).fma(horner(square, TANH_NEAR), x)
    return (size < 0.6).choose(near, far).with_sign_of(x)


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
    result = (x > 2.0**28).choose(natural_log(x) + LN2, near)
    return (x < 1).choose(math.nan, result)


@in_double
def inverse_hyperbolic_tangent(x: Real) -> Real:
    size = abs(x)
    result = log_plus_1(2 * size / (1 - size)) * 0.5
    result = (size > 1).choose(math.nan, result)
    return result.with_sign_of(x)


sinh = mathematical("sinh", 1, hyperbolic_sine)
cosh = mathematical("cosh", 1, hyperbolic_cosine)
tanh = mathematical("tanh", 1, hyperbolic_tangent)
tanh_short = mathematical("tanh_short", 1, hyperbolic_tangent)
arcsinh = mathematical("arcsinh", 1, inverse_hyperbolic_sine)
arccosh = mathematical("arccosh", 1, inverse_hyperbolic_cosine)
arctanh = mathematical("arctanh", 1, inverse_hyperbolic_tangent)
