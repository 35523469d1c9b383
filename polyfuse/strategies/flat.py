"""Whole arrays walked as one row, of which every vector is aligned whatever the length of their rows; what rows share
is read where the walk is in its row (`planning.flattening`).

    y[k] = f(x[k], b[k mod N])        k = U*T*V*b0 + T*V*u + V*t + v
"""

from __future__ import annotations

from collections.abc import Iterator

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.places.proposal import Proposal
from polyfuse.strategies.pointwise import BYTES_IN_FLIGHT, THREADS, anchors, kept_digits
from polyfuse.strategies.situation import Situation, block, mixed, power_below, slot, thread
from polyfuse.unravelled import Unravelled

WORD = 4  # bytes


def flat(situation: Situation) -> Iterator[Proposal]:
    """Proposals for a group over one dimension: in the widest vectors, and in narrower ones, whose single elements of
    what rows share lie in fewer lines."""
    if len(situation.axes) != 1:
        return  # results that share nothing
    axis = situation.axes[0]
    widest, itemsize = situation.width(axis.extent, flat=True), max(situation.long_itemsizes)
    rows = _rows(situation)
    for width in (widest, widest // 2):
        if width * itemsize < WORD or any(situation.size(n) < width for n in rows):
            continue
        threads = power_below(situation.tiles.get("threads", THREADS))
        unroll = situation.tiles.get("unroll", max(1, BYTES_IN_FLIGHT // (itemsize * width)))
        b = block("b0", axis.extent.ceildiv(unroll * threads * width))
        t, u, v = thread("t", 1, threads), slot("u", unroll), slot("v", width)
        place = mixed((b, unroll * threads * width), (u, threads * width), (t, width), (v, 1))
        yield Proposal(
            "flat",
            (("threads", threads), ("unroll", unroll), ("vector", width)),
            kept_digits([b, t, u, v], keep_threads=True),
            anchors(situation, {axis.number: place}),
            guards=_longer(rows, width),
            border=True,
        )


def _rows(situation: Situation) -> tuple[Affine, ...]:
    """The lengths of the rows that the walk goes through."""
    entries = [e for s in situation.group.statements() for read in s.reads for e in read.index]
    return tuple(dict.fromkeys([e.extent for e in entries if isinstance(e, Unravelled)]))


def _longer(rows: tuple[Affine, ...], width: int) -> tuple[AnyGuard, ...]:
    """The guards that a vector lies in two rows at most."""
    return tuple([Guard(n - width) for n in rows if not n.is_constant])
