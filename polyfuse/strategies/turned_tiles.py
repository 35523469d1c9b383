"""Transposed reads on tiles of two dimensions: put into shared memory by rows, got by columns.

z[i, j] = x[i, j] + y[j, i]        i = 64*b1 + 16*q + ty,  j = 64*b0 + 4*tx + v
z[i, j, c] = x[c, j, i]            i as there,  j = 16*b0 + tx,  c = tn:  short rows beside each other in lanes

Elements of less than a word wait as in memory, and a thread gets a word of neighbours along what is read in rows.
Where several arrays are read so, what is made of them is put there instead.  Tiles are as short as rows are, and
pieces of rows that are written are whole sectors where rows begin off their boundaries.  Blocks follow each other along
what is written or read in pieces of less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.places.proposal import Proposal, Staging
from polyfuse.schedule import Digit
from polyfuse.scop import Statement
from polyfuse.strategies.block_order import names_of_blocks
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import HALF, SECTOR, WORD, sectors, written_sectors
from polyfuse.strategies.pointwise import LINE, anchors, kept_digits
from polyfuse.strategies.reads import along
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
FEW_THREADS, OF_A_THREAD = 128, 32
"""Threads of a block with such a tile at least, and bytes of each at most or, of words and of bytes, a few more: more
blocks wait beside each other."""
TRANSPOSING = 512
"""Threads of a block that transposes.  On an H200, beside blocks of 256: 253 us against 270 for 300 x 511 x 700 times a
vector, 190 against 190 to 212 for x + y.T of 8192 x 8192."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """Of a tile: `tile` elements along what is read in rows, `columns` along what is written in rows, in vectors of
    `width`.  `framed`: pieces of what is written are whole sectors.  `row`: rows of a few elements, which are what is
    written in vectors, and which follow each other along the `columns`."""

    tile: int
    columns: int
    width: int
    framed: bool = False
    row: AxisClass | None = None


def turned_tiles(
    situation: Situation,
    axes: tuple[AxisClass, ...],
    inner: AxisClass,
    outer: AxisClass,
    values: list[int],
    *,
    strided: bool,
) -> Iterator[Proposal | None]:
    """Proposals for tiles of two classes, the usual one first.  `strided`: of arrays of which elements are left out,
    which would lie in shared memory as well: results do instead, where they may."""
    width = situation.width(inner.extent, flat=False)
    results = _results(situation, inner, outer, values, strided=strided)
    if strided and not results:
        return
    values = [*results] or values
    usual = _that_fits(situation, values, _Shape(*_extents(situation, inner, width), width))
    yield _transposed(situation, axes, inner, outer, values, usual, results)
    if not situation.has_much:
        return
    framed = _Shape(TILE, _framed_columns(situation, inner), 1, framed=True)
    yield _transposed(situation, axes, inner, outer, values, _that_fits(situation, values, framed), results)
    if situation.tiles:
        return
    others = [_that_fits(situation, values, shape) for shape in _others(situation, inner, outer, usual)]
    for shape in dict.fromkeys(others):
        if shape != usual:
            yield _transposed(situation, axes, inner, outer, values, shape, results)
    if not results and (rows := _of_short_rows(situation, axes, inner, outer)) is not None:
        yield _transposed(situation, axes, axes[-2], outer, values, rows, results)


def _results(
    situation: Situation, inner: AxisClass, outer: AxisClass, values: Sequence[int], *, strided: bool
) -> dict[int, int]:
    """The results of a group, each with its dimension along which `values` are read in rows, where these are more or
    `strided`, and all of the arrays that have both classes: what is made of them is put into shared memory, not they.
    Else none."""
    group, classes = situation.group, situation.classes
    if len(group.roots) >= len(values) and not strided:
        return {}
    for statement in group.statements():
        axes = classes.statement(statement)
        for read in statement.reads:
            beside = read.source in group.loads and read.source not in values
            if beside and (not read.affine or {inner, outer} <= along(axes, read)):
                return {}
    found: dict[int, int] = {}
    for root in sorted(group.roots):
        made = situation.scop.statements[root]
        if not isinstance(made, Statement) or len(made.dtypes) > 1:
            return {}
        dims = [k for k, d in enumerate(made.kept) if classes.of[root, d] is outer]
        if len(dims) != 1 or classes.of[root, made.kept[-1]] is not inner:
            return {}
        found[root] = dims[0]
    return found


def _that_fits(situation: Situation, values: Sequence[int], shape: _Shape) -> _Shape:
    """The shape, or a part of it that shared memory has room for as often as it holds such tiles."""
    if situation.tiles:
        return shape
    held = sum(situation.scop.dtype(value).compute.itemsize for value in values)
    least = max(FEW_LANES, shape.width)
    while held * (shape.tile + 1) * shape.columns > situation.target.shared_per_block:
        if max(shape.tile, shape.columns) <= least:
            return shape
        if shape.tile >= shape.columns:
            shape = replace(shape, tile=shape.tile // 2)
        else:
            shape = replace(shape, columns=shape.columns // 2)
    return shape


def _others(situation: Situation, inner: AxisClass, outer: AxisClass, usual: _Shape) -> Iterator[_Shape]:
    """Tiles that leave less empty than the usual ones, or write whole sectors."""
    width, sizes = usual.width, [situation.size(axis.extent) for axis in (outer, inner)]
    if min(sizes) >= FEW_LANES and max(sizes) <= MOST_WHOLE:
        yield _Shape(*_close(situation, inner, outer, width), width)
    size = max(situation.long_itemsizes)
    whole = -(-sizes[0] // FEW_LANES) * FEW_LANES
    if FEW_LANES <= sizes[0] <= MOST_WHOLE and -(-sizes[0] // usual.tile) * usual.tile > EMPTY * whole:
        for columns in dict.fromkeys((usual.columns, LINE // (2 * size))):
            yield _Shape(whole, columns, width)
            yield _Shape(whole, columns, width, framed=True)
    if width > 1 and sizes[0] >= FEW_LANES:
        line = LINE // size
        tile, columns = _filled(sizes[0], usual.tile, line), _filled(sizes[1], usual.columns, line)
        for shape in (usual, _Shape(tile, columns, width)):
            yield shape
            yield replace(shape, framed=True)


EMPTY = 1.12
"""Times what the fullest tile takes that a longer one may, of pieces of a line at least.  On an H200, of bfloat16, in
64 x 64 instead of 128 x 64: 16 matrices of 142784 x 48 113 us, 161 before.  In 32 x 128, where reads are pieces of 64
bytes: 2824 x 88 x 432, the last axis in front, 156, 128 in 128 x 64.  And in sectors: 40 x 1576 x 2 x 1080, all but the
first reversed, 160, 220 before; 550440 x 184 131 in 64 x 64, 158 before
(benchmarks/results/forced_permutations_h200.json).  All of what is read along in one tile instead of 64 or 128 of it:
362 x 48 x 130 x 45 bfloat16 reversed 189 and 145 us, 1156 x 592 x 146 158 and 126, 352 x 3630 x 156 bytes, the last
axis in front, 163 and 136 (benchmarks/results/permutations_h200.json)."""


def _filled(size: int, usual: int, least: int) -> int:
    """The usual extent of a tile along a class, or a part of it that leaves less empty, of `least` elements if there
    are as many."""
    tried = [n for n in (usual, usual // 2, usual // 4) if n == usual or n >= min(least, power_above(size))]
    fullest = min(-(-size // n) * n for n in tried)
    return next(n for n in tried if -(-size // n) * n <= EMPTY * fullest)


SHORT_ROWS, PIXELS, SHARED = 64, 16, 40 << 10
"""Bytes of a row up to which a block writes neighbouring rows, each by as many lanes as hold it; such lanes or more,
and bytes of shared memory of such a tile at most.  On an H200, 167 x 729 x 4 x 116 float32 to 729 x 116 x 167 x 4 122
us so, 250 in threads that have four rows of four each; 56 x 5 x 16 x 27976 bfloat16, its last axis in front of the
first, 138, 192 in tiles of 128 x 16; 5 x 232049 x 47 float32 reversed 152, 184 where a thread has whole rows of five
and 1120 without tiles; 2 x 1993 x 13 x 14 x 67 to 67 x 2 x 1993 x 14 x 13 165, 445 and 997; but bytes in rows of three,
3 x 2009360 x 40 reversed, 446, 255 and 2302 (benchmarks/results/permutations_h200.json,
forced_permutations_h200.json)."""
VECTORS, FEW_ROWS = 4, 8
"""Vectors of a thread in such a tile, and rows of it at least."""


def _of_short_rows(
    situation: Situation, axes: tuple[AxisClass, ...], inner: AxisClass, outer: AxisClass
) -> _Shape | None:
    """A tile of what rows of a few elements follow each other along; None where none are written."""
    if inner is not axes[-1] or len(axes) < 3 or axes[-2] is outer or situation.size(axes[-2].extent) < FEW_ROWS:
        return None
    count, size = situation.size(inner.extent), max(situation.long_itemsizes)
    if not 1 < count <= SHORT_ROWS // size:
        return None
    width = situation.width(inner.extent, flat=False)
    vectors = count // width
    columns = max(PIXELS // power_above(vectors), power_below(2 * COLUMNS // count - 1), 4)
    columns = min(columns, power_above(situation.size(axes[-2].extent)))
    tile = min(TILE, power_below(SHARED // (columns * count * max(WORD, size))))
    return _Shape(tile, columns, width, row=inner)


def _transposed(
    situation: Situation,
    axes: tuple[AxisClass, ...],
    inner: AxisClass,
    outer: AxisClass,
    values: Sequence[int],
    shape: _Shape,
    results: Mapping[int, int],
) -> Proposal | None:
    """A block has a tile of two classes, and one element of each other; None where sectors are whole anyway.  What is
    put into it are `values`; `results`: that these are, see `_results`."""
    tile, columns, width, row = shape.tile, shape.columns, shape.width, shape.row
    count = situation.size(row.extent) // width if row is not None else 1
    size = max(situation.long_itemsizes, default=WORD)
    needed = tile * columns * min(size, WORD) // OF_A_THREAD if row is None else tile * columns * count // VECTORS
    needed = power_above(needed) if size == HALF else needed
    threads = power_below(situation.tiles.get("threads", min(TRANSPOSING, max(FEW_THREADS, needed))))
    near = power_above(count)
    step = 1 if row is not None else width
    side_by_side = columns // step  # no cache puts together what stores leave between them
    lanes = min(threads, side_by_side & -side_by_side)
    words, chosen = (1, ()) if results else _of_a_word(situation, inner, values, shape)
    words = min(words, tile & -tile)
    most = max(_lanes_of_a_row(situation, width, values), min(FEW_THREADS, threads) // (tile & -tile))
    lanes = min(lanes, most) if shape.framed or most < situation.target.warp else lanes
    rows = min((tile & -tile) // words, max(1, threads // (lanes * near)))
    tn, tx, ty = thread("tn", 1, near), thread("tx", near, lanes), thread("ty", near * lanes, rows)
    along, apart = columns // (lanes * step), 1
    if words > 1:  # threads that words leave over have columns of their own
        apart = min(along & -along, power_below(max(1, threads // (near * lanes * rows))))
    tz, u = thread("tz", near * lanes * rows, apart), slot("u", along // apart)
    q, w, v = slot("q", tile // (rows * words)), slot("qs", words), slot("v", width)
    digits: list[Digit] = []
    held = {outer.number: tile, inner.number: columns} | ({row.number: count * width} if row is not None else {})
    others = [axis for axis in reversed(axes) if axis not in (inner, outer, row)]
    name = names_of_blocks(situation, {axis: held.get(axis.number, 1) for axis in (inner, outer, *others)})
    b1 = block(name[outer], outer.extent.ceildiv(tile))
    splits = {outer.number: mixed((b1, tile), (q, ty.count * words), (ty, words), (w, 1))}
    for axis in others:
        digits.append(block(name[axis], axis.extent))
        splits[axis.number] = mixed((digits[-1], 1))
    frame = None
    if shape.framed:
        frame = sectors(situation, inner, splits) if width == 1 else written_sectors(situation, inner, splits)[1]
        if frame is None:
            return None
    b0 = block(name[inner], (frame.padded(inner.extent) if frame else inner.extent).ceildiv(columns))
    place = mixed((b0, columns), (u, apart * lanes * step), (tz, lanes * step), (tx, step))
    if row is not None:
        splits[row.number] = mixed((tn, width), (v, 1))
    else:
        place = place + mixed((v, 1))
    splits[inner.number] = place - frame.shift if frame else place
    narrow = width == 1 and size < WORD
    staged = situation.widest if shape.framed or row is not None or narrow else width
    while staged > 1 and situation.size(outer.extent) % staged:
        staged //= 2
    guards = frame.guards if frame else situation.divisible((row or inner).extent, width)
    guards = (*guards, *_at_most(row.extent, near * width)) if row is not None else guards
    guards = (*guards, *chosen)
    within = tn if near > 1 else tx if row is None and lanes > 1 else v
    return Proposal(
        "tiles",
        (
            *(("threads", near * lanes * rows * apart), ("tile", tile)),
            *([("columns", columns)] if columns != tile or shape.framed else []),
            *([("rows", count * width)] if row is not None else []),
            ("vector", width),
            *([("frames", frame.width)] if frame else []),
        ),
        kept_digits([b0, b1, *digits, tn, tx, ty, tz, q, w, u, v], keep_threads=True),
        anchors(situation, splits),
        staging={
            value: Staging(
                packed=True,
                unless="" if results else within.name,
                vector=staged,
                apart=situation.group.body - {value} if results else frozenset(),
                lanes=_lanes_that_put(situation, staged, value),
                along=results.get(value, -1),
                padded=row is not None,
            )
            for value in values
        },
        guards=(*guards, *situation.divisible(outer.extent, staged)) if staged > 1 else guards,
    )


def _of_a_word(
    situation: Situation, inner: AxisClass, values: Sequence[int], shape: _Shape
) -> tuple[int, tuple[AnyGuard, ...]]:
    """Neighbours along what is read in rows that a thread gets at once, and of what sizes; 1 where what it writes of
    each begins elsewhere in its row, or where rows of whole vectors end inside of sectors.  On an H200, of bytes, in
    words and one by one: 10016 x 19984 turned 109 and 119 us, the last axis of 223 x 86 x 134 x 78 in front of the
    second 166 and 209, 1574016 x 3 x 48 reversed 131 and 172; but 6536 x 30640 155 and 125, 467800 x 428 163 and 151
    (benchmarks/results/packed_tiles_h200.json)."""
    size = min(situation.scop.dtype(value).itemsize for value in values)
    if shape.framed:
        return 1, ()
    if size >= HALF or shape.row is not None or shape.width < situation.widest:
        return max(1, WORD // size), ()
    of_sector = SECTOR // max(situation.long_itemsizes)
    torn = situation.size(inner.extent) % of_sector > 0
    other = () if inner.extent.is_constant else (Guard(inner.extent, of_sector, negated=torn, advisory=True),)
    return 1 if torn else WORD // size, other


def _at_most(extent: Affine, count: int) -> tuple[AnyGuard, ...]:
    """The guards that a size is no more than `count`."""
    return () if extent.is_constant else (Guard(Affine.of(count) - extent),)


FAR = 4
"""Words of a vector from which lanes that have one each, side by side along a row, meet in few banks: of eight words in
four of them.  So many lanes of a warp have one row that it meets all banks.  On an H200, of bfloat16, those that put
and those that get beside each other in rows, and before: 8192 x 8192 turned 70.7 and 74.5 us, the last two axes of 256
x 512 x 768 99.6 and 108.8; 16384 x 8192 bytes, of which four share a word, 115 and 88."""


def _lanes_of_a_row(situation: Situation, width: int, values: Sequence[int]) -> int:
    """Lanes of a warp that have vectors of `width` side by side, where they move elements of `values` one by one."""
    warp = situation.target.warp
    words = min(situation.scop.dtype(value).compute.itemsize for value in values) >= WORD
    return max(1, warp // width) if width > FAR and words else warp


def _lanes_that_put(situation: Situation, width: int, value: int) -> int:
    """The same of lanes that put vectors of a loaded value, of less than words as words."""
    itemsize = situation.scop.dtype(value).itemsize
    if value not in situation.group.loads or itemsize >= WORD:
        return _lanes_of_a_row(situation, width, [value])
    return max(1, situation.target.warp * WORD // max(WORD, width * itemsize))


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
        columns = COLUMNS if "tile" in asked else max(COLUMNS, LINE // max(situation.long_itemsizes))
        return tile, max(width, power_below(asked.get("columns", columns * tile // usual)))
    is_word = min(situation.long_itemsizes) >= 4
    return SINGLE_ROWS[is_word], min(reversed(SINGLE_COLUMNS), key=lambda n: -(-size // n) * n)


def _close(situation: Situation, inner: AxisClass, outer: AxisClass, width: int) -> tuple[int, int]:
    """The same of short classes, in steps that keep some lanes, and some rows of threads, of each."""
    step = max(FEW_LANES, FEW_VECTORS * width)
    tile = -(-situation.size(outer.extent) // FEW_LANES) * FEW_LANES
    return tile, -(-situation.size(inner.extent) // step) * step
