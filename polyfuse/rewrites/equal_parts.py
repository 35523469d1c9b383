"""Outputs joined from equal parts that are computed from the same arrays: stored as the stack of these.

    y = concatenate([a + b, a - b])        ->    y[k, i] = a[i] + b[i] where k = 0, else a[i] - b[i]

A stack in row-major order is in memory what its parts are one behind the other.  Who computes an element of all parts
reads a and b once; one part behind the other, they come from memory again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from polyfuse import expr
from polyfuse.affine import ONE, Affine, dimension
from polyfuse.expr import Node

MOST = 32
"""Parts: a thread has a result of each (`strategies.whole`)."""
NEAR, FEW = frozenset(1 << k for k in range(10)), 4
"""Elements of parts along rows, and how many parts: places that a thread has in all of them as they lie
(`strategies.pointwise`)."""


def stacked(node: Node, shared: Collection[bytes]) -> Node:
    """What to store for an output: the stack of its parts, if these are equal and share what they are computed from,
    with what is done to all of them; else `node` itself.  `shared`: what others read too, which want it as it is."""
    done, inner = list[expr.Map](), node
    while isinstance(inner, expr.Map) and inner.digest not in shared:
        arrays = [o for o in inner.operands if o.rank]
        if len(arrays) != 1:
            return node
        done.append(inner)
        (inner,) = arrays
    if not isinstance(inner, expr.Region) or inner.digest in shared or not 2 <= len(inner.pieces) <= MOST:
        return node
    found = _stack_of(inner)
    if found is None:
        return node
    for step in reversed(done):
        found = expr.map_(step.function, [found if o.rank else o for o in step.operands], step.dtype)
    return found


def _stack_of(node: expr.Region) -> Node | None:
    """The stack of its parts; None where there is none, or nothing is gained."""
    count, along = len(node.pieces), _along(node)
    if along < 0 or not _share([piece.source for piece in node.pieces]):
        return None
    extent = node.pieces[0].where[0] + dimension(along) + 1
    if along == node.rank - 1 and count <= FEW and extent.is_constant and extent.constant in NEAR:
        return None
    at = {f"%{d}": dimension(d + (d > along)) for d in range(node.rank)}
    pieces = []
    for k, piece in enumerate(node.pieces):
        at[f"%{along}"] = dimension(along + 1) + extent * k
        where = (k - dimension(along),) if k < count - 1 else ()
        pieces.append(expr.Piece(where, piece.source, tuple([entry.substitute(at) for entry in piece.index])))
    shape = [*node.shape[:along], Affine.of(count), extent, *node.shape[along + 1 :]]
    return expr.region(shape, pieces)


def _along(node: expr.Region) -> int:
    """The dimension along which equal parts lie one behind the other, none of them of one element; -1 if none does."""
    conditions = [piece.where for piece in node.pieces]
    if conditions[-1] or any(len(where) != 1 for where in conditions[:-1]):
        return -1
    for d in range(node.rank):
        extent = conditions[0][0] + dimension(d) + 1
        equal = all(where[0] == extent * (k + 1) - 1 - dimension(d) for k, where in enumerate(conditions[:-1]))
        if equal and node.shape[d] == extent * len(conditions) and extent != ONE:
            return d
    return -1


def _share(parts: Sequence[Node]) -> bool:
    """Whether two of the parts are computed from one array."""
    known: set[bytes] = set()
    for part in parts:
        if isinstance(part, (expr.Input, expr.View)) or not part.rank:
            continue
        arrays = {n.digest for n in expr.topological([part]) if isinstance(n, expr.Input) and n.rank}
        if not known.isdisjoint(arrays):
            return True
        known |= arrays
    return False
