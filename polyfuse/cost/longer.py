"""What kernels of some kinds take longer than their bytes, lines and operations say.

Each constant names the measurement that set it.
"""

from __future__ import annotations

from collections import Counter
from math import prod

from polyfuse.affine import Affine
from polyfuse.cost.counts import Sizes
from polyfuse.cost.l1 import WORD, begins_anywhere, inside, touched_by_one
from polyfuse.cost.lines import SECTOR
from polyfuse.cost.phases import merges_states
from polyfuse.cost.scans import idle_in_scans
from polyfuse.scalars import CASCADES
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop, Statement
from polyfuse.target import Target

ENDS = 1.07
"""Times that rows in frames take where a warp has whole ones, or they go by in a loop beside others that begin
elsewhere.  On an H200, of bfloat16: softmax backward of rows of 1001 199 us in 32 lanes, 185 in 64; weighted norms of
5003 83 us in a loop of 64 lanes, 71 held by 128; softmax of 85 and of 777 in 8 and in 32 lanes 148 and 144, of 3001 in
128 128."""
PICKED = 1.25
"""Times that a position of a largest or least element takes, in columns of single elements, where blocks have shares of
a column.  Of 8192 x 8191 float32 on an H200: 91 us in shares of 1024 rows, 95 of 128 and 4096, 114 in other blocks;
where each block has whole columns 70 and 80."""
SHARED_ROWS, DEEP = 1.35, 1024
"""Times that products of rows with few columns take, and elements of a row for as much again: lanes read a row
together, so that an access of a warp brings 16 bytes of each of a few rows.  On an H200, of float32: a million rows of
64 times 16 columns 126 us, of 128 times 8 273, of 64 times 64 361; 300,000 of 256 times 32 231, 200,000 of 768 times 10
389."""


def times_longer(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """The product of all that is known of a kernel."""
    found = _in_shared_rows(schedule, sizes) * _picked_in_shares(scop, schedule)
    found *= _at_ends(scop, schedule, target, sizes) * idle_in_scans(scop, schedule, target, sizes)
    found *= _one_by_one(scop, schedule) * _of_many_places(scop, schedule)
    found *= _looked_up_in_trips(schedule) * _in_empty_panels(scop, schedule, sizes) * _in_stored_points(schedule)
    found *= _picked_flat(scop, schedule) * _in_threads(scop, schedule) * _of_short_elements(scop, schedule)
    found *= _of_whole_rows(scop, schedule, sizes) * _of_products(scop, schedule, target)
    found *= _of_lanes_apart(scop, schedule, sizes) * _of_single_bytes(scop, schedule)
    found *= _of_many_sums(scop, schedule, sizes) * _merged(scop, schedule, sizes)
    found *= _of_joined_rows(scop, schedule)
    found *= EARLY if schedule.strategy == "window_sums" and schedule.ahead else 1.0
    return found * _in_narrow_windows(scop, schedule, target, sizes) * _in_single_cells(scop, schedule)


EARLY = 0.95
"""Times that sums of windows take which are loaded a trip before they are used: the residual of a Jacobi step of 8191 x
8193 float32 takes an H200 142 to 145 us so, 147 to 158 else."""


BUSY, PER_IDLE, PER_IDLE_OF_SEVERAL = 0.85, 1.4, 1.0
"""Of the lanes of columns that merge states, the part with a column from which on nothing is lost, and how much longer
they take for each part below; and where several reductions compare.  Standard deviations of 200 MB on an H200, of C
float32 in powers of two of lanes: C = 33 105 us where 70 were predicted, 17 99 (67), 9 93 (65), 5 86 (63), 45 82 (66),
77 72 (67); of float64 70 94 (60), 19 96 (66), 10 76 (55).  Where each block has whole columns nothing is lost:
variances of 61 x 24001 x 33 68 us (63).  The least and the largest of 5 float32 67 us (63), 9 76 (65), 10 72 (54), 17
77 (68)."""


def _merged(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> float:
    """Times that such columns take, of which blocks have shares."""
    if schedule.strategy != "columns" or not schedule.grid_combine:
        return 1.0
    kinds = [getattr(scop.statements[value], "monoid", None) for value in schedule.body]
    several = sum(kind not in (None, "sum") for kind in kinds) > 1
    each = PER_IDLE if merges_states(scop, schedule) else PER_IDLE_OF_SEVERAL if several else 0.0
    busy = 1.0
    for load in (p for p in schedule.placed if p.role == "load" and p.place):
        entry, length = load.place[-1], scop.shape(load.value)[-1].evaluate(sizes.hints)
        if isinstance(entry, Affine) and "$tx" in entry.names():
            busy = min(busy, length / max(1, sizes.product(load.digits() & {n[1:] for n in entry.names()})))
    return 1 + each * max(0.0, BUSY - busy)


SHARED_FACTORS, OF_MANY_SUMS, SIDE_BY_SIDE = 1.1, 1.7, 1.8
"""Times that long rows take which meet the same factors, that is with many sums of a lane, and where lanes beside each
other have parts of a row's results: `strategies.shared_factors` has what an H200 takes."""
MANY_SUMS = 64
SOON_MET, SOON, SEVERAL = 2.45, 1024, 8
"""The last of several results where rows end soon, and with that the sums of all lanes meet.  On an H200, with 1.8: of
400000 rows of 784 float32 with 10 results 788 us (578), of 512 with 7 453 (343), of 200000 rows of 1024 with 16 693
(500); of 100000 rows of 2048 with 5 256 (322)."""


def _of_many_sums(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> float:
    """Times that such rows take."""
    if schedule.strategy != "shared_factors":
        return 1.0
    tile = dict(schedule.parameters)
    if any(d.name == "tj" for d in schedule.of_kind("thread")):
        loads = [scop.shape(p.value)[-1].evaluate(sizes.hints) for p in schedule.placed if p.role == "load" and p.place]
        soon = max(loads, default=0) <= SOON and tile["columns"] >= SEVERAL
        return SOON_MET if soon else SIDE_BY_SIDE
    return OF_MANY_SUMS if tile["rows"] * tile.get("columns", 1) >= MANY_SUMS else SHARED_FACTORS


SINGLE_BYTES = 1.35
"""Times that elementwise kernels take which move bytes one by one or in pairs, though they are neighbours.  On an H200,
the first two axes of 10 x 9427 x 2110 bytes swapped 162 us in pairs, 104 in frames, predicted 100 both; of 425 x 178 x
2646 166 (101); 16382 x 16381 bytes less a border, one by one, 193, whose bytes take 134."""


def _of_single_bytes(scop: Scop, schedule: KernelSchedule) -> float:
    """Times that such kernels take."""
    if schedule.strategy != "pointwise" or dict(schedule.parameters).get("vector", WORD) >= WORD:
        return 1.0
    moved = [p for p in schedule.placed if p.role in ("load", "store") and p.place]
    bytes_ = [scop.dtype(p.value, p.component).itemsize == 1 for p in moved]
    tile = dict(schedule.parameters)
    return SINGLE_BYTES if all(bytes_) and not tile.keys() & {"frames", "columns"} else 1.0


LANES_APART, FEW_LANES = {1: 2.3, 2: 1.3, 4: 1.25}, 16
"""Times that elementwise kernels take, by bytes of an element, whose lanes read a sector or more apart, and what lies
between is another thread's; doubles do not.  And lanes of a row that were measured, at least.  On an H200, 200 MB
permuted in rows of several elements of a thread: of bytes, 105 x 1760 x 825 scaled 378 us, predicted 216, of 440 x 2 x
438 x 500 292 (154), of 213 x 939600 346 (138), where tiles take 252, 199 and 255; of bfloat16, 906 x 426 x 59 x 4 187
(148); of float32, 167 x 729 x 4 x 116 250 (197), 128 x 80 x 1480 x 4 150 (124)."""


def _of_lanes_apart(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> float:
    """Times that such kernels take."""
    lanes = next((d for d in schedule.of_kind("thread") if d.stride == 1), None)
    if schedule.strategy != "pointwise" or lanes is None or lanes.count < FEW_LANES:
        return 1.0
    found = 1.0
    for load in (p for p in schedule.placed if p.role == "load" and all(isinstance(e, Affine) for e in p.place)):
        itemsize, position = scop.dtype(load.value, load.component).itemsize, sizes.position(scop, load)
        step, run = abs(position.coefficient(f"${lanes.name}")), 1
        slots = [(abs(position.coefficient(f"${d.name}")), d.count) for d in schedule.of_kind("slot")]
        for factor, count in sorted(slots):
            run *= count if factor == run else 1
        others = [d for d in schedule.digits if d is not lanes and d.kind in ("block", "thread")]
        between = any(0 < abs(position.coefficient(f"${d.name}")) < step for d in others)
        if between and step * itemsize >= SECTOR and step > run:
            found = max(found, LANES_APART.get(itemsize, 1.0))
    return found


IN_THREADS, SHORT_ROW = 1.08, 4
"""Times that threads take which have rows of more elements by themselves, so that lanes read some way apart.  On an
H100: sum and largest of rows of 14 float32 95 us, where lanes share a row 85; of 8 weighted 94 and 83; softmax of 16
143 and 136."""


LONG_IN_THREADS, LONG_ROW = 1.25, 16
"""And of longer rows of elements of less than a word: 2173913 rows of 23 bfloat16 with 3 columns take an H100 102 us
so, 84 where lanes share a row."""


IN_BOXES = 1.35
"""And of boxes of three dimensions, element by element: means of 3 x 3 x 3 around every second one of 16 x 32 x 128 x
128 x 128 float32 take an H200 1,881 us so, where 1,355 were predicted, in windows 1,238 to 1,305."""


def _in_threads(scop: Scop, schedule: KernelSchedule) -> float:
    """Times that such threads take."""
    if schedule.strategy != "in_thread":
        return 1.0
    lanes = {f"${d.name}" for d in schedule.of_kind("thread")}
    slots = {f"${d.name}": d.count for d in schedule.of_kind("slot") if d.count > SHORT_ROW}
    loads = [p for p in schedule.placed if p.role == "load" and p.place]
    if any(isinstance(e, str) for p in loads for e in p.place):
        return 1.0  # of what data choose, lanes are apart in any case
    summed = {f"${d.name}" for d in schedule.of_kind("slot") if d.count > 1}
    if any(sum(isinstance(e, Affine) and not summed.isdisjoint(e.names()) for e in p.place) > 2 for p in loads):
        return IN_BOXES
    rows = [(p, e.names()) for p in loads if isinstance(e := p.place[-1], Affine)]
    rows = [(p, names) for p, names in rows if len(names & slots.keys()) == 1 and not names & lanes]
    short = [p for p, names in rows if scop.dtype(p.value, p.component).itemsize < WORD]
    long = any(slots[name] > LONG_ROW for _, names in rows for name in names & slots.keys())
    return LONG_IN_THREADS if short and long else IN_THREADS if rows else 1.0


PAIRS, PICKED_BATCHES = 1.5, 1.3
"""Times that pairs take of which elements of less than a word are read or stored one by one, and positions that are
picked of columns of several batches.  On an H100: softmax of 202020 x 99 x 5 bfloat16 with a mask 248 us in pairs, 165
in threads; 2083333 rows of 4 with 24 columns 415 and 70; places of the least of 277777 x 5 x 72 170 in batches, 135 in
threads."""


def _of_short_elements(scop: Scop, schedule: KernelSchedule) -> float:
    """Times that pairs of short elements take, and picks in batches."""
    if schedule.strategy == "pairs":
        moved = [p for p in schedule.placed if p.role in ("load", "store") and p.place]
        return PAIRS if any(scop.dtype(p.value, p.component).itemsize < WORD for p in moved) else 1.0
    made = [s for v in schedule.body if isinstance(s := scop.statements[v], Statement)]
    picks = [s for s in made if len(s.dtypes) > 1 and s.monoid not in CASCADES]
    return PICKED_BATCHES if schedule.strategy == "batches" and picks else 1.0


PRODUCTS, BATCHED_PRODUCTS = {True: 2.3, False: 1.5}, 1.6
"""Times that threads take which have single results of matrix products, of elements of less than a word and of others,
and batches: each element of a row is loaded for every result.  On an H100, of 200 MB: 14 x 16 by 16 x 15 float16 393 us
(187 predicted), tiles of a contraction 237; 12 x 28 by 28 x 9 bfloat16 542 (207) and 226; 32 x 32 by as many float32
255 (162) and 73 (benchmarks/results/forced_products_h100.json)."""
APART, HALF_WARPS = 2.2, 1.5
"""Times that pairs take whose lanes store some way apart in a loop, and in blocks of less than a warp.  In the same
run: rows of 12 float32 with 12 columns 201 us (80 predicted), where tiles of rows take 81; 32 x 32 by 16 threads 177.
"""
MANY_AT_ONCE, FEW_AT_ONCE = 4, 1.15
"""Elements of a thread of which each takes less time where blocks have shares of a long sum, and times that fewer take.
On an H200, of 16384 bodies: potentials of Lennard and Jones 249 us with 2 elements, 195 with 4; attraction 490 and 426,
530 and 472 to 577 where each block has all of the sum."""


def _of_products(scop: Scop, schedule: KernelSchedule, target: Target) -> float:
    """Times that products take in threads and in pairs."""
    if schedule.strategy == "pairs":
        stores = [p for p in schedule.placed if p.role == "store" and p.path and LANE in p.digits()]
        stores = [p for p in stores if not schedule.finish_of(p)]  # what is elected stores once
        apart = any(isinstance(e := p.place[-1], Affine) and f"${LANE}" not in e.names() for p in stores)
        tile = dict(schedule.parameters)
        narrow = "share" in tile and tile["vector"] < MANY_AT_ONCE
        return APART if apart else HALF_WARPS if schedule.threads < target.warp else FEW_AT_ONCE if narrow else 1.0
    letter, few, few_lanes = SUMMED.get(schedule.strategy, ("", 0, 0))
    slots = [d for d in schedule.of_kind("slot") if letter and d.name.startswith(letter)]
    threads = {d.name: d.count for d in schedule.of_kind("thread") if d.count > 1}
    if prod([d.count for d in slots]) <= few or len(threads) < 2 or threads.get(LANE, 1) <= few_lanes:
        return 1.0
    summed = {d.name for d in slots}
    loads = [p for p in schedule.placed if p.role == "load" and summed & p.digits()]
    if not any(threads.keys() - p.digits() == {LANE} for p in loads) or not any(LANE in p.digits() for p in loads):
        return 1.0
    if schedule.strategy == "batches":
        return BATCHED_PRODUCTS
    return PRODUCTS[any(scop.dtype(p.value, p.component).itemsize < WORD for p in loads)]


LANE, SUMMED = "tx", {"in_thread": ("s", SHORT_ROW, 4), "batches": ("u", 1, 1)}
"""The thread of neighbours; what the slots of a sum begin with, and elements of them and lanes that cost no more."""


WHOLE_ROWS, SQUARE = 1.3, 4
"""Times that windows of so many columns take where rows have no more: a thread has several whole rows, and lanes lie
apart.  Three neighbours in rows of 6 float16, 200 MB, take an H100 477 us so, 331 where neighbouring threads have
neighbouring rows."""


def _of_whole_rows(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> float:
    """Times that such windows take."""
    if schedule.strategy != "windows" or dict(schedule.parameters).get("columns") != SQUARE:
        return 1.0
    stores = [p for p in schedule.placed if p.role == "store" and p.place]
    narrow = any(scop.shape(p.value)[-1].evaluate(sizes.hints) <= SQUARE for p in stores)
    return WHOLE_ROWS if narrow else 1.0


PICKED_FLAT = {True: 1.3, False: 1.1}
"""Times that flat walks take through rows that data choose, of elements of less than a word and of others: each element
finds its row.  On an H100, of 763358 rows of 131 bfloat16 of a table 229 us, behind a kernel that makes the positions,
where 145 were predicted; of 237529 of 421 214 (197), of 763358 of 67 float32 164 (146)."""


def _picked_flat(scop: Scop, schedule: KernelSchedule) -> float:
    """Times that such walks take."""
    loads = [p for p in schedule.placed if p.role == "load" and any(isinstance(e, str) for e in p.place)]
    if schedule.strategy != "flat" or not loads:
        return 1.0
    return PICKED_FLAT[any(scop.dtype(p.value, p.component).itemsize < WORD for p in loads)]


MANY_PLACES, OF_WORDS, OF_SHORT, OF_ROWS = 4, 1.12, 1.45, 1.35
"""Further places of arrays from which on elementwise rows in frames take longer, and how much, of words, of shorter
elements, and where a thread has rows: vectors that begin anywhere are made of two for each, and of parts of words.  On
an H200, of 8192 x 8192 elements less a border, over what is predicted without: of float32, five rows 0.97, four
derivatives 1.04, three results of five and of nine 1.07, five points 1.1, of float64 1.07 and 1.13; of nine 1.37; of
images of 1021 x 1021 1.21; of bfloat16, five points 1.06, five rows 1.22, three results of nine 1.47, nine of images
1.66; in rows of 112, four and two of a thread, 1.5 and 2.3."""


def _of_many_places(scop: Scop, schedule: KernelSchedule) -> float:
    """Times that rows in frames take which read arrays at many places."""
    tile = dict(schedule.parameters)
    if schedule.strategy != "pointwise" or "frames" not in tile:
        return 1.0
    loads = [p for p in schedule.placed if p.role == "load" and p.place]
    places = Counter((p.value, p.component) for p in loads)
    if sum(places.values()) - len(places) < MANY_PLACES:
        return 1.0
    short = any(scop.dtype(*array).itemsize < WORD for array in places)
    return max(OF_ROWS if "rows" in tile else OF_WORDS, OF_SHORT if short else 1.0)


LOOKED_UP = 2.0
"""Times that gathers take whose trips look up a position each: what is read comes behind it.  On an H100, sums of 16
weighted rows of 64 float32 of a table take 118 us so where 42 were predicted, 59 in threads that have all 16 at once,
predicted 43; means of 64 rows of 256 bfloat16 141, predicted 94."""


def _looked_up_in_trips(schedule: KernelSchedule) -> float:
    """Times that a kernel takes whose loops look up where to read; of single elements there are few."""
    by_name, loops = schedule.by_name(), {d.name for d in schedule.of_kind("loop")}
    loads = [p for p in schedule.placed if p.role == "load" and loops & {loop for loop, _ in p.path}]
    rows = [p for p in loads if p.place and not isinstance(p.place[-1], str)]
    inside = [by_name[entry] for p in rows for entry in p.place if isinstance(entry, str)]
    return LOOKED_UP if any(loops & {loop for loop, _ in p.path} for p in inside) else 1.0


ONE_BY_ONE = {"rows": 1.3, "planes": 1.3, "columns": 1.45, "one_pass": 2.2}
"""Times that states of several values take which loops merge of elements of less than a word, one by one.
Cross-entropy of 4096 x 50257 bfloat16 on an H100 200 us, of whole vectors in frames 168, where 152 and 149 were
predicted.  Variances of columns: of 3000 rows of 33033 bfloat16 106 us, predicted 82, of 1492537 rows of 67 148,
predicted 101; along rows and columns of 606060 x 3 x 55 229, of 1024 x 2048 x 49 229 and of 3000 x 1001 x 33 439, where
114, 104 and 113 were predicted."""
STATES_IN_FRAMES = 1.7
"""The same of columns of vectors in frames: of 606060 rows of 165 bfloat16 123 us, predicted 81, of 8 x 186568 rows of
67 197, predicted 89."""


def _one_by_one(scop: Scop, schedule: KernelSchedule) -> float:
    """Times that merging states of elements of less than a word takes in loops, one by one or of columns in frames."""
    tile = dict(schedule.parameters)
    longer = ONE_BY_ONE.get(schedule.strategy, 1.0) if tile.get("vector") == 1 else 1.0
    if schedule.strategy == "columns" and tile.get("frames"):
        longer = STATES_IN_FRAMES
    loads = [p for p in schedule.placed if p.role == "load" and p.path and p.digits()]
    narrow = any(scop.dtype(p.value, p.component).itemsize < WORD for p in loads)
    if not narrow or not merges_states(scop, schedule):
        return 1.0
    if schedule.strategy != "columns":
        return longer
    loops = {d.name for d in schedule.of_kind("loop")}
    stores = [p for p in schedule.placed if p.role == "store" and any(loop in loops for loop, _ in p.path)]
    passes = {p.path for p in loads} | {(p.role, *p.path) for p in stores}
    return 1.0 + (longer - 1.0) / len(passes)  # of which one merges


def _in_shared_rows(schedule: KernelSchedule, sizes: Sizes) -> float:
    """Times that products of rows with few columns take."""
    if schedule.strategy != "row_tiles":
        return 1.0
    steps = sizes.product(frozenset(sizes.extent), ("loop",))
    return SHARED_ROWS * (1 + dict(schedule.parameters)["depth"] * steps / DEEP)


def _picked_in_shares(scop: Scop, schedule: KernelSchedule) -> float:
    """Times that picks of single elements take whose shares meet."""
    shared = [scop.statements[p.value] for p in schedule.placed if p.role == "total"]
    picks = [s for s in shared if isinstance(s, Statement) and len(s.dtypes) > 1 and s.monoid not in CASCADES]
    return PICKED if picks and dict(schedule.parameters).get("vector") == 1 else 1.0


def _at_ends(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """Times that rows in frames take where every warp asks for the ends of a row, or every trip, beside others that
    begin elsewhere."""
    tile = dict(schedule.parameters)
    if not tile.get("frames") or schedule.strategy != "rows":
        return 1.0
    if not schedule.of_kind("loop"):
        return ENDS if tile["lanes"] <= target.warp else 1.0
    return ENDS if any(begins_anywhere(scop, schedule, p, sizes) for p in schedule.placed) else 1.0


SINGLE_CELLS = 1.3
"""Times that panels take which are written, and a part of which waits in shared memory, element by element: a mask for
each is more than a thread has truths for.  Softmax of 60001 columns of 1000 float32 takes an H100 390 and 307 us so,
where 211 and 240 were predicted, all in registers 265, predicted 245.  And doubles: along the middle of 427 x 116 x 504
266 us so by blocks of a warp, 205 in registers of two, with one price."""


def _in_single_cells(scop: Scop, schedule: KernelSchedule) -> float:
    """Times that such panels take."""
    cells = schedule.cells
    if schedule.strategy != "panels" or cells is None:
        return 1.0
    long = any(scop.dtype(p.value, p.component).itemsize > WORD for p in schedule.placed if p.role == "store")
    if dict(schedule.parameters)["vector"] > 1 and not long:
        return 1.0
    written = any(p.role == "store" and cells.slot in p.digits() for p in schedule.placed)
    return SINGLE_CELLS if written else 1.0


NARROW_WINDOWS = 1.2
"""Times that windows take whose threads store less than a word of a row at once: 16001 x 16002 bytes of a game of life
273 us on an H100 in two columns and eight rows, 237 in four and four; 257 and 230 on an H200.  Not halves side by side:
sums of five rows of 16384 x 8191 bfloat16 take an H200 209 us in two columns, 178 in one."""


SHARED_BY_ROWS = (3, 2, 1.1)
"""Rows that all others share, at least, rows of a thread for which they cost more than is counted, and times that these
take.  Clipped scores of 100 columns, by a mean and three moments of each, take an H200 330 us in tiles of 2 x 4 and 304
in 8 x 2; 302 and 307 were predicted."""


def _in_narrow_windows(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> float:
    """Times that windows of so few columns take."""
    if schedule.strategy != "windows":
        return 1.0
    tile = dict(schedule.parameters)
    rank = max([len(p.place) for p in schedule.placed if p.role == "store"], default=0)
    ranks = [len(p.place) for p in schedule.placed if p.role == "load"]
    shared = sum(0 < r < rank for r in ranks) if rank in ranks else 0
    if shared >= SHARED_BY_ROWS[0] and tile["rows"] == SHARED_BY_ROWS[1]:
        return SHARED_BY_ROWS[2]
    single = tile["columns"] == 1
    for store in (p for p in schedule.placed if p.role == "store"):
        itemsize = scop.dtype(store.value, store.component).itemsize
        at_once = itemsize * touched_by_one(scop, schedule, target, store, sizes)[1]
        if at_once < WORD and not (single and itemsize > 1):
            return NARROW_WINDOWS
    return 1.0


EMPTY, EMPTY_PANELS = 0.75, 0.8
"""The share of a panel that rows fill at least, and the power of it by whose inverse others take longer.  On an H100,
panels of 16 elements: rows of three 338 us where 115 were predicted, of six 183 (83), of seven 132 (77)."""


def _in_empty_panels(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> float:
    """Times that panels take which are wider than the rows that there are."""
    if schedule.strategy != "panels":
        return 1.0
    loads = [p for p in schedule.placed if p.role == "load" and len(p.place) > 1]
    used = max([inside(scop, load, sizes, first=len(load.place) - 1) for load in loads], default=1.0)
    return float((1 / used) ** EMPTY_PANELS) if 0 < used < EMPTY else 1.0


STORED_POINTS = 1.05
"""Times that rows of points take which are stored in accesses that lie apart: 8192 clouds of 1024 points of three
float32, centred and scaled, take an H100 77 us so, 68 as planes, with one price."""


def _in_stored_points(schedule: KernelSchedule) -> float:
    """Times that points take of which a lane stores an odd number of elements each."""
    if schedule.strategy != "points":
        return 1.0
    stores = [p for p in schedule.placed if p.role == "store"]
    counts = [[d.count for d in schedule.of_kind("slot") if d.name in p.digits()] for p in stores]
    return STORED_POINTS if any(len(c) > 1 and any(n & (n - 1) for n in c) for c in counts) else 1.0


JOINED, JOINED_BYTES = 1.06, 1.45
"""Times that permutations take whose threads divide their index anew, and of bytes: pieces begin anywhere, and each
element has an instruction of its own.  On an H200: 11 x 269493 x 17 float32 reversed 124 us, predicted 109 without,
765 x 64 x 184 x 6 to 64 x 6 x 765 x 184 131 (118), 23 x 22 x 182 x 162 x 3 to 3 x 162 x 22 x 182 x 23 122 (101); bytes,
3 x 2009360 x 40 reversed 404 (261), 27 x 125 x 39 x 2 x 725 to 725 x 27 x 2 x 39 x 125 279 (202):
`stages` and `forced` of benchmarks/results/permutations_h200.json."""


def _of_joined_rows(scop: Scop, schedule: KernelSchedule) -> float:
    """Times that such permutations take."""
    if schedule.strategy != "joined_tiles":
        return 1.0
    moved = [scop.dtype(p.value, p.component).itemsize for p in schedule.placed if p.role in ("load", "store")]
    return JOINED_BYTES if max(moved) == 1 else JOINED
