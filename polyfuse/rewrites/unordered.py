"""Scatters of floats as scatters of integers, which have the same bits in any order.

    y = x.at[i].add(u)    ->    m = scatter max(-1, size of u, i)              bits of the largest update of each place
                                q = scatter sum(0, rint(u * 2^s), i)           2^s: such that it has 30 bits in front
                                y = x + q * 2^-s                               of the point, and s is that of m[i]
    y = x.at[i].max(u)    ->    k = scatter max(lowest, key of u, i);  y = max(x, float of k)

A sum is then exact but for one rounding of every update, to 2^-31 of the largest one of its place, and one of the
result: the order of the updates has no part in it.  (Demmel and Nguyen, Parallel reproducible summation, 2015, for the
idea.)  Infinities and NaN are counted in place of sums where a place has any.
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
_INFINITE, _NORMAL, _SIGN = 0x7F800000, 0x00800000, 2**31 - 1  # bits of float32

Integers = Callable[[Scatter], Node]


def scaled_sum(node: Scatter, integers: Integers) -> Node:
    """A sum of 16- or 32-bit floats.  `integers`: what becomes of a scatter of integers."""
    wide = _cast(node.updates, f32)
    places = integers(_like(node, -1, _size(wide), "max", node.bounds))
    settled = "clip" if node.bounds == "raise" else node.bounds  # the first scatter has checked
    size = expr.gather(places, node.updates.shape, node.operands, node.index, settled)
    scaled = _scaled(wide, size)
    total = integers(_like(node, 0, scaled, "sum", settled))
    return _unscaled(node, places, total)


def _like(node: Scatter, fill: int, updates: Node, monoid: str, bounds: str) -> Scatter:
    """A scatter of integers to the same places."""
    base = expr.view(expr.constant(fill, updates.dtype), node.base.shape, ())
    return expr.scatter(base, updates, node.operands, node.index, monoid, bounds)


def _size(wide: Node) -> Node:
    """The bits of the magnitude; -1 for -0, which changes nothing, as for a place without updates."""
    bits = expr.map_("bitcast", [wide], i32)
    is_none = _test("equal", bits, -_SIGN - 1)
    return expr.map_("where", [is_none, expr.constant(-1, i32), _map("bitwise_and", bits, _SIGN)], i32)


def _exponent(size: Node) -> Node:
    """The bits of the exponent of a size, those of the least normal number for all below."""
    return _map("maximum", _map("bitwise_and", size, _INFINITE), _NORMAL)


def _scaled(wide: Node, size: Node) -> Node:
    """The integer that stands for an update.  Where the place has infinities or NaN, 1 and 2^31 for those of each sign,
    both for NaN."""
    power = expr.map_("bitcast", [expr.map_("subtract", [expr.constant(_INFINITE, i32), _exponent(size)], i32)], f32)
    small = expr.map_("multiply", [wide, power], f32)  # below 4
    moved = expr.map_("multiply", [small, expr.constant(2.0 ** (SCALED - 1), f32)], f32)
    number = _cast(expr.map_("rint", [moved], f32), i64)
    codes = [
        expr.map_("where", [expr.map_(test, [wide, expr.constant(bound, f32)], bool_), _long(0), _long(code)], i64)
        for test, bound, code in (("less", inf, 1), ("greater", -inf, _SIGN + 1))
    ]
    return expr.map_("where", [_test("less", size, _INFINITE), number, expr.map_("add", codes, i64)], i64)


def _unscaled(node: Scatter, size: Node, total: Node) -> Node:
    """The base and what the integers stand for."""
    power = _cast(expr.map_("bitcast", [_exponent(size)], f32), f64)
    number = expr.map_("multiply", [_cast(total, f64), _scaled_power(power)], f64)
    is_negative = _test("equal", _map("bitwise_and", total, _SIGN), 0)
    mixed = _chosen(is_negative, expr.constant(-inf, f64), expr.constant(nan, f64))
    special = _chosen(_test("less_equal", total, _SIGN), expr.constant(inf, f64), mixed)
    added = _chosen(_test("less", size, _INFINITE), number, special)
    result = _cast(expr.map_("add", [_cast(node.base, f64), added], f64), node.dtype)
    return expr.map_("where", [_test("greater_equal", size, 0), result, node.base], node.dtype)


def _scaled_power(power: Node) -> Node:
    return expr.map_("multiply", [power, expr.constant(2.0**-SCALED, f64)], f64)


def keyed_extreme(node: Scatter, integers: Integers) -> Node:
    """The largest or smallest of floats.  `integers`: what becomes of a scatter of integers."""
    wide = node.updates if node.dtype == f64 else _cast(node.updates, f32)
    word, top = (i64, 2**63 - 1) if wide.dtype == f64 else (i32, 2**31 - 1)
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
