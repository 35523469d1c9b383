"""Scatters of floats as scatters of integers, which have the same bits in any order.

    y = x.at[i].add(u)    ->    m = scatter max(-1, size of u, i)              bits of the largest update of each place
                                q = scatter sum(0, rint(u * 2^s), i)           2^s: such that it has 30 bits in front
                                y = x + q * 2^-s                               of the point, and s is that of m[i]
    y = x.at[i].max(u)    ->    k = scatter max(lowest, key of u, i);  y = max(x, float of k)

A sum is then exact but for one rounding of every update, to 2^-31 of the largest one of its place, and one or two of
the result: the order of the updates has no part in it.  (Demmel and Nguyen, Parallel reproducible summation, 2015, for
the idea.)  Of float64 what the rounding leaves is scaled by another 2^30 and summed as well.  Infinities and NaN are
counted in place of sums where a place has any.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan

from polyfuse import expr
from polyfuse.dtypes import DType, bool_, f32, f64, i32, i64
from polyfuse.expr import Node, Scatter

SCALED = 30
"""Binary digits of the largest update of a place; 2^31 of them do not overflow 63."""
MOST = 2**31 - 1
"""Updates: so many infinities of each sign are counted in one number."""

Integers = Callable[[Scatter], Node]


def scaled_sum(node: Scatter, integers: Integers) -> Node:
    """A sum of floats.  `integers`: what becomes of a scatter of integers."""
    wide = _cast(node.updates, _wide(node))
    places = integers(_like(node, -1, _size(wide), "max", node.bounds))
    settled = "clip" if node.bounds == "raise" else node.bounds  # the first scatter has checked
    size = expr.gather(places, node.updates.shape, node.operands, node.index, settled)
    limbs = _limbs(wide, size)
    return _unscaled(node, places, [integers(_like(node, 0, limb, "sum", settled)) for limb in limbs])


def _wide(node: Node) -> DType:
    return f64 if node.dtype == f64 else f32


def _like(node: Scatter, fill: int, updates: Node, monoid: str, bounds: str) -> Scatter:
    """A scatter of integers to the same places."""
    base = expr.view(expr.constant(fill, updates.dtype), node.base.shape, ())
    return expr.scatter(base, updates, node.operands, node.index, monoid, bounds)


def _word(dtype: DType) -> tuple[DType, int, int, int]:
    """(an integer as wide as a float, and the bits of infinity, of the least normal number, and of all but the sign)"""
    if dtype == f64:
        return i64, 0x7FF << 52, 1 << 52, 2**63 - 1
    return i32, 0xFF << 23, 1 << 23, 2**31 - 1


def _size(wide: Node) -> Node:
    """The bits of the magnitude; -1 for -0, which changes nothing, as for a place without updates."""
    word, _, _, magnitude = _word(wide.dtype)
    bits = expr.map_("bitcast", [wide], word)
    is_none = _test("equal", bits, -magnitude - 1)
    return expr.map_("where", [is_none, expr.constant(-1, word), _map("bitwise_and", bits, magnitude)], word)


def _exponent(size: Node, dtype: DType) -> Node:
    """The bits of the exponent of a size, those of the least normal number for all below."""
    _, infinite, normal, _ = _word(dtype)
    return _map("maximum", _map("bitwise_and", size, infinite), normal)


def _limbs(wide: Node, size: Node) -> list[Node]:
    """The integers that stand for an update, of higher digits first.  Where the place has infinities or NaN, 1 and 2^31
    for those of each sign, both for NaN."""
    dtype = wide.dtype
    word, infinite, _, _ = _word(dtype)
    inverse = expr.map_("subtract", [expr.constant(infinite, word), _exponent(size, dtype)], word)
    small = expr.map_("multiply", [wide, expr.map_("bitcast", [inverse], dtype)], dtype)  # below 4
    moved = _times(small, 2.0 ** (SCALED - 1))
    whole = expr.map_("rint", [moved], dtype)
    codes = [
        expr.map_("where", [expr.map_(test, [wide, expr.constant(bound, dtype)], bool_), _long(0), _long(code)], i64)
        for test, bound, code in (("less", inf, 1), ("greater", -inf, MOST + 1))
    ]
    is_finite = _test("less", size, infinite)
    first = expr.map_("where", [is_finite, _cast(whole, i64), expr.map_("add", codes, i64)], i64)
    if dtype == f32:
        return [first]
    rest = _times(expr.map_("subtract", [moved, whole], dtype), 2.0**SCALED)
    second = _cast(expr.map_("rint", [rest], dtype), i64)
    return [first, expr.map_("where", [is_finite, second, _long(0)], i64)]


def _unscaled(node: Scatter, size: Node, totals: list[Node]) -> Node:
    """The base and what the integers stand for."""
    dtype = _wide(node)
    first = totals[0]
    number = _cast(first, f64)
    for total in totals[1:]:
        number = expr.map_("add", [number, _times(_cast(total, f64), 2.0**-SCALED)], f64)
    power = _cast(expr.map_("bitcast", [_exponent(size, dtype)], dtype), f64)
    number = expr.map_("multiply", [_times(number, 2.0**-SCALED), power], f64)
    is_negative = _test("equal", _map("bitwise_and", first, MOST), 0)
    mixed = _chosen(is_negative, expr.constant(-inf, f64), expr.constant(nan, f64))
    special = _chosen(_test("less_equal", first, MOST), expr.constant(inf, f64), mixed)
    added = _chosen(_test("less", size, _word(dtype)[1]), number, special)
    result = _cast(expr.map_("add", [_cast(node.base, f64), added], f64), node.dtype)
    return expr.map_("where", [_test("greater_equal", size, 0), result, node.base], node.dtype)


def _times(node: Node, factor: float) -> Node:
    return expr.map_("multiply", [node, expr.constant(factor, node.dtype)], node.dtype)


def keyed_extreme(node: Scatter, integers: Integers) -> Node:
    """The largest or smallest of floats.  `integers`: what becomes of a scatter of integers."""
    wide = _cast(node.updates, _wide(node))
    word, _, _, top = _word(wide.dtype)
    none, beyond = (-top - 1, top) if node.monoid == "max" else (top, -top - 1)
    bits = expr.map_("bitcast", [wide], word)
    is_nan = expr.map_("isnan", [wide], bool_)
    key = expr.map_("where", [is_nan, expr.constant(beyond, word), _ordered(bits, top)], word)
    found = integers(_like(node, none, key, node.monoid, node.bounds))
    value = expr.map_("bitcast", [_ordered(found, top)], wide.dtype)
    function = "maximum" if node.monoid == "max" else "minimum"
    merged = expr.map_(function, [_cast(node.base, wide.dtype), value], wide.dtype)
    return expr.map_("where", [_test("not_equal", found, none), _cast(merged, node.dtype), node.base], node.dtype)


def _ordered(bits: Node, top: int) -> Node:
    """Bits of floats as integers in their order, and back."""
    negative = _map("right_shift", bits, top.bit_length())
    return expr.map_("bitwise_xor", [bits, _map("bitwise_and", negative, top)], bits.dtype)


def _map(function: str, operand: Node, number: int) -> Node:
    return expr.map_(function, [operand, expr.constant(number, operand.dtype)], operand.dtype)


def _test(function: str, operand: Node, number: int) -> Node:
    return expr.map_(function, [operand, expr.constant(number, operand.dtype)], bool_)


def _chosen(condition: Node, first: Node, second: Node) -> Node:
    return expr.map_("where", [condition, first, second], f64)


def _cast(node: Node, dtype: DType) -> Node:
    return node if node.dtype == dtype else expr.map_("cast", [node], dtype)


def _long(number: int) -> Node:
    return expr.constant(number, i64)
