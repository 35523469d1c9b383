"""Groups with reductions or scans: rows (the unit-stride class is reduced) and columns (it is kept).

    rows      y[i, :]: i = rows*b0 + ty,  j = TX*V*c + V*tx + v      c in registers, or a loop when the row is long
    columns   s[j]:    j = b0*TX*V + V*tx + v,  i = ty + TY*(u + U*r)   r a loop

Classes that nothing reduces become blocks.  Further reduced classes become loops.  Several reductions, their prologues
and epilogues share the same digits; which pass of a loop a statement runs in is derived.  Where that leaves a device
idle, a long reduced class is dealt to blocks too, `share` elements to each (``j = share*b1 + ...``, r a loop inside
the share), and the last block of a result to arrive adds up the shares.
"""

from __future__ import annotations

import math
from enum import Enum

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.places.proposal import Combination, Proposal
from polyfuse.scalars import CASCADES
from polyfuse.schedule import Digit
from polyfuse.strategies.atomics import ATOMIC
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.held import comes_back
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.situation import (
    Situation,
    block,
    block_digits,
    loop,
    mixed,
    power_above,
    power_below,
    row_width,
    slot,
    thread,
)

ROWS_OF_VECTORS = ((256, 8), (1024, 32), (4096, 256), (16384, 512), (32768, 1024))
ROWS_OF_WORDS = ((64, 8), (512, 32))
"""(longest row, lanes that hold it in registers), at most 32 elements a lane.  Few, so that many shapes share few
kernels; longer rows loop, and the rows that are no whole vectors loop early: their second pass hits the first-level
cache."""
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
COLUMN_SHAPES = ((32, 256), (8, 512), (8, 1024), (2, 1024))
"""(lanes of whole vectors along the kept class, threads): fewer leave more threads for rows where columns are few."""
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
WAVES = (32, 4, 1)
"""Blocks per multiprocessor where a reduced class is dealt to blocks: few leave few shares, many hide more latency (the
mean of squared differences of 2 GB on an H200: 471 us against 495).  Those that all run at once walk through memory at
distances that stay, which suits some cards and sizes more than others: 465 to 520 us; of many, those that run read what
is close together: 465 us."""


class _Way(Enum):
    """Of dealing a row to lanes."""

    USUAL = 0  # by the table of lengths
    FULL = 1  # to fewer lanes, as much to each as it can hold
    STREAM = 2  # in a loop, where one pass is all
    HALF = 3  # to twice the lanes of the table, where truths pick among the elements


def reduction(situation: Situation) -> list[Proposal]:
    """Proposals for a group with reductions or scans."""
    if not situation.reductions and not situation.scans:
        return []
    inner = situation.inner
    if inner is None:
        return []
    over = [a for a in situation.axes if a.reduced_by or a.scanned_by]
    found: list[Proposal | None] = []
    if inner not in over:
        shapes = ((1, 1),) if situation.target.kind == "cpu" else COLUMN_SHAPES
        found = [_columns(situation, inner, over, lanes, threads) for lanes, threads in shapes]
    if inner in over or situation.target.kind != "cpu":
        ways = [_rows(situation, inner if inner in over else over[-1], over, way) for way in (_Way.USUAL, _Way.FULL)]
        ways += [_rows(situation, inner, over, _Way.HALF)] if any(s.picks for s in situation.group.statements()) else []
        ways += [_rows(situation, inner, over, _Way.STREAM)] if _may_stream(situation, ways[0], over) else []
        found += list({rows.parameters: rows for rows in ways}.values())
    if situation.target.kind != "cpu" and not situation.scans:
        found += _shared(situation, inner, over)
    return [p for p in found if p is not None]


def _may_stream(situation: Situation, rows: Proposal, over: list[AxisClass]) -> bool:
    """Whether rows that are needed once, and are held whole otherwise, can go by in a loop: blocks of few threads share
    a processor and combine while others load."""
    if situation.target.kind == "cpu" or situation.scans or rows.loops:
        return False
    return dict(rows.parameters)["lanes"] >= STREAMED[True][0] and not comes_back(situation, over)


def _shared(situation: Situation, inner: AxisClass, over: list[AxisClass]) -> list[Proposal | None]:
    """Proposals that deal the longest reduced class to blocks; none where the user names tiles, but neither a share nor
    how shares meet."""
    if situation.tiles and not {"share", ATOMIC} & situation.tiles.keys():
        return []
    long = max(over, key=lambda a: (a.size(situation.hints), -a.number))
    found: list[Proposal | None] = []
    for waves in WAVES:
        if inner in over:
            found.append(_shared_rows(situation, inner, over, long, waves))
        else:
            shapes = COLUMN_SHAPES
            found += [_columns(situation, inner, over, lanes, threads, waves) for lanes, threads in shapes]
    return found


def share_of(
    situation: Situation, axis: AxisClass, blocks: list[Digit], step: int, waves: int
) -> tuple[Digit, int] | None:
    """A block digit for `axis` and how many steps of `step` elements make one block's share, so that all blocks fill
    the device `waves` times.  None where there would be one share."""
    size, others = axis.size(situation.hints), 1
    for b in blocks:
        others *= situation.size(b.extent)
    wanted = max(1, waves * situation.target.processors // max(1, others))
    if "share" in situation.tiles:
        steps = max(1, situation.tiles["share"] // step)
    else:
        steps = -(-size // (step * wanted))
        steps = _whole(size, step, steps) if waves == WAVES[0] else steps
    if size <= steps * step:
        return None
    return block(f"b{len(blocks)}", axis.extent.ceildiv(steps * step)), steps


def _whole(size: int, step: int, steps: int) -> int:
    """`steps`, or up to half fewer, so that shares divide the whole and nothing of them is masked, where some do."""
    found = (n for n in range(steps, steps // 2, -1) if size % (n * step) == 0)
    return next(found, steps)


def combination(shares: Digit, threads: Digit | None, situation: Situation, most: int = 8) -> Combination:
    """A thread of the last block reads several shares at once, up to `most`, so that their latencies overlap; a core
    has a whole strip of each on its way."""
    if situation.target.kind == "cpu":
        return Combination((), 1)
    dealt, count = ((threads.name,), threads.count) if threads is not None and threads.count > 1 else ((), 1)
    return Combination(dealt, min(8, power_below(most), power_above(-(-situation.size(shares.extent) // count))))


SHARES = 32
"""Words of shares that a thread of the last block reads at once: with more the compiler takes more registers for them
than for all that it does before, and fewer blocks run at once (variances of 1024 columns of 200000: 144 registers for
96 words, room for one of four blocks)."""


def words_of(situation: Situation, width: int) -> int:
    """32-bit registers of one share of `width` results."""
    states = [sum(max(1, d.compute.itemsize // 4) for d in s.dtypes) for s in situation.reductions]
    return width * max(states, default=1)


def _shared_rows(
    situation: Situation, inner: AxisClass, over: list[AxisClass], long: AxisClass, waves: int
) -> Proposal | None:
    """Rows, the longest reduced class (perhaps the row itself) dealt to blocks."""
    parallel = situation.nearest(a for a in situation.axes if a not in over)
    width = situation.width(inner.extent, flat=False)
    lanes, most = _lanes_of(situation, inner, width)
    tx, c, v = thread("tx", 1, lanes), slot("c", most), slot("v", width)
    digits, splits = block_digits(parallel, {})
    span = lanes * width * c.count
    found = share_of(situation, long, digits, span if long is inner else 1, waves)
    if found is None:
        return None
    b, steps = found
    rest = [a for a in over if a is not long and a is not inner]
    loops, loop_splits = _outer_loops(rest, digits)
    r = loop("r", Affine.of(steps) if long is inner else inner.extent.ceildiv(span))
    if long is not inner:
        k = loop(f"k{len(rest)}", Affine.of(steps))
        loops.append(k)
        splits[long.number] = mixed((b, steps), (k, 1))
    outer = b if long is inner else None
    splits[inner.number] = mixed((outer, span * steps), (r, span), (c, lanes * width), (tx, width), (v, 1))
    splits |= loop_splits
    kept = kept_digits([*digits, b, tx, *loops, r, c, v], keep_threads=True)
    return Proposal(
        "rows",
        (
            *(("threads", lanes), ("lanes", lanes), ("chunks", c.count)),
            *(("vector", width), ("share", steps * (span if long is inner else 1))),
        ),
        kept,
        anchors(situation, splits),
        loops=tuple(d.name for d in [*loops, r] if d in kept),
        guards=situation.divisible(inner.extent, width),
        combines={b.name: combination(b, tx, situation)},
    )


def _lanes_of(situation: Situation, inner: AxisClass, width: int) -> tuple[int, int]:
    """(threads along a row, vectors that each holds of it at once) where a block works through many."""
    n = inner.size(situation.hints)
    lanes = power_below(situation.tiles.get("lanes", situation.tiles.get("threads", min(256, _warps(n, width)))))
    chunks = situation.tiles.get("chunks") or min(4, power_above(-(-n // (lanes * width))))
    return lanes, chunks


def _warps(n: int, width: int) -> int:
    """Threads, in whole warps, that a row keeps busy."""
    return max(32, power_above(-(-n // width)))


def _outer_loops(axes: list[AxisClass], blocks: list[Digit]) -> tuple[list[Digit], dict[int, Affine]]:
    """A loop per class; for one that is scanned in runs, in a run of the block's own, whose digit joins `blocks`."""
    digits, splits = list[Digit](), dict[int, Affine]()
    for n, axis in enumerate(axes):
        run = run_block(axis, blocks)
        digits.append(loop(f"k{n}", Affine.of(axis.run) if run is not None else axis.extent))
        splits[axis.number] = mixed((run, axis.run), (digits[-1], 1))
    return digits, splits


def run_block(axis: AxisClass, blocks: list[Digit]) -> Digit | None:
    """The block digit that deals the runs of a scan, added to `blocks`; None where the scan goes along the whole."""
    if not axis.run:
        return None
    blocks.append(block(f"b{len(blocks)}", axis.extent.ceildiv(axis.run)))
    return blocks[-1]


def _rows(situation: Situation, inner: AxisClass, over: list[AxisClass], way: _Way) -> Proposal:
    parallel = situation.nearest(a for a in situation.axes if a not in over)
    shape = _row_shape(situation, inner, bool(parallel), way)
    if shape.rows > 1:
        parallel.sort(key=lambda a: (-a.size(situation.hints), a.number))  # the first is dealt to threads too
    tx, ty = thread("tx", 1, shape.lanes), thread("ty", shape.lanes, shape.rows)
    c, v, r = slot("c", shape.chunks), slot("v", shape.width), loop("r", shape.trips)
    looped = shape.trips != Affine.of(1)
    digits, splits = block_digits(parallel, {a.number: shape.rows for a in parallel[:1]}, ty)
    loops, loop_splits = _outer_loops([a for a in over if a is not inner], digits)
    span = shape.lanes * shape.width
    if inner.scanned_by:  # prefix order: loop, thread, slot
        run = run_block(inner, digits)
        splits[inner.number] = mixed((run, inner.run), (r if looped else None, span), (tx, shape.width), (v, 1))
    else:
        splits[inner.number] = mixed((r if looped else None, span * shape.chunks), (c, span), (tx, shape.width), (v, 1))
    splits |= loop_splits
    ordered = [*digits, tx, ty, *loops, *([r] if looped else []), c, v]
    return Proposal(
        "rows",
        (
            ("threads", shape.lanes * shape.rows),
            ("lanes", shape.lanes),
            ("chunks", shape.chunks),
            ("vector", shape.width),
        ),
        kept_digits(ordered, keep_threads=True),
        anchors(situation, splits),
        loops=tuple(d.name for d in [*loops, *([r] if looped else [])]),
        guards=shape.guards,
        border=not parallel and is_ragged(situation, inner),
    )


class _RowShape:
    """How one row is dealt: lanes of `width` elements, `chunks` times in registers, `trips` times in a loop."""

    def __init__(
        self, lanes: int, rows: int, chunks: int, width: int, trips: Affine, guards: tuple[AnyGuard, ...]
    ) -> None:
        self.lanes, self.rows, self.chunks, self.width = lanes, rows, chunks, width
        self.trips, self.guards = trips, guards


def _row_shape(situation: Situation, inner: AxisClass, has_rows: bool, way: _Way) -> _RowShape:
    n, extent = inner.size(situation.hints), inner.extent
    if situation.target.kind == "cpu":
        width = situation.width(extent, flat=False)
        while width > 1 and width >= 2 * n:
            width //= 2
        return _RowShape(1, 1, 1, width, (Affine.of(inner.run) if inner.run else extent).ceildiv(width), ())
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
    if way is _Way.FULL and n <= capacity:
        lanes, chunks = _fewer_lanes(situation, lanes, chunks, width)
    if way is _Way.HALF and n <= capacity and lanes <= HALF:
        lanes, chunks = 2 * lanes, -(-chunks // 2)
    if way is _Way.STREAM:
        (lanes, elements), floor, capacity = STREAMED[whole], 0, 0
        chunks = max(1, elements // width)
    halves = not whole and n > capacity and max(situation.long_itemsizes) <= 2
    lanes = HALVES if halves else lanes
    threads = power_below(situation.tiles.get("threads", HALVES if halves else max(256, lanes)))
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
    return _RowShape(lanes, rows, chunks, width, trips, guards)


def _fewer_lanes(situation: Situation, lanes: int, chunks: int, width: int) -> tuple[int, int]:
    """(lanes, chunks) for the same row, as much in each lane as it can hold."""
    values = [v for v in situation.group.loads if situation.scop.shape(v)]
    loaded = sum(d.itemsize for v in values for d in situation.scop.statements[v].dtypes)
    row = max(situation.long_itemsizes)
    while lanes > situation.target.warp:
        elements = 2 * chunks * width
        if elements * row > 4 * HELD[lanes > 256] or elements * loaded > 4 * LOADED:
            break
        lanes, chunks = lanes // 2, 2 * chunks
    return lanes, chunks


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
    situation: Situation, inner: AxisClass, width: int, guards: tuple[AnyGuard, ...], way: _Way
) -> _RowShape:
    extent = Affine.of(inner.run) if inner.run else inner.extent
    n = situation.size(extent)
    lanes = min(SCANNING[way is _Way.FULL], max(32, power_above(-(-n // (4 * width)))))
    lanes = power_below(situation.tiles.get("lanes", situation.tiles.get("threads", lanes)))
    trips = extent.ceildiv(lanes * width)
    if lanes * width >= n:
        guards = (*guards, *_bucket(extent, 0, lanes * width))
        trips = Affine.of(1)
    return _RowShape(lanes, 1, 1, width, trips, guards)


def _columns(
    situation: Situation, inner: AxisClass, over: list[AxisClass], most_lanes: int, threads: int, waves: int = 0
) -> Proposal | None:
    """`waves`: deal the longest reduced class to blocks as well; None where that leaves one share."""
    parallel = situation.nearest(a for a in situation.axes if a not in over and a is not inner)
    over = sorted(over, key=lambda a: (a.size(situation.hints), -a.number))
    main, rest = over[-1], over[:-1]
    cpu = situation.target.kind == "cpu"
    width = strip(situation, inner, parallel) if cpu else situation.width(inner.extent, flat=False)
    while width > 1 and width >= 2 * inner.size(situation.hints):
        width //= 2
    lanes, rows, unroll = _column_shape(situation, inner, main, width, most_lanes, threads)
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, rows)
    u, v = slot("u", unroll), slot("v", width)
    r = loop("r", (Affine.of(main.run) if main.run else main.extent).ceildiv(rows * unroll))
    order = [*parallel, inner] if cpu else situation.nearest([*parallel, inner])
    digits, splits = block_digits(order, {inner.number: lanes * width})
    loops, loop_splits = _outer_loops(rest, digits)
    splits[inner.number] += mixed((tx, width), (v, 1))
    parameters = [("threads", lanes * rows), ("lanes", lanes), ("unroll", unroll), ("vector", width)]
    combines: dict[str, Combination] = {}
    outer, share = run_block(main, digits), main.run
    if waves:
        found = share_of(situation, main, digits, rows * unroll, waves)
        if found is None:
            return None
        (outer, steps), share = found, found[1] * rows * unroll
        parameters.append(("share", share))
        r = loop("r", Affine.of(steps))
        combines = {outer.name: combination(outer, ty, situation, max(1, SHARES // words_of(situation, width)))}
        digits.append(outer)
    splits[main.number] = mixed((outer, share), (r, rows * unroll), (u, rows), (ty, 1))
    splits |= loop_splits
    kept = kept_digits([*digits, tx, ty, *loops, r, u, v], keep_threads=True)
    return Proposal(
        "columns",
        tuple(parameters),
        kept,
        anchors(situation, splits),
        loops=tuple(d.name for d in [*loops, r] if d in kept),
        guards=() if situation.target.kind == "cpu" else situation.divisible(inner.extent, width),
        combines=combines,
    )


MERGED = 8
"""Rows that a thread takes at once where it then merges states: covariance of 30000 x 3001 on an H200 takes 201 us, 256
with 4, 224 with 16."""
STRIP = 8
"""Times two vector registers: a core that reads 1 KB of every row has 1.7 times the bandwidth of one that reads 128
bytes, and its 16 accumulators still fit its registers (4096 x 4096 float32, one thread: 3.8 ms against 6.4)."""


def strip(situation: Situation, inner: AxisClass, parallel: list[AxisClass]) -> int:
    """Columns of a core's block: a whole strip where that leaves every core some blocks, or what the user asked for."""
    width = situation.vector(inner.extent, flat=False)
    if "vector" in situation.tiles:
        return min(width * STRIP, power_below(situation.tiles["vector"]))
    others = math.prod(axis.size(situation.hints) for axis in parallel)
    strip = width * STRIP
    while strip > width and others * -(-inner.size(situation.hints) // strip) < 4 * situation.target.processors:
        strip //= 2
    return strip


def _column_shape(
    situation: Situation, inner: AxisClass, main: AxisClass, width: int, most_lanes: int, threads: int
) -> tuple[int, int, int]:
    """(lanes along the kept class, threads along the reduced one, rows a thread unrolls)."""
    length = main.size(situation.hints)
    if situation.target.kind != "cpu":
        most_lanes *= max(1, situation.widest // width)  # as many bytes of a row where vectors are narrow
    lanes = min(most_lanes, power_above(-(-inner.size(situation.hints) // width)))
    threads = power_below(situation.tiles.get("threads", threads))
    lanes = min(power_below(situation.tiles.get("lanes", lanes)), threads)
    if main.scanned_by:
        return lanes, 1, 1
    rows = threads // lanes
    while rows > 1 and length <= rows // 2:
        rows //= 2
    cpu = situation.target.kind == "cpu"
    usual = max(1, STRIP * situation.vector(inner.extent, flat=False) // width) if cpu else 4
    merges = any(s.monoid in CASCADES for s in situation.reductions)
    unroll = situation.tiles.get("unroll") or (MERGED if merges else min(8, usual))
    return lanes, rows, unroll if length >= rows * unroll else 1
