"""Short axes that a thread takes whole: what does not run along them is read, or computed, once for all their results,
and what lies side by side along them in memory moves in wide accesses.

y = stack((a + b, a - b, a * b))       3 results of a thread from one element of a and one of b
y[n, c, p] = x[n, p] * w[c]            as many as there are c
y[c, p] = x[p, c]                      planes made of pixels, which lie colour by colour next to each other
y[p, c] = x[p, 2 - c]                  whole pixels, several of them: bytes in accesses of many
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod

from polyfuse.affine import ONE, Affine
from polyfuse.scop import Read, ReadEntry
from polyfuse.strategies.classes import AxisClass, unit_dimension
from polyfuse.strategies.situation import Situation, power_below

MOST_SHARED = 32
"""Results of a thread along axes of which something is read again: each is in a register."""
MOST_RESULTS = 32
"""Of a thread in words, along these axes and in vectors."""
MOST_AT_ONCE = 64
"""Of a thread in all: each may be computed by itself, which takes as much text."""
MOST_BYTES = 64
"""The same where results are shorter."""
COLOURS, SHORT, MOST_COLOURS = 4, 8, 16
"""Neighbours in memory that a thread reads together to make planes of them, and that it writes together, and those that
it reads where there is much to do.  A kernel for
an axis of no constant length is for the length at hand alone, which has to be one of few where there is little to do.
"""
MOST_STACKED = 32
"""The same of arrays that are stacked: a thread that has one of these computes what the others have as well."""
GAPS = (5, 6, 7)
"""Results of a pixel that lanes side by side have one each of: those of a thread leave gaps between stores.  346 MB of
float32 in rows of five made of planes: 235 us on an H200, 164 so."""
WORD = 4
"""Bytes of a register."""
PIXEL_BYTES = 8
"""Of an access to pixels that are no power of two: those of a warp lie three such apart.  403 MB turned around on an
H200, as bytes and as float16, take 133 to 139 us in accesses of 16 bytes, 100 of eight; put together from three arrays
115 to 117, and 100."""
IN_FLIGHT = 32
"""Bytes per thread and array, as of other elementwise kernels."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A thread takes all along `axes`, of `unroll` vectors of `vector` elements along `inner`."""

    inner: AxisClass
    axes: tuple[AxisClass, ...]
    unroll: int
    vector: int


def whole(situation: Situation, axes: Sequence[AxisClass], inner: AxisClass) -> Iterator[Whole]:
    """The ways to take some of `axes` whole, where threads are dealt to `inner` unless its rows are short."""
    yield from _pixels(situation, axes)
    if colours := _colours(situation, axes, inner):
        count = prod(axis.size(situation.hints) for axis in colours)
        pixels = max(4 // gcd(4, count), WORD // max(situation.long_itemsizes))  # so that they are whole accesses
        vector = min(pixels, situation.width(inner.extent, flat=False))
        yield Whole(inner, colours, power_below(MOST_RESULTS // (vector * count)), vector)
    for taken in _together(situation, _shared(situation, axes, inner)):
        yield from _of_shared(situation, inner, taken)


def _few(situation: Situation) -> int:
    """Elements of a short axis of any length."""
    return SHORT if situation.has_much else COLOURS


def _pixels(situation: Situation, axes: Sequence[AxisClass]) -> Iterator[Whole]:
    """Rows of a few elements that lie one behind the other, as the colours of pixels: a thread takes so many that they
    are wide accesses, or one.  Three floats of each of 16 million points on an H200: 101 us where a thread has one, 136
    where it has four; of 34 million made of three arrays 257 where it has two that lie apart, 195 where they do not."""
    row, hints = axes[-1], situation.hints
    others = [a for a in axes if a is not row and a.extent != ONE]
    most = SHORT if row.extent.is_constant else _few(situation)
    if not others or not 1 < row.size(hints) <= (MOST_STACKED if _is_stacked(situation, row) else most):
        return
    if row.size(hints) in GAPS and not _is_read_along(situation, row):
        return
    pixels, size, count = others[-1], max(situation.long_itemsizes), row.size(hints)
    most = PIXEL_BYTES // size if size < WORD or not _is_read_along(situation, row) else 1
    if count == power_below(count):
        most = situation.target.vector_bytes // (size * count)
    vector = power_below(situation.tiles.get("vector", min(most, MOST_BYTES // count)))
    while pixels.size(hints) % vector:
        vector //= 2
    again = () if _is_shifted(situation, pixels, 2) else _together(situation, _shared(situation, others, pixels))
    loaded = size * vector * (1 if size < WORD and not _is_read_along(situation, row) else count)
    for taken in ((), *again):  # windows serve what is read a few elements further on
        held = vector * count * prod(a.size(hints) for a in taken)
        unroll = min(IN_FLIGHT // loaded, max(MOST_RESULTS, MOST_BYTES // size) // held)
        yield Whole(pixels, (*taken, row), power_below(unroll), vector)
    if vector > 1 and "vector" not in situation.tiles:
        yield Whole(pixels, (row,), 1, 1)


def _is_stacked(situation: Situation, row: AxisClass) -> bool:
    """Whether each element of a row is an array of its own."""
    if not row.extent.is_constant:
        return False
    for statement in situation.group.statements():
        along = _names(situation.classes.statement(statement), row)
        pieces = {read.where for read in statement.reads if any(along & w.names() for w in read.where)}
        if len(pieces) >= row.extent.constant:
            return True
    return False


def _colours(situation: Situation, axes: Sequence[AxisClass], inner: AxisClass) -> tuple[AxisClass, ...]:
    """Short classes along which something is read with unit stride that `inner` steps over: pixels, in memory colour by
    colour next to each other, of which planes are made; or small matrices.  None where there is no such array."""
    for statement in situation.group.statements():
        of = situation.classes.statement(statement)
        for read in statement.reads:
            if read.source not in situation.group.loads or not read.index:
                continue
            steps = [f"%{d}" for d, a in enumerate(of) if a is inner]
            stepped = any(name in e.names() for name in steps for e in _affine(read.index[:-1]))
            found = _short(situation, of, read, axes, inner)
            if found and stepped:
                return found
    return ()


def _short(
    situation: Situation, of: Sequence[AxisClass], read: Read, axes: Sequence[AxisClass], inner: AxisClass
) -> tuple[AxisClass, ...]:
    """The classes that the last entries of an index step along, as far as all their elements are few; in the order of
    `axes`."""
    most, found = MOST_COLOURS if situation.has_much else COLOURS, list[AxisClass]()
    for entry in reversed(read.index):
        along = unit_dimension(entry)
        axis = of[along] if along is not None else inner
        count = prod(a.size(situation.hints) for a in (*found, axis))
        if axis is inner or axis in found or axis not in axes or axis.size(situation.hints) == 1 or count > most:
            break
        found.append(axis)
    return tuple(axis for axis in axes if axis in found)


def _shared(situation: Situation, axes: Sequence[AxisClass], inner: AxisClass) -> list[AxisClass]:
    """The classes of `axes` of a few elements along which something is read again that runs along `inner`."""
    limits = [(a, MOST_SHARED if a.extent.is_constant else COLOURS) for a in axes if a is not inner]
    few = [axis for axis, most in limits if 1 < axis.size(situation.hints) <= most]
    return [axis for axis in few if _is_read_again(situation, axis, inner)]


def _together(situation: Situation, axes: Sequence[AxisClass]) -> Iterator[tuple[AxisClass, ...]]:
    """Each of `axes`, and all of them where that is no more than a thread may have."""
    if len(axes) > 1 and prod(a.size(situation.hints) for a in axes) <= MOST_SHARED:
        yield tuple(axes)
    yield from [(axis,) for axis in axes]


def _of_shared(situation: Situation, inner: AxisClass, taken: tuple[AxisClass, ...]) -> Iterator[Whole]:
    """In vectors, and in single elements where something is read a few elements further on, where no vector begins."""
    width, count = situation.width(inner.extent, flat=False), prod(a.size(situation.hints) for a in taken)
    size = max(situation.long_itemsizes)
    unroll, most = IN_FLIGHT // (size * width), max(MOST_RESULTS, MOST_BYTES // size)
    while width > 1 and width * count > MOST_AT_ONCE:
        width //= 2
    for vector in (width, 1) if _is_shifted(situation, inner, width) else (width,):
        yield Whole(inner, taken, power_below(min(unroll, most // (vector * count))), vector)


def _is_read_again(situation: Situation, axis: AxisClass, inner: AxisClass) -> bool:
    for statement in situation.group.statements():
        of = situation.classes.statement(statement)
        if axis in of:
            along, across = _names(of, inner), _names(of, axis)
            indices = [_indexed(read) for read in statement.reads]
            if any(along & names and not across & names for names in indices):
                return True
    return False


def _is_read_along(situation: Situation, axis: AxisClass) -> bool:
    """Whether something is read with unit stride along `axis`."""
    for statement in situation.group.statements():
        across = _names(situation.classes.statement(statement), axis)
        for read in statement.reads:
            if read.source in situation.group.loads and any(across & e.names() for e in _affine(read.index[-1:])):
                return True
    return False


def _is_shifted(situation: Situation, inner: AxisClass, width: int) -> bool:
    """Whether something is read along `inner` where no vector of `width` elements begins."""
    for statement in situation.group.statements():
        along = _names(situation.classes.statement(statement), inner)
        for read in statement.reads:
            if any(along & e.names() and e.constant % width for e in _affine(read.index)):
                return True
    return False


def _names(of: Sequence[AxisClass], axis: AxisClass) -> frozenset[str]:
    return frozenset(f"%{d}" for d, a in enumerate(of) if a is axis)


def _indexed(read: Read) -> frozenset[str]:
    """The dimensions that choose what is read; data do too, of which nothing is known."""
    if not read.affine:
        return frozenset()
    return frozenset().union(*(entry.names() for entry in _affine(read.index)))


def _affine(index: Sequence[ReadEntry]) -> list[Affine]:
    return [e for e in index if isinstance(e, Affine)]
