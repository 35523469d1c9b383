"""What a kernel moves: bytes from main memory and through the cache, and what short pieces of rows waste of both.

Each constant names the measurement that set it.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import inf, prod

from polyfuse.affine import Affine
from polyfuse.cost.copied import copied_ends
from polyfuse.cost.counts import Sizes, looked_up, moved_bytes, summed_digits, touched_bytes
from polyfuse.cost.l1 import touched_by_one
from polyfuse.cost.lines import LINE, SECTOR
from polyfuse.cost.phases import runs_in_threads, scanned_digits
from polyfuse.cost.reuse import Stream, along_row, streamed, sweeps, walks
from polyfuse.cost.walked import block_sectors, goes_apart, sectors_used
from polyfuse.places.boxes import Unbounded, enclosing_box
from polyfuse.schedule import KernelSchedule, Placed, in_frame
from polyfuse.scop import Scop, Statement
from polyfuse.target import Target
from polyfuse.unravelled import Unravelled


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes that a kernel moves."""

    read: int
    """From main memory."""
    wasted: int
    """Read from main memory beside them."""
    again: int
    """Of later passes, which the cache serves."""
    cache_read: int
    """Read through the cache."""
    in_flight: int
    """That a thread loads at once."""
    written: int
    """To main memory."""
    wasted_writes: int
    """As good as written beside them."""
    stored: int
    """Written through the cache."""
    torn: int
    """Of the sectors that stores write in parts."""


Path = tuple[tuple[str, int], ...]
Array = tuple[int, int]  # value, component


def traffic_of(
    scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, blocks: int, occupancy: int
) -> Traffic:
    """What all loads and stores of a kernel move."""
    summed = frozenset[str]().union(*[summed_digits(scop, p) for p in schedule.placed if p.role == "compute"])
    passes: dict[Array, dict[Path, list[Placed]]] = defaultdict(dict)
    touched: dict[tuple[Array, Path], int] = defaultdict(int)
    stretch: dict[Array, float] = defaultdict(lambda: 1.0)
    in_flight: dict[tuple[Array, Path], int] = defaultdict(int)
    figures: dict[Hashable, tuple[float, int, int]] = {}
    for load in (p for p in schedule.placed if p.role == "load"):
        key = (load.value, load.component)
        places = [None if isinstance(e, str) else e for e in load.place]
        steps = tuple([e.terms if isinstance(e, Affine) else e for e in places])  # where it begins is the same
        alike = (scop.shape(load.value), scop.dtype(*key), steps, load.path)
        if alike not in figures:
            figures[alike] = (
                _granules(scop, load, schedule, sizes, summed) + copied_ends(scop, load, schedule, sizes),
                _touched(scop, schedule, target, sizes, load, blocks),
                bytes_of_thread(scop, load, sizes),
            )
        granules, moved, of_thread = figures[alike]
        stretch[key] = max(stretch[key], granules)
        touched[key, load.path] += moved
        passes[key].setdefault(load.path, []).append(load)
        in_flight[key, load.path] += of_thread
    coming: dict[Path, int] = defaultdict(int)  # passes follow each other
    for (key, path), of_thread in in_flight.items():
        coming[path] += min(of_thread, _of_its_own(scop, schedule, sizes, passes[key][path]))
    boxes: dict[Hashable, float] = {}
    cached = sum(
        [_through_cache(scop, schedule, sizes, passes[key][path], n, boxes) for (key, path), n in touched.items()]
    )
    read = wasted = again = 0
    stores = _stores(scop, schedule, target, sizes, summed)
    reads = {key: [p for ps in paths.values() for p in ps] for key, paths in passes.items()}
    arrays = {key: streamed(schedule, loads, touched_bytes(scop, loads, sizes)) for key, loads in reads.items()}
    written = [p for p in schedule.placed if p.role == "store"]
    streams = [*arrays.values(), *[Stream(moved_bytes(scop, p, sizes), p.digits()) for p in written]]
    for key, paths in passes.items():
        if all(goes_apart(load.place) for load in reads[key]):
            sectors = block_sectors(scop, reads[key], sizes) * blocks / max(1, arrays[key].bytes)
            stretch[key] = 1.0 + IN_PARTS * (min(MOST_PARTS, max(1.0, sectors)) - 1.0)
        times = sweeps(schedule, arrays[key], streams, target, sizes, occupancy)
        times *= walks(scop, reads[key], streams, target, sizes)
        volume = int(arrays[key].bytes * times)
        resident = (volume + stores[0]) * min(1.0, max(1, occupancy) * target.processors / max(1, blocks))
        *others, _ = sorted(min(volume, touched[key, path]) for path in paths)
        stays = resident <= target.l2_kept
        moved = volume if stays else volume + sum(others)
        read += moved
        wasted += int(moved * (stretch[key] - 1.0))
        again += sum(others) if stays else 0
    return Traffic(read, wasted, again, cached, max(coming.values(), default=0), *stores)


IN_PARTS, MOST_PARTS = 0.5, 2.5
"""How much of the sectors that blocks of a flat walk share memory moves again, and times what is read that they are at
most.  On an H100: the first two axes of 43402 x 192 x 6 float32 swapped, pieces of 24 bytes, 189 to 203 us, where 145
were predicted without; the middle ones of 566 x 287 x 123 x 5 bfloat16, pieces of 10 bytes, 207 (150)."""


def _of_its_own(scop: Scop, schedule: KernelSchedule, sizes: Sizes, loads: Sequence[Placed]) -> int:
    """Bytes of one array that a thread has on its way in one trip, where others of its block ask for the same."""
    places = sorted({tuple(e for e in map(along_row, p.place) if isinstance(e, Affine)) for p in loads}, key=str)
    if len(loads) == 1 or any(len(place) < len(loads[0].place) for place in places):
        return sys.maxsize
    try:
        extents = enclosing_box(places, sizes.digit, sizes.loops).extents
    except Unbounded:
        return sys.maxsize
    itemsize = scop.dtype(loads[0].value, loads[0].component).itemsize
    return -(-prod(extents) * itemsize // schedule.threads)


def _touched(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, load: Placed, blocks: int) -> int:
    """Bytes that all executions of a load ask for, in sectors."""
    used = load.digits() | looked_up(schedule, load) | sizes.blocks_of
    executed = sizes.product(used, ("block", "thread", "slot", "loop"))
    executed //= max(1, blocks // (sizes.blocks(load) * schedule.cluster))
    elements = min(executed, sizes.volume(scop.shape(load.value)) * blocks)
    itemsize = scop.dtype(load.value, load.component).itemsize
    return int(elements * itemsize * _waste(scop, load, schedule, target, sizes))


def _stores(
    scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes, summed: frozenset[str]
) -> tuple[int, int, int, int]:
    """(bytes written, as good as written beside them, through the cache, of sectors written in parts)."""
    written = wasted = stored = torn = 0
    scanned = any(isinstance(s := scop.statements[v], Statement) and s.scanned is not None for v in schedule.body)
    for store in (p for p in schedule.placed if p.role == "store"):
        moved = moved_bytes(scop, store, sizes)
        written += moved
        ends = _torn_ends(scop, store, schedule, sizes)
        ends = max(ends, _torn_runs(scop, store, schedule, sizes)) if scanned else ends
        wasted += int(moved * (ends + _scattering(scop, store, schedule, sizes, summed)))
        together = _waste(scop, store, schedule, target, sizes)
        alone = touched_by_one(scop, schedule, target, store, sizes)
        stored += int(moved * together)
        in_turn = TORN if scanned or _fills(schedule, store) else 1.0
        in_turn *= BY_SEVERAL if _meets_others(scop, schedule, store, sizes) else 1.0
        torn += int(moved * alone * in_turn) if alone > 1 else 0
    return written, wasted, stored, torn


BY_SEVERAL = 1.8
"""Times that, where several blocks write the parts of a sector.  On an H100, 4 MB float32 of 300 to 1000 columns, each
of which a block normalises by itself: 22 to 27 us where 15 to 16 were predicted."""


def _meets_others(scop: Scop, schedule: KernelSchedule, store: Placed, sizes: Sizes) -> bool:
    """Whether neighbouring blocks store within one sector."""
    itemsize = scop.dtype(store.value, store.component).itemsize
    position = sizes.position(scop, store)
    several = [d for d in schedule.of_kind("block") if d.name in store.digits() and sizes.extent[d.name] > 1]
    steps = [abs(position.coefficient(f"${d.name}")) for d in several]
    return any(0 < step * itemsize < SECTOR for step in steps)


def _fills(schedule: KernelSchedule, store: Placed) -> bool:
    """Whether a thread stores the gaps between its neighbours' elements in turn, as rows of five, or the prefixes of a
    piece: sectors are whole before they leave the cache.  Rows of three and of five made of planes, 346 MB of float32,
    take 183 and 235 us on an H200, and 164 where lanes store neighbours; prefixes of 134 MB in rows of 1001 143."""
    slots = [d for d in schedule.of_kind("slot") if d.name in store.digits()]
    last = store.place[-1] if store.place else None
    alone = [d for d in slots if isinstance(last, Affine) and last.coefficient(f"${d.name}") == 1]
    return any(d.count & (d.count - 1) for d in alone)


TORN_RUNS = {16: 0.2, 8: 0.5, 4: 0.9, 2: 1.4, 1: 1.4}
"""What is as good as written beside them, in proportion, where prefixes run through columns and rows begin at multiples
of so many bytes, off the boundaries of sectors: a warp writes parts of them.  On an H200, where rows of 768 float32
take 272 us, 291 with reads of rows of 767, 400 with writes of such rows.  Cumsum along the middle of 255 x 513 x 767
float32 297 us, bfloat16 163, of 64 x 1000 x 1500 213 and 120, where their bytes take 187, 94, 179 and 90; along axis 0
of 16383 x 8191, from block to block, float32 464, bfloat16 379, of 16384 x 8192 340 and 245.  By the counters, memory
moves hardly more."""


IN_STEP = 0.35
"""Of it where the warps of a block keep step: 221 us instead of 299 for the first one; for the second one 142 in one
run and 173 in another instead of 166."""


def _torn_runs(scop: Scop, store: Placed, schedule: KernelSchedule, sizes: Sizes) -> float:
    """The same of columns of a prefix."""
    shape = scop.shape(store.value)
    if not shape or schedule.strategy != "columns" or not (store.path or schedule.grid_scans):
        return 0.0
    pitch = max(1, shape[-1].evaluate(sizes.hints))
    pitch *= scop.dtype(store.value, store.component).itemsize
    torn = TORN_RUNS.get(math.gcd(pitch, SECTOR), 0.0)
    return torn * IN_STEP if dict(schedule.parameters).get("in_step") else torn


def _torn_ends(scop: Scop, store: Placed, schedule: KernelSchedule, sizes: Sizes) -> float:
    """What the ends of pieces add to the writes of tiles, where rows begin off the boundaries of sectors: another block
    writes the rest of a sector, long before or after.  And to those of other elementwise kernels the ends of what warps
    write."""
    found = _piece(scop, store, schedule, sizes)
    if found is None:
        return 0.0
    piece, pitch, itemsize = found
    last = store.place[-1]
    if schedule.shared and isinstance(last, Affine) and in_frame(last):
        return GRANULE / pitch  # the ends of rows alone
    if schedule.shared:
        return GRANULE / piece
    if schedule.strategy in ("windows", "window_sums") and piece < pitch:
        return (HALVED_END if pitch % VECTOR == 0 else TORN_END) / piece
    if schedule.strategy != "pointwise" or "frames" in dict(schedule.parameters) or piece < LINE:
        return 0.0  # of less than a warp writes
    assert isinstance(last, Affine)
    counts = [d.count for d in schedule.of_kind("slot") if last.coefficient(f"${d.name}") == 1]
    return TORN_BY_WARPS.get(math.gcd(math.prod(counts) * itemsize, pitch), 0.0)


VECTOR = 16  # bytes
TORN_END, HALVED_END = 64, 16
"""Bytes that are as good as written beside a piece of a row that a block holds in registers, where rows begin off the
boundaries of sectors, elsewhere and at multiples of 16 bytes.  Between what these measure on an H200: of float32 less a
border, in pieces of 256, 1024 and 4096 bytes, 8190 x 8190 161, 133 and 130 us, two results of it 283, 224 and 215,
12286 x 12286 359, 295 and 287, 8196 x 8196 138, 132 and 129; sharpened 8000 x 8001, which keeps first-level caches busy
as well, in pieces of 256 bytes 145, of 1024 140, means of 5 x 5 158 and 163.  Of 8190 x 16382 bfloat16, in pieces of
128 and 512 bytes, 194 and 142; of 16382 x 16381 bytes, of 64 and 256, 232 and 224, byte by byte in rows 193."""
TORN_BY_WARPS = {4: 0.2, 8: 0.05}
"""The same in proportion to what is written, where threads store so many bytes each and neighbouring warps of a block
write the parts of a sector.  On an H200: 8001 x 8001 float32 less a triangle 137 us where 123 are possible, 8003 x 8003
less a border 134 and 123, 6001 x 6001 79 and 72; by pairs 8190 x 8190 130 and 129, 12286 x 12286 287 and 285."""


def _piece(
    scop: Scop, store: Placed, schedule: KernelSchedule, sizes: Sizes
) -> tuple[int, int, int] | None:
    """(bytes that a block writes side by side, bytes from row to row, bytes of an element) where rows begin off the
    boundaries of sectors."""
    if len(store.place) < 2 or not all(isinstance(entry, Affine) for entry in store.place):
        return None
    itemsize = scop.dtype(store.value, store.component).itemsize
    run = _run(sizes.position(scop, store), schedule, schedule.threads)
    pitch = 1
    for extent in reversed(scop.shape(store.value)):  # whole rows follow each other in memory
        pitch *= max(1, extent.evaluate(sizes.hints))
        if pitch >= run:
            break
    pitch *= itemsize
    return (min(pitch, run * itemsize), pitch, itemsize) if pitch % SECTOR else None


TORN = 0.4
"""Of the bandwidth of the last-level cache, what stores of parts of its sectors reach.  On an H200, of float32 16 bytes
apart, a quarter of each sector: x.T * 2 of 8191 x 8193 297 us, x + y.T 289, 95 million turned elements 456."""
SCATTERED_READS = 0.45
"""The same of sectors that a flat walk takes a few elements of, and other blocks the rest: 5001 x 6003 doubles turned
so take an H100 297 us, where 169 were predicted with all of that bandwidth, and 172 in tiles."""
REREAD = 0.7
"""Of the bandwidth of the last-level cache, what reads of several blocks reach: 6.2 TB/s (H200, 7-point stencil)."""


def _through_cache(
    scop: Scop,
    schedule: KernelSchedule,
    sizes: Sizes,
    loads: Sequence[Placed],
    moved: int,
    boxes: dict[Hashable, float],
) -> int:
    """Bytes of one array in one pass of loops.  What several threads of a block read, its processor keeps.  `boxes`:
    what is known of loads at the same places."""
    value, component = loads[0].value, loads[0].component
    itemsize = scop.dtype(value, component).itemsize
    if moved <= 1.1 * sizes.volume(scop.shape(value)) * itemsize:
        return moved
    alike = (itemsize, loads[0].path, tuple([load.place for load in loads]))
    if all(goes_apart(load.place) for load in loads):
        return int(block_sectors(scop, loads, sizes) * sizes.blocks(loads[0]) / SCATTERED_READS)
    if alike not in boxes:
        shape = [max(1, n.evaluate(sizes.hints)) for n in scop.shape(value)]
        boxes[alike] = block_bytes(schedule, loads, itemsize, sizes, shape)
    if any(isinstance(e, str) for e in loads[0].place) and boxes[alike] < inf:
        return int(boxes[alike])  # sectors, of which `moved` has a half
    return int(min(moved, boxes[alike] / REREAD))


def block_bytes(
    schedule: KernelSchedule, loads: Sequence[Placed], itemsize: int, sizes: Sizes, shape: Sequence[int]
) -> float:
    """Bytes of the boxes that blocks read in loads of an array of `shape`, in whole sectors, where whole rows follow
    each other in memory; those of each pass of a loop."""
    load = loads[0]
    places = {tuple(e for e in map(along_row, p.place) if isinstance(e, Affine)) for p in loads}
    if any(len(place) < len(load.place) for place in places):
        return _picked(schedule, loads, itemsize, sizes, shape)
    try:
        extents = enclosing_box(sorted(places, key=str), sizes.digit, sizes.loops).extents
    except Unbounded:
        return inf
    if not extents:
        return inf
    last, entry = len(extents) - 1, load.place[-1]
    while last and extents[last] >= shape[last]:
        last -= 1
    along = prod(extents[last:])
    along = min(along, entry.extent.evaluate(sizes.hints)) if isinstance(entry, Unravelled) else along
    row = -(-along * itemsize // SECTOR) * SECTOR
    trips = sizes.product({loop for loop, _ in load.path}, ("loop",))
    return prod(extents[:last]) * row * trips * sizes.blocks(load)


def _picked(
    schedule: KernelSchedule, loads: Sequence[Placed], itemsize: int, sizes: Sizes, shape: Sequence[int]
) -> float:
    """Bytes of the rows from which blocks pick elements that data choose: whole sectors of each, or all of a row where
    so many are picked.  Two of 1001 interpolated at 1500 places of 20000 rows take an H100 141 us in blocks of 1024
    places of a row, 152 in 128 places of 16 rows, 246 in 64 of 32."""
    load = loads[0]
    rows = [e for e in load.place[:-1] if isinstance(e, Affine)]
    if not rows or len(rows) < len(load.place) - 1 or not isinstance(load.place[-1], str):
        return inf  # anywhere along other dimensions
    if any(p.place[:-1] != load.place[:-1] for p in loads):
        return inf
    try:
        extents = enclosing_box([tuple(rows)], sizes.digit, sizes.loops).extents
    except Unbounded:
        return inf
    count = prod(extents)
    dealt = load.digits() | looked_up(schedule, load)
    picked = len(loads) * sizes.product(dealt, ("thread", "slot")) / max(1, count)
    row = min(picked * SECTOR, -(-shape[-1] * itemsize // SECTOR) * SECTOR)
    return count * row * sizes.product({loop for loop, _ in load.path}, ("loop",)) * sizes.blocks(load)


def bytes_of_thread(scop: Scop, move: Placed, sizes: Sizes) -> int:
    """Bytes that a thread moves at once."""
    return sizes.product(move.digits(), ("slot",)) * scop.dtype(move.value, move.component).itemsize


ENOUGH_IN_FLIGHT = 16
"""Bytes per thread, read or written, that are always enough: 8 bytes that become 8 float32 ran at 0.93 of the roof."""
LEAST_IN_FLIGHT = 8
"""Bytes per thread: one float32 result at a time reached 0.75 of the copy speed, two float16 loads 0.28."""


_DEALT = ("thread", "slot")


def _waste(scop: Scop, move: Placed, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """Bytes moved over bytes used: consecutive elements that a warp touches together, in sectors."""
    itemsize = scop.dtype(move.value, move.component).itemsize
    if goes_apart(move.place):
        return sectors_used(scop, move, sizes)
    if move.place and isinstance(move.place[-1], Unravelled):
        return 1.0  # neighbours along a row, or the same element for a row
    if not move.place or not isinstance(move.place[-1], Affine):
        return SECTOR / itemsize / 2  # a gather: half of its neighbours are assumed to help
    position = sizes.position(scop, move)
    apart = _apart(scop, move, schedule, sizes, position)
    run = _run(position, schedule, target.warp, apart) * itemsize
    if move.role == "load" and apart == 1 and not _cut(position, schedule, itemsize):
        return min(max(SECTOR, run) / run, _covered(position, schedule, target.warp, itemsize))
    return max(SECTOR, run) * apart / run


def _cut(position: Affine, schedule: KernelSchedule, itemsize: int) -> bool:
    """Whether blocks share sectors: each reads its elements of them, at another time."""
    return any(0 < abs(position.coefficient(f"${d.name}")) * itemsize < SECTOR for d in schedule.of_kind("block"))


def _covered(position: Affine, schedule: KernelSchedule, threads: int, itemsize: int) -> float:
    """Bytes of the sectors that a warp reads with all its slots over bytes that it uses, where neighbours lie less than
    a sector apart: a sector stays in the first-level cache until the next of its elements is read."""
    covered = used = 1
    for factor, extent in sorted(_steps(position, schedule, threads)):
        if factor and (factor <= covered or factor * itemsize < SECTOR):
            covered, used = max(covered, factor * (extent - 1) + covered), used * extent
    return max(SECTOR, covered * itemsize) / (used * itemsize)


def _apart(scop: Scop, move: Placed, schedule: KernelSchedule, sizes: Sizes, position: Affine) -> int:
    """Elements from one that a load takes to the next, where other loads of the same thread take all in between, as of
    the real and the imaginary parts of pairs: the compiler makes wide loads of them.  Else 1."""
    dealt = [f for atom, f in position.terms if isinstance(atom, str) and sizes.kind.get(atom[1:]) in _DEALT]
    apart = min(map(abs, dealt), default=1)
    if apart == 1 or move.role != "load":
        return 1
    beside = [p for p in schedule.placed if p.role == "load" and p.value == move.value and p.path == move.path]
    places = [sizes.position(scop, p) for p in beside if all(isinstance(e, Affine) for e in p.place)]
    taken = {other.constant % apart for other in places if other.terms == position.terms}
    return apart if len(taken) == apart else 1


def _run(last: Affine, schedule: KernelSchedule, threads: int, apart: int = 1) -> int:
    """Elements of memory that `threads` threads span together, with all their slots, at places that step like `last`
    and lie `apart` within a run."""
    run = apart
    for factor, extent in sorted(_steps(last, schedule, threads)):
        if factor and factor <= run:
            run = max(run, factor * extent)
    return run


def _steps(last: Affine, schedule: KernelSchedule, threads: int) -> list[tuple[int, int]]:
    """(elements from one to the next, number) of the digits of `threads` threads and of their slots."""
    steps = []
    for d in schedule.digits:
        if d.kind == "thread":
            extent = max(1, min(d.count, threads // d.stride)) if d.stride < threads else 1
            steps.append((abs(last.coefficient(f"${d.name}")), extent))
        elif d.kind == "slot":
            steps.append((abs(last.coefficient(f"${d.name}")), d.count))
    return steps


GRANULE = 64
"""Bytes that memory itself moves at least.  Half of what short pieces of rows waste is used by a neighbouring block in
time: sums of columns in pieces of 32 bytes take 1.4 times as long, 2.0 times where rows are not aligned (H200).  The
ends of a piece of 256 to 512 bytes of an odd row cost a transpose about one more: 8191 x 8193 float32 takes 152 us
where its bytes take 134, bfloat16 92 and 89, an odd permutation of 95 million float32 235 and 188."""


SCATTERED = ((128, 0.5), (1024, 0.15))
"""(bytes, how much more) of pieces of rows below so many bytes that a panel writes row by row: softmax over the middle
axis of 64 x 512 x 4096 in pieces of 128 bytes takes 278 us on an H200, in pieces of 64 of 256 x 128 x 4096 272, of
32 x 100 x 30000 209 and of 64 x 2048 x 1024 391, where their bytes take 259, 259, 187 and 259."""


HELD_APART = 1.0
"""What it adds to the reads of clusters besides: group norms of 168 MB, channels last, 10 to 32 of them a group, take
135 to 148 us on an H200 in pieces of 64 and 128 bytes, 148 to 198 of 40; in whole planes 95."""


SCANNED = 3.0
"""The same for panels that a prefix runs through: cumsum of 16384 x 8192 along axis 0 in pieces of 64 bytes takes 655
us on an H200, where its bytes take 257; of 8192 x 8192 318 us; of 4096 x 256 x 64 along axis 1 395 instead of 128."""


def _scattering(scop: Scop, store: Placed, schedule: KernelSchedule, sizes: Sizes, summed: frozenset[str]) -> float:
    """What short pieces add to the writes of blocks that reduce or scan over many rows and write as many."""
    if len(store.place) < 2 or not isinstance(store.place[-1], Affine):
        return 0.0
    itemsize = scop.dtype(store.value, store.component).itemsize
    piece = _run(store.place[-1], schedule, schedule.threads) * itemsize
    pitch = max(1, scop.shape(store.value)[-1].evaluate(sizes.hints)) * itemsize
    if piece >= min(SCATTERED[-1][0], pitch):
        return 0.0
    rows = {name[1:] for e in store.place[:-1] if isinstance(e, Affine) for name in e.names()}
    scanned = frozenset[str]().union(*[scanned_digits(scop, p) for p in schedule.placed])
    if rows & scanned and not schedule.grid_scans and not runs_in_threads(scop, schedule):
        return SCANNED  # of blocks in order a row of panels at a time runs, of threads all that are side by side
    return next(more for bytes_, more in SCATTERED if piece < bytes_) if rows & summed else 0.0


def _granules(scop: Scop, load: Placed, schedule: KernelSchedule, sizes: Sizes, summed: frozenset[str]) -> float:
    """What pieces of rows stretch the reads of a reduction by, from one sector up; scattered elements, and what other
    blocks read as well, are the cache's matter."""
    if len(load.place) < 2 or not isinstance(load.place[-1], Affine) or not summed:
        return 1.0
    itemsize = scop.dtype(load.value, load.component).itemsize
    steps = [load.place[-1].coefficient(f"${d.name}") for d in schedule.of_kind("block")]
    run = _run(load.place[-1], schedule, schedule.threads)
    piece = min([run, *(step for step in steps if step > 1)]) * itemsize  # the rest is padding: another block's
    pitch = max(1, scop.shape(load.value)[-1].evaluate(sizes.hints)) * itemsize
    if SECTOR // 2 <= piece < SECTOR and schedule.strategy == "columns" and piece in [itemsize * s for s in steps]:
        return GRANULE / SECTOR  # another block reads the rest of the sector
    if not SECTOR <= piece < pitch:
        return 1.0
    touched = piece + GRANULE - math.gcd(piece, pitch, GRANULE)
    apart = HELD_APART if schedule.cluster > 1 and piece < SCATTERED[-1][0] else 0.0
    return 1.0 + (max(touched, GRANULE) / piece - 1.0) / 2 + apart
