"""Rebuild a tensor DAG bottom-up with some nodes replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from polyfuse import expr
from polyfuse.expr import Node, Piece, Program

Change = Callable[[Node, Node], Node]
"""``change(original, copy over the new operands)`` gives the node that takes the original's place."""


def rebuild_program(program: Program, change: Change) -> Program:
    """The program over the changed DAG.  Names, source lines and marks follow a node to what takes its place."""
    done = _rebuilt(program.outputs, change)
    moved = {old: new.digest for old, new in done.items() if new.digest not in done}  # else it has marks of its own
    return replace(
        program,
        outputs=tuple(done[o.digest] for o in program.outputs),
        names={**program.names, **{new: program.names[old] for old, new in moved.items() if old in program.names}},
        sources={
            **program.sources,
            **{new: program.sources[old] for old, new in moved.items() if old in program.sources},
        },
        inner=program.inner | {new for old, new in moved.items() if old in program.inner},
    )


def rebuilt(nodes: Sequence[Node], change: Change) -> tuple[Node, ...]:
    """What takes the place of each."""
    done = _rebuilt(nodes, change)
    return tuple(done[node.digest] for node in nodes)


def _rebuilt(outputs: Sequence[Node], change: Change) -> dict[bytes, Node]:
    """What takes the place of each node, by the digest of the original."""
    done: dict[bytes, Node] = {}
    for node in expr.topological(outputs):
        done[node.digest] = change(node, with_operands(node, [done[o.digest] for o in expr.operands_of(node)]))
    return done


def with_operands(node: Node, operands: list[Node]) -> Node:
    if all(new is old for new, old in zip(operands, expr.operands_of(node), strict=True)):
        return node
    match node:
        case expr.Map():
            return expr.map_(node.function, operands, node.dtype)
        case expr.Reduce():
            return expr.reduce_(node.monoid, operands, node.axes, node.component)
        case expr.Scan():
            return expr.scan(node.monoid, operands[0], node.axis, node.exclusive, node.reverse, node.run)
        case expr.Recurrence():
            return expr.recurrence(node.steps, operands, node.lags, node.axis, node.component)
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
