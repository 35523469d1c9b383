"""Numbers taken apart: exponents, spacings, bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from polyfuse import expr
from polyfuse.dtypes import BY_NAME, DType, bf16, f16, f64, i16, i32, u8
from polyfuse.errors import DTypeError
from polyfuse.frontends.numpy_like import nodes, promotion
from polyfuse.frontends.numpy_like.bit_views import same_bits
from polyfuse.frontends.numpy_like.boundaries import library
from polyfuse.frontends.numpy_like.elementwise import absolute, as_float, equal, isfinite, isnan, ufunc, where
from polyfuse.frontends.numpy_like.lifting import as_dtype, broadcast_shapes, kind_of, lift_all
from polyfuse.frontends.numpy_like.tracer import Tracer

ArrayLike = object

_DIGITS = {"f16": (11, -24), "bf16": (8, -133), "f32": (24, -149), "f64": (53, -1074)}  # and the least exponent
_EXPONENT_BITS = {"f32": (23, 127), "f64": (52, 1023)}  # where the exponent stands in IEEE 754, and its bias


def _cast(x: Tracer, dtype: DType) -> Tracer:
    return Tracer(x.state, nodes.cast(x.node, dtype))


def _same_bits(x: Tracer, dtype: DType) -> Tracer:
    return Tracer(x.state, same_bits(x.node, dtype))


def _number(x: Tracer, value: float) -> Tracer:
    return Tracer(x.state, expr.constant(value, x.element))


def spacing(x: ArrayLike) -> Tracer:
    """The distance to the next number away from zero, with the sign of `x`; in float16 that to the next larger number,
    as NumPy has it.  Infinity at the largest number, which has no next one."""
    x = as_float(x)
    digits, least = _DIGITS[x.element.name]
    wide = _cast(x, x.element.compute)
    mantissa, exponent = frexp(wide)
    rises = x.element == f16  # a negative power of two is nearer to the next larger number than to the one below
    exponent = exponent - digits - (equal(mantissa, -0.5).astype(i32.numpy) if rises else 0)
    size = ldexp(_number(wide, 1.0), where(equal(wide, 0), least, ufunc("maximum", exponent, least)).astype(i32.numpy))
    largest = equal(wide if rises else absolute(wide), (2 - 2.0 ** (1 - digits)) * 2.0 ** (2 - digits - least))
    size = where(largest, _number(wide, float("inf")), size)
    found = _cast(size if rises else where(wide < 0, -size, size), x.element)
    return where(isfinite(x), found, _number(x, float("nan")))


def nextafter(x: ArrayLike, y: ArrayLike) -> Tracer:
    """The next number after `x` towards `y`; of 16-bit floats by their bits, since kernels compute them in float32."""
    wide = ufunc("nextafter", x, y)
    dtype = wide.element
    if dtype.itemsize != 2:
        return wide
    a, b = (Tracer(t.state, as_dtype(t, dtype)) for t in lift_all(x, y))
    bits = _same_bits(a, i16)
    grows = equal(a < b, bits >= 0)  # away from zero: the bits of the magnitude count up
    moved = where(equal(a, 0), where(b > 0, 1, -32767), bits + where(grows, 1, -1)).astype(i16.numpy)
    found = where(equal(a, b), a if dtype == f16 else b, _same_bits(moved, dtype))  # zeros: x as NumPy, y as C
    return where(isnan(a) | isnan(b), a + b, found)


def _power_of_two(exponent: Tracer, like: DType) -> Tracer:
    """``2 ** exponent`` exactly, for exponents of normal numbers."""
    shift, bias = _EXPONENT_BITS[like.name]
    bits = BY_NAME[f"i{8 * like.itemsize}"]
    return _same_bits(ufunc("left_shift", _cast(exponent + bias, bits), shift), like)


def ldexp(x: ArrayLike, exponent: ArrayLike) -> Tracer:
    """``x * 2 ** exponent``, in three steps, so that no power of two overflows before the product does."""
    x, n = lift_all(x, exponent)
    if n.element.kind not in "iub":
        raise DTypeError(f"np.ldexp takes integer exponents, not {n.dtype}", advice="Cast them with .astype(np.int32).")
    if x.element != bf16:  # of which NumPy's resolution knows nothing
        inputs, _ = promotion.resolve("ldexp", (kind_of(x), kind_of(n)))
        x = Tracer(x.state, as_dtype(x, inputs[0]))
    result = x.element
    wide = _cast(x, result.compute)
    bias = _EXPONENT_BITS[wide.element.name][1]
    left = ufunc("minimum", ufunc("maximum", _cast(n, BY_NAME["i64"]), -3 * bias), 3 * bias)
    for _ in range(3):
        step = ufunc("minimum", ufunc("maximum", left, 1 - bias), bias)
        wide, left = wide * _power_of_two(step, wide.element), left - step
    return _cast(wide, result)


def frexp(x: ArrayLike) -> tuple[Tracer, Tracer]:
    """The mantissa in [0.5, 1) with its sign, and the int32 exponent."""
    x = as_float(x)
    result = x.element
    wide = _cast(x, result.compute)
    shift, bias = _EXPONENT_BITS[wide.element.name]
    bits = BY_NAME[f"u{8 * wide.element.itemsize}"]
    tiny = absolute(wide) < 2.0 ** (1 - bias)
    scaled = where(tiny, wide * 2.0**shift, wide)
    raised = ufunc("bitwise_and", ufunc("right_shift", _same_bits(scaled, bits), shift), 2 * bias + 1)
    exponent = _cast(raised, i32) - where(tiny, bias - 1 + shift, bias - 1).astype(i32.numpy)
    whole = ~isfinite(wide) | equal(wide, 0)
    cleared = ~((2 * bias + 1) << shift) & ((1 << 8 * bits.itemsize) - 1)
    kept = ufunc("bitwise_or", ufunc("bitwise_and", _same_bits(scaled, bits), cleared), (bias - 1) << shift)
    mantissa = where(whole, wide, _same_bits(kept, wide.element))
    return _cast(mantissa, result), where(whole, 0, exponent).astype(i32.numpy)


def bitwise_count(x: ArrayLike) -> Tracer:
    """How many bits of the magnitude are set: sums of neighbours, then of pairs, of fours, and so on."""
    (x,) = lift_all(x)
    if x.element.kind not in "biu":
        raise DTypeError(f"np.bitwise_count takes integers, not {x.dtype}")
    if x.element.kind == "b":
        return _cast(x, u8)
    width = 8 * x.element.itemsize
    count = _cast(absolute(x), BY_NAME[f"u{width}"])
    span = 1
    while span < width:
        mask = sum(((1 << span) - 1) << at for at in range(0, width, 2 * span))
        count = ufunc("add", ufunc("bitwise_and", count, mask), ufunc("bitwise_and", count >> span, mask))
        span *= 2
    return _cast(count, u8)


# ---------------------------------------------------------------------------------------------- calls of the library


def integer_function(name: str, x: ArrayLike, y: ArrayLike) -> Tracer:
    """gcd and lcm: loops of unknown length, so a call of the array library."""
    a, b = lift_all(x, y)
    inputs, result = promotion.resolve(name, (kind_of(a), kind_of(b)))
    shape = broadcast_shapes(a.state, a.sizes, b.sizes)
    spread = [Tracer(a.state, nodes.broadcast(as_dtype(t, d), shape)) for t, d in zip((a, b), inputs, strict=True)]
    return library(name, spread, shape, result)


def i0(x: ArrayLike) -> Tracer:
    """The modified Bessel function of order 0, of integers in float64; NaN at infinity, as NumPy's."""
    (x,) = lift_all(x)
    x = x if x.element.is_float else _cast(x, f64)
    found = library("i0", [_cast(x, x.element.compute)], x.sizes, x.element.compute)
    known = where(ufunc("isinf", x), float("nan"), found)  # inf is what CuPy gives there
    return _cast(known, x.element)


def infinite(sign: int, x: ArrayLike) -> Tracer:
    """isposinf and isneginf."""
    (x,) = lift_all(x)
    if not x.element.is_float:
        return Tracer(x.state, nodes.full(x.sizes, False, BY_NAME["bool"]))
    return equal(x, sign * float("inf"))


def angle(x: ArrayLike, deg: bool = False) -> Tracer:
    """The angle of a real number: 0, or pi for negative ones; NaN stays."""
    (x,) = lift_all(x)
    found = ufunc("arctan2", 0, x)  # of truth values as of int64: NumPy's zero is an integer
    return where(isnan(x), x, found * (180 / 3.141592653589793) if deg else found)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f.__name__: f for f in (spacing, nextafter, ldexp, frexp, bitwise_count, i0, angle)},
    **{n: partial(integer_function, n) for n in ("gcd", "lcm")},
    "isposinf": partial(infinite, 1),
    "isneginf": partial(infinite, -1),
}
