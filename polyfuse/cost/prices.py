"""The price of a schedule: what it moves, computes and occupies, and the time that follows.

    time = launch + max(HBM bytes / bandwidth, cache bytes / cache bandwidth, operations / rate) and lines of L1 / rate
           with bandwidths scaled by the bytes that resident threads keep in flight (Little's law), written bytes
           dearer than read ones, and of short kernels what a block takes by itself

Cost decides nothing about legality.  Every constant names the measurement that set it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from polyfuse.cost import cpu as cost_cpu
from polyfuse.cost.alone import ACCESS, STARVED, begun, counted, is_starved, met, through_trips
from polyfuse.cost.atomics import merging
from polyfuse.cost.border import SPILLED, blocks_at_border, spilled_at_border
from polyfuse.cost.carries import handed_on
from polyfuse.cost.columns import behind_others, loading, walked_at_once
from polyfuse.cost.counts import (
    Cost,
    Sizes,
    applications,
    box_bytes,
    identity,
    instructions,
    placed_at_half_rate,
    placed_instructions,
    placed_operations,
)
from polyfuse.cost.crowding import BESIDE, exposed, held_by_few, in_chains, in_few_warps, neighbours_by_few
from polyfuse.cost.l1 import WORD, idle_in_rows, l1_accesses
from polyfuse.cost.longer import times_longer
from polyfuse.cost.middle import decided, of_the_middle
from polyfuse.cost.phases import (
    PHASES,
    afar,
    collective_operations,
    combined_in_trips,
    combining,
    finish,
    in_cells,
    in_clusters,
    in_phases,
    merged_in_trips,
    overlap,
    picking,
    stalls,
    summed_in_trips,
    waiting,
)
from polyfuse.cost.residency import registers_of_thread
from polyfuse.cost.scanned_rows import times_longer_scanned
from polyfuse.cost.scans import in_runs, running, runs_in_threads, scanned_together
from polyfuse.cost.tiles import in_trips, multiplying, trips_of_tiles
from polyfuse.cost.traffic import ENOUGH_IN_FLIGHT, LEAST_IN_FLIGHT, TORN, Traffic, bytes_of_thread, traffic_of
from polyfuse.cost.unrolled import on_their_way, unrolled
from polyfuse.places.products import folded_products
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.target import Target
from polyfuse.terms import Expr

OVERLAP = 4
"""Passes of the first-level cache hide behind the rest while they are few: the norm in which the two times add up."""

AGAIN = 2
"""The power of the registers that a loop over a ring wants, over those that there are, by which its operations take
longer: what finds no register is read from the ring again (`combining`)."""

APART = 8
"""Turns of blocks hide behind memory, and memory behind them, but for where both take about as long."""

FOLLOW = 75e-9
"""Seconds from one block to the next on a processor, however little they do.  On an H100: products of 500,000 matrices
of 8 x 8 by 4 million blocks of 16 threads 2680 us, 20 million distances of points by 625,000 of 32 threads 384; an
outer product of 331 MB by 909,000 of 32 threads 551, by 459,000 of 128 303, by 234,000 166, by 117,000 121.  Prefixes
of rows of 37 by 226,000 of 128 threads take an H200 145, where their price without is 146."""

READ, WRITTEN = 0.915, 1.085
"""Times that a byte takes which a kernel reads or writes, over the mean of a copy.  On an H200, beyond 8 us: sums of 1
and 2 GB read 4.64 to 4.73 TB/s; 2 reads and a write, copies, a read and 2 writes leave 3.9 to 4.05 TB/s for writes."""

MIXED, STREAMED, WHOLE = 3, 2, 2
"""Loads of a kernel leave the last-level cache last where it reads at most so many times what it writes, moves so many
times what the cache holds, and has that much time for its first-level caches.  On an H200, of float32: copies of 268 MB
133 -> 129 us, of 1 GB 520 -> 500, softmax of 16384 x 4096 133 -> 128, sin and cos 772 -> 760, two arrays into one 739
-> 732; three into one, and sums, as before; softmax of rows of 37, a few lanes each, 191 -> 198; on an H100 copies
182 -> 181.  It is what is read that stays: with L2::evict_first for loads the copy takes 137 (PTX ISA, createpolicy).
Lines that stay are gone soon: sums of the same 44 MB behind such a kernel take 14.9 us on average of 20, then 14.6."""
HARDLY_READ = 16
"""Times the bytes that a kernel reads, from which those that it writes are all that is in flight: no thread waits for
stores.  On an H200, overlaps of 9001 boxes with 9003, 324 MB, in threads that load 160 bytes of what all share, take
140 registers and store 64 bytes: 155 us, 434 predicted with 16 of these."""
SPILL_FACTOR = 2.0
"""A spilled register is written and read once in every trip: a backward layernorm of 16384 x 4096 on an H200, four rows
a trip in each of 512 threads, takes 740 us instead of 320, with 944 bytes of each thread spilled."""
PULL = 3.0
"""Times its share of the bandwidth that one processor takes in: 64 bytes a cycle, 110 GB/s on an H200; sums of 64 rows
of 4 MB in 32 blocks reach 3.3."""
CUT_ROWS, NARROW_ROWS = 1.35, 1.84
"""Times the operations of rows that begin anywhere and are held in vectors: which elements of the first vector and the
last one count is asked for.  Where every vector was asked, on an H200, of 268 MB of bfloat16, 1.72: softmax of rows of
777 in four chunks of 32 vectors 149 us, of 351 in three of 16 141, of 1555 in seven of 64 half vectors 148.  By ptxas a
warp issues 0.62 to 0.92 times as many instructions since then, 0.78 on average of these and of rows over their norm.
And of rows that are held in elements of less than a word: of 777 and 1555, a quarter of which is padding, 174 and 173
us."""
IDLE, FEW_IDLE, SLIGHTLY = 0.8, 1 / 8, 1 / 16
"""Of the share of threads that find nothing of their row, beyond the other, how much longer the others take to move it.
On an H200, of 268 MB of bfloat16 with a row that all share, elementwise: a quarter of the threads, 148 us of rows of
3001 in frames, 157 of 300 in half vectors; flat, where none is idle, 127.  A fifth, in 1.07 GB of four arrays: 250 us,
and 244 flat.  A ninth, 268 MB of float32 in rows of 8191 less a triangle or a border: 129 us, as without a border;
with a row and a column that all share 133, and flat 129."""
EXPOSED = 2
"""How fast blocks on one processor hide that each loads, then computes, in every trip of a loop: the power of their
number by which the time of the operations is divided.  On an H200: mean of squared differences of 2 GB in one block per
processor 495 us, in three 471; mean and variance of 400 MB in 64 blocks 126 us, the mean alone 98."""


LONE_PANELS = 0.3
"""Times the operations of panels, which wait for all that they load, that memory does not hide where a block has a
processor for itself, at least.  On an H200, over 512 rows of 103 MB of 49 float32 each: softmax in one block of 1,024
threads 120 us, 73 predicted without, in two of 512 89 (78); columns over their norm 104 and 86 (70 and 76).  Softmax of
60001 columns of 1000 in one block takes an H100 265 (245)."""


def price(scop: Scop, schedule: KernelSchedule, target: Target, hints: Mapping[str, int]) -> Cost:
    """The predicted cost of one kernel at the hinted sizes."""
    if target.kind == "cpu":
        return cost_cpu.price(scop, schedule, target, hints)
    sizes = Sizes.of(schedule, hints)
    blocks = sizes.product(frozenset(sizes.extent), ("block",)) * schedule.cluster
    shared = box_bytes(scop, schedule)
    registers, spilled = registers_of_thread(scop, schedule, target, sizes)
    occupancy = target.occupancy(schedule.block_threads, min(registers, target.registers_per_thread), shared)
    middle = of_the_middle(scop, schedule, sizes)
    body = identity if middle is schedule else decided
    moved = traffic_of(scop, middle, target, sizes, blocks, occupancy)
    computed = [p for p in middle.placed if p.role == "compute"]
    flops = sum([placed_operations(scop, p, sizes, schedule.threads, body) for p in computed])
    waits = waiting(scop, schedule, target, sizes)
    resident = min(blocks, max(1, occupancy) * target.processors)
    waves = -(-blocks // (max(1, occupancy) * target.processors))
    enough = ENOUGH_IN_FLIGHT if moved.read * HARDLY_READ > moved.written else 0
    fill = _fill(scop, schedule, target, sizes, moved.in_flight, blocks, resident, waits, enough)
    lines, accesses = l1_accesses(scop, middle, target, sizes)
    lines /= min(1.0, blocks / target.processors)  # of as many as have a block
    issued = _issued(scop, middle, sizes, body)
    halves = sum([placed_at_half_rate(scop, p, sizes, schedule.threads, body) for p in computed])
    issued = max(issued, 2 * halves)
    terms = _terms(scop, middle, target, sizes, moved, flops, issued, fill, blocks, resident, occupancy, accesses)
    terms["memory"] *= afar(schedule, waves)
    terms["compute"] *= in_few_warps(schedule, target, blocks)
    terms["memory"] *= walked_at_once(schedule, target, sizes, blocks, occupancy)
    terms["memory"] += (waves - 1) * in_clusters(scop, schedule, target, sizes)
    spills = spilled * 4 * SPILL_FACTOR * schedule.block_threads * max(blocks, target.processors)
    terms["memory"] += spills / target.bandwidth
    slower = times_longer(scop, schedule, target, sizes)
    terms = {name: slower * seconds for name, seconds in terms.items()}
    functions = 0.0
    if schedule.strategy in ("row_tiles", "windows"):
        several = 2 * (issued - _issued(scop, middle, sizes, body, applications))
        functions = several / (target.flops * min(1.0, blocks / target.processors))
    if schedule.strategy == "row_tiles":  # accesses of shared rows are, functions are not
        terms["compute"] -= (slower - 1) * functions
    tiles = trips_of_tiles(scop, schedule, sizes)
    if tiles:
        terms["compute"] = multiplying(scop, middle, target, sizes, blocks, terms["compute"], lines, body)
        lines = 0.0
    turns = _in_turn(scop, middle, target, sizes, moved.in_flight, blocks, terms["compute"]) / max(1, occupancy)
    together = _met(max(terms.values()), lines, OVERLAP)
    torn = moved.torn / (TORN * target.l2_bandwidth * min(1.0, blocks / target.processors))
    for apart in (turns, torn):
        if 2 * apart > together:
            together = _met(together, apart, APART)
    terms["cache"] = max(terms["cache"], lines)
    bound = max(terms, key=lambda k: terms[k])
    moving = max(terms["memory"], terms["cache"])
    together += exposed(scop, middle, target, sizes) * min(moving, terms["compute"])
    if waves > 1 and functions > BESIDE * moving:
        share = in_chains(scop, middle, target, sizes, registers)
        together += share * min(moving, functions - BESIDE * moving)
    beside = max(1.0, resident / target.processors)  # blocks that fill each other's gaps
    together = _met(together, waves * waits, beside)
    together = math.hypot(together, waves * running(scop, schedule, target, sizes))
    together += waves * merged_in_trips(scop, schedule, sizes, beside)
    together += waves * summed_in_trips(scop, schedule, target, sizes)
    if (rings := waves * combining(scop, schedule, target, sizes)) > 0:
        work = terms["compute"] * max(1.0, registers / target.registers_per_thread) ** AGAIN
        together = max(together, work + rings)
    if tiles:
        held = waves * in_trips(schedule, target, moved, tiles, terms["compute"], blocks, resident)
        together = _met(together, held, APART)
    each = (issued + ACCESS * target.warp * accesses) / (blocks * schedule.block_threads)
    combined = met(scop, schedule, target)
    block = _of_a_block(scop, schedule, target, sizes, each, waits, occupancy)
    block = max(block + combined if block > 0 else 0.0, behind_others(scop, schedule, target, sizes, waves))
    if block > 0 and waves > 1:
        in_waves = block * blocks / (max(1, occupancy) * target.processors)
        together = _met(together, in_waves, APART)
    dealt = FOLLOW * blocks / target.processors
    together = _met(together, dealt, APART)
    together = _met(together, waves * combined, APART)
    if schedule.cluster == 1 and not tiles and is_starved(target, blocks, moved.read + moved.written, together):
        together = math.hypot(together, counted(STARVED * each / target.clock, together))
    together *= held_by_few(schedule, occupancy) * neighbours_by_few(scop, schedule, occupancy)
    together *= times_longer_scanned(scop, schedule, target, sizes, occupancy, waves)
    alone = begun(schedule, target, sizes, each * (1 - min(1.0, terms["compute"] / together))) + combined
    together *= in_runs(scop, schedule)
    seconds = target.launch + together + counted(alone, together)
    if (spilled := spilled_at_border(scop, schedule, middle, target, sizes)) > 0:
        seconds += SPILLED * spilled * (1 + blocks_at_border(schedule, sizes) / resident)
    seconds += finish(scop, schedule, target, sizes, waves)
    seconds += merging(scop, schedule, target, sizes, together)
    seconds += handed_on(scop, schedule, target, sizes, waves)
    if terms[bound] < target.launch:
        bound = "launch"
    elif fill < 0.5 and bound in ("memory", "cache"):
        bound = "latency"
    read, written, cached = moved.read, moved.written, moved.cache_read
    last = bound == "memory" and _leaves_reads(target, moved, terms["memory"] / slower, lines)
    return Cost(read, written, cached, flops, registers, shared, occupancy, blocks, seconds, bound, last)


def _met(one: float, other: float, power: float) -> float:
    """Seconds of two that hide behind each other, but for where both take about as long: of their powers, which by
    themselves may be beyond every number."""
    longest = max(one, other)
    return longest * ((one / longest) ** power + (other / longest) ** power) ** (1 / power) if longest > 0 else 0.0


def _leaves_reads(target: Target, moved: Traffic, memory: float, lines: float) -> bool:
    """Whether memory is quicker where the last-level cache keeps what a kernel reads and lets go what it writes."""
    streams = moved.read + moved.written >= STREAMED * target.l2_bytes
    return target.evict_last and streams and moved.written * MIXED >= moved.read and lines * WHOLE <= memory


STAGED = 0.5e-6
"""Seconds more where threads meet between loads and stores, because shared memory turns what they load, as far as large
tiles show it too.  On an H100, the last two axes of 41893 x 31 x 77 bfloat16 in tiles of 64 x 64 by 512 threads 432 us,
of 80 x 32 193, of 3125000 x 4 x 4 float32 in 16 x 64 by 256 345, of 100001 x 33 x 16 in 48 x 32 by 128 162; where 209,
158, 171 and 151 were predicted."""


def _of_a_block(
    scop: Scop,
    schedule: KernelSchedule,
    target: Target,
    sizes: Sizes,
    issued: float,
    waits: float,
    occupancy: int,
) -> float:
    """Seconds that a block takes by itself, but for combinations, where it goes through loops, or loads all before it
    combines and has no neighbour that computes meanwhile; 0 of others.  `issued`: instructions of one thread.  Panels
    of 64 columns of all rows, 512 threads alone on a processor, take an H100 282 us for 11033 x 159 x 57 float16, where
    174 were predicted, and 234 for 1102 x 195 x 465 bfloat16, predicted 204; of 256 threads 166 and 173."""
    if schedule.rings or schedule.ahead or schedule.cluster > 1:
        return 0.0
    if schedule.of_kind("loop"):  # those of columns were measured
        times = 1.0 if waits else unrolled(scop, schedule, sizes)
        return through_trips(schedule, target, sizes, times) if schedule.strategy == "columns" else 0.0
    alone = occupancy < 2 and schedule.strategy == "panels" and in_phases(scop, schedule, target, sizes)
    return begun(schedule, target, sizes, issued) if alone else 0.0


def _in_turn(
    scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, in_flight: int, blocks: int, compute: float
) -> float:
    """Seconds of all blocks of a processor, one behind the other, where each loads, then computes, then stores: it has
    no more of them side by side than fit, whatever memory can do.  On an H200, 67 million results in blocks of 2,048:
    231 us where registers leave room for two (nine taps four apart, 576 bytes loaded by a thread), 216 for three (25
    taps, 384 bytes), 144 for six (the 25 taps as one sum)."""
    if schedule.of_kind("loop") or in_phases(scop, schedule, target, sizes):
        return 0.0
    loads = in_flight * schedule.block_threads * target.processors / target.l2_bandwidth
    staged = STAGED if schedule.shared else 0.0
    return blocks / target.processors * (target.latency + staged + loads) + compute


def _fill(
    scop: Scop,
    schedule: KernelSchedule,
    target: Target,
    sizes: Sizes,
    in_flight: int,
    blocks: int,
    resident: int,
    waits: float,
    enough: int,
) -> float:
    """The share of the bandwidth that the bytes which resident threads keep in flight can fill.  `enough`: of those
    that a thread loads and stores, so many are always enough; 0 where all that it stores count."""
    threads = schedule.block_threads
    if runs_in_threads(scop, schedule):  # `running` says how long each trip takes
        return min(1.0, PULL * min(1.0, blocks / target.processors))
    loops = schedule.of_kind("loop") and threads > target.warp
    if loops and not waits:
        in_flight = int(in_flight * on_their_way(scop, schedule, sizes))
        in_flight = int(in_flight * loading(scop, schedule, sizes))
    stores = [p for p in schedule.placed if p.role == "store"]
    if loops:  # what is stored behind them all
        stores = [p for p in stores if any(sizes.kind[name] == "loop" for name, _ in p.path)]
    leaving = sum(bytes_of_thread(scop, p, sizes) for p in stores)
    least = 0 if loops and in_flight else LEAST_IN_FLIGHT
    both = in_flight + leaving
    flying = resident * threads * max(least, in_flight, min(both, enough) if enough else both)
    return min(1.0, PULL * min(1.0, blocks / target.processors), flying / (target.bandwidth * target.latency))


def _terms(
    scop: Scop,
    schedule: KernelSchedule,
    target: Target,
    sizes: Sizes,
    moved: Traffic,
    flops: int,
    issued: int,
    fill: float,
    blocks: int,
    resident: int,
    occupancy: int,
    accesses: float,
) -> dict[str, float]:
    """Seconds that memory, cache and operations would take alone; what a kernel in phases cannot hide is memory's.
    `issued`: instructions of all threads; `accesses`: of all warps, that load or store."""
    busy = min(1.0, blocks / target.processors)
    memory = (READ * (moved.read + moved.wasted) + WRITTEN * (moved.written + moved.wasted_writes)) / (
        target.bandwidth * fill
    )
    even = min(1.0, _evenness(blocks, target)) if schedule.strategy == "columns" else busy
    compute = max(flops, 2 * issued) / (target.flops * even)  # a fused multiply-add is two operations
    compute *= _held_apart(scop, schedule)
    shared = combined_in_trips(scop, schedule, sizes) + scanned_together(scop, schedule, target, sizes)
    compute += shared * schedule.block_threads * blocks / (target.flops * busy)
    memory += moved.again / (target.l2_bandwidth * fill)
    memory *= overlap(scop, schedule, target, sizes, occupancy) * picking(scop, schedule, target, sizes)
    if in_phases(scop, schedule, target, sizes):
        operations = collective_operations(scop, schedule) * schedule.block_threads * blocks
        memory += PHASES * operations / (target.flops * busy)
        memory += PHASES * in_cells(scop, schedule, target) * blocks / busy
        if schedule.strategy == "panels" and occupancy < 2:
            memory += LONE_PANELS * compute
    elif schedule.of_kind("loop") and not schedule.rings and not schedule.ahead:
        slack = max(1.0, PULL * busy)  # of a processor that has no more than its share to load
        memory += compute / slack / max(1.0, resident / target.processors) ** EXPOSED
    idle = idle_in_rows(scop, schedule, sizes)
    memory *= 1 + IDLE * max(idle - FEW_IDLE, SLIGHTLY * idle)
    if not schedule.shared:  # what is staged is spread over trips
        picked = any(isinstance(e, str) for p in schedule.placed if p.role == "load" for e in p.place)
        each = ACCESS if picked else 1  # addresses that data choose are computed, others are constants apart
        compute += 2 * each * target.warp * accesses / (target.flops * busy)
        compute *= stalls(scop, schedule, target, sizes, blocks, occupancy)
    cache = (moved.cache_read + moved.stored) / (target.l2_bandwidth * fill)
    return {"memory": memory, "cache": cache, "compute": compute}


def _evenness(blocks: int, target: Target) -> float:
    """The share of the processors' time that is left for blocks which loop over columns, where some have one more than
    others.  On an H200, the mean of logarithms of 20001 columns of 2521 float32 in 157 blocks 192 us, of their
    differences over the deviation 219; in 626 blocks 78 and 132."""
    return blocks / (target.processors * max(1, -(-blocks // target.processors)))


IN_RECORDS = 0.82
"""Of the instructions of functions, as they were measured alone, that threads issue which have a record each.  On an
H200, with six powers for each of 30 million colours 593 us, with ten sines and cosines of each of 3 million elements
85."""


IN_FULL = frozenset(("records", "stencil"))
"""Strategies with shared memory whose functions are as many instructions as anywhere: what a tile shares is computed by
all of its threads, halo and all.  Log-returns of 20000 x 4096 float32 over their deviation take an H200 465 us where
the second kernel has them in tiles (308 predicted if each is one)."""


def _issued(
    scop: Scop,
    schedule: KernelSchedule,
    sizes: Sizes,
    body: Callable[[Expr], Expr],
    of_term: Callable[[Expr], int] = instructions,
) -> int:
    """Instructions of all threads that compute."""
    folded, are_records = folded_products(scop, schedule), schedule.strategy == "records"
    count = applications if schedule.shared and schedule.strategy not in IN_FULL else of_term

    def of_body(term: Expr) -> int:
        return count(body(term))

    computed = [p for p in schedule.placed if p.role == "compute"]
    issued = sum([placed_instructions(scop, p, sizes, schedule.threads, folded, of_body) for p in computed])
    return int(IN_RECORDS * issued) if are_records else issued


def _held_apart(scop: Scop, schedule: KernelSchedule) -> float:
    """Times the operations of rows that are held and are no whole vectors."""
    tile = dict(schedule.parameters)
    if schedule.of_kind("loop") or "chunks" not in tile:
        return 1.0
    if tile.get("frames"):
        return CUT_ROWS
    loads = [p for p in schedule.placed if p.role == "load" and p.digits()]
    narrow = any(scop.dtype(p.value, p.component).itemsize < WORD for p in loads)
    return NARROW_ROWS if narrow and tile.get("vector") == 1 else 1.0
