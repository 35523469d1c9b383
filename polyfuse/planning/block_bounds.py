"""For which sizes a kernel has blocks enough.  What a block adds up of a shared reduction is a number in its text:

    share = 192512, 528 blocks at once     n = 100,000,001: 520 blocks, all of them run
                                           n = 102,000,000: 530 blocks, two of them when the others have ended
                                           n =   2,000,000:  11 blocks, one of twelve processors has anything to do

and blocks that share nothing, but take long, leave processors idle where a batch is smaller:

    max over the middle of 64 x 4096 x 1023     512 blocks of 250 us; of 2 x 4096 x 1023: 16 blocks of 250 us

Within these bounds a call runs the plan; beyond them it deserves one of its own.
"""

from __future__ import annotations

from polyfuse.bindings import VolumeGuard
from polyfuse.cost.counts import Cost
from polyfuse.schedule import KernelSchedule
from polyfuse.target import Target

AT_ONCE = 8
"""Blocks per processor up to which all of a kernel whose blocks share a reduction run at once, at the most."""
FEWER = 2
"""Times fewer blocks at which shares of their own pay, where all of them run at once."""
OTHERS = 4
"""Times fewer or more where they come in many waves: none is idle for long, and the last one adds up so many shares."""
SHORT = 10e-6
"""Seconds of a kernel, its launch included, that shares of their own hardly shorten."""


def block_bounds(schedule: KernelSchedule, cost: Cost, target: Target) -> tuple[VolumeGuard, ...]:
    """Advisory bounds on the blocks of a kernel.

    Where blocks share a reduction not fewer than a half of those that it was made for, unless it is short anyway, and
    not more than run at once beside them.  Where each has long work of its own, not fewer than a half and than one for
    each processor.
    """
    if target.kind != "cuda":
        return ()
    grid = tuple(d.extent for d in schedule.of_kind("block"))
    if not schedule.grid_combine:
        least = min(cost.blocks // FEWER, target.processors) // schedule.cluster
        long = cost.seconds > SHORT * max(1, cost.blocks / max(1, cost.occupancy * target.processors))
        varies = any(not extent.is_constant for extent in grid)
        return (VolumeGuard(grid, least, exceeds=True, advisory=True),) if least and long and varies else ()
    wave = max(1, target.processors // schedule.cluster)
    blocks = cost.blocks // schedule.cluster  # a cluster is one block of the grid
    resident = -(-blocks // wave)
    if resident > AT_ONCE:
        least, most = blocks // OTHERS, blocks * OTHERS
    elif cost.seconds > SHORT:
        least, most = blocks // FEWER, resident * wave
    else:
        least, most = 0, max(resident, cost.occupancy) * wave
    lower = (VolumeGuard(grid, least, exceeds=True, advisory=True),) if least else ()
    return (VolumeGuard(grid, most, advisory=True), *lower)
