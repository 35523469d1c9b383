"""Transposed reads on a CPU core: square tiles that are turned in vector registers.

    z[i, j] = x[i, j] + y[j, i]        i = 64*b1 + 16*d + q,  j = 64*b0 + 16*c + v;  q and v are slots

The read of y has unit stride along q: its lines are loaded whole and transposed (backends/numba_cpu).
"""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal
from polyfuse.schedule import Digit
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.situation import Situation, block, loop, mixed, slot
from polyfuse.strategies.tiles import crossing_reads

BLOCK = 64  # elements along each edge: four cache lines of float32 in a row, so that pages are used more than once
EDGE = 16  # the lanes of a float32 register


def tiles_cpu(situation: Situation) -> list[Proposal]:
    """A proposal for elementwise groups in which some array is read along another class than the rest."""
    if situation.reductions or situation.scans or situation.target.kind != "cpu":
        return []
    axes = situation.classes.statement(situation.lead)
    inner = situation.inner
    covered = {a.number for a in axes}
    if inner is None or inner.number not in covered or any(a.number not in covered for a in situation.axes):
        return []
    crossing = [axis for _, axis in crossing_reads(situation, inner)]
    if not crossing:
        return []
    outer = max(crossing, key=lambda a: (a.weight, -a.number))
    if min(inner.size(situation.hints), outer.size(situation.hints)) < EDGE:
        return []
    q, v = slot("q", EDGE), slot("v", EDGE)
    d, c = loop("d", Affine.of(BLOCK // EDGE)), loop("c", Affine.of(BLOCK // EDGE))
    rest = [a for a in axes if a not in (inner, outer)]
    further = [block(f"b{k + 2}", axis.extent) for k, axis in enumerate(rest)]
    b0, b1 = block("b0", inner.extent.ceildiv(BLOCK)), block("b1", outer.extent.ceildiv(BLOCK))
    splits = {axis.number: mixed((b, 1)) for axis, b in zip(rest, further, strict=True)}
    splits[inner.number] = mixed((b0, BLOCK), (c, EDGE), (v, 1))
    splits[outer.number] = mixed((b1, BLOCK), (d, EDGE), (q, 1))
    digits: list[Digit] = [b0, b1, *further, d, c, q, v]
    return [
        Proposal(
            "tiles",
            (("tile", BLOCK), ("edge", EDGE)),
            kept_digits(digits),
            anchors(situation, splits),
            loops=("d", "c"),
            border=True,
        )
    ]
