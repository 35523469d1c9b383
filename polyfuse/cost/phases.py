"""What blocks wait for: combinations that nothing hides, exchanges in clusters, shares added up at the end.

Each constant names the measurement that set it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from polyfuse.affine import Affine
from polyfuse.cost.counts import Sizes, cell_bytes, element_instructions, reduces, summed_digits, trip_bytes
from polyfuse.cost.l1 import side_by_side
from polyfuse.cost.scans import scanned_digits
from polyfuse.places.products import folded_products
from polyfuse.scalars import CASCADES, POSITION
from polyfuse.schedule import Digit, KernelSchedule, Placed
from polyfuse.scop import Scop, Statement
from polyfuse.target import Target

ALONE = 1.2
"""What a block without a neighbour on its processor takes longer: nothing loads while it combines, or combines while it
loads.  On an H200: softmax of 4096 x 32768 in blocks of 1024 threads 1.17, cross-entropy of 8192 x 32000 1.21."""
CLUSTER = (1.6e-6, 0.8e-6, 1.7)
"""Seconds that a cluster in phases takes longer per wave of blocks after the first, for each doubling of it besides,
and how many times more where a thread has several results; with two exchanges.  On an H200: softmax of rows 2.3 us in
clusters of 2, 4.9 of 16; standardising columns 6.6 of 8, 8.2 of 16."""
EXCHANGES = (0.39, 0.61)
"""Of that time, what the first exchange takes and what each further one does.  With one exchange on an H200: softmax of
512 x 262144 takes 289 us in clusters of 8 that hold half in shared memory, 1.6 us a wave, 2048 x 65536 in clusters of 2
270 us; nothing in shared memory and clusters of 16, 370 us, more than this says."""
PHASES = 0.35  # of the time of combinations that other blocks do not hide: layernorm of 4096 in 128 to 1024 lanes
SETUP = 80  # operations of a thread before its first load: indices, masks, addresses


def collective_operations(scop: Scop, schedule: KernelSchedule) -> int:
    """Operations of one thread for what several do together: a shuffle and a merge per lane bit, then the partial
    results of all warps."""
    return SETUP + 4 * sum(_steps(scop, schedule, placed) for placed in schedule.placed)


def _steps(scop: Scop, schedule: KernelSchedule, placed: Placed) -> int:
    """Shuffles and merges in which the threads of a block combine one result; 0 where they share none."""
    dealt = _dealt_to(scop, schedule, placed)
    lanes = math.prod(d.count for d in dealt if d.stride < 32)
    warps = min(schedule.block_threads, math.prod(d.count for d in dealt)) // 32
    each = combining_rounds(scop, placed) + _of_positions(scop, placed)
    return each * (min(lanes, 32).bit_length() - 1 + max(0, warps - 1))


def combined_in_trips(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> int:
    """Operations of one thread of a block for what the threads combine in every trip of a loop.  Accuracy of 131072 x
    1000 on an H200, an argmax of 8 rows by 256 threads in a trip: 297 us, 126 without these."""
    found = 0
    for placed in schedule.placed:
        summed = summed_digits(scop, placed) if placed.path else None
        if not summed:
            continue
        loops = {loop for loop, _ in placed.path if sizes.kind[loop] == "loop"} - summed
        if loops:
            slots = sizes.product(placed.digits() - summed, ("slot",))
            found += 4 * _steps(scop, schedule, placed) * slots * sizes.product(loops)
    return found


STALL = (180, 8)
"""Cycles from the loads of a trip to its first results, and of an instruction that waits for another one's result.  On
an H200, forces between 8192 bodies in 8, 16 and 32 warps a processor: 445, 245 and 207 us."""
UNROLLED_BELOW = 32  # instructions of a trip: the compiler takes several of shorter ones together
BESIDE = 1.2
"""Instructions of a loop over those of its operations and accesses: addresses, masks, counting.  Densities of 16384
points on an H200 take 218 us, 185 without."""
SCHEDULERS = 4  # of a processor, each of which issues an instruction of a warp in a cycle


def stalls(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, blocks: int, occupancy: int) -> float:
    """By how much the arithmetic of a loop is stretched where few warps share a scheduler: a trip takes as long as its
    instructions of all of them, and no less than one of them takes for its chain of results."""
    folded, trips = folded_products(scop, schedule), dict[tuple[tuple[str, int], ...], list[Placed]]()
    for placed in schedule.placed:
        if placed.path and placed.role == "compute" and placed.name not in folded:
            loops = tuple([(loop, n) for loop, n in placed.path if sizes.kind[loop] == "loop"])
            if loops:
                trips.setdefault(loops, []).append(placed)
    found: list[tuple[int, int, int]] = []
    for loops, inside in trips.items():
        each = [(_instructions(scop, p), sizes.product(p.digits(), ("slot",))) for p in inside]
        issued, chain = sum(n * slots for n, slots in each), sum(n for n, _ in each)
        found.append((issued * sizes.product({loop for loop, _ in loops}), issued, chain))
    if not found:
        return 1.0
    _, issued, chain = max(found)
    resident = min(max(1, occupancy), -(-blocks // target.processors)) * schedule.block_threads
    warps = max(1.0, resident / target.warp / SCHEDULERS)
    alone = STALL[0] * min(1.0, issued / UNROLLED_BELOW) + STALL[1] * chain
    return float(BESIDE * (1 + (alone / (warps * max(1, issued))) ** 3) ** (1 / 3))


def _instructions(scop: Scop, placed: Placed) -> int:
    statement = scop.statements[placed.value]
    return element_instructions(statement) if isinstance(statement, Statement) else 0


def _of_positions(scop: Scop, placed: Placed) -> int:
    """What a merge of positions takes beside one of values, in merges of these and shuffles."""
    statement = scop.statements[placed.value]
    monoid = statement.monoid if isinstance(statement, Statement) else None
    return POSITION // 4 if monoid in ("argmax", "argmin") else 0


BANKS = 128  # bytes a cycle that the shared memory of a processor moves


def in_cells(scop: Scop, schedule: KernelSchedule, target: Target) -> float:
    """Seconds that a device of blocks like this one takes to move what waits in shared memory, per block."""
    cells = schedule.cells
    if cells is None or not cells.kinds:
        return 0.0
    moved = cell_bytes(scop, schedule) // len(cells.kinds) * cells.moves
    return moved / (BANKS * target.clock * target.processors)


def combining_rounds(scop: Scop, placed: Placed) -> int:
    """How often threads meet for a reduction: for every component of a cascade but a count; else once."""
    statement = scop.statements[placed.value]
    cascade = isinstance(statement, Statement) and statement.monoid in CASCADES
    return max(2, len(statement.dtypes) - 1) if cascade else 1


def _dealt_to(scop: Scop, schedule: KernelSchedule, placed: Placed) -> list[Digit]:
    """The thread digits that share what a reduction sums over."""
    over = summed_digits(scop, placed)
    return [d for d in schedule.of_kind("thread") if d.name in over] if over else []


def in_phases(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> bool:
    """Every thread loads all that it needs, then warps combine, then it stores: no loop runs these side by side."""
    what = "in phases", target.warp, schedule.minimum_blocks, tuple(sizes.hints.items())
    return schedule.figure(what, lambda: _in_phases(scop, schedule, target, sizes))


def _in_phases(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> bool:
    statements = [scop.statements[value] for value in schedule.body]
    combines = any(isinstance(s, Statement) and s.is_reduction for s in statements)
    once = all(sizes.extent[d.name] == 1 for d in schedule.of_kind("loop"))
    return combines and once and schedule.block_threads > target.warp


def merges_states(scop: Scop, schedule: KernelSchedule) -> bool:
    """Whether states of several values are merged in a loop."""
    return any(getattr(scop.statements[p.value], "monoid", None) in CASCADES for p in schedule.placed if p.path)


MERGED, FEW_THREADS = {4: 0.08e-6, 8: 0.55e-6}, 256
"""Seconds of a trip, per bytes of a number, in which few threads merge states while none of them loads, and which other
blocks of a processor hide.  Standard deviations of 200 MB on an H200, as one row of several, in 131 blocks of 256
threads and 50 trips: of float32 C = 5 69 us, 9 65, where 64 were predicted without, of float64 10 93 and 19 86 (63 and
62); in 528 blocks 33 float32 60 (62).  More threads hide it: in 512 64 float32 53 (56), in 1024 of 61 x 24001 x 33
between 67 (63)."""


def merged_in_trips(scop: Scop, schedule: KernelSchedule, sizes: Sizes, beside: float) -> float:
    """Seconds that columns take to merge states in loops, where so many blocks are on a processor."""
    if schedule.strategy != "columns" or schedule.block_threads > FEW_THREADS:
        return 0.0
    found = 0.0
    for placed in schedule.placed:
        statement = scop.statements[placed.value]
        if placed.role == "compute" and placed.path and getattr(statement, "monoid", None) in CASCADES:
            trips = sizes.product({loop for loop, _ in placed.path}, ("loop",))
            size = max([dtype.compute.itemsize for dtype in getattr(statement, "dtypes", ())], default=4)
            found = max(found, trips * MERGED.get(size, MERGED[4]))
    return found / beside


ROWS_OF_A_TRIP = 0.06e-6
"""Seconds of a trip in which each warp adds up rows of its own and keeps columns.  On an H200 in blocks of 128 threads
(benchmarks/results/narrow_tiles_h200.json), with one, two and four rows a trip: A p with A^T r of 1 GB 261, 253 and 253
us, a logistic gradient of rows of 512 135 and 127, sums both ways of 500000 x 200 144, 128, 112."""


def summed_in_trips(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """Seconds of all trips of a block in which its warps do."""
    trips = 0
    for placed in schedule.placed if schedule.strategy in ("one_pass", "planes") else ():
        along = summed_digits(scop, placed) if placed.path else frozenset()
        dealt = [d for d in schedule.of_kind("thread") if d.name in along]
        loops = {loop for loop, _ in placed.path if sizes.kind[loop] == "loop"} - along
        if dealt and loops and max(d.stride * d.count for d in dealt) <= target.warp:
            trips = max(trips, sizes.product(loops))
    return ROWS_OF_A_TRIP * trips


WAIT, CLUSTER_WAIT = 1.2e-6, 1.6e-6
"""Seconds from the loads of a trip to the end of a combination in it, which nothing of that block overlaps: in a block,
and in a cluster for two and every doubling of it.  A^T (A x) of 16384 x 16384 on an H200: 519 us in 128 trips of a row
a block, 120 of them at the end; in 64 trips with two clusters side by side 413 us in clusters of 4, 452 of 8."""


SCANNED = 256
"""Threads from which a prefix waits longer in a trip, in proportion: each of their warps waits for the totals of all.
Running sums of exponentials of 700 rows of 70001 float32 on an H200: 159 us in trips of 128 threads, 133 of 256, which
all run at once, 212 of 512, of which a quarter runs in a second wave."""


WAIT_AHEAD = 0.4e-6
"""The same where the next trip is loading meanwhile: A^T (A x) as above, two rows a trip in clusters of 2
blocks of 512 threads, 128 trips: 372 us; one row a trip, 256 trips: 423."""


def _exposed(scop: Scop, schedule: KernelSchedule, target: Target, loop: str, trips: int) -> float:
    """Of a wait in a trip whose loop has a ring, what memory does not need for the trips that are on their way."""
    coming = (trips - 1) * trip_bytes(scop, schedule, loop) * target.processors
    return max(0.0, WAIT - coming / target.bandwidth)


def combining(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """Seconds in which the warps of a block wait for each other beside their loads, in loops that copy ahead: no memory
    hides them from what is computed between.  On an H200, a backward layernorm of 32768 x 4096 bfloat16 in 128 blocks
    of 256 threads whose values find no registers, four sums one behind the other in each of 64 trips: 455 us, where
    memory needs 183 and operations 161; of 16384 x 4096 float32 in 512 threads 258."""
    if not schedule.rings:
        return 0.0
    return waiting(scop, replace(schedule, rings=(), ahead=()), target, sizes) / WAIT * WAIT_AHEAD


def waiting(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """What warps wait for each other in the trips of the loops of one block."""
    speeds = target.warp, target.processors, target.bandwidth
    what = "waiting", speeds, schedule.minimum_blocks, tuple(sizes.hints.items())
    return schedule.figure(what, lambda: _waiting(scop, schedule, target, sizes))


def _waiting(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    seconds = 0.0
    for placed in schedule.placed:
        if not placed.path or not (along := summed_digits(scop, placed) | scanned_digits(scop, placed)):
            continue
        dealt = [d for d in schedule.of_kind("thread") if d.name in along]
        reach = max((d.stride * d.count for d in dealt), default=1)
        loops = {loop for loop, _ in placed.path if sizes.kind[loop] == "loop"}
        loops -= summed_digits(scop, placed)  # whose trips gather in registers; a prefix combines in every trip
        if reach > target.warp and loops:
            across = reach > schedule.block_threads
            each = CLUSTER_WAIT * schedule.cluster.bit_length() if across else WAIT
            if scanned_digits(scop, placed) and not across:
                each *= max(1.0, reach / SCANNED)
            if loops & set(schedule.ahead):
                each = WAIT_AHEAD * (schedule.cluster.bit_length() if across else 1)
            for loop, trips in schedule.rings:
                each = _exposed(scop, schedule, target, loop, trips) if loop in loops else each
            seconds += sizes.product(loops) * each * combining_rounds(scop, placed)
    return seconds


GROUPED, CLUSTER_ALONE = 16, 1.6
"""Processors of a group, inside of which the blocks of a cluster lie, at least; and what a cluster that has a group for
itself takes longer, whose loads and stores no other overlaps.  Batch normalisation of 32 x 128 x 112 x 112 float32
takes an H100 213 us in clusters of 16 blocks of 512 threads, of which two have room, though they spill 224 bytes of a
thread, and 286 in blocks of 1,024, of which one has."""


def overlap(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, occupancy: int) -> float:
    """By how much the phases of a kernel that loads all before it combines stretch its memory time."""
    beside = max(1, occupancy) * (GROUPED if schedule.cluster > 1 else 1) // schedule.cluster
    alone = beside < 2 and in_phases(scop, schedule, target, sizes)
    longer = CLUSTER_ALONE if schedule.cluster > 1 else ALONE
    return longer if alone and _comes_back(scop, schedule) else 1.0


PICKED = (32, 8, 1.4)
"""Elements of a thread from which loads come one by one where truths pick among them, accesses where it combines them
by itself, and how much longer that takes: truths live in a few predicate registers, and the assembler waits for one
before it loads the next.  Softmax of 98304 rows of 1024 with a mask that all rows share on an H200: 318 us with 32
elements in a thread, 220 with 16; without the mask 196 and 200.  Rows of eight bytes, four in a thread, one access
each: 164 us on an H100, as their bytes take."""


def picking(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """By how much truths stretch the memory time of a kernel that loads all before it combines."""
    if not in_phases(scop, schedule, target, sizes):
        return 1.0
    loads = [p for p in schedule.placed if p.role == "load"]
    threads = {d.name for d in schedule.of_kind("thread")}
    alone = not any(summed_digits(scop, p) & threads for p in schedule.placed if p.role == "compute")
    if alone and max([_accesses(scop, schedule, p, sizes) for p in loads], default=0) < PICKED[1]:
        return 1.0
    truths, reduced = set[str](), _reduced(scop, schedule)
    for placed in schedule.placed:
        statement = scop.statements[placed.value]
        many = sizes.product(placed.digits(), ("slot",)) >= PICKED[0]
        if many and placed.name in reduced and isinstance(statement, Statement):
            truths |= {placed.providers[k] for k in statement.truths}
    return PICKED[2] if truths and not truths.isdisjoint(_loaded(schedule)) else 1.0


def _accesses(scop: Scop, schedule: KernelSchedule, load: Placed, sizes: Sizes) -> int:
    """Of one thread; a load at positions that are data takes elements one by one."""
    last = load.place[-1] if load.place else None
    width = side_by_side(scop, schedule, load, last, sizes)[1] if isinstance(last, Affine) else 1
    return sizes.product(load.digits(), ("slot",)) // width


def _reduced(scop: Scop, schedule: KernelSchedule) -> set[str]:
    """The placed statements that compute what reductions take: behind them nothing is left to load."""
    by_name, found = schedule.by_name(), set[str]()
    reached = [p.name for p in schedule.placed if reduces(scop, p)]
    while reached:
        for provider in by_name[reached.pop()].providers:
            if provider not in found and by_name[provider].role == "compute":
                found.add(provider)
                reached.append(provider)
    return found


def _loaded(schedule: KernelSchedule) -> set[str]:
    """The placed statements that load, and those computed of what they load, not of indices alone."""
    users = dict[str, list[str]]()
    for placed in schedule.placed:
        for provider in placed.providers:
            users.setdefault(provider, []).append(placed.name)
    found = {p.name for p in schedule.placed if p.role == "load"}
    reached = list(found)
    while reached:
        fresh = [user for user in users.get(reached.pop(), ()) if user not in found]
        found.update(fresh)
        reached += fresh
    return found


def _comes_back(scop: Scop, schedule: KernelSchedule) -> bool:
    """Whether a thread works on after a reduction on what it held of it: else its loads are summed as they come, and
    nothing waits for a combination (dots of rows in blocks of 512, one on a processor: 462 us, those of the bytes)."""
    later: dict[str, frozenset[str]] = {}  # per placed statement, the digits of the reductions that it follows
    for placed in reversed(schedule.placed):
        before = frozenset().union(*[later.get(p, frozenset()) for p in placed.providers])
        if before & placed.digits():
            return True
        later[placed.name] = before | summed_digits(scop, placed)
    return False


def in_clusters(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """What a wave of clusters takes longer than one of blocks, in kernels that run in phases."""
    if schedule.cluster == 1 or not in_phases(scop, schedule, target, sizes):
        return 0.0
    sums = [p for p in schedule.placed if summed_digits(scop, p)]
    several = any(sizes.product(p.digits() - summed_digits(scop, p), ("slot",)) > 1 for p in sums)
    once = CLUSTER[0] + CLUSTER[1] * (schedule.cluster.bit_length() - 1)
    reach = [max((d.stride * d.count for d in _dealt_to(scop, schedule, p)), default=1) for p in sums]
    exchanges = sum(r > schedule.block_threads for r in reach)
    once *= EXCHANGES[0] + EXCHANGES[1] * (exchanges - 1)
    return once * (CLUSTER[2] if several else 1.0)


ADDING = 0.55e-6
"""Seconds of a round trip in which an elected block reads as many shares as its threads do at once.  On an H200, by the
number of blocks: 0.09 us for each that leaves 4 KB to 256 threads which read 32 words at once, 0.27 to 64 threads."""
ELECTION = 2.0e-6
"""Seconds from the last share to the end of the kernel, but for reading shares: a counter and two dependent round trips
of `Target.latency`."""
LEFT = 0.75e-6
"""What a wave of blocks takes longer for each word that a thread leaves in shares, while it loads nothing.  On an H200:
moments of 16384 x 8192, 4 columns of 3 words, 171 us in 512 blocks of which 396 run at once, 186 in 1,024, 210 in
2,048; A p with A^T r, 16 words, 298 us in 1,024 blocks of which 264 run at once, 263 where 396 do; sums of one word
nothing in 4,096 blocks of which 396 run.  Where one thread of a block leaves what it has, its words count as one: the
variance of 67 million float32 takes 66 us in 528 blocks, 70 in 4,090, the place of their largest 66 and 70."""
AFAR = 0.03
"""The part of its time by which memory is slower where all blocks run at once, each through a share of its own: they
read at distances that stay.  Mean of squared differences of 2 GB, on two cards and in blocks of 256 to 1024 threads: by
the distance, 464 to 520 us in up to two waves, 464 to 478 in five, 464 to 467 in eight and more."""


WALKED = 26e-9
"""Seconds of a trip of a loop that only the elected block goes through.  On an H200, the sum of 4,096 squares and their
product with a number of all behind the sum of 16.8 million squares, in loops of the last of 512 blocks: 235 us, the
16.8 million alone 21."""


def finish(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, waves: int) -> float:
    """What blocks do about their shares: each leaves its own, and behind the last arrival one block reads the shares of
    its election, at the bandwidth of one processor; a cluster at that of all its own."""
    totals = [p for p in schedule.placed if p.role == "total"]
    elections = {schedule.finish_of(total) for total in totals}
    seconds = len(elections) * ELECTION + (waves - 1) * LEFT * left_words(scop, schedule, sizes)
    seconds += _walked_behind(schedule, sizes)
    return seconds + sum(adding_up(scop, schedule, target, sizes, total) for total in totals)


def _walked_behind(schedule: KernelSchedule, sizes: Sizes) -> float:
    """Seconds of loops of the elected block over anything but shares, one behind the other."""
    loops: dict[tuple[tuple[str, int], ...], None] = {}
    for placed in schedule.placed:
        if placed.role in ("load", "compute") and schedule.finish_of(placed):
            loops[tuple(placed.path)] = None
    trips = [sizes.product({loop for loop, _ in path}, ("loop",)) for path in loops]
    return WALKED * sum([n for n in trips if n > 1])


def left_words(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> int:
    """Words that one thread of a block leaves in shares: one, where no other leaves any."""
    words, threads = 0, 1
    for placed in schedule.placed:
        if placed.role == "partial":
            held = scop.dtype(placed.value, placed.component).compute.itemsize
            words += sizes.product(placed.digits(), ("slot",)) * max(1, held // 4)
            threads = max(threads, sizes.product(placed.digits(), ("thread",)))
    return words if threads > 1 else min(1, words)


def afar(schedule: KernelSchedule, waves: int) -> float:
    """By how much shares that all blocks walk through at once stretch the memory time of a kernel."""
    shared = any(p.role == "partial" for p in schedule.placed)
    return 1.0 + AFAR * min(1.0, 2 / waves) if shared else 1.0


ONE_BY_ONE = 4.0
"""What reading shares takes longer where those that a thread reads at once find no registers: A^T (A x) of 16384 x
16384 on an H200, 256 elements of 8 MB at once in threads of 128 registers, 725 to 745 us, of which 250 for the rest."""


def adding_up(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, total: Placed) -> float:
    """Seconds in which an elected block reads the shares of a total."""
    held = sum(d.compute.itemsize for d in scop.statements[total.value].dtypes)
    stored = sizes.volume(scop.shape(total.value)) * sizes.extent[schedule.finish_of(total)] * held
    seconds = stored // sizes.blocks(total) * target.processors / schedule.cluster / target.l2_bandwidth
    resident = schedule.block_threads * schedule.minimum_blocks
    bound = min(target.registers_per_thread, target.registers_per_processor // resident)
    read = sizes.product(total.digits(), ("slot",)) * max(1, held // 4)
    trips = stored / sizes.blocks(total) / (4 * read * schedule.threads)
    return max(trips * ADDING, seconds * (ONE_BY_ONE if read > bound else 1.0))


def long_totals(
    scop: Scop, schedule: KernelSchedule, target: Target, hints: Mapping[str, int]
) -> list[tuple[Placed, float]]:
    """The sums whose shares take an elected block longer to read than a launch costs, and how long."""
    sizes = Sizes.of(schedule, hints)
    totals = [(p, adding_up(scop, schedule, target, sizes, p)) for p in schedule.placed if p.role == "total"]
    return [(total, seconds) for total, seconds in totals if seconds > target.launch]
