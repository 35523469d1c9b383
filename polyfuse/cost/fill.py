"""Which part of the bandwidth of memory a kernel fills: what its resident threads keep on their way at once."""

from __future__ import annotations

from polyfuse.cost.columns import loading
from polyfuse.cost.counts import Sizes
from polyfuse.cost.phases import combined_in_trips, merges_states, runs_in_threads
from polyfuse.cost.traffic import ENOUGH_IN_FLIGHT, LEAST_IN_FLIGHT, bytes_of_thread
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.target import Target

PULL = 3.0
"""Times its share of the bandwidth that one processor takes in: 64 bytes a cycle, 110 GB/s on an H200; sums of 64 rows
of 4 MB in 32 blocks reach 3.3."""
UNROLLED, HARDLY_UNROLLED = 1.6, 1.1
"""Times the loads of a trip that are on their way in a loop without barriers, as the compiler begins the next: sums of
64 rows by 512 threads with 64 bytes each ran at 0.97 of the roof.  Means of 2 x 2 in loops of one warp did not.  And of
columns in frames, or whose states are merged: the largest of 1000003 x 131 float16 in one block per processor 156 us,
sums of bfloat16 in two 74; the sums of exponentials of 2 x 500000 x 100 bfloat16 in one 149, where memory takes 47.
And of two of what is no sum: the largest and the least of 12251 x 4081 float32 in 128 blocks of 512 threads take an
H100 114 us, 86 in 512, of 3051 x 32768 bfloat16 97 and 84; sums of such columns 72 in 128.  And of rows in frames: 371
rows of 269393 float16, times others and summed, in 186 blocks of 128 threads 185 us, where 133 were predicted."""
AT_ONCE, MOST_UNROLLED = 16, 4
"""Loads of single elements that the compiler puts together from several trips, and the most trips: column sums of 20001
x 4093 float32 on an H200, four loads a trip in 64 blocks of 512 threads, take 121 us."""


def filled(
    scop: Scop,
    schedule: KernelSchedule,
    target: Target,
    sizes: Sizes,
    in_flight: int,
    blocks: int,
    resident: int,
    waits: float,
) -> float:
    """The share of the bandwidth that the bytes which resident threads keep in flight can fill."""
    threads = schedule.block_threads
    if runs_in_threads(scop, schedule):  # `running` says how long each trip takes
        return min(1.0, PULL * min(1.0, blocks / target.processors))
    loops = schedule.of_kind("loop") and threads > target.warp
    if loops and not waits:
        in_flight = int(in_flight * unrolling(scop, schedule, sizes))
        in_flight = int(in_flight * loading(scop, schedule, sizes))
    stores = [p for p in schedule.placed if p.role == "store"]
    if loops:  # what is stored behind them all
        stores = [p for p in stores if any(sizes.kind[name] == "loop" for name, _ in p.path)]
    leaving = sum(bytes_of_thread(scop, p, sizes) for p in stores)
    least = 0 if loops and in_flight else LEAST_IN_FLIGHT
    flying = resident * threads * max(least, in_flight, min(in_flight + leaving, ENOUGH_IN_FLIGHT))
    return min(1.0, PULL * min(1.0, blocks / target.processors), flying / (target.bandwidth * target.latency))


def _compares_twice(scop: Scop, schedule: KernelSchedule) -> bool:
    """Whether a kernel has several reductions that are no sums, or merges states of several values."""
    found = [getattr(scop.statements[value], "monoid", None) for value in schedule.body]
    return len([m for m in found if m not in (None, "sum")]) > 1 or merges_states(scop, schedule)


def unrolling(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> float:
    """Times the loads of a trip that are on their way; with shares, single elements of each trip by themselves."""
    tile = dict(schedule.parameters)
    if schedule.strategy == "one_pass" and combined_in_trips(scop, schedule, sizes):
        return 1.0  # lanes meet in every trip
    if tile.get("frames") or schedule.strategy == "columns" and _compares_twice(scop, schedule):
        return HARDLY_UNROLLED
    if tile.get("vector") != 1:
        return UNROLLED
    if any(p.role == "partial" for p in schedule.placed):
        return 1.0
    inside = [p for p in schedule.placed if p.role == "load" and p.path]
    loads = sum(sizes.product(p.digits(), ("slot",)) for p in inside)
    trips = min((sizes.product({loop for loop, _ in p.path}, ("loop",)) for p in inside), default=1)
    most = min(MOST_UNROLLED, trips / MOST_UNROLLED)  # what is left over goes by one by one
    return max(min(UNROLLED, most), min(most, AT_ONCE / max(1, loads)))
