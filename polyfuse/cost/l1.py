"""What loads and stores cost the first-level cache of a processor: the lines that each access of a warp touches.

A warp's access takes one pass of the cache per line of 128 bytes: 32 neighbouring floats one, 32 vectors of four floats
four, 32 floats that lie four apart four as well, for a quarter of the elements; one vector of four floats that all read
takes four too.  A 7-point stencil with such accesses, 112 passes per 128 results, took 612 us for 130 million
(benchmarks/results), of which the passes are 490.  Lines whose words lie in different banks share a pass: 32 bytes that
lie 24 apart take two passes for six lines (67 million colours of pictures, 96 such loads a thread: 140 us).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, gcd, prod

from polyfuse.affine import ZERO, Affine, FloorDiv
from polyfuse.banks import at_lanes, lane_turns, turns, words
from polyfuse.cost.copied import copies
from polyfuse.cost.counts import Sizes, looked_up
from polyfuse.cost.lines import LINE, SECTOR, TAGS
from polyfuse.cost.multiples import rows_begin_at
from polyfuse.cost.tables import table_passes
from polyfuse.cost.walked import goes_apart, passes
from polyfuse.schedule import Digit, KernelSchedule, Placed, SharedBox, in_frame
from polyfuse.scop import Scop, Statement
from polyfuse.spans import Step, read_together, spans, vectors_across
from polyfuse.target import Target
from polyfuse.terms import conditions
from polyfuse.unravelled import Unravelled

VECTOR, HALF = 16, 2  # bytes
CUT, ACROSS, WORDS_ACROSS = 0.75, 40, 32
"""Instructions beside each element of a vector that the ends of rows cut, and beside each vector that begins anywhere
and is made of two: of 16-bit elements, and of words, which nothing has to shift: by ptxas a warp issues 32 for each
pair of neighbours that are made of the same two vectors."""
HELD_ACROSS = 1.65
"""The same beside each element of such a vector in rows that a block has whole, where it is known which vectors end: by
ptxas a vector of eight halves is two loads, four shifts and eight instructions that widen."""
WRAPPED, DIVIDED = 11, 20
"""Instructions beside an element of a row that a flat walk goes through, and beside each vector of them.  Fitted on an
H200: 468 x 1454 x 58 x 3 bfloat16, the first two axes and the last two turned, 184 us flat in vectors of four, 161 in
vectors of eight, where 198 and 168 are predicted, 120 with four beside an element, and 120 in rows of threads (`flat`
of benchmarks/results/packed_tiles_h200.json)."""
WALKED = {1: 4.0, 2: 1.4}
"""Times the passes that a load takes of a flat walk which goes along several dimensions by themselves, by the bytes of
an element: 16384 x 8190 float16, three neighbours of each, take an H100 225 us, where 194 were predicted without;
pixels of five bytes made of 128 million 138 (110), where in rows of five lanes they take 121."""
LOOKED_UP = 32
"""Instructions of a position that is data, where each element has its own, as in a flat walk: it is loaded from the row
that the walk has come to, compared with what there is, and reported where it is beyond.  On an H200, 300000 rows of 300
bfloat16 of a table take 180 us so, behind a kernel that makes the positions; 91 in one kernel, where four rows of a
thread have a position each."""
WORD, NARROW = 4, 2.0
"""Bytes below which an access of a lane to what lies beyond the cache takes it so many times as long: what a warp
touches begins anywhere in a sector and ends anywhere in another one.  On an H200, rows of 8191 bfloat16 scaled, cropped
or shifted: 188 to 197 us, of which 153 are their bytes; of bytes 118 to 132, where 77 are."""
PUT = 1.5
"""The same again where such loads fill a tile, for which all of a block wait.  On an H200, of bfloat16, in tiles of 128
x 64 whose threads load single elements, and copied: the last axis of 2 x 80 x 914 x 839 in front 147 and 139 us (131
and 133 without), 1056 x 94657 turned 114 and 109 (108 and 108), 32 x 7 x 785 x 553 reversed 124 and 128 (106 and 110)
(benchmarks/results/packed_tiles_h200.json)."""
CHOSEN = 10
"""Instructions beside each such element in a loop that is chosen by where it lies: the masks of parts of columns differ
from block to block, so that no trip goes without.  By ptxas 12 in all of parts of 1000003 x 131 bytes, which take an
H200 171 us, half of the threads beside the columns; and 8 of whole columns, that are asked for their ends apart."""
NEIGHBOURS = 1.9
"""Times the passes of single elements that a loop loads from several places of an array: they wait for lines that are
on their way.  On an H200, of 8191 x 8193 float32, in rows of threads: the total variation in 110 us, the residual of a
Jacobi step in 216, where passes alone are 54 and 107."""


def l1_accesses(scop: Scop, schedule: KernelSchedule, target: Target, sizes: Sizes) -> tuple[float, float]:
    """(seconds that the caches of all processors need for the accesses of a kernel, one line per cycle each; the
    instructions that all warps issue for them)."""
    lines, issued, numbers = 0.0, 0.0, dict[Hashable, int]()
    known, wides = dict[int, tuple[float, float]](), dict[int, _Wide | None]()
    warps = ceil(schedule.threads / target.warp)
    taken: dict[Hashable, set[frozenset[tuple[int, ...]]]] = defaultdict(set)
    walks: set[tuple[Affine, Affine]] = set()
    copied = schedule.copied_loads()
    several, shares = _of_neighbours(scop, schedule, sizes), _read_once(scop, schedule, sizes)
    for move in schedule.placed:
        if move.role in ("load", "store", "get", "put"):
            value, component = move.value, move.component
            figures = (move.role, scop.shape(value), scop.dtype(value, component), move.place, move.path)
            alike = numbers.setdefault(figures, len(numbers))
            if alike not in wides:
                wides[alike] = _spans(scop, schedule, target, move, sizes)
            wide = wides[alike]
            if wide is not None and move.role == "load":
                same = taken[value, component, move.path, wide.start]
                if any(wide.numbers <= other for other in same):
                    continue  # another load reads all of them
                same.add(wide.numbers)
            if alike not in known:
                held = [b for b in schedule.shared if b.value == value]
                box = next((b for b in held if b.spans or b.copied or b.packed), None)
                if box is not None and box.copied and move.role == "put":
                    known[alike] = 0.0, 0.0
                elif move.name in copied:
                    known[alike] = copies(scop, schedule, target, move, _accesses(schedule, move, sizes))
                elif box is not None and move.role in ("get", "put"):
                    known[alike] = _in_box(scop, schedule, target, move, sizes, box)
                else:
                    known[alike] = _lines(scop, schedule, target, move, sizes, wide)
            waits = move.role == "load" and wide is None and (value, component, move.path) in several
            share = shares.get(move.name, 1.0)
            lines += (NEIGHBOURS if waits else share) * known[alike][0]
            issued += share * known[alike][1]
            if Unravelled in map(type, move.place):
                walked = {(e.flat, e.extent) for e in move.place if isinstance(e, Unravelled)}
                issued += _accesses(schedule, move, sizes) * warps * _of_walks(schedule, len(walked - walks))
                walks |= walked
    return lines / (target.processors * target.clock), issued


def _of_neighbours(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> set[Hashable]:
    """The arrays, by component and path, of which loops load single elements from several places."""
    count: dict[Hashable, int] = defaultdict(int)
    for move in schedule.placed:
        affine = move.place and all(isinstance(e, Affine) for e in move.place)
        if move.role == "load" and move.path and affine and not schedule.ahead:
            last = move.place[-1]
            assert isinstance(last, Affine)
            count[move.value, move.component, move.path] += side_by_side(scop, schedule, move, last, sizes)[1] == 1
    return {array for array, places in count.items() if places > 1}


@dataclass(frozen=True, slots=True)
class _Wide:
    """Accesses of several elements of memory each, see `polyfuse.spans`: how many elements, where the first begins, the
    accesses of a thread in one trip of its loops, and the slots that they are for."""

    width: int
    start: Affine
    numbers: frozenset[tuple[int, ...]]
    slots: Mapping[str, int]


def _spans(
    scop: Scop, schedule: KernelSchedule, target: Target, move: Placed, sizes: Sizes
) -> _Wide | None:
    """The spans that slots of an access lie in, where these are fewer than its elements and it is no plain vector."""
    if move.role == "load":
        return _found_spans(scop, schedule, target, move, sizes)
    if move.role != "store":
        return None
    what = "spans", target.vector_bytes, move.value, move.component, move.place  # its traffic asks as well
    return schedule.figure(what, lambda: _found_spans(scop, schedule, target, move, sizes))


def _found_spans(
    scop: Scop, schedule: KernelSchedule, target: Target, move: Placed, sizes: Sizes
) -> _Wide | None:
    if not all(isinstance(e, Affine) for e in move.place):
        return None
    last, itemsize = move.place[-1] if move.place else ZERO, scop.dtype(move.value, move.component).itemsize
    slots = [d for d in schedule.of_kind("slot") if d.name in move.digits()]
    if not slots or not isinstance(last, Affine):
        return None
    vector, short = side_by_side(scop, schedule, move, last, sizes)[1], any(box.spans for box in schedule.shared)
    if vector * itemsize >= target.vector_bytes:
        return None
    volume = sizes.volume(scop.shape(move.value)) if move.role == "load" else 0
    position = sizes.position(scop, move)
    if short:  # guards say what their sizes are multiples of
        position = position.substitute({a: n for a, n in sizes.hints.items() if a in position.names()})
    most = target.vector_bytes // itemsize
    if move.role == "store":  # which writes nothing between its elements: each row has to begin at a span
        most = min(most, rows_begin_at(scop.shape(move.value), schedule))
    found = _widest(position, slots, most, volume)
    return found if found is not None and found.width > vector else None


def _widest(position: Affine, slots: Sequence[Digit], most: int, volume: int) -> _Wide | None:
    """Spans of at most so many elements that take the fewest accesses.  `volume`: of the array, whose last span is
    whole then, and others may have gaps; 0: none may."""
    steps = tuple([Step(d.name, d.count, position.coefficient(f"${d.name}")) for d in slots])
    start = position.substitute({f"${d.name}": 0 for d in slots})
    aligned = gcd(*[f for _, f in start.terms])
    fewest, found = prod(d.count for d in slots), None
    for power in range(most.bit_length() - 1, 0, -1):
        width = 1 << power
        first = start.constant % width
        wide = spans(steps, width, first) if aligned % width == 0 else None
        wide = wide if wide is None or wide.whole or volume and volume % width == 0 else None
        if wide is not None and len(wide.numbers) <= fewest - (found is None):
            fewest = len(wide.numbers)
            found = _Wide(width, start - first, wide.numbers, {f"${d.name}": d.count for d in slots})
    return found


def _in_box(
    scop: Scop, schedule: KernelSchedule, target: Target, move: Placed, sizes: Sizes, box: SharedBox
) -> tuple[float, float]:
    """(passes of the banks, instructions) of an access to shared memory in which threads hold rows of a few elements.
    Lanes that lie a multiple of all banks apart take turns: 67 million pixels of three bytes, got byte by byte from
    banks that sixteen lanes have in common, took 512 us on an H200."""
    itemsize, position = box.cells(scop.dtype(move.value, move.component)).itemsize, _cell(move, box)
    slots = [d for d in schedule.of_kind("slot") if position.coefficient(f"${d.name}")]
    wide = _widest(position, slots, target.vector_bytes // itemsize, 0)
    lanes = [d for d in schedule.of_kind("thread") if d.stride < target.warp and d.count > 1]
    steps = [(position.coefficient(f"${d.name}") * itemsize, min(d.count, target.warp // d.stride)) for d in lanes]
    accesses = _accesses(schedule, move, sizes)
    if wide is not None:
        alone = prod([d.count for d in slots])
        accesses = accesses * len(wide.numbers) // alone
    issued, width = float(accesses * ceil(schedule.threads / target.warp)), wide.width if wide else 1
    if box.packed:
        at = at_lanes(position, schedule.digits, schedule.block_threads)
        return issued * float(lane_turns(at, itemsize, width)), issued
    return issued * turns(tuple(steps), width * itemsize), issued


def _cell(move: Placed, box: SharedBox) -> Affine:
    """Where in its box a put or get is."""
    position = ZERO
    for entry, origin, step in zip(move.place, box.origin, box.pitch, strict=True):
        assert isinstance(entry, Affine)
        position += (entry - origin) * step
    return position


def _turns(scop: Scop, schedule: KernelSchedule, move: Placed) -> float:
    """Turns of a warp at shared memory where threads divide their index to fill a box; 0 where they do not."""
    put = next((p for p in schedule.placed if p.role == "put" and p.value == move.value), None)
    lanes = {f"${d.name}" for d in schedule.of_kind("thread")}
    if put is None or not any(_divides(e, lanes) for e in put.place if isinstance(e, Affine)):
        return 0.0
    box = next(b for b in schedule.shared if b.value == move.value)
    at = at_lanes(_cell(move, box), schedule.digits, schedule.block_threads)
    return float(lane_turns(at, box.cells(scop.dtype(move.value, move.component)).itemsize))


def _divides(entry: Affine, lanes: Collection[str]) -> bool:
    """Whether quotients of the index of a thread occur."""
    return any(isinstance(a, FloorDiv) and not a.numerator.names().isdisjoint(lanes) for a, _ in entry.terms)


def _lines(
    scop: Scop, schedule: KernelSchedule, target: Target, move: Placed, sizes: Sizes, wide: _Wide | None
) -> tuple[float, float]:
    """(lines, instructions) of one placed access."""
    warps = ceil(schedule.threads / target.warp)
    each = float(_accesses(schedule, move, sizes) * warps)
    if any(isinstance(e, Unravelled) for e in move.place):
        passes, issued = _unravelled(scop, schedule, target, move, sizes, each)
        return passes, issued + LOOKED_UP * warps * _looked_up(schedule, move, sizes)
    if move.place and not isinstance(move.place[-1], Affine):
        return table_passes(scop, schedule, target, move, sizes, each), each  # single elements
    dtype = scop.dtype(move.value, move.component)
    if move.role in ("put", "get"):  # padding keeps the lanes of a warp in different banks
        usual = ceil(target.warp * dtype.compute.itemsize / LINE)
        return each * max(usual, _turns(scop, schedule, move)), each
    itemsize = dtype.itemsize
    last = move.place[-1] if move.place else Affine.of(0)
    assert isinstance(last, Affine)
    slot, most = side_by_side(scop, schedule, move, last, sizes)
    across = wide is None and most == 1 and is_across(schedule, move, last, itemsize)
    slot, most = (slot, schedule.of_kind("slot")[-1].count) if across else (slot, most)
    vector = wide.width if wide else min(most, max(1, target.vector_bytes // itemsize))
    within = wide.slots if wide else {slot: 1}
    span, apart, lanes, steps = vector * itemsize, 1, 1, list[tuple[int, int]]()
    position, rows = sizes.position(scop, move), looked_up(schedule, move)
    aligned = _alignment(scop, schedule, target, move, itemsize, sizes, within)
    for d in schedule.of_kind("thread"):
        if d.stride >= target.warp or d.count == 1:
            continue
        count = min(d.count, target.warp // d.stride)
        lanes *= count
        factor = abs(last.coefficient(f"${d.name}"))
        near = abs(position.coefficient(f"${d.name}")) * itemsize < LINE  # rows of a few elements follow each other
        if factor or near:
            step = (factor or abs(position.coefficient(f"${d.name}"))) * itemsize
            span += step * (count - 1)
            steps.append((step, count))
        elif d.name in rows or any(f"${d.name}" in e.names() for e in move.place[:-1] if isinstance(e, Affine)):
            apart *= count
    in_line = 1 + max(0, span - aligned) / LINE  # on average over where in a line it begins
    per_warp = min(lanes, apart * in_line * _shared(tuple(steps), vector * itemsize))
    accesses = each / vector
    picked = LOOKED_UP * warps * _looked_up(schedule, move, sizes) if rows else 0.0
    if wide:
        trips = sizes.product({loop for loop, _ in move.path}, ("loop",)) * sizes.blocks(move)
        accesses = float(len(wide.numbers) * trips * warps)
    if not schedule.shared:  # a line a cycle goes to registers, the same one or not
        per_warp = max(per_warp, lanes * vector * itemsize / LINE)
    beside = min([step for step, _ in steps], default=0) <= itemsize  # else lanes touch as many sectors as they take
    narrow = beside and vector * itemsize < WORD
    if narrow and each * target.warp <= 2 * sizes.volume(scop.shape(move.value)):
        is_put = any(p.role == "put" and move.name in p.providers for p in schedule.placed)
        per_warp *= NARROW * PUT if is_put else NARROW
    issued = accesses * inside(scop, move, sizes)
    further = 0.0
    if across:
        parts = {f"${d.name}" for d in schedule.digits if d.kind in ("block", "loop")}
        asked = ACROSS if itemsize < WORD else WORDS_ACROSS
        further = asked if parts & last.remainders()[0].names() else HELD_ACROSS * most
    elif most > 1 and in_frame(last):
        further = CUT * most * _share_at_ends(scop, schedule, last, sizes)
    chosen = CHOSEN * accesses if narrow and move.path and _is_chosen(scop, schedule, move) else 0.0
    return (2 if across else 1) * per_warp * issued, issued * (1 + further) + chosen + picked


def _share_at_ends(scop: Scop, schedule: KernelSchedule, last: Affine, sizes: Sizes) -> float:
    """The share of the vectors along rows in frames that are asked for the ends of a row: the first and the last trips
    of a loop are apart, but where vectors of others are made of two."""
    trips = [sizes.extent[d.name] for d in schedule.of_kind("loop") if last.coefficient(f"${d.name}")]
    if not trips or any(begins_anywhere(scop, schedule, move, sizes) for move in schedule.placed):
        return 1.0
    return min(1.0, 2 / max(trips))


def _is_chosen(scop: Scop, schedule: KernelSchedule, move: Placed) -> bool:
    """Whether a statement that reads a load in its loop chooses by where an element lies, in every block."""
    readers = [p for p in schedule.placed if move.name in p.providers and p.path == move.path]
    bodies = [s.body for p in readers if isinstance(s := scop.statements[p.value], Statement)]
    return not schedule.border and any(True for body in bodies for term in body for _ in conditions(term))


def _unravelled(
    scop: Scop, schedule: KernelSchedule, target: Target, move: Placed, sizes: Sizes, each: float
) -> tuple[float, float]:
    """(lines, instructions) of single elements of rows that a flat walk goes through: lanes lie apart by vectors."""
    last = move.place[-1]
    itemsize, steps = scop.dtype(move.value, move.component).itemsize, list[tuple[int, int]]()
    if goes_apart(move.place):
        return WALKED.get(itemsize, 1.0) * passes(scop, move, schedule, sizes, target.warp) * each, each
    if isinstance(last, Unravelled) and last.in_row:
        for d in (d for d in schedule.of_kind("thread") if d.stride < target.warp and d.count > 1):
            step = last.flat.coefficient(f"${d.name}") * itemsize
            steps.append((step, min(d.count, target.warp // d.stride)))
    elif isinstance(last, Unravelled) and len(move.place) == 1 and schedule.of_kind("slot"):
        loads = min(1.0, 2 / schedule.of_kind("slot")[-1].count)  # of two rows, of which each neighbour takes one
        return loads * each, (1 + loads) * each
    return _passes(tuple(steps), itemsize) * each, each


def _looked_up(schedule: KernelSchedule, move: Placed, sizes: Sizes) -> int:
    """How often one thread of all blocks looks up a position of a gather."""
    return sum([_accesses(schedule, p, sizes) for p in schedule.placed if p.name in move.place])


def _of_walks(schedule: KernelSchedule, count: int) -> float:
    """Instructions for each element of so many walks through rows."""
    width = schedule.of_kind("slot")[-1].count if schedule.of_kind("slot") else 1
    return count * (WRAPPED + DIVIDED / width)


def begins_anywhere(scop: Scop, schedule: KernelSchedule, move: Placed, sizes: Sizes) -> bool:
    """Whether this is a load of vectors in frames of another array."""
    if move.role != "load" or not move.place or not all(isinstance(e, Affine) for e in move.place):
        return False
    last = move.place[-1]
    assert isinstance(last, Affine)
    itemsize = scop.dtype(move.value, move.component).itemsize
    return side_by_side(scop, schedule, move, last, sizes)[1] == 1 and is_across(schedule, move, last, itemsize)


def _read_once(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> dict[str, float]:
    """Of vectors that begin a few elements apart, some anywhere, the share that is left of the aligned ones that they
    are made of where those are read once (`polyfuse.lower.neighbours`)."""
    alike: dict[Hashable, list[tuple[str, int, int]]] = defaultdict(list)
    if "frames" not in dict(schedule.parameters) or not schedule.of_kind("slot"):
        return {}
    width = schedule.of_kind("slot")[-1].count
    for move in schedule.placed:
        if move.role != "load" or not move.place or not all(isinstance(e, Affine) for e in move.place):
            continue
        last, short = move.place[-1], scop.dtype(move.value, move.component).itemsize < HALF
        assert isinstance(last, Affine)
        across = begins_anywhere(scop, schedule, move, sizes)
        if not short and (across or in_frame(last) and side_by_side(scop, schedule, move, last, sizes)[1] == width):
            key = move.value, move.component, move.path, move.place[:-1], last.terms
            alike[key].append((move.name, last.constant, vectors_across(width) if across else 1))
    shares: dict[str, float] = {}
    for loads in alike.values():
        for group in read_together(tuple([(first, alone) for _, first, alone in loads]), width):
            first, span = loads[group[0]][1], loads[group[-1]][1]
            if len(group) > 1:
                share = vectors_across(width, span - first) / sum([loads[k][2] for k in group])
                shares |= {loads[k][0]: share for k in group}
    return shares


def is_across(schedule: KernelSchedule, move: Placed, last: Affine, itemsize: int) -> bool:
    """Whether a load takes the innermost slots as vectors that begin anywhere, in frames of another array."""
    slots = schedule.of_kind("slot")
    if move.role != "load" or not in_frame(last) or not slots or not all(isinstance(e, Affine) for e in move.place):
        return False
    name, count = f"${slots[-1].name}", slots[-1].count
    held = [a for a, _ in last.terms if not isinstance(a, str) and name in a.numerator.names()]
    alone = not held and not any(name in e.names() for e in move.place[:-1] if isinstance(e, Affine))
    fits = 2 * WORD <= count * itemsize <= VECTOR and count & (count - 1) == 0
    return alone and last.coefficient(name) == 1 and fits




def touched_by_one(
    scop: Scop, schedule: KernelSchedule, target: Target, store: Placed, sizes: Sizes
) -> tuple[float, int, int]:
    """Bytes of the sectors that one store of a warp touches over the bytes that it stores, the elements that each lane
    stores then, and how often a thread does."""
    last = store.place[-1] if store.place else ZERO
    if not all(isinstance(e, Affine) for e in store.place) or not isinstance(last, Affine):
        return 1.0, 1, 1
    vector = side_by_side(scop, schedule, store, last, sizes)[1]
    wide = _spans(scop, schedule, target, store, sizes)
    vector = vector if wide is None else wide.width
    itemsize = scop.dtype(store.value, store.component).itemsize
    position, lanes = sizes.position(scop, store), [d for d in schedule.of_kind("thread") if d.stride < target.warp]
    steps = [(position.coefficient(f"${d.name}") * itemsize, min(d.count, target.warp // d.stride)) for d in lanes]
    times = sizes.product(store.digits(), ("slot",)) // vector
    return _touched_by_lanes(tuple(steps), vector * itemsize), vector, times


@lru_cache(maxsize=10_000)
def _touched_by_lanes(steps: tuple[tuple[int, int], ...], size: int) -> float:
    """The same of lanes with so many bytes each that lie (distance in bytes, count) apart."""
    starts = {0}
    for step, count in steps:
        starts = {start + step * k for start in starts for k in range(count)}
    touched = {start // SECTOR for start in starts}
    return SECTOR * len(touched) / (size * len(starts))


def idle_in_rows(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> float:
    """The share of the threads of an elementwise kernel whose places no row has, or of one that deals columns of single
    elements and shares of them to blocks."""
    stores = [p for p in schedule.placed if p.role == "store" and len(p.place) > 1]
    if schedule.strategy == "columns" and schedule.grid_combine and dict(schedule.parameters)["vector"] == 1:
        loads = [p for p in schedule.placed if p.role == "load" and len(p.place) > 1]
        return 1.0 - min([inside(scop, load, sizes, first=len(load.place) - 1) for load in loads], default=1.0)
    if schedule.strategy != "pointwise":
        return 0.0
    return 1.0 - min([inside(scop, store, sizes) for store in stores], default=1.0)


def inside(scop: Scop, move: Placed, sizes: Sizes, first: int = 0) -> float:
    """The share of the accesses that touch the array, along its dimensions from the `first` on: of the parts of a
    concatenation each loads its own, and is masked elsewhere.  Positions that are data are all inside."""
    share = 1.0
    for entry, extent in zip(move.place[first:], scop.shape(move.value)[first:], strict=True):
        if not isinstance(entry, Affine):
            continue
        walked = entry.remainders()[0]  # where a row begins in memory takes it no further
        digits = [(abs(f), sizes.extent.get(a[1:], 1)) for a, f in walked.terms if isinstance(a, str) and a[:1] == "$"]
        reach = 1 + sum([f * (count - 1) for f, count in digits])
        share *= min(1.0, extent.evaluate(sizes.hints) / reach)
    return share


@lru_cache(maxsize=10_000)
def _shared(steps: tuple[tuple[int, int], ...], size: int) -> float:
    """Passes of an access over its lines: lanes lie (distance in bytes, count) apart and take `size` bytes each."""
    return _passes(steps, size) / len({4 * word // LINE for word in words(steps, size)})


@lru_cache(maxsize=10_000)
def _passes(steps: tuple[tuple[int, int], ...], size: int) -> int:
    """The same in passes."""
    return max(turns(steps, size), ceil(len({4 * word // LINE for word in words(steps, size)}) / TAGS))


def _alignment(
    scop: Scop,
    schedule: KernelSchedule,
    target: Target,
    move: Placed,
    itemsize: int,
    sizes: Sizes,
    within: Mapping[str, int],
) -> int:
    """The bytes, up to a line, of which the first address of every access of a warp is a multiple; the slots `within`
    run inside of it."""
    inside = [d for d in schedule.of_kind("thread") if d.stride < target.warp]
    lanes = dict(within) | {f"${d.name}": min(d.count, target.warp // d.stride) for d in inside}
    step, found = itemsize, LINE
    for entry, extent in zip(reversed(move.place), reversed(scop.shape(move.value)), strict=False):
        if isinstance(entry, str):
            found = gcd(found, step)  # of any row
            break
        assert isinstance(entry, Affine)
        back = sum([f * (lanes[a] - 1) for a, f in entry.terms if isinstance(a, str) and a in lanes and f < 0])
        for atom, factor in (*entry.terms, ("", entry.constant + back)):
            if atom not in lanes:
                found = gcd(found, factor * step)
        step *= extent.evaluate(sizes.hints)
    return found


def _accesses(schedule: KernelSchedule, move: Placed, sizes: Sizes) -> int:
    """Executions by one thread of all blocks."""
    used = move.digits() | looked_up(schedule, move) | {loop for loop, _ in move.path}
    return sizes.product(used, ("slot", "loop")) * sizes.blocks(move)


def side_by_side(
    scop: Scop, schedule: KernelSchedule, move: Placed, last: Affine, sizes: Sizes
) -> tuple[str, int]:
    """The slot along which one access takes neighbours, which start aligned in every row, and how many there are."""
    key = move.value, move.place
    found = sizes.vectors.get(key)
    if found is None:
        found = sizes.vectors[key] = _vector_of(scop, schedule, move, last, sizes)
    return found


def _vector_of(
    scop: Scop, schedule: KernelSchedule, move: Placed, last: Affine, sizes: Sizes
) -> tuple[str, int]:
    slot: Digit | None = None
    for d in schedule.of_kind("slot"):
        slot = d if d.name in move.digits() else slot
    if slot is None or not slot.count or last.coefficient(f"${slot.name}") != 1:  # none: an empty dimension
        return "", 1
    width, name = slot.count, f"${slot.name}"
    if width & (width - 1):
        return "", 1  # no access has three elements
    rest = last.substitute({name: 0})
    shape = scop.shape(move.value)
    if in_frame(last) and slot is schedule.of_kind("slot")[-1]:  # in frames of memory
        place = sizes.position(scop, move) - Affine.symbol(name)
        framed = place.constant % width == 0 and all(f % width == 0 for _, f in place.terms)
        return (name, width) if framed else ("", 1)
    rows = len(shape) == 1 or shape[-1].evaluate(sizes.hints) % width == 0
    start = rest.substitute({a: n for a, n in sizes.hints.items() if a in rest.names()})
    aligned = start.constant % width == 0 and all(f % width == 0 for _, f in start.terms)
    return (name, width) if rows and aligned else ("", 1)
