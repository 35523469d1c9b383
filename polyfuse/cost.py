"""The price of a schedule: what it moves, computes and occupies, and the time that follows.

    time = launch + max(HBM bytes / bandwidth, cache bytes / cache bandwidth, operations / rate) and lines of L1 / rate
           with bandwidths scaled by the bytes that resident threads keep in flight (Little's law), written bytes
           dearer than read ones

Cost decides nothing about legality.  Every constant names the measurement that set it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf, prod

from polyfuse import cost_cpu
from polyfuse.affine import Affine
from polyfuse.cost_l1 import l1_seconds
from polyfuse.counts import (
    Cost,
    Sizes,
    box_bytes,
    cell_bytes,
    least_registers,
    moved_bytes,
    placed_instructions,
    placed_operations,
    position_of,
    register_need,
    touched_bytes,
    trip_bytes,
)
from polyfuse.places.boxes import Unbounded, enclosing_box
from polyfuse.places.products import folded_products
from polyfuse.scalars import CASCADES, POSITION
from polyfuse.schedule import Digit, KernelSchedule, Placed
from polyfuse.scop import Scop, Statement
from polyfuse.target import Target

OVERLAP = 4
"""Passes of the first-level cache hide behind the rest while they are few: the norm in which the two times add up."""

READ, WRITTEN = 0.915, 1.085
"""Times that a byte takes which a kernel reads or writes, over the mean of a copy.  On an H200, beyond 8 us: sums of 1
and 2 GB read 4.64 to 4.73 TB/s; 2 reads and a write, copies, a read and 2 writes leave 3.9 to 4.05 TB/s for writes."""

SPILL_FACTOR = 2.0  # a spilled register is written and read once
ALONE = 1.2
"""What a block without a neighbour on its processor takes longer: nothing loads while it combines, or combines while it
loads.  On an H200: softmax of 4096 x 32768 in blocks of 1024 threads 1.17, cross-entropy of 8192 x 32000 1.21."""
PULL = 3.0
"""Times its share of the bandwidth that one processor takes in: 64 bytes a cycle, 110 GB/s on an H200; sums of 64 rows
of 4 MB in 32 blocks reach 3.3."""
CLUSTER = (1.6e-6, 0.8e-6, 1.7)
"""Seconds that a cluster in phases takes longer per wave of blocks after the first, for each doubling of it besides,
and how many times more where a thread has several results; with two exchanges.  On an H200: softmax of rows 2.3 us in
clusters of 2, 4.9 of 16; standardising columns 6.6 of 8, 8.2 of 16."""
EXCHANGES = (0.39, 0.61)
"""Of that time, what the first exchange takes and what each further one does.  With one exchange on an H200: softmax of
512 x 262144 takes 289 us in clusters of 8 that hold half in shared memory, 1.6 us a wave, 2048 x 65536 in clusters of 2
270 us; nothing in shared memory and clusters of 16, 370 us, more than this says."""


def price(scop: Scop, schedule: KernelSchedule, target: Target, hints: Mapping[str, int]) -> Cost:
    """The predicted cost of one kernel at the hinted sizes."""
    if target.kind == "cpu":
        return cost_cpu.price(scop, schedule, target, hints)
    sizes = Sizes(schedule, hints)
    everything = frozenset(sizes.extent)
    blocks = sizes.product(everything, ("block",)) * schedule.cluster
    threads = schedule.block_threads
    shared = box_bytes(scop, schedule)
    registers, spilled = _registers(scop, schedule, target, sizes)
    occupancy = target.occupancy(threads, min(registers, target.registers_per_thread), shared)
    summed = frozenset[str]().union(*[_summed(scop, p) for p in schedule.placed])
    read, wasted, again, cache_read, in_flight = _loads(scop, schedule, target, sizes, blocks, occupancy, summed)
    written, wasted_writes, stored = _stores(scop, schedule, target, sizes, summed)
    flops = sum(placed_operations(scop, p, sizes, schedule.threads) for p in schedule.placed)
    folded = folded_products(scop, schedule)
    issued = sum(placed_instructions(scop, p, sizes, schedule.threads, folded) for p in schedule.placed)
    resident = min(blocks, max(1, occupancy) * target.processors)
    busy = min(1.0, blocks / target.processors)
    loops = schedule.of_kind("loop") and threads > target.warp
    if loops and not _waiting(scop, schedule, target, sizes):
        in_flight = int(in_flight * UNROLLED)
    leaving = sum(_bytes_of_thread(scop, p, sizes) for p in schedule.placed if p.role == "store")
    flying = resident * threads * max(LEAST_IN_FLIGHT, in_flight, min(in_flight + leaving, ENOUGH_IN_FLIGHT))
    fill = min(1.0, PULL * busy, flying / (target.bandwidth * target.latency))
    terms = {
        "memory": (READ * (read + wasted) + WRITTEN * (written + wasted_writes)) / (target.bandwidth * fill),
        "cache": (cache_read + stored) / (target.l2_bandwidth * fill),
        "compute": max(flops, 2 * issued) / (target.flops * busy),  # a fused multiply-add is two operations
    }
    terms["memory"] += again / (target.l2_bandwidth * fill)
    terms["memory"] *= _overlap(scop, schedule, target, sizes, occupancy)
    if _in_phases(scop, schedule, target, sizes):
        terms["memory"] += PHASES * _collective_operations(scop, schedule) * threads * blocks / (target.flops * busy)
        terms["memory"] += PHASES * _in_cells(scop, schedule, target) * blocks / busy
    elif schedule.of_kind("loop") and not schedule.rings and not schedule.ahead:
        slack = max(1.0, PULL * busy)  # of a processor that has no more than its share to load
        terms["memory"] += terms["compute"] / slack / max(1.0, resident / target.processors) ** EXPOSED
    waves = -(-blocks // (max(1, occupancy) * target.processors))
    terms["memory"] += (waves - 1) * _in_clusters(scop, schedule, target, sizes)
    terms["memory"] += spilled * 4 * SPILL_FACTOR * threads * blocks / target.bandwidth
    lines = l1_seconds(scop, schedule, target, sizes)
    together = (max(terms.values()) ** OVERLAP + lines**OVERLAP) ** (1 / OVERLAP)
    terms["cache"] = max(terms["cache"], lines)
    bound = max(terms, key=lambda k: terms[k])
    waiting = waves * _waiting(scop, schedule, target, sizes)
    beside = max(1.0, resident / target.processors)  # blocks that fill each other's gaps
    together = (together**beside + waiting**beside) ** (1 / beside)
    seconds = target.launch + together + _finish(scop, schedule, target, sizes, waves)
    if terms[bound] < target.launch:
        bound = "launch"
    elif fill < 0.5 and bound in ("memory", "cache"):
        bound = "latency"
    return Cost(read, written, cache_read, flops, registers, shared, occupancy, blocks, seconds, bound)


def _stores(
    scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, summed: frozenset[str]
) -> tuple[int, int, int]:
    """(bytes written, bytes as good as written beside them, bytes through the cache)."""
    written = wasted = stored = 0
    for store in (p for p in schedule.placed if p.role == "store"):
        moved = moved_bytes(scop, store, sizes)
        written += moved
        wasted += int(moved * _scattering(scop, store, schedule, sizes, summed))
        stored += int(moved * _waste(scop, store, schedule, target, sizes))
    return written, wasted, stored


def _registers(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> tuple[int, int]:
    """(registers of a thread, how many of its values spill) under the bound that the launch sets for its blocks."""
    need = register_need(scop, schedule, sizes)
    resident = schedule.block_threads * schedule.minimum_blocks
    bound = min(target.registers_per_thread, target.registers_per_processor // resident)
    if need <= bound or bound == target.registers_per_thread:
        return need, max(0, need - target.registers_per_thread)
    least = least_registers(scop, schedule, sizes)
    return max(bound, min(need, least)), max(0, least - bound)


def resident_blocks(scop: Scop, schedule: KernelSchedule, target: Target, hints: Mapping[str, int]) -> int:
    """The blocks per processor that the launch bounds should ask for: two, where the compiler would otherwise take so
    many registers that there is room for one, and where loads of the other would fill the gaps of the first."""
    asked = schedule.minimum_blocks
    if target.kind == "cpu" or asked > 1:
        return asked
    sizes = Sizes(schedule, hints)
    if not _in_phases(scop, schedule, target, sizes) and not _waiting(scop, schedule, target, sizes):
        return asked
    threads, shared = schedule.block_threads, box_bytes(scop, schedule)
    if target.occupancy(threads, register_need(scop, schedule, sizes), shared) > 1:
        return asked
    return 2 if target.occupancy(threads, least_registers(scop, schedule, sizes), shared) > 1 else asked


PHASES = 0.35  # of the time of combinations that other blocks do not hide: layernorm of 4096 in 128 to 1024 lanes
UNROLLED = 1.6
"""Times the loads of a trip that are on their way in a loop without barriers, as the compiler begins the next: sums of
64 rows by 512 threads with 64 bytes each ran at 0.97 of the roof.  Means of 2 x 2 in loops of one warp did not."""
EXPOSED = 2
"""How fast blocks on one processor hide that each loads, then computes, in every trip of a loop: the power of their
number by which the time of the operations is divided.  On an H200: mean of squared differences of 2 GB in one block per
processor 495 us, in three 471; mean and variance of 400 MB in 64 blocks 126 us, the mean alone 98."""
SETUP = 80  # operations of a thread before its first load: indices, masks, addresses


def _collective_operations(scop: Scop, schedule: KernelSchedule) -> int:
    """Operations of one thread for what several do together: a shuffle and a merge per lane bit, then the partial
    results of all warps."""
    steps = 0
    for placed in schedule.placed:
        dealt = _dealt_to(scop, schedule, placed)
        lanes = math.prod(d.count for d in dealt if d.stride < 32)
        warps = min(schedule.block_threads, math.prod(d.count for d in dealt)) // 32
        steps += _rounds(scop, placed) * (min(lanes, 32).bit_length() - 1 + max(0, warps - 1))
        steps += _of_positions(scop, placed) * (min(lanes, 32).bit_length() - 1 + max(0, warps - 1))
    return SETUP + 4 * steps


def _of_positions(scop: Scop, placed: Placed) -> int:
    """What a merge of positions takes beside one of values, in merges of these and shuffles."""
    statement = scop.statements[placed.value]
    monoid = statement.monoid if isinstance(statement, Statement) else None
    return POSITION // 4 if monoid in ("argmax", "argmin") else 0


BANKS = 128  # bytes a cycle that the shared memory of a processor moves


def _in_cells(scop: Scop, schedule: KernelSchedule, target: Target) -> float:
    """Seconds that a device of blocks like this one takes to move what waits in shared memory, per block."""
    cells = schedule.cells
    if cells is None or not cells.at_once:
        return 0.0
    moved = cell_bytes(scop, schedule) // cells.at_once * cells.moves
    return moved / (BANKS * target.clock * target.processors)


def _rounds(scop: Scop, placed: Placed) -> int:
    """How often threads meet for a reduction: for every component of a cascade but a count; else once."""
    statement = scop.statements[placed.value]
    cascade = isinstance(statement, Statement) and statement.monoid in CASCADES
    return max(2, len(statement.dtypes) - 1) if cascade else 1


def _dealt_to(scop: Scop, schedule: KernelSchedule, placed: Placed) -> list[Digit]:
    """The thread digits that share what a reduction sums over."""
    over = _summed(scop, placed)
    return [d for d in schedule.of_kind("thread") if d.name in over] if over else []


def _summed(scop: Scop, placed: Placed) -> frozenset[str]:
    """The digits that a placed reduction sums over; none for other statements."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement) or not statement.is_reduction:
        return frozenset()
    entries = [e for d in statement.reduced if isinstance(e := placed.place[d], Affine)]
    return frozenset(name[1:] for e in entries for name in e.names() if name.startswith("$"))


def _scanned(scop: Scop, placed: Placed) -> frozenset[str]:
    """The digits that a placed scan runs through; none for other statements."""
    statement = scop.statements[placed.value]
    if placed.role != "compute" or not isinstance(statement, Statement) or statement.scanned is None:
        return frozenset()
    entry = placed.place[statement.scanned]
    return frozenset(name[1:] for name in entry.names()) if isinstance(entry, Affine) else frozenset()


def _in_phases(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> bool:
    """Every thread loads all that it needs, then warps combine, then it stores: no loop runs these side by side."""
    statements = [scop.statements[value] for value in schedule.body]
    combines = any(isinstance(s, Statement) and s.is_reduction for s in statements)
    once = all(sizes.extent[d.name] == 1 for d in schedule.of_kind("loop"))
    return combines and once and schedule.block_threads > target.warp


WAIT, CLUSTER_WAIT = 1.2e-6, 1.6e-6
"""Seconds from the loads of a trip to the end of a combination in it, which nothing of that block overlaps: in a block,
and in a cluster for two and every doubling of it.  A^T (A x) of 16384 x 16384 on an H200: 519 us in 128 trips of a row
a block, 120 of them at the end; in 64 trips with two clusters side by side 413 us in clusters of 4, 452 of 8."""


WAIT_AHEAD = 0.4e-6
"""The same where the next trip is loading meanwhile: A^T (A x) as above, two rows a trip in clusters of 2
blocks of 512 threads, 128 trips: 372 us; one row a trip, 256 trips: 423."""


def _exposed(scop: Scop, schedule: KernelSchedule, target: Target, loop: str, trips: int) -> float:
    """Of a wait in a trip whose loop has a ring, what memory does not need for the trips that are on their way."""
    coming = (trips - 1) * trip_bytes(scop, schedule, loop) * target.processors
    return max(0.0, WAIT - coming / target.bandwidth)


def _waiting(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """What warps wait for each other in the trips of the loops of one block."""
    seconds = 0.0
    for placed in schedule.placed:
        along = _summed(scop, placed) | _scanned(scop, placed)
        dealt = [d for d in schedule.of_kind("thread") if d.name in along]
        reach = max((d.stride * d.count for d in dealt), default=1)
        loops = {loop for loop, _ in placed.path if sizes.kind[loop] == "loop"}
        if reach > target.warp and loops and not loops & _summed(scop, placed):  # a prefix combines in every trip
            across = reach > schedule.block_threads
            each = CLUSTER_WAIT * schedule.cluster.bit_length() if across else WAIT
            if loops & set(schedule.ahead):
                each = WAIT_AHEAD * (schedule.cluster.bit_length() if across else 1)
            for loop, trips in schedule.rings:
                each = _exposed(scop, schedule, target, loop, trips) if loop in loops else each
            seconds += sizes.product(loops) * each
    return seconds


def _overlap(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, occupancy: int) -> float:
    """By how much the phases of a kernel that loads all before it combines stretch its memory time."""
    alone = schedule.cluster == 1 and occupancy < 2 and _in_phases(scop, schedule, target, sizes)
    return ALONE if alone and _comes_back(scop, schedule) else 1.0


def _comes_back(scop: Scop, schedule: KernelSchedule) -> bool:
    """Whether a thread works on after a reduction on what it held of it: else its loads are summed as they come, and
    nothing waits for a combination (dots of rows in blocks of 512, one on a processor: 462 us, those of the bytes)."""
    later: dict[str, frozenset[str]] = {}  # per placed statement, the digits of the reductions that it follows
    for placed in reversed(schedule.placed):
        before = frozenset().union(*[later.get(p, frozenset()) for p in placed.providers])
        if before & placed.digits():
            return True
        later[placed.name] = before | _summed(scop, placed)
    return False


def _in_clusters(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """What a wave of clusters takes longer than one of blocks, in kernels that run in phases."""
    if schedule.cluster == 1 or not _in_phases(scop, schedule, target, sizes):
        return 0.0
    sums = [p for p in schedule.placed if _summed(scop, p)]
    several = any(sizes.product(p.digits() - _summed(scop, p), ("slot",)) > 1 for p in sums)
    once = CLUSTER[0] + CLUSTER[1] * (schedule.cluster.bit_length() - 1)
    reach = [max((d.stride * d.count for d in _dealt_to(scop, schedule, p)), default=1) for p in sums]
    exchanges = sum(r > schedule.block_threads for r in reach)
    once *= EXCHANGES[0] + EXCHANGES[1] * (exchanges - 1)
    return once * (CLUSTER[2] if several else 1.0)


ELECTION = 2.0e-6
"""Seconds from the last share to the end of the kernel, but for reading shares: fence, counter, two dependent round
trips of `Target.latency`; and what a wave of blocks takes longer for each value that it leaves in shares, while it
loads nothing.  On an H200: moments of 16384 x 8192 in shares of 3 values, 171 us in 512 blocks of which 396 run at
once, 186 in 1,024, 210 in 2,048, 136 without shares; A p with A^T r of 2 values, 298 us in 1,024 blocks of which 264
run at once, 263 where 396 do."""


def _finish(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, waves: int) -> float:
    """What blocks do about their shares: each leaves its own, and behind the last arrival one block reads the shares of
    its election, at the bandwidth of one processor; a cluster at that of all its own."""
    totals = [p for p in schedule.placed if p.role == "total"]
    elections = {schedule.finish_of(total) for total in totals}
    left = sum(p.role == "partial" for p in schedule.placed)
    seconds = (len(elections) + left * waves) * ELECTION
    return seconds + sum(_adding_up(scop, schedule, target, sizes, total) for total in totals)


ONE_BY_ONE = 4.0
"""What reading shares takes longer where those that a thread reads at once find no registers: A^T (A x) of 16384 x
16384 on an H200, 256 elements of 8 MB at once in threads of 128 registers, 725 to 745 us, of which 250 for the rest."""


def _adding_up(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, total: Placed) -> float:
    """Seconds in which an elected block reads the shares of a total."""
    held = sum(d.compute.itemsize for d in scop.statements[total.value].dtypes)
    stored = sizes.volume(scop.shape(total.value)) * sizes.extent[schedule.finish_of(total)] * held
    seconds = stored // sizes.blocks(total) * target.processors / schedule.cluster / target.l2_bandwidth
    resident = schedule.block_threads * schedule.minimum_blocks
    bound = min(target.registers_per_thread, target.registers_per_processor // resident)
    read = sizes.product(total.digits(), ("slot",)) * max(1, held // 4)
    return seconds * (ONE_BY_ONE if read > bound else 1.0)


def long_totals(scop: Scop, schedule: KernelSchedule, target: Target, hints: Mapping[str, int]) -> list[Placed]:
    """The sums whose shares take an elected block longer to read than a launch costs."""
    sizes = Sizes(schedule, hints)
    totals = [p for p in schedule.placed if p.role == "total"]
    return [p for p in totals if _adding_up(scop, schedule, target, sizes, p) > target.launch]


Key = tuple[int, int, tuple[tuple[str, int], ...]]  # value, component, path


def _loads(
    scop: Scop,
    schedule: KernelSchedule,
    target: Target,
    sizes: Sizes,
    blocks: int,
    occupancy: int,
    summed: frozenset[str],
) -> tuple[int, int, int, int, int]:
    """(bytes from main memory, bytes that it moves beside them, bytes of later passes that the cache serves, bytes
    through the cache, bytes a thread has in flight)."""
    passes: dict[tuple[int, int], dict[tuple[tuple[str, int], ...], list[Placed]]] = defaultdict(dict)
    touched: dict[Key, int] = defaultdict(int)
    stretch: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    in_flight: dict[tuple[tuple[str, int], ...], int] = defaultdict(int)  # passes follow each other
    for load in (p for p in schedule.placed if p.role == "load"):
        key = (load.value, load.component)
        itemsize = scop.dtype(load.value, load.component).itemsize
        used, stretch[key] = load.digits(), max(stretch[key], _granules(scop, load, schedule, sizes, summed))
        executed = sizes.product(
            used | {n for n in sizes.extent if sizes.kind[n] == "block"}, ("block", "thread", "slot", "loop")
        )
        executed //= max(1, blocks // (sizes.blocks(load) * schedule.cluster))
        bytes_ = min(executed, sizes.volume(scop.shape(load.value)) * blocks) * itemsize
        touched[load.value, load.component, load.path] += int(bytes_ * _waste(scop, load, schedule, target, sizes))
        passes[key].setdefault(load.path, []).append(load)
        in_flight[load.path] += _bytes_of_thread(scop, load, sizes)
    cache = sum([_through_cache(scop, schedule, sizes, passes[k[:2]][k[2]], moved) for k, moved in touched.items()])
    read = wasted = served = 0
    for (value, component), paths in passes.items():
        volume = touched_bytes(scop, [load for loads in paths.values() for load in loads], sizes)
        resident = volume * min(1.0, max(1, occupancy) * target.processors / max(1, blocks))
        *others, _ = sorted(min(volume, touched[value, component, path]) for path in paths)
        cached = resident <= target.l2_bytes * 0.7
        moved = volume if cached else volume + sum(others)
        read += moved
        wasted += int(moved * (stretch[value, component] - 1.0))
        served += sum(others) if cached else 0
    return read, wasted, served, cache, max(in_flight.values(), default=0)


REREAD = 0.7
"""Of the bandwidth of the last-level cache, what reads of several blocks reach: 6.2 TB/s (H200, 7-point stencil)."""


def _through_cache(
    scop: Scop, schedule: KernelSchedule, sizes: Sizes, loads: Sequence[Placed], moved: int
) -> int:
    """Bytes of one array in one pass of loops.  What several threads of a block read, its processor keeps."""
    value, component = loads[0].value, loads[0].component
    itemsize = scop.dtype(value, component).itemsize
    if moved <= 1.1 * sizes.volume(scop.shape(value)) * itemsize:
        return moved
    return int(min(moved, block_bytes(schedule, loads, itemsize, sizes) / REREAD))


def block_bytes(schedule: KernelSchedule, loads: Sequence[Placed], itemsize: int, sizes: Sizes) -> float:
    """Bytes of the boxes that blocks read in loads of an array, in whole sectors; those of each pass of a loop."""
    digits = {d.name: d for d in schedule.digits}
    fixed = {d.name for d in schedule.digits if d.kind == "loop"}
    load = loads[0]
    places = {tuple(e for e in p.place if isinstance(e, Affine)) for p in loads}
    if any(len(place) < len(load.place) for place in places):
        return inf  # gathered: anywhere along that dimension
    try:
        extents = enclosing_box(sorted(places, key=str), digits, fixed).extents
    except Unbounded:
        return inf
    if not extents:
        return inf
    row = -(-extents[-1] * itemsize // SECTOR) * SECTOR
    trips = sizes.product({loop for loop, _ in load.path}, ("loop",))
    return prod(extents[:-1]) * row * trips * sizes.blocks(load)


def _bytes_of_thread(scop: Scop, move: Placed, sizes: Sizes) -> int:
    """Bytes that a thread moves at once."""
    return sizes.product(move.digits(), ("slot",)) * scop.dtype(move.value, move.component).itemsize


ENOUGH_IN_FLIGHT = 16
"""Bytes per thread, read or written, that are always enough: 8 bytes that become 8 float32 ran at 0.93 of the roof."""
LEAST_IN_FLIGHT = 8
"""Bytes per thread: one float32 result at a time reached 0.75 of the copy speed, two float16 loads 0.28."""

SECTOR = 32  # bytes the memory system moves at least


def _waste(scop: Scop, move: Placed, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """Bytes moved over bytes used: consecutive elements that a warp touches together, in sectors."""
    itemsize = scop.dtype(move.value, move.component).itemsize
    if not move.place or not isinstance(move.place[-1], Affine):
        return SECTOR / itemsize / 2  # a gather: half of its neighbours are assumed to help
    return max(1.0, SECTOR / (_run(position_of(scop, move, sizes), schedule, target.warp) * itemsize))


def _run(last: Affine, schedule: KernelSchedule, threads: int) -> int:
    """Consecutive elements that `threads` threads touch together, with all their slots, at places that step like
    `last`."""
    run, steps = 1, []
    for d in schedule.digits:
        if d.kind == "thread":
            extent = max(1, min(d.count, threads // d.stride)) if d.stride < threads else 1
            steps.append((abs(last.coefficient(f"${d.name}")), extent))
        elif d.kind == "slot":
            steps.append((abs(last.coefficient(f"${d.name}")), d.count))
    for factor, extent in sorted(steps):
        if factor and factor <= run:
            run = max(run, factor * extent)
    return run


GRANULE = 64
"""Bytes that memory itself moves at least.  Half of what short pieces of rows waste is used by a neighbouring block in
time: sums of columns in pieces of 32 bytes take 1.4 times as long, 2.0 times where rows are not aligned (H200)."""


SCATTERED = (1024, 0.5)
"""Pieces of rows in bytes below which a panel that is written row by row costs more, and how much: softmax over the
middle axis of 64 x 512 x 4096 takes 1.26 times its bytes' time on an H200, with pieces of 128 bytes."""


def _scattering(
    scop: Scop, store: Placed, schedule: KernelSchedule, sizes: Sizes, summed: frozenset[str]
) -> float:
    """What short pieces add to the writes of blocks that reduce over many rows and write as many."""
    if len(store.place) < 2 or not isinstance(store.place[-1], Affine):
        return 0.0
    itemsize = scop.dtype(store.value, store.component).itemsize
    piece = _run(store.place[-1], schedule, schedule.threads) * itemsize
    pitch = max(1, scop.shape(store.value)[-1].evaluate(sizes.hints)) * itemsize
    rows = any(f"${name}" in e.names() for e in store.place[:-1] if isinstance(e, Affine) for name in summed)
    return SCATTERED[1] if rows and piece < min(SCATTERED[0], pitch) else 0.0


def _granules(
    scop: Scop, load: Placed, schedule: KernelSchedule, sizes: Sizes, summed: frozenset[str]
) -> float:
    """What pieces of rows stretch the reads of a reduction by, from one sector up; scattered elements, and what other
    blocks read as well, are the cache's matter."""
    if len(load.place) < 2 or not isinstance(load.place[-1], Affine) or not summed:
        return 1.0
    itemsize = scop.dtype(load.value, load.component).itemsize
    piece = _run(load.place[-1], schedule, schedule.threads) * itemsize
    pitch = max(1, scop.shape(load.value)[-1].evaluate(sizes.hints)) * itemsize
    if not SECTOR <= piece < pitch:
        return 1.0
    touched = piece + GRANULE - math.gcd(piece, pitch, GRANULE)
    return 1.0 + (max(touched, GRANULE) / piece - 1.0) / 2
