"""What blocks at the border of an array compute beyond those in the middle, and what it costs that registers are those
of the middle.

    v = step(step(u)) of a u that is rolled: of the middle each step of a window is computed once; at the border the
    first step of what lies across an edge is a window of its own, four of them
"""

from __future__ import annotations

from polyfuse.cost.counts import Sizes, placed_operations
from polyfuse.cost.middle import chosen, decided
from polyfuse.cost.registers import register_need
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.target import Target

SPILLED = 0.3e-6
"""Seconds of a block at the border for each register that its threads need beyond those that there are.  Two steps of
two fields that are rolled, on an H100, in a kernel whose blocks in the middle need 130 to 210 registers, those at the
border 330 to 516: of 4 and 16 MB it takes 21 to 54 us longer than its price without, 0.16 to 0.29 for each register; of
200 MB 413 us, in two kernels 294."""


def spilled_at_border(
    scop: Scop, schedule: KernelSchedule, middle: KernelSchedule, target: Target, sizes: Sizes
) -> int:
    """Registers of a thread at the border that are in memory, where it computes more than one in the middle; where it
    only chooses what it loads, each choice ends before the next begins."""
    if not schedule.border or middle is schedule:
        return 0
    drop = chosen(scop, schedule)

    def operations(part: KernelSchedule) -> int:
        computed = [p for p in part.placed if p.role == "compute" and p.name not in drop]
        return sum([placed_operations(scop, p, sizes, schedule.threads, decided) for p in computed])

    if operations(schedule) <= operations(middle):
        return 0
    threads = schedule.block_threads * schedule.minimum_blocks
    bound = min(target.registers_per_thread, target.registers_per_processor // threads)
    return max(0, register_need(scop, schedule, sizes) - bound)


def blocks_at_border(schedule: KernelSchedule, sizes: Sizes) -> int:
    """Blocks that are the first or the last along some axis of the grid."""
    extents = [sizes.extent[d.name] for d in schedule.of_kind("block")]
    every = inner = 1
    for extent in extents:
        every, inner = every * extent, inner * max(0, extent - 2)
    return every - inner
