"""Groups with scans, where a whole block per trip would wait for itself: fewer threads, or rows of them side by side.

    rows      y[i, :]: i = b0,  j = R*b1 + T*V*r + V*tx + v       T threads: other blocks work while they wait; V are
                                                                  a vector, or a few neighbours
    columns   y[:, j]: j = X*V*b0 + V*tx + v,  i = R*b1 + Y*U*r + U*ty + u       Y threads per V columns, X side by side
    columns   y[:, j]: j = X*V*b0 + V*tx + v,  i = R*b1 + U*r + u                a thread per V columns: rows are whole

R, the length of a run, deals the runs of a scan to blocks (`polyfuse/planning/split_scans.py`).  On a CPU there are no
threads to wait for.
"""

from __future__ import annotations

from math import prod

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal
from polyfuse.schedule import Digit
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.nesting import run_block
from polyfuse.strategies.pointwise import LINE, anchors, kept_digits
from polyfuse.strategies.row_shape import is_ragged, scanned_piece
from polyfuse.strategies.situation import (
    Situation,
    block,
    loop,
    mixed,
    power_above,
    power_below,
    row_width,
    slot,
    thread,
)

ROW_THREADS = (256, 512)
MOST_LANES = 16
"""Lanes along a row at most where threads share columns and have 16 bytes of it each."""
FEW_LANES = 4
"""Lanes along a row up to which a few rows of a trip are worth offering."""
SHARED = ((32, 16), (64, 8), (128, 8), (256, 8), (256, 16), (256, 2))
"""Threads of a block that share columns, and rows that each of them loads at once: few threads wait little for each
other, many keep memory busy where there are few columns; a few rows where they are short.  On an H100, prefixes along
the middle of 534 x 1534 x 64 bfloat16, in the order of these: 82, 79, 84, 85, 106 and 119 us, and 98 in threads that
share none; of 40 x 1000 x 1024 float32 123, 123, 120, 118, 123 and 137, and 125; of 100 x 16000 x 32 292 in the first,
207, 175 and 154 in the third to the fifth; of 3000 x 2000 x 8 143 in the third, 155 in the fourth, 136 in the last.
Where the lanes of a warp lie along the columns instead, 165, 257, 338 and 147."""
THREAD_LANES = (128, 256)
"""Threads of a block, each with columns of its own.  Of single elements more where there are blocks enough: cumsum
along the middle of 255 x 513 x 767 on an H200, float32 348 us in 128, 297 in 256, bfloat16 180 and 165."""
IN_STEP = (256, 1024)
"""The same where warps keep step: those of a whole row of words, if a block has so many, so that what it writes lies
side by side from row to row.  Cumsum along the middle of 255 x 513 x 767 float32 on an H200: 247 us in 256, 221 in
1024, 299 out of step; of 100 x 1001 x 1003 250, 236 and 328; of bfloat16 142, 171 and 166; of 1000 x 30 x 3001 float32
189 in 256, 207 in 1024."""
THREAD_STEPS, SINGLE_STEPS, MOST_STEPS = 8, 16, 32
"""Rows that a thread which runs through columns loads at once, in vectors and in single elements, and at most.  On an
H200, prefixes along the middle of 512 x 512 x 513 float32: 404 us in 16 steps, 541 in eight; in vectors 276 to 277."""
FLYING = 5 << 20
"""Bytes that all threads load at once, below which more rows are worth while.  Cumsum along the middle of 64 x 1000 x
1500 bfloat16 in vectors of four on an H200: 127 us in 16 steps, 123 in 32; of 255 x 513 x 767 float32, 12 MB in 16
steps, 297 and 335."""
FEW = 128
"""Threads per processor below which a vector is worth less than twice the threads.  Cumsum along the middle of
16 x 4096 x 1024 float32 on an H200: 202 us in vectors of four, 176 in single elements."""
WORD = 4  # bytes


FEWEST = 128
"""Threads of a block that has one run of a long column, at least: there are as many runs as the device is to have
blocks."""
WHOLE = ((128, 16), (512, 8), (512, 16))
"""The same besides where the columns are reduced as well: rows that one trip has are read once."""
SHORT_ROW = 64
"""Bytes of a row below which these have other strategies.  On an H100, prefixes of 5000 x 300 x 6 float32 by their sums
36 us by points in 256 lanes, 50 to 103 so."""


def prefix(situation: Situation) -> list[Proposal]:
    """Proposals for a group of scans along one class, and what is fused with them."""
    if not situation.scans or situation.target.kind == "cpu" or situation.inner is None:
        return []
    over = [a for a in situation.axes if a.scanned_by or a.reduced_by]
    if len(over) != 1 or any(s.lags for s in situation.scans):  # a recurrence has one thread per row: `serial`
        return []
    axis, inner = over[0], situation.inner
    if axis is inner:
        found = [] if situation.reductions else [_rows(situation, axis, threads) for threads in ROW_THREADS]
        return [p for p in found if p.loops]  # else one trip serves, which `reduction` proposes
    shapes = (*SHARED, *WHOLE) if situation.reductions else SHARED
    least = FEWEST if axis.run else 0
    shared = [_shared(situation, inner, axis, threads, rows) for threads, rows in shapes if threads >= least]
    alone = [] if situation.reductions else _alone(situation, inner, axis)
    return list({p.parameters: p for p in (*alone, *shared) if p is not None}.values())


def _alone(situation: Situation, inner: AxisClass, axis: AxisClass) -> list[Proposal | None]:
    """Threads that have columns for themselves; of groups that reduce as well `reduction` proposes those."""
    found = [_in_threads(situation, inner, axis, lanes, more) for lanes in THREAD_LANES for more in (1, 2, 4)]
    return [*found, _in_threads(situation, inner, axis, _lanes_in_step(situation, inner), 1, in_step=True)]


def _blocks(
    situation: Situation, apart: list[AxisClass], axis: AxisClass, first: tuple[Digit, ...] = ()
) -> tuple[list[Digit], dict[int, Affine]]:
    """Block digits: those in which neighbours differ `first`, one per class that nothing scans but for those `apart`,
    and one for the runs along `axis`, if any."""
    parallel = [a for a in situation.axes if a not in apart]
    parallel.sort(key=lambda a: (-a.size(situation.hints), a.number))
    digits = [*first, *(block(f"b{k}", a.extent) for k, a in enumerate(parallel, len(first)))]
    splits = {a.number: mixed((d, 1)) for a, d in zip(parallel, digits[len(first) :], strict=True)}
    splits[axis.number] = mixed((run_block(axis, digits), axis.run))
    return digits, splits


def _length(axis: AxisClass) -> Affine:
    """Elements of a prefix that one block runs through."""
    return Affine.of(axis.run) if axis.run else axis.extent


def _rows(situation: Situation, axis: AxisClass, threads: int) -> Proposal:
    digits, splits = _blocks(situation, [axis], axis)
    flat = len(situation.axes) == 1 and is_ragged(situation, axis)
    width = situation.width(axis.extent, flat=True) if flat else row_width(situation, axis.extent)
    piece = width if flat else scanned_piece(situation, width)
    tx, v = thread("tx", 1, threads), slot("v", piece)
    r = loop("r", _length(axis).ceildiv(threads * piece))
    splits[axis.number] += mixed((r, threads * piece), (tx, piece), (v, 1))
    kept = kept_digits([*digits, tx, r, v], keep_threads=True)
    return Proposal(
        "rows",
        (("threads", threads), ("lanes", threads), ("chunks", 1), ("vector", piece)),
        kept,
        anchors(situation, splits),
        loops=("r",) if r in kept else (),
        guards=() if flat else situation.divisible(axis.extent, width),
        border=flat,
    )


def _shared(
    situation: Situation, inner: AxisClass, axis: AxisClass, threads: int, steps: int
) -> Proposal | None:
    """Threads share columns: each has `steps` rows of a trip, behind those of the thread in front of it.  The lanes of
    a warp lie along the columns first, so that they touch whole lines.  None where they do not, where one has columns
    for itself, a run has fewer rows than threads, or most of these have none."""
    width, columns = situation.width(inner.extent, flat=False), inner.size(situation.hints)
    piece = width * max(situation.long_itemsizes, default=WORD)
    most = situation.target.warp if piece < situation.target.vector_bytes else MOST_LANES
    lanes = min(most, power_above(-(-columns // width)))
    short = LINE if lanes * width < columns else SHORT_ROW if situation.reductions else 0
    if lanes * piece < short:
        return None
    below = threads // lanes
    rows = axis.run or axis.size(situation.hints)
    steps = min(steps, rows // below if axis.run else power_above(-(-rows // below)))
    few = steps < THREAD_STEPS and lanes > FEW_LANES
    if few or below < 2 or steps < 1 or not axis.run and below >= 2 * rows:
        return None
    tx, ty, u, v = thread("tx", 1, lanes), thread("ty", lanes, below), slot("u", steps), slot("v", width)
    r = loop("r", _length(axis).ceildiv(below * steps))
    panel = block("b0", inner.extent.ceildiv(lanes * width))  # neighbouring blocks share rows
    digits, splits = _blocks(situation, [axis, inner], axis, (panel,))
    splits[inner.number] = mixed((panel, lanes * width), (tx, width), (v, 1))
    splits[axis.number] += mixed((r, below * steps), (ty, steps), (u, 1))
    kept = kept_digits([*digits, tx, ty, r, u, v], keep_threads=True)
    return Proposal(
        "columns",
        (("threads", threads), ("lanes", lanes), ("unroll", steps), ("vector", width)),
        kept,
        anchors(situation, splits),
        loops=("r",) if r in kept else (),
        guards=situation.divisible(inner.extent, width),
    )


def _lanes_in_step(situation: Situation, inner: AxisClass) -> int:
    row, words = inner.size(situation.hints), max(situation.long_itemsizes, default=WORD) >= WORD
    whole = power_above(row)
    return whole if words and 4 * row >= 3 * whole - whole // 16 and IN_STEP[0] < whole <= IN_STEP[1] else IN_STEP[0]


def _flag(name: str, holds: bool) -> tuple[tuple[str, int], ...]:
    return ((name, 1),) if holds else ()


def _in_threads(
    situation: Situation, inner: AxisClass, axis: AxisClass, most: int, more: int, in_step: bool = False
) -> Proposal | None:
    """A thread runs through its columns: no warp meets, and each row that a block reads is one long piece.  `more`:
    times the usual rows in a trip; None where fewer keep memory busy.  `in_step`: the warps of a block wait for each
    other in every trip, so that they write the parts of a sector one soon after the other; None for whole vectors."""
    width, columns = situation.width(inner.extent, flat=False), inner.size(situation.hints)
    beside = prod(a.size(situation.hints) for a in situation.axes if a is not axis)
    if axis.run:
        beside *= -(-axis.size(situation.hints) // axis.run)
    itemsize = max(situation.long_itemsizes, default=WORD)
    while width > 1 and columns < width * situation.target.warp:
        width //= 2
    while width * itemsize > max(WORD, itemsize) and beside < width * FEW * situation.target.processors:
        width //= 2
    lanes = min(most, power_above(-(-columns // width)))
    usual = SINGLE_STEPS if width == 1 and not in_step else THREAD_STEPS
    enough = more > 1 and (usual * more // 2 * beside * itemsize >= FLYING or "unroll" in situation.tiles)
    short = width == 1 and most < THREAD_LANES[-1] and beside >= THREAD_LANES[-1] * situation.target.processors
    if lanes < situation.target.warp or short or enough or usual * more > MOST_STEPS or in_step and width > 1:
        return None
    steps = min(usual * more, power_below(axis.size(situation.hints)))  # of a short column none are idle
    steps = situation.tiles.get("unroll", steps)
    tx, u, v = thread("tx", 1, lanes), slot("u", steps), slot("v", width)
    r = loop("r", _length(axis).ceildiv(steps))
    panel = block("b0", inner.extent.ceildiv(lanes * width))  # neighbouring blocks share rows
    digits, splits = _blocks(situation, [axis, inner], axis, (panel,))
    splits[inner.number] = mixed((panel, lanes * width), (tx, width), (v, 1))
    splits[axis.number] += mixed((r, steps), (u, 1))
    kept = kept_digits([*digits, tx, r, u, v], keep_threads=True)
    return Proposal(
        "columns",
        (("threads", lanes), ("lanes", lanes), ("unroll", steps), ("vector", width), *_flag("in_step", in_step)),
        kept,
        anchors(situation, splits),
        loops=("r",) if r in kept else (),
        guards=situation.divisible(inner.extent, width),
        in_step=("r",) if in_step and r in kept else (),
    )
