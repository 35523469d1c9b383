"""Canonical forms before planning: fewer cases for everything below.

reverse scan along an axis  ->  flip, forward scan, flip (views, so nothing moves)
views anywhere              ->  views where values are read from memory (`polyfuse.canonical`)
"""

from __future__ import annotations

from dataclasses import replace

from polyfuse import expr
from polyfuse.affine import dimensions
from polyfuse.canonical import canonical_views
from polyfuse.expr import Node, Program
from polyfuse.rebuild import rebuild_program


def normalise(program: Program) -> Program:
    """The same program without reverse scans, with views in canonical places."""
    names: dict[bytes, str] = {}

    def change(original: Node, node: Node) -> Node:
        if not isinstance(node, expr.Scan) or not node.reverse:
            return node
        forward = expr.scan(node.monoid, flip(node.operand, node.axis), node.axis, node.exclusive)
        if original.digest in program.names:
            names[forward.digest] = program.names[original.digest]
        return flip(forward, node.axis)

    rebuilt = rebuild_program(program, change)
    return canonical_views(replace(rebuilt, names={**rebuilt.names, **names}))


def flip(node: Node, axis: int) -> Node:
    """``node[..., ::-1, ...]``."""
    points = list(dimensions(node.rank))
    points[axis] = node.shape[axis] - points[axis] - 1
    return expr.view(node, node.shape, points)
