"""What a kernel moves: bytes from main memory and through the cache, and what short pieces of rows waste of both.

Each constant names the measurement that set it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod, sqrt

from polyfuse.affine import Affine
from polyfuse.cost.copied import copied_ends
from polyfuse.cost.counts import Sizes, instructions, looked_up, moved_bytes, summed_digits, touched_bytes
from polyfuse.cost.l1 import WORD, touched_by_one
from polyfuse.cost.lines import SECTOR
from polyfuse.cost.pieces import (
    BY_SEVERAL,
    fills,
    granules,
    meets_others,
    run_of,
    scattering,
    steps_of,
    torn_ends,
    torn_runs,
)
from polyfuse.cost.reuse import Stream, along_row, met_again, streamed, sweeps, walks
from polyfuse.cost.walked import block_sectors, goes_apart, sectors_used
from polyfuse.places.boxes import Unbounded, enclosing_box
from polyfuse.schedule import Digit, KernelSchedule, Placed
from polyfuse.scop import Scop, Statement
from polyfuse.target import Target
from polyfuse.unravelled import Unravelled
from polyfuse.wanted import wanted_share


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


STILL_THERE = 2
"""The power of the share of what all blocks have between two loads of the same that the cache holds, which is still
there.  On an H100, prefixes along the middle of 4000 x 300 x 64 float32 by their sums, which read 307 MB twice, in
blocks of 64, 128 and 256 threads with 8 rows each 327, 294 and 247 us, of 128 with 16 rows 256; none of it there 330,
all 212; the shares are 0.2, 0.4, 0.9 and 0.9."""


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
        known = figures.get(alike)
        if known is None:
            known = figures[alike] = (
                granules(scop, load, schedule, sizes, summed) + copied_ends(scop, load, schedule, sizes),
                _touched(scop, schedule, target, sizes, load, blocks),
                bytes_of_thread(scop, load, sizes),
            )
        longer, moved, of_thread = known
        stretch[key] = max(stretch[key], longer)
        touched[key, load.path] += moved
        passes[key].setdefault(load.path, []).append(load)
        in_flight[key, load.path] += of_thread
    coming: dict[Path, int] = defaultdict(int)  # passes follow each other
    for (key, path), of_thread in in_flight.items():
        coming[path] += min(of_thread, _of_its_own(scop, schedule, sizes, passes[key][path]))
    asked = {
        key: wanted_share(scop, schedule, [p for ps in paths.values() for p in ps]) for key, paths in passes.items()
    }
    touched = {(key, path): int(moved * asked[key]) for (key, path), moved in touched.items()}
    boxes: dict[Hashable, float] = {}
    cached = sum(
        [
            _through_cache(scop, schedule, sizes, passes[key][path], target, n, boxes)
            for (key, path), n in touched.items()
        ]
    )
    read = wasted = again = 0
    stores = _stores(scop, schedule, target, sizes, summed)
    reads = {key: [p for ps in paths.values() for p in ps] for key, paths in passes.items()}
    volumes = {key: int(touched_bytes(scop, loads, sizes) * asked[key]) for key, loads in reads.items()}
    for key, paths in passes.items():  # of rows that data name any, but no more than are asked for
        if any(isinstance(entry, str) for load in reads[key] for entry in load.place):
            volumes[key] = min(volumes[key], sum([touched[key, path] for path in paths]))
    arrays = {key: streamed(schedule, loads, volumes[key]) for key, loads in reads.items()}
    written = [p for p in schedule.placed if p.role == "store"]
    streams = [*arrays.values(), *[Stream(moved_bytes(scop, p, sizes), p.digits()) for p in written]]
    here = min(1.0, max(1, occupancy) * target.processors / max(1, blocks))  # of all blocks, those that run at once
    for key, paths in passes.items():
        if all(goes_apart(load.place) for load in reads[key]):
            sectors = block_sectors(scop, reads[key], sizes) * blocks / max(1, arrays[key].bytes)
            stretch[key] = 1.0 + IN_PARTS * (min(MOST_PARTS, max(1.0, sectors)) - 1.0)
        times = sweeps(schedule, arrays[key], streams, target, sizes, occupancy)
        times *= walks(scop, reads[key], streams, target, sizes)
        walked = max([met_again(of_path, streams, target, sizes, here) for of_path in paths.values()])
        volume = int(arrays[key].bytes * times * (1 + walked))
        resident = (volume + stores[0]) * here
        *others, _ = sorted(min(volume, touched[key, path]) for path in paths)
        stays = resident <= target.l2_kept
        moved = volume if stays else volume + int(sum(others) * (1 - (target.l2_kept / resident) ** STILL_THERE))
        read += moved
        wasted += int(moved * (stretch[key] - 1.0))
        held = volume * here / target.processors
        wasted += int(sum(others) * COME_AGAIN.get(schedule.strategy, 0.0)) if held > NEAR_BY else 0
        torn = stretch[key] if schedule.strategy == "planes" else 1.0  # that of columns is in what they were fitted to
        again += int(sum(others) * torn) if stays else 0
    stored, beside, *rest = stores
    beside += _in_short_pieces(scop, schedule, stored, beside, {key: stream.bytes for key, stream in arrays.items()})
    return Traffic(read, wasted, again, cached, max(coming.values(), default=0), stored, beside, *rest)


IN_SHORT_PIECES = {"windows": 1.3, "pointwise": 0.7}
"""Bytes as good as written for each that a kernel writes beyond what it reads, times the root of the share that the
ends of its pieces waste.  On an H200, of 8192 x 8192 float32 less a border, in windows that write 256 bytes of a row,
or a kilobyte, elementwise, and in frames: four derivatives 502, 422, 378 and 347 us (401, 350, 350, 334 by all other
bytes), both derivatives and the Laplacian 418, 338, 333, 287 (318, 281, 309, 267), three differences 422, 363, 323, 275
(317, 280, 306, 267), two 283, 234, 235, 206 (232, 207, 224, 198); where as much is read, shallow water of 6001 x 6003
269, 222, 252 (237, 218, 234).  Not of doubles, which begin at fewer places of a sector: 284 (292); nor of what reads
next to nothing, differences of all pairs of 16384 and 8190 elements, 128 (128), or of shorter elements, slopes of 16384
x 16384 bytes, 383 and 365 (401, 351)."""
OUTPUTS = 4  # results of one array for which this was measured


def _in_short_pieces(
    scop: Scop, schedule: KernelSchedule, stored: int, torn: int, arrays: Mapping[Array, int]
) -> int:
    """Bytes as good as written where pieces of rows begin and end within sectors.  `arrays`: bytes of what is read; of
    shorter elements than results as many of these."""
    each = IN_SHORT_PIECES.get(schedule.strategy, 0.0)
    if not each or not torn:
        return 0
    itemsize = max([scop.dtype(p.value, p.component).itemsize for p in schedule.placed if p.role == "store"])
    read = sum([count * max(1, itemsize // scop.dtype(*key).itemsize) for key, count in arrays.items()])
    if itemsize > WORD or stored <= read:
        return 0
    beside = min(1.0, OUTPUTS * read / stored)  # what writes alone takes no longer
    return int(each * beside * sqrt(torn / stored) * (stored - read))


COME_AGAIN, NEAR_BY = {"columns": 0.9, "batches": 1.5}, 128 << 10
"""Bytes that are as good as moved for each of a later pass over columns: few are on their way, of every pass; and what
the blocks of a processor go through that its first-level cache still has, for which this does not hold.  On an H200,
layernorms and softmax over the channels of 1024 x 512 x 7 x 7 float32 and 1024 x 256 x 14 x 14 bfloat16, 103 MB: in
columns 83 to 121 us where 66 to 76 were predicted, in batches 111 to 193 (73)."""


IN_PARTS, MOST_PARTS = 0.5, 2.5
"""How much of the sectors that blocks of a flat walk share memory moves again, and times what is read that they are at
most.  On an H100: the first two axes of 43402 x 192 x 6 float32 swapped, pieces of 24 bytes, 189 to 203 us, where 145
were predicted without; the middle ones of 566 x 287 x 123 x 5 bfloat16, pieces of 10 bytes, 207 (150)."""


def _of_its_own(scop: Scop, schedule: KernelSchedule, sizes: Sizes, loads: Sequence[Placed]) -> int:
    """Bytes of one array that a thread has on its way in one trip, where others of its block ask for the same."""
    if len(loads) == 1:
        return sys.maxsize
    places = {tuple([e for e in map(along_row, p.place) if isinstance(e, Affine)]) for p in loads}
    if any(len(place) < len(loads[0].place) for place in places):
        return sys.maxsize
    try:
        extents = enclosing_box(_in_order(places), sizes.digit, sizes.loops).extents
    except Unbounded:
        return sys.maxsize
    itemsize = scop.dtype(loads[0].value, loads[0].component).itemsize
    return -(-prod(extents) * itemsize // schedule.threads)


def _in_order(places: set[tuple[Affine, ...]]) -> list[tuple[Affine, ...]]:
    """By their text, which takes longer than the rest where there is but one, as nearly always."""
    return sorted(places, key=str) if len(places) > 1 else list(places)


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
    figures: dict[Hashable, tuple[int, int, int, int]] = {}  # kernels store many arrays at the same places
    for store in (p for p in schedule.placed if p.role == "store"):
        alike = (scop.shape(store.value), scop.dtype(store.value, store.component), store.place, store.path)
        known = figures.get(alike)
        if known is None:
            known = figures[alike] = _stored(scop, schedule, target, sizes, summed, store, scanned=scanned)
        moved, beside, through, parts = known
        written += moved
        wasted += beside
        stored += through
        torn += parts
    return written, wasted, stored, torn


def _stored(
    scop: Scop,
    schedule: KernelSchedule,
    target: Target,
    sizes: Sizes,
    summed: frozenset[str],
    store: Placed,
    *,
    scanned: bool,
) -> tuple[int, int, int, int]:
    """The same of one store.  `scanned`: whether a prefix is in the kernel."""
    moved = moved_bytes(scop, store, sizes)
    ends = torn_ends(scop, store, schedule, sizes)
    ends = max(ends, torn_runs(scop, store, schedule, sizes)) if scanned else ends
    beside = int(moved * (ends + scattering(scop, store, schedule, sizes, summed)))
    together = _waste(scop, store, schedule, target, sizes)
    return moved, beside, int(moved * together), int(moved * _in_parts(scop, schedule, target, store, sizes, scanned))


def _in_parts(
    scop: Scop, schedule: KernelSchedule, target: Target, store: Placed, sizes: Sizes, scanned: bool
) -> float:
    """Bytes of the sectors that a store writes in parts, as far as they count, over the bytes that it stores."""
    alone, width, times = touched_by_one(scop, schedule, target, store, sizes)
    itemsize = scop.dtype(store.value, store.component).itemsize
    at_once = times > AT_ONCE and not schedule.shared  # which spaces them
    if alone <= 1 or width > 1 and not at_once:
        return 0.0
    in_rows = _in_windows(schedule, store, itemsize) and not (at_once and _bursts(scop, schedule, store))
    if width > 1 and 2 * width * itemsize >= SECTOR:
        share = HALVES
    elif width == 1 and (scanned or in_rows):
        share = TORN
    elif width == 1 and not fills(schedule, store, itemsize):
        share = 1.0
    else:
        share = BURST if at_once else TORN
    return alone * share * (BY_SEVERAL if meets_others(scop, schedule, store, sizes) else 1.0)


def _in_windows(schedule: KernelSchedule, store: Placed, itemsize: int) -> bool:
    """Whether a thread with windows stores words that are neighbours one behind the other, all of a sector that it has:
    largest of eight neighbours, 805 MB in rows of 16371, take an H200 432, 444 and 451 us in four columns of one, two
    and four rows.  Not records of three and nine, see `BURST`."""
    behind = _last_slot(schedule, store)
    return schedule.strategy == "windows" and itemsize >= WORD and behind is not None


def _bursts(scop: Scop, schedule: KernelSchedule, store: Placed) -> bool:
    """Whether the neighbours that a thread stores one behind the other are no power of two, as records, and nothing
    long is computed between them."""
    behind = _last_slot(schedule, store)
    if behind is None or not behind.count & (behind.count - 1):
        return False
    loads = [p for p in schedule.placed if p.role == "load"]
    if any(scop.dtype(p.value, p.component).itemsize < WORD for p in loads):  # which are widened in between
        return False
    statements = [s for s in map(scop.statements.__getitem__, schedule.body) if isinstance(s, Statement)]
    return all(sum(map(instructions, s.body)) < SPACED for s in statements)


def _last_slot(schedule: KernelSchedule, store: Placed) -> Digit | None:
    """The last slot of a store, if it counts neighbours in memory."""
    last = store.place[-1] if store.place else None
    slots = [d for d in schedule.of_kind("slot") if d.name in store.digits()]
    behind = isinstance(last, Affine) and bool(slots) and last.coefficient(f"${slots[-1].name}") == 1
    return slots[-1] if behind else None


TORN = 0.4
"""Of the bandwidth of the last-level cache, what stores of parts of its sectors reach.  On an H200, of float32 16 bytes
apart, a quarter of each sector: x.T * 2 of 8191 x 8193 297 us, x + y.T 289, 95 million turned elements 456."""
AT_ONCE, BURST = 5, 0.8
"""Stores of parts of sectors that a thread makes, from which on those that fill sectors in turn do not find each other,
nor do vectors of less than half of one; and how many of the sectors count then.  On an H200, of float32, three planes
beside each other, 96 and 72 million results: single elements of eight pixels in a thread 202, 183 and 175 us, of one
pixel 119; pairs of two pixels of each of four rows 209 and 175, of one row 98 and 86.  But of eight pixels with
divisions between them 102.  Three vectors of 20 million interleaved: of two pixels 172, of one 148, as pairs 115."""
SPACED = 4
"""Instructions of a statement from which on stores are apart: colours composed and divided by their opacity, 64
million of three float32, take an H200 310 us in windows of eight; luma and chroma of 24 million 198, where their bytes
take 135.  Nor where bytes are widened in between."""
HALVES = 0.6
"""The same of vectors of a half of a sector, of as many stores.  On an H200, 20 million records of eight float32 out of
four, a thread with four of them: 360 us, where their bytes take 224."""
SCATTERED_READS = 0.45
"""The same of sectors that a flat walk takes a few elements of, and other blocks the rest: 5001 x 6003 doubles turned
so take an H100 297 us, where 169 were predicted with all of that bandwidth, and 172 in tiles."""
REREAD = 0.7
"""Of the bandwidth of the last-level cache, what reads of several blocks reach: 6.2 TB/s (H200, 7-point stencil)."""


KEPT_TABLE = 64 << 10
"""Bytes of an array up to which every processor keeps all of it, wherever data choose what is read."""


def _through_cache(
    scop: Scop,
    schedule: KernelSchedule,
    sizes: Sizes,
    loads: Sequence[Placed],
    target: Target,
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
    if any(isinstance(e, str) for e in loads[0].place):
        if boxes[alike] < inf:
            return int(boxes[alike])  # sectors, of which `moved` has a half
        table = sizes.volume(scop.shape(value)) * itemsize
        return min(moved, table * target.processors) if table <= KEPT_TABLE else moved
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
        extents = enclosing_box(_in_order(places), sizes.digit, sizes.loops).extents
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
    run = run_of(position, schedule, target.warp, apart) * itemsize
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
    for factor, extent in sorted(steps_of(position, schedule, threads)):
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
