"""What a scatter costs whose updates kernels merge as they come, or combine in their order.

The constants are of an H200: 10 million updates by 64-bit indices, counted in cells 25 us; 64-bit sums in memory 1612
us into 256 places, 143 into 30,000, 108 into a million.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from polyfuse.scattered import Scatter, elements
from polyfuse.sorted_scatter import SortedScatter
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
SECTOR = 32
"""Bytes that a read of one element moves which lies apart."""
JOIN = 8e-6
"""Seconds of a kernel in which every thread follows 32 shares one by one."""


def merging_seconds(scatter: Scatter, in_cells: bool, target: Target, sizes: Mapping[str, int]) -> float:
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
    """Of a radix sort of keys with their 64-bit positions: a pass reads and writes both per byte of a key."""
    return max(2 * itemsize * count * (itemsize + POSITION) / target.bandwidth, (itemsize + 2) * target.launch)


def walking_seconds(scatter: SortedScatter, target: Target, sizes: Mapping[str, int]) -> float:
    """Of all launches of a scatter in order, once its places are sorted."""
    scop = scatter.scop
    volume = {v: prod(n.evaluate(sizes) for n in scop.shape(v)) for v in (scatter.updates, scatter.order)}
    count, elements = volume[scatter.order], prod(n.evaluate(sizes) for n in scop.shape(scatter.result))
    row = volume[scatter.updates] * scatter.dtype.itemsize // max(1, count)
    read = count * (max(SECTOR, row) + SECTOR + POSITION)  # an update, its place, and its number
    base = elements * scatter.dtype.itemsize
    walk = (read + min(elements * scatter.dtype.itemsize, count * row) * 2) / target.bandwidth
    return max(walk, target.launch) + max(2 * base / target.bandwidth, target.launch) + scatter.depth * JOIN
