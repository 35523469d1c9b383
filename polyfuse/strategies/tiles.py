"""Elementwise groups on two-dimensional tiles: transposed reads and stencils through shared memory.

z[i, j] = x[i, j] + y[j, i]        i = 64*b1 + 16*q + ty,  j = 64*b0 + 4*tx + v;  y put by rows, got by columns
u[i, j] = f(x[i-1, j], ...), y[i, j] = g(u[i, j-1], ...)      u (and x) in boxes with a halo; recomputed at their edges
"""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal, Staging
from polyfuse.schedule import Digit
from polyfuse.scop import Read
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.copied_tiles import copied_tiles
from polyfuse.strategies.frames import SECTOR, WORD, sectors
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.situation import Situation, block, mixed, power_above, power_below, slot, thread

TILE, COLUMNS = 64, 64
"""Of a tile that is transposed: elements along what is read in rows, of halves twice as many, and along what is written
in rows.  8192 x 8192 bfloat16 on an H200: 76 us in 128 x 64 with vectors of eight, 81 in 64 x 128, 84 in 64 x 64 with
vectors of four."""
SINGLE_ROWS, SINGLE_COLUMNS = (64, 32), (96, 128)
"""Of a tile that is transposed in single elements: along what is read in rows, of less than a word and of words; along
what is written in rows, whichever leaves less empty.  A row that is not aligned gains from long pieces.  On an H200, in
32 x 96, 32 x 128 and 64 x 64: 95 million float32 to rows of 287 236, 249 and 283 us, of 517 268, 275 and 295, of 1003
266, 262 and 293, x.T * 2 of 8191 x 8193 147, 151 and 170; of bfloat16 in 64 x 128, 32 x 128 and 64 x 64 92, 98 and 97,
of 268 million bytes, kept in rows of whole words, 255, 279 and 279."""
FRAMED_COLUMNS = (64, 96, 128)
"""Of a tile whose pieces of rows are whole sectors, 64 along what is read in rows, in single elements, whichever leaves
less empty.  On an H200, of float32: axes of 401 x 403 x 405 reversed 144 us, 162 without; the last one in front 152
and 168, the middle one behind 133 and 149; 8191 x 8193 turned 131 and 137, 8194 x 8198 136 and 140, the last two axes
of 300 x 511 x 701 208 and 228.  Not of bfloat16: 100 and 103, 89 and 91, 179 and 137; nor of rows of whole vectors:
8196 x 8196 137 and 137, 300 x 511 x 700 times a vector 244 and 240."""
MOST_WHOLE, FEW_LANES, FEW_VECTORS = 192, 16, 8
"""Elements of a class up to which one tile has all of them; lanes or rows of threads that share them, or lanes of
vectors.  On an H100, the last two axes of 41893 x 31 x 77 bfloat16 193 us in tiles of 80 x 32, 262 in 96 x 64."""
FEW_THREADS, OF_A_THREAD = 128, 8
"""Threads of a block with such a tile at least, and elements of each: more blocks wait beside each other."""
THREADS = 256
TRANSPOSING = 512
"""Threads of a block that transposes.  On an H200, beside blocks of 256: 253 us against 270 for 300 x 511 x 700 times a
vector, 190 against 190 to 212 for x + y.T of 8192 x 8192."""
STENCIL_ROWS, STENCIL_COLUMNS = 32, 64


def tiles(situation: Situation) -> list[Proposal]:
    """Proposals for elementwise groups in which some access runs along another class than the rest, or at offsets."""
    if situation.reductions or situation.scans or situation.target.kind == "cpu":
        return []
    axes = situation.classes.statement(situation.lead)
    inner = situation.inner
    covered = {a.number for a in axes}
    if inner is None or inner.number not in covered or any(a.number not in covered for a in situation.axes):
        return []
    found = []
    for along in dict.fromkeys((inner, axes[-1])):  # what most arrays run along, and what is written along
        crossing = crossing_reads(situation, along)
        for outer in sorted({b for _, b in crossing}, key=lambda a: -a.weight)[:1]:
            values = [v for v, b in crossing if b is outer]
            ways = (False, True) if situation.has_much else (False,)
            made = [_transposed(situation, axes, along, outer, values, framed) for framed in ways]
            made += [_transposed(situation, axes, along, outer, values, close=True)] if situation.has_much else []
            made.append(copied_tiles(situation, axes, along, outer, values))
            found += [proposal for proposal in made if proposal is not None]
    neighbours = _neighbours(situation)
    if neighbours and len(axes) >= 2:
        found.append(_stencil(situation, axes, inner, neighbours))
    return found


def _reads(situation: Situation) -> list[tuple[tuple[AxisClass, ...], Read]]:
    return [
        (situation.classes.statement(s), read) for s in situation.group.statements() for read in s.reads if read.index
    ]


def crossing_reads(situation: Situation, inner: AxisClass) -> list[tuple[int, AxisClass]]:
    """Loaded arrays that are read with unit stride along another class than the inner one."""
    found: dict[tuple[int, int], tuple[int, AxisClass]] = {}
    for axes, read in _reads(situation):
        last = read.index[-1]
        if read.source not in situation.group.loads or not isinstance(last, Affine) or not read.affine:
            continue
        along = [axes[int(a[1:])] for a, f in last.terms if isinstance(a, str) and a[0] == "%" and abs(f) == 1]
        elsewhere = {axes[int(n[1:])].number for e in read.index[:-1] if isinstance(e, Affine) for n in _dims(e)}
        if along and along[0].number != inner.number and inner.number in elsewhere:
            found[(read.source, along[0].number)] = (read.source, along[0])
    return list(found.values())


def _dims(entry: Affine) -> list[str]:
    return [n for n in entry.names() if n.startswith("%")]


def _transposed(
    situation: Situation,
    axes: tuple[AxisClass, ...],
    inner: AxisClass,
    outer: AxisClass,
    values: list[int],
    framed: bool = False,
    close: bool = False,
) -> Proposal | None:
    """A block has a tile of two classes, and one element of each other.  `framed`: what it writes of a row are whole
    sectors; None where it is that anyway.  `close`: the tile is no larger than two short classes; None of others."""
    width = 1 if framed else situation.width(inner.extent, flat=False)
    tile, columns = (TILE, _framed_columns(situation, inner)) if framed else _extents(situation, inner, width)
    if close:
        usual, (tile, columns) = (tile, columns), _close(situation, inner, outer, width)
        short = [situation.size(axis.extent) for axis in (inner, outer)]
        if (tile, columns) == usual or situation.tiles or min(short) < FEW_LANES or max(short) > MOST_WHOLE:
            return None  # of fewer a thread has all of them
    most = min(TRANSPOSING, max(FEW_THREADS, power_below(tile * columns // OF_A_THREAD))) if close else TRANSPOSING
    threads = power_below(situation.tiles.get("threads", most))
    side_by_side = columns // width  # no cache puts together what stores leave between them
    lanes = min(threads, side_by_side & -side_by_side)
    most = _lanes_of_a_row(situation, width, values)
    lanes = min(lanes, most) if framed or most < situation.target.warp else lanes
    rows = min(tile & -tile, threads // lanes)
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, rows)
    q, u, v = slot("q", tile // rows), slot("u", columns // (lanes * width)), slot("v", width)
    b1 = block("b1", outer.extent.ceildiv(tile))
    splits = {outer.number: mixed((b1, tile), (q, ty.count), (ty, 1))}
    digits: list[Digit] = []
    for k, axis in enumerate(a for a in axes if a not in (inner, outer)):
        digits.append(block(f"b{k + 2}", axis.extent))
        splits[axis.number] = mixed((digits[-1], 1))
    frame = sectors(situation, inner, splits) if framed else None
    if framed and frame is None:
        return None
    b0 = block("b0", (frame.padded(inner.extent) if frame else inner.extent).ceildiv(columns))
    place = mixed((b0, columns), (u, lanes * width), (tx, width), (v, 1))
    splits[inner.number] = place - frame.shift if frame else place
    staged = situation.widest if framed else width
    while staged > 1 and situation.size(outer.extent) % staged:
        staged //= 2
    guards = frame.guards if frame else situation.divisible(inner.extent, width)
    return Proposal(
        "tiles",
        (
            *(("threads", lanes * rows), ("tile", tile)),
            *([("columns", columns)] if columns != tile or framed else []),
            ("vector", width),
            *([("frames", frame.width)] if frame else []),
        ),
        kept_digits([b0, b1, *digits, tx, ty, q, u, v], keep_threads=True),
        anchors(situation, splits),
        staging={
            value: Staging(
                unless="tx" if lanes > 1 else "v", vector=staged, lanes=_lanes_of_a_row(situation, staged, [value])
            )
            for value in values
        },
        guards=(*guards, *situation.divisible(outer.extent, staged)) if staged > 1 else guards,
    )


FAR = 4
"""Words of a vector from which lanes that have one each, side by side along a row, meet in few banks: of eight words in
four of them.  So many lanes of a warp have one row that it meets all banks.  On an H200, of bfloat16, those that put
and those that get beside each other in rows, and before: 8192 x 8192 turned 70.7 and 74.5 us, the last two axes of 256
x 512 x 768 99.6 and 108.8; 16384 x 8192 bytes, of which four share a word, 115 and 88."""


def _lanes_of_a_row(situation: Situation, width: int, values: list[int]) -> int:
    """Lanes of a warp that have vectors of `width` side by side, where they move elements of `values` one by one."""
    warp = situation.target.warp
    words = min(situation.scop.dtype(value).compute.itemsize for value in values) >= WORD
    return max(1, warp // width) if width > FAR and words else warp


def _framed_columns(situation: Situation, inner: AxisClass) -> int:
    """Those of tiles in frames that leave the least of the last tile of a row empty."""
    most = situation.size(inner.extent) + SECTOR // max(situation.long_itemsizes) - 1
    return min(FRAMED_COLUMNS, key=lambda n: -(-most // n) * n)


def _extents(situation: Situation, inner: AxisClass, width: int) -> tuple[int, int]:
    """Elements of a tile along what is read in rows, and along what is written in rows in vectors of `width`."""
    asked, size = situation.tiles, situation.size(inner.extent)
    if width > 1 or size <= TILE or asked.keys() & {"tile", "columns"}:
        usual = TILE * max(4, width) // 4
        tile = max(4, power_below(asked.get("tile", usual)))
        return tile, max(width, power_below(asked.get("columns", COLUMNS * tile // usual)))
    is_word = min(situation.long_itemsizes) >= 4
    return SINGLE_ROWS[is_word], min(reversed(SINGLE_COLUMNS), key=lambda n: -(-size // n) * n)


def _close(situation: Situation, inner: AxisClass, outer: AxisClass, width: int) -> tuple[int, int]:
    """The same of short classes, in steps that keep some lanes, and some rows of threads, of each."""
    step = max(FEW_LANES, FEW_VECTORS * width)
    tile = -(-situation.size(outer.extent) // FEW_LANES) * FEW_LANES
    return tile, -(-situation.size(inner.extent) // step) * step


def _neighbours(situation: Situation) -> list[int]:
    """Values computed in the group (or loaded) that one statement reads at several constant offsets."""
    found: list[int] = []
    for statement in situation.group.statements():
        by_source: dict[int, set[tuple[object, ...]]] = {}
        for read in statement.reads:
            by_source.setdefault(read.source, set()).add(tuple(read.index))
        found += [source for source, places in by_source.items() if len(places) > 1]
    return [v for v in dict.fromkeys(found) if v in situation.group.body]


def _stencil(situation: Situation, axes: tuple[AxisClass, ...], inner: AxisClass, staged: list[int]) -> Proposal:
    others = [a for a in axes if a is not inner]
    outer = others[-1]
    rows = situation.tiles.get("rows", min(STENCIL_ROWS, power_above(situation.size(outer.extent))))
    columns = situation.tiles.get("columns", min(STENCIL_COLUMNS, power_above(situation.size(inner.extent))))
    tx = thread("tx", 1, min(32, columns))
    ty = thread("ty", tx.count, min(THREADS // tx.count, rows))
    q, h = slot("q", rows // ty.count), slot("h", columns // tx.count)
    b0, b1 = block("b0", inner.extent.ceildiv(columns)), block("b1", outer.extent.ceildiv(rows))
    splits = {
        inner.number: mixed((b0, columns), (h, tx.count), (tx, 1)),
        outer.number: mixed((b1, rows), (q, ty.count), (ty, 1)),
    }
    digits: list[Digit] = []
    for k, axis in enumerate(others[:-1]):
        b = block(f"b{k + 2}", axis.extent)
        digits.append(b)
        splits[axis.number] = mixed((b, 1))
    return Proposal(
        "stencil",
        (("threads", tx.count * ty.count), ("rows", rows), ("columns", columns)),
        kept_digits([b0, b1, *digits, tx, ty, q, h], keep_threads=True),
        anchors(situation, splits),
        staging={value: Staging() for value in staged},
    )
