"""Rows that begin anywhere in memory, scanned in aligned vectors that the ends of a row cut (`frames.py`).

    rows      y[i, :]: i = R*b0 + ty,  j = TX*V*r + V*tx + v - (rest*i mod V)

What a lane holds of a row, one vector, it writes at once.  A lane that has neighbours of a row and writes them one by
one touches every sector of it as often, and the last-level cache is what such prefixes wait for: by the counters of an
H200 it was busy for 92 to 94 % of prefixes of rows of 777 bfloat16 and of 1501 int64.  Of 250 MB in and out there: rows
of 777 bfloat16 195 us, 139 in frames, of 8191 180 and 137, of 50001 224 and 163; of 1501 int64 183 and 135; of 1023
bytes 1442 and 658; of 2001 float32 136 and 131.  Halves of vectors were never quicker; nor are rows of words that a
warp has whole, which write the parts of a sector one soon after the other: of 37 float32 146 us and 153, of 101 137 and
139, of 93 float64 131 and 138.
"""

from __future__ import annotations

from math import inf

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import VECTOR, WORD, Frame, frame
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.row_shape import framed_bucket
from polyfuse.strategies.situation import Situation, block_digits, loop, mixed, power_above, slot, thread

THREADS = 128
"""Of a block, where a row has fewer lanes."""
WHOLE = {False: 256, True: 512}
"""Lanes of a row that goes by at once, at most, and where it is reduced as well: of 2001 float32 prefixes take 144 us
in 512, 131 in trips of 128, and prefixes over their last 173 and 186."""
TRIPS = {128: inf, 32: 8, 256: inf}
"""Lanes of a row that goes by in trips, and how many of them at most.  Rows of 8191 float32 138, 151 and 137 us, of
2001 131, 149 and 133; of 1555 bfloat16, seven trips of a warp, 144, 142 and 149."""


def framed_scans(situation: Situation, inner: AxisClass) -> list[Proposal]:
    """Scanned rows in aligned vectors, at once or in trips.  None where whole vectors divide rows, of recurrences, and
    of runs that blocks share."""
    over = [a for a in situation.axes if a.scanned_by or a.reduced_by]
    parallel = situation.nearest(a for a in situation.axes if a not in over)
    if over != [inner] or inner.run or not parallel or not situation.has_much or any(s.lags for s in situation.scans):
        return []
    framed = _frame(situation, inner, block_digits(parallel, {})[1])
    if framed is None:
        return []
    vectors = -(-situation.size(framed.padded(inner.extent)) // framed.width)
    whole = power_above(vectors)
    if whole <= situation.target.warp and min(situation.long_itemsizes, default=WORD) >= WORD:
        return []
    most = WHOLE[bool(situation.reductions)]
    lanes = [few for few in TRIPS if few < whole <= few * TRIPS[few]]
    lanes.insert(1, whole)
    lanes.sort(key=lambda n: -(-vectors // n) * n)  # of equal prices the least padding
    found = [_rows(situation, inner, parallel, n) for n in lanes if n <= most]
    return [p for p in found if p is not None]


def _frame(situation: Situation, inner: AxisClass, splits: dict[int, Affine]) -> Frame | None:
    return frame(situation, inner, splits, enough=VECTOR, least=1, scans=True)


def _rows(situation: Situation, inner: AxisClass, parallel: list[AxisClass], lanes: int) -> Proposal | None:
    """In a block of `THREADS` at least, which rows of fewer lanes share."""
    rows = max(1, THREADS // lanes)
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, rows)
    blocks, outer = block_digits(parallel, {a.number: rows for a in parallel[:1]}, ty)
    framed = _frame(situation, inner, outer)
    if framed is None:
        return None
    span, places = lanes * framed.width, framed.padded(inner.extent)
    v, r = slot("v", framed.width), loop("r", places.ceildiv(span))
    size = situation.size(places)
    loops, lengths = [r], framed.guards
    if size <= span:
        loops, lengths = [], (*framed.guards, *framed_bucket(places, size, framed.width, span // 2, span))
    place = mixed((r if loops else None, span), (tx, framed.width), (v, 1))
    return Proposal(
        "rows",
        (("threads", lanes * rows), ("lanes", lanes), ("chunks", 1), ("vector", framed.width), ("frames", 1)),
        kept_digits([*blocks, tx, ty, *loops, v], keep_threads=True),
        anchors(situation, outer | {inner.number: place - framed.shift}),
        loops=tuple(d.name for d in loops),
        guards=lengths,
    )
