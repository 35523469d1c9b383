"""Which rows of updates belong to each target of a scatter, in order: what `rewrites.scatters` asks of a library.

    targets  4 1 4 1      table[:, 1]  =  1, 3, none ...       updates 1 and 3
                          table[:, 4]  =  0, 2, none ...

A target with up to `TABLE` updates has them in the table.  Those of any other are folded to one row, as a tree that
keeps their order; its number in the table lies behind those of all updates.  Both calls sort the same targets, so that
nothing but arrays passes between them; the second one has nothing to do where no target has many updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from polyfuse.expr import IndexEntry
from polyfuse.scatter import Tools, folded_runs, targets

TABLE = 8
"""Rows per target in the table.  65,536 tokens of 50,000 words update a row 1.3 times on average, and next to none more
than eight times."""


def _operand_shape(operands: Sequence[Any]) -> tuple[int, ...]:
    """That of the operands that are no numbers: all axes of the updates before those of a row."""
    return next(tuple(o.shape) for o in operands if len(o.shape))


def table(tools: Tools, *arrays: Any, index: tuple[IndexEntry, ...]) -> None:
    """Fill ``i32[places, axes, *extents]``, the last of `arrays`: per target the coordinates of its rows, -1 for none.

    A target with more rows than places has one entry: the place of its first row in the sorted order, its first
    coordinate behind those of all updates.  With one place that is the last row, which alone counts.
    """
    *operands, result = arrays
    over, extents = _operand_shape(operands), tuple(result.shape[2:])
    places, flat = result.shape[0], result.reshape(result.shape[0], result.shape[1], -1)
    if 0 in over or 0 in extents:
        result[...] = -1
        return
    at = targets(tools.module, extents, over, operands, index, "assume", tools.arange)
    target, order = tools.sort(at, prod(extents))
    where = tools.module.where
    ends = tools.module.searchsorted(target, tools.like(tools.arange(prod(extents) + 1), target))
    first, end = ends[:-1], ends[1:]
    many = end - first > places
    place = first + tools.arange(places)[:, None] if places > 1 else end[None] - 1
    holds = (place < end) & (~many if places > 1 else end > first)
    row = order[where(holds, place, 0)]
    if places > 1:
        row[0] = where(many, first, row[0])
        holds[0] |= many
    for axis in range(len(over) - 1, -1, -1):
        coordinate = row % over[axis] if axis else row
        if axis == 0 and places > 1:
            coordinate[0] += many * over[0]
        flat[:, axis] = where(holds, coordinate, -1)
        row = row // over[axis] if axis else row


def folded(tools: Tools, *arrays: Any, index: tuple[IndexEntry, ...], monoid: str, leading: int) -> None:
    """The rows that the table does not name, folded per target, in the last of `arrays`, which follows the updates, the
    table and the operands of the index.  Its other rows stay as they are."""
    updates, named, *operands, result = arrays
    over, extents = tuple(updates.shape[:leading]), tuple(named.shape[2:])
    many = named[0, 0].reshape(-1) >= over[0] if 0 not in (*over, *extents) else None
    if many is None or not bool(many.any()):
        return
    at = targets(tools.module, extents, over, operands, index, "assume", tools.arange)
    target, order = tools.sort(at, prod(extents))
    chosen = tools.nonzero(many[tools.int64(target)])
    values = tools.wide(updates.reshape(prod(over), -1)[order[chosen]])
    values, begins = folded_runs(tools, values, target[chosen], monoid)
    result.reshape(prod(over), -1)[chosen[begins]] = tools.like(values, result)
