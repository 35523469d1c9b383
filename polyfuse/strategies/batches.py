"""Reductions and scans over a class between two others, of which the inner one is short: threads have whole columns,
and a block those of several batches.

    s[i, j] = sum_k x[i, k, j]      i = TY*b1 + ty,  j = TX*V*b0 + V*tx + v,  k = U*r + u      u in registers, r a loop

Threads that share a column would each have few rows of it, and lanes beyond the inner class none: of 53418 x 52 x 18
float32, softmax over the middle takes an H100 271 us in blocks of one batch, where a copy takes 132.
"""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.places.proposal import Proposal
from polyfuse.schedule import Digit
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.reads import loaded_along
from polyfuse.strategies.situation import Situation, block_digits, loop, mixed, power_below, slot, thread

THREADS = 128
"""Of a block, about: lanes of whole batches."""
LANES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36, 40, 48, 56, 64)
"""Of a batch: ends of classes, of which each has a kernel."""
MOST_ROWS = 512
"""Of a column that one thread has: there are few threads where columns are long."""
Dealt = tuple[list[Digit], dict[int, Affine], tuple[AnyGuard, ...]]
"""Digits, what they say of each class, by its number, and guards."""

PIECE = 64
"""Bytes of a batch's row, at least: lanes of many batches touch a line of each in every step.  On an H100, prefixes
along the middle of 89285 x 140 x 4 float32 take 512 us in accesses of 16 bytes, 234 in single elements, 140 in columns
of a warp; of 32552 x 64 x 24 139."""
WHOLE = 512
"""Bytes of a batch, up to which its lines are still there when the next step of a prefix touches them.  On an H100,
prefixes along the middle of 1092266 x 6 x 10 float32 222 us, which other strategies take 660 to 1400 for; reductions of
so few rows have others, and products of 131072 x 8 x 21 bfloat16 take 373 us so, 165 in tiles."""
IN_FLIGHT, MOST_STEPS = 64, 16
"""Bytes of a column that a thread loads at once, and rows at most."""


def batches(situation: Situation) -> list[Proposal]:
    """Proposals for groups that reduce or scan one class beside which there is a short one, nearer in memory."""
    over = [a for a in situation.axes if a.reduced_by or a.scanned_by]
    inner = situation.inner
    if not situation.has_much or situation.tiles or inner is None or len(over) != 1 or inner in over:
        return []
    main = over[0]
    parallel = [a for a in situation.axes if a not in (inner, main)]
    if not parallel or main.run or main.size(situation.hints) > MOST_ROWS or any(s.lags for s in situation.scans):
        return []
    matrix = {main, inner}
    if any(matrix <= along and not along & set(parallel) for along in loaded_along(situation)):
        return []  # all batches share a matrix, which each thread would read again: `row_tiles`, `contraction`
    piece = inner.size(situation.hints) * min(situation.long_itemsizes, default=1)
    is_near = bool(situation.scans) and main.size(situation.hints) * piece <= WHOLE
    if piece < PIECE and not is_near:
        return []
    widths = dict.fromkeys((situation.width(inner.extent, flat=False), 1))
    return [p for width in widths if (p := _proposal(situation, inner, main, width)) is not None]


def _proposal(situation: Situation, inner: AxisClass, main: AxisClass, width: int) -> Proposal | None:
    found = deal(situation, inner, main, width)
    if found is None:
        return None
    digits, splits, guards = found
    itemsize = min(situation.long_itemsizes, default=1)
    size = main.size(situation.hints)
    steps = min(MOST_STEPS, power_below(max(1, IN_FLIGHT // (width * itemsize))), power_below(size))
    u, v = slot("u", steps), slot("v", width)
    r = loop("r", main.extent.ceildiv(steps))
    splits[main.number] = mixed((r, steps), (u, 1))
    kept = kept_digits([*digits, r, u, v], keep_threads=True)
    lanes, threads = digits[-2].count, digits[-2].count * digits[-1].count
    return Proposal(
        "batches",
        (("threads", threads), ("lanes", lanes), ("unroll", steps), ("vector", width)),
        kept,
        anchors(situation, splits),
        loops=("r",) if r in kept else (),
        guards=guards,
    )


def deal(
    situation: Situation, inner: AxisClass, main: AxisClass, width: int
) -> Dealt | None:
    """Blocks and threads of whole batches, vectors of `width` side by side in each: their digits, threads last, what
    they say of all classes but `main`, and guards.  None where a batch has more lanes than a block of several should.
    """
    size = inner.size(situation.hints)
    lanes = next((n for n in LANES if n * width >= size), 0)
    parallel = situation.nearest(a for a in situation.axes if a not in (inner, main))
    if not lanes or not parallel:
        return None
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, max(1, THREADS // lanes))
    digits, splits = block_digits(parallel, {parallel[0].number: ty.count}, ty)
    splits[inner.number] = mixed((tx, width), (slot("v", width), 1))
    guards = list(situation.divisible(inner.extent, width))
    if not inner.extent.is_constant:
        fewer = max((n for n in LANES if n < lanes), default=0)
        guards += [Guard(inner.extent - fewer * width - 1, advisory=True), Guard(lanes * width - inner.extent)]
    return [*digits, tx, ty], splits, tuple(guards)
