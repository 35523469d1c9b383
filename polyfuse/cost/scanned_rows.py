"""What scanned rows take longer than their bytes and operations say: held in several pieces, or in trips of many lanes.

Each constant names the measurement that set it.
"""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.cost.counts import Sizes
from polyfuse.cost.l1 import WORD, side_by_side
from polyfuse.cost.scans import scanned_digits
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import Scop
from polyfuse.target import Target

IN_SINGLE, OF_FEW_LANES, FEW_LANES = 1.35, 1.1, 64
"""Times that scanned rows take which are held in single elements, and those of words that few lanes hold.  On an H200,
over what is predicted without: prefixes of rows of 1001 float32 1.05 in two pieces of 128 lanes, 1.16 and 1.1 in four
of 64 and eight of 32, of 2001 over their last 0.99 in eight of 64, 1.68 in four of 128, of 4001 over their sums 1.29
and 1.43 in eight of 128 and four of 256, of 777 bfloat16 1.23 to 1.5."""
MANY_PIECES, IN_MANY = 6, 1.03
"""Pieces beyond which scanned rows take longer that few lanes hold, and how much.  In the same run: prefixes of rows of
1000 and 2000 float32 1.08 and 1.05 in eight of 32 and of 64, of float64 1.26 in eight of 64, and 1 in four of 128."""
ENOUGH, SOME, HELD_BY_FEWER, HELD_BY_FEWEST = 512, 384, 1.6, 2.2
"""Threads of a processor from which on scanned rows in pieces take no longer, and how much they take of which it has
fewer, and fewer still.  In the same run: variances of prefixes in five blocks of 128 threads 170 us, in three 194 (126
predicted), of 4096 elements in three 235 (140), in one of 256 364 (135), of float64 in two of 128 382 (134), where
trips of 128 lanes take 176, 172 and 190; averages by weights in two 254 (148) and 156 in trips."""
UNSTORED, FEW_TRIPS = 1.3, 3
"""Times that scanned rows take, no element of which is stored, where lanes go through them in so many trips.  In the
same run: the deepest fall of 1000 elements 1.38 in two trips of 128 lanes, of 252 1.46 of 32, extremes of prefixes of
777 1.3, of 300 float64 1.29 in three trips of 64 and 1.6 in two of 128; of 2000 in four of 128 as predicted."""
BY_MANY, MANY_LANES = 1.12, 256
"""Times that scanned rows take in several trips of so many lanes; more wait longer in any case (`phases.SCANNED`).  In
the same run, in 128 lanes and in 256, predicted alike: prefixes of rows of 2000 float32 128 and 154 us, of 1000 float64
129 and 150, averages by weights of 2520 144 and 162, of float64 156 and 183, variances of prefixes of 2000 and 4096 176
and 210, 172 and 194, of bfloat16 347 and 417."""


MANY_TRIPS, BY_A_WARP = 4, 1.1
"""Trips from which on a warp goes through scanned rows more slowly, and how much.  On an H200, in frames, by 32 lanes
and by 128: prefixes of rows of 1001 float32 142 and 127 us, of 2001 149 and 131, of 8191 151 and 138; of 777 bfloat16,
in four trips, 109 and 111."""
AT_ONCE = {256: 1.02, 512: 1.2, 1024: 2.2}
"""Times that scanned rows take at once in so many lanes.  In the same run: prefixes of 1000 float32 in 256 lanes 1.04,
over their last 1.0, softmax of such 1.17, prefixes of 2001 in 512 1.2, of 4096 over their sums in 1024 2.2: 338 us, 130
in eight pieces of 128."""


def times_longer_scanned(
    scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, occupancy: int, waves: int
) -> float:
    """Times that rows take which lanes scan at once or in trips, where there are more blocks than run at a time; 1 for
    other kernels."""
    if schedule.strategy != "rows" or schedule.grid_scans or waves < 2:
        return 1.0
    scans = [p for p in schedule.placed if scanned_digits(scop, p)]
    if not scans:
        return 1.0
    tile, loops = dict(schedule.parameters), {d.name for d in schedule.of_kind("loop")}
    if tile["chunks"] > 1 and not loops:
        return _in_pieces(scop, schedule, sizes, occupancy)
    trips = sizes.product(scanned_digits(scop, scans[0]) & loops, ("loop",))
    if trips == 1:
        return AT_ONCE.get(tile["lanes"], 1.0)
    stored = any(p.role == "store" and not loops.isdisjoint(loop for loop, _ in p.path) for p in schedule.placed)
    found = UNSTORED if not stored and trips <= FEW_TRIPS else 1.0
    found *= BY_A_WARP if tile["lanes"] <= target.warp and trips > MANY_TRIPS else 1.0
    return found * (BY_MANY if tile["lanes"] == MANY_LANES else 1.0)


def _in_pieces(scop: Scop, schedule: KernelSchedule, sizes: Sizes, occupancy: int) -> float:
    tile, threads = dict(schedule.parameters), schedule.block_threads * max(1, occupancy)
    found = 1.0 if threads >= ENOUGH else HELD_BY_FEWER if threads >= SOME else HELD_BY_FEWEST
    few = tile["lanes"] <= FEW_LANES
    if few and tile["chunks"] > MANY_PIECES:
        found *= IN_MANY
    moved = [p for p in schedule.placed if p.role == "load" and p.place]
    if not any(_is_single(scop, schedule, p, sizes) for p in moved):
        return found
    short = any(scop.dtype(p.value, p.component).itemsize < WORD for p in moved)
    return found * (OF_FEW_LANES if few and not short else IN_SINGLE)


def _is_single(scop: Scop, schedule: KernelSchedule, load: Placed, sizes: Sizes) -> bool:
    """Whether a thread has several neighbours of a row, which it loads one by one."""
    last = load.place[-1]
    along = load.digits() & {d.name for d in schedule.of_kind("slot")}
    return isinstance(last, Affine) and bool(along) and side_by_side(scop, schedule, load, last, sizes)[1] == 1
