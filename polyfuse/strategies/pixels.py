"""Sums over many short rows of elements that are shorter than a word: a thread has several whole rows at a time.

    s[c] = sum_i x[i, c]        i = share*b + TX*N*U*r + TX*N*u + N*tx + n,   c and n in the registers of a thread

N rows are whole accesses, wherever a single one ends: the means of the colours of an image of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.columns import WORD
from polyfuse.strategies.nesting import outer_loops
from polyfuse.strategies.pointwise import anchors, exactly, kept_digits
from polyfuse.strategies.shares import combination, share_of
from polyfuse.strategies.situation import Situation, block_digits, loop, mixed, power_below, slot, thread
from polyfuse.strategies.whole import MOST_COLOURS, PIXEL_BYTES

THREADS, WAVES = 256, (8, 4, 2)
IN_FLIGHT = 48
"""Bytes that a thread has on its way at least."""


def pixels(situation: Situation) -> list[Proposal]:
    """Proposals for groups that reduce over rows of few elements, which no word divides, one behind the other."""
    inner, over = situation.inner, [a for a in situation.axes if a.reduced_by]
    if situation.target.kind != "cuda" or situation.scans or not over or inner is None or inner in over:
        return []
    count, size = inner.size(situation.hints), max(situation.long_itemsizes, default=WORD)
    main = max(over, key=lambda a: (a.size(situation.hints), -a.number))
    lie = situation.steps.get(inner.number) == 1 and situation.steps.get(main.number) == count
    words = gcd(count * size, WORD) == WORD
    if not lie or words or not 1 < count <= MOST_COLOURS or not situation.has_much:
        return []
    return list(_proposals(situation, inner, main, size))


def _proposals(situation: Situation, inner: AxisClass, main: AxisClass, size: int) -> Iterator[Proposal]:
    """One per number of blocks that share the rows, of which there are as many as `main` has elements."""
    count, over = inner.size(situation.hints), [a for a in situation.axes if a.reduced_by]
    n = slot("n", power_below(situation.tiles.get("rows", PIXEL_BYTES // size)))
    u = slot("u", situation.tiles.get("unroll") or max(1, power_below(IN_FLIGHT // (n.count * count * size))))
    c, tx = slot("c", count), thread("tx", 1, power_below(situation.tiles.get("threads", THREADS)))
    span = tx.count * n.count
    for waves in WAVES:
        parallel = situation.nearest(a for a in situation.axes if a not in over and a is not inner)
        digits, splits = block_digits(parallel, {})
        loops, loop_splits = outer_loops([a for a in over if a is not main], digits)
        found = share_of(situation, main, digits, span * u.count, waves)
        if found is None:
            return
        (b, steps), share = found, found[1] * span * u.count
        r = loop("r", Affine.of(steps))
        splits |= loop_splits | {
            main.number: mixed((b, share), (r, span * u.count), (u, span), (tx, n.count), (n, 1)),
            inner.number: mixed((c, 1)),
        }
        kept = kept_digits([*digits, b, tx, *loops, r, u, n, c], keep_threads=True)
        yield Proposal(
            "pixels",
            (("threads", tx.count), ("unroll", u.count), ("rows", n.count), ("share", share)),
            kept,
            anchors(situation, splits),
            loops=tuple(d.name for d in [*loops, r] if d in kept),
            guards=exactly(inner.extent, count),
            combines={b.name: combination(b, tx, situation)},
            border=True,  # a mask of single elements would take apart what lies side by side
        )
