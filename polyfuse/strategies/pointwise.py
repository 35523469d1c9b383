"""Elementwise groups: a thread owns whole vectors of consecutive elements, several of them, neighbours side by side.

y[i, j] = ...          i = b1*(R*TY) + r*TY + ty,   j = b0*(U*TX*V) + u*(TX*V) + V*tx + v
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from polyfuse.affine import ONE, ZERO, Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.dtypes import DType
from polyfuse.places.proposal import Proposal
from polyfuse.schedule import Digit
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import SECTOR
from polyfuse.strategies.pieces import of_short_rows
from polyfuse.strategies.reads import are_chosen
from polyfuse.strategies.situation import (
    Situation,
    as_read,
    block,
    loop,
    mixed,
    power_above,
    power_below,
    slot,
    thread,
)
from polyfuse.strategies.whole import Whole, whole

THREADS = 128  # small blocks: the loads of some run beside the stores of others
BYTES_IN_FLIGHT = 32  # per thread and array; 64 in blocks of 256 were up to 7 % slower on an H200

LINE = 128  # bytes: rows shorter than that leave neighbouring threads in other rows

SUMMING_THREADS = 256  # of blocks that sum scalars first: the fewer the better

BLOCK = 4096  # elements of a block on a CPU core: entering one costs less than a hundredth of the work

LARGE_BODY = 24  # statements from which several unrolled vectors may cost more registers than their loads hide latency


def pointwise(situation: Situation) -> list[Proposal]:
    """Proposals for a group without scans whose reductions, if any, give scalars that each block sums for itself."""
    axes = situation.classes.statement(situation.lead)
    covered = {a.number for a in axes}
    prologue = [a for a in situation.axes if a.number not in covered and a.extent != ONE]
    if situation.scans or not _scalars_only(situation, axes, prologue):
        return []
    inner = innermost(situation)
    if situation.target.kind == "cpu":
        is_cut = inner is not None and of_short_rows(situation, inner) > 1  # see `cut_rows`
        return [] if is_cut else [_cpu(situation, axes, inner, prologue)]
    found = [_gpu(situation, axes, inner, _Way(prologue=prologue))]
    return found if prologue or inner is None else [*found, *_others(situation, axes, inner)]


def innermost(situation: Situation) -> AxisClass | None:
    """The class of the lead that neighbouring elements run along; None of a scalar."""
    axes, inner = situation.classes.statement(situation.lead), situation.inner
    if inner is not None and any(a.number == inner.number for a in axes):
        return inner
    return axes[-1] if axes else None


def _others(situation: Situation, axes: tuple[AxisClass, ...], inner: AxisClass) -> Iterator[Proposal]:
    if len(situation.group.body) > LARGE_BODY:
        yield _gpu(situation, axes, inner, _Way(most_unrolled=1))
    if _ends_short(situation, axes, inner):
        yield _gpu(situation, axes, axes[-1])
    if len(axes) > 1 and _is_exact(situation, axes[-1]):
        yield _gpu(situation, axes, axes[-1], _Way(exact=True))
    for taken in whole(situation, axes, inner):
        yield _gpu(situation, axes, taken.inner, _Way(whole=taken))
    if part := _part(situation, inner):
        yield _gpu(situation, axes, inner, _Way(part=part))
    if len(axes) > 1 and _is_looked_up(situation, inner):
        for lanes in _lanes_of_looked_up(situation, inner):
            yield _gpu(situation, axes, inner, _Way(in_rows=lanes))
    if _steps_over(situation, inner) >= FAR:
        yield _gpu(situation, axes, inner, _Way(most_unrolled=FEW, narrow=True))


FEWEST_LANES = 4
IN_ROWS = 16
"""Elements of a row that each thread of a warp has, where data choose the row: of many rows it would look up a position
for every element.  763358 rows of 131 bfloat16 of a table take an H100 368 us with one element of each of 16 rows in a
thread, by ptxas some 48 instructions each."""


def _is_looked_up(situation: Situation, inner: AxisClass) -> bool:
    """Whether data choose the rows of some array that is read along `inner`, element by element."""
    return situation.width(inner.extent, flat=False) == 1 and situation.has_much and are_chosen(situation, inner)


FAR, FEW = 4, 2
"""Elements that neighbouring threads read apart, from which a thread of several neighbours reads lines of its own; and
how many of those that lie further on it has then.  Determinants of ten million 3 x 3 matrices take 400 us by the price
of an H200 with four of a thread, 165 so."""


def _lanes_of_looked_up(situation: Situation, inner: AxisClass) -> Iterator[int]:
    """Lanes of such a row: fewer look up fewer positions.  3225806 rows of 31 bfloat16 of a table take an H100 505 us
    in 32, 305 in 16; of 131, which a warp goes through in five elements of each thread, 171 and 179."""
    lanes = situation.target.warp
    yield lanes
    while inner.size(situation.hints) <= lanes and lanes > FEWEST_LANES:
        lanes //= 2
        yield lanes


def _steps_over(situation: Situation, inner: AxisClass) -> int:
    """By how many elements at most neighbours along `inner` are apart in an array that is read in place."""
    most = 0
    for statement in situation.group.statements():
        along = [f"%{d}" for d, axis in enumerate(situation.classes.statement(statement)) if axis is inner]
        for read in statement.reads:
            shape = [situation.size(extent) for extent in situation.scop.shape(read.source)]
            entries = [entry for entry in read.index if isinstance(entry, Affine)]
            if along and read.source in situation.group.loads and len(entries) == len(shape):
                steps = [e.coefficient(along[0]) * math.prod(shape[d + 1 :]) for d, e in enumerate(entries)]
                most = max(most, abs(sum(steps)))
    return most


SHORT = 8
"""Elements of rows that neighbouring threads have one each of, whatever else runs along longer ones."""


EXACT_THREADS, LONGEST_EXACT = 256, 16
"""Of a block whose rows have a thread for each element, at most, and elements of such rows."""


def _is_exact(situation: Situation, row: AxisClass) -> bool:
    """Whether rows get a kernel of their own, whose lanes are as many as their elements and no power of two."""
    count = row.size(situation.hints)
    is_own = situation.has_much or row.extent.is_constant
    return is_own and count <= LONGEST_EXACT and count != power_below(count)


def _ends_short(situation: Situation, axes: Sequence[AxisClass], inner: AxisClass) -> bool:
    """Whether results lie in short rows, one behind the other, and loads run along something else: pairs made of two
    arrays.  Vectors along the loads would leave gaps in what a warp writes."""
    return len(axes) > 1 and inner is not axes[-1] and 1 < axes[-1].size(situation.hints) <= SHORT


def exactly(extent: Affine, count: int) -> tuple[AnyGuard, ...]:
    """The guards that a size is `count`."""
    return () if extent.is_constant else (Guard(extent - count), Guard(-extent + count))


MOST_PARTS = 4
"""Of a row that one thread has a vector of each: their number times the results of a statement are in registers."""


def _part(situation: Situation, inner: AxisClass) -> int:
    """The length of parts of a row such that pieces of results begin, and reads are shifted, by whole parts only; 0
    where there are none, or too many.  A thread that has the same vector of every part needs no other's elements, and
    computes of each part what its piece says alone.

    y = concatenate((f(x[64:]), g(x[:64])))  of rows of 128:  64
    """
    size = inner.size(situation.hints)
    if not inner.extent.is_constant or not size:
        return 0
    part = size
    for statement in situation.group.statements():
        axes = situation.classes.statement(statement)
        along = {f"%{d}" for d, axis in enumerate(axes) if axis is inner}
        for read in statement.reads:
            places = [(e, e.constant) for e in read.index if isinstance(e, Affine)]
            for place, first in (*places, *[(w, _first(w)) for w in read.where if w.terms]):
                if along & place.names():
                    part = math.gcd(part, first if len(place.terms) == 1 and abs(place.terms[0][1]) == 1 else 1)
    width = situation.width(inner.extent, flat=False)
    lanes = part // width
    fits = part % width == 0 and lanes & (lanes - 1) == 0 and lanes <= THREADS
    return part if fits and 1 < size // part <= MOST_PARTS else 0


def _first(condition: Affine) -> int:
    """Where what ``x - 64 >= 0`` or ``63 - x >= 0`` speaks of begins, or what it leaves: at 64."""
    return condition.constant if condition.terms[0][1] > 0 else condition.constant + 1


PROLOGUE = 32
"""Elements a thread may sum for a scalar that its block needs: more are a kernel of their own."""


def _scalars_only(situation: Situation, axes: tuple[AxisClass, ...], prologue: list[AxisClass]) -> bool:
    """Whether every class beside the lead's is summed to scalars, short enough for each block to do it again."""
    if any(s.kept for s in situation.reductions) or any(a.reduced_by for a in axes):
        return False
    most = PROLOGUE * (SUMMING_THREADS if situation.target.kind == "cuda" else 1)
    short = all(a.size(situation.hints) <= most for a in prologue)
    return short and all(a.reduced_by for a in prologue) and not situation.lead.is_reduction


@dataclass(frozen=True, slots=True)
class _Tile:
    """Of a thread: vectors of `width` elements, `unroll` of them along the row and `across` in rows.  Of a block:
    `lanes` threads along a row, `near` along the next class in memory, where rows are short, and `rows` along another,
    as `across` is unless it is `apart`, along one more."""

    threads: int
    width: int
    unroll: int
    lanes: int
    near: int = 1
    across: int = 1
    apart: bool = False

    @property
    def rows(self) -> int:
        return self.threads // (self.lanes * self.near)

    @property
    def span(self) -> int:
        """Elements of a row in a block."""
        return self.unroll * self.lanes * self.width


def _tile(
    situation: Situation, inner: AxisClass, others: Sequence[AxisClass], way: _Way, flat: bool
) -> tuple[_Tile, list[AxisClass]]:
    """The tile along `inner`, and the other classes: the one of `near`, if any is, then that of `rows`, then the rest.
    """
    asked, hints, size = situation.tiles, situation.hints, inner.size(situation.hints)
    width = 1 if way.narrow else situation.width(inner.extent, flat=flat)
    in_flight = 2 * BYTES_IN_FLIGHT if way.prologue else BYTES_IN_FLIGHT
    threads = power_below(asked.get("threads", SUMMING_THREADS if way.prologue else THREADS))
    itemsize = max(situation.long_itemsizes)
    unroll = min(way.most_unrolled, max(1, in_flight // (itemsize * width)))
    if way.whole is not None:
        unroll, width = way.whole.unroll, way.whole.vector
    unroll = asked.get("unroll", unroll)
    lanes = min(threads, power_above(-(-max(1, way.part or size) // width)))
    if way.exact:
        warp = situation.target.warp
        width, unroll, lanes = 1, in_flight // itemsize, size
        threads = max(1, EXACT_THREADS // (size * warp)) * size * warp
    elif way.in_rows:
        lanes = min(lanes, way.in_rows)
        unroll = min(IN_ROWS, -(-size // lanes))
    elif others and not way.part and way.whole is None and "threads" not in asked:
        lanes = _filled(lanes, size, width, itemsize)
    tile = _Tile(threads, width, unroll, lanes)
    row = lanes * width if "unroll" not in asked else tile.span
    near = list(others[-1:]) if others and row * itemsize < LINE and size <= lanes * width else []
    if near and 1 < (count := near[0].size(hints)) < tile.rows:
        tile = replace(tile, near=power_above(count) if 4 * count >= 3 * power_above(count) else power_below(count))
    else:
        near = []
    rest = rows_first(situation, [a for a in others if a not in near], tile.rows)
    if way.in_rows:
        tile = replace(tile, across=power_below(max(1, IN_ROWS // unroll)))
    elif size < tile.span and "unroll" not in asked:  # rows of a thread, where its vectors fill no row
        most = power_below(min(unroll, -(-rest[0].size(hints) // tile.rows))) if rest else 1
        tile = replace(tile, unroll=1, across=most)
        far = next((a for a in rest[1:] if a.size(hints) >= unroll), None) if most < unroll else None
        if far is not None:
            tile = replace(tile, across=power_below(unroll), apart=True)
            rest = [rest[0], far, *[a for a in rest[1:] if a is not far]]
    tile = replace(tile, across=asked.get("rows", tile.across))
    return (replace(tile, unroll=size // way.part) if way.part else tile), [*near, *rest]


def _filled(lanes: int, size: int, width: int, itemsize: int) -> int:
    """So many lanes along a row of `size`, or fewer that read whole lines of it, where a third would find nothing."""
    found = lanes
    while 3 * size < 2 * found * width * -(-size // (found * width)) and found * width * itemsize > LINE:
        found //= 2
    return found if 3 * size >= 2 * found * width * -(-size // (found * width)) else lanes


@dataclass(frozen=True, slots=True)
class _Way:
    """How a proposal differs from the usual one.  `part`: the threads are dealt to the elements of a part of a row, of
    which a thread takes all, see `_part`.  `whole`: classes along which a thread takes all.  `prologue`: classes that
    every block sums first.  `exact`: a thread for every element of a row, no more.  `narrow`: single elements.
    `in_rows`: so many threads have a row, and each of them several elements."""

    most_unrolled: int = 2 * BYTES_IN_FLIGHT
    prologue: Sequence[AxisClass] = ()
    exact: bool = False
    narrow: bool = False
    in_rows: int = 0
    part: int = 0
    whole: Whole | None = None


USUAL = _Way()


def _gpu(
    situation: Situation, axes: tuple[AxisClass, ...], inner: AxisClass | None, way: _Way = USUAL
) -> Proposal:
    if inner is None:
        threads = power_below(situation.tiles.get("threads", 32))
        return Proposal("pointwise", (("threads", threads),), (thread("t", 1, threads),), {})
    taken = way.whole.axes if way.whole is not None else ()
    dealt_out = [a for a in axes if a is not inner and a not in taken]
    tile, others = _tile(situation, inner, dealt_out, way, flat=len(axes) == 1)
    tx, tn = thread("tx", 1, tile.lanes), thread("tn", tile.lanes, tile.near)
    ty = thread("ty", tile.lanes * tile.near, tile.rows)
    u, r, v = slot("u", tile.unroll), slot("r", tile.across), slot("v", tile.width)
    digits: list[Digit] = []
    splits: dict[int, Affine] = {}
    dealt = [((ty, 1),), ((r, 1),)] if tile.apart else [((r, tile.rows), (ty, 1))]
    dealt = [((tn, 1),), *dealt] if tile.near > 1 else dealt
    near, rows = tile.near, tile.across * tile.rows  # elements of a block along the first of the other classes
    dealt_to = [near, rows] if near > 1 else [tile.across, tile.rows] if tile.apart else [rows]
    held = {a.number: n for a, n in zip(others, dealt_to, strict=False)} | {inner.number: tile.span}
    held |= {a.number: a.size(situation.hints) for a in taken}
    number = situation.numbered(_in_order(situation, (inner, *situation.nearest(others)), held))
    for k, axis in enumerate(others):
        parts = dealt[k] if k < len(dealt) else ()
        step = math.prod(d.count for d, _ in parts)
        digits.append(block(f"b{number[axis.number]}", axis.extent.ceildiv(step)))
        splits[axis.number] = mixed((digits[-1], step), *parts)
    b = block(f"b{number[inner.number]}", ONE if way.exact else inner.extent.ceildiv(tile.span))
    splits[inner.number] = mixed((b, tile.span), (u, tile.lanes * tile.width), (tx, tile.width), (v, 1))
    guards: tuple[AnyGuard, ...] = situation.divisible(inner.extent, tile.width) if len(axes) > 1 else ()
    guards = tuple(dict.fromkeys((*guards, *situation.aligned(inner, tile.width))))
    guards = (*guards, *_of_such_rows(situation, inner, tile, others))
    columns: list[Digit] = []
    for k, axis in enumerate(taken):
        columns.append(slot(f"o{k}" if k else "o", axis.size(situation.hints)))
        splits[axis.number] = mixed((columns[-1], 1))
        guards = (*guards, *exactly(axis.extent, columns[-1].count))
    if way.exact:
        guards = (*guards, *exactly(inner.extent, tile.lanes))
    blocks = sorted((*digits, b), key=lambda d: -d.number)
    summed, prologue_splits, bounds = _prologue(situation, way.prologue, tile.threads)
    return Proposal(
        "pointwise",
        (
            *(("threads", tile.threads), ("unroll", tile.unroll)),
            *([("rows", tile.across)] if tile.across > 1 else []),
            *([("lanes", tile.lanes)] if way.part else []),
            *([("columns", math.prod(o.count for o in columns))] if columns else []),
            ("vector", tile.width),
        ),
        kept_digits([*blocks, tx, tn, ty, *summed, *_in_turn(tile, u, r), *columns, v], keep_threads=True),
        anchors(situation, splits | prologue_splits),
        guards=(*guards, *bounds),
        border=not others or tile.width == 1 and 2 * tile.span <= inner.size(situation.hints),
    )


def _in_turn(tile: _Tile, along: Digit, across: Digit) -> tuple[Digit, Digit]:
    """The slots of a thread along a row and across rows, in the order in which it stores them: neighbours in memory one
    behind the other.  On an H200, three colours of a pixel for eight pixels in a thread, 229 us colour by colour."""
    return (across, along) if tile.lanes * tile.width == 1 else (along, across)


def _in_order(situation: Situation, axes: Sequence[AxisClass], held: Mapping[int, int]) -> Sequence[AxisClass]:
    """Classes in the order in which blocks follow each other along them: what is written lies side by side, or what is
    read where a block reads less than a sector: others that read the rest of it follow.  Two by two floats of each of
    32 of 414112 rows, made planes: an H200 takes 287 us a plane after the other, 148 so; five by five by two bfloat16
    500 and 418.  `held`: by class, how many elements of it a block has."""
    return (as_read(situation, axes, held, SECTOR) if situation.has_much else ()) or axes


def _of_such_rows(
    situation: Situation, inner: AxisClass, tile: _Tile, others: Sequence[AxisClass]
) -> tuple[AnyGuard, ...]:
    """The guards that fewer lanes would not do, where there are many rows, each of which has lanes of its own: 20
    million rows of 5 bfloat16 of a table take an H100 1407 us in the lanes of rows of 31, 757 in a kernel of their
    own."""
    fewer = tile.span // 2
    short = others and fewer < inner.size(situation.hints) <= 2 * fewer
    if not short or inner.extent.is_constant or not situation.has_much:
        return ()
    return (Guard(inner.extent - fewer - 1, advisory=True),)


def rows_first(situation: Situation, others: list[AxisClass], rows: int) -> list[AxisClass]:
    """The axes from the nearest in memory outwards, but first the nearest one that is long enough for `rows`."""
    others = others[::-1]
    first = next((a for a in others if a.size(situation.hints) >= rows), None)
    first = first or max(others, key=lambda a: a.size(situation.hints), default=None)
    return sorted(others, key=lambda a: a is not first)


def _prologue(
    situation: Situation, axes: Sequence[AxisClass], threads: int
) -> tuple[list[Digit], dict[int, Affine], tuple[AnyGuard, ...]]:
    """Digits, splits and guards of classes that all threads of every block sum, so that every block has the scalar."""
    digits: list[Digit] = []
    splits: dict[int, Affine] = {}
    guards: list[AnyGuard] = []
    for k, axis in enumerate(axes):
        t, c = thread("t", 1, threads), slot(f"s{k}", power_above(-(-axis.size(situation.hints) // threads)))
        splits[axis.number] = mixed((c, threads), (t, 1))
        digits += [t, c]
        if not axis.extent.is_constant:
            guards.append(Guard(Affine.of(threads * c.count) - axis.extent))
    return digits, splits, tuple(guards)


def _cpu(
    situation: Situation, axes: tuple[AxisClass, ...], inner: AxisClass | None, prologue: Sequence[AxisClass]
) -> Proposal:
    """A block is a run of about 16 KB per array, of several rows where these are short; a core takes many blocks."""
    if inner is None:
        return Proposal("pointwise", (), (), {})
    others = [a for a in axes if a is not inner]
    width = situation.width(inner.extent, flat=not others)
    while width > 1 and width >= 2 * inner.size(situation.hints):
        width //= 2
    steps = max(1, min(-(-inner.size(situation.hints) // width), BLOCK // width))
    rows = rows_of_a_block(situation, others, BLOCK // (steps * width))
    k, c, v = loop("k", Affine.of(rows)), loop("c", Affine.of(steps)), slot("v", width)
    digits: list[Digit] = []
    splits: dict[int, Affine] = {}
    for n, axis in enumerate(reversed(others)):  # neighbours in memory follow each other
        step = rows if n == 0 else 1
        b = block(f"b{n}", axis.extent.ceildiv(step))
        digits.append(b)
        splits[axis.number] = mixed((b, step), (k if n == 0 else None, 1))
    b = block(f"b{len(others)}", inner.extent.ceildiv(width * steps))
    splits[inner.number] = mixed((b, width * steps), (c, width), (v, 1))
    summed, prologue_splits, guards = _prologue(situation, prologue, 1)
    return Proposal(
        "pointwise",
        (("rows", rows), ("steps", steps), ("vector", width)),
        kept_digits([*digits, b, k, c, *summed, v]),
        anchors(situation, splits | prologue_splits),
        loops=tuple(d.name for d in (k, c) if d.count > 1),
        guards=guards,
        border=True,
    )


def rows_of_a_block(situation: Situation, others: list[AxisClass], most: int) -> int:
    """How many neighbouring rows a block takes: up to `most`, as long as every core has some blocks."""
    if not others:
        return 1
    all_rows = math.prod(max(1, axis.size(situation.hints)) for axis in others)
    share = all_rows // (4 * situation.target.processors)
    return power_below(min(most, share, others[-1].size(situation.hints)))


def _dtypes(situation: Situation, value: int) -> tuple[DType, ...]:
    return situation.scop.statements[value].dtypes


def kept_digits(digits: list[Digit], keep_threads: bool = False) -> tuple[Digit, ...]:
    """Digits of extent 1 vanish (their weight is nothing), but threads stay so that the block keeps its size."""
    return tuple(
        d
        for d in digits
        if not (d.extent.is_constant and d.count == 1) or (keep_threads and d.kind == "thread" and d.count > 1)
    )


def anchors(situation: Situation, splits: dict[int, Affine]) -> dict[tuple[int, int], Affine]:
    """Places for every statement's dimensions by class; roots and reductions use them, the rest derives."""
    found: dict[tuple[int, int], Affine] = {}
    mirrored = situation.classes.mirrored
    for number, keys in situation.numbers.items():
        if number is None:  # nothing runs along them, whatever other dimensions of extent 1 are called
            found |= dict.fromkeys(keys, ZERO)
        elif (place := splits.get(number)) is not None:
            found |= dict.fromkeys(keys, place)
            found |= {key: mirrored[key] - place for key in keys if key in mirrored} if mirrored else {}
    return found
