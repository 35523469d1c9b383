"""Rows that begin anywhere in memory, reduced in aligned vectors that the ends of a row cut (`frames.py`).

    rows      y[i, :]: i = R*b0 + ty,  j = TX*V*(c + C*r) + V*tx + v - (rest*i mod V)
"""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import HALF, frame
from polyfuse.strategies.held import comes_back
from polyfuse.strategies.in_thread import is_stored_along
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.row_shape import RowShape, Way, close_shapes, framed_shape, is_close
from polyfuse.strategies.situation import Situation, block_digits, loop, mixed, slot, thread

THREADS = 128
"""Of a block, where a row has fewer lanes."""
SHORT = 512
"""Rows up to which halves of vectors leave less padding, which costs more than they do: softmax of 268 MB of bfloat16
in rows of 351 takes 216 us on an H200 in vectors, 165 in halves; of 3001 141 and 157."""


def framed_rows(situation: Situation, inner: AxisClass, over: list[AxisClass]) -> list[Proposal | None]:
    """Rows that begin anywhere in memory, in aligned vectors, in a loop or held in registers.  Of other arrays along
    them, that begin elsewhere, vectors are made of two: by ptxas a warp issues 434 instructions for a layernorm of 3001
    bfloat16 with gain and bias so, 663 in single elements; weighted norms of 1555 take 287 and 418.
    """
    parallel = situation.nearest(a for a in situation.axes if a not in over)
    if len(over) > 1:
        return []
    short, stored = inner.size(situation.hints) <= SHORT, is_stored_along(situation, inner)
    once = not stored and not comes_back(situation, over)
    ways = (Way.USUAL, Way.FULL, Way.TIGHT, Way.STREAM if _in_rounds(situation) else Way.FEW)
    usual, close = list[tuple[RowShape, int]](), list[tuple[RowShape, int]]()
    for parts in (1, 2):
        framed = frame(situation, inner, block_digits(parallel, {})[1], parts, least=1 if once else HALF)
        if framed is not None:
            dealt = [framed_shape(situation, inner, framed, way) for way in ways] if short or parts == 1 else []
            usual += [(shape, parts) for shape in dealt]
            close += [(shape, parts) for shape in close_shapes(situation, inner, framed, once)]
    if short and not stored:
        usual = []  # their ends cost sums more than single elements do, but of few lanes: of rows of 85 169 us, and 87
    close = [(s, parts) for s, parts in close if s.lanes * s.width != THREADS]  # what begins where is the thread's row
    if close:
        size = situation.size(inner.extent)
        usual = [(s, parts) for s, parts in usual if s.trips != Affine.of(1) or is_close(s, size)]
    shapes = dict.fromkeys([*close, *usual])  # of equal prices the least padding
    return [_framed_rows(situation, inner, parallel, shape, parts) for shape, parts in shapes]


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
    situation: Situation, inner: AxisClass, parallel: list[AxisClass], shape: RowShape, parts: int
) -> Proposal | None:
    """In a block of `THREADS` at least, which rows of fewer lanes share."""
    looped, rows = shape.trips != Affine.of(1), max(1, THREADS // shape.lanes) if parallel else 1
    parallel = _dealt_first(situation, parallel, rows)
    tx, ty, c = thread("tx", 1, shape.lanes), thread("ty", shape.lanes, rows), slot("c", shape.chunks)
    v, r = slot("v", shape.width), loop("r", shape.trips)
    blocks, outer = block_digits(parallel, {a.number: rows for a in parallel[:1]}, ty)
    framed = frame(situation, inner, outer, parts, least=1)
    if framed is None:
        return None
    span = shape.lanes * shape.width
    place = mixed((r if looped else None, span * shape.chunks), (c, span), (tx, shape.width), (v, 1))
    splits = outer | {inner.number: place - framed.shift}
    return Proposal(
        "rows",
        (
            *(("threads", shape.lanes * rows), ("lanes", shape.lanes), ("chunks", shape.chunks)),
            *(("vector", shape.width), ("frames", 1)),
        ),
        kept_digits([*blocks, tx, ty, *([r] if looped else []), c, v], keep_threads=True),
        anchors(situation, splits),
        loops=("r",) if looped else (),
        guards=shape.guards,
    )


FEW_IDLE = 8
"""Of the rows that a class deals to the threads of blocks, one in so many may find nothing."""


def _dealt_first(situation: Situation, parallel: list[AxisClass], rows: int) -> list[AxisClass]:
    """The classes with the one that is dealt to threads in front: the nearest that leaves few of `rows` idle, else the
    longest.  Rows of a block then lie side by side: softmax of 4096 x 12 x 49 rows of 49 float16 takes an H100 333 us
    with rows 58 KB apart in a block, where its bytes take 156."""
    if rows == 1 or not parallel:
        return parallel

    def idle(axis: AxisClass) -> int:
        return -axis.size(situation.hints) % rows * FEW_IDLE

    near = next((a for a in parallel if idle(a) <= a.size(situation.hints)), None)
    first = near or max(parallel, key=lambda a: a.size(situation.hints))
    return [first, *[a for a in parallel if a is not first]]
