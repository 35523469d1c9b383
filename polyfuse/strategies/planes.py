"""Sums over the contiguous class and an outer one, as statistics of channels: rows side by side in a block.

    s[i]:  i = TB*b0 + tb,  k = S*b1 + TY*U*q + TY*u + ty  of the outer class,  j = TX*V*(c + C*r) + V*tx + v

TB rows that follow each other in memory are those of as many results; short ones, each of another block, would be parts
of the same sectors, which blocks come to at different times.  A row alone would leave threads of its block idle where
it is short, and blocks where there are few results: S, a share of the outer class, deals that to blocks as well.  What
comes back to its elements is held instead (`held.py`).
"""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.bindings import Guard
from polyfuse.places.proposal import Combination, Proposal
from polyfuse.strategies.atomics import ATOMIC
from polyfuse.strategies.chains import at_once
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import WORD
from polyfuse.strategies.held import comes_back
from polyfuse.strategies.nesting import outer_loops
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.shares import WAVES, combination, keeps, share_of
from polyfuse.strategies.situation import (
    Situation,
    block_digits,
    loop,
    mixed,
    power_above,
    power_below,
    row_width,
    slot,
    thread,
)

PIECE, FULL = 256, 1.1
"""Bytes side by side that a block reads where it has several results, and times the results that there are, that blocks
have threads for.  On an H200, of 200 MB of bfloat16: means of planes of 565 x 12 104 us by single results, by 4, 8 and
16 of a block 67, 60 and 61; of 16 x 8 62 by 8 and by 16, 72 by 32.  Of 5 x 11 148 by 2 results and 178 by 4, which
leave threads without one, where an H100, whose memory is slower, takes 129 by single ones
(benchmarks/results/beside_h100.json)."""
THREADS, MOST_CHUNKS, AT_ONCE = 256, 4, 8
"""Of a block that adds up rows side by side: its threads, the vectors of one row that a thread holds, and the elements
that it has on their way."""


def planes(situation: Situation) -> list[Proposal]:
    """Proposals where there is much to do: with little, other reductions have fewer kernels."""
    if not situation.reductions or situation.scans or not situation.has_much or situation.inner is None:
        return []
    inner, over = situation.inner, [a for a in situation.axes if a.reduced_by]
    if inner not in over or len(over) < 2:
        return []
    counts = {1, _beside(situation, inner, over), _whole(situation, inner, over)}
    found = [_planes(situation, inner, over, waves, n) for n in sorted(counts) for waves in (*WAVES, 0)]
    return [p for p in found if p is not None]


def _beside(situation: Situation, inner: AxisClass, over: list[AxisClass]) -> int:
    """Results of a block whose rows follow each other in memory, so that what it reads is as long as `PIECE`.  Elements
    of less than a word win nothing: planes of 460 x 11 bfloat16 take an H100 108 to 139 us by 8 results, and 122."""
    if "beside" in situation.tiles:
        return power_below(situation.tiles["beside"])
    near = next(iter(situation.nearest(a for a in situation.axes if a not in over)), None)
    width = row_width(situation, inner.extent)
    lanes = power_above(-(-inner.size(situation.hints) // width))
    itemsize = min((situation.scop.dtype(v).itemsize for v in situation.group.loads), default=4)
    if near is None or width * itemsize < WORD:
        return 1
    short = PIECE // max(1, inner.size(situation.hints) * itemsize)
    size, beside = near.size(situation.hints), power_below(max(1, min(short, THREADS // lanes)))
    while beside > 1 and -(-size // beside) * beside > FULL * size:
        beside //= 2
    return beside


def _whole(situation: Situation, inner: AxisClass, over: list[AxisClass]) -> int:
    """Threads for a short class that all sums of a group together go along, though some keep it: where the squares of
    x[i, j, k] are summed as well as its columns, j is to be no loop around reads of a few elements each.  Sums of rows,
    columns and squares of 819200 x 16 x 4 float32 take an H100 98 us so, 576 to 823 with the loop."""
    if len(over) < 3 or len(over) < len(situation.axes) or "beside" in situation.tiles:
        return 1
    outer = max((a for a in over if a is not inner), key=lambda a: (a.size(situation.hints), -a.number))
    near = situation.nearest(a for a in over if a is not inner and a is not outer)[-1]
    return power_above(near.size(situation.hints))


def _planes(situation: Situation, inner: AxisClass, over: list[AxisClass], waves: int, beside: int) -> Proposal | None:
    """Rows that are reduced together, side by side in a block where one alone would leave threads idle; their class is
    dealt to blocks, to `waves` of them, or not (0).  `beside`: results of a block, or threads of it along a class that
    only some reductions keep."""
    outer = max((a for a in over if a is not inner), key=lambda a: (a.size(situation.hints), -a.number))
    if waves and (comes_back(situation, [outer]) or situation.tiles and not {"share", ATOMIC} & situation.tiles.keys()):
        return None
    width = row_width(situation, inner.extent)
    vectors = -(-inner.size(situation.hints) // width)
    threads = power_below(situation.tiles.get("threads", THREADS))
    lanes = min(threads, power_below(situation.tiles.get("lanes", power_above(vectors))))
    chunks = at_once(situation, min(MOST_CHUNKS, -(-vectors // lanes)), width)
    apart = situation.nearest(a for a in situation.axes if a not in over)
    rest = [a for a in over if a is not inner and a is not outer]
    whole = situation.nearest(rest)[-1] if not apart and beside > 1 else None  # has a thread for each of its elements
    beside = min(beside, threads // lanes) if apart or whole else 1
    if whole is not None and whole.size(situation.hints) > beside:
        return None
    rows, unroll = threads // (lanes * beside), situation.tiles.get("unroll") or max(1, AT_ONCE // (chunks * width))
    if outer.size(situation.hints) < rows * unroll:
        return None
    tx, ty, c, v = thread("tx", 1, lanes), thread("ty", lanes * beside, rows), slot("c", chunks), slot("v", width)
    span, is_long = lanes * chunks * width, vectors > lanes * chunks
    u, r = slot("u", unroll), loop("r", inner.extent.ceildiv(span))
    tb = thread("tb", lanes, beside)
    several = {apart[0].number: beside} if apart and beside > 1 else {}
    digits, splits = block_digits(apart, several, tb if several else None)
    shared, steps, share = None, outer.extent.ceildiv(rows * unroll), 1
    parameters = [("threads", threads), ("lanes", lanes), ("chunks", chunks), ("unroll", unroll), ("vector", width)]
    combines: dict[str, Combination] = {}
    if waves:
        found = share_of(situation, outer, digits, rows * unroll, waves)
        if found is None:
            return None
        shared, steps, share = found[0], Affine.of(found[1]), rows * unroll * found[1]
        along = tx if lanes >= rows and not keeps(situation, outer, inner) else ty
        combines = {shared.name: combination(shared, along, situation)}
        parameters.append(("share", share))
        digits.append(shared)
    loops, loop_splits = outer_loops([a for a in rest if a is not whole], digits)
    if whole is not None:
        splits[whole.number] = mixed((tb, 1))
    loops += [loop(f"k{len(rest)}", steps), *([r] if is_long else [])]
    splits[outer.number] = mixed((shared, share), (loop(f"k{len(rest)}", steps), rows * unroll), (u, rows), (ty, 1))
    splits[inner.number] = mixed((r if is_long else None, span), (c, lanes * width), (tx, width), (v, 1))
    parameters += [("beside", beside)] if beside > 1 else []
    kept = kept_digits([*digits, tx, tb, ty, *loops, u, c, v], keep_threads=True)
    most = [] if is_long else [(inner.extent, span)]
    most += [(whole.extent, beside)] if whole is not None else []
    fits = tuple([Guard(Affine.of(n) - extent) for extent, n in most if not extent.is_constant])
    return Proposal(
        "planes",
        tuple(parameters),
        kept,
        anchors(situation, splits | loop_splits),
        loops=tuple(d.name for d in loops if d in kept),
        guards=(*situation.divisible(inner.extent, width), *fits),
        combines=combines,
    )
