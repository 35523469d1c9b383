"""Rows that begin anywhere in memory, reduced in aligned vectors that the ends of a row cut (`frames.py`).

    rows      y[i, :]: i = b0,  j = TX*V*(c + C*r) + V*tx + v - (rest*i mod V)
"""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal
from polyfuse.schedule import Digit
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import Frame, frame
from polyfuse.strategies.held import comes_back
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.row_shape import RowShape, Way, framed_shape
from polyfuse.strategies.situation import Situation, block_digits, loop, mixed, slot, thread


def framed_rows(situation: Situation, inner: AxisClass, over: list[AxisClass]) -> list[Proposal | None]:
    """Rows that begin anywhere in memory, in aligned vectors, a block each.  Where results need them again they are not
    held in registers, whose padding costs more than accesses of single elements: softmax of 20001 rows of 4093 bfloat16
    takes 120 us on an H200 in frames, 101 without; of 4096 rows of 50257, in a loop, 350, and 522 held in clusters.
    Other arrays along the rows, that begin elsewhere, undo it: weighted sums of 30000 rows of 5003 take 99 and 97 us.
    """
    parallel = situation.nearest(a for a in situation.axes if a not in over)
    digits, splits = block_digits(parallel, {})
    found = frame(situation, inner, splits)
    if found is None or not found.is_common or len(over) > 1:
        return []
    again = comes_back(situation, over)
    held = () if again else (Way.FULL, Way.TIGHT)
    ways = (Way.USUAL, *held, Way.STREAM if _in_rounds(situation) else Way.FEW)
    shapes = dict.fromkeys([framed_shape(situation, inner, found, way) for way in ways])
    if again:
        shapes = dict.fromkeys([shape for shape in shapes if shape.trips != Affine.of(1)])
    return [_framed_rows(situation, inner, found, shape, digits, splits) for shape in shapes]


def _in_rounds(situation: Situation) -> bool:
    """Whether what is reduced depends on another reduction: a row goes by several times."""
    after: set[int] = set()
    for statement in situation.group.statements():
        if any(read.source in after for read in statement.reads) and statement.is_reduction:
            return True
        if statement.is_reduction or any(read.source in after for read in statement.reads):
            after.add(statement.id)
    return False


def _framed_rows(
    situation: Situation,
    inner: AxisClass,
    framed: Frame,
    shape: RowShape,
    blocks: list[Digit],
    outer: dict[int, Affine],
) -> Proposal:
    tx, c = thread("tx", 1, shape.lanes), slot("c", shape.chunks)
    v, r = slot("v", shape.width), loop("r", shape.trips)
    looped = shape.trips != Affine.of(1)
    span = shape.lanes * shape.width
    parts = ((r if looped else None, span * shape.chunks), (c, span), (tx, shape.width), (v, 1))
    splits = outer | {inner.number: mixed(*parts) - framed.shift}
    return Proposal(
        "rows",
        (
            *(("threads", shape.lanes), ("lanes", shape.lanes), ("chunks", shape.chunks)),
            *(("vector", shape.width), ("frames", 1)),
        ),
        kept_digits([*blocks, tx, *([r] if looped else []), c, v], keep_threads=True),
        anchors(situation, splits),
        loops=("r",) if looped else (),
        guards=shape.guards,
    )
