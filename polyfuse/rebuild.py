"""Rebuild a tensor DAG bottom-up with some nodes replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polyfuse import expr
from polyfuse.expr import Node, Piece


def rebuild(outputs: Sequence[Node], change: Callable[[Node, Node], Node]) -> tuple[Node, ...]:
    """The DAG in which every node is ``change(original, copy over the new operands)``."""
    done: dict[bytes, Node] = {}
    for node in expr.topological(outputs):
        done[node.digest] = change(node, _with_operands(node, [done[o.digest] for o in expr.operands_of(node)]))
    return tuple(done[o.digest] for o in outputs)


def _with_operands(node: Node, operands: list[Node]) -> Node:
    if all(new is old for new, old in zip(operands, expr.operands_of(node), strict=True)):
        return node
    match node:
        case expr.Map():
            return expr.map_(node.function, operands, node.dtype)
        case expr.Reduce():
            return expr.reduce_(node.monoid, operands, node.axes, node.component)
        case expr.Scan():
            return expr.scan(node.monoid, operands[0], node.axis, node.exclusive, node.reverse)
        case expr.View():
            return expr.view(operands[0], node.shape, node.index)
        case expr.Region():
            pieces = [Piece(p.where, o, p.index) for p, o in zip(node.pieces, operands, strict=True)]
            return expr.region(node.shape, pieces)
        case expr.Gather():
            return expr.gather(operands[0], node.shape, operands[1:], node.index, node.bounds)
        case expr.Scatter():
            return expr.scatter(operands[0], operands[1], operands[2:], node.index, node.monoid, node.bounds)
        case expr.Opaque():
            return expr.opaque(node.call, operands, node.shape, node.dtype, node.result)
        case _:
            return node


