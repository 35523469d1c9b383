"""What blocks that begin in order wait for each other, and the totals that they read of those in front."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from polyfuse.affine import Affine
from polyfuse.cost.counts import Sizes
from polyfuse.schedule import GridScan, KernelSchedule, Placed, nests, stretch
from polyfuse.scop import Scop, Statement
from polyfuse.target import Target

IN_STEP, SHUFFLED, LANE_STEP, MOST_SHUFFLED = 1.5e-6, 0.4e-6, 0.3e-6, 1.5e-6
"""Seconds by which a wave of blocks is longer where each waits for totals of those in front; where lanes of a warp scan
besides, for each step of that, and for all of them at most: they come to their loads, to the wait and to their stores
together.  On an H200, 67 million float32 in 31, 21 and 16 waves of 256 threads: 219, 199 and 190 us, of which 133 are
those of their bytes; 8192 x 8192 along columns in 21 and 16 waves 182 and 167.  On an H100, with one step and with two:
8192 x 8192 213 and 224 us, 65536 x 1024 216 and 216, 500000 x 100 206 and 202, 123457 x 40 float64 58 and 48."""
AGAIN = 0.7
"""Of the bandwidth of the last-level cache, what loads of what was summed a few blocks ahead reach: the same 67 million
in 175 us, and with another array beside them in 238, of which 200 are those of the bytes."""
HELD_UP = 0.7
"""Of what the totals that blocks read take the last-level cache, what other blocks do not hide.  On an H100, prefixes
of 65536 x 1024 float32 along axis 0 243 us and of 8192 x 8192 204, where with all of it 291 and 237 were predicted."""
CLEARED = 1.5e-6
"""Seconds from the last store of a kernel to its end, where the last block of each line clears what all have left; more
where that is much, by what one processor writes."""


def handed_on(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, waves: int) -> float:
    """Seconds that a kernel takes longer for what its blocks hand on."""
    if not schedule.grid_scans:
        return 0.0
    left = [_left(scop, schedule, scan) for scan in schedule.grid_scans]
    seconds = CLEARED + sum(_cleared(totals, target, sizes) for totals in left)
    seconds += HELD_UP * sum(totals.bytes * _read(totals, sizes) for totals in left) / target.l2_bandwidth
    if any(scan.lead for scan in schedule.grid_scans):
        return seconds + _summed(scop, schedule, sizes) / (AGAIN * target.l2_bandwidth)
    steps = max(_lane_steps(scop, schedule, scan, target) for scan in schedule.grid_scans)
    shuffled = min(MOST_SHUFFLED, SHUFFLED + LANE_STEP * steps) if steps else 0.0
    return seconds + waves * (IN_STEP + shuffled)


def _summed(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> int:
    """Bytes of what totals are made of."""
    reached = schedule.summed_ahead()
    arrays = {(p.value, p.component) for p in schedule.placed if p.role == "load" and p.name in reached}
    return sum(sizes.volume(scop.shape(value)) * scop.dtype(value, component).itemsize for value, component in arrays)


def _over(scop: Scop, placed: Placed) -> frozenset[str]:
    """The digits that a prefix runs through."""
    statement = scop.statements[placed.value]
    assert isinstance(statement, Statement) and statement.scanned is not None
    entry = placed.place[statement.scanned]
    return entry.names() if isinstance(entry, Affine) else frozenset()


def _lane_steps(scop: Scop, schedule: KernelSchedule, scan: GridScan, target: Target) -> int:
    """Steps of a scan between lanes of a warp."""
    over = _over(scop, schedule.by_name()[scan.scan])
    dealt = [d for d in schedule.of_kind("thread") if f"${d.name}" in over]
    return sum(min(d.count, max(1, target.warp // d.stride)).bit_length() - 1 for d in dealt)


@dataclass(frozen=True, slots=True)
class _Left:
    """What each block leaves for a prefix: bytes, and whether groups of groups are left as one."""

    scan: GridScan
    bytes: int
    nested: bool


def _left(scop: Scop, schedule: KernelSchedule, scan: GridScan) -> _Left:
    placed = schedule.by_name()[scan.scan]
    over, statement = _over(scop, placed), scop.statements[placed.value]
    threads = prod(d.count for d in schedule.of_kind("thread") if f"${d.name}" not in over)
    slots = prod(d.count for d in schedule.of_kind("slot") if d.name in placed.digits() and f"${d.name}" not in over)
    words = max(1, statement.dtypes[0].compute.itemsize // 4)
    return _Left(scan, 8 * words * threads * slots, nests(scan.group, slots))


def _cleared(left: _Left, target: Target, sizes: Sizes) -> float:
    """Seconds in which the last block of a line clears its totals, or in which many clear them."""
    count = sizes.extent[left.scan.digit]
    seconds = left.bytes * count * (1 + 1 / left.scan.group) / target.l2_bandwidth
    return seconds if left.nested and count > stretch(left.scan.group) else seconds * target.processors


def _read(left: _Left, sizes: Sizes) -> float:
    """Totals that all blocks read: of groups, of groups of groups if any, and of the last groups one of each block."""
    group, one = left.scan.group, sizes.extent[left.scan.digit] / 2
    totals = min(one, one / group + 1.5 * group)
    if left.nested:
        totals = min(totals, one / group**2 + 3.0 * group)
    return totals * sizes.product(frozenset(sizes.extent), ("block",))
