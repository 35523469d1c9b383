"""What elements of small tables take the first-level cache, which data choose for each lane of a warp."""

from __future__ import annotations

from polyfuse.cost.counts import Sizes, looked_up
from polyfuse.cost.lines import LINE
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import Scop
from polyfuse.target import Target

TABLE, OFTEN = 64 << 10, 8
"""Bytes of a table at most, and how often each element is looked up at least: of larger arrays, and where a lookup is
about once, neighbouring lanes may be told to read neighbours."""
SPREAD = 0.4
"""Passes of the cache for each line that the lanes of a warp lie in, if they lie anywhere in the table: words in
different banks share one.  Searches by halves of 30 million float32 on an H100: among 17 and 100 keys 125 and 126 us,
as their bytes take; among 1000, with a lookup, 329; among 4095 537; np.interp between 3000 points in float64 811."""


def table_passes(
    scop: Scop, schedule: KernelSchedule, target: Target, move: Placed, sizes: Sizes, accesses: float
) -> float:
    """Of so many accesses of warps at positions that are data; 0 where it is not known how far apart these are."""
    volume = sizes.volume(scop.shape(move.value))
    size = volume * scop.dtype(move.value, move.component).itemsize
    threads = {d.name for d in schedule.of_kind("thread") if d.stride < target.warp and d.count > 1}
    if size > TABLE or accesses * target.warp < OFTEN * volume or not threads & looked_up(schedule, move):
        return 0.0
    lines = max(1, -(-size // LINE))
    return accesses * SPREAD * lines * (1 - (1 - 1 / lines) ** target.warp)
