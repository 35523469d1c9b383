"""What comes from main memory more than once: blocks read again what others have read so long ago that the last-level
cache has seen more since than it holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from polyfuse.affine import ZERO, Affine
from polyfuse.cost.counts import Sizes, looked_up, moved_bytes
from polyfuse.cost.walked import goes_apart
from polyfuse.schedule import KernelSchedule, Placed, PlaceEntry
from polyfuse.scop import Scop
from polyfuse.target import Target
from polyfuse.unravelled import Unravelled


@dataclass(frozen=True, slots=True)
class Stream:
    """An array that blocks read or write: its bytes, and the digits along which they go through it."""

    bytes: int
    digits: frozenset[str]


def streamed(schedule: KernelSchedule, loads: Sequence[Placed], bytes_: int) -> Stream:
    """Of an array that is read by `loads`."""
    return Stream(bytes_, frozenset[str]().union(*[_walked(p) | looked_up(schedule, p) for p in loads]))


def sweeps(
    schedule: KernelSchedule, array: Stream, streams: Sequence[Stream], target: Target, sizes: Sizes, occupancy: int
) -> float:
    """How often blocks bring an array.  134 MB of which pairs of blocks, 335 MB apart, read the same, and write 537 MB:
    208 us on an H200, where 671 MB are 167; seven copies of 32 MB one after the other 152 us on an H100, where all
    bytes take 85.  `streams`: all that the kernel reads and writes."""
    found, slower = 1.0, 1
    blocks = sorted(schedule.of_kind("block"), key=lambda d: -d.number)
    resident = max(1, occupancy) * target.processors
    for k, d in enumerate(blocks):
        count = sizes.extent[d.name]
        beside = max(1.0, resident / max(1, math.prod(sizes.extent[b.name] for b in blocks[k + 1 :])))
        if d.name not in array.digits and count > beside:
            between = sum([s.bytes / (count if d.name in s.digits else 1) for s in streams]) / slower
            found *= count / beside if between > target.l2_kept else 1.0
        slower *= max(1, count)
    return found


def walks(scop: Scop, loads: Sequence[Placed], streams: Sequence[Stream], target: Target, sizes: Sizes) -> int:
    """The same of an array that all rows of a flat walk share."""
    whole = [p for p in loads if not any(isinstance(e, str) for e in p.place)]  # of a table, data choose the rows
    whole = [p for p in whole if not goes_apart(p.place)]
    shared = [(p, e) for p in whole for e in p.place if isinstance(e, Unravelled) and e.in_row]
    if not shared:
        return 1
    load, entry = shared[0]
    steps = sizes.product({name[1:] for name in entry.names() if name.startswith("$")})
    rows, alone = -(-steps // max(1, entry.extent.evaluate(sizes.hints))), moved_bytes(scop, load, sizes)
    between = alone + (sum([s.bytes for s in streams]) - alone) / rows
    return rows if between > target.l2_kept else 1


def met_again(
    loads: Sequence[Placed], streams: Sequence[Stream], target: Target, sizes: Sizes, here: float
) -> float:
    """The part of an array that comes again because a trip of a loop reads rows that the one before it has read, and
    all blocks together have moved more in between than the cache holds.  On an H200, a residual of 8192 x 8192 float32
    that is stored, and its square in blocks of so many rows, two in a trip: 244 us of 2, 356 of 16, 309 of 64, where
    there are few.  `here`: the part of all blocks that run at once."""
    if len(loads) < 2:
        return 0.0
    found, trips, total = 0.0, 1, sum([s.bytes for s in streams])
    for loop, _ in loads[0].path:
        if sizes.kind[loop] != "loop":
            continue
        trips *= sizes.extent[loop]
        between = total * here / trips
        if sizes.extent[loop] > 1 and between > target.l2_kept:
            found = max(found, _overlap(loads, loop) * (1 - (target.l2_kept / between) ** 2))
    return found


def _overlap(loads: Sequence[Placed], loop: str) -> float:
    """The part of what a trip of a loop reads along the dimension that it walks which the trip before has read."""
    for entries in zip(*[load.place for load in loads], strict=True):
        linear = [e for e in entries if isinstance(e, Affine)]
        steps = {e.coefficient(f"${loop}") for e in linear}
        if len(linear) < len(entries) or len(steps) > 1 or (step := max(steps)) <= 0:
            continue
        starts = [e.constant for e in linear]
        return min(1.0, (max(starts) - min(starts)) / step)
    return 0.0


def _walked(load: Placed) -> frozenset[str]:
    """The digits along which a load goes through its array, other than to where a frame begins."""
    if all(isinstance(entry, Affine) and entry.is_linear for entry in load.place):
        return load.digits()
    entries = [along_row(entry) for entry in load.place]
    names = frozenset[str]().union(*[e.names() for e in entries if not isinstance(e, str)])
    return frozenset([name[1:] for name in names if name.startswith("$")])


def along_row(entry: PlaceEntry) -> PlaceEntry:
    """Of a flat walk where it goes along a row; it goes from row to row seldom.  Of a frame the places of a row, less
    than a vector of which lie in front of it."""
    if isinstance(entry, Affine):
        walked, rests = entry.remainders()
        return walked if rests and all(times == -1 for _, times in rests) else entry
    if not isinstance(entry, Unravelled):
        return entry
    return entry.flat if entry.in_row else ZERO
