"""How a row is dealt to the lanes that reduce it: lanes, elements that each holds in registers, trips of a loop.

    j = TX*V*(c + C*r) + V*tx + v      tx: lanes, v: a vector, c: chunks in registers, r: trips where the row is long

Rows of similar length have one shape, and with it one kernel.  A scan goes through a row in order, so that its trips
lie outside of its lanes, and so do its chunks, where it has some in place of trips.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import Frame
from polyfuse.strategies.situation import Situation, power_above, power_below, row_width

ROWS_OF_VECTORS = ((256, 8), (1024, 32), (4096, 256), (16384, 512), (32768, 1024))
ROWS_OF_WORDS = ((64, 8), (512, 32))
"""(longest row, lanes that hold it in registers), at most 32 elements a lane.  Few, so that many shapes share few
kernels; longer rows loop, and the rows that are no whole vectors loop early: their second pass hits the first-level
cache."""
FULL_LANE, PADDED_LANE = 32, 28
"""Elements that a lane holds at most of rows that have a class of their own, as most have where there is much to do:
classes end at powers of two, at 3/4 of them, and from `FINE` elements at 5/8 and 7/8 as well.  32 elements are two
blocks of 512 threads.  On an H200, of 268 MB, in the next power of two or of eight and in these: softmax of rows of 10
float32 631 and 133 us, of 66 582 and 139, of 300 237 and 128, of 1100 281 and 128, of 2050 196 and 133, of 5004 264 and
128; of rows of 101 bfloat16 713 and 181; layernorm of 1100 273 and 145; sums of 1100 146 and 63."""
FINE = 1024
"""Softmax of rows of 2051 float32 takes 165 us where a third of the next class is padding.  Weighted norms of rows of
1555 bfloat16 take 116 us in 32 elements a lane, of which 24 or 25 are of the row, and 62 by their bytes: each costs 15
instructions."""
SHORT_LANE, PIECE = 8, 8
"""Elements that a lane holds where few lanes would hold a short row, and lanes side by side that read whole sectors."""
LONGEST = {True: 16384, False: 4096}
"""Of these rows, of whole vectors and of others: beyond it shared memory holds a part, or rows loop."""
REGULAR = 128
"""Rows of a multiple of so many elements, as most are that a model has, have classes of their own, so that little of a
class is padding: half of it made dividing rows of 8192 by their sums take 504 us on an H200, where 270 were expected.
Other lengths, which are many, share kernels: of the tables where there is little to do, else see `FULL_LANE`."""
CHUNKS = (1, 2, 3, 4, 6, 8, 12)
LOOPED = {True: (512, 16), False: (256, 8)}  # of vectors or of words: (lanes, elements a lane takes per trip)
HALF = 256
"""Lanes of a row up to which it may be dealt to twice as many: in 512 lanes a block has a processor to itself."""
HALVES = 128
"""Lanes of longer rows of 16-bit words, in blocks of their own: norms of 30000 rows of 5003 bfloat16 on an H200 take
97 us, in 256 lanes 123."""
STORING = 128
"""Threads of a block whose rows are written as well as read: while some combine, others load or store.  On an H200, in
blocks of 256 and of 128: softmax of 16384 x 4096 bfloat16 71.5 and 67.6 us, causal softmax of 98304 x 1024 106.6 and
102.8, 8-bit rows of 4096 bfloat16 69.7 and 67.6, layernorm of rows of 768 78.1 and 77.1, softmax of rows of 37 165 and
163.5; sums of rows of 1000 along which nothing is written 92 and 97."""
STREAMED = {True: (256, 16), False: (256, 8)}
"""Where one pass is all: cross-entropy of 8192 x 32000 on an H200 takes 237 us in 256 lanes, 244 in 512, 364 in 1024.
"""
FRAMED = (64, 16)
"""And of rows that begin anywhere, whose last trip may have a few elements: sums of 20001 rows of 8191 bfloat16 on an
H200 take 83 us, 94 in 256 lanes; of rows of 7001 68 and 72."""
IN_FLIGHT = 32
"""Bytes of such a row that a lane has on its way."""
HELD = {True: 32, False: 16}
"""Words of a row that a lane holds at most in the second way that is proposed, in more than 256 lanes and in others:
fewer combine sooner, and more blocks share a processor.  On an H200: int8 quantisation of rows of 8192 takes 186 us in
512 lanes of 16, 158 in 256 of 32; softmax of 32768 rows of 2048 bfloat16 117 in 256 lanes of 8 elements, 100 in 64 of
32; of 16384 rows of 4096 float32 135 in 256 lanes of 16 and in 128 of 32."""
LOADED = 64
"""And words that it loads of all arrays: layernorm of rows of 4096 with gain and bias takes 143 us in 128 lanes of 32,
134 in 256 of 16."""
LOADED_BY_MANY = 128
"""The same of rows in more than 256 lanes: layernorm of 8192 rows of 8192 takes 146 us in 512 lanes of 16, 131 in 256
of 32, where ptxas takes 80 registers: gain and bias are loaded behind the sums."""
SCANNING = {False: 256, True: 128}
"""Lanes that scan a row, in the usual and in the second way, in several trips where it is longer: maxima so far of 4096
rows of 16384 on an H200 take 267 us in 1024 lanes, 97 in 128.  On an H100, of 537 MB in all: prefixes of rows of 4096
float32 203 us in 1024, 198 in 512, 182 in 256, 185 in 128; of 2048 181 in 512, 179 in 256; of 4096 bfloat16 182 in 512,
185 in 256."""

SCANNED_WHOLE = 1024
"""And lanes that hold a row in one trip, where something sums over it as well: what comes behind needs it again."""

SCANNED_AT_ONCE = 256
"""Lanes that scan a row in one trip where there is little to do: each further one waits for their totals."""

PIECES = 4
"""Neighbours that a lane scans by itself, where rows are no whole vectors and there is much to do.  Of whole vectors it
has one access of the widest elements that are read or written: prefixes of rows of 1024 int64 take an H100 261 us in
pieces of two accesses, 199 in one; numbers so far of 1024 float32, which are int64, 268 and 137."""


ENOUGH_LANES, FEW_ROWS = 1024, 64
"""Threads of a processor that hold rows, up to which more lanes of each are proposed, and rows up to which that is.
Softmax less a target of 500 rows of 1000 float32 takes an H100 7.2 us in 32 lanes, 4.7 in 64, 4.5 in 256; means over
deviations of 500 rows of 2000 7.3 in 64, 4.3 in 128, 4.2 in 256; 3333 rows of 300 6.8 in 16, 5.4 in 32."""


class Way(Enum):
    """Of dealing a row to lanes."""

    USUAL = 0  # by the table of lengths
    FULL = 1  # to fewer lanes, as much to each as it can hold
    STREAM = 2  # in a loop, where one pass is all
    HALF = 3  # to twice the lanes of the table, where truths pick among the elements
    TIGHT = 4  # in registers with little padding, where the table loops or pads
    FEW = 5  # in a loop of few lanes, where one pass is all and rows are framed
    DOUBLE = 6  # to twice the lanes, where rows are few
    SPREAD = 7  # to as many as leave each an access, or fill the device
    SPARSE = 8  # to half of the lanes, where these meet for several sums
    SPARSER = 9  # to a quarter of them


def sparse_ways(situation: Situation) -> tuple[Way, ...]:
    """Of dealing rows that are reduced several times to fewer lanes: these then meet less."""
    several = len(situation.reductions) >= SEVERAL and len(situation.group.body) <= MOST_STATEMENTS
    return (Way.SPARSE, Way.SPARSER) if several and situation.has_much else ()


@dataclass(frozen=True, slots=True)
class RowShape:
    """Lanes of `width` elements, `chunks` times in registers, `trips` times in a loop; `rows` in a block."""

    lanes: int
    rows: int
    chunks: int
    width: int
    trips: Affine
    guards: tuple[AnyGuard, ...]


@dataclass(frozen=True, slots=True)
class _Row:
    """The row that is dealt: about `n` elements, in accesses of `width`; `whole`: of whole vectors, not of words;
    `masked`: but the last one."""

    situation: Situation
    inner: AxisClass
    extent: Affine
    n: int
    width: int
    whole: bool
    framed: bool = False
    masked: bool = False

    @property
    def is_regular(self) -> bool:
        return self.framed or self.whole and self.n % REGULAR == 0 and not self.extent.is_constant

    @property
    def itemsize(self) -> int:
        return max(self.situation.long_itemsizes)

    def loaded(self) -> int:
        """Bytes that a lane loads for an element, of all arrays that are read along rows."""
        scop, values = self.situation.scop, set[int]()
        for statement in self.situation.group.statements():
            axes = self.situation.classes.statement(statement)
            along = {f"%{d}" for d, axis in enumerate(axes) if axis is self.inner}
            entries = [(r.source, e) for r in statement.reads for e in r.index if isinstance(e, Affine)]
            values |= {source for source, e in entries if along & e.names()}
        return sum(d.itemsize for v in values & self.situation.group.loads for d in scop.statements[v].dtypes)

    def is_written(self) -> bool:
        """Whether something is stored along rows, not only one result of each."""
        group, of = self.situation.group, self.situation.classes.statement
        return any(self.inner in of(s) for s in group.statements() if s.id in group.roots and not s.reduced)

    def chunks(self, lanes: int, longest: int) -> int:
        """In which `lanes` hold rows up to `longest`; this very row, where its length is known."""
        return max(1, -(-(self.n if self.extent.is_constant else longest) // (lanes * self.width)))


@dataclass(frozen=True, slots=True)
class _Class:
    """How rows of more than `above` elements are dealt: `lanes` hold up to `longest`, in `chunks` each; beyond it they
    loop over so many.  `threads`: of a block at least."""

    lanes: int
    chunks: int
    above: int
    longest: int
    threads: int = 256


def framed_shape(situation: Situation, inner: AxisClass, frame: Frame, way: Way) -> RowShape:
    """As `row_shape`, of rows in frames, each with a block of its own."""
    extent = frame.padded(inner.extent)
    row = _Row(situation, inner, extent, situation.size(extent), frame.width, True, True)
    dealt = _dealt(row, way)
    threads = power_below(situation.tiles.get("threads", dealt.lanes))
    return _bounded(row, _as_asked(row, dealt, threads, False), frame.guards)


CLOSE, MOST_PADDED = 3, 1.25
"""Ways to hold rows in frames with little padding, and times their length that lanes hold at most.  On an H200, of 268
MB of bfloat16: rows of 3001 over their norm take 127 us in three vectors a lane, 142 in four; softmax of 1555 148 in
seven half vectors, 158 in four; of 85 157 in three half vectors, 179 in two."""
FULLEST = {True: 32, False: 56}
"""Elements of such a row in a lane, of fewer than `HALVES` and of so many: blocks of few warps have little to do while
one waits.  Softmax of rows of 1555 bfloat16 on an H200 takes 171 us in 32 lanes of 56 elements, 148 in 64 of 28; rows
of 6323 over their norm 133 in 128 lanes of 56, 151 in 256 of 28."""


AT_ONCE = 72
"""Elements in a lane of a row that is reduced as it lies in memory: by ptxas the largest of nine vectors of bytes takes
46 registers, the sum of nine of halves 73.  Few lanes meet seldom: of rows of 257 bfloat16 a warp issues 95 times for
the place of the largest in 4 lanes, 145 in 16, 186 in single elements; of rows of 131 bytes 19 for the largest in two,
60 in single ones."""


def is_close(shape: RowShape, size: int) -> bool:
    """Whether little of a shape that holds rows of `size` elements is padding."""
    return shape.lanes * shape.chunks * shape.width <= MOST_PADDED * (size + shape.width - 1)


def close_shapes(situation: Situation, inner: AxisClass, frame: Frame, once: bool) -> list[RowShape]:
    """Rows in frames, held in so many lanes that few have padding alone: those with the least first.  `once`: nothing
    needs an element again that was reduced."""
    extent = frame.padded(inner.extent)
    row = _Row(situation, inner, extent, situation.size(extent), frame.width, True, True)
    found: list[tuple[int, int, int]] = []
    for lanes in (1 << k for k in range(0 if once else 3, 10)):
        chunks = -(-row.n // (lanes * row.width))
        held = lanes * chunks * row.width
        most = AT_ONCE if once else FULLEST[lanes < HALVES or row.width < situation.widest]
        if chunks * row.width <= most and held <= MOST_PADDED * row.n:
            found.append((held, lanes, chunks))
    if situation.tiles or not situation.is_busy:
        return []
    found = sorted(found) if once else sorted(found)[:CLOSE]
    classes = [_Class(lanes, chunks, held - lanes * row.width, held) for held, lanes, chunks in found]
    return [_bounded(row, dealt, frame.guards) for dealt in classes]


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
        return _scan_shape(situation, inner, width, guards, way, has_rows)
    row = _Row(situation, inner, extent, n, width, width > 1 and width == situation.widest)
    dealt = _dealt(row, way)
    if row.is_regular and n <= _usual(row).longest:
        guards = (*guards, Guard(extent, REGULAR, advisory=True))
    usual = min(dealt.threads, STORING) if row.is_written() else dealt.threads
    threads = power_below(situation.tiles.get("threads", max(usual, dealt.lanes)))
    dealt = _as_asked(row, dealt, threads, has_rows)
    return _bounded(row, dealt, guards, threads // dealt.lanes if has_rows else 1)


def masked_shape(situation: Situation, inner: AxisClass, width: int, has_rows: bool, way: Way) -> RowShape:
    """As `row_shape`, of rows whose last vector is masked."""
    row = _Row(situation, inner, inner.extent, inner.size(situation.hints), width, True, masked=True)
    dealt = _dealt(row, way)
    threads = power_below(situation.tiles.get("threads", max(dealt.threads, dealt.lanes)))
    dealt = _as_asked(row, dealt, threads, has_rows)
    return _bounded(row, dealt, (), threads // dealt.lanes if has_rows else 1)


def _bounded(row: _Row, dealt: _Class, guards: tuple[AnyGuard, ...], rows: int = 1) -> RowShape:
    """The shape of rows that are dealt so, with the lengths that it is for."""
    trips = Affine.of(1)
    if row.n > dealt.longest:
        span = dealt.lanes * dealt.chunks * row.width
        trips = row.extent.ceildiv(span)
        guards = (*guards, *bucket(row.extent, dealt.longest, None))
        if row.framed and row.n > 2 * span and not row.extent.is_constant:
            guards = (*guards, Guard(row.inner.extent - span))  # trips have whole pieces of a row then
    else:
        if row.framed:
            lengths = framed_bucket(row.extent, row.n, row.width, dealt.above, dealt.longest)
        else:
            lengths = bucket(row.extent, dealt.above, dealt.longest)
        guards = (*guards, *lengths)
    return RowShape(dealt.lanes, rows, dealt.chunks, row.width, trips, guards)


def _as_asked(row: _Row, dealt: _Class, threads: int, has_rows: bool) -> _Class:
    """`dealt`, or what the user asked for."""
    asked = row.situation.tiles
    usual = dealt.lanes if has_rows else asked.get("threads", dealt.lanes)  # one row takes all threads of its block
    lanes = min(threads, power_below(asked.get("lanes", usual)))
    if (lanes, asked.get("chunks", dealt.chunks)) == (dealt.lanes, dealt.chunks):
        return dealt
    chunks = asked.get("chunks") or min(8, max(1, -(-row.n // (lanes * row.width))))
    return _Class(lanes, chunks, 0, lanes * chunks * row.width)


def _dealt(row: _Row, way: Way) -> _Class:
    is_exact = row.is_regular or row.whole and row.extent.is_constant
    usual = _padded(row) if not is_exact and _has_own_class(row) else _usual(row)
    held = row.n <= usual.longest
    match way:
        case Way.FULL if held:
            return _fewer_lanes(row, usual)
        case Way.TIGHT if held and is_exact:
            return _tight(row, usual)
        case Way.HALF if held and usual.lanes <= HALF:
            return replace(usual, lanes=2 * usual.lanes, chunks=-(-usual.chunks // 2))
        case Way.DOUBLE | Way.SPREAD if held:
            return _more_lanes(row, usual, 2 if way is Way.DOUBLE else row.n)
        case Way.SPARSE | Way.SPARSER if held:
            return _few_lanes(row, usual, 2 if way is Way.SPARSE else 4)
        case Way.STREAM:
            return _looped(row, *STREAMED[row.whole])
        case Way.FEW:
            return _looped(row, FRAMED[0], max(FRAMED[1], IN_FLIGHT // row.itemsize))
        case _:
            return usual


def _usual(row: _Row) -> _Class:
    """By the tables of lengths."""
    above = 0
    for longest, lanes in ROWS_OF_VECTORS if row.whole else ROWS_OF_WORDS:
        if row.n <= longest:
            found = _Class(lanes, row.chunks(lanes, longest), above, longest)
            return _regular(row, found) if row.is_regular else found
        above = longest
    return replace(_looped(row, *LOOPED[row.whole]), longest=above)


def _looped(row: _Row, lanes: int, elements: int) -> _Class:
    if not row.whole and row.itemsize <= 2:
        return _Class(HALVES, max(1, elements // row.width), 0, 0, HALVES)
    return _Class(lanes, max(1, elements // row.width), 0, 0)


def _regular(row: _Row, usual: _Class) -> _Class:
    """A class of its own for regular rows, in as few chunks as hold them."""
    span = usual.lanes * row.width
    bounds = [usual.above, *[c * span for c in CHUNKS if usual.above < c * span < usual.longest], usual.longest]
    place = next(k for k, bound in enumerate(bounds) if row.n <= bound)
    return replace(usual, chunks=-(-bounds[place] // span), above=bounds[place - 1], longest=bounds[place])


def _fewer_lanes(row: _Row, usual: _Class) -> _Class:
    """The same rows, as much in each lane as it can hold."""
    lanes, chunks, loaded = usual.lanes, usual.chunks, row.loaded()
    while lanes > row.situation.target.warp:
        elements = 2 * chunks * row.width
        most = LOADED_BY_MANY if lanes > 256 else LOADED
        if elements * row.itemsize > 4 * HELD[lanes > 256] or elements * loaded > 4 * most:
            break
        lanes, chunks = lanes // 2, 2 * chunks
    return replace(usual, lanes=lanes, chunks=chunks)


MOST_STATEMENTS = 48  # of a kernel, all of which each way places
SEVERAL, MOST_HELD, MOST_WINDOWS = 3, 64, 32
"""Sums of a row from which on fewer lanes are proposed, and elements that one of these holds at most, of whole vectors
and of windows.  On an H200, of rows of 4096 float32 in 256 lanes and in fewer: mean, deviation and extremes 82.7 us and
76.9 in 64, shares above five thresholds 98.6 and 85.3; products with 8 neighbours 138 and 105 in 128, with windows of
16 vectors in a lane, 192 registers, 207 and 235.  Of rows of 4001, in single elements, four moments take 142 us in 128
lanes, 172 in 64."""


def _few_lanes(row: _Row, usual: _Class, times: int) -> _Class:
    """The same rows in so many times fewer lanes, of a warp at least."""
    lanes = usual.lanes // times
    chunks = row.chunks(lanes, usual.longest) if lanes >= row.situation.target.warp and row.whole else 0
    most = MOST_WINDOWS if row.masked else MOST_HELD
    return replace(usual, lanes=lanes, chunks=chunks, threads=HALVES) if 0 < chunks * row.width <= most else usual


def _more_lanes(row: _Row, usual: _Class, times: int) -> _Class:
    """The same rows, dealt to up to so many times the lanes as long as all of them together leave processors idle."""
    rows, target = row.situation.rows, row.situation.target
    if rows > FEW_ROWS * target.processors or 2 * row.n * rows * row.itemsize < target.busy_bytes:
        return usual  # not few; or all that they take is a launch, and many shapes share their classes
    lanes, chunks = usual.lanes, usual.chunks
    most = min(ENOUGH_LANES * target.processors // max(1, rows), times * lanes, LOOPED[True][0])
    while chunks > 1 and 2 * lanes <= most:
        lanes, chunks = 2 * lanes, -(-chunks // 2)
    return usual if lanes == usual.lanes else replace(usual, lanes=lanes, chunks=chunks, threads=HALVES)


def _tight(row: _Row, usual: _Class) -> _Class:
    """The lanes with the least padding for rows of about this length, the most where several have it.  On an H200, rows
    of 5120 bfloat16: softmax takes 101 us in 256 lanes of 32 elements, 86 in 128 of 40; int8 quantisation 117 and 78.
    """
    found: list[tuple[int, int, int]] = []
    for few in (usual.lanes >> k for k in range(usual.lanes.bit_length())):
        most = -(-row.n // (few * row.width))
        if few >= row.situation.target.warp and most * row.width * row.itemsize <= 5 * HELD[few > 256]:
            found.append((few * most * row.width, -few, most))
    if not found:
        return usual
    longest, lanes, chunks = min(found)[0], -min(found)[1], min(found)[2]
    return _Class(lanes, chunks, max(usual.above, longest - lanes * row.width), longest, HALVES)


def _has_own_class(row: _Row) -> bool:
    """Whether it pays, as it does where rows would loop: what a second pass reads again takes as many accesses as the
    first."""
    is_long = not row.whole and row.n > ROWS_OF_WORDS[-1][0]
    return row.n <= LONGEST[row.whole] and (row.situation.is_busy or is_long and row.situation.fills)


def _padded(row: _Row) -> _Class:
    """The least class that holds a row."""
    ends = list(_ends(row.width, -(-row.n // row.width)))
    units, below = ends[-1], ends[-2] if len(ends) > 1 else 0
    longest, is_power = units * row.width, units & (units - 1) == 0
    lanes = max(power_above(-(-longest // (FULL_LANE if is_power else PADDED_LANE))), PIECE)
    if not row.whole:  # lanes that follow each other read a line
        each = max(1, SHORT_LANE * row.itemsize // 4) if row.width == 1 else SHORT_LANE
        lanes = max(lanes, min(row.situation.target.warp, power_below(longest // each)))
    while longest // lanes * row.loaded() >= 4 * LOADED and lanes < LOOPED[False][0]:
        lanes *= 2
    lanes = min(lanes, units & -units)
    threads = 256 if longest <= FULL_LANE // 2 * lanes else HALVES
    return _Class(lanes, row.chunks(lanes, longest), below * row.width, longest, threads)


def _ends(width: int, units: int) -> Iterator[int]:
    """Vectors of `width` elements that the longest row of a class has, up to the first class that holds `units`."""
    power = 1
    while True:
        for parts in (5, 6, 7, 8) if power * width >= 2 * FINE else (6, 8):
            end = power * parts // 8
            if end * 8 == power * parts:
                yield end
                if end >= units:
                    return
        power *= 2


def is_ragged(situation: Situation, row: AxisClass) -> bool:
    """Whether a lone row in runs is no whole number of vectors: its end is masked in the last block alone."""
    return row.run > 0 and situation.width(row.extent, flat=True) > row_width(situation, row.extent)


def bucket(extent: Affine, above: int, up_to: int | None) -> tuple[AnyGuard, ...]:
    if extent.is_constant:
        return ()
    low = (Guard(extent - above - 1, advisory=True),) if above else ()
    return (*low, Guard(Affine.of(up_to) - extent)) if up_to is not None else low


def framed_bucket(places: Affine, size: int, width: int, above: int, up_to: int) -> tuple[AnyGuard, ...]:
    """Guards of rows in frames of `width` that have more than `above` places, `size` of them here, and `up_to` at most.

    Binding from below: of rows that are long enough only the first vectors of lanes and the last ones are masked, also
    where vectors of other arrays end by one further.  Those that end between are few, and a class of their own."""
    if places.is_constant:
        return ()
    most, enough = Guard(Affine.of(up_to) - places), places - (above + 2 * width - 1)
    if size >= above + 2 * width - 1:
        return Guard(enough), most
    low = (Guard(places - above - 1),) if above else ()
    return (*low, Guard(-enough - 1), most)


def _scan_shape(
    situation: Situation, inner: AxisClass, width: int, guards: tuple[AnyGuard, ...], way: Way, has_rows: bool = False
) -> RowShape:
    """In the order of the row, so that a lane has one piece of it, and several rows share a block where lanes of one
    would be idle."""
    extent = Affine.of(inner.run) if inner.run else inner.extent
    n, asked = situation.size(extent), situation.tiles
    piece, most = scanned_piece(situation, width), SCANNING[way is Way.FULL]
    if inner.reduced_by and way is not Way.FULL:
        most = SCANNED_WHOLE
    if situation.is_busy:
        lanes = min(most, power_above(-(-n // piece)))
    else:
        at_once = min(SCANNED_AT_ONCE, power_above(-(-n // width)))
        lanes = min(most, max(32, at_once, power_above(-(-n // (4 * width)))))
    lanes = power_below(asked.get("lanes", lanes if has_rows else asked.get("threads", lanes)))
    if way is Way.TIGHT and has_rows and not asked:
        lanes = _tight_lanes(situation, n, lanes, piece)
    trips = extent.ceildiv(lanes * piece)
    rows = 1
    if lanes * piece < n and lanes <= situation.target.warp and has_rows and situation.is_busy:
        rows = HALVES // lanes
    if lanes * piece >= n:
        guards = (*guards, *bucket(extent, lanes * piece // 2 if situation.is_busy else 0, lanes * piece))
        trips = Affine.of(1)
        rows = max(1, power_below(asked.get("threads", HALVES)) // lanes) if has_rows and situation.is_busy else 1
    return RowShape(lanes, rows, 1, piece, trips, guards)


HELD_SCANS, MOST_SCANNED = (128, 64, 256, 32), 32
"""Lanes that hold a scanned row in several pieces, all of which they load at once; and elements of a lane at most.  On
an H200, in trips or in one piece, and so: the deepest fall of 1000 float32 in each of 65536 rows 106 us and 63,
prefixes of 4096 over their sums 338 in 1024 lanes, 157 in trips, 128, cumulative softmax of 1000 168 and 126, of 300
bfloat16 over their sums 225 and 114, averages by exponential weights of 2000 158 and 137, rays of 192 points 212 and
183."""


def held_scans(situation: Situation, inner: AxisClass) -> list[RowShape]:
    """Scanned rows that lanes hold in several pieces, one behind the other."""
    n, width = situation.size(inner.extent), row_width(situation, inner.extent)
    piece, found = scanned_piece(situation, width), list[RowShape]()
    for lanes in HELD_SCANS:
        chunks = -(-n // (lanes * piece))
        longest = lanes * chunks * piece
        if chunks > 1 and chunks * piece <= MOST_SCANNED:
            lengths = bucket(inner.extent, longest - lanes * piece, longest)
            guards = (*situation.divisible(inner.extent, width), *lengths)
            found.append(RowShape(lanes, max(1, HALVES // lanes), chunks, piece, Affine.of(1), guards))
    return found


IN_WARPS = 3
"""Trips of a warp through a row, up to which it has a row by itself where more lanes would be idle; two have it then.
On an H100, of 400 MB in all, in lanes of a row: prefixes of rows of 298 bfloat16 155 us in 32, 206 in 64 and in 128; of
140 167 and 214; of 569 float32 151 in 32, 137 in 64, 146 in 128; of 479 float16 158, 152 and 168."""


def _tight_lanes(situation: Situation, n: int, lanes: int, piece: int) -> int:
    """Lanes that go through a row of `n` elements in a few trips, where less of it is padding than with `lanes`."""
    warp = situation.target.warp
    few = warp if -(-n // (warp * piece)) <= IN_WARPS else 2 * warp
    padded, usual = (-(-n // (each * piece)) * each * piece for each in (few, min(lanes, SCANNING[True])))
    less = padded < usual or few == warp and n < padded == usual  # a warp waits for no other
    return few if situation.is_busy and few < lanes and less else lanes


def scanned_piece(situation: Situation, width: int) -> int:
    """Neighbours of a scanned row that a lane holds, in accesses of `width`: lanes meet once for all of them."""
    if not situation.is_busy or "vector" in situation.tiles:
        return width
    if width == 1:
        return PIECES
    return min(max(width, PIECES), max(1, situation.target.vector_bytes // max(situation.long_itemsizes)))
