"""What short pieces of rows waste of what a kernel reads and writes: parts of sectors, and of what memory moves.

Each constant names the measurement that set it.
"""

from __future__ import annotations

import math

from polyfuse.affine import Affine
from polyfuse.cost.counts import Sizes
from polyfuse.cost.l1 import WORD
from polyfuse.cost.lines import LINE, SECTOR
from polyfuse.cost.scans import scanned_digits
from polyfuse.schedule import KernelSchedule, Placed, in_frame
from polyfuse.scop import Scop


def run_of(last: Affine, schedule: KernelSchedule, threads: int, apart: int = 1) -> int:
    """Elements of memory that `threads` threads span together, with all their slots, at places that step like `last`
    and lie `apart` within a run."""
    run = apart
    for factor, extent in sorted(steps_of(last, schedule, threads)):
        if factor and factor <= run:
            run = max(run, factor * extent)
    return run


def steps_of(last: Affine, schedule: KernelSchedule, threads: int) -> list[tuple[int, int]]:
    """(elements from one to the next, number) of the digits of `threads` threads and of their slots."""
    factors = dict(last.terms)
    counts = schedule.figure(("counts", threads), lambda: _counts(schedule, threads))
    return [(abs(factors.get(atom, 0)), count) for atom, count in counts]


def _counts(schedule: KernelSchedule, threads: int) -> list[tuple[str, int]]:
    """How many places the digits of `threads` threads, and their slots, have."""
    found = []
    for d in schedule.digits:
        if d.kind == "thread":
            found.append((f"${d.name}", max(1, min(d.count, threads // d.stride)) if d.stride < threads else 1))
        elif d.kind == "slot":
            found.append((f"${d.name}", d.count))
    return found


# ---------------------------------------------------------------------------------------------- reads
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


HELD_BESIDE = 0.6
"""The same of whole rows beside those of other blocks, which a block holds of all planes, times the square of what they
lack of 1024 bytes.  Batch normalisation of 103 or 206 MB on an H100: of 1024 x 512 x 49 float16 100 us where 51 were
predicted, in two kernels 69; of 512 x 1024 x 49 float32 143 (83), of 1000 x 256 x 100 110 (87), of 256 x 512 x 196 104
(85), of 128 x 256 x 784 91 (85)."""


SCANNED = 3.0
"""The same for panels that a prefix runs through, where the lanes of a warp lie along it: cumsum of 16384 x 8192 along
axis 0 in pieces of 64 bytes takes 655 us on an H200, where its bytes take 257; of 8192 x 8192 318 us; of 4096 x 256 x
64 along axis 1 395 instead of 128."""


def scattering(scop: Scop, store: Placed, schedule: KernelSchedule, sizes: Sizes, summed: frozenset[str]) -> float:
    """What short pieces add to the writes of blocks that reduce or scan over many rows and write as many."""
    if len(store.place) < 2 or not isinstance(store.place[-1], Affine):
        return 0.0
    itemsize = scop.dtype(store.value, store.component).itemsize
    piece = run_of(store.place[-1], schedule, schedule.threads) * itemsize
    pitch = max(1, scop.shape(store.value)[-1].evaluate(sizes.hints)) * itemsize
    if piece >= pitch and not summed.isdisjoint(n[1:] for e in store.place if isinstance(e, Affine) for n in e.names()):
        piece = _between_planes(scop, store, schedule, sizes)[1]
        return next((more for bytes_, more in SCATTERED if piece < bytes_), 0.0) if piece else 0.0
    if piece >= min(SCATTERED[-1][0], pitch):
        return 0.0
    rows = {name[1:] for e in store.place[:-1] if isinstance(e, Affine) for name in e.names()}
    scanned = frozenset[str]().union(*[scanned_digits(scop, p) for p in schedule.placed])
    lanes = {d.name for d in schedule.of_kind("thread") if d.stride == 1}
    if rows & scanned & lanes and not schedule.grid_scans:
        return SCANNED
    return next(more for bytes_, more in SCATTERED if piece < bytes_) if rows & summed else 0.0


SIDE_BY_SIDE = ((SECTOR, 0.2), (128, 0.1))
"""(bytes, how much more) of pieces of rows below so many bytes that a block of planes reads, and others the rest of
each row.  On an H100, sums of 200 MB in twelve groups of channels, which come last: in pieces of 16 of 48 bytes
79 and 82 us, of 64 of 192 75 to 80, of 128 of 384 69 to 72; in one block for all groups 72 and 76, 68 to 74, and 68."""


def granules(scop: Scop, load: Placed, schedule: KernelSchedule, sizes: Sizes, summed: frozenset[str]) -> float:
    """What pieces of rows stretch the reads of a reduction by, from one sector up; scattered elements, and what other
    blocks read as well, are the cache's matter."""
    if len(load.place) < 2 or not isinstance(load.place[-1], Affine) or not summed:
        return 1.0
    itemsize = scop.dtype(load.value, load.component).itemsize
    steps = [load.place[-1].coefficient(f"${d.name}") for d in schedule.of_kind("block")]
    run = run_of(load.place[-1], schedule, schedule.threads)
    piece = min([run, *(step for step in steps if step > 1)]) * itemsize  # the rest is padding: another block's
    pitch = max(1, scop.shape(load.value)[-1].evaluate(sizes.hints)) * itemsize
    if SECTOR // 2 <= piece < SECTOR and schedule.strategy == "columns" and piece in [itemsize * s for s in steps]:
        return GRANULE / SECTOR  # another block reads the rest of the sector
    if piece >= pitch and not summed.isdisjoint(name[1:] for name in load.place[-1].names()):
        return _between_planes(scop, load, schedule, sizes)[0]
    beside = 0.0
    if schedule.strategy == "planes" and piece in [itemsize * s for s in steps] and piece < pitch:
        beside = next((more for bytes_, more in SIDE_BY_SIDE if piece < bytes_), 0.0)
    if not SECTOR <= piece < pitch:
        return 1.0 + beside
    touched = piece + GRANULE - math.gcd(piece, pitch, GRANULE)
    apart = HELD_APART if schedule.cluster > 1 and piece < SCATTERED[-1][0] else 0.0
    return 1.0 + max((max(touched, GRANULE) / piece - 1.0) / 2 + apart, beside)


IN_TURN = 2.0
"""Times what they read that blocks take at most which walk through planes, each along rows of its own.  On an H100, of
200 MB of bfloat16, whose bytes take 66 us: means of planes of 565 x 12, a row of 24 bytes in a block, 128; of 16 x 8,
16 bytes, 122; of 5 x 11 129.  On an H200 104 and, 8 and 16 rows of a block beside each other, 60 and 62."""


def _between_planes(scop: Scop, move: Placed, schedule: KernelSchedule, sizes: Sizes) -> tuple[float, int]:
    """(the same of whole rows, bytes of one that a block has) where neighbouring ones are those of other blocks, which
    come to them at another time: on the way to its next row a block passes them.  Else (1, 0)."""
    itemsize, position = scop.dtype(move.value, move.component).itemsize, sizes.position(scop, move)
    steps = [step for d in schedule.of_kind("block") if (step := abs(position.coefficient(f"${d.name}")))]
    piece = min([run_of(position, schedule, schedule.threads), *steps]) * itemsize
    inner = {*[loop for loop, _ in move.path], *[d.name for d in schedule.of_kind("slot")]}
    along = [n for name in inner if (n := abs(position.coefficient(f"${name}")) * itemsize) > piece]
    if not any(piece <= step * itemsize < max(along, default=0) for step in steps):
        return 1.0, 0
    touched = piece + GRANULE - math.gcd(piece, GRANULE, *along)
    held = 0.0 if move.path else HELD_BESIDE * max(0.0, 1.0 - piece / SCATTERED[-1][0]) ** 2
    return min(IN_TURN, 1.0 + (max(touched, GRANULE) / piece - 1.0) / 2) + held, piece


# ---------------------------------------------------------------------------------------------- writes
BY_SEVERAL = 1.8
"""Times that, where several blocks write the parts of a sector.  On an H100, 4 MB float32 of 300 to 1000 columns, each
of which a block normalises by itself: 22 to 27 us where 15 to 16 were predicted."""


def meets_others(scop: Scop, schedule: KernelSchedule, store: Placed, sizes: Sizes) -> bool:
    """Whether neighbouring blocks store within one sector."""
    itemsize = scop.dtype(store.value, store.component).itemsize
    position = sizes.position(scop, store)
    several = [d for d in schedule.of_kind("block") if d.name in store.digits() and sizes.extent[d.name] > 1]
    steps = [abs(position.coefficient(f"${d.name}")) for d in several]
    return any(0 < step * itemsize < SECTOR for step in steps)


def fills(schedule: KernelSchedule, store: Placed, itemsize: int) -> bool:
    """Whether a thread stores the gaps between its neighbours' elements in turn, as rows of five, or the prefixes of a
    piece: sectors are whole before they leave the cache.  Rows of three and of five made of planes, 346 MB of float32,
    take 183 and 235 us on an H200, and 164 where lanes store neighbours; prefixes of 134 MB in rows of 1001 143; pairs
    of columns of eight rows, 268 MB in rows of 8191 and 324 in rows of 9003, 87 and 155 (kernels of the distances of
    points, overlaps of boxes).  Not pairs of halves: differences of 150 MB in rows of 941 122, walked flat 95."""
    slots = [d for d in schedule.of_kind("slot") if d.name in store.digits()]
    last = store.place[-1] if store.place else None
    alone = [d for d in slots if isinstance(last, Affine) and last.coefficient(f"${d.name}") == 1]
    return any(d.count == 2 and itemsize >= WORD or d.count & (d.count - 1) for d in alone)


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


FOLLOWED, APART = 0.35, 1.5
"""Of it where threads share the columns: if a warp has whole rows, which follow each other, and if another block has
the rest of each and they begin at any word.  On an H100, prefixes along the middle of 2000 x 5000 x 5 float32 153 us in
8 lanes by 8 rows of threads, where their bytes take 135; of 900 x 700 x 77 201 to 262, 161 by threads that keep step,
where 202 and 172 were predicted; along axis 0 of 78251 x 670 bfloat16 353, 289 by threads that share none (206, 243).
"""
WARP = 32


def torn_runs(scop: Scop, store: Placed, schedule: KernelSchedule, sizes: Sizes) -> float:
    """The same of columns of a prefix."""
    shape = scop.shape(store.value)
    digits = frozenset[str]().union(*[e.names() for e in store.place[:-1] if isinstance(e, Affine)])
    below = [d for d in schedule.of_kind("thread") if d.count > 1 and f"${d.name}" in digits]
    if not shape or schedule.strategy != "columns" or not (store.path or schedule.grid_scans or below):
        return 0.0
    row, last = max(1, shape[-1].evaluate(sizes.hints)), store.place[-1]
    pitch = row * scop.dtype(store.value, store.component).itemsize
    begins = math.gcd(pitch, SECTOR)
    torn = TORN_RUNS.get(begins, 0.0)
    if not below or schedule.grid_scans or not isinstance(last, Affine):
        return torn * IN_STEP if dict(schedule.parameters).get("in_step") else torn
    whole = run_of(last, schedule, schedule.threads) >= row
    if whole:
        return torn * (FOLLOWED if below[0].stride < WARP else 1.0)
    return torn * (APART if begins <= WORD else 1.0)


def torn_ends(scop: Scop, store: Placed, schedule: KernelSchedule, sizes: Sizes) -> float:
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
    if schedule.strategy in ("windows", "window_sums", "panels", "in_thread") and piece < pitch:
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
128 and 512 bytes, 194 and 142; of 16382 x 16381 bytes, of 64 and 256, 232 and 224, byte by byte in rows 193.  Panels
of 64, 128 and 256 bytes of float32 rows: softmax between of 64 x 256 x 2401 160, 129 and 101 us, of 1000 x 50001 by
columns 235 and 180 of the first two, layer norms between of 64 x 96 x 3249 75, 58 and 47."""
TORN_BY_WARPS = {4: 0.2, 8: 0.05}
"""The same in proportion to what is written, where threads store so many bytes each and neighbouring warps of a block
write the parts of a sector.  On an H200: 8001 x 8001 float32 less a triangle 137 us where 123 are possible, 8003 x 8003
less a border 134 and 123, 6001 x 6001 79 and 72; by pairs 8190 x 8190 130 and 129, 12286 x 12286 287 and 285."""


def _piece(scop: Scop, store: Placed, schedule: KernelSchedule, sizes: Sizes) -> tuple[int, int, int] | None:
    """(bytes that a block writes side by side, bytes from row to row, bytes of an element) where rows begin off the
    boundaries of sectors."""
    if len(store.place) < 2 or not all(isinstance(entry, Affine) for entry in store.place):
        return None
    itemsize = scop.dtype(store.value, store.component).itemsize
    run = run_of(sizes.position(scop, store), schedule, schedule.threads)
    pitch = 1
    for extent in reversed(scop.shape(store.value)):  # whole rows follow each other in memory
        pitch *= max(1, extent.evaluate(sizes.hints))
        if pitch >= run:
            break
    pitch *= itemsize
    return (min(pitch, run * itemsize), pitch, itemsize) if pitch % SECTOR else None
