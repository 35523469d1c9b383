"""Frames of memory: rows that begin anywhere are dealt so that vectors begin where memory has them.

    x[i, j] of rows of 8*k + 7 halves:   j = 8*t + v - (7*i mod 8)

Lane t of row i has the elements of one aligned vector, whatever the row; the first and the last vector of a row are
cut.  Of arrays whose rows begin elsewhere, as a row of gains that all rows share, vectors lie across two aligned ones,
of which they are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.situation import Situation

WORD = 4
"""Bytes of an access from which single elements are as fast: accesses of a warp that begin off the boundaries of
sectors take the caches longer.  On an H200, 20001 rows of 8191 bfloat16 scaled: 193 us element by element, 161 in
frames, where their bytes take 153; sums of 65536 rows of 1999 75 and 63, and 61."""

VECTOR = 16
"""The same where whole rows are written, element by element: what a warp stores then tears sectors.  On an H200, of
float32: 8001 x 8001 less a triangle 137 us, 123 in frames; 8003 x 8003 less a border 134 and 123; 8192 x 8192 less a
border, in halves of vectors, 130 and 128; differences of rows of 8191 152 and 141.  Sums and softmax of rows as long
take as much either way."""

SECTOR = 32
"""Bytes that memory keeps together."""

HALF = 2
"""Bytes of elements that are taken out of a word as fast as they are loaded, where something is done with each: rows of
bytes scaled take 115 us in frames, 117 without.  What is reduced alone needs no word again."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Vectors of `width`; place ``width * t + v`` of a row is its element ``width * t + v - shift``.  `alone`: no other
    array has rows that begin elsewhere."""

    width: int
    shift: Affine
    guards: tuple[AnyGuard, ...]
    alone: bool

    def padded(self, extent: Affine) -> Affine:
        """Places of a row of `extent` elements."""
        return extent + (self.width - 1)


def frame(
    situation: Situation,
    inner: AxisClass,
    splits: Mapping[int, Affine],
    parts: int = 1,
    enough: int = WORD,
    least: int = HALF,
    scans: bool = False,
) -> Frame | None:
    """The frame of rows along `inner` in which most bytes lie in aligned vectors, or halves of vectors where `parts` is
    2; None where accesses of single elements, or of what divides the rows, are as good: of `enough` bytes, or of
    elements of fewer than `least`; and of rows that are scanned, but for `scans`.  `splits`: the places of other
    classes."""
    width = situation.widest // parts
    single = "vector" in situation.tiles and "frames" not in situation.tiles
    if situation.target.kind == "cpu" or single or inner.scanned_by and not scans:
        return None
    itemsize = min(situation.long_itemsizes, default=WORD)
    if itemsize < least or situation.width(inner.extent, flat=False) * itemsize >= enough:
        return None
    if situation.vector(inner.extent, flat=True) < width:
        return None  # some array begins off the boundary of a vector
    return _of_arrays(situation, inner, splits, width)


def sectors(situation: Situation, inner: AxisClass, splits: Mapping[int, Affine]) -> Frame | None:
    """The frame in which pieces of the rows that are written along `inner` are whole sectors, in single elements; None
    where that gained nothing, of less than words and of rows of whole vectors."""
    written = [d.itemsize for v in situation.group.roots for d in situation.scop.statements[v].dtypes]
    plain = not situation.tiles.keys() & {"vector", "tile", "columns"} and min(written) >= WORD
    if not plain or situation.width(inner.extent, flat=False) * min(written) >= VECTOR:
        return None
    if situation.vector(inner.extent, flat=True) < situation.widest:
        return None  # some array begins off the boundary of a vector
    return _of_arrays(situation, inner, splits, SECTOR // max(written))


def written_sectors(
    situation: Situation, inner: AxisClass, splits: Mapping[int, Affine]
) -> tuple[bool, Frame | None]:
    """Whether pieces of all rows that are written along `inner` can be whole sectors, and the frame in which they are;
    None where rows are whole sectors."""
    written = [d.itemsize for v in situation.group.roots for d in situation.scop.statements[v].dtypes]
    width = SECTOR // max(written)
    if situation.vector(inner.extent, flat=True) < situation.widest:
        return False, None  # some array begins off the boundary of a vector
    if situation.size(inner.extent) % width == 0:
        return True, None
    found = _of_arrays(situation, inner, splits, width)
    return found is not None, found


def common_frame(situation: Situation, inner: AxisClass, splits: Mapping[int, Affine]) -> Frame | None:
    """The frame in which all arrays lie in whole vectors; None where there is none, or halves of vectors divide rows
    anyway."""
    width = situation.widest
    short = "vector" not in situation.tiles and 2 * situation.width(inner.extent, flat=False) < width
    if not short:
        return None
    if situation.vector(inner.extent, flat=True) < width:
        return None  # some array begins off the boundary of a vector
    return _of_arrays(situation, inner, splits, width, alike=True)


def _of_arrays(
    situation: Situation, inner: AxisClass, splits: Mapping[int, Affine], width: int, alike: bool = False
) -> Frame | None:
    """The frame of what is written, or else of most of what is read; None where rows begin with one anyway, or where
    those of all arrays are to be `alike` and are not."""
    found: dict[Affine | None, list[_Array]] = {}
    for rows in _arrays(situation, inner):
        address = rows.address(splits, situation, width)
        found.setdefault(None if address is None else address % width, []).append(rows)
    written = [shift for shift, arrays in found.items() if any(a.written for a in arrays)]
    known = written or [shift for shift in found if shift is not None]
    if len(written) > 1 or not known or alike and len(found.keys() - {None}) > 1:
        return None  # a warp that writes every eighth element of a line writes it eight times
    shift = max(known, key=lambda s: sum(a.bytes for a in found[s]))
    if shift is None or shift.is_constant:
        return None
    return Frame(width, shift, found[shift][0].guards(situation, width), len(found) == 1)


@dataclass(frozen=True, slots=True)
class _Array:
    """An array that is read or written along a class: its shape, where a row begins, and its bytes."""

    written: bool
    shape: tuple[Affine, ...]
    first: tuple[Affine, ...]  # index of a row's first element, in ``%d`` of the statement
    axes: tuple[AxisClass, ...]  # of these
    bytes: int

    def address(self, splits: Mapping[int, Affine], situation: Situation, width: int) -> Affine | None:
        """Where rows begin but for multiples of `width`, in digits; None where that is left open."""
        places = {f"%{d}": splits.get(axis.number) for d, axis in enumerate(self.axes)}
        total, stride = Affine.of(0), 1
        for entry, extent in zip(reversed(self.first), reversed(self.shape), strict=True):
            if any(places.get(name) is None for name in entry.names() if name.startswith("%")):
                return None
            total += entry.substitute({n: p for n, p in places.items() if p is not None}) * stride
            stride = stride * situation.size(extent) % width
        kept = {atom: factor % width for atom, factor in total.terms}
        return Affine.build(kept, total.constant % width)

    def guards(self, situation: Situation, width: int) -> tuple[AnyGuard, ...]:
        """That the sizes leave what they do at hand."""
        return tuple([
            Guard(extent - situation.size(extent) % width, width) for extent in self.shape[1:] if not extent.is_constant
        ])  # fmt: skip


def _arrays(situation: Situation, inner: AxisClass) -> Iterator[_Array]:
    """The arrays in memory whose rows lie along `inner`."""
    group, scop = situation.group, situation.scop

    def found(
        value: int, index: tuple[Affine, ...], axes: tuple[AxisClass, ...], itemsize: int, written: bool
    ) -> Iterator[_Array]:
        shape = scop.shape(value)
        along = [f"%{d}" for d, axis in enumerate(axes) if axis is inner]
        if len(index) < 2 or len(index) != len(shape) or len(along) != 1:
            return
        if index[-1].coefficient(along[0]) != 1 or any(along[0] in e.names() for e in index[:-1]):
            return
        first = tuple([e.substitute({along[0]: 0}) for e in index])
        if all(e.is_linear for e in first):
            yield _Array(written, shape, first, axes, itemsize * prod([situation.size(n) for n in shape]))

    for statement in group.statements():
        axes = situation.classes.statement(statement)
        for read in statement.reads:
            entries = tuple([e for e in read.index if isinstance(e, Affine)])
            if read.source in group.loads and len(entries) == len(read.index):
                yield from found(read.source, entries, axes, scop.dtype(read.source, read.component).itemsize, False)
        if statement.id in group.roots:
            kept = tuple([Affine.symbol(f"%{d}") for d in statement.kept])
            yield from found(statement.id, kept, axes, sum(d.itemsize for d in statement.dtypes), True)
