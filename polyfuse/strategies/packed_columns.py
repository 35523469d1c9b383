"""Columns of planes that are no whole number of blocks wide: columns of the next plane follow those of one.

    columns   y[i, :, k]: i = b1,  k = V*b0 + v,  j = U*r + u      a thread per V columns: T of these blocks are one

Blocks of 256 threads of which each has columns of one plane have a single thread at work in every third block where
there are 513 columns, and take as long for it.  Here blocks have one thread each, and so many of them are one block of
the device (`KernelSchedule.packed`): a thread divides once to know its plane, and none is idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal
from polyfuse.scalars import CASCADES
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.reduction import MERGED, outer_loops, run_block
from polyfuse.strategies.situation import Situation, block_digits, loop, mixed, power_above, power_below, slot

THREADS = (128, 256)
"""Of a block of the device, as `prefix.THREAD_LANES`."""
SCANNED, SUMMED = 8, 4
"""Elements of a column that a thread loads at once, of prefixes and of sums: as `prefix.THREAD_STEPS` and the blocks of
one plane that `reduction` proposes, whose measurements they are."""

LINE = 128
"""Bytes of a row below which its columns are left to the strategies that take several rows at once, which were measured
(`traffic.SCANNED`): a warp would touch a line for every few of its threads.  Not measured."""
BUSY = 0.5
"""Of the threads that a device holds, from which each may have a sum of its own: others would have several threads for
a sum.  Not measured: sums of 2000 x 50 x 671 float32, 5 times as many, are quicker so (`reduction.FEW_ROWS`)."""


def packed_columns(situation: Situation) -> list[Proposal]:
    """Proposals for groups that reduce or scan along any dimensions but the contiguous one."""
    inner, over = situation.inner, [a for a in situation.axes if a.reduced_by or a.scanned_by]
    if situation.target.kind == "cpu" or inner is None or inner in over or not over or not situation.has_much:
        return []
    planes = situation.nearest(a for a in situation.axes if a not in over and a is not inner)
    if not planes or any(s.lags for s in situation.scans) or situation.scans and len(over) > 1:
        return []
    width = situation.width(inner.extent, flat=False)
    vectors = -(-inner.size(situation.hints) // width)
    device = situation.target.processors * situation.target.threads_per_processor
    if inner.size(situation.hints) * max(situation.long_itemsizes) < LINE:
        return []
    if not situation.scans and vectors * prod(a.size(situation.hints) for a in planes) < BUSY * device:
        return []
    cut = [(n, resident) for n, resident in _shapes(situation) if vectors % min(n, power_above(vectors))]
    return [_packed(situation, inner, over, planes, threads, resident) for threads, resident in cut]


def _shapes(situation: Situation) -> list[tuple[int, int]]:
    """(threads of a block, blocks of a processor that registers have to leave room for): as they come, and all that
    there can be, which may take all columns in one turn."""
    asked, most = situation.tiles, situation.target.threads_per_processor
    if asked:
        count = power_below(min(asked.get("packed", 1), situation.target.threads_per_block))
        resident = max(1, min(asked.get("resident", 1), most // count))
        return [(count, resident)] if count >= situation.target.warp else []
    return [(count, resident) for count in THREADS for resident in (1, most // count)]


def _packed(
    situation: Situation,
    inner: AxisClass,
    over: Sequence[AxisClass],
    planes: Sequence[AxisClass],
    threads: int,
    resident: int,
) -> Proposal:
    *rest, main = sorted(over, key=lambda a: (a.size(situation.hints), -a.number))
    width, steps = situation.width(inner.extent, flat=False), _steps(situation, main)
    digits, splits = block_digits([inner, *planes], {inner.number: width})
    loops, loop_splits = outer_loops(rest, digits)
    outer = run_block(main, digits)
    u, v = slot("u", steps), slot("v", width)
    r = loop("r", (Affine.of(main.run) if main.run else main.extent).ceildiv(steps))
    splits[inner.number] += mixed((v, 1))
    splits[main.number] = mixed((outer, main.run), (r, steps), (u, 1))
    kept = kept_digits([*digits, *loops, r, u, v], keep_threads=True)
    return Proposal(
        "columns",
        (
            *(("threads", threads), ("packed", threads)),
            *([("resident", resident)] if resident > 1 else []),
            *(("unroll", steps), ("vector", width)),
        ),
        kept,
        anchors(situation, splits | loop_splits),
        loops=tuple(d.name for d in [*loops, r] if d in kept),
        guards=situation.divisible(inner.extent, width),
        minimum_blocks=resident,
        packed=threads,
    )


def _steps(situation: Situation, main: AxisClass) -> int:
    """Elements of a column that a thread has on its way."""
    merges = any(s.monoid in CASCADES for s in situation.reductions)
    usual = SCANNED if situation.scans else MERGED if merges else SUMMED
    usual = situation.tiles.get("unroll", usual)
    return usual if main.size(situation.hints) >= usual else 1
