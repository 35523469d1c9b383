"""Elementwise groups over rows of several pieces, on a CPU core: a loop for each piece, of some rows at a time.

    y[i, j] = where(j < n, a[i, j], b[i, j - n])      i = R*b0 + k,  j = V*c + v;  the loop over c is cut at n
"""

from __future__ import annotations

from polyfuse.affine import ONE, Affine
from polyfuse.places.proposal import Proposal
from polyfuse.schedule import IN_PIECES, Digit
from polyfuse.strategies.pieces import of_short_rows, order
from polyfuse.strategies.pointwise import anchors, innermost, kept_digits, rows_of_a_block
from polyfuse.strategies.situation import Situation, block, loop, mixed, slot

ROWS = 16
"""Of which a block goes through one piece after the other, so that what it reads of an array lies side by side: 64
arrays of 1000 x 40 float64 take two cores of an EPYC 1.9 ms row by row, 0.7 to 1.1 so."""


def cut_rows(situation: Situation) -> list[Proposal]:
    """The proposal in place of that of `pointwise`; none where rows have one piece, or are long."""
    inner = innermost(situation)
    count = of_short_rows(situation, inner) if inner is not None else 1
    if inner is None or count == 1:
        return []
    width = situation.width(inner.extent, flat=False)
    while width >= 2 * inner.size(situation.hints):
        width //= 2
    others = [a for a in situation.classes.statement(situation.lead) if a is not inner]
    rows = rows_of_a_block(situation, others, ROWS)
    k, c, v = loop("k", Affine.of(rows)), loop("c", inner.extent.ceildiv(width)), slot("v", width)
    digits: list[Digit] = []
    splits = {inner.number: mixed((c, width), (v, 1))}
    for n, axis in enumerate(reversed(others)):  # neighbours in memory follow each other
        step = rows if n == 0 else 1
        digits.append(block(f"b{n}", axis.extent.ceildiv(step)))
        splits[axis.number] = mixed((digits[-1], step), (k if n == 0 else None, 1))
    return [
        Proposal(
            "pointwise",
            ((IN_PIECES, count), ("rows", rows), ("vector", width)),
            kept_digits([*digits, k, c, v]),
            anchors(situation, splits),
            loops=tuple(d.name for d in (k, c) if d.extent != ONE),
            guards=order(situation, inner),
            border=True,
        )
    ]
