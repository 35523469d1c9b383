"""Canonical forms before planning: fewer cases for everything below.

reverse scan along an axis  ->  flip, forward scan, flip (views, so nothing moves)
cumsum(x, 1)[:, -1]         ->  sum(x, 1), where nothing else of the scan is read, or it is of integers
exp(x.T)                    ->  exp(x).T: dimensions in the order of what is read
arrays without elements     ->  filled with nothing: what they are made of is not computed
views anywhere              ->  views where values are read from memory (`polyfuse.rewrites.canonical`)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polyfuse import expr
from polyfuse.affine import ZERO, dimension, dimensions
from polyfuse.expr import Node, Program
from polyfuse.rewrites.canonical import canonical_views
from polyfuse.rewrites.rebuild import rebuild_program

WHOLE = ("sum", "prod")
"""Scans whose last element is a reduction: those with a neutral element, of empty rows as well."""


def normalise(program: Program) -> Program:
    """The same program without reverse scans, with views in canonical places."""
    origins: dict[bytes, bytes] = {}  # of values that are now seen through a view
    readers = expr.readers(expr.topological(program.outputs))
    outputs = {output.digest for output in program.outputs}

    def is_alone(view: Node) -> bool:
        """Whether a view is all that is read of what it sees, casts aside."""
        while isinstance(view, expr.View) or isinstance(view, expr.Map) and view.function == "cast":
            (view,) = expr.operands_of(view)
            if readers.get(view.digest) != 1 or view.digest in outputs:
                return False
        return True

    def change(original: Node, node: Node) -> Node:
        if ZERO in node.shape and not isinstance(node, (expr.Input, expr.Opaque)):
            return expr.view(expr.constant(0, node.dtype), node.shape, ())
        if isinstance(node, expr.Map):
            changed = _lifted(node)
        elif isinstance(node, expr.Scan) and node.reverse:
            forward = expr.scan(node.monoid, flip(node.operand, node.axis), node.axis, node.exclusive)
            changed = flip(forward, node.axis)
        elif isinstance(node, expr.View):
            return _last_of_scan(node, is_alone(original))
        else:
            return node
        if changed is not node and isinstance(changed, expr.View):
            origins[changed.source.digest] = original.digest
        return changed

    return canonical_views(_marked(rebuild_program(program, change), program, origins))


def _marked(rebuilt: Program, program: Program, origins: Mapping[bytes, bytes]) -> Program:
    """Names, source lines and marks of the originals for the values behind the views that took their place."""
    names = {new: program.names[old] for new, old in origins.items() if old in program.names}
    sources = {new: program.sources[old] for new, old in origins.items() if old in program.sources}
    inner = {new for new, old in origins.items() if old in program.inner}
    return replace(
        rebuilt,
        names={**names, **rebuilt.names},
        sources={**sources, **rebuilt.sources},
        inner=rebuilt.inner | inner,
    )


def _last_of_scan(node: expr.View, is_alone: bool) -> Node:
    """The reduction of all elements instead of the last element of their scan, which may be cast; else `node`.

    Sums of floats that are associated in another way are others: beside the scan its own last element is kept, so that
    of prefixes over the last of them the last one is 1."""
    source, scan = node.source, node.source
    if isinstance(source, expr.Map) and source.function == "cast":
        (scan,) = source.operands
    if not isinstance(scan, expr.Scan) or scan.exclusive or scan.reverse or scan.run or scan.monoid not in WHOLE:
        return node
    if not (is_alone or scan.dtype.kind in "biu"):
        return node
    if node.index[scan.axis] != scan.shape[scan.axis] - 1:
        return node
    whole: Node = expr.reduce_(scan.monoid, [scan.operand], [scan.axis])
    kept = [entry for k, entry in enumerate(node.index) if k != scan.axis]
    return expr.view(whole if source is scan else expr.map_("cast", [whole], source.dtype), node.shape, kept)


def _lifted(node: expr.Map) -> Node:
    """A map of transposed arrays as the transposed map, where no array is read in the order of the map."""
    orders = [order for o in node.operands if (order := _order_of(o)) is not None and len(order) == node.rank]
    plain = tuple(range(node.rank))
    if not orders or plain in orders:
        return node
    order = min(orders)  # dimension k of what is read runs along dimension order[k] of the map
    index = [dimension(order.index(d)) for d in plain]
    shape = [node.shape[d] for d in order]
    operands = [expr.view(o, shape, index) if o.rank else o for o in node.operands]
    lifted = expr.map_(node.function, operands, node.dtype)
    return expr.view(lifted, node.shape, [dimension(d) for d in order])


def _order_of(node: Node) -> tuple[int, ...] | None:
    """The order in which an array holds the dimensions of its reader; None where it does not hold each of them once."""
    if not isinstance(node, expr.View):
        return tuple(range(node.rank)) if node.rank else None
    found = [next((d for d in range(node.rank) if entry == dimension(d)), -1) for entry in node.index]
    return tuple(found) if sorted(found) == list(range(node.rank)) and node.rank else None


def flip(node: Node, axis: int) -> Node:
    """``node[..., ::-1, ...]``."""
    points = list(dimensions(node.rank))
    points[axis] = node.shape[axis] - points[axis] - 1
    return expr.view(node, node.shape, points)
