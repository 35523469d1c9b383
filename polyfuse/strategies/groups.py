"""Reductions over short rows and over what lies behind them, beside each other in memory: groups of channels.

    s[i, g]:  g = b0*TX + tx,  k = V*c + v,  j = share*b1 + R*TY*r + TY*u + ty      c, u, v in registers

A thread takes the short rows of one group whole, neighbouring threads those of neighbouring groups, so that a warp
reads what is contiguous; a line that it touches several times is in the first-level cache from the first time on.
"""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.places.proposal import Combination, Proposal
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.shares import SHARES, combination, share_of, words_of
from polyfuse.strategies.situation import (
    Situation,
    block_digits,
    loop,
    mixed,
    power_above,
    power_below,
    slot,
    thread,
)

THREADS = 256
"""Of a block: means of 32 groups of 10 channels in 32 x 64 x 64 pixels take 46 us on an H200, where planes that a
cluster holds, 40 bytes of each pixel, take 87 to 90; of 8 channels 39 us, of 16 in 32 x 64 x 40 pixels 48."""
LOADED = 32
"""Words that a thread loads in one trip, at most."""
SHORT = 16
"""Elements of a row up to which a thread takes it alone."""


def groups(situation: Situation) -> list[Proposal]:
    """Proposals for groups that reduce two classes, the contiguous one of which is short."""
    over = [a for a in situation.axes if a.reduced_by]
    inner = situation.inner
    if situation.target.kind == "cpu" or situation.scans or inner not in over or len(over) != 2:
        return []
    size = inner.size(situation.hints)
    beside = next((a for a in situation.axes if not a.reduced_by and situation.steps.get(a.number) == size), None)
    if beside is None or not inner.extent.is_constant or size > SHORT:
        return []
    outer = next(a for a in over if a is not inner)
    found = [_groups(situation, inner, outer, beside, waves) for waves in (0, 1, 4)]
    return [p for p in found if p is not None]


def _groups(
    situation: Situation, inner: AxisClass, outer: AxisClass, beside: AxisClass, waves: int
) -> Proposal | None:
    """`waves`: deal the outer class to blocks as well; None where that leaves one share."""
    size, width = inner.size(situation.hints), situation.width(inner.extent, flat=False)
    chunks = -(-size // width)
    threads = power_below(situation.tiles.get("threads", THREADS))
    lanes = min(situation.target.warp, threads, power_above(beside.size(situation.hints)))
    rows = threads // lanes
    unroll = situation.tiles.get("unroll") or max(1, power_below(LOADED // (chunks * width)))
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, rows)
    u, c, v = slot("u", unroll), slot("c", chunks), slot("v", width)
    parallel = situation.nearest(a for a in situation.axes if a is not inner and a is not outer)
    digits, splits = block_digits(parallel, {beside.number: lanes})
    splits[beside.number] += mixed((tx, 1))
    parameters = [("threads", threads), ("lanes", lanes), ("unroll", unroll), ("vector", width)]
    r, combines, dealt, share = loop("r", outer.extent.ceildiv(rows * unroll)), dict[str, Combination](), None, 0
    if waves:
        found = share_of(situation, outer, digits, rows * unroll, waves)
        if found is None:
            return None
        dealt, steps = found
        share, r = steps * rows * unroll, loop("r", Affine.of(steps))
        parameters.append(("share", share))
        combines = {dealt.name: combination(dealt, ty, situation, max(1, SHARES // words_of(situation, 1)))}
        digits.append(dealt)
    splits[outer.number] = mixed((dealt, share), (r, rows * unroll), (u, rows), (ty, 1))
    splits[inner.number] = mixed((c, width), (v, 1))
    kept = kept_digits([*digits, tx, ty, r, u, c, v], keep_threads=True)
    return Proposal(
        "groups",
        tuple(parameters),
        kept,
        anchors(situation, splits),
        loops=("r",) if r in kept else (),
        combines=combines,
    )
