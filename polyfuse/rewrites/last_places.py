"""One element of a scan's rows, as a reduction that every thread of a row takes part in.

    c = cumsum(x, 1);  y = c / c[:, -1:]    ->    t = max over j of (c[i, j] where j is the last, else -inf);  y = c / t

The element has the same bits, and what needs it beside the scan can stay in the kernel of the scan: only a reduction
hands on to all threads of a row what one of them has.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from polyfuse import expr
from polyfuse.affine import dimension, dimensions
from polyfuse.dtypes import DType, bool_
from polyfuse.expr import Map, Node, Program, Scan, View
from polyfuse.rewrites.rebuild import rebuild_program


@dataclass(frozen=True, slots=True)
class Site:
    """A view that sees one place of each row of a scan, or of what is made of one element by element; rows run along
    `axis`."""

    view: View
    axis: int


def sites(program: Program) -> tuple[Site, ...]:
    """The views of one place of a scan, or of what is made of one, that something else reads as well."""
    order = tuple(expr.topological(program.outputs))
    if not any(isinstance(node, Scan) for node in order):
        return ()
    readers, outputs = expr.readers(order), {output.digest for output in program.outputs}
    found = []
    for node in order:
        if not isinstance(node, View) or (scan := _scan_of(node.source)) is None:
            continue
        several = readers[node.source.digest] > 1 or node.source.digest in outputs
        along = node.index[scan.axis]
        if several and node.source.dtype != bool_ and not any(name.startswith("%") for name in along.names()):
            found.append(Site(node, scan.axis))
    return tuple(found)


def _scan_of(source: Node) -> Scan | None:
    """The scan that every element of `source` is made of the same element of."""
    todo, seen = [source], set[bytes]()
    while todo:
        node = todo.pop()
        if isinstance(node, Scan):
            return node
        if isinstance(node, Map):
            others = [o for o in node.operands if o.shape == source.shape and o.digest not in seen]
            seen.update(o.digest for o in others)
            todo += others
    return None


def reduced(program: Program, chosen: Collection[Site]) -> Program:
    """The program with these elements as reductions."""
    places = {site.view.digest: site.axis for site in chosen}

    def change(original: Node, node: Node) -> Node:
        axis = places.get(original.digest)
        if axis is None or not isinstance(node, View):
            return node
        source, at = node.source, node.index[axis]
        here = dimension(axis) - at, at - dimension(axis)
        nothing = expr.constant(_least(source.dtype), source.dtype)
        pieces = expr.Piece(here, source, dimensions(source.rank)), expr.Piece((), nothing, ())
        taken = expr.reduce_("max", [expr.region(source.shape, pieces)], [axis])
        return expr.view(taken, node.shape, [entry for k, entry in enumerate(node.index) if k != axis])

    return rebuild_program(program, change)


def _least(dtype: DType) -> int | float:
    """What no value of a dtype is less than."""
    if dtype.kind == "f":
        return -math.inf
    return -(1 << 8 * dtype.itemsize - 1) if dtype.kind == "i" else 0
