"""What a block takes by itself, from its launch to its last store: a wave of blocks takes that long at least, and the
first loads and the last stores of a kernel are behind nothing else.

    launch, loads -> a chain of results -> warps and clusters meet -> stores

Where there is much to do other blocks hide it; of a kernel that moves a few megabytes it is half of the time.  Each
constant names the measurement that set it.
"""

from __future__ import annotations

from collections.abc import Iterator

from polyfuse.cost.counts import Sizes, summed_digits
from polyfuse.cost.phases import combining_rounds
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.target import Target

CHAIN, ACCESS = 4, 2
"""Cycles from an instruction of a warp to its next one, on average, and instructions of an access.  This and what
follows is of 252 schedules of 36 programs that read 4 and 16 MB, in CUDA graphs of an H100: prices without them are
off by 42 % (root of the mean square of logarithms), and with them by 32; what they choose takes 1.15 and 1.09 times
what the best of these schedules takes."""
STARVED = 8
"""The same, at least, where half of the processors have no block, but much to do: what counts is the longest chain, not
what a processor can issue.  A step of Adafactor of 122 x 8190 in 64 blocks, each with a panel of columns whose rows are
partly in shared memory, takes an H100 37 us, in 256 panels 18; a step of Sinkhorn's 21 and 14."""
BEGIN = 1.1e-6
"""Seconds from the launch of a block to its first values, and from its last ones to memory."""
MEET = 0.06e-6
"""Seconds that the warps of a block take to combine their results, for each of them.  In blocks of 1,024 threads that
run in six waves, and of 256: means of 11 columns of 16 MB 34 and 11 us, a layernorm over channels of 4 MB 50 and 7."""
EXCHANGE = 0.4e-6
"""And the blocks of a cluster, for each doubling of it."""
ELECTED = 0.5e-6
"""Until a block knows that it is not the last one to leave its share."""

LONG = 20e-6
"""Seconds of a kernel beyond which less of all this counts: a microsecond that one schedule begins later than another
is less than the price of such a kernel is sure of."""


def counted(alone: float, work: float) -> float:
    """What counts of the seconds that a block takes by itself, in a kernel with work for so long."""
    return alone * LONG / (LONG + work)


def is_starved(target: Target, blocks: int, moved: int, work: float) -> bool:
    """Whether so few `blocks` move so many bytes in the seconds of a short kernel that each is a chain by itself.  Of
    fewer still what a processor takes in is the limit (`PULL` in polyfuse/cost/prices.py)."""
    some = target.processors <= 4 * blocks <= 2 * target.processors
    return some and 2 * moved >= target.busy_bytes and work < LONG


def begun(schedule: KernelSchedule, target: Target, sizes: Sizes, issued: float) -> float:
    """Seconds from the launch of a block to what its threads have to combine, and from that to memory; `issued`:
    instructions of one thread, in all its trips."""
    trips = max((sizes.product({loop for loop, _ in p.path}, ("loop",)) for p in schedule.placed), default=1)
    return BEGIN + CHAIN * issued / trips / target.clock


def met(scop: Scop, schedule: KernelSchedule, target: Target) -> float:
    """Seconds in which the threads of a block combine what they have, once in all."""
    seconds = 0.0
    warps = schedule.block_threads / target.warp
    for reach, rounds in meetings(scop, schedule):
        if reach > target.warp:
            seconds += rounds * MEET * min(warps, reach / target.warp)
        if reach > schedule.block_threads:
            seconds += rounds * EXCHANGE * (schedule.cluster.bit_length() - 1)
    return seconds + (ELECTED if any(p.role == "partial" for p in schedule.placed) else 0.0)


FEW_TRIPS, NEAR = 2, 0.3
"""Trips behind the first one that wait for memory, of a block that goes through a loop: of more, those of other blocks
are on their way; and the share of such a wait in loops that read the same again.  On an H100, in blocks that run in
some 25 waves: softmax along the middle of 53418 x 52 x 18 float32 271 us, sums of 9412 x 166 x 64 bfloat16 in 512
threads 127 and of 9836 x 26 x 391 141, where 161, 67 and 73 were predicted."""


def through_trips(schedule: KernelSchedule, target: Target, sizes: Sizes, unrolled: float) -> float:
    """Seconds from the first loads of a block to its end, but for combinations, where it goes through loops.
    `unrolled`: trips whose loads are on their way at once."""
    paths = dict.fromkeys(tuple(p.path) for p in schedule.placed if p.role == "load" and p.path)
    trips = [sizes.product({loop for loop, _ in path}, ("loop",)) / unrolled for path in paths]
    first = min(FEW_TRIPS, max(0.0, trips[0] - 1)) if trips else 0.0
    return target.latency * (1 + first + NEAR * sum(min(FEW_TRIPS, n) for n in trips[1:]))


def meetings(scop: Scop, schedule: KernelSchedule) -> Iterator[tuple[int, int]]:
    """Of each reduction, among how many threads it is combined and how often."""
    for placed in schedule.placed:
        if placed.role == "compute" and (over := summed_digits(scop, placed)):
            dealt = [d for d in schedule.of_kind("thread") if d.name in over]
            yield max((d.stride * d.count for d in dealt), default=1), combining_rounds(scop, placed)
