"""Groups with reductions or scans: rows (the unit-stride class is reduced) and columns (it is kept).

    rows      y[i, :]: i = rows*b0 + ty,  j = TX*V*c + V*tx + v      c in registers, or a loop when the row is long
    columns   s[j]:    j = b0*TX*V + V*tx + v,  i = ty + TY*(u + U*r)   r a loop (`columns.py`)

Classes that nothing reduces become blocks.  Further reduced classes become loops.  Several reductions, their prologues
and epilogues share the same digits; which pass of a loop a statement runs in is derived.  Where that leaves a device
idle, a long reduced class is dealt to blocks too, `share` elements to each (``j = share*b1 + ...``, r a loop inside
the share), and the last block of a result to arrive adds up the shares.
"""

from __future__ import annotations

from collections.abc import Iterable

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal, Windows
from polyfuse.schedule import IN_PIECES
from polyfuse.strategies.atomics import ATOMIC
from polyfuse.strategies.chains import MANY, at_once, chained
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.columns import WORD, columns, shared_columns
from polyfuse.strategies.framed_rows import framed_rows
from polyfuse.strategies.framed_scans import framed_scans
from polyfuse.strategies.frames import Frame
from polyfuse.strategies.frames import frame as frame_of
from polyfuse.strategies.held import comes_back
from polyfuse.strategies.neighbour_rows import NEIGHBOURS, Neighbours, neighbours, row_shapes
from polyfuse.strategies.nesting import outer_loops, run_block
from polyfuse.strategies.pieces import of_rows, order
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.row_shape import STREAMED, RowShape, Way, held_scans, is_ragged, row_shape, sparse_ways
from polyfuse.strategies.shares import WAVES, combination, keeps, share_of
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
    near = neighbours(situation, inner)
    if inner not in over:
        found += columns(situation, inner, over)
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
        ways += [rows(along, way) for way in (Way.DOUBLE, Way.SPREAD, *sparse_ways(situation))]
        ways += [rows(inner, Way.STREAM)] if _may_stream(situation, ways[0], over) else []
        found += list({p.parameters: p for p in ways}.values())
        found += _several_rows(situation, inner, over) if along is inner else []
        found += _scans_at_once(situation, inner, over) if along is inner and inner.scanned_by else []
        if near is not None:
            found += [_rows(situation, inner, over, s, near=near) for s in row_shapes(situation, inner, near, many)]
        if along is inner:
            found += framed_scans(situation, inner) if inner.scanned_by else framed_rows(situation, inner, over)
    if situation.target.kind != "cpu" and not situation.scans:
        found += _shared(situation, inner, over, near)
    return [p for p in found if p is not None]


def _may_stream(situation: Situation, rows: Proposal, over: list[AxisClass]) -> bool:
    """Whether rows that are needed once, and are held whole otherwise, can go by in a loop: blocks of few threads share
    a processor and combine while others load."""
    if situation.target.kind == "cpu" or situation.scans or rows.loops:
        return False
    return dict(rows.parameters)["lanes"] >= STREAMED[True][0] and not comes_back(situation, over)


def _shared(
    situation: Situation, inner: AxisClass, over: list[AxisClass], near: Neighbours | None
) -> list[Proposal | None]:
    """Proposals that deal the longest reduced class to blocks; none where the user names tiles, but neither a share nor
    how shares meet, nor where blocks would need the total of all before they end.  `near`: what rows are read at
    neighbours of."""
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
            found += shared_columns(situation, inner, over, waves)
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


def _scans_at_once(situation: Situation, inner: AxisClass, over: list[AxisClass]) -> list[Proposal]:
    """Rows whose prefixes lanes hold: all of a row is on its way at once, and threads meet once for all of it.  Where
    there is much to do, or where the user asks for pieces."""
    many, asked = any(a not in over for a in situation.axes), "chunks" in situation.tiles
    wanted = asked or situation.is_busy and not situation.tiles
    if situation.target.kind == "cpu" or not many or not wanted or inner.run or any(s.lags for s in situation.scans):
        return []
    return [_rows(situation, inner, over, shape) for shape in held_scans(situation, inner)]


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
        behind = r if looped else c if shape.chunks > 1 else None
        splits[inner.number] = mixed((run, inner.run), (behind, span), (tx, shape.width), (v, 1))
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


