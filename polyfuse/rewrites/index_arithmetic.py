"""Integers that are affine in the place of an element are indices, which take no memory and decide at compile time.

    i = arange(n)[:, None];  j = arange(m)[None, :]
    i - j + 3                       ->   the index  %0 - %1 + 3
    abs(i - j) <= w                 ->   (i - j <= w) & (i - j >= -w)

Of 64 bits alone, which no sum of a few indices leaves: others wrap around.
"""

from __future__ import annotations

from dataclasses import replace

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.dtypes import bool_, i64
from polyfuse.expr import Node, Program
from polyfuse.rewrites.rebuild import rebuild_program

LARGE = 2**30
"""Numbers and factors from which on an index might leave 64 bits."""
FEW = 8
"""Terms of an index, beyond which its conditions are no simpler than what was written."""
BOUNDED = frozenset(("less", "less_equal"))
MIRRORED = {"greater": "less", "greater_equal": "less_equal"}


def index_arithmetic(program: Program) -> Program:
    """The program with such sums, differences and multiples as indices."""
    if not any(isinstance(node, expr.Iota) for node in expr.topological(program.outputs)):
        return program
    made: set[bytes] = set()

    def change(original: Node, node: Node) -> Node:
        del original
        if not isinstance(node, expr.Map):
            return node
        if (index := _index(node)) is not None:
            return expr.iota(node.shape, index, i64)
        return _within(node, made) or node

    rebuilt = rebuild_program(program, change)
    return replace(rebuilt, inner=rebuilt.inner | made)


def _index(node: expr.Map) -> Affine | None:
    """What a map of indices computes, where that is an index."""
    if node.dtype != i64 or node.function not in ("add", "subtract", "multiply", "negative"):
        return None
    found = [_affine(operand) for operand in node.operands]
    known = [affine for affine in found if affine is not None]
    if len(known) < len(found) or all(affine.is_constant for affine in known):
        return None
    match node.function, known:
        case "add", [one, other]:
            index = one + other
        case "subtract", [one, other]:
            index = one - other
        case "negative", [one]:
            index = -one
        case _:
            one, other = known
            if not one.is_constant and not other.is_constant:
                return None
            index = other * one.constant if one.is_constant else one * other.constant
    small = abs(index.constant) < LARGE and all(abs(factor) < LARGE for _, factor in index.terms)
    return index if small and len(index.terms) <= FEW else None


def _affine(node: Node) -> Affine | None:
    """An integer of 64 bits as an affine expression of the dimensions of its array."""
    match node:
        case expr.Iota() if node.dtype == i64 and node.index.is_linear:
            return node.index
        case expr.Constant() if node.dtype == i64:
            value = node.value
            return Affine.of(int(value)) if abs(value) < LARGE else None
        case expr.View():
            inner = _affine(node.source)
            if inner is None or not all(entry.is_linear for entry in node.index):
                return None
            return inner.substitute({f"%{k}": entry for k, entry in enumerate(node.index)})
        case _:
            return None


def _within(node: expr.Map, made: set[bytes]) -> Node | None:
    """A comparison of a magnitude of an index with a number as two of the index."""
    function, operands = node.function, list(node.operands)
    if function in MIRRORED:
        function, operands = MIRRORED[function], operands[::-1]
    if function not in BOUNDED:
        return None
    magnitude, most = operands
    value = most.source if isinstance(most, expr.View) else most
    if not isinstance(magnitude, expr.Map) or magnitude.function != "absolute" or not isinstance(value, expr.Constant):
        return None
    (index,) = magnitude.operands
    if _affine(index) is None or value.dtype != i64 or abs(value.value) >= LARGE:
        return None
    above = expr.map_(function, [index, most], bool_)
    least: Node = expr.constant(-int(value.value), i64)
    least = expr.view(least, most.shape, ()) if isinstance(most, expr.View) else least
    below = expr.map_(function, [least, index], bool_)
    made.update((above.digest, below.digest))
    return expr.map_("bitwise_and", [above, below], bool_)
