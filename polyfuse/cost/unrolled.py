"""How many loads of a loop are on their way at once: those of a trip, and of the next ones that the compiler begins.

    for k in range(n):                      x0 = load row 0; x1 = load row 1
        x = load row k              ->      for k in range(0, n - 2, 2):
        s = s + x                               s = s + x0 + x1; x0 = load row k + 2; x1 = load row k + 3
"""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.cost.counts import Sizes
from polyfuse.cost.phases import combined_in_trips, merges_states
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop

UNROLLED, HARDLY_UNROLLED = 1.6, 1.1
"""Times the loads of a trip that are on their way in a loop without barriers, as the compiler begins the next: sums of
64 rows by 512 threads with 64 bytes each ran at 0.97 of the roof.  Means of 2 x 2 in loops of one warp did not.  And of
columns in frames, or whose states are merged: the largest of 1000003 x 131 float16 in one block per processor 156 us,
sums of bfloat16 in two 74; the sums of exponentials of 2 x 500000 x 100 bfloat16 in one 149, where memory takes 47.
And of two of what is no sum: the largest and the least of 12251 x 4081 float32 in 128 blocks of 512 threads take an
H100 114 us, 86 in 512, of 3051 x 32768 bfloat16 97 and 84; sums of such columns 72 in 128.  And of rows in frames: 371
rows of 269393 float16, times others and summed, in 186 blocks of 128 threads 185 us, where 133 were predicted.  And of
rows whose states are merged: the variance of 37.5 million sums of two neighbours takes an H200 84 us in 131 blocks of
256 threads, where 45 were predicted, 51 in 509."""
AT_ONCE, MOST_UNROLLED = 16, 4
"""Loads of single elements that the compiler puts together from several trips, and the most trips: column sums of 20001
x 4093 float32 on an H200, four loads a trip in 64 blocks of 512 threads, take 121 us."""
PADDED, FEW_LOADS = 0.95, 4
"""Share of the threads' elements that a row has, below which all loads of a trip are masked, and so many masked loads
as the compiler puts together from several trips.  Sums of 256 channels of 128 x 3136 float16, a row in one trip, take
an H200 83 us in 128 threads with four loads each, 52 in 512 with one."""


def _compares_twice(scop: Scop, schedule: KernelSchedule) -> bool:
    """Whether a kernel has several reductions that are no sums, or merges states of several values."""
    found = [getattr(scop.statements[value], "monoid", None) for value in schedule.body]
    return len([m for m in found if m not in (None, "sum")]) > 1 or merges_states(scop, schedule)


def _there(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> tuple[float, int]:
    """(the share of what the threads load in a trip that exists, of how many loads each), where a trip is a row."""
    found = 1.0, 1
    for placed in schedule.placed if schedule.strategy == "rows" else ():
        last = placed.place[-1] if placed.role == "load" and placed.path and placed.place else None
        if not isinstance(last, Affine):
            continue
        along = frozenset([n[1:] for n in last.steps() if n.startswith("$")])
        if any(sizes.kind[name] == "loop" for name in along):
            continue
        slots = sizes.product(along, ("slot",))
        span = slots * sizes.product(along, ("thread",))
        share = scop.shape(placed.value)[-1].evaluate(sizes.hints) / span
        if share < min(PADDED, found[0]):
            found = share, -(-slots // dict(schedule.parameters).get("vector", 1))
    return found


def on_their_way(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> float:
    """Times the bytes that the threads would load in a trip that are, of what exists."""
    share, loads = _there(scop, schedule, sizes)
    return share * _times(scop, schedule, sizes, share, loads)


def unrolled(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> float:
    """Times the loads of a trip that are on their way; with shares, single elements of each trip by themselves."""
    return _times(scop, schedule, sizes, *_there(scop, schedule, sizes))


def _times(scop: Scop, schedule: KernelSchedule, sizes: Sizes, share: float, loads: int) -> float:
    """The same where a `share` of so many loads exists."""
    tile = dict(schedule.parameters)
    if share < 1 and not merges_states(scop, schedule):
        return min(UNROLLED, max(1.0, FEW_LOADS / loads))
    if schedule.strategy == "one_pass" and combined_in_trips(scop, schedule, sizes):
        return 1.0  # lanes meet in every trip
    if schedule.strategy == "rows" and merges_states(scop, schedule):
        return min(HARDLY_UNROLLED, _of_trips(schedule, sizes))
    if tile.get("frames") or schedule.strategy == "columns" and _compares_twice(scop, schedule):
        return HARDLY_UNROLLED
    return _of_trips(schedule, sizes)


def _of_trips(schedule: KernelSchedule, sizes: Sizes) -> float:
    """The same where the compiler sees no reason against it."""
    tile = dict(schedule.parameters)
    if tile.get("vector") != 1:
        return UNROLLED
    if any(p.role == "partial" for p in schedule.placed):
        return 1.0
    inside = [p for p in schedule.placed if p.role == "load" and p.path]
    loads = sum(sizes.product(p.digits(), ("slot",)) for p in inside)
    trips = min((sizes.product({loop for loop, _ in p.path}, ("loop",)) for p in inside), default=1)
    most = min(MOST_UNROLLED, trips / MOST_UNROLLED)  # what is left over goes by one by one
    return max(min(UNROLLED, most), min(most, AT_ONCE / max(1, loads)))
