"""Columns: the class along which memory runs is kept, what is reduced lies across it.

    s[j]:    j = b0*TX*V + V*tx + v,  i = ty + TY*(u + U*r)                r a loop
    s[j]:    the same,                i = u + U*(ty + TY*r)                where neighbours along i are read
    s[k, j]: j = b0*TX*V + V*tx + v - (rest*k mod V)                       rows 8*i + k, that begin alike (`frames.py`)

Further reduced classes become loops.  A long one is dealt to blocks as well, where that leaves a device idle.
"""

from __future__ import annotations

import math

from polyfuse.affine import Affine
from polyfuse.places.proposal import Combination, Proposal, Windows
from polyfuse.scalars import CASCADES
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import Frame, common_frame
from polyfuse.strategies.neighbour_rows import NEIGHBOURS, Neighbours, neighbour_columns
from polyfuse.strategies.nesting import around, outer_loops, run_block
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.shares import SHARES, WAVES, combination, share_of, words_of
from polyfuse.strategies.siblings import dealt_to, siblings
from polyfuse.strategies.situation import (
    Situation,
    block,
    block_digits,
    loop,
    mixed,
    power_above,
    power_below,
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




def columns(situation: Situation, inner: AxisClass, over: list[AxisClass]) -> list[Proposal]:
    """Proposals in which blocks have columns of their own."""
    few = max(a.size(situation.hints) for a in over) <= FEW_ROWS
    is_long = inner.size(situation.hints) >= LEAST_TALL and situation.width(inner.extent, flat=False) == 1
    tall = not few and is_long and all(len(s.dtypes) == 1 for s in situation.reductions)
    shapes = (*COLUMN_SHAPES, *([ALONE] if few else []), *([TALL] if tall else []))
    shapes = (*shapes, *([RUNNING] if situation.scans and situation.reductions else []))
    shapes = ((1, 1),) if situation.target.kind == "cpu" else shapes
    found = [_columns(situation, inner, over, *shape) for shape in shapes]
    if (frame := frame_of_columns(situation, inner, over)) is not None:
        found += [_columns(situation, inner, over, *shape, frame=frame) for shape in COLUMN_SHAPES]
    if (near := neighbour_columns(situation, _longest(situation, over))) is not None:
        found += [_columns(situation, inner, over, *shape, near=near) for shape in COLUMN_SHAPES]
    return list({p.parameters: p for p in found if p is not None}.values())


def shared_columns(
    situation: Situation, inner: AxisClass, over: list[AxisClass], waves: int
) -> list[Proposal | None]:
    """The same in which blocks share the longest reduced class."""
    found = [_columns(situation, inner, over, *shape, waves) for shape in COLUMN_SHAPES]
    if (frame := frame_of_columns(situation, inner, over)) is not None:
        found += [_columns(situation, inner, over, *shape, waves, frame) for shape in COLUMN_SHAPES]
    if (near := neighbour_columns(situation, _longest(situation, over))) is not None:
        shapes = COLUMN_SHAPES[1:] if waves == WAVES[-1] else COLUMN_SHAPES  # small blocks alone wait for memory
        found += [_columns(situation, inner, over, *shape, waves, near=near) for shape in shapes]
    return found


def _longest(situation: Situation, axes: list[AxisClass]) -> AxisClass:
    return max(axes, key=lambda a: (a.size(situation.hints), -a.number))


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


def frame_of_columns(situation: Situation, inner: AxisClass, over: list[AxisClass]) -> Frame | None:
    """The frame of rows that begin alike wherever a block sums them; None where they do not."""
    if situation.target.kind == "cpu" or situation.scans or not situation.has_much:
        return None
    _, splits = block_digits(situation.nearest(a for a in situation.axes if a not in over), {})  # of the same names
    summed = {axis.number: Affine.symbol(f"$over{k}") for k, axis in enumerate(over)}
    found = common_frame(situation, inner, splits | summed)
    return None if found is None or any(name.startswith("$over") for name in found.shift.names()) else found


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
