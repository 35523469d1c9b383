"""What a scatter costs whose updates kernels merge as they come, or combine in their order.

The constants are of an H200: 10 million updates by 64-bit indices, counted in cells 25 us; 64-bit sums in memory 1612
us into 256 places, 143 into 30,000, 108 into a million.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from polyfuse.scatters.call import elements
from polyfuse.scatters.elements import CAPACITIES, SHARED, ElementScatter
from polyfuse.scatters.rows import WIDEST, joins
from polyfuse.scatters.ways import Volume, Way
from polyfuse.target import Target

LINE = 128
TURN = 2.6e-9
"""Seconds between two updates of one line of the last-level cache: 256 places of 8 bytes are 16 lines."""
SPREAD = 1.08e-11
"""Seconds per update of places that lie far apart."""
OVERHEAD = 5e-6
"""Seconds in which cells are cleared and merged, and few blocks begin and end."""

POSITION = 8
"""Bytes of a position that a library sorts along."""
APART = 112
"""Bytes in whose time one element is read that lies apart: 10 million updates were walked in 566 us."""
JOIN = 6e-6
"""Seconds of a kernel in which threads look for what they have to join."""
PASS, PASSED = 8.5e-6, 9.6e-12
"""Seconds of a pass of the sort, at least and per key: 200,000 keys and 10 million."""
SORTING = 1.6e-4
"""Seconds of host time of the library's sort."""


def merging_seconds(scatter: ElementScatter, in_cells: bool, target: Target, sizes: Mapping[str, int]) -> float:
    """Of all its launches."""
    count, places = scatter.count.evaluate(sizes), 1
    for extent in scatter.shape:
        places *= extent.evaluate(sizes)
    read = [v for v in (scatter.updates, *scatter.operands) if elements(scatter.scop.shape(v)) == scatter.count]
    moved = count * sum(scatter.scop.dtype(v).itemsize for v in read)
    seconds = moved / target.bandwidth
    if in_cells:
        seconds += OVERHEAD
    else:
        lines = max(1, places * scatter.merged.itemsize // LINE)
        seconds = max(seconds, count * max(SPREAD, TURN / lines))
    elementwise = places * 2 * scatter.dtype.itemsize / target.bandwidth
    launches = 2 if scatter.is_apart else 1
    return max(seconds, target.launch) + launches * max(elementwise, target.launch)


def sorting_seconds(count: int, itemsize: int, target: Target) -> float:
    """Of a radix sort of keys with their 64-bit positions, a pass per byte of a key; or of the host, that begins it."""
    passes = itemsize * max(PASS, count * PASSED)
    return max(passes + 2 * target.launch + count * PASSED, SORTING)


def walking_seconds(v: Volume, target: Target) -> float:
    """Of all launches of a scatter in order, once its places are sorted."""
    row = v.width * v.itemsize
    read = v.rows * (max(APART, row) + APART + POSITION)  # an update, its place, and its number
    walk = (read + 2 * min(v.result, v.rows * row)) / target.bandwidth
    depth = joins(v.rows) * JOIN
    return max(walk, target.launch) + max(2 * v.result / target.bandwidth, target.launch) + depth


def rows_seconds(v: Volume, target: Target) -> float:
    """Of all launches of a scatter whose rows are merged as they come."""
    lines = max(1, v.result // LINE)
    updates = v.rows * -(-v.width * v.itemsize // WIDEST)  # those of one access are one
    merge = max(v.read / target.bandwidth, updates * SPREAD, v.rows * v.width * TURN / lines)
    return max(merge, target.launch) + max(2 * v.result / target.bandwidth, target.launch)


def way_seconds(way: Way, v: Volume, target: Target) -> float:
    """Of all that combines updates in one way."""
    words: tuple[Volume, ...]
    match way:
        case "sorted":
            return sorting_seconds(v.rows, v.key, target) + walking_seconds(v, target)
        case "merged":
            return rows_seconds(v, target)
        case "scaled":
            sums = 2 if v.itemsize == 8 else 1
            words = (replace(v, itemsize=max(4, v.itemsize)), *[replace(v, itemsize=8)] * sums)
        case "keyed":
            words = (replace(v, itemsize=max(4, v.itemsize)),)
        case _:
            assert_never(way)
    seconds = target.launch + max(2 * v.result / target.bandwidth, target.launch)
    for word in words:  # what stands for the updates is written, merged, and read where the result is made
        seconds += max((v.read + word.read) / target.bandwidth, target.launch) + _merged_seconds(word, target)
    return seconds


def _merged_seconds(v: Volume, target: Target) -> float:
    """Of integers, in cells where these fit."""
    if v.width > 1 or v.places > CAPACITIES[-1] or v.result > SHARED:
        return rows_seconds(v, target)
    return max(v.read / target.bandwidth, target.launch) + OVERHEAD + target.launch
