"""Terms as affine expressions of index variables (subscripts) and as conditions on them (guards)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from polyfuse.affine import Affine
from polyfuse.frontends.index_notation.terms import Apply, Index, Term
from polyfuse.frontends.numpy_like.sizes import affine_of

Conjunction = tuple[Affine, ...]  # all of them >= 0
Condition = tuple[Conjunction, ...]  # one of them


def affine(value: Any) -> Affine | None:
    """`value` as an affine expression over variable keys and size symbols; None where it is none."""
    match value:
        case Index():
            return Affine.symbol(value.key)
        case Apply(name="positive", operands=(operand,)):
            return affine(operand)
        case Apply(name="negative", operands=(operand,)):
            inner = affine(operand)
            return None if inner is None else -inner
        case Apply(name=name, operands=(left, right)) if name in _BINARY:
            a, b = affine(left), affine(right)
            return None if a is None or b is None else _combined(name, a, b)
        case Term() | bool() | np.bool_():
            return None
    return affine_of(value)


_BINARY = frozenset("add subtract multiply floor_divide remainder".split())


def _combined(name: str, a: Affine, b: Affine) -> Affine | None:
    match name:
        case "add":
            return a + b
        case "subtract":
            return a - b
        case "multiply" if b.is_constant:
            return a * b.constant
        case "multiply" if a.is_constant:
            return b * a.constant
        case "floor_divide" if b.is_constant and b.constant > 0:
            return a // b.constant
        case "remainder" if b.is_constant and b.constant > 0:
            return a % b.constant
    return None


def condition(value: Any) -> Condition | None:
    """`value` as a condition on index variables, in disjunctive normal form; None where it depends on data."""
    match value:
        case bool() | np.bool_():
            return ((),) if value else ()
        case Apply(name=name, operands=(left, right)) if name in _COMPARISONS:
            a, b = affine(left), affine(right)
            return None if a is None or b is None else _comparison(name, a - b)
        case Apply(name="bitwise_and" | "logical_and", operands=(left, right)):
            return _conjunction(condition(left), condition(right))
        case Apply(name="bitwise_or" | "logical_or", operands=(left, right)):
            return _disjunction(condition(left), condition(right))
        case Apply(name="invert" | "logical_not", operands=(operand,)):
            inner = condition(operand)
            return None if inner is None else negated(inner)
    return None


_COMPARISONS = frozenset("less less_equal greater greater_equal equal not_equal".split())


def _comparison(name: str, difference: Affine) -> Condition:
    """``a (name) b``, given ``a - b``."""
    match name:
        case "less":
            return ((-difference - 1,),)
        case "less_equal":
            return ((-difference,),)
        case "greater":
            return ((difference - 1,),)
        case "greater_equal":
            return ((difference,),)
        case "equal":
            return ((difference, -difference),)
    return ((difference - 1,), (-difference - 1,))


def _conjunction(a: Condition | None, b: Condition | None) -> Condition | None:
    if a is None or b is None:
        return None
    return tuple((*x, *y) for x, y in product(a, b))


def _disjunction(a: Condition | None, b: Condition | None) -> Condition | None:
    return None if a is None or b is None else (*a, *b)


def negated(given: Condition) -> Condition:
    """The points where none of the conjunctions holds."""
    return tuple(tuple(-chosen - 1 for chosen in choice) for choice in product(*given))


def keys_of(expressions: Sequence[Affine]) -> frozenset[str]:
    """The index variables that occur."""
    return frozenset(name for e in expressions for name in e.names() if name.startswith("@"))


def shown(expression: Affine) -> str:
    """The expression as the user wrote it: variables by their names."""
    rename = {name: name[1:].partition(".")[0] for name in expression.names() if name.startswith("@")}
    return expression.text(rename)
