"""Long rows that meet the same factors, as a matrix a few vectors: a lane has several rows at once, and their results.

    y[i, j] = sum_k w[i, k] * x[k, j]      k = TX*V*r + V*tx + v,   i = TY*Q*b + TY*q + ty,   j = J*tj + j'

What a lane loads of the factors serves its Q rows, what it loads of a row its J results.  Where the factors lie along
the results, lanes beside each other have neighbouring results: each loads no more than one access holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.columns import WORD
from polyfuse.strategies.held import comes_back
from polyfuse.strategies.nesting import outer_loops
from polyfuse.strategies.pointwise import anchors, exactly, kept_digits
from polyfuse.strategies.reduction import LONG
from polyfuse.strategies.situation import Situation, block_digits, loop, mixed, power_above, slot, thread

MOST_RESULTS, PIECE = 16, 4
"""Results of a row, and elements of a reduced class beside it, that are whole at most."""
WIDE, TRIPS = 256, 4
"""Threads of a block, which share a row unless rows are short, or so many that a warp may have some of its own; trips
of single elements that are worth it.  300000 rows of 515 float32 with four results: 300 us, 200 in warps."""
MOST_ROWS, QUARTER = 8, 4
"""Rows of a lane at most, and results of a lane that lie beside those of its neighbour."""
FULL = 1.1
"""Times a row that its trips go through at most, where fewer steps of each leave less of the last one idle."""
APART = 64
"""Bytes of the factors up to which a lane has neighbours by itself.  Lanes that read so far from each other take
several times as long from the first-level cache: eight results of 16384 rows of 4096 float32 take an H200 308 us at 128
bytes, 185 at 64, 104 at 32 with four results in each of two lanes."""
SUMS, PER_PROCESSOR = 16, 1.9
"""Sums of a lane from which combining them in a warp instead of a block pays, and blocks of a processor that have rows
then, at least: 16384 rows with four results 66 and 70 us, with eight of transposed factors 75 and 91; but 1000 rows of
100000 234 and 102."""


@dataclass(frozen=True, slots=True)
class _Product:
    """`inner`: the row.  `rows`: that are dealt.  `results`: few of each row.  `whole`: short reduced classes beside
    it.  `near`: bytes of the factors that lie side by side for an element of the row; `lying`: along the results."""

    inner: AxisClass
    rows: AxisClass
    results: AxisClass | None
    whole: Sequence[AxisClass]
    near: int
    lying: bool


@dataclass(frozen=True, slots=True)
class _Tile:
    """`lanes` along a row, `groups` of them; `rows` of a lane, `each` result in one of `beside` lanes; accesses of
    `width` elements, `unroll` of a row at once."""

    lanes: int
    groups: int
    rows: int
    each: int
    beside: int
    width: int
    unroll: int


def shared_factors(situation: Situation) -> list[Proposal]:
    """Proposals for groups that reduce long rows of which several meet the same factors."""
    inner, over = situation.inner, [a for a in situation.axes if a.reduced_by]
    if situation.target.kind != "cuda" or situation.scans or situation.tiles or inner not in over:
        return []
    if inner.size(situation.hints) < LONG or not situation.has_much or comes_back(situation, over):
        return []
    found = _recognise(situation, inner, over)
    return [_proposal(situation, found, over, _tile(situation, found))] if found is not None else []


def _recognise(situation: Situation, inner: AxisClass, over: Sequence[AxisClass]) -> _Product | None:
    hints = situation.hints
    kept = [a for a in situation.axes if a not in over]
    if not kept:
        return None
    rows = max(kept, key=lambda a: (a.size(hints), -a.number))
    reads = [(steps, itemsize) for steps, itemsize in _loaded(situation) if inner in steps]
    factors = [(steps, itemsize) for steps, itemsize in reads if rows not in steps]
    if not factors:
        return None
    few = [a for a in kept if a is not rows and 1 < a.size(hints) <= MOST_RESULTS]
    results = few[0] if len(few) == 1 and any(few[0] not in steps for steps, _ in reads) else None
    short = [a for a in over if a is not inner and 1 < a.size(hints) <= PIECE]
    whole = [a for a in short if any(_lies_along(steps, a, inner) for steps, _ in factors)]
    lying = results is not None and any(_lies_along(steps, results, inner) for steps, _ in factors)
    near = max(n * prod([a.size(hints) for a in whole if _lies_along(steps, a, inner)]) for steps, n in factors)
    if results is None and near <= max(situation.long_itemsizes):  # a block's threads load less of them than of rows
        return None
    return _Product(inner, rows, results, whole, near, lying)


def _loaded(situation: Situation) -> Iterator[tuple[Mapping[AxisClass, int], int]]:
    """Of what is loaded in place: by how many elements one moves in memory along each class; bytes of an element."""
    for statement in situation.group.statements():
        of = situation.classes.statement(statement)
        for read in statement.reads:
            if read.source in situation.group.loads and read.affine:
                shape = [situation.size(extent) for extent in situation.scop.shape(read.source)]
                entries = [entry for entry in read.index if isinstance(entry, Affine)]
                position = sum((e * prod(shape[d + 1 :]) for d, e in enumerate(entries)), Affine.of(0))
                steps = {axis: position.coefficient(f"%{d}") for d, axis in enumerate(of)}
                itemsize = situation.scop.statements[read.source].dtypes[read.component].itemsize
                yield {axis: step for axis, step in steps.items() if step}, itemsize


def _lies_along(steps: Mapping[AxisClass, int], axis: AxisClass, inner: AxisClass) -> bool:
    """Whether elements along `axis` are neighbours in memory, and those along `inner` are not."""
    return abs(steps.get(axis, 0)) == 1 and abs(steps[inner]) != 1


def _tile(situation: Situation, product: _Product) -> _Tile:
    """What was fastest of all that were measured, by how the factors lie: on an H200, of 268 MB in 16384 rows, by
    results of each, 2, 4, 8 and 16 of float32 65, 66, 104 and 194 us, of bfloat16 in twice as long rows 4, 8 and 16 68,
    150 and 295, where all bytes take 66, and tiles of a contraction 269 to 283 and 664 to 700; of transposed factors
    65, 68, 73 and 128, and 75 and 98."""
    hints = situation.hints
    count = product.results.size(hints) if product.results is not None else 1
    size, width = max(situation.long_itemsizes), situation.width(product.inner.extent, flat=False)
    if product.lying and count * width * size > APART and width > 1:  # lanes beside each other would be too far apart
        beside = power_above(-(-count // QUARTER))
        width = max(1, WORD // size)
        each, lanes, unroll = -(-count // beside), WIDE // beside, QUARTER // width
        row = -(-product.inner.size(hints) // (lanes * width))  # in steps of all lanes
        while unroll > 1 and -(-row // unroll) * unroll > FULL * row:
            unroll //= 2
        return _Tile(lanes, 1, MOST_ROWS, each, beside, width, unroll)
    each, groups = power_above(count), WIDE // situation.target.warp
    rows = product.rows.size(hints) / (PER_PROCESSOR * groups * situation.target.processors)  # of a warp
    if product.results is None:
        several = min(MOST_ROWS, max(2, power_above(-(-product.near // size))))
    elif product.lying:
        several = MOST_ROWS if width > 1 or count > QUARTER else QUARTER
    else:
        several = MOST_ROWS if size >= WORD and count <= QUARTER and rows >= MOST_ROWS else QUARTER
    many = rows >= several
    short = product.inner.size(hints) < (TRIPS if width == 1 else 2) * WIDE * width
    if short or many and width > 1 and several * each >= SUMS:
        return _Tile(situation.target.warp, groups, several, each, 1, width, 1)
    return _Tile(WIDE, 1, several, each, 1, width, 2 if width == 1 or product.results and not product.lying else 1)


def _proposal(situation: Situation, product: _Product, over: Sequence[AxisClass], tile: _Tile) -> Proposal:
    inner, rows, results, lanes, width = product.inner, product.rows, product.results, tile.lanes, tile.width
    beside, groups, span = tile.beside, tile.groups, tile.lanes * tile.width
    tj, tx, ty = thread("tj", 1, beside), thread("tx", beside, lanes), thread("ty", beside * lanes, groups)
    q, j, u, v = slot("q", tile.rows), slot("j", tile.each), slot("u", tile.unroll), slot("v", width)
    r = loop("r", inner.extent.ceildiv(span * u.count))
    held = [slot(f"o{k}", axis.size(situation.hints)) for k, axis in enumerate(product.whole)]
    parallel = situation.nearest(a for a in situation.axes if a not in over and a is not results)
    digits, splits = block_digits(parallel, {rows.number: groups * q.count}, ty)
    splits[rows.number] += mixed((q, groups))
    guards = [*situation.divisible(inner.extent, width)]
    if results is not None:
        splits[results.number] = mixed((tj, j.count), (j, 1))
        guards += situation.fits(results.extent, beside * j.count)
    for axis, digit in zip(product.whole, held, strict=True):
        splits[axis.number] = mixed((digit, 1))
        guards += exactly(axis.extent, digit.count)
    loops, loop_splits = outer_loops([a for a in over if a is not inner and a not in product.whole], digits)
    splits |= loop_splits
    splits[inner.number] = mixed((r, span * u.count), (u, span), (tx, width), (v, 1))
    return Proposal(
        "shared_factors",
        (
            *(("threads", beside * lanes * groups), ("lanes", lanes), ("rows", q.count)),
            *([("columns", j.count * beside)] if results is not None else []),
            *(("unroll", u.count), ("vector", width)),
        ),
        kept_digits([*digits, tj, tx, ty, *loops, r, q, j, u, v, *held], keep_threads=True),
        anchors(situation, splits),
        loops=tuple(d.name for d in [*loops, r]),
        guards=tuple(guards),
    )
