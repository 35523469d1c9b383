"""Elementwise groups: a thread owns whole vectors of consecutive elements, several of them, neighbours side by side.

y[i, j] = ...          i = b1*(R*TY) + r*TY + ty,   j = b0*(U*TX*V) + u*(TX*V) + V*tx + v
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from polyfuse.affine import ONE, ZERO, Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.dtypes import DType
from polyfuse.expr import IndexEntry
from polyfuse.places.proposal import Proposal
from polyfuse.schedule import Digit
from polyfuse.strategies.classes import AxisClass, unit_dimension
from polyfuse.strategies.situation import Situation, block, loop, mixed, power_above, power_below, slot, thread

THREADS = 128  # small blocks: the loads of some run beside the stores of others
BYTES_IN_FLIGHT = 32  # per thread and array; 64 in blocks of 256 were up to 7 % slower on an H200

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
    inner = situation.inner if situation.inner is not None and situation.inner.number in covered else None
    if inner is None and axes:
        inner = axes[-1]
    if situation.target.kind == "cpu":
        return [_cpu(situation, axes, inner, prologue)]
    found = [_gpu(situation, axes, inner, prologue=prologue)]
    if not prologue and len(situation.group.body) > LARGE_BODY:
        found.append(_gpu(situation, axes, inner, most_unrolled=1))
    elif not prologue and inner is not None and (narrow := _narrow(situation, inner)):
        found.append(_gpu(situation, axes, inner, narrow=narrow))
    if not prologue and _ends_short(situation, axes, inner):
        found.append(_gpu(situation, axes, axes[-1]))
    if inner is not None and not prologue and (colours := _colours(situation, axes, inner)):
        found.append(_gpu(situation, axes, inner, narrow=_few_of_many(situation, inner, colours), whole=colours))
    if inner is not None and not prologue and (part := _part(situation, inner)):
        found.append(_gpu(situation, axes, inner, part=part))
    return found


SHORT = 8
"""Elements of rows that neighbouring threads have one each of, whatever else runs along longer ones."""


def _ends_short(situation: Situation, axes: Sequence[AxisClass], inner: AxisClass | None) -> bool:
    """Whether results lie in short rows, one behind the other, and loads run along something else: pairs made of two
    arrays.  Vectors along the loads would leave gaps in what a warp writes."""
    return len(axes) > 1 and inner is not axes[-1] and 1 < axes[-1].size(situation.hints) <= SHORT


COLOURS = 4
"""Neighbours in memory, of which another dimension is made, that a thread reads together."""


def _colours(situation: Situation, axes: Sequence[AxisClass], inner: AxisClass) -> AxisClass | None:
    """A short class along which something is read with unit stride that `inner` steps over: pixels, in memory colour by
    colour next to each other, of which planes are made."""
    for statement in situation.group.statements():
        of = situation.classes.statement(statement)
        for read in statement.reads:
            along = unit_dimension(read.index[-1]) if read.index and read.source in situation.group.loads else None
            axis = of[along] if along is not None else inner
            stepped = any(f"%{d}" in e.names() for d, a in enumerate(of) if a is inner for e in _affine(read.index[:-1]))
            if axis is not inner and axis in axes and stepped and 1 < axis.size(situation.hints) <= COLOURS:
                return axis
    return None


def _affine(index: Sequence[IndexEntry]) -> list[Affine]:
    return [e for e in index if isinstance(e, Affine)]


def _few_of_many(situation: Situation, inner: AxisClass, colours: AxisClass) -> tuple[int, int]:
    """(elements of a vector, vectors) of a thread that has all colours of each, which are a vector themselves where
    they are two or four."""
    count = colours.size(situation.hints)
    vector = 1 if count == power_below(count) else min(4, situation.width(inner.extent, flat=False))
    return vector, max(1, power_below(MOST_RESULTS // (vector * count)))


def exactly(extent: Affine, count: int) -> tuple[AnyGuard, ...]:
    """The guards that a size is `count`."""
    return () if extent.is_constant else (Guard(extent - count), Guard(-extent + count))


MOST_RESULTS = 32
"""Words of a thread whose loads are narrow, or which takes all of several neighbours."""


def _narrow(situation: Situation, inner: AxisClass) -> tuple[int, int] | None:
    """(elements of a vector, vectors of a thread) where the loads of a proposal by the bytes of the widest array would
    leave few bytes on their way: of bytes that become floats.  The vectors are whole for that array, so that warps
    write whole sectors.  None where the loads are wide enough, or the results what memory is busy with."""
    hints, lead = situation.hints, situation.points(situation.lead)
    count = {v: math.prod(n.evaluate(hints) for n in situation.scop.shape(v)) for v in situation.group.loads}
    reads = {(r.source, r.component, r.index) for s in situation.group.statements() for r in s.reads}
    long = [situation.scop.dtype(v, c) for v, c, _ in reads if v in count and 2 * count[v] > lead]
    loaded = sum(d.itemsize for d in long)
    itemsize = max(d.itemsize for v in situation.group.loads | situation.group.roots for d in _dtypes(situation, v))
    width = situation.width(inner.extent, flat=False)
    at_once = loaded * width * max(1, BYTES_IN_FLIGHT // (itemsize * width))
    if not loaded or at_once >= BYTES_IN_FLIGHT:
        return None
    vector = min(width, max(1, situation.target.vector_bytes // itemsize))
    most = min(BYTES_IN_FLIGHT // loaded, 4 * MOST_RESULTS // max(4, itemsize))
    return vector, max(1, power_below(most) // vector)


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


def _gpu(
    situation: Situation,
    axes: tuple[AxisClass, ...],
    inner: AxisClass | None,
    most_unrolled: int = 2 * BYTES_IN_FLIGHT,
    prologue: Sequence[AxisClass] = (),
    part: int = 0,
    narrow: tuple[int, int] | None = None,
    whole: AxisClass | None = None,
) -> Proposal:
    """`part`: deal the threads to the elements of a part of a row, of which a thread takes all; see `_part`.  `narrow`:
    (elements of a vector, vectors), see `_narrow`.  `whole`: a thread takes all along this class; see `_colours`."""
    if inner is None:
        threads = power_below(situation.tiles.get("threads", 32))
        return Proposal("pointwise", (("threads", threads),), (thread("t", 1, threads),), {})
    width = situation.width(inner.extent, flat=len(axes) == 1)
    in_flight = 2 * BYTES_IN_FLIGHT if prologue else BYTES_IN_FLIGHT
    threads = power_below(situation.tiles.get("threads", SUMMING_THREADS if prologue else THREADS))
    lanes = min(threads, power_above(-(-max(1, part or inner.size(situation.hints)) // width)))
    rows = threads // lanes
    others = rows_first(situation, [a for a in axes if a is not inner and a is not whole], rows)
    itemsize = max(d.itemsize for v in situation.group.loads | situation.group.roots for d in _dtypes(situation, v))
    unroll = min(most_unrolled, max(1, in_flight // (itemsize * width)))
    if narrow is not None:
        width, unroll = min(width, narrow[0]), narrow[1]
        lanes = min(threads, power_above(-(-inner.size(situation.hints) // width)))
        rows = threads // lanes
    unroll = situation.tiles.get("unroll", unroll)
    across = 1  # rows of a thread, where its vectors fill no row
    if inner.size(situation.hints) < unroll * lanes * width and "unroll" not in situation.tiles:
        unroll, across = 1, power_below(min(unroll, -(-others[0].size(situation.hints) // rows))) if others else 1
    across = situation.tiles.get("rows", across)
    if part:
        unroll = inner.size(situation.hints) // part
    t_inner, t_outer = thread("tx", 1, lanes), thread("ty", lanes, rows)
    u, r, v = slot("u", unroll), slot("r", across), slot("v", width)
    span = unroll * lanes * width
    digits: list[Digit] = []
    splits: dict[int, Affine] = {}
    for k, axis in enumerate(others):
        step = across * rows if k == 0 else 1
        b = block(f"b{k + 1}", axis.extent.ceildiv(step))
        digits.append(b)
        splits[axis.number] = mixed((b, step), (r, rows), (t_outer, 1)) if k == 0 else mixed((b, step))
    b = block("b0", inner.extent.ceildiv(span))
    splits[inner.number] = mixed((b, span), (u, lanes * width), (t_inner, width), (v, 1))
    digits = [*reversed(digits), b, t_inner, t_outer]
    colours = [slot("o", whole.size(situation.hints))] if whole is not None else []
    if whole is not None:
        splits[whole.number] = mixed((colours[0], 1))
    guards = situation.divisible(inner.extent, width) if others or whole else ()
    summed, prologue_splits, bounds = _prologue(situation, prologue, threads)
    digits += summed
    splits |= prologue_splits
    guards = (*guards, *bounds, *(exactly(whole.extent, colours[0].count) if whole is not None else ()))
    return Proposal(
        "pointwise",
        (
            *(("threads", threads), ("unroll", unroll), *([("rows", across)] if across > 1 else [])),
            *([("lanes", lanes)] if part else []),
            *[("columns", o.count) for o in colours],
            ("vector", width),
        ),
        kept_digits([*digits, u, r, *colours, v], keep_threads=True),
        anchors(situation, splits),
        guards=guards,
        border=not others,
    )


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
    rows = _rows_of_a_block(situation, others, BLOCK // (steps * width))
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


def _rows_of_a_block(situation: Situation, others: list[AxisClass], most: int) -> int:
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
    for statement in situation.group.statements():
        for d, axis in enumerate(situation.classes.statement(statement)):
            if axis.extent == ONE:  # nothing runs along it, whatever other dimensions of extent 1 are called
                found[(statement.id, d)] = ZERO
            elif axis.number in splits:
                found[(statement.id, d)] = splits[axis.number]
    return found
