"""Reductions of reductions: one over all of their dimensions, where these lie side by side.

    m = abs(r).max(axis=1).max()    ->    m = abs(r).max()
    s = x.sum(axis=2).sum(axis=1)   ->    s = x.sum(axis=(1, 2))

The second waits for the first, which schedules have to keep apart; of one reduction each block takes any share.  What
is made of other reductions, as rows over their sums, stays: blocks have whole rows of it, and a sum of each by the way.
"""

from __future__ import annotations

from polyfuse import expr
from polyfuse.expr import Node, Program
from polyfuse.rewrites.rebuild import rebuild_program
from polyfuse.rewrites.stacks import ROUNDED

ANY_ORDER = frozenset(("sum", "prod", "max", "min", "any", "all"))
"""Reductions without positions: their elements may meet in any order, and what one leaves is all that another asks for.
"""


def merged_reductions(program: Program) -> Program:
    """The program without reductions that nothing but another reduction of the kind reads."""
    readers = expr.readers(expr.topological(program.outputs))
    outputs = {output.digest for output in program.outputs}
    known = dict[bytes, bool]()

    def change(original: Node, node: Node) -> Node:
        if not isinstance(node, expr.Reduce) or not isinstance(original, expr.Reduce):
            return node
        inner, before = node.operands[0], original.operands[0]
        if not isinstance(inner, expr.Reduce) or node.monoid not in ANY_ORDER or inner.monoid != node.monoid:
            return node
        if readers[before.digest] > 1 or before.digest in outputs or inner.dtype in ROUNDED.get(node.monoid, ()):
            return node
        if not _is_of_elements(inner.operands[0], known):
            return node
        left = [k for k in range(inner.operands[0].rank) if k not in inner.axes]
        axes = sorted((*inner.axes, *[left[a] for a in node.axes]))
        if axes[-1] - axes[0] >= len(axes):
            return node  # what lies between is kept: two passes may be what is fast
        return expr.reduce_(node.monoid, inner.operands, axes)

    return rebuild_program(program, change)


def _is_of_elements(node: Node, known: dict[bytes, bool]) -> bool:
    """Whether each element is made of a few elements of arrays, and of nothing that all of a row has a part in."""
    for inner in expr.topological([node]):
        by_itself = not isinstance(inner, (expr.Reduce, expr.Scan, expr.Recurrence, expr.Opaque, expr.Scatter))
        known[inner.digest] = by_itself and all(known[operand.digest] for operand in expr.operands_of(inner))
    return known[node.digest]
