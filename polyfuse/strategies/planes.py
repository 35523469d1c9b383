"""Sums over the contiguous class and an outer one, as statistics of channels: rows side by side in a block.

    s[i]:  i = b0,  k = S*b1 + TY*U*q + TY*u + ty  of the outer class,  j = TX*V*(c + C*r) + V*tx + v

A row alone would leave threads of its block idle where it is short, and blocks where there are few results: S, a share
of the outer class, deals that to blocks as well.  What comes back to its elements is held instead (`held.py`).
"""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.bindings import Guard
from polyfuse.places.proposal import Combination, Proposal
from polyfuse.strategies.atomics import ATOMIC
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.held import comes_back
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.reduction import outer_loops
from polyfuse.strategies.shares import WAVES, combination, share_of
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
    found = [_planes(situation, inner, over, waves) for waves in (*WAVES, 0)]
    return [p for p in found if p is not None]


def _planes(situation: Situation, inner: AxisClass, over: list[AxisClass], waves: int) -> Proposal | None:
    """Rows that are reduced together, side by side in a block where one alone would leave threads idle; their class is
    dealt to blocks, to `waves` of them, or not (0)."""
    outer = max((a for a in over if a is not inner), key=lambda a: (a.size(situation.hints), -a.number))
    if waves and (comes_back(situation, [outer]) or situation.tiles and not {"share", ATOMIC} & situation.tiles.keys()):
        return None
    width = row_width(situation, inner.extent)
    vectors = -(-inner.size(situation.hints) // width)
    threads = power_below(situation.tiles.get("threads", THREADS))
    lanes = min(threads, power_below(situation.tiles.get("lanes", power_above(vectors))))
    chunks = min(MOST_CHUNKS, -(-vectors // lanes))
    rows, unroll = threads // lanes, situation.tiles.get("unroll") or max(1, AT_ONCE // (chunks * width))
    if outer.size(situation.hints) < rows * unroll:
        return None
    tx, ty, c, v = thread("tx", 1, lanes), thread("ty", lanes, rows), slot("c", chunks), slot("v", width)
    span, is_long = lanes * chunks * width, vectors > lanes * chunks
    u, r = slot("u", unroll), loop("r", inner.extent.ceildiv(span))
    digits, splits = block_digits(situation.nearest(a for a in situation.axes if a not in over), {})
    rest = [a for a in over if a is not inner and a is not outer]
    shared, steps, share = None, outer.extent.ceildiv(rows * unroll), 1
    parameters = [("threads", threads), ("lanes", lanes), ("chunks", chunks), ("unroll", unroll), ("vector", width)]
    combines: dict[str, Combination] = {}
    if waves:
        found = share_of(situation, outer, digits, rows * unroll, waves)
        if found is None:
            return None
        shared, steps, share = found[0], Affine.of(found[1]), rows * unroll * found[1]
        combines = {shared.name: combination(shared, tx if lanes >= rows else ty, situation)}
        parameters.append(("share", share))
        digits.append(shared)
    loops, loop_splits = outer_loops(rest, digits)
    loops += [loop(f"k{len(rest)}", steps), *([r] if is_long else [])]
    splits[outer.number] = mixed((shared, share), (loop(f"k{len(rest)}", steps), rows * unroll), (u, rows), (ty, 1))
    splits[inner.number] = mixed((r if is_long else None, span), (c, lanes * width), (tx, width), (v, 1))
    kept = kept_digits([*digits, tx, ty, *loops, u, c, v], keep_threads=True)
    fits = () if is_long or inner.extent.is_constant else (Guard(Affine.of(span) - inner.extent),)
    return Proposal(
        "planes",
        tuple(parameters),
        kept,
        anchors(situation, splits | loop_splits),
        loops=tuple(d.name for d in loops if d in kept),
        guards=(*situation.divisible(inner.extent, width), *fits),
        combines=combines,
    )
