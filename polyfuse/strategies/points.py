"""Reductions and scans over rows of points, as clouds, trajectories and rays: lanes have whole points.

    s[i, c] = sum_k x[i, k, c]      i = TY*b + ty,   k = TX*N*(u + U*r) + N*tx + n      c, n and u in registers

What is short beside the row, as the coordinates of a point, is whole in a thread: lanes along it would be idle, and
blocks along it would each read all of the row's cache lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, prod

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.columns import WORD
from polyfuse.strategies.pointwise import anchors, exactly, kept_digits
from polyfuse.strategies.situation import Situation, block_digits, loop, mixed, power_above, power_below, slot, thread

MOST_SHORT, MOST_RESULTS = 8, 16
"""Elements of a class that is whole in a thread, and of all of them together."""
THREADS, LANES = 128, 512
"""Threads of a block, and of a row at most."""
HELD = 32
"""Words that a thread has of the longest array."""


def points(situation: Situation) -> list[Proposal]:
    """Proposals for groups that reduce or scan a class beside which, nearer in memory, there are short ones alone."""
    inner = next((a for a in situation.axes if situation.steps.get(a.number) == 1), None)
    over = [a for a in situation.axes if a.reduced_by or a.scanned_by]
    if situation.target.kind != "cuda" or situation.tiles or inner is None or not over:
        return []
    if any(s.lags for s in situation.scans):
        return []
    main = max(over, key=lambda a: (a.size(situation.hints), -a.number))
    step = situation.steps.get(main.number, 0)
    far = [a for a in situation.axes if a is not main and situation.steps.get(a.number, 0) > step]
    short = [a for a in situation.axes if a is not main and a not in far]
    counts = [a.size(situation.hints) for a in short]
    if not far or main is inner or main.run or inner not in short:
        return []
    if any(a in over for a in far) or any(a.scanned_by for a in short):
        return []
    roots = [s for s in situation.group.statements() if s.id in situation.group.roots]
    if any(a not in situation.classes.statement(root) for root in roots for a in far):
        return []
    if max(counts) > MOST_SHORT or prod(counts) > MOST_RESULTS:
        return []
    if main.size(situation.hints) <= MOST_SHORT and not situation.scans:  # a thread has the whole of these
        return []
    return list(_proposals(situation, main, short, far, inner.size(situation.hints)))


def _proposals(
    situation: Situation, main: AxisClass, short: Sequence[AxisClass], far: Sequence[AxisClass], row: int
) -> Iterator[Proposal]:
    """One in which lanes have neighbouring points, one in which each has as many as are whole accesses."""
    size, n = main.size(situation.hints), max(situation.long_itemsizes, default=WORD)
    vector = situation.target.vector_bytes // n
    whole = min(situation.width(main.extent, flat=False), vector // gcd(row, vector))
    for width in sorted({1, whole}):
        words = width * row * max(1, n // WORD)
        most = 1 if main.scanned_by else max(1, power_below(HELD // words))
        fewest = min(situation.target.warp, power_above(-(-size // width)))
        lanes = min(LANES, max(fewest, power_above(-(-size // (width * most)))))
        unroll = min(most, power_above(-(-size // (lanes * width))))
        yield _proposal(situation, main, short, far, (lanes, unroll, width))


def _proposal(
    situation: Situation,
    main: AxisClass,
    short: Sequence[AxisClass],
    far: Sequence[AxisClass],
    shape: tuple[int, int, int],
) -> Proposal:
    lanes, unroll, width = shape
    size, span = main.size(situation.hints), lanes * unroll * width
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, max(1, THREADS // lanes))
    u, n, r = slot("u", unroll), slot("n", width), loop("r", main.extent.ceildiv(span))
    whole = [slot(f"o{k}", axis.size(situation.hints)) for k, axis in enumerate(short)]
    parallel = situation.nearest(far)
    digits, splits = block_digits(parallel, {a.number: ty.count for a in parallel[:1]}, ty)
    splits[main.number] = mixed((r, span), (u, lanes * width), (tx, width), (n, 1))
    splits |= {axis.number: mixed((o, 1)) for axis, o in zip(short, whole, strict=True)}
    if size <= span:
        r = loop("r", Affine.of(1))
        splits[main.number] = mixed((u, lanes * width), (tx, width), (n, 1))
    return Proposal(
        "points",
        (("threads", lanes * ty.count), ("lanes", lanes), ("unroll", unroll), ("vector", width)),
        kept_digits([*digits, tx, ty, r, u, n, *whole], keep_threads=True),
        anchors(situation, splits),
        loops=("r",) if size > span else (),
        guards=(
            *situation.divisible(main.extent, width),
            *(g for a, o in zip(short, whole, strict=True) for g in exactly(a.extent, o.count)),
            *(situation.fits(main.extent, span) if size <= span else ()),
        ),
    )
