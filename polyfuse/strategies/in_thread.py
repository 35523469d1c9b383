"""Reductions so short that one thread makes all of each: pooling, points of three coordinates, small filters.

    y[n, i, j] = max_pq x[n, 2*i + p, 2*j + q]        j = 128*b0 + 4*tx + v,  p and q in the registers of a thread

Neighbouring threads have neighbouring results, whatever is reduced; nothing is combined between threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from polyfuse.bindings import Guard
from polyfuse.places.proposal import Proposal
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import THREADS, anchors, kept_digits, rows_first
from polyfuse.strategies.reads import are_chosen
from polyfuse.strategies.situation import Situation, block, mixed, power_above, power_below, slot, thread

IN_FLIGHT = 32
"""Bytes that a thread has on its way at least, where it makes several results that lie apart."""
MOST = 32
"""Elements that a thread reduces, for all its results together: these are a vector of neighbours where that fits."""


MOST_CHOSEN = 128
"""The same where data choose the rows that are summed: each thread of a row looks up all positions, so that there are
as few as vectors of results allow.  Sums of 5 rows of 64 bfloat16 of a table, 806596 of them, take an H100 86 us with
eight results of a thread, 137 with four; of 21 rows of 16 float32, 1542020 of them, 658 with one."""


FEW = 4
"""Elements up to which their number may be a symbol, where only sums are stored and there is little to do: of
coordinates or colours, with a kernel for each.  (All that is stored of short rows has a kernel among those for longer
rows, which are few.)  Where there is much to do, and for windows, reductions over several dimensions, it is `MOST`: a
program has few kinds of them.  On an H100: 3571428 rows of 7 float32 with 4 columns 130 us where lanes share a row, 54
in threads; log sums of exponentials of rows of 13 float16 215 and 82; places of the largest of 9 bfloat16 135 and 100.
"""


def in_thread(situation: Situation) -> list[Proposal]:
    """Proposals for groups with reductions over few elements: neighbouring threads have neighbouring results, or each
    has whole rows of a few of them and reads what these share once."""
    axes = situation.axes
    over = [a for a in axes if a.reduced_by]
    kept = [a for a in situation.classes.statement(situation.lead) if a not in over]
    if not situation.reductions or situation.scans or situation.target.kind == "cpu" or not kept:
        return []
    if any(a not in over and a not in kept for a in axes):
        return []
    symbolic = [a for a in over if not a.extent.is_constant]
    if any(is_stored_along(situation, a) for a in symbolic) and not _is_odd(situation, over):
        return []
    counts = [a.size(situation.hints) for a in over]
    many = MOST if situation.has_much else FEW
    most = many if symbolic and len(over) == 1 else MOST
    if not 1 <= prod(counts) <= most:
        return []
    found = [_proposal(situation, kept, [], over, counts)]
    if are_chosen(situation, kept[-1]):
        wide = _proposal(situation, kept, [], over, counts, chosen=True)
        found += [wide] if wide.parameters != found[0].parameters else []
    power = prod(counts) == power_below(prod(counts)) > 1 and situation.inner in over
    if power and situation.has_much and not situation.tiles and any(is_stored_along(situation, a) for a in over):
        found.append(_proposal(situation, kept, [], over, counts, vectors=True))
    short = kept[-1].size(situation.hints)
    if len(kept) > 1 and 1 < short <= FEW and short * prod(counts) <= MOST:
        found.append(_proposal(situation, kept[:-1], kept[-1:], over, counts))
    return found


def _is_odd(situation: Situation, over: Sequence[AxisClass]) -> bool:
    """Whether there is much to do between odd rows, of which panels have as many blocks as there are batches: softmax
    along the middle of 21404 x 32 x 73 float32 takes an H100 209 us in panels, 153 in threads."""
    inner = situation.inner
    if inner is None or inner in over or not situation.has_much:
        return False
    return situation.width(inner.extent, flat=False) == 1


def is_stored_along(situation: Situation, axis: AxisClass) -> bool:
    """Whether results run along a class."""
    of, roots = situation.classes.of, [s for s in situation.group.statements() if s.id in situation.group.roots]
    return any(of[root.id, d] is axis for root in roots for d in root.kept)


def _proposal(
    situation: Situation,
    kept: Sequence[AxisClass],
    rows: Sequence[AxisClass],
    over: Sequence[AxisClass],
    counts: Sequence[int],
    vectors: bool = False,
    chosen: bool = False,
) -> Proposal:
    """Threads along the last of `kept`; each has all of `rows`, one class or none, and of what is summed `over`.
    `vectors`: rows that are stored as well, of a power of two, are whole vectors, side by side in a warp.  `chosen`:
    data choose what is summed, and vectors of it are as wide as they can be.

    Where rows of three are stored as well, each has one: points normalised in float32, 384 MB, take 147 us on an H200
    in accesses of 16 bytes that lie 48 apart, 99 so; in float64 135 and 95; orbits, 960 MB, 277 and 233.
    """
    inner, others = kept[-1], list(kept[:-1])
    flat = not others and situation.inner in over  # what lies along rows of results begins anywhere
    most = MOST_CHOSEN if chosen else MOST
    width = min(situation.width(inner.extent, flat=flat), power_below(max(1, most // prod(counts))))
    odd = prod(counts) != power_below(prod(counts))
    if rows or odd and any(is_stored_along(situation, a) for a in over):
        width = 1  # rows lie between the elements of neighbours
    loaded, unroll = prod(counts) * min(situation.long_itemsizes, default=1), 1
    if vectors:  # whole rows are one access, or a part of one; others of a thread lie as far away as its neighbours
        whole_rows = max(1, situation.target.vector_bytes // loaded)
        width, unroll = min(width, whole_rows), max(1, width // whole_rows)
    elif situation.inner not in over and not rows and situation.has_much and not situation.tiles:
        unroll = power_below(IN_FLIGHT // (loaded * width))
    threads = power_below(situation.tiles.get("threads", THREADS))
    lanes = min(threads, power_above(-(-max(1, inner.size(situation.hints)) // width)))
    tx, ty, v, u = thread("tx", 1, lanes), thread("ty", lanes, threads // lanes), slot("v", width), slot("u", unroll)
    span = u.count * lanes * width
    b = block("b0", inner.extent.ceildiv(span))
    digits, splits = [b], {inner.number: mixed((b, span), (u, lanes * width), (tx, width), (v, 1))}
    dealt = rows_first(situation, others, ty.count)
    for k, axis in enumerate(situation.nearest(others)):
        step = ty.count if axis is dealt[0] else 1
        b = block(f"b{k + 1}", axis.extent.ceildiv(step))
        digits.insert(0, b)
        splits[axis.number] = mixed((b, step), (ty if axis is dealt[0] else None, 1))
    whole = [slot(f"o{k}", axis.size(situation.hints)) for k, axis in enumerate(rows)]
    summed = [slot(f"s{k}", count) for k, count in enumerate(counts)]
    splits |= {axis.number: mixed((s, 1)) for axis, s in zip((*rows, *over), (*whole, *summed), strict=True)}
    along = situation.inner in over and not chosen  # neighbours in memory last
    slots = [u, v, *whole, *summed] if along else [u, *summed, v, *whole]
    few = [(a, s.count) for a, s in zip((*rows, *over), (*whole, *summed), strict=True) if not a.extent.is_constant]
    exact = tuple(Guard(side) for a, count in few for side in (a.extent - count, -a.extent + count))
    return Proposal(
        "in_thread",
        (
            ("threads", threads),
            *[("columns", s.count) for s in whole],
            *([("unroll", u.count)] if u.count > 1 else []),
            ("vector", width),
        ),
        kept_digits([*digits, tx, ty, *slots], keep_threads=True),
        anchors(situation, splits),
        guards=(*(situation.divisible(inner.extent, width) if others else ()), *exact),
        border=not others,  # a mask of single elements would take apart what lies side by side
    )
