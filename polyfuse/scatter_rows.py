"""Which rows of updates belong to each target of a scatter, in order: what `rewrites.scatters` asks of a library.

    targets  4 1 4 1      table[:, 1]  =  1, 3, none ...       updates 1 and 3
                          table[:, 4]  =  0, 2, none ...

A target with up to `TABLE` updates has them in the table.  Those of any other are folded to one row, as a tree that
keeps their order; its number in the table lies behind those of all updates.  Nothing but arrays passes between the two
calls; the second one has nothing to do where no target has many updates, else it sorts those alone.
"""

from __future__ import annotations

from math import prod
from typing import Any

from polyfuse.scatter import Tools, folded_runs

TABLE = 8
"""Rows per target in the table.  65,536 tokens of 50,000 words update a row 1.3 times on average, and next to none more
than eight times."""


def table(tools: Tools, at: Any, result: Any) -> None:
    """Fill ``i32[places, axes, *extents]``: per target the coordinates of its rows, the first one -1 for none.

    `at`: the row-major targets, one per row of updates.

    A target with more rows than places has one entry: the place of its first row in the sorted order, its first
    coordinate behind those of all updates.  With one place that is the last row, which alone counts.
    """
    over, extents, places, where = tuple(at.shape), tuple(result.shape[2:]), result.shape[0], tools.module.where
    flat = result.reshape(places, result.shape[1], -1)
    if 0 in over or 0 in extents:
        result[...] = -1
        return
    target, order = tools.sort(at.reshape(-1), prod(extents))
    ends = tools.module.searchsorted(target, tools.like(tools.arange(prod(extents) + 1), target))
    first, end = ends[:-1], ends[1:]
    if places == 1:
        row = where(end > first, order[end - 1], -1)[None]
    else:
        place = first + tools.arange(places)[:, None]
        many = end - first > places
        row = where((place < end) & ~many, order[tools.module.clip(place, None, len(order) - 1)], -1)
        row[0] = where(many, first + len(order), row[0])
    for axis in range(len(over) - 1, 0, -1):
        flat[:, axis] = row % over[axis]
        row = row // over[axis]
    flat[:, 0] = row


def folded(tools: Tools, updates: Any, named: Any, at: Any, result: Any, *, monoid: str) -> None:
    """The rows that the table `named` does not name, folded per target, in rows of `result`.  Its other rows stay as
    they are."""
    over, extents = tuple(at.shape), tuple(named.shape[2:])
    if 0 in (*over, *extents):
        return
    entry, flat = named[0].reshape(len(over), -1), at.reshape(-1)
    chosen = tools.nonzero((entry[0] >= over[0])[flat])
    if not len(chosen):
        return
    target, order = tools.sort(flat[chosen], prod(extents))
    values = tools.wide(updates.reshape(prod(over), -1)[chosen[order]])
    values, begins = folded_runs(tools, values, target, monoid)
    where = entry[:, tools.int64(target[begins])]
    row = where[0] - over[0]
    for extent, coordinate in zip(over[1:], where[1:], strict=True):
        row = row * extent + coordinate
    result.reshape(prod(over), -1)[tools.int64(row)] = tools.like(values, result)
