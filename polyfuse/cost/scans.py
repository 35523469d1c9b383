"""What prefixes take beside their bytes: threads that share them, threads that run through them, lanes without any.

Each constant names the measurement that set it.
"""

from __future__ import annotations

import math

from polyfuse.affine import Affine
from polyfuse.cost.counts import Sizes, element_instructions
from polyfuse.scalars import RECURRENCE
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import Scop, Statement
from polyfuse.target import Target


def scanned_digits(scop: Scop, placed: Placed) -> frozenset[str]:
    """The digits that a placed scan runs through; none for other statements."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement) or statement.scanned is None:
        return frozenset()
    entry = placed.place[statement.scanned]
    names = entry.names() if isinstance(entry, Affine) else frozenset()
    return frozenset(name[1:] for name in names if name.startswith("$"))  # the others are sizes


def runs_in_threads(scop: Scop, schedule: KernelSchedule) -> bool:
    """Whether each thread runs through prefixes of its own columns and stores some in every trip.  Recurrences, which
    load little in each, were not measured."""
    if schedule.strategy != "columns" or not any(p.role == "store" and p.path for p in schedule.placed):
        return False
    digits = {d.name: d.kind for d in schedule.digits}
    prefixes = [p for p in schedule.placed if getattr(scop.statements[p.value], "monoid", None) != RECURRENCE]
    kinds = [{digits[name] for name in scanned_digits(scop, p)} for p in prefixes]
    return any("loop" in of_scan and "thread" not in of_scan for of_scan in kinds)


RUNNING = (0.6e-6, 15e-9)
"""Seconds from the loads of a trip to its stores, and more for each row in it, where threads run through prefixes.  On
an H200, cumsum along the middle of float32 in vectors of four: of 16 x 4096 x 1024 in steps of 4, 8, 16 and 32 rows
740, 386, 263 and 202 us, of 64 x 4096 x 1024 972, 653, 542 and 541; in single elements of 4 x 16384 x 2048, of 16 and
32 rows, 782 and 514.  Blocks of one warp that share columns are no quicker: on an H100, the largest drawdown of 300 x
5000 x 40 float32 153 us, predicted 156 with these and 83 without, products of 500 x 2520 x 40 166, 159 and 145."""


def running(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """Seconds of the trips, one behind the other, of a thread or a warp that runs through prefixes by itself."""
    by_a_warp = schedule.strategy == "columns" and schedule.block_threads <= target.warp
    if schedule.grid_scans or not (by_a_warp or runs_in_threads(scop, schedule)):
        return 0.0
    seconds = 0.0
    for placed in schedule.placed:
        digits = scanned_digits(scop, placed)
        loops = {loop for loop, _ in placed.path if sizes.kind[loop] == "loop"}
        trips, rows = sizes.product(loops, ("loop",)), sizes.product(digits, ("slot",))
        beside = BESIDE * _beside(scop, schedule, placed, sizes) if digits and by_a_warp else 0.0
        seconds = max(seconds, trips * (RUNNING[0] + rows * RUNNING[1] + beside) if digits else 0.0)
    return seconds


BESIDE = 1.3e-9
"""Seconds of an instruction of a trip beside those of a prefix, where a warp has a scheduler for itself.  On an H100,
of blocks of one warp: the largest drawdown of 300 x 5000 x 40 float32, three of 64 elements each, 1.05 us a trip, of 64
x 2048 x 512 bfloat16, of 128 elements, 1.66; prefixes over those of magnitudes of 300 x 6000 x 24, with a quotient of
each of 64, 3.3."""


def _beside(scop: Scop, schedule: KernelSchedule, prefix: Placed, sizes: Sizes) -> int:
    """Instructions of a thread in a trip of a prefix that are no part of it."""
    found = 0
    for placed in schedule.placed:
        statement = scop.statements[placed.value]
        inside = placed.role == "compute" and placed.path[: len(prefix.path)] == prefix.path and placed is not prefix
        if inside and isinstance(statement, Statement):
            found += element_instructions(statement) * sizes.product(placed.digits(), ("slot",))
    return found


IN_RUNS = 1.4
"""Times that a kernel takes whose blocks begin prefixes of columns anew, each at a place of its own.  On an H100, the
last of three kernels for prefixes along axis 0, measured and as predicted without it: 2000000 x 24 float32 214 and 136
us, 300000 x 257 418 and 269, 500000 x 100 181 and 156, 3000000 x 18 290 and 167, 100000 x 513 220 and 173, 123457 x 40
float64 43 and 31, 150000 x 515 bfloat16 264 and 216, 16384 x 8193 float32 529 and 443.  They are one or two waves of
blocks, of which the last is not whole."""


def in_runs(scop: Scop, schedule: KernelSchedule) -> float:
    """Times that a kernel takes for blocks that each begin prefixes of columns anew."""
    if schedule.strategy != "columns":
        return 1.0
    statements = [scop.statements[value] for value in schedule.body]
    return IN_RUNS if any(isinstance(s, Statement) and s.run for s in statements) else 1.0


OF_SCAN = 6
"""Operations of one thread per step of a scan that threads share, a lane bit or a warp: a shuffle or a load, a merge, a
choice.  On an H100, prefixes along the middle of 2000 x 5000 x 5 float32 232 us in 512 threads with four rows of five
each, 301 with one, where their bytes take 150; of 534 x 1534 x 64 bfloat16 119 us in 256 threads with two rows of eight
columns, 85 with eight rows, as their bytes take."""


def scanned_together(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> int:
    """Operations of one thread for the prefixes that the threads of a block share, in all of its trips."""
    found = 0
    for placed in schedule.placed:
        over = scanned_digits(scop, placed)
        dealt = [d for d in schedule.of_kind("thread") if d.name in over and d.count > 1]
        if not dealt:
            continue
        lanes = math.prod(min(d.count, max(1, target.warp // d.stride)) for d in dealt)
        warps = math.prod(d.count for d in dealt) // lanes
        steps = lanes.bit_length() - 1 + (warps + 1 if warps > 1 else 0)
        loops = {loop for loop, _ in placed.path if sizes.kind[loop] == "loop"}
        lines = sizes.product(placed.digits() - over, ("slot",))
        found += OF_SCAN * steps * lines * sizes.product(loops)
    return found


IDLE_SCANS, FEW_IDLE = 1.5, 1 / 16
"""Of the share of lanes that find nothing of a row, beyond the other, how much longer the rest take that scan it in one
trip of several warps.  On an H100: prefixes of rows of 777 bfloat16 164 us in 256 lanes, 128 in two trips of 128; of
1501 int64 268 in 512 lanes, 201 in three trips of 128; of 2001 float32 over the last of them 201 and 200, in 512 lanes
of which ten are idle; of 330 float32 206 in 256 lanes, 143 in 128; of 140 points of four 199 in 256 lanes, 140 in
columns of a warp."""

IN_TRIPS = 1.6
"""Times that rows of points take which several warps scan in several trips.  On an H100, prefixes along the middle of
2000 x 5000 x 5 float32 in 512 lanes of four points 232 us, of one 301, of 3000 x 2000 x 8 236, where 151, 148 and 137
were predicted; of 512000 x 256 x 3 in one trip of 256 lanes 158 and 141."""


def idle_in_scans(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """Times that rows take which several warps scan in one trip, of whose lanes some are idle; points, in several."""
    if schedule.strategy not in ("rows", "points") or dict(schedule.parameters)["lanes"] <= target.warp:
        return 1.0
    idle = 0.0
    for placed in schedule.placed:
        statement, digits = scop.statements[placed.value], scanned_digits(scop, placed)
        once = sizes.product(digits | {loop for loop, _ in placed.path}, ("loop",)) == 1
        if digits and not once and schedule.strategy == "points":
            return IN_TRIPS
        if digits and once and isinstance(statement, Statement) and statement.scanned is not None:
            covered = sizes.product(digits, ("thread", "slot"))
            idle = max(idle, 1 - statement.extents[statement.scanned].evaluate(sizes.hints) / covered)
    return 1 + IDLE_SCANS * max(0.0, idle - FEW_IDLE)
