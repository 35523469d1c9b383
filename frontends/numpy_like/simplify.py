"""Rewrites of one scalar function application, exact but for powers: constants fold and equal spellings meet.

============================  ==================  ==============================================
written                       becomes             exact because
============================  ==================  ==============================================
``x + (-y)``, ``x - (-y)``    ``x - y``, x + y    IEEE 754 negation only flips the sign
``x + x``                     ``2 * x``           doubling is exact
``x * -1``                    ``-x``
``x / 2**k``                  ``x * 2**-k``       scaling by a power of two rounds alike
``x * 1``, ``x / 1``, x - 0   ``x``               (``x + 0.0`` is kept: it turns ``-0.0`` into ``0.0``)
``x ** 2``                    ``x * x``           NumPy computes it so
``x ** n``, whole n <= 6      products            of integers; floats err by 3 units at most, reciprocals by 5
``2.0 ** x``                  ``exp2(x)``         floats: one unit, as the power itself
``2 < x``, ``y > x``          ``x > 2``, x < y    a constant stands right; else "less"
casts there and back          nothing             where the way there is lossless
============================  ==================  ==============================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import frexp
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.dtypes import DType, bool_
from polyfuse.expr import Constant, Map, Node

_MIRRORED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}
_FOLDABLE_SPECIALS: dict[str, Callable[..., object]] = {
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "where": lambda c, a, b: a if c else b,
    "negative": lambda x: -x,
}
_NOT_FOLDED = {"erf", "erfc", "lgamma", "tgamma", "fma", "bitcast", "multiply_high"}


def simplified(function: str, operands: Sequence[Node], dtype: DType | None) -> Node:
    """``function(*operands)`` in canonical form.  Operands have equal shapes or rank 0."""
    folded = _folded(function, operands, dtype)
    if folded is not None:
        return folded
    rule = _RULES.get(function)
    found = rule(*operands) if rule is not None else None
    if found is not None:
        return found
    if function == "cast":
        assert dtype is not None
        return _cast(operands[0], dtype)
    return expr.map_(function, operands, dtype)


def _folded(function: str, operands: Sequence[Node], dtype: DType | None) -> Node | None:
    """The constant that a function of constants is, computed by NumPy in the operands' dtype."""
    values = [o for o in operands if isinstance(o, Constant)]
    if len(values) < len(operands) or function in _NOT_FOLDED:
        return None
    numbers = [np.frombuffer(o.bits, o.dtype.numpy)[0] for o in values]
    with np.errstate(all="ignore"):
        if function == "cast":
            assert dtype is not None
            return _number(np.asarray(numbers[0]), dtype)
        compute = _FOLDABLE_SPECIALS.get(function) or getattr(np, function)
        result = np.asarray(compute(*numbers))
    wanted = bool_ if result.dtype == np.bool_ else operands[-1].dtype
    return _number(result, wanted)


def _number(array: Any, dtype: DType) -> Node:
    """A rank-0 array as a constant."""
    return expr.constant(array.astype(dtype.numpy)[()], dtype)


def _is(node: Node, value: float) -> bool:
    """`node` is the constant `value`; signed zeros differ."""
    if not isinstance(node, Constant):
        return False
    wanted = np.asarray(value).astype(node.dtype.numpy)
    return bool(wanted == value) and node.bits == wanted.tobytes()


def _negated(node: Node) -> Node | None:
    """What `node` is the negation of, if it is one."""
    return node.operands[0] if isinstance(node, Map) and node.function == "negative" else None


def _add(a: Node, b: Node) -> Node | None:
    first, second = sorted((a, b), key=expr.precedence)
    if first is second:
        return simplified("multiply", [expr.constant(2, a.dtype), a], None)
    for x, y in ((first, second), (second, first)):
        minus = _negated(y)
        if minus is not None:
            return simplified("subtract", [x, minus], None)
        if not a.dtype.is_float and _is(y, 0):
            return x
    return None


def _subtract(a: Node, b: Node) -> Node | None:
    minus = _negated(b)
    if minus is not None:
        return simplified("add", [a, minus], None)
    return a if _is(b, 0) else None


def _multiply(a: Node, b: Node) -> Node | None:
    for x, y in ((a, b), (b, a)):
        if _is(y, 1):
            return x
        if _is(y, -1) and a.dtype.kind != "u":
            return simplified("negative", [x], None)
    return None


def _divide(a: Node, b: Node) -> Node | None:
    if not isinstance(b, Constant):
        return None
    value = float(b.value)
    if value == 1:
        return a
    mantissa, exponent = frexp(abs(value))
    largest = {"f16": 14, "f64": 1021}.get(b.dtype.name, 125)  # so that the reciprocal is a normal number
    if mantissa == 0.5 and abs(exponent) < largest:
        return simplified("multiply", [a, expr.constant(1 / value, b.dtype)], None)
    return None


MOST = 6
"""The highest power that becomes products.  A power is some 40 operations, and a library errs by one unit as well."""


def _power(a: Node, b: Node) -> Node | None:
    if isinstance(a, Constant) and a.value == 2 and a.dtype.is_float:
        return expr.map_("exp2", [b])
    if not isinstance(b, Constant) or b.value not in range(-MOST, MOST + 1):
        return None
    exponent = int(b.value)
    if exponent in (1, 2) or exponent > 2 and a.dtype.itemsize >= 4:  # short floats would round every product
        return _product(a, exponent)
    if exponent < -1 and a.dtype.is_float and a.dtype.itemsize >= 4:
        return simplified("divide", [expr.constant(1, a.dtype), _product(a, -exponent)], None)
    return None


def _product(a: Node, count: int) -> Node:
    """``a ** count`` by squares."""
    if count == 1:
        return a
    half = _product(a, count // 2)
    square = simplified("multiply", [half, half], None)
    return simplified("multiply", [square, a], None) if count % 2 else square




def _negative(a: Node) -> Node | None:
    return _negated(a)


def _compare(function: str) -> Callable[[Node, Node], Node | None]:
    def rule(a: Node, b: Node) -> Node | None:
        mirrored = _MIRRORED[function]
        if isinstance(a, Constant):
            return expr.map_(mirrored, [b, a])
        if isinstance(b, Constant) or function.startswith("less"):
            return None
        return expr.map_(mirrored, [b, a])

    return rule


def _idempotent(a: Node, b: Node) -> Node | None:
    return a if a is b else None


def _invert(a: Node) -> Node | None:
    """Double negation; also of the two comparisons that NaN does not break."""
    if not isinstance(a, Map):
        return None
    if a.function == "invert":
        return a.operands[0]
    opposite = {"equal": "not_equal", "not_equal": "equal"}.get(a.function)
    return expr.map_(opposite, a.operands) if opposite else None


def _where(condition: Node, then: Node, otherwise: Node) -> Node | None:
    if isinstance(condition, Constant) and not condition.value:
        then, otherwise = otherwise, then
    if then is otherwise or isinstance(condition, Constant):
        return then
    if isinstance(condition, Map) and condition.function == "invert":
        return simplified("where", [condition.operands[0], otherwise, then], None)
    return None


def _is_lossless(source: DType, target: DType) -> bool:
    """Every value of `source` is one of `target`."""
    if source == target or source.kind == "b":
        return True
    if source.is_float:
        return target.is_float and target.itemsize > source.itemsize
    if target.is_float:
        return source.itemsize < target.itemsize and target.itemsize > 2
    if source.kind == target.kind:
        return target.itemsize > source.itemsize
    return source.kind == "u" and target.itemsize > source.itemsize


def _cast(source: Node, dtype: DType) -> Node:
    if source.dtype == dtype:
        return source
    if isinstance(source, Map) and source.function == "cast":
        (inner,) = source.operands
        if _is_lossless(inner.dtype, source.dtype):
            return _cast(inner, dtype)
    return expr.map_("cast", [source], dtype)


_RULES: dict[str, Callable[..., Node | None]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "power": _power,
    "negative": _negative,
    **{name: _compare(name) for name in _MIRRORED},
    "maximum": _idempotent,
    "minimum": _idempotent,
    "bitwise_and": _idempotent,
    "bitwise_or": _idempotent,
    "invert": _invert,
    "where": _where,
}
