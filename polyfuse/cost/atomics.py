"""What it costs that blocks merge their shares into a result: a launch that fills it, updates in turn.

Each constant names the measurement that set it.
"""

from __future__ import annotations

import math

from polyfuse.affine import Affine
from polyfuse.cost.counts import Sizes
from polyfuse.cost.lines import SECTOR
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import Scop
from polyfuse.target import Target

FILL, EXPOSED, HIDDEN = 3.0e-6, 8.0e-6, 4
"""Seconds by which a launch that fills results delays the one behind it, and by which it would alone; of what that
takes, one part in so many hides it.  Sums on an H200, with an election and with a fill in
front: of 16384 x 16384 242.1 and 241.8 us, of 1000000 x 64 along columns 65.3 and 64.7, of 5 x 3000000 along rows 23.7
and 27.2, of 100000 x 64 along columns 20.6 and 25.4."""
UPDATES = 0.25
"""Of the bandwidth of the last-level cache, what atomic updates of different elements reach: 8.4 million in vectors
beside 1 GB that is read take 251.5 us on an H200, 4.2 million and fewer 236."""
ONE_SECTOR = 3
"""Cycles between two updates of one sector: A p with A^T r of 16384 x 16384 on an H200, where the warps of 32 blocks
update 8 neighbouring rows one by one in each of 64 trips, 273 us, of which 243 for the rest."""


def merging(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, busy: float) -> float:
    """Seconds that filling results with neutral elements adds to a kernel that keeps the device busy for so long, and
    merging the shares of all blocks into them: those of different elements side by side, those of one sector in turn,
    where blocks come to it in the same trip."""
    if not schedule.filled:
        return 0.0
    seconds = max(FILL, EXPOSED - busy / HIDDEN)
    for atomic in (p for p in schedule.placed if p.role == "atomic"):
        along = next(g.digit for g in schedule.grid_combine if g.reduction == atomic.providers[0])
        itemsize = scop.dtype(atomic.value).itemsize
        size, shares = sizes.volume(scop.shape(atomic.value)) * itemsize, sizes.extent[along]
        trips = sizes.product({loop for loop, _ in atomic.path}, ("loop",))
        in_turn = trips * shares * _updates_of_sector(schedule, target, atomic, itemsize) * ONE_SECTOR / target.clock
        seconds += size / target.bandwidth + max(size * shares / (UPDATES * target.l2_bandwidth), in_turn)
    return seconds


def _updates_of_sector(schedule: KernelSchedule, target: Target, atomic: Placed, itemsize: int) -> int:
    """Instructions by which a block updates one sector: one where lanes of a warp have neighbours, else one for each
    element of it."""
    last = atomic.place[-1] if atomic.place else None
    names = last.names() if isinstance(last, Affine) else frozenset()
    digits = [d for kind in ("thread", "slot") for d in schedule.of_kind(kind) if f"${d.name}" in names]
    if any(d.kind == "thread" and d.stride < target.warp for d in digits):
        return 1
    return min(SECTOR // itemsize, math.prod(d.count for d in digits))
