"""How a row is dealt to the lanes that reduce it: lanes, elements that each holds in registers, trips of a loop.

    j = TX*V*(c + C*r) + V*tx + v      tx: lanes, v: a vector, c: chunks in registers, r: trips where the row is long

Rows of similar length have one shape, and with it one kernel.  A scan goes through a row in order, so that its trips
lie outside of its lanes, and it has no chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.situation import Situation, power_above, power_below, row_width

ROWS_OF_VECTORS = ((256, 8), (1024, 32), (4096, 256), (16384, 512), (32768, 1024))
ROWS_OF_WORDS = ((64, 8), (512, 32))
"""(longest row, lanes that hold it in registers), at most 32 elements a lane.  Few, so that many shapes share few
kernels; longer rows loop, and the rows that are no whole vectors loop early: their second pass hits the first-level
cache."""
HELD_ROWS_OF_WORDS = ((1024, 32), (2048, 64), (4096, 128))
"""The same for longer ones, where every processor has rows: what a second pass reads again takes as many accesses as
the first.  On an H200: softmax of 65536 rows of 1003 float32 takes 304 us in a loop, 132 in 32 lanes; of 20001 rows of
4093 bfloat16 138 and 103 in 128 lanes."""
REGULAR = 128
"""Rows of a multiple of so many elements, as most are that a model has, have classes of their own, so that little of a
class is padding: half of it made dividing rows of 8192 by their sums take 504 us on an H200, where 270 were expected.
Other lengths, which are many, share kernels."""
CHUNKS = (1, 2, 3, 4, 6, 8, 12)
LOOPED = {True: (512, 16), False: (256, 8)}  # of vectors or of words: (lanes, elements a lane takes per trip)
HALF = 256
"""Lanes of a row up to which it may be dealt to twice as many: in 512 lanes a block has a processor to itself."""
HALVES = 128
"""Lanes of longer rows of 16-bit words, in blocks of their own: norms of 30000 rows of 5003 bfloat16 on an H200 take
97 us, in 256 lanes 123."""
STREAMED = {True: (256, 16), False: (256, 8)}
"""Where one pass is all: cross-entropy of 8192 x 32000 on an H200 takes 237 us in 256 lanes, 244 in 512, 364 in 1024.
"""
HELD = {True: 32, False: 16}
"""Words of a row that a lane holds at most in the second way that is proposed, in more than 256 lanes and in others:
fewer combine sooner, and more blocks share a processor.  On an H200: int8 quantisation of rows of 8192 takes 186 us in
512 lanes of 16, 158 in 256 of 32; softmax of 32768 rows of 2048 bfloat16 117 in 256 lanes of 8 elements, 100 in 64 of
32; of 16384 rows of 4096 float32 135 in 256 lanes of 16 and in 128 of 32."""
LOADED = 64
"""And words that it loads of all arrays: layernorm of rows of 4096 with gain and bias takes 143 us in 128 lanes of 32,
134 in 256 of 16."""
SCANNING = {False: 1024, True: 128}
"""Lanes that run through a long row, in the usual and in the second way: maxima so far of 4096 rows of 16384 on an H200
take 267 us in 1024 lanes, 97 in 128."""


class Way(Enum):
    """Of dealing a row to lanes."""

    USUAL = 0  # by the table of lengths
    FULL = 1  # to fewer lanes, as much to each as it can hold
    STREAM = 2  # in a loop, where one pass is all
    HALF = 3  # to twice the lanes of the table, where truths pick among the elements
    TIGHT = 4  # in registers with little padding, where the table loops or pads


@dataclass(frozen=True, slots=True)
class RowShape:
    """Lanes of `width` elements, `chunks` times in registers, `trips` times in a loop; `rows` in a block."""

    lanes: int
    rows: int
    chunks: int
    width: int
    trips: Affine
    guards: tuple[AnyGuard, ...]


def row_shape(situation: Situation, inner: AxisClass, has_rows: bool, way: Way) -> RowShape:
    """`has_rows`: whether there are several, which may share a block."""
    n, extent = inner.size(situation.hints), inner.extent
    if situation.target.kind == "cpu":
        width = situation.width(extent, flat=False)
        while width > 1 and width >= 2 * n:
            width //= 2
        return RowShape(1, 1, 1, width, (Affine.of(inner.run) if inner.run else extent).ceildiv(width), ())
    if not has_rows and is_ragged(situation, inner):
        return _scan_shape(situation, inner, situation.width(extent, flat=True), (), way)
    width = row_width(situation, extent)
    guards = situation.divisible(extent, width)
    if inner.scanned_by:
        return _scan_shape(situation, inner, width, guards, way)
    whole = width > 1 and width == situation.widest
    lanes, chunks, floor, capacity = _capacity(extent, n, width, whole)
    if whole and n <= capacity and n % REGULAR == 0 and not extent.is_constant:
        chunks, floor, capacity = _regular(n, lanes * width, floor, capacity)
        guards = (*guards, Guard(extent, REGULAR, advisory=True))
    many = HALVES if not whole and n > capacity and max(situation.long_itemsizes) <= 2 else 256
    lanes = many if many == HALVES else lanes
    if way is Way.FULL and n <= capacity:
        lanes, chunks = _fewer_lanes(situation, lanes, chunks, width)
    if way is Way.TIGHT and not whole and n > capacity and _fills(situation):
        many, (lanes, chunks, floor, capacity) = HALVES, _held_words(situation, n, lanes, chunks, floor, capacity)
    if way is Way.TIGHT and whole and n <= capacity and n % REGULAR == 0:
        many, (lanes, chunks, floor, capacity) = HALVES, _tight(situation, n, lanes, chunks, width, floor, capacity)
    if way is Way.HALF and n <= capacity and lanes <= HALF:
        lanes, chunks = 2 * lanes, -(-chunks // 2)
    if way is Way.STREAM:
        (lanes, elements), floor, capacity = STREAMED[whole], 0, 0
        chunks = max(1, elements // width)
    threads = power_below(situation.tiles.get("threads", max(many, lanes)))
    usual = lanes if has_rows else situation.tiles.get("threads", lanes)  # one row takes all threads of its block
    asked = min(threads, power_below(situation.tiles.get("lanes", usual)))
    if (asked, situation.tiles.get("chunks", chunks)) != (lanes, chunks):
        lanes, chunks = asked, situation.tiles.get("chunks") or min(8, max(1, -(-n // (asked * width))))
        floor, capacity = 0, lanes * chunks * width
    trips = Affine.of(1)
    if n > capacity:
        trips = extent.ceildiv(lanes * chunks * width)
        guards = (*guards, *_bucket(extent, capacity, None))
    else:
        guards = (*guards, *_bucket(extent, floor, capacity))
    rows = threads // lanes if has_rows else 1
    return RowShape(lanes, rows, chunks, width, trips, guards)


def _fills(situation: Situation) -> bool:
    """Whether there is a row for every processor."""
    rows = math.prod(a.size(situation.hints) for a in situation.axes if not a.reduced_by)
    return rows >= situation.target.processors


def _held_words(
    situation: Situation, n: int, lanes: int, chunks: int, floor: int, capacity: int
) -> tuple[int, int, int, int]:
    """(lanes, chunks, largest row of the class below, largest row of this class) for rows of words that `_capacity`
    loops over; what is given where they are too long to be held."""
    for longest, few in HELD_ROWS_OF_WORDS:
        if n <= longest:
            while longest // few * _loaded(situation) >= 4 * LOADED and few < LOOPED[False][0]:
                few *= 2
            return few, longest // few, floor, longest
        floor = longest
    return lanes, chunks, floor, capacity


def _tight(
    situation: Situation, n: int, lanes: int, chunks: int, width: int, floor: int, capacity: int
) -> tuple[int, int, int, int]:
    """As `_held_words`, for regular rows: the lanes with the least padding, the most where several have it.  On an
    H200, rows of 5120 bfloat16: softmax takes 101 us in 256 lanes of 32 elements, 86 in 128 of 40; int8 quantisation
    117 and 78."""
    row = max(situation.long_itemsizes)
    ways = [lanes >> k for k in range(lanes.bit_length()) if lanes >> k >= situation.target.warp]
    found = [(-(-n // (few * width)), few) for few in ways]
    held = [(c * few * width, -few, c) for c, few in found if c * width * row <= 5 * HELD[few > 256]]
    if not held:
        return lanes, chunks, floor, capacity
    most, few, chunks = min(held)
    return -few, chunks, max(floor, most + few * width), most


def _fewer_lanes(situation: Situation, lanes: int, chunks: int, width: int) -> tuple[int, int]:
    """(lanes, chunks) for the same row, as much in each lane as it can hold."""
    row, loaded = max(situation.long_itemsizes), _loaded(situation)
    while lanes > situation.target.warp:
        elements = 2 * chunks * width
        if elements * row > 4 * HELD[lanes > 256] or elements * loaded > 4 * LOADED:
            break
        lanes, chunks = lanes // 2, 2 * chunks
    return lanes, chunks


def _loaded(situation: Situation) -> int:
    """Bytes that a lane loads for an element of a row, of all arrays."""
    values = [v for v in situation.group.loads if situation.scop.shape(v)]
    return sum(d.itemsize for v in values for d in situation.scop.statements[v].dtypes)


def is_ragged(situation: Situation, row: AxisClass) -> bool:
    """Whether a lone row in runs is no whole number of vectors: its end is masked in the last block alone."""
    return row.run > 0 and situation.width(row.extent, flat=True) > row_width(situation, row.extent)


def _capacity(extent: Affine, n: int, width: int, whole: bool) -> tuple[int, int, int, int]:
    """(lanes, chunks, largest row of the class below, largest row of this class); `whole`: rows are whole vectors."""
    floor = 0
    for longest, lanes in ROWS_OF_VECTORS if whole else ROWS_OF_WORDS:
        if n <= longest:
            chunks = -(-n // (lanes * width)) if extent.is_constant else longest // (lanes * width)
            return lanes, max(1, chunks), floor, longest
        floor = longest
    lanes, elements = LOOPED[whole]
    return lanes, max(1, elements // width), floor, floor


def _regular(n: int, span: int, floor: int, capacity: int) -> tuple[int, int, int]:
    """(chunks, largest row of the class below, largest row of this class) for regular rows of a class, of which a chunk
    holds `span` elements."""
    steps = [c for c in CHUNKS if floor < c * span < capacity]
    bounds = [floor, *[c * span for c in steps], capacity]
    place = next(k for k, bound in enumerate(bounds) if n <= bound)
    return -(-bounds[place] // span), bounds[place - 1], bounds[place]


def _bucket(extent: Affine, above: int, up_to: int | None) -> tuple[AnyGuard, ...]:
    if extent.is_constant:
        return ()
    low = (Guard(extent - above - 1, advisory=True),) if above else ()
    return (*low, Guard(Affine.of(up_to) - extent)) if up_to is not None else low


def _scan_shape(
    situation: Situation, inner: AxisClass, width: int, guards: tuple[AnyGuard, ...], way: Way
) -> RowShape:
    extent = Affine.of(inner.run) if inner.run else inner.extent
    n = situation.size(extent)
    lanes = min(SCANNING[way is Way.FULL], max(32, power_above(-(-n // (4 * width)))))
    lanes = power_below(situation.tiles.get("lanes", situation.tiles.get("threads", lanes)))
    trips = extent.ceildiv(lanes * width)
    if lanes * width >= n:
        guards = (*guards, *_bucket(extent, 0, lanes * width))
        trips = Affine.of(1)
    return RowShape(lanes, 1, 1, width, trips, guards)
