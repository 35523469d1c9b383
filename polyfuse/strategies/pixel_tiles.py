"""Transposes of short rows, as images turned by a quarter: tiles whose elements are rows of a few, in shared memory.

z[i, j, c] = x[j, i, c]      i = 64*b1 + 16*q + 4*wy + u,  j = 128*b0 + 4*tx + v,  c and u in registers

A row that is no whole sector leaves the rest of it to blocks far away, where neighbours in memory are read
along another dimension than they are written.  Four pixels of three bytes are three words: shared memory is put and got
by words, for four pixels side by side of each of four rows, which a thread turns around in its registers.  The lanes
of a warp lie along what is written: its stores are whole lines of a row, though lanes wait for each other's banks.  On
an H200, 201 MB turned by a quarter, as bytes, bfloat16 and float32: 114, 111 and 103 us so, of which 94 are the bytes;
179, 144 and 169 where a warp is 4 to 16 lanes along what is written, in accesses of eight bytes.

z[c, j, i] = x[i, j, c]      the same, c no row of what is written: 128 x 80 x 1480 x 4 float32, its last axis in front
                             of all others reversed, 126 us, 150 in threads that have four elements of each of eight
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from polyfuse.affine import Affine
from polyfuse.banks import WARP, WORD
from polyfuse.places.pitches import whole_words
from polyfuse.places.proposal import Proposal, Staging
from polyfuse.scop import Read
from polyfuse.spans import MOST_SLOTS
from polyfuse.strategies.block_order import names_of_blocks
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import SECTOR
from polyfuse.strategies.pointwise import anchors, exactly, kept_digits
from polyfuse.strategies.situation import Situation, block, mixed, power_above, slot, thread
from polyfuse.strategies.whole import MOST_COLOURS

THREADS = 128
"""Of a block.  On an H200, a quarter turn of 201 MB takes 114 us as bytes and 103 as float32, 120 and 110 with twice as
many; as bfloat16, of which each is a word in shared memory, 139 and 111.  Packed there as in memory, they take longer:
3 x 4665 x 92 x 7 x 11 to 11 x 7 x 4665 x 3 x 92 197 us, 165 so (`pixels` of
benchmarks/results/packed_tiles_h200.json)."""
STORED = 8
"""Bytes of a row that a thread writes at once, of pixels that are a power of two; of others words.  On an H200, 268 MB
of four bytes a pixel: 131 us in pairs, 135 to 137 in fours."""
LONG = 8
"""Bytes of a row up to which elements may move one by one: the middle axes of 566 x 287 x 123 x 5 bfloat16 take an H100
288 us so, 186 where each thread of a block has an element of each of 16 rows."""
MOST_SHARED = 40 << 10
"""Bytes of shared memory of a tile."""
PIECE = 128
"""Bytes of a tile along what is read in rows, at least: a line of the cache."""


def pixel_tiles(situation: Situation) -> list[Proposal]:
    """Proposals for elementwise groups in which rows of a few elements are read in another order than written."""
    if situation.reductions or situation.scans or situation.target.kind == "cpu" or not situation.has_much:
        return []
    axes = situation.classes.statement(situation.lead)
    if len(axes) < 3 or situation.tiles or len(set(axes)) < len(axes) or set(situation.axes) != set(axes):
        return []
    found = []
    for row in dict.fromkeys((axes[-1], *_read_in_rows(situation))):
        along = axes[-2] if row is axes[-1] else axes[-1]
        crossing = _crossing(situation, along, row) if _is_short(situation, row, along, row is axes[-1]) else {}
        outer = next(iter(crossing.values()), None)
        if outer is not None and all(axis is outer for axis in crossing.values()):
            found.append(_proposal(situation, axes, along, row, outer, list(crossing)))
    return found


def _is_short(situation: Situation, row: AxisClass, along: AxisClass, is_last: bool) -> bool:
    """Whether rows are so short that a thread has them whole.  `is_last`: they are written as rows, too."""
    count, size = row.size(situation.hints), max(situation.long_itemsizes, default=1)
    if not 1 < count <= MOST_COLOURS or row is along:
        return False
    if is_last and (count * size >= SECTOR or count * size == situation.target.vector_bytes):
        return False
    whole = count * size % WORD == 0 or along.size(situation.hints) % (WORD // size) == 0
    return whole or not is_last or count * size <= LONG


def _read_in_rows(situation: Situation) -> Iterator[AxisClass]:
    """The classes that loaded arrays of three dimensions and more lie along."""
    for statement in situation.group.statements():
        axes = situation.classes.statement(statement)
        for read in statement.reads:
            if read.source in situation.group.loads and len(read.index) > 2 and read.affine:
                last = _only(axes, read, -1)
                if last is not None:
                    yield last


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


@dataclass(frozen=True, slots=True)
class _Tile:
    """How the threads of a block share a tile: each has `vector` pixels of `together` neighbouring rows, in `steps`."""

    vector: int
    together: int
    far: int  # warps along what is written in rows
    below: int  # warps along what is read in rows
    steps: int

    @property
    def columns(self) -> int:
        return self.far * WARP * self.vector

    @property
    def rows(self) -> int:
        return self.below * self.together

    @property
    def threads(self) -> int:
        return self.far * self.below * WARP


def _tile(situation: Situation, along: AxisClass, row: AxisClass, values: list[int], is_last: bool) -> _Tile:
    count, size = row.size(situation.hints), max(situation.long_itemsizes, default=1)
    held = max(situation.group.scop.dtype(value).compute.itemsize for value in values)
    read = max(situation.group.scop.dtype(value).itemsize for value in values)
    written = count if is_last else 1  # elements that lie side by side in the order of results
    vector = max(1, WORD // size if written == 1 or count & (count - 1) else STORED // (size * count))
    together, tile = whole_words(count, held), max(32, power_above(PIECE // (count * read)))
    while along.size(situation.hints) % vector or together * vector * count > MOST_SLOTS:
        vector //= 2
    while tile > together and tile * count * WARP * vector * held > MOST_SHARED:
        tile //= 2
    far = max(1, power_above(PIECE // (written * size * vector)) // WARP)
    threads = THREADS if held == read else 2 * THREADS  # which hold wider words than they move
    below = max(1, min(tile // together, threads // (WARP * far)))
    while tile * vector * count > MOST_SLOTS * below and below < tile // together:
        below *= 2  # what a thread moves at once is known element by element
    return _Tile(vector, together, far, below, tile // (below * together))


def _proposal(
    situation: Situation,
    axes: tuple[AxisClass, ...],
    along: AxisClass,
    row: AxisClass,
    outer: AxisClass,
    values: list[int],
) -> Proposal:
    t = _tile(situation, along, row, values, row is axes[-1])
    count = row.size(situation.hints)
    tx, wx, wy = thread("tx", 1, WARP), thread("wx", WARP, t.far), thread("wy", WARP * t.far, t.below)
    q, u, v, c = slot("q", t.steps), slot("u", t.together), slot("v", t.vector), slot("c", count)
    tile = t.steps * t.rows
    rest = [axis for axis in reversed(axes) if axis not in (along, outer, row)]
    name = names_of_blocks(situation, {along: t.columns, outer: tile, row: count} | dict.fromkeys(rest, 1))
    b0, b1 = block(name[along], along.extent.ceildiv(t.columns)), block(name[outer], outer.extent.ceildiv(tile))
    splits = {
        along.number: mixed((b0, t.columns), (wx, WARP * t.vector), (tx, t.vector), (v, 1)),
        outer.number: mixed((b1, tile), (q, t.rows), (wy, t.together), (u, 1)),
        row.number: mixed((c, 1)),
    }
    others = []
    for axis in rest:
        others.append(block(name[axis], axis.extent))
        splits[axis.number] = mixed((others[-1], 1))
    read = words = max(whole_words(count, situation.group.scop.dtype(value).itemsize) for value in values)
    while situation.size(outer.extent) % words:
        words //= 2
    return Proposal(
        "pixel_tiles",
        (("threads", t.threads), ("tile", tile), ("columns", t.columns), ("vector", t.vector)),
        kept_digits([b0, b1, *others, tx, wx, wy, q, u, v, c], keep_threads=True),
        anchors(situation, splits),
        staging=dict.fromkeys(values, Staging(rows=read)),
        guards=(
            *situation.divisible(along.extent, t.vector),
            *(situation.divisible(outer.extent, words) if read > 1 else ()),
            *exactly(row.extent, count),
        ),
        border=True,
    )
