"""Rows that are reduced over what neighbours along them give: lanes have vectors, and theirs in windows of registers.

    s[i] = sum of f(x[i, j], x[i, j + 1])     i = R*b0 + ty,  j = TX*V*(c + C*r) + V*tx + v
    x at j and j + 1 for a lane               a window of 2*V registers for each c, two aligned loads (`windows.py`)

What is computed of each element is computed once for all neighbours of a lane that need it.  What neighbours give is
shorter than the row, and begins anywhere in it: its last vector is masked.
"""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse.affine import ZERO, Affine
from polyfuse.bindings import AnyGuard
from polyfuse.places.proposal import Windows
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.row_shape import RowShape, Way, masked_shape, sparse_ways
from polyfuse.strategies.situation import Situation
from polyfuse.strategies.window_sums import TILES
from polyfuse.strategies.windows import moved_axes, row_guards, vector_of

NEIGHBOURS = "neighbours"
"""The parameter of such rows."""
WORDS = 4
"""Elements of a lane of rows that begin anywhere, which it loads one by one."""
FAR, MANY = 3, 8
"""How far apart neighbours in a column lie from which on a thread has so many rows, most of which have them all."""
WAYS = (Way.USUAL, Way.FULL, Way.TIGHT, Way.STREAM)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Of arrays that are read at neighbours along rows: how many elements are loaded at once, the windows, and the
    guards that all rows in memory are as many whole vectors.  `unroll`: rows that a thread has of columns at least."""

    width: int
    windows: Windows
    guards: tuple[AnyGuard, ...]
    unroll: int = 1


def neighbours(situation: Situation, inner: AxisClass) -> Neighbours | None:
    """None where nothing is read at neighbours along `inner`, which is reduced, or neighbours along what is reduced
    besides, too, which `window_sums` has."""
    if situation.target.kind == "cpu" or situation.scans or not inner.reduced_by or not situation.has_much:
        return None
    over = [a for a in situation.axes if a.reduced_by]
    if len(over) in TILES and any(a is not inner for a in moved_axes(situation, inner).intersection(over)):
        return None
    group = situation.group
    vectors = dict.fromkeys(group.body - group.roots, 1) | {n: vector_of(situation, n) for n in group.loads}
    width = max([vectors[n] for n in group.loads if situation.scop.shape(n)], default=1)
    if not _reads_neighbours(situation, inner, width):
        return None
    width = WORDS if width == 1 else width
    return Neighbours(width, Windows(("v",), vectors), row_guards(situation, inner.extent, 1, vectors, flat=False))


def _reads_neighbours(situation: Situation, inner: AxisClass, width: int) -> bool:
    """Whether something is read along `inner` at other than its own elements, or than those of whole vectors; where
    rows begin anywhere, at several places."""
    shifts: dict[int, set[Affine]] = {}
    for statement in situation.group.statements():
        axes = situation.classes.statement(statement)
        for read in statement.reads:
            last = read.index[-1] if read.index else None
            if not isinstance(last, Affine):
                continue
            along = [f"%{d}" for d, axis in enumerate(axes) if axis is inner and last.coefficient(f"%{d}")]
            if along:
                shifts.setdefault(read.source, set()).add(last - Affine.symbol(along[0]))
    if width == 1:
        return any(len(found) > 1 for found in shifts.values())
    return any(shift % width != ZERO for found in shifts.values() for shift in found)


def neighbour_columns(situation: Situation, over: AxisClass) -> Neighbours | None:
    """The same of columns that are reduced along `over`: a thread has several rows, one behind the other, of a vector
    of them.  None where no array, and nothing that is computed, is read at several places along it."""
    if situation.target.kind == "cpu" or situation.scans or not situation.has_much:
        return None
    places: dict[int, set[Affine]] = {}
    for statement in situation.group.statements():
        axes = situation.classes.statement(statement)
        names = [f"%{d}" for d, axis in enumerate(axes) if axis is over]
        for read in statement.reads:
            for entry in read.index:
                if isinstance(entry, Affine) and any(entry.coefficient(name) for name in names):
                    places.setdefault(read.source, set()).add(entry - Affine.symbol(names[0]))
    if all(len(found) < 2 for found in places.values()):
        return None
    offsets = [entry.constant for found in places.values() for entry in found]
    group = situation.group
    vectors = dict.fromkeys(group.body - group.roots, 1) | {n: vector_of(situation, n) for n in group.loads}
    return Neighbours(1, Windows(("u", "v"), vectors), (), MANY if max(offsets) - min(offsets) >= FAR else 1)


def row_shapes(situation: Situation, inner: AxisClass, near: Neighbours, has_rows: bool) -> list[RowShape]:
    """Lanes of a vector, or of two side by side, of which a window has fewer elements for neighbours of other lanes."""
    widths, ways = (near.width, 2 * near.width), (*WAYS, *sparse_ways(situation))
    return list(dict.fromkeys(masked_shape(situation, inner, w, has_rows, way) for w in widths for way in ways))
