"""What a scatter costs whose updates kernels merge as they come.

The constants are of an H200: 10 million updates by 64-bit indices, counted in cells 25 us; 64-bit sums in memory 1612
us into 256 places, 143 into 30,000, 108 into a million.
"""

from __future__ import annotations

from collections.abc import Mapping

from polyfuse.scattered import Scatter, elements
from polyfuse.target import Target

LINE = 128
TURN = 2.6e-9
"""Seconds between two updates of one line of the last-level cache: 256 places of 8 bytes are 16 lines."""
SPREAD = 1.08e-11
"""Seconds per update of places that lie far apart."""
OVERHEAD = 5e-6
"""Seconds in which cells are cleared and merged, and few blocks begin and end."""


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
