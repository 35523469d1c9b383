"""Transposes of short rows, as images turned by a quarter: tiles whose elements are rows of a few, in shared memory.

z[i, j, c] = x[j, i, c]      i = 64*b1 + 16*q + ty,  j = 128*b0 + 8*tx + v,  c in the registers of a thread

A row that is shorter than half a sector leaves the rest of it to blocks far away, where neighbours in memory are read
along another dimension than they are written.
"""

from __future__ import annotations

from math import gcd

from polyfuse.affine import Affine
from polyfuse.places.boxes import WARP, WORD, row_words
from polyfuse.places.proposal import Proposal, Staging
from polyfuse.scop import Read
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import anchors, exactly, kept_digits
from polyfuse.strategies.situation import Situation, block, mixed, power_above, power_below, slot, thread
from polyfuse.strategies.whole import MOST_COLOURS, PIXEL_BYTES

THREADS, LANES = (256, 512), 16
PIECE = 128
"""Bytes of a tile along what is read in rows, at least: a line of the cache."""


def pixel_tiles(situation: Situation) -> list[Proposal]:
    """Proposals for elementwise groups in which rows of a few elements are read in another order than written."""
    if situation.reductions or situation.scans or situation.target.kind == "cpu" or not situation.has_much:
        return []
    axes = situation.classes.statement(situation.lead)
    if len(axes) < 3 or situation.tiles or len(set(axes)) < len(axes) or set(situation.axes) != set(axes):
        return []
    *_, along, row = axes
    count, size = row.size(situation.hints), max(situation.long_itemsizes, default=1)
    if not 1 < count <= MOST_COLOURS or count * size >= situation.target.vector_bytes:
        return []
    crossing = _crossing(situation, along, row)
    outer = next(iter(crossing.values()), None)
    if outer is None or any(axis is not outer for axis in crossing.values()):
        return []
    return [_proposal(situation, axes, outer, list(crossing), threads) for threads in THREADS]


def _crossing(situation: Situation, along: AxisClass, row: AxisClass) -> dict[int, AxisClass]:
    """By loaded array: the class that its rows follow each other along, where that is not `along`.  Empty where an
    array is read in both orders."""
    found: dict[int, AxisClass] = {}
    straight: set[int] = set()
    for statement in situation.group.statements():
        axes = situation.classes.statement(statement)
        for read in statement.reads:
            if read.source not in situation.group.loads or len(read.index) < 3 or not read.affine:
                continue
            before, last = (_only(axes, read, d) for d in (-2, -1))
            if last is row and before is not None and before is not along:
                found[read.source] = before
            else:
                straight.add(read.source)
    return found if straight.isdisjoint(found) else {}


def _only(axes: tuple[AxisClass, ...], read: Read, d: int) -> AxisClass | None:
    """The class that one entry of an index steps along, by one element."""
    entry = read.index[d]
    terms = [(a, f) for a, f in entry.terms if str(a).startswith("%")] if isinstance(entry, Affine) else []
    return axes[int(str(terms[0][0])[1:])] if len(terms) == 1 and abs(terms[0][1]) == 1 else None


def _proposal(
    situation: Situation, axes: tuple[AxisClass, ...], outer: AxisClass, values: list[int], threads: int
) -> Proposal:
    along, row = axes[-2], axes[-1]
    count, size = row.size(situation.hints), max(situation.long_itemsizes, default=1)
    held = max(situation.group.scop.dtype(value).compute.itemsize for value in values)
    whole = gcd(count, situation.target.vector_bytes)
    vector = PIXEL_BYTES // size if whole < count else situation.target.vector_bytes // (size * count)
    while along.size(situation.hints) % vector:
        vector //= 2
    near = max(1, min(WARP, power_below(WARP // (vector * row_words(count, held)))))
    tile = max(32, power_above(PIECE // (count * size)))
    columns = vector * max(near, LANES, power_above(PIECE // (count * size * vector)))
    together = _whole_words(count * held)
    beside = min(WARP // near, tile // together)
    lanes = near * beside
    far = columns // (near * vector)
    below = min(tile // (beside * together), max(1, threads // (lanes * far)))
    tx, ty = thread("tx", 1, near), thread("ty", near, beside)
    wx, wy = thread("wx", lanes, far), thread("wy", lanes * far, below)
    q, u = slot("q", tile // (below * beside * together)), slot("u", together)
    v, c = slot("v", vector), slot("c", count)
    b0, b1 = block("b0", along.extent.ceildiv(columns)), block("b1", outer.extent.ceildiv(tile))
    rows = below * beside * together
    splits = {
        along.number: mixed((b0, columns), (wx, near * vector), (tx, vector), (v, 1)),
        outer.number: mixed((b1, tile), (q, rows), (wy, beside * together), (ty, together), (u, 1)),
        row.number: mixed((c, 1)),
    }
    others = []
    for k, axis in enumerate(a for a in axes if a not in (along, outer, row)):
        others.append(block(f"b{k + 2}", axis.extent))
        splits[axis.number] = mixed((others[-1], 1))
    read = _whole_words(count * size)
    staging = Staging(rows=read)
    words = situation.divisible(outer.extent, read) if situation.size(outer.extent) % read == 0 else ()
    return Proposal(
        "pixel_tiles",
        (("threads", lanes * far * below), ("tile", tile), ("columns", columns), ("vector", vector)),
        kept_digits([b0, b1, *others, tx, ty, wx, wy, q, u, v, c], keep_threads=True),
        anchors(situation, splits),
        staging=dict.fromkeys(values, staging),
        guards=(*situation.divisible(along.extent, vector), *words, *exactly(row.extent, count)),
        border=True,
    )


def _whole_words(size: int) -> int:
    """Rows of so many bytes that are whole words together."""
    return WORD // gcd(size, WORD)
