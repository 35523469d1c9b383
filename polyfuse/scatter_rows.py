"""Which rows of updates belong to each target of a scatter, in order: what `rewrites.scatters` asks of a library.

    targets   4 1 4 1 1 1 1 1           table[:, 1] = rows 1, 3, 4, 5 of the folded updates' own numbering ...
    sorted    1 1 1 1 1 1 | 4 4         table[:, 4] = 0, 2, none, none

A target with up to `TABLE` updates has their rows in the table.  A longer run is cut in at most `TABLE` pieces of equal
length, each folded to one row as a tree that keeps the order; the table then has the numbers of these rows behind those
of the updates.  Both calls derive the same pieces from the indices, so that nothing but arrays passes between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from polyfuse.expr import IndexEntry
from polyfuse.scatter import combination, targets, tree

TABLE = 4
"""Rows per target in the table.  65,536 tokens of 50,000 words update a row 1.3 times on average, and 99 % of the rows
at most four times."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What libraries spell differently.  `argsort` is stable; `int32`, `wide`: conversions, the latter of 16-bit floats
    to float32."""

    module: Any
    arange: Callable[[int], Any]
    argsort: Callable[[Any], Any]
    int32: Callable[[Any], Any]
    wide: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Runs:
    """Updates sorted by target.  Per update: its number, its target, the piece of its run that it is in, its place in
    that piece, the piece's number among all folded ones, and whether it is folded."""

    order: Any
    target: Any
    piece: Any
    place: Any
    number: Any
    is_folded: Any


def _product(extents: Sequence[int]) -> int:
    count = 1
    for extent in extents:
        count *= extent
    return count


def _sorted(tools: Tools, at: Any, extents: Sequence[int]) -> tuple[Any, Any]:
    """(the stable order of the targets, the targets in that order); narrow keys sort twice as fast."""
    order = tools.argsort(tools.int32(at) if _product(extents) < 1 << 31 else at)
    return order, at[order]


def _runs(tools: Tools, at: Any, extents: Sequence[int]) -> _Runs:
    module = tools.module
    order, target = _sorted(tools, at, extents)
    first = module.searchsorted(target, target, side="left")
    count = module.searchsorted(target, target, side="right") - first
    rank = tools.arange(len(at)) - first
    is_folded = count > TABLE
    length = module.where(is_folded, (count + TABLE - 1) // TABLE, 1)
    place = rank % length
    number = module.cumsum(is_folded & (place == 0), 0) - 1
    return _Runs(order, target, rank // length, place, number, is_folded)


def table(tools: Tools, *arrays: Any, index: tuple[IndexEntry, ...], bounds: str) -> None:
    """Fill ``i32[places, axes, *extents]``, the last of `arrays`: per target the coordinates of its rows, the first one
    that of a folded row behind all updates, -1 for none.  With one place the last row counts.  Raises IndexError."""
    *operands, result = arrays
    over = _common_shape(operands)
    extents = tuple(result.shape[2:])
    result[...] = -1
    if 0 in over:
        return
    at = targets(tools.module, extents, over, operands, index, bounds, tools.arange)
    flat = result.reshape(result.shape[0], result.shape[1], -1)
    if result.shape[0] == 1:
        order, target = _sorted(tools, at, extents)
        last = tools.module.searchsorted(target, target, side="right") - 1
        where, row, beyond = target * 0, order[last], 0
    else:
        runs = _runs(tools, at, extents)
        target, where = runs.target, runs.piece
        row, beyond = tools.module.where(runs.is_folded, runs.number, runs.order), runs.is_folded * over[0]
    for axis in range(len(over) - 1, -1, -1):  # all updates of a piece write the same number
        coordinate = row % over[axis] + (beyond if axis == 0 else 0)
        flat[where, axis, target] = tools.int32(coordinate)
        row = row // over[axis]


def folded(
    tools: Tools, *arrays: Any, index: tuple[IndexEntry, ...], bounds: str, monoid: str, leading: int
) -> None:
    """Fold the pieces that the table names into the first rows of the last of `arrays`, which follows the updates, the
    table, and the operands of the index.  Its other rows stay as they are."""
    updates, named, *operands, result = arrays
    over = tuple(updates.shape[:leading])
    if 0 in over or 0 in named.shape or not bool((named[0, 0] >= over[0]).any()):
        return
    extents = tuple(named.shape[2:])
    at = targets(tools.module, extents, over, operands, index, "assume" if bounds == "raise" else bounds, tools.arange)
    runs = _runs(tools, at, extents)
    values = tools.wide(updates.reshape(_product(over), -1)[runs.order[runs.is_folded]])
    values, _ = tree(values, runs.place[runs.is_folded], combination(tools.module, monoid))
    result.reshape(_product(over), -1)[: len(values)] = values


def _common_shape(operands: Sequence[Any]) -> tuple[int, ...]:
    """That of the operands that are no numbers: all axes of the updates before those of a row."""
    return next(tuple(o.shape) for o in operands if len(o.shape))
