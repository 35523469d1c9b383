"""Reductions over a few arrays that were stacked for it: operations on the arrays, of which no stack is made.

    y = stack([a, b, c]).max(axis=0)      ->    y = maximum(maximum(a, b), c)
    m = minimum.reduce([x[:-1], x[1:]])   ->    m = minimum(x[:-1], x[1:])

A stack is a region with one piece per place along its axis: what is reduced there would choose a piece for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from polyfuse import expr
from polyfuse.affine import Affine, dimension
from polyfuse.dtypes import bf16, f16
from polyfuse.expr import Node, Program
from polyfuse.rewrites.rebuild import rebuild_program
from polyfuse.scalars import monoid_named

MOST = 16
"""Arrays of a stack: a thread that reduces more is no longer certain to read all of them at once."""
ROUNDED = {"sum": (f16, bf16), "prod": (f16, bf16)}
"""What a reduction of these element types adds up in wider words, which operations one by one would not."""


def unstacked(program: Program) -> Program:
    """The program without reductions over axes along which arrays were stacked."""
    made: set[bytes] = set()

    def change(original: Node, node: Node) -> Node:
        del original
        if not isinstance(node, expr.Reduce) or len(node.operands) != 1:
            return node
        (operand,) = node.operands
        axis = next((a for a in node.axes if _is_stack(operand, a)), None)
        if axis is None or operand.dtype in ROUNDED.get(node.monoid, ()):
            return node
        function = monoid_named(node.monoid).function
        parts = [_at(operand, axis, place) for place in range(operand.shape[axis].constant)]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return node
        chain = list(accumulate(found, lambda left, right: expr.map_(function, [left, right], node.dtype)))
        made.update(step.digest for step in chain[1:-1])
        rest = [a - (a > axis) for a in node.axes if a != axis]
        if rest:
            made.add(chain[-1].digest)
        return expr.reduce_(node.monoid, [chain[-1]], rest) if rest else chain[-1]

    rebuilt = rebuild_program(program, change)
    return replace(rebuilt, inner=rebuilt.inner | made)


def _is_stack(node: Node, axis: int) -> bool:
    """Whether pieces meet along an axis of a few elements, perhaps converted, or cut, behind that."""
    if not node.shape[axis].is_constant or not 2 <= node.shape[axis].constant <= MOST:
        return False
    while not isinstance(node, expr.Region):
        if isinstance(node, expr.Map) and node.function == "cast":
            (node,) = node.operands
        elif isinstance(node, expr.View):
            along = [d for d, entry in enumerate(node.index) if f"%{axis}" in entry.names()]
            if len(along) != 1:
                return False
            node, axis = node.source, along[0]
        else:
            return False
    return True


def _at(node: Node, axis: int, place: int) -> Node | None:
    """The elements of a stack at one place along its axis; None where that is not one piece."""
    shape = [extent for d, extent in enumerate(node.shape) if d != axis]
    index = [Affine.of(place) if d == axis else dimension(d - (d > axis)) for d in range(node.rank)]
    return _part(node, shape, index)


def _part(node: Node, shape: Sequence[Affine], index: Sequence[Affine]) -> Node | None:
    """``node[index]`` of a stack, perhaps converted, or cut, behind that; None where it is not one piece."""
    if isinstance(node, expr.Map):
        found = _part(node.operands[0], shape, index)
        return found and expr.map_(node.function, [found], node.dtype)
    at = {f"%{d}": entry for d, entry in enumerate(index)}
    if isinstance(node, expr.View):
        return _part(node.source, shape, _at_all(node.index, at))
    assert isinstance(node, expr.Region)
    return _piece(node, shape, at)


def _piece(node: expr.Region, shape: Sequence[Affine], at: dict[str, Affine]) -> Node | None:
    """The piece of a region that holds all that is at these places."""
    for piece in node.pieces:
        conditions = _at_all(piece.where, at)
        if not all(c.is_constant for c in conditions):
            return None
        if all(c.constant >= 0 for c in conditions):
            return _seen(piece.source, shape, _at_all(piece.index, at))
    return None


def _seen(source: Node, shape: Sequence[Affine], index: Sequence[Affine]) -> Node:
    """``source[index]``, through stacks of stacks."""
    for d, entry in enumerate(index):
        if isinstance(source, expr.Region) and entry.is_constant:
            part = _at(source, d, entry.constant)
            if part is not None:
                return _seen(part, shape, [*index[:d], *index[d + 1 :]])
    return expr.view(source, shape, index)


def _at_all(entries: Sequence[Affine], at: dict[str, Affine]) -> list[Affine]:
    return [entry.substitute(at) for entry in entries]
