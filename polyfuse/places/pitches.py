"""How far neighbours of a box lie apart in shared memory: padding, so that the lanes of a warp meet each of its banks.

    rows of 64 floats, put along rows and got down a column:   65 apart
    rows of 64 bytes, put and got four at once:                 68 apart, an odd number of words
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, lcm

import numpy as np

from polyfuse.affine import Affine, FloorDiv
from polyfuse.banks import WARP, WORD, at_lanes, lane_turns, turns
from polyfuse.places.boxes import Box
from polyfuse.schedule import Digit

MOST_TOGETHER = 4  # elements of a row that one access of shared memory moves, of which its vectors have 16 bytes


def odd_pitch(box: Box, places: Sequence[tuple[Affine, ...]], digits: Mapping[str, Digit]) -> tuple[int, ...]:
    """Elements between neighbours: rows of an odd number of vectors, so that a walk down a column meets every bank.
    The vectors are those in which all `places` that put or get move along a row; single elements if there are none, or
    if neighbours that step by several rows would meet in the banks of vectors."""
    vector = min([_together(p[-1] - box.origin[-1], digits, MOST_TOGETHER) for p in places if p], default=1)
    vector = 1 if any(_meet(entry, digits) for place in places for entry in place[:-1]) else vector
    pitch = [1] * len(box.extents)
    for d in range(len(box.extents) - 2, -1, -1):
        row = box.extents[d + 1] * pitch[d + 1]
        pitch[d] = (-(-row // vector) | 1) * vector if d == len(box.extents) - 2 else row
    return tuple(pitch)


MOST_NARROW = 9
"""Pitches of elements of less than a word that are tried: with them, walks of rows one apart meet each bank."""


def narrow_pitch(
    box: Box, itemsize: int, places: Sequence[tuple[Affine, ...]], digits: Mapping[str, Digit]
) -> tuple[int, ...]:
    """Elements between neighbours where these are less than a word: the first pitch at which the lanes that put and get
    at `places` take the fewest turns.  Rows of 65 bytes, of which lanes get one each, meet in half of the banks."""
    if len(box.extents) < 2:
        return (1,)
    first = box.extents[-1] | 1

    def waiting(pitch: tuple[int, ...]) -> int:
        return sum([turns_at(place, pitch, itemsize, itemsize, digits) for place in places])

    return min([_outer_pitch(box, first + k, (1,)) for k in range(MOST_NARROW)], key=waiting)


def turns_at(
    place: Sequence[Affine], pitch: Sequence[int], itemsize: int, size: int, digits: Mapping[str, Digit]
) -> int:
    """Turns that the lanes of a warp take for accesses of `size` bytes each at `place` of a box."""
    lanes = [d for d in digits.values() if d.kind == "thread" and d.stride < WARP and d.count > 1]
    position = _position(place, pitch)
    apart = [(position.coefficient(f"${d.name}") * itemsize, min(d.count, WARP // d.stride)) for d in lanes]
    return turns(tuple([(step, count) for step, count in apart if step]), size)


MOST_APART = 9
"""Elements of padding that are tried."""

AT_ONCE = 16
"""Bytes of the widest access."""


def padded_pitch(
    box: Box,
    itemsize: int,
    places: Sequence[tuple[Affine, ...]],
    digits: Mapping[str, Digit],
    threads: int,
    *,
    packed: bool = False,
) -> tuple[int, ...]:
    """Elements between neighbours of the fewest turns for lanes that put and get at `places`, one element each or, of
    what is `packed`, as many as lie side by side: padding between rows, and between what lies outermost."""
    extents, rank = box.extents, len(box.extents)
    if rank < 2:
        return (1,) * rank
    local = [[entry - o for entry, o in zip(place, box.origin, strict=True)] for place in places]
    lanes = [np.array([at_lanes(entry, digits.values(), threads) for entry in place]) for place in local]
    outer = next((d for d in range(rank - 2) if extents[d] > 1), rank - 2)

    def pitch(row: int, plane: int) -> tuple[int, ...]:
        found = [1]
        for d in range(rank - 2, -1, -1):
            found.insert(0, found[0] * extents[d + 1] + (row if d == rank - 2 else plane if d == outer else 0))
        return tuple(found)

    planes = MOST_APART if outer < rank - 2 else 1
    tried = [pitch(row, plane) for row in range(MOST_APART) for plane in range(planes)]
    waiting = np.zeros(len(tried))
    for place, at in zip(local, lanes, strict=True):
        widths = [_together(_position(place, p), digits, AT_ONCE // itemsize if packed else 1) for p in tried]
        for width in set(widths):
            chosen = [k for k, w in enumerate(widths) if w == width]
            waiting[chosen] += lane_turns(np.array([tried[k] for k in chosen]) @ at, itemsize, width) / width
    return tried[int(np.argmin(waiting))]


def whole_words(count: int, itemsize: int) -> int:
    """Neighbouring rows of `count` elements that are whole words together."""
    return WORD // gcd(count * itemsize, WORD)


def row_words(count: int, itemsize: int) -> int:
    """Words of the widest access to which neighbouring rows of a few elements add up."""
    return gcd(lcm(count * itemsize, WORD), MOST_TOGETHER * WORD) // WORD


MOST_PADDING = 8
"""Pitches that are tried: beyond them, others of the same remainders of the banks come again at a higher price."""


def short_rows_pitch(
    box: Box, itemsize: int, spread: Sequence[Affine], digits: Mapping[str, Digit]
) -> tuple[int, ...]:
    """Elements between neighbours where threads hold whole rows of a few elements: what follows the last such row lies
    an odd number of accesses on.  Lanes one such row apart meet every bank that accesses of their own width leave to
    them, lanes four apart a quarter of these; of the pitches of which this is true, that of the fewest turns for lanes
    that put at `spread`."""
    unit = max(1, WORD * row_words(box.extents[-1], itemsize) // itemsize)
    odd = -(-box.extents[-2] * box.extents[-1] // unit) | 1
    tried = [_outer_pitch(box, (odd + 2 * k) * unit, (box.extents[-1], 1)) for k in range(MOST_PADDING)]
    return min(tried, key=lambda pitch: turns_at(spread, pitch, itemsize, unit * itemsize, digits))


def plain_pitch(box: Box) -> tuple[int, ...]:
    """Elements between neighbours of rows that follow each other."""
    return _outer_pitch(box, box.extents[-1], (1,)) if len(box.extents) > 1 else (1,)


def _outer_pitch(box: Box, rows: int, inner: tuple[int, ...]) -> tuple[int, ...]:
    """`rows`: elements from one row, or from one of what rows of a few elements make up, to the next; `inner`: between
    neighbours inside of one."""
    pitch = [rows, *inner]
    for extent in reversed(box.extents[1 : -len(inner)]):
        pitch.insert(0, extent * pitch[0])
    return tuple(pitch)


def _position(place: Sequence[Affine], pitch: Sequence[int]) -> Affine:
    """The element of a box that lies at `place`."""
    return sum([entry * step for entry, step in zip(place, pitch, strict=True)], start=Affine.of(0))


def _together(index: Affine, digits: Mapping[str, Digit], most: int) -> int:
    """Elements side by side that a thread moves at once, from a multiple of their number: a power of two up to `most`.
    """
    slots = [atom for atom, factor in index.terms if factor == 1 and isinstance(atom, str) and atom[0] == "$"]
    slots = [name for name in slots if digits[name[1:]].kind == "slot"]
    divided = {name for atom, _ in index.terms if isinstance(atom, FloorDiv) for name in atom.numerator.names()}
    if len(slots) != 1 or slots[0] in divided:
        return 1
    others = [factor for atom, factor in index.terms if atom != slots[0]]
    return gcd(most, digits[slots[0][1:]].count, index.constant, *others)


def _meet(row: Affine, digits: Mapping[str, Digit]) -> bool:
    """Whether more than two neighbours of a warp lie a multiple of two rows apart.  On an H200, products of 64 x 1024 x
    64 with themselves, whose lanes read the rows of a tile four apart: 377 us in vectors, 313 in single elements."""
    lanes = [(factor, digits[atom[1:]]) for atom, factor in row.terms if isinstance(atom, str) and atom[0] == "$"]
    return any(f % 2 == 0 and d.kind == "thread" and min(d.count, WARP // d.stride) > 2 for f, d in lanes)
