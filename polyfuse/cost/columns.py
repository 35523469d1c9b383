"""Blocks of columns: what they load where lanes are beyond the last column, and how long one is there where its warps
meet for a few rows.

    lanes    0 .. 17 have columns, 18 .. 31 load nothing
    launch, a few trips of loads behind those of other blocks, warps meet, stores
"""

from __future__ import annotations

from polyfuse.cost.alone import BEGIN, meetings
from polyfuse.cost.counts import Sizes
from polyfuse.cost.l1 import inside
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.target import Target

IDLE_UNROLLED, LONG_SHARE = 0.8, 16
"""Times the loads of a trip that are on their way where many lanes have no column, and trips from which on.  Sums of
the columns of 728177 x 72 float32 in 132 blocks of 256 threads, 18 of 32 lanes of which have columns, take an H100 111
us, of 385505 x 136, 34 of 64, 118, of 262144 x 200, 50 of 64, 96, in four times as many blocks 81, 81 and 78; where 75
to 77 were predicted."""


def loading(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> float:
    """The share of what threads of blocks of columns load: none where lanes are beyond the last column.  In frames, and
    of single elements, the loads of a trip are few as it is."""
    tile = dict(schedule.parameters)
    if schedule.strategy != "columns" or not schedule.grid_combine or tile.get("frames") or tile["vector"] == 1:
        return 1.0
    loads = [p for p in schedule.placed if p.role == "load" and p.path and len(p.place) > 1]
    if max((sizes.product({loop for loop, _ in p.path}, ("loop",)) for p in loads), default=1) < LONG_SHARE:
        return 1.0
    share = min([inside(scop, load, sizes, first=len(load.place) - 1) for load in loads], default=1.0)
    return max(IDLE_UNROLLED * share, share**2)


ALL_AT_ONCE = 0.1
"""Times longer that memory takes for columns of several images whose rows begin anywhere, where most blocks walk down
them at once: the last ends later than the others, and the more waves of them there are the less.  Largest and sums
along the middle on an H200, in blocks of 256, 512 and 1024 threads: of 64 x 4096 x 1023 float32 275, 284 and 250 us, of
128 x 2001 x 1025 283, 258 and 250, of 32 x 8191 x 1023 264, 271 and 274, half as wide, in twice as many blocks of 1024,
250; where rows are whole vectors 236 to 243 either way.  In shares, however many: of 64 x 4096 x 1023 271, of 8 x 32001
x 1023 287, whose bytes take 245 (benchmarks/results/columns_between_h200.json)."""


def walked_at_once(schedule: KernelSchedule, target: Target, sizes: Sizes, blocks: int, occupancy: int) -> float:
    """How many times longer memory takes because blocks of columns end apart."""
    if schedule.strategy != "columns" or dict(schedule.parameters)["vector"] > 1:
        return 1.0
    loads = [p for p in schedule.placed if p.role == "load" and p.path]
    if max((sizes.product({loop for loop, _ in p.path}, ("loop",)) for p in loads), default=1) < LONG_SHARE:
        return 1.0
    along = [d for d in schedule.of_kind("block") if sizes.extent[d.name] > 1]
    if len(along) <= 1 + bool(schedule.grid_combine):
        return 1.0  # side by side in one image
    if schedule.grid_combine:
        return 1 + ALL_AT_ONCE
    waves = blocks / (max(1, occupancy) * target.processors)
    return 1 + ALL_AT_ONCE * min(1.0, waves) / max(1.0, waves) ** 2


FEW_WAVES = 4
"""Waves of blocks of columns up to which prices that were measured on short kernels hold."""
BEHIND, MOST_TRIPS = 1.9, 3
"""Times the latency that loads take behind those of other blocks, and trips that wait so long."""
MEET_BEHIND = 0.25e-6
"""Seconds for each warp of a block whose warps meet, while others load.  Of 29 schedules that sum columns of 4 to 17
rows, of one array and of two, on an H100, blocks of 16 to 256 threads are there for 2.5 to 9 us, whatever they move:
cosines along the middle of 371 x 6 x 11776 float32 in 4 warps 102 us, in 8 187, in threads by themselves 77, where 76
to 102 were predicted; with these constants prices are off by 13 % (root of the mean square of logarithms)."""


def behind_others(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, waves: int) -> float:
    """Seconds from the launch of a block of columns to its last store, where its warps meet and many blocks are on
    their way; 0 where none meet, of other blocks and of few waves."""
    is_simple = not (schedule.rings or schedule.ahead or schedule.cluster > 1)
    if schedule.strategy != "columns" or waves <= FEW_WAVES or not is_simple:
        return 0.0
    if all(reach <= target.warp for reach, _ in meetings(scop, schedule)):
        return 0.0
    trips = [sizes.product({loop for loop, _ in p.path}, ("loop",)) for p in schedule.placed if p.role == "load"]
    waits = BEHIND * target.latency * min(MOST_TRIPS, max(trips, default=1))
    return BEGIN + waits + MEET_BEHIND * schedule.block_threads / target.warp
