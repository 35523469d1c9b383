"""Transposes of rows that begin anywhere in memory: tiles that asynchronous copies bring as they lie there, and whose
results are written in whole words and whole sectors.

    z[i, j] = x[j, i]      i = 32*E*b0 + E*tx + v - (rest*j mod S),  j = J*b1 + W*q + ty
    x of 2 bytes:          copied in vectors of 8 to a box whose rows begin at other places of banks (`places/copied.py`)

E elements are a word, S a sector.  Single elements of less than a word cost as many instructions and passes of shared
memory as words do, and pieces that end inside of sectors are written twice.
"""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.places.proposal import Proposal, Staging
from polyfuse.schedule import Digit
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import SECTOR, WORD, written_sectors
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.situation import Situation, block, mixed, slot, thread

THREADS = 512
PADDING = 48
"""Bytes between rows of a tile, at most: what vectors begin with, and what keeps rows apart as in memory."""
ROW, EMPTY = (512, 256, 128), 1.06
"""Bytes that are copied of a row of a tile, the most that leave so little of the last tile empty."""


def copied_tiles(
    situation: Situation, axes: tuple[AxisClass, ...], inner: AxisClass, outer: AxisClass, values: list[int]
) -> list[Proposal]:
    """Tiles of the class `inner`, along which results are written, and `outer`, along which all `values` are read."""
    if situation.tiles or not situation.has_much:
        return []
    strides = {value: _strides(situation, value, situation.target.vector_bytes) for value in values}
    if not all(any(_is_odd(s) for s in found[:-1]) for found in strides.values()):
        return []  # rows begin with vectors, which threads load
    written = [d.itemsize for v in situation.group.roots for d in situation.scop.statements[v].dtypes]
    width, warp = max(1, WORD // max(written)), situation.target.warp
    columns, rows = warp * width, THREADS // warp
    held = len(values) * (columns + SECTOR // max(written) - 1)  # rows of all boxes
    tried = [row for row in ROW if held * (row + PADDING) <= situation.target.shared_per_block]
    if not tried:
        return []
    tile = _tile(situation, outer, [_fitting(situation, values, row, rows) for row in tried])
    tx, ty, q, v = thread("tx", 1, warp), thread("ty", warp, rows), slot("q", tile // rows), slot("v", width)
    b1 = block("b1", outer.extent.ceildiv(tile))
    splits = {outer.number: mixed((b1, tile), (q, rows), (ty, 1))}
    digits: list[Digit] = []
    for k, axis in enumerate(a for a in axes if a not in (inner, outer)):
        digits.append(block(f"b{k + 2}", axis.extent))
        splits[axis.number] = mixed((digits[-1], 1))
    is_whole, frame = written_sectors(situation, inner, splits)
    if not is_whole:
        return []
    b0 = block("b0", (frame.padded(inner.extent) if frame else inner.extent).ceildiv(columns))
    place = mixed((b0, columns), (tx, width), (v, 1))
    splits[inner.number] = place - frame.shift if frame else place
    guards = list(frame.guards) if frame else list(situation.divisible(inner.extent, width))
    staging = {}
    for value in values:
        vector = situation.target.vector_bytes // situation.scop.dtype(value).itemsize
        staging[value] = Staging(unless="tx", vector=vector, strides=strides[value])
        guards += _rests(situation, value, vector)
    return [
        Proposal(
            "tiles",
            (
                *(("threads", THREADS), ("tile", tile), ("columns", columns), ("vector", width)),
                *(("frames", frame.width if frame else 0), ("copied", 1)),
            ),
            kept_digits([b0, b1, *digits, tx, ty, q, v], keep_threads=True),
            anchors(situation, splits),
            staging=staging,
            guards=tuple(dict.fromkeys(guards)),
        )
    ]


def _is_odd(stride: int) -> bool:
    """Whether rows that lie so far apart meet all banks of shared memory, or half of them."""
    return stride % 4 != 0


def _tile(situation: Situation, outer: AxisClass, tried: list[int]) -> int:
    """The first of the tiles of which little is empty, or that of which the least is."""
    size = situation.size(outer.extent)
    empty = [-(-size // n) * n / size for n in tried]
    return next((n for n, share in zip(tried, empty, strict=True) if share <= EMPTY), tried[empty.index(min(empty))])


def _fitting(situation: Situation, values: list[int], row: int, rows: int) -> int:
    """Rows of results for which vectors of `row` bytes bring what is needed, wherever it begins in the first of them."""
    sizes = [situation.scop.dtype(value).itemsize for value in values]
    least = min([(row - situation.target.vector_bytes) // size + 1 for size in sizes])
    return max(rows, least // rows * rows)


def _strides(situation: Situation, value: int, size: int) -> tuple[int, ...]:
    """Elements between neighbours of an array, but for those of whole vectors of so many bytes."""
    vector, found = size // situation.scop.dtype(value).itemsize, [1]
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
