"""Groups with reductions or scans: rows (the unit-stride class is reduced) and columns (it is kept).

    rows      y[i, :]: i = rows*b0 + ty,  j = TX*V*c + V*tx + v      c in registers, or a loop when the row is long
    columns   s[j]:    j = b0*TX*V + V*tx + v,  i = ty + TY*(u + U*r)   r a loop
              s[k, j]: j = b0*TX*V + V*tx + v - (rest*k mod V)          rows 8*i + k, that begin alike (`frames.py`)

Classes that nothing reduces become blocks.  Further reduced classes become loops.  Several reductions, their prologues
and epilogues share the same digits; which pass of a loop a statement runs in is derived.  Where that leaves a device
idle, a long reduced class is dealt to blocks too, `share` elements to each (``j = share*b1 + ...``, r a loop inside
the share), and the last block of a result to arrive adds up the shares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from polyfuse.affine import Affine
from polyfuse.places.proposal import Combination, Proposal, Windows
from polyfuse.scalars import CASCADES
from polyfuse.schedule import IN_PIECES, Digit
from polyfuse.strategies.atomics import ATOMIC
from polyfuse.strategies.chains import MANY, at_once, chained
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.framed_rows import framed_rows
from polyfuse.strategies.framed_scans import framed_scans
from polyfuse.strategies.frames import Frame, common_frame
from polyfuse.strategies.frames import frame as frame_of
from polyfuse.strategies.held import comes_back
from polyfuse.strategies.neighbour_rows import NEIGHBOURS, Neighbours, neighbour_columns, neighbours, row_shapes
from polyfuse.strategies.nesting import around
from polyfuse.strategies.pieces import of_rows, order
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.row_shape import STREAMED, RowShape, Way, is_ragged, row_shape
from polyfuse.strategies.shares import SHARES, WAVES, combination, keeps, share_of, words_of
from polyfuse.strategies.siblings import dealt_to, siblings
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

COLUMN_SHAPES = ((32, 256), (8, 512), (8, 1024), (2, 1024))
"""(lanes of whole vectors along the kept class, threads): fewer leave more threads for rows where columns are few."""


FEW_ROWS, ALONE = 128, (32, 128)
"""Rows up to which a thread may sum all of a column: sums of 2000 x 50 x 671 float32 along the middle take 82 us on an
H200 in two threads a column, 72 in one."""
TALL, LEAST_TALL = (32, 1024), 512
"""The same of rows that begin anywhere, where several blocks have columns of each image and states are single numbers:
more rows of fewer images at a time.  The largest and the least along the middle of 64 x 4096 x 1023 float32: 256 us on
an H200 so, 282 in 512 threads, 341 in 256 and shares of 512 rows."""
RUNNING, STEPS = (128, 128), 8
"""The same where a thread runs through whole columns, and rows that it loads at once."""
BESIDE = 16
"""Elements that a lane has at a time of what is reduced beside a row."""
IN_FLIGHT, MOST_ROWS = 32, 8
"""Bytes of short rows that a lane has on its way, and rows at most."""
MOST_RESULTS, LEAST, LONG = 4, 3, 512
"""Results of each row, that a lane has all of, elements of a row that it has at least, and those from which on a row is
too long for that: of 300000 rows of 515 float32 437 us on an H200, where 165 were expected.  On an H100, rows of 64
bfloat16 times 64 x 4 190 us, so 97 to 108; of 33 float32 times 33 x 3 125 and 84; of 23 float16 times 23 x 4 207 in one
thread each, 143 so; but of 40 float32 times 40 x 5, in eight, 167, where tiles take 100; and of 7 and 13 float32 times
four, one and two elements of a row in a lane, 237 and 118, in one thread each 105 and 94."""


def reduction(situation: Situation) -> list[Proposal]:
    """Proposals for a group with reductions or scans."""
    if not situation.reductions and not situation.scans:
        return []
    inner = situation.inner
    if inner is None:
        return []
    over = [a for a in situation.axes if a.reduced_by or a.scanned_by]
    found: list[Proposal | None] = []
    frame = None if inner in over else _frame_of_columns(situation, inner, over)
    near = neighbours(situation, inner)
    if inner not in over:
        few = max(a.size(situation.hints) for a in over) <= FEW_ROWS
        is_long = inner.size(situation.hints) >= LEAST_TALL and situation.width(inner.extent, flat=False) == 1
        tall = not few and is_long and all(len(s.dtypes) == 1 for s in situation.reductions)
        shapes = (*COLUMN_SHAPES, *([ALONE] if few else []), *([TALL] if tall else []))
        shapes = (*shapes, *([RUNNING] if situation.scans and situation.reductions else []))
        shapes = ((1, 1),) if situation.target.kind == "cpu" else shapes
        columns = [_columns(situation, inner, over, lanes, threads) for lanes, threads in shapes]
        if frame is not None:
            columns += [_columns(situation, inner, over, *shape, frame=frame) for shape in COLUMN_SHAPES]
        if (close := neighbour_columns(situation, _longest(situation, over))) is not None:
            kinds = [(*shape, waves) for shape in COLUMN_SHAPES for waves in (0, *WAVES)]
            columns += [_columns(situation, inner, over, *kind, near=close) for kind in kinds]
        found = list({p.parameters: p for p in columns if p is not None}.values())
    if inner in over or situation.target.kind != "cpu":
        along = inner if inner in over else over[-1]
        usual = (Way.USUAL, Way.FULL, Way.TIGHT)
        many, made = any(a not in over for a in situation.axes), dict[tuple[bool, RowShape], Proposal]()

        def rows(axis: AxisClass, way: Way) -> Proposal:
            shape = row_shape(situation, axis, many, way)
            if (axis is along, shape) not in made:  # most ways are the same for most rows
                made[axis is along, shape] = _rows(situation, axis, over, shape)
            return made[axis is along, shape]

        ways = [rows(along, way) for way in (usual[::-1] if along.scanned_by else usual)]
        ways += [rows(inner, Way.HALF)] if any(s.picks for s in situation.group.statements()) else []
        ways += [rows(along, way) for way in (Way.DOUBLE, Way.SPREAD)]
        ways += [rows(inner, Way.STREAM)] if _may_stream(situation, ways[0], over) else []
        found += list({p.parameters: p for p in ways}.values())
        found += _several_rows(situation, inner, over) if along is inner else []
        if near is not None:
            found += [_rows(situation, inner, over, s, near=near) for s in row_shapes(situation, inner, near, many)]
        if along is inner:
            found += framed_scans(situation, inner) if inner.scanned_by else framed_rows(situation, inner, over)
    if situation.target.kind != "cpu" and not situation.scans:
        found += _shared(situation, inner, over, frame, near)
    return [p for p in found if p is not None]


def _may_stream(situation: Situation, rows: Proposal, over: list[AxisClass]) -> bool:
    """Whether rows that are needed once, and are held whole otherwise, can go by in a loop: blocks of few threads share
    a processor and combine while others load."""
    if situation.target.kind == "cpu" or situation.scans or rows.loops:
        return False
    return dict(rows.parameters)["lanes"] >= STREAMED[True][0] and not comes_back(situation, over)


def _shared(
    situation: Situation, inner: AxisClass, over: list[AxisClass], framed: Frame | None, near: Neighbours | None
) -> list[Proposal | None]:
    """Proposals that deal the longest reduced class to blocks; none where the user names tiles, but neither a share nor
    how shares meet, nor where blocks would need the total of all before they end.  `framed`: the frame of columns;
    `near`: what rows are read at neighbours of."""
    if situation.tiles and not {"share", ATOMIC} & situation.tiles.keys():
        return []
    long = max(over, key=lambda a: (a.size(situation.hints), -a.number))
    if not situation.tiles and comes_back(situation, [long]):
        return []
    found: list[Proposal | None] = []
    alone = WAVES[-1] if inner in over and chained(situation) >= MANY else 0  # would be a block to itself
    for waves in WAVES:
        if waves == alone:
            continue
        if inner in over:
            found.append(_shared_rows(situation, inner, over, long, waves))
            frame = _frame_of_shares(situation, inner, over)
            found += [_shared_rows(situation, inner, over, long, waves, frame)] if frame else []
            found += [_shared_rows(situation, inner, over, long, waves, near=near)] if near else []
        else:
            shapes = COLUMN_SHAPES
            found += [_columns(situation, inner, over, lanes, threads, waves) for lanes, threads in shapes]
            if framed is not None:
                found += [_columns(situation, inner, over, *shape, waves, framed) for shape in shapes]
    return found


def _shared_rows(
    situation: Situation,
    inner: AxisClass,
    over: list[AxisClass],
    long: AxisClass,
    waves: int,
    frame: Frame | None = None,
    near: Neighbours | None = None,
) -> Proposal | None:
    """Rows, the longest reduced class (perhaps the row itself) dealt to blocks.  `frame`: of rows that begin anywhere,
    whose shares are cut where memory has vectors.  `near`: of what neighbours along them give."""
    parallel = situation.nearest(a for a in situation.axes if a not in over)
    width = frame.width if frame else situation.width(inner.extent, flat=situation.axes == (inner,))
    width = near.width if near else width
    is_ragged = width > situation.width(inner.extent, flat=False)  # its ends are masked in the outer blocks alone
    lanes, most = _lanes_of(situation, inner, width)
    tx, c, v = thread("tx", 1, lanes), slot("c", most), slot("v", width)
    digits, splits = block_digits(parallel, {})
    span = lanes * width * c.count
    found = share_of(situation, long, digits, span if long is inner else 1, waves)
    if found is None:
        return None
    b, steps = found
    if frame is not None:
        b = block(b.name, frame.padded(inner.extent).ceildiv(span * steps))
    rest = [a for a in over if a is not long and a is not inner]
    loops, loop_splits = outer_loops(rest, digits)
    r = loop("r", Affine.of(steps) if long is inner else inner.extent.ceildiv(span))
    if long is not inner:
        k = loop(f"k{len(rest)}", Affine.of(steps))
        loops.append(k)
        splits[long.number] = mixed((b, steps), (k, 1))
    outer = b if long is inner else None
    splits[inner.number] = mixed((outer, span * steps), (r, span), (c, lanes * width), (tx, width), (v, 1))
    if frame is not None:
        splits[inner.number] = splits[inner.number] - frame.shift
    splits |= loop_splits
    kept = kept_digits([*digits, b, tx, *loops, r, c, v], keep_threads=True)
    return Proposal(
        "rows",
        (
            *(("threads", lanes), ("lanes", lanes), ("chunks", c.count)),
            *(("vector", width), *([("frames", 1)] if frame else []), *([(NEIGHBOURS, 1)] if near else [])),
            ("share", steps * (span if long is inner else 1)),
        ),
        kept,
        anchors(situation, splits),
        loops=tuple(d.name for d in [*loops, r] if d in kept),
        guards=cut.guards if (cut := frame or near) else () if is_ragged else situation.divisible(inner.extent, width),
        combines={b.name: combination(b, None if keeps(situation, long, inner) else tx, situation)},
        windows=near.windows if near else Windows((), {}),
        border=is_ragged,
    )


def _frame_of_shares(situation: Situation, inner: AxisClass, over: list[AxisClass]) -> Frame | None:
    """The frame of long rows that blocks share; None where something else is reduced as well."""
    if over != [inner] or not _may_be_framed(situation):
        return None
    parallel = situation.nearest(a for a in situation.axes if a is not inner)
    return frame_of(situation, inner, block_digits(parallel, {})[1], least=1)


def _lanes_of(situation: Situation, inner: AxisClass, width: int) -> tuple[int, int]:
    """(threads along a row, vectors that each holds of it at once) where a block works through many."""
    n = inner.size(situation.hints)
    lanes = power_below(situation.tiles.get("lanes", situation.tiles.get("threads", min(256, _warps(n, width)))))
    usual = at_once(situation, min(4, power_above(-(-n // (lanes * width)))), width)
    return lanes, situation.tiles.get("chunks") or usual


def _warps(n: int, width: int) -> int:
    """Threads, in whole warps, that a row keeps busy."""
    return max(32, power_above(-(-n // width)))


def outer_loops(axes: list[AxisClass], blocks: list[Digit]) -> tuple[list[Digit], dict[int, Affine]]:
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


def _several_rows(situation: Situation, inner: AxisClass, over: list[AxisClass]) -> list[Proposal]:
    """Short rows, of which each lane has a part of several at once: one is less than a thread should have on its way.
    More of them where all rows are made of the same factors: these are loaded once for those of a lane; and few results
    of each row, which is loaded once for them."""
    parallel = [a for a in situation.axes if a not in over]
    if situation.target.kind == "cpu" or not parallel or not situation.has_much or situation.tiles:
        return []
    if inner.scanned_by or comes_back(situation, over):
        return []  # rows that are held keep enough on its way
    shape = row_shape(situation, inner, True, Way.USUAL)
    loaded = shape.chunks * shape.width * min(situation.long_itemsizes, default=WORD)
    several = min(MOST_ROWS, power_above(-(-IN_FLIGHT // loaded)))
    if shape.trips != Affine.of(1) or shape.rows == 1:
        return []
    longest = _longest(situation, parallel)
    more = (2 * several, 4 * several) if _have_factors(situation, inner, longest) else ()
    found = [_rows(situation, inner, over, shape, n) for n in (several, *more) if 1 < n <= MOST_ROWS]
    is_short = inner.size(situation.hints) < LONG  # `shared_factors` has several of longer rows
    few = [a for a in parallel if is_short and a is not longest and 1 < a.size(situation.hints) <= MOST_RESULTS]
    if more and len(few) == 1 and shape.chunks * shape.width >= LEAST and _have_factors(situation, inner, few[0]):
        found += [_rows(situation, inner, over, shape, n, few[0]) for n in (several, *more) if n <= MOST_ROWS]
    return found


def _longest(situation: Situation, axes: Iterable[AxisClass]) -> AxisClass:
    return max(axes, key=lambda a: (a.size(situation.hints), -a.number))


def _have_factors(situation: Situation, inner: AxisClass, rows: AxisClass) -> bool:
    """Whether something along `inner` is read that is the same for all `rows`."""
    for statement in situation.group.statements():
        of = situation.classes.statement(statement)
        for read in statement.reads:
            if read.source in situation.group.loads:
                names = [n for entry in read.index if isinstance(entry, Affine) for n in entry.names()]
                along = [of[int(name[1:])] for name in names if name.startswith("%")]
                if inner in along and rows not in along:
                    return True
    return False


def _rows(
    situation: Situation,
    inner: AxisClass,
    over: list[AxisClass],
    shape: RowShape,
    several: int = 1,
    results: AxisClass | None = None,
    near: Neighbours | None = None,
) -> Proposal:
    """`several`: rows of each lane at once.  `results`: a short class of which each lane has all.  `near`: rows of what
    neighbours along them give."""
    parallel = situation.nearest(a for a in situation.axes if a not in over)
    longest = _longest(situation, parallel) if parallel else None  # is dealt to threads too
    tx, ty = thread("tx", 1, shape.lanes), thread("ty", shape.lanes, shape.rows)
    c, v, r = slot("c", shape.chunks), slot("v", shape.width), loop("r", shape.trips)
    looped = shape.trips != Affine.of(1)
    q = slot("q", several)
    dealt = parallel[:1] if longest is None or shape.rows == 1 else [longest]
    digits, splits = block_digits(parallel, {a.number: shape.rows * several for a in dealt}, ty)
    splits |= {a.number: splits[a.number] + mixed((q, shape.rows)) for a in dealt}
    every, guards = slot("m", 1), [*shape.guards]
    if results is not None:
        every, place = slot("m", power_above(results.size(situation.hints))), parallel.index(results)
        digits[place] = block(digits[place].name, results.extent.ceildiv(every.count))
        splits[results.number] = mixed((digits[place], every.count), (every, 1))
        guards += situation.fits(results.extent, every.count)
    apart = siblings(situation, inner, over)
    beside = dealt_to(situation, apart, tx, [row_width(situation, a.extent) for a in apart], BESIDE)
    loops, loop_splits = outer_loops([a for a in over if a is not inner and a not in apart], digits)
    loops += beside.loops
    span = shape.lanes * shape.width
    if inner.scanned_by:  # prefix order: loop, thread, slot
        run = run_block(inner, digits)
        splits[inner.number] = mixed((run, inner.run), (r if looped else None, span), (tx, shape.width), (v, 1))
    else:
        splits[inner.number] = mixed((r if looped else None, span * shape.chunks), (c, span), (tx, shape.width), (v, 1))
    splits |= loop_splits | dict(beside.splits)
    count = of_rows(situation, inner) if looped and shape.width > 1 and not situation.scans else 1
    pieces = order(situation, inner) if count > 1 else ()
    ordered = [*digits, tx, ty, *loops, *([r] if looped else []), q, every, c, v, *beside.slots]
    return Proposal(
        "rows",
        (
            *([(IN_PIECES, count)] if count > 1 else []),
            ("threads", shape.lanes * shape.rows),
            ("lanes", shape.lanes),
            *([("rows", several)] if several > 1 else []),
            *([("columns", every.count)] if results is not None else []),
            ("chunks", shape.chunks),
            ("vector", shape.width),
            *([(NEIGHBOURS, 1)] if near else []),
        ),
        kept_digits(ordered, keep_threads=True),
        anchors(situation, splits),
        loops=tuple(d.name for d in [*loops, *([r] if looped else [])]),
        guards=(*guards, *(near.guards if near else ()), *beside.guards, *pieces),
        windows=near.windows if near else Windows((), {}),
        border=not parallel and is_ragged(situation, inner),
    )


def _may_be_framed(situation: Situation) -> bool:
    return situation.target.kind != "cpu" and not situation.scans and situation.has_much


def _columns(
    situation: Situation,
    inner: AxisClass,
    over: list[AxisClass],
    most_lanes: int,
    threads: int,
    waves: int = 0,
    frame: Frame | None = None,
    near: Neighbours | None = None,
) -> Proposal | None:
    """`waves`: deal the longest reduced class to blocks as well; None where that leaves one share.  `frame`: of rows
    that begin anywhere, alike in what a block sums, in vectors that begin where memory has them.  `near`: a thread has
    neighbours along the longest reduced class."""
    parallel = situation.nearest(a for a in situation.axes if a not in over and a is not inner)
    over = sorted(over, key=lambda a: (a.size(situation.hints), -a.number))
    main, rest = over[-1], over[:-1]
    cpu = situation.target.kind == "cpu"
    width = strip(situation, inner, parallel) if cpu else situation.width(inner.extent, flat=False)
    order = [*parallel, inner] if cpu else situation.nearest([*parallel, inner])
    width = frame.width if frame else width
    while width > 1 and width >= 2 * inner.size(situation.hints):
        width //= 2
    lanes, rows, unroll = _column_shape(situation, inner, main, width, most_lanes, threads)
    unroll = max(unroll, near.unroll) if near and unroll > 1 else unroll
    itemsize = min(situation.long_itemsizes, default=WORD)
    if frame is not None and lanes * width * itemsize < LINE and inner.size(situation.hints) * itemsize > 2 * LINE:
        return None
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, rows)
    u, v = slot("u", unroll), slot("v", width)
    r = loop("r", (Affine.of(main.run) if main.run else main.extent).ceildiv(rows * unroll))
    digits, splits = block_digits(order, {inner.number: lanes * width})
    apart = [] if waves else siblings(situation, main, rest)
    beside = dealt_to(situation, apart, ty, [1] * len(apart), unroll)
    further, nearer = around(situation, main, [a for a in rest if a not in apart])
    loops, loop_splits = outer_loops([*further, *nearer], digits)
    inside = loops[len(further) :]
    loops = [*loops[: len(further)], *beside.loops]
    splits[inner.number] += mixed((tx, width), (v, 1))
    if frame is not None:
        k = order.index(inner)
        digits[k] = block(digits[k].name, frame.padded(inner.extent).ceildiv(lanes * width))
        splits[inner.number] = splits[inner.number] - frame.shift
    parameters = [("threads", lanes * rows), ("lanes", lanes), ("unroll", unroll), ("vector", width)]
    parameters += [("frames", 1)] if frame else [(NEIGHBOURS, 1)] if near else []
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
    steps_of = ((u, 1), (ty, unroll)) if near else ((u, rows), (ty, 1))
    splits[main.number] = mixed((outer, share), (r, rows * unroll), *steps_of)
    splits |= loop_splits | dict(beside.splits)
    loops += [r, *inside]
    kept = kept_digits([*digits, tx, ty, *loops, u, v, *beside.slots], keep_threads=True)
    along = frame.guards if frame else () if cpu else situation.divisible(inner.extent, width)
    trips = () if frame or cpu else situation.in_trips(inner.extent, lanes * width, short=lanes < most_lanes)
    return Proposal(
        "columns",
        tuple(parameters),
        kept,
        anchors(situation, splits),
        loops=tuple(d.name for d in loops if d in kept),
        guards=(*beside.guards, *along, *trips),
        combines=combines,
        windows=near.windows if near else Windows((), {}),
        border=cpu or bool(waves) and (width if frame is None else 1) * max(situation.long_itemsizes) < WORD,
    )


def _frame_of_columns(situation: Situation, inner: AxisClass, over: list[AxisClass]) -> Frame | None:
    """The frame of rows that begin alike wherever a block sums them; None where they do not."""
    if not _may_be_framed(situation):
        return None
    _, splits = block_digits(situation.nearest(a for a in situation.axes if a not in over), {})  # of the same names
    summed = {axis.number: Affine.symbol(f"$over{k}") for k, axis in enumerate(over)}
    found = common_frame(situation, inner, splits | summed)
    return None if found is None or any(name.startswith("$over") for name in found.shift.names()) else found


WORD = 4
"""Bytes of an access below which masks cost as much as all else: whole shares have none."""
LINE = 128
"""Bytes of a row in frames that a block reads at least, of longer ones: the largest of columns of 16383 x 8191 bytes
take an H200 57 us in pieces of 256, 135 in pieces of 16."""
MERGED = 8
"""Rows that a thread takes at once where it then merges states, or picks one of two in single elements, of which the
compiler loads no more ahead: covariance of 30000 x 3001 on an H200 takes 201 us, 256 with 4, 224 with 16; where the
largest are in columns of 8192 x 8191 70 us, 90 with 4, 74 with 16."""
MORE = 4
"""Times the lanes of whole vectors along a row of single elements: a warp's accesses lie side by side then, and more of
them leave fewer threads for rows.  Column sums of 20001 x 8191 bfloat16 on an H200: 203 us in 8 lanes, 98 in 32, 127
in 64."""
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
        more = situation.widest // width  # as many bytes of a row where vectors are narrow
        most_lanes = max(situation.target.warp, most_lanes * min(MORE, more)) if more > 1 else most_lanes
    lanes = min(most_lanes, power_above(-(-inner.size(situation.hints) // width)))
    threads = power_below(situation.tiles.get("threads", threads))
    lanes = min(power_below(situation.tiles.get("lanes", lanes)), threads)
    if main.scanned_by:
        alone = situation.target.kind == "cpu" or not situation.reductions or length < STEPS  # `prefix` has the others
        return lanes, 1, 1 if alone else STEPS
    rows = threads // lanes
    while rows > 1 and length <= rows // 2:
        rows //= 2
    cpu = situation.target.kind == "cpu"
    usual = max(1, STRIP * situation.vector(inner.extent, flat=False) // width) if cpu else 4
    merges = any(s.monoid in CASCADES or width == 1 and len(s.dtypes) > 1 for s in situation.reductions)
    unroll = situation.tiles.get("unroll") or (MERGED if merges else min(8, usual))
    return lanes, rows, unroll if length >= rows * unroll else 1
