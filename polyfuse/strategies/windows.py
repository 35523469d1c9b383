"""Groups that read neighbours: several rows and a vector per thread, what it needs in windows of registers.

y[i, j] = f(x[i, j], x[i+1, j], x[i, j+1], ...)      i = 64*b1 + 8*ty + q,  j = 128*b0 + 4*tx + v
x[i, j] for all needs of a thread: a window of 9 x 8 registers, 18 loads of four; a value computed in between likewise

y[i, j] = max over p, q < 3 of x[2*i + p, 2*j + q]   the same, with p and q in the registers of the thread
y[i, j, c] = where(c <= 0, x[i, j], x[i, j + 1])     the same, with both c
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.places.proposal import Proposal, Windows
from polyfuse.schedule import Digit
from polyfuse.scop import Read, ReadEntry, Statement
from polyfuse.strategies.chains import chained
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import WORD
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.situation import Situation, block, mixed, power_above, power_below, slot, thread

THREADS = 128
LANES = 32  # of a block along the rows: a warp reads whole lines, and few halo elements above and below
RESULTS = 16
"""Of a thread in 4 to 8 rows: more were slower on an H200 (5 x 5 filter, two Jacobi steps), fewer as well.  A thread
takes no more of narrow elements: 67 million bytes in eight columns and in four took 97 and 91 us (Sobel), 95 and 79
(3 x 3 maxima), 73 and 67 (grey of three colours); rotary embeddings of float16 90 and 78."""
LEAST_ROWS, MOST_ROWS = 4, 8
PLANES = ((4, 4), (4, 2))  # (planes, rows) of a thread, where neighbours lie along both: few registers, few reads
SMALLER, SMALLER_PLANES = (1, 1), (4, 1)
HELD, MOST_HELD = 128, 1024
"""And with a single row, where all windows of the first tile are more words and those of a row are not more, see
`polyfuse.cost.crowding`: what is computed in between is not there all at once."""
MOST_IN_PLANES = 400
"""Words of all windows over planes, from which on they spill whatever is there at once: boxes of 3 x 3 x 3 around every
second element have 405 for 4 x 4 x 2 of them, 6,618 us on an H200, and 225 for 4 x 2 x 2, 1,238."""
MEDIUM_BODY, FEWER = 64, 3
"""Statements up to which narrower tiles are weighed as well, and how many widths: of 25 taps side by side a thread of
eight columns needs 214 registers, which leave room for two blocks on a processor: 146 us on an H200."""
CHAINED = 2
"""Functions that wait for one another from which on half as many rows are weighed: `polyfuse.cost.crowding.MANY`."""
MOST_SUMMED = 64
"""Elements that a thread reduces for each of its results, at most."""
SHORT = 4
"""Elements of rows of results, beside longer ones, that a thread has all of: what was interleaved out of two arrays."""
FEW_READS = 4
"""Places at which a kernel reads arrays, up to which torn sectors are what it waits for.  On an H200, where a block
has a part of a row and where its warps have parts of several: halves of differences along both axes 218 and 271 us,
along one 133 and 157; with more on their way between, sharpened 156 and 138, means of 5 x 5 163 and 158.  So many for
each result: of three results of nine 298 and 386, of five 338 and 418, of eleven of three arrays 222 and 269."""
LONG = 4  # blocks of a row: shorter ones, of which the last block may leave more than a fifth idle, were not timed
COLUMNS = 2  # of a thread where rows do not start aligned: neighbours are loaded by two, 157 us where one takes 181
FAR = 5
"""How far apart neighbours along such rows lie from which on twice as many, of one row, are weighed.  Eight neighbours
three apart of 64 x 192 x 16384 float32 take an H200 432 us by four of one row, 451 of four, 613 by two of eight."""


def windows(situation: Situation) -> list[Proposal]:
    """Proposals for groups in which some array is read at neighbouring elements or along a shifted, reversed or strided
    row, elementwise or by reductions over few elements."""
    if situation.scans or situation.target.kind == "cpu":
        return []
    over = [a for a in situation.axes if a.reduced_by]
    kept = tuple(a for a in situation.classes.statement(situation.lead) if a not in over)
    short = [a for a in kept if a.extent.is_constant and 1 < a.extent.constant <= SHORT]
    short = short if any(a.size(situation.hints) > SHORT for a in kept) else []
    axes = tuple(a for a in kept if a not in short)
    inner = _inner(situation, axes)
    if inner is None or not _is_small(situation, kept, over):
        return []
    moved = {a for a in moved_axes(situation, inner) if not a.reduced_by}
    if not moved:
        return []
    moved -= set(short)
    others = [a for a in axes if a is not inner]
    outer = sorted(others, key=lambda a: (a in moved, axes.index(a)))[-2:]  # planes, rows
    if len(outer) == 2 and not set(outer) <= moved:
        outer = outer[1:]
    flat = len(axes) == 1 and all(_lies_behind(situation, a, inner) for a in short)
    aligned = _width(situation, inner, flat)
    is_torn = aligned == 1 and bool(others)
    is_far = is_torn and not situation.tiles and _reach(situation) >= FAR
    behind = prod([a.extent.constant for a in short if _lies_behind(situation, a, inner)])
    halves = aligned == COLUMNS and bool(others) and _profits_from_halves(situation, inner)
    most = max(1, situation.widest // behind)
    side_by_side = min(2 * aligned if halves else aligned, most)  # threads, each with a vector of results
    widths = _columns(situation, COLUMNS * (2 if is_far else 1) if is_torn else side_by_side)
    if is_torn and max(situation.long_itemsizes, default=WORD) < WORD and "columns" not in situation.tiles:
        widths = [*widths, 1]
    return [
        _proposal(
            *(situation, axes, inner, outer, (*over, *short)),
            _Tile(planes, rows, columns, min(aligned, columns), flat, lanes),
        )
        for k, columns in enumerate(widths)
        for planes, rows in ([SMALLER] if is_far and k == 0 else _wanted(situation, columns, [*outer, inner], k == 0))
        for lanes in _lanes(situation, inner, columns, len(outer))
    ]


def _profits_from_halves(situation: Situation, inner: AxisClass) -> bool:
    """Whether twice as many columns as rows are aligned for are weighed: as many results from fewer rows of neighbours.
    On an H200, of 8190 float32 thinned edges 165 us in 8 x 2 and 148 in 4 x 4, largest of 3 x 3 bytes 246 and 230;
    where rows are short, as of 112, 79 and 117, and beside quotients and exponentials 172 and 200
    (benchmarks/results/windows_h200.json)."""
    is_long = situation.size(_extent(situation, inner)) >= LONG * LANES * 2 * COLUMNS
    return is_long and chained(situation) < CHAINED


def _lanes(situation: Situation, inner: AxisClass, columns: int, outer: int) -> list[int]:
    """Threads side by side along the rows of results: all of a block where it has no others, else a warp or two, or,
    where what these write of long rows begins and ends off the boundaries of sectors, all as well."""
    threads = power_below(situation.tiles.get("threads", THREADS))
    usual = power_below(situation.tiles.get("lanes", LANES * (2 if columns == 1 else 1) if outer else threads))
    usual = min(usual, threads)
    is_long = situation.size(_extent(situation, inner)) >= LONG * threads * columns
    wide = usual < threads and "lanes" not in situation.tiles and outer == 1 and is_long and _tears(situation)
    few = _reads(situation) <= FEW_READS * len(situation.group.roots)
    return [usual, threads] if wide and few else [usual]


def _reads(situation: Situation) -> int:
    """At how many places all statements together read arrays in memory."""
    places = {(r.source, r.index) for s in situation.group.statements() for r in s.reads}
    return len([source for source, _ in places if source in situation.group.loads])


def _reach(situation: Situation) -> int:
    """The distance, in elements, of the farthest two along the rows of an array that a statement reads for a result."""
    found: dict[int, list[int]] = {}
    for statement in situation.group.statements():
        for read in statement.reads:
            last = read.index[-1] if read.index else None
            if isinstance(last, Affine):
                counts = [(last.coefficient(f"%{d}"), situation.size(statement.extents[d])) for d in statement.reduced]
                steps = [step * (count - 1) for step, count in counts]
                ends = sum(min(n, 0) for n in steps), sum(max(n, 0) for n in steps)
                found.setdefault(read.source, []).extend(last.constant + end for end in ends)
    return max((max(ends) - min(ends) for ends in found.values()), default=0)


def _tears(situation: Situation) -> bool:
    """Whether rows of some result begin off the boundaries of vectors."""
    rows = [(situation.scop.shape(v), situation.scop.statements[v].dtypes) for v in situation.group.roots]
    itemsizes = [(shape, d.itemsize) for shape, dtypes in rows for d in dtypes if len(shape) > 1]
    return any(situation.size(shape[-1]) * size % situation.target.vector_bytes for shape, size in itemsizes)


def _columns(situation: Situation, widest: int) -> list[int]:
    """The elements of a row to propose for a thread: those that the user asks for, else whole vectors or fewer."""
    if "columns" in situation.tiles:
        return [power_below(situation.tiles["columns"])]
    widest = min(widest, RESULTS // LEAST_ROWS)
    several = len(situation.group.body) <= MEDIUM_BODY
    return [widest >> k for k in range(FEWER if several else 1) if k == 0 or widest >> k >= COLUMNS]


def _inner(situation: Situation, axes: Sequence[AxisClass]) -> AxisClass | None:
    """Of the classes of results the one along which most bytes lie with unit stride."""
    return max(axes, key=lambda a: (a.weight, a.number), default=None)


def _lies_behind(situation: Situation, axis: AxisClass, inner: AxisClass) -> bool:
    """Whether elements along `axis` are nearer in the memory of results than those along `inner`."""
    axes = situation.classes.statement(situation.lead)
    return not axis.reduced_by and axes.index(axis) > axes.index(inner)


def _is_small(situation: Situation, axes: Sequence[AxisClass], over: Sequence[AxisClass]) -> bool:
    """Whether a thread that has a result has few elements to reduce, and nothing else runs along other classes."""
    if any(a not in over and a not in axes for a in situation.axes) or not all(a.extent.is_constant for a in over):
        return False
    return len(of_few(situation)) == len(situation.reductions)


def of_few(situation: Situation) -> list[Statement]:
    """The reductions of so few elements, by their constant extents, that a thread has all of them."""
    constant = [s for s in situation.reductions if all(s.extents[d].is_constant for d in s.reduced)]
    return [s for s in constant if 1 <= prod([s.extents[d].constant for d in s.reduced]) <= MOST_SUMMED]


def _strides(situation: Situation) -> int:
    """Elements of a row that a result steps over."""
    last = [read.index[-1] for s in situation.group.statements() for read in s.reads if read.index]
    steps = [abs(f) for e in last if isinstance(e, Affine) for a, f in e.terms if str(a).startswith("%")]
    return power_below(max(steps, default=1))


def _wanted(situation: Situation, columns: int, axes: Sequence[AxisClass], is_widest: bool) -> list[tuple[int, int]]:
    """The planes and rows to propose: those that the user asks for, one or both; of whole vectors a single row as well
    where a thread would hold much.  `axes`: along planes, rows and columns, as far as there are some."""
    several_planes = len(axes) == len(PLANES[0]) + 1
    rows = min(MOST_ROWS, max(LEAST_ROWS, RESULTS // (columns * _strides(situation))))
    shapes = [*PLANES] if several_planes else [(1, rows)]
    if is_widest and len(situation.group.body) <= MEDIUM_BODY:
        held = [_held(situation, dict(zip(axes[::-1], (columns, *s[::-1]), strict=False))) for s in (*shapes, SMALLER)]
        if max(held[:-1]) > HELD and held[-1] <= MOST_HELD:
            shapes += [SMALLER_PLANES, SMALLER] if several_planes else [SMALLER]
        if situation.has_much and not several_planes and chained(situation) >= CHAINED:
            shapes += [(1, rows // 2)]
    if several_planes:
        words = {s: _held(situation, dict(zip(axes[::-1], (columns, *s[::-1]), strict=False))) for s in shapes}
        shapes = [s for s in shapes if words[s] <= MOST_IN_PLANES] or [min(shapes, key=words.__getitem__)]
    asked = [(situation.tiles.get("planes", planes), situation.tiles.get("rows", rows)) for planes, rows in shapes]
    return list(dict.fromkeys(asked))


def _held(situation: Situation, counts: Mapping[AxisClass, int]) -> int:
    """32-bit words of all windows of a thread that has so many results along each class."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for statement in situation.group.statements():
        classes = situation.classes.statement(statement)
        for read in statement.reads:
            if not read.affine:
                continue
            found = []
            for entry in read.index:
                assert isinstance(entry, Affine)
                terms = [(str(a)[1:], f) for a, f in entry.terms if str(a).startswith("%")]
                steps = [f * (_count(classes[int(d)], counts) - 1) for d, f in terms]
                low, high = sum(min(n, 0) for n in steps), sum(max(n, 0) for n in steps)
                found.append((entry.constant + low, entry.constant + high))
            known = spans.get(read.source, found)
            spans[read.source] = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, found, strict=True)]
    words = 0
    for source, found in spans.items():
        each = max(1, max(d.compute.itemsize for d in situation.scop.statements[source].dtypes) // 4)
        words += each * prod([high - low + 1 for low, high in found])
    return words


def _count(axis: AxisClass, counts: Mapping[AxisClass, int]) -> int:
    """Of elements along a class that a thread has: all of those that it sums over."""
    return counts.get(axis, axis.extent.constant if axis.reduced_by and axis.extent.is_constant else 1)


@dataclass(frozen=True, slots=True)
class _Tile:
    """What one thread computes, and the elements that it stores at once.  `flat`: results are one row."""

    planes: int
    rows: int
    columns: int
    vector: int
    flat: bool
    lanes: int


def moved_axes(situation: Situation, inner: AxisClass) -> set[AxisClass]:
    """Classes along which some array is read at several elements, or, of the inner one, at other than its own."""
    found: set[AxisClass] = set()
    reads: dict[int, list[tuple[tuple[AxisClass, ...], Read]]] = {}
    for statement in situation.group.statements():
        for read in statement.reads:
            if read.affine and read.index:
                reads.setdefault(read.source, []).append((situation.classes.statement(statement), read))
    for same in reads.values():
        several = [len(set(entries)) > 1 for entries in zip(*(read.index for _, read in same), strict=True)]
        for axes, read in same:
            moved = _moved(read.index[-1])
            found |= {inner} if inner in [axes[d] for d in moved] else set()
            for entry, differ in zip(read.index, several, strict=True):
                dims = _dims(entry)
                if differ or len(dims) > 1:
                    found |= {axes[k] for k in dims}
    return found


def _dims(entry: ReadEntry) -> list[int]:
    return [int(n[1:]) for n in entry.names() if n.startswith("%")] if isinstance(entry, Affine) else []


def _moved(entry: ReadEntry) -> list[int]:
    """Dimensions by which an index is shifted, reversed or strided, or which make it up together."""
    dims = _dims(entry)
    plain = len(dims) < 2 and isinstance(entry, Affine) and not entry.constant and all(f == 1 for _, f in entry.terms)
    return [] if plain else dims


def _extent(situation: Situation, axis: AxisClass) -> Affine:
    """Of results along a class: what is computed in between follows from them, and may be longer."""
    found = [s.extents[d] for s in situation.group.statements() if s.id in situation.group.roots
             for d in s.kept if situation.classes.of[s.id, d] is axis]  # fmt: skip
    return max(found, key=lambda extent: (extent.evaluate(situation.hints), str(extent)))


def _width(situation: Situation, inner: AxisClass, flat: bool) -> int:
    """The widest vector that divides the rows of all results."""
    width = situation.width(_extent(situation, inner), flat=flat)
    for value in situation.group.roots:
        shape = situation.scop.shape(value)
        while width > 1 and len(shape) > 1 and situation.size(shape[-1]) % width:
            width //= 2
    return width


def vector_of(situation: Situation, value: int) -> int:
    """The widest vector in which all rows of an array can be loaded."""
    shape, layout = situation.scop.shape(value), situation.layouts.get(value)
    itemsize = max(d.itemsize for d in situation.scop.statements[value].dtypes)
    if not shape or layout is not None and layout.strides is not None:
        return 1
    most = situation.target.vector_bytes
    width = max(1, (most if layout is None else min(most, layout.alignment)) // itemsize)
    while width > 1 and len(shape) > 1 and situation.size(shape[-1]) % width:
        width //= 2
    return width


Parts = tuple[tuple[Digit, int], ...]


def _blocks(
    situation: Situation, axes: Sequence[AxisClass], dealt: Mapping[AxisClass, Parts], splits: dict[int, Affine]
) -> list[Digit]:
    """A digit of blocks for each of `axes`, whose elements are `dealt` to the threads of one; `splits` says so too."""
    digits = []
    for k, axis in enumerate(situation.nearest(axes)):
        parts = dealt.get(axis, ())
        step = prod([d.count for d, _ in parts])
        digits.append(block(f"b{k + 1}", _extent(situation, axis).ceildiv(step)))
        splits[axis.number] = mixed((digits[-1], step), *parts)
    return digits


def _proposal(
    situation: Situation,
    axes: tuple[AxisClass, ...],
    inner: AxisClass,
    outer: list[AxisClass],
    whole: Sequence[AxisClass],
    tile: _Tile,
) -> Proposal:
    threads = power_below(situation.tiles.get("threads", THREADS))
    columns = tile.columns
    lanes = min(tile.lanes, power_above(-(-situation.size(_extent(situation, inner)) // columns)))
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, threads // lanes)
    v, u = slot("v", columns), slot("u", 1 if outer else tile.rows)
    span = lanes * columns * u.count
    b = block("b0", _extent(situation, inner).ceildiv(span))
    splits = {inner.number: mixed((b, span), (u, lanes * columns), (tx, columns), (v, 1))}
    p, q = slot("p", tile.planes), slot("q", tile.rows if outer else 1)
    dealt: dict[AxisClass, Parts] = dict.fromkeys(outer[:-1], ((p, 1),))
    dealt |= dict.fromkeys(outer[-1:], ((ty, q.count), (q, 1)))
    digits = [b, *_blocks(situation, [a for a in axes if a is not inner], dealt, splits)]
    taken = [slot(f"s{k}", a.extent.constant) for k, a in enumerate(whole)]
    splits |= {axis.number: mixed((s, 1)) for axis, s in zip(whole, taken, strict=True)}
    behind = [s for axis, s in zip(whole, taken, strict=True) if _lies_behind(situation, axis, inner)]
    before = [s for s in taken if s not in behind]
    values = situation.group.loads | situation.group.body - situation.group.roots
    vectors = {n: vector_of(situation, n) if n in situation.group.loads else 1 for n in values}
    planes = (("planes", tile.planes),) if len(outer) == 2 else ()
    usual = _lanes(situation, inner, columns, len(outer))[0]
    along = (("lanes", tile.lanes),) if "lanes" in situation.tiles or tile.lanes != usual else ()
    trips = situation.in_trips(_extent(situation, inner), lanes * columns, short=lanes < tile.lanes) if outer else ()
    return Proposal(
        "windows",
        (("threads", threads), *along, *planes, ("rows", tile.rows), ("columns", columns)),
        kept_digits([*digits, tx, ty, u, p, q, *before, v, *behind], keep_threads=True),
        anchors(situation, splits),
        guards=tuple(dict.fromkeys((
            *row_guards(situation, _extent(situation, inner), tile.vector, vectors, flat=tile.flat),
            *situation.aligned(inner, tile.vector),
            *trips,
        ))),  # fmt: skip
        windows=Windows(("p", "q", "v", *[s.name for s in taken]), vectors),
        border=True,
    )


def row_guards(
    situation: Situation, extent: Affine, width: int, vectors: Mapping[int, int], *, flat: bool
) -> tuple[AnyGuard, ...]:
    """That the rows of results and of each loaded array are whole vectors, and that no wider one of results is."""
    if flat:
        return ()
    found = dict.fromkeys(situation.divisible(extent, width))
    rows = dict.fromkeys(situation.group.roots, width) | {n: vectors[n] for n in situation.group.loads}
    for value, vector in sorted(rows.items()):
        for row in situation.scop.shape(value)[1:][-1:]:
            whole = all(f % vector == 0 for _, f in row.terms) and row.constant % vector == 0
            found |= dict.fromkeys(() if whole else (Guard(row, vector),))
    return tuple(found)
