"""Transposes of rows that begin anywhere in memory: tiles that asynchronous copies bring as they lie there, and whose
results are written in whole words and whole sectors.

    z[i, j] = x[j, i]      i = 32*E*b0 + E*tx + v - (rest*j mod S),  j = J*b1 + 16*Q*r + 16*q + ty
    x of 2 bytes:          copied in vectors of 8 to a box whose rows lie as in memory (`places/copied.py`)

E elements are a word, S a sector.  Single elements of less than a word cost as many instructions and passes of shared
memory as words do, and what ends inside of a sector is written twice.  On an H200, times two, before and so: 16381 x
8191 bfloat16 184 and 149 us, of which 126 are the bytes; bytes 133 and 83 (63); the last axis of 401 x 403 x 405 in
front, bfloat16 104 and 82 (62), bytes 74 and 48 (31); 1000003 x 131 bytes 188 and 87 (62).  Not of words: 293 us for
16381 x 8191 float32, of which 252 are the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.places.copied import least_pitch
from polyfuse.places.proposal import Proposal, Staging
from polyfuse.schedule import Digit
from polyfuse.strategies.block_order import names_of_blocks
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import SECTOR, WORD, written_sectors
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.reads import lies_along
from polyfuse.strategies.situation import Situation, block, loop, mixed, slot, thread

THREADS = 512
ROWS = (512, 256, 128)
"""Bytes that are copied of a row of a tile, at most, that shared memory has room for.  On an H200, in 512 and 256:
16381 x 8191 bfloat16 149 and 162 us.  Tiles are no longer than equal parts of a row need: 1000003 x 131 bytes 86 us in
tiles of 144, 111 in 240; 500009 x 257 bfloat16 182 and 209."""
MOST_PLACES = 1.5
"""Times the elements of a row that is written, the places of its tiles at most.  On an H200, rows of 125 bytes in two
tiles of 128: 27 x 125 x 39 x 2 x 725 to 725 x 27 x 2 x 39 x 125 380 us so, 204 in rows of threads that store single
bytes (benchmarks/results/permutations_h200.json)."""
EACH = 3
"""Rows of results of a thread at once: those of all trips would take the registers of other blocks.  On an H200, 16381
x 8191 bytes in 83 us so, 126 with all fifteen rows, 93 with five, 90 with one."""


def copied_tiles(
    situation: Situation, axes: tuple[AxisClass, ...], inner: AxisClass, outer: AxisClass, values: list[int]
) -> Proposal | None:
    """A tile of the class `inner`, along which results are written, and of `outer`, along which `values` are read; None
    where rows of these begin with vectors, which threads load, and where everything is words."""
    if situation.tiles or not situation.has_much:
        return None
    size, warp = situation.target.vector_bytes, situation.target.warp
    vectors = {value: size // situation.scop.dtype(value).itemsize for value in values}
    strides = {value: _strides(situation, value, vector) for value, vector in vectors.items()}
    if not all(any(s % 4 for s in found[:-1]) for found in strides.values()):  # lanes would meet in a quarter of banks
        return None
    if size // max(vectors.values()) >= WORD:
        return None
    written = max(d.itemsize for v in situation.group.roots for d in situation.scop.statements[v].dtypes)
    width = max(1, WORD // written)
    columns, rows = warp * width, THREADS // warp
    tile = _tile(situation, inner, outer, strides, rows, columns + SECTOR // written - 1)
    if tile is None:
        return None
    tx, ty, v = thread("tx", 1, warp), thread("ty", warp, rows), slot("v", width)
    q, r = slot("q", EACH), loop("r", Affine.of(tile // (rows * EACH)))
    others = [axis for axis in reversed(axes) if axis not in (inner, outer)]
    name = names_of_blocks(situation, {inner: columns, outer: tile} | dict.fromkeys(others, 1))
    b1 = block(name[outer], outer.extent.ceildiv(tile))
    splits = {outer.number: mixed((b1, tile), (r, rows * EACH), (q, rows), (ty, 1))}
    digits: list[Digit] = []
    for axis in others:
        digits.append(block(name[axis], axis.extent))
        splits[axis.number] = mixed((digits[-1], 1))
    is_whole, frame = written_sectors(situation, inner, splits)
    if not is_whole:
        return None
    placed = frame.padded(inner.extent) if frame else inner.extent
    if -(-situation.size(placed) // columns) * columns > MOST_PLACES * situation.size(inner.extent):
        return None
    b0 = block(name[inner], placed.ceildiv(columns))
    place = mixed((b0, columns), (tx, width), (v, 1))
    splits[inner.number] = place - frame.shift if frame else place
    guards = [*(frame.guards if frame else situation.divisible(inner.extent, SECTOR // written))]
    for value, vector in vectors.items():
        guards += _rests(situation, value, vector)
    return Proposal(
        "tiles",
        (
            *(("threads", THREADS), ("tile", tile), ("columns", columns), ("vector", width)),
            *([("frames", frame.width)] if frame else []),
            ("copied", 1),
        ),
        kept_digits([b0, b1, *digits, tx, ty, r, q, v], keep_threads=True),
        anchors(situation, splits),
        loops=("r",),
        staging={value: Staging(unless="tx", vector=vectors[value], strides=strides[value]) for value in values},
        guards=tuple(dict.fromkeys(guards)),
    )


def _tile(
    situation: Situation,
    inner: AxisClass,
    outer: AxisClass,
    strides: Mapping[int, tuple[int, ...]],
    rows: int,
    held: int,
) -> int | None:
    """Rows of results: as many as the longest pieces bring, wherever in a vector they begin, of which `held` for each
    of some values fit in shared memory; None if none do.  `strides`: of these."""
    vector, most = situation.target.vector_bytes, situation.target.shared_per_block
    sizes = {value: situation.scop.dtype(value).itemsize for value in strides}
    itemsize = max(sizes.values())

    def taken(value: int, row: int) -> int:
        size, within = sizes[value], strides[value][_dimension(situation, inner, value) :]
        elements = row // itemsize
        at_once = max(1, THREADS * vector // (elements * size))  # pieces that are copied together
        return size * -(-held // at_once) * at_once * least_pitch(elements, within, vector // size)

    fitting = [row for row in ROWS if sum([taken(value, row) for value in strides]) <= most]
    longest = ((fitting[0] - vector) // itemsize + 1) // (rows * EACH) * (rows * EACH) if fitting else 0
    if not longest:
        return None
    size = situation.size(outer.extent)
    part = -(-size // -(-size // longest))
    return -(-part // (rows * EACH)) * (rows * EACH)


def _dimension(situation: Situation, axis: AxisClass, value: int) -> int:
    """The dimension of an array along which a class lies; the first one where that is not plain."""
    for statement in situation.group.statements():
        for read in statement.reads:
            if read.source == value:
                order = lies_along(situation.classes.statement(statement), read)
                return order.index(axis) if axis in order else 0
    return 0


def _strides(situation: Situation, value: int, vector: int) -> tuple[int, ...]:
    """Elements between neighbours of an array, but for those of whole vectors."""
    found = [1]
    for extent in reversed(situation.scop.shape(value)[1:]):
        found.insert(0, found[0] * situation.size(extent) % vector)
    return tuple(found)


def _rests(situation: Situation, value: int, vector: int) -> list[AnyGuard]:
    """That sizes leave what they do at hand."""
    return [
        Guard(extent - situation.size(extent) % vector, vector)
        for extent in situation.scop.shape(value)[1:]
        if not extent.is_constant
    ]
