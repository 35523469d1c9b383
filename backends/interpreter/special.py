"""Functions that NumPy lacks, exact to the last bit or nearly: fused multiply-add, erf, gamma, wide products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A float64 libm function of `math` over arrays, rounded to the operand's dtype."""
    mapped = np.frompyfunc(function, 1, 1)

    def apply(x: Array) -> Array:
        return np.asarray(mapped(np.asarray(x, np.float64)), dtype=np.float64).astype(x.dtype)

    return apply


def lgamma(x: float) -> float:
    """log|gamma(x)|, infinite at the poles."""
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


def tgamma(x: float) -> float:
    """gamma(x) as C99: infinite at zero with its sign, NaN at negative integers."""
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.copysign(math.inf, x) if x == 0 else math.nan


# ---------------------------------------------------------------------------------------------- fused multiply-add


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """a + b as rounded sum and exact error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """a * b as rounded product and exact error (Dekker, Veltkamp's splitting)."""
    splitter = 134217729.0
    product = a * b
    ah = splitter * a - (splitter * a - a)
    bh = splitter * b - (splitter * b - b)
    al, bl = a - ah, b - bh
    return product, ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _odd_sum(a: Array, b: Array) -> Array:
    """a + b rounded to odd: inexact results get a last bit of one, so that rounding again is harmless."""
    total, error = _two_sum(a, b)
    even = (total.view(np.int64) & 1) == 0
    toward = np.where(error > 0, np.inf, -np.inf)
    return np.where((error != 0) & np.isfinite(total) & even, np.nextafter(total, toward), total)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c with one rounding (Boldo and Melquiond 2008, rounding to odd)."""
    a, b, c = np.broadcast_arrays(a, b, c)
    if a.dtype == np.float32:
        product = a.astype(np.float64) * b.astype(np.float64)  # exact: 48 bits
        return _odd_sum(product, c.astype(np.float64)).astype(np.float32)
    high, low = _two_product(a, b)
    sum_high, sum_low = _two_sum(c, low)
    result_high, result_low = _two_sum(high, sum_high)
    exact = result_high + _odd_sum(sum_low, result_low)
    return np.where(np.isfinite(exact) & np.isfinite(high), exact, a * b + c)


# ---------------------------------------------------------------------------------------------- integers


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the double-width product of unsigned integers."""
    width = 8 * a.dtype.itemsize
    if width < 64:
        return ((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(width)).astype(a.dtype)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    ah, al, bh, bl = a >> half, a & mask, b >> half, b & mask
    middle = ah * bl + ((al * bl) >> half)
    cross = al * bh + (middle & mask)
    return np.asarray(ah * bh + (middle >> half) + (cross >> half))


def power(a: Array, b: Array) -> Array:
    """C's power: NumPy takes a root where it sees one exponent for all, hence an array of them.  Integers to negative
    powers truncate toward zero, where NumPy refuses."""
    a, b = np.broadcast_arrays(a, b)
    if a.dtype.kind != "i":
        return np.asarray(np.power(a, b.copy()))
    positive = np.power(a, np.maximum(b, 0))
    sign = np.where((b & 1) == 1, a, np.ones_like(a))
    inverse = np.where(a == 1, np.ones_like(a), np.where(a == -1, sign, np.zeros_like(a)))
    return np.where(b < 0, inverse, positive)
