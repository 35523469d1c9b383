"""Boxes that asynchronous copies fill: their rows begin in shared memory as they begin in memory.

    x[i, j] of rows of 8191 halves, vectors of 8:   vector t of row i begins at j = 8*t - (7*i mod 8)
    box of it, rows 151 = 7 mod 8 elements apart:   cell (r, 8*t - (7*r mod 8)) lies at a multiple of 8

What copies an aligned vector of memory finds an aligned place in the box, whatever the row, and nothing is moved inside
of words.  Rows an odd number of elements apart meet all banks of shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polyfuse.affine import Affine
from polyfuse.places.boxes import Box, deal_rows, lanes_along, span
from polyfuse.places.pitches import MOST_PADDING, turns_at
from polyfuse.schedule import Digit


@dataclass(frozen=True, slots=True)
class Copied:
    """A box, and per dimension where the threads of a block copy, from 0.  `row`: cells that vectors of a row lie in,
    those among them that end or begin beside what is needed."""

    box: Box
    spread: tuple[Affine, ...]
    row: int


def copied_box(
    needed: Box, strides: Sequence[int], vector: int, threads: int, digits: dict[str, Digit]
) -> Copied:
    """The box of aligned vectors that holds `needed`, of an array whose neighbours lie `strides` elements apart, but
    for multiples of `vector`.  A lane has one vector of a row."""
    *outer, column = needed.origin
    first = _rest(needed.origin, strides, vector)  # of the first element in its vector
    lead = first + (vector if not first.is_constant or first.constant < vector - 1 else 0)
    most = 2 * vector - 1 if not first.is_constant else lead.constant
    vectors = 1 << (-(-(needed.extents[-1] + vector - 1) // vector) - 1).bit_length()
    lanes = min(vectors, threads)
    along = lanes_along(digits, len(strides) - 1, lanes, vectors, vector)
    rows = deal_rows(needed, threads, lanes, digits)
    reached = [1 + span(row, digits).upper for row in rows]  # all that is copied has a place
    box = Box((*outer, column - lead), (*reached, most + needed.extents[-1]))
    moved = tuple([origin + row for origin, row in zip(outer, rows, strict=True)])
    return Copied(box, (*rows, along + lead - _rest((*moved, column), strides, vector)), most + vectors * vector)


def _rest(index: Sequence[Affine], strides: Sequence[int], vector: int) -> Affine:
    """Where an element lies in its vector."""
    total = sum([entry * stride for entry, stride in zip(index, strides, strict=True)], start=Affine.of(0))
    kept = {atom: factor % vector for atom, factor in total.terms}
    return Affine.build(kept, total.constant % vector) % vector


def copied_pitch(
    copied: Copied,
    strides: Sequence[int],
    vector: int,
    itemsize: int,
    places: Sequence[tuple[Affine, ...]],
    digits: Mapping[str, Digit],
) -> tuple[int, ...]:
    """Elements between neighbours, as in memory but for multiples of `vector`: rows so far apart that lanes which get
    at `places` take the fewest turns."""
    extents = (*copied.box.extents[:-1], copied.row)
    tried = [_pitch(extents, strides, vector, padding) for padding in range(MOST_PADDING)]
    return min(tried, key=lambda pitch: sum([turns_at(p, pitch, itemsize, itemsize, digits) for p in places]))


def least_pitch(row: int, strides: Sequence[int], vector: int) -> int:
    """The same, at least, where a box has one of all but two dimensions, and pieces of `row` elements, wherever in a
    vector these begin."""
    return _pitch((*[1] * (len(strides) - 1), row + 2 * vector - 1), strides, vector, 0)[0]


def _pitch(extents: Sequence[int], strides: Sequence[int], vector: int, padding: int) -> tuple[int, ...]:
    """`padding`: vectors that rows lie further apart than they have to."""
    pitch = [1]
    for extent, stride in zip(reversed(extents[1:]), reversed(strides[:-1]), strict=True):
        least = extent * pitch[0] + (padding * vector if len(pitch) == 1 else 0)
        pitch.insert(0, least + (stride - least) % vector)
    return tuple(pitch)
