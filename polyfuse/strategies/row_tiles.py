"""Products with a small matrix, and reductions over their results: a thread has several rows of several columns.

    y[i, j] = g(x[i, j], sum_k x[i, k] * a[k, j])      j = V*tx + v,  i = TY*Q*b0 + TY*q + ty,  k = U*r + u
    z[i] = sum_j y[i, j]

An element of `a` that a thread loads serves its Q rows, one of `x` its V columns: quadratic and bilinear forms.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.places.proposal import Proposal
from polyfuse.schedule import Digit
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.reads import loaded_along
from polyfuse.strategies.situation import Situation, block, loop, mixed, power_above, power_below, slot, thread

THREADS = 256
TILES = ((8, 4), (4, 8), (4, 4), (2, 4))
"""Rows of a thread, and elements of each row of `x` that it loads at once."""
COLUMNS, FEWEST, FEW_COLUMNS = 128, 5, 64
"""Of a row that the threads of a block hold at most, and of a plain product at least and at most: tiles of a
contraction have idle threads there.  A million rows of 64 with 16 columns take 306 us on an H200 in tiles of 32 x 32,
126 so."""


MOST_COLUMNS, SHORT_DEPTH = 4, 8


@dataclass(frozen=True, slots=True)
class _Product:
    """`rows` are kept, `columns` kept or reduced, `depth` reduced for every column."""

    rows: AxisClass
    columns: AxisClass
    depth: AxisClass


def row_tiles(situation: Situation) -> list[Proposal]:
    """Proposals for groups with the product of many rows and a small matrix."""
    if situation.scans or situation.target.kind == "cpu":
        return []
    found = _recognise(situation)
    asked = situation.tiles.get("rows")
    depth = power_below(situation.tiles.get("depth", TILES[0][1]))
    tiles: tuple[tuple[int, int], ...] = TILES if asked is None else ((power_below(asked), depth),)
    if found is None:
        return []
    widths = [w for w in _widths(situation, found) if w < found.columns.size(situation.hints)]  # else a thread has all
    even = gcd(found.depth.size(situation.hints), tiles[0][1])
    if asked is None and even > 1:  # what a thread loads of a row is one access, where it is masked as one
        tiles = tuple(dict.fromkeys((rows, min(step, even)) for rows, step in tiles))
    return [_proposal(situation, found, rows, depth, width) for width in widths for rows, depth in tiles]


def _recognise(situation: Situation) -> _Product | None:
    over = [a for a in situation.axes if a.reduced_by]
    kept = sorted((a for a in situation.axes if not a.reduced_by), key=lambda a: (-a.size(situation.hints), a.number))
    for depth in over:
        for columns in situation.axes:
            rows = [a for a in kept if a is not columns]
            if columns is not depth and rows and columns.size(situation.hints) <= COLUMNS:
                product = _Product(rows[0], columns, depth)
                if {*over, *kept} - {*rows, columns} == {depth} and _is_product(situation, product):
                    return product
    return None


def _is_product(situation: Situation, product: _Product) -> bool:
    """Whether a reduction over the depth has results along the columns, of something that all rows share; which are
    reduced, or meet something else that is loaded, or are few: other plain products are contractions."""
    of = situation.classes.statement
    inner = [s for s in situation.reductions if s.id in product.depth.reduced_by]
    across = [s for s in inner if product.columns in of(s)]  # others every thread of a row makes for itself
    if not across or any(s.id in product.columns.reduced_by for s in inner):
        return False
    loaded = loaded_along(situation)
    few = FEWEST <= product.columns.size(situation.hints) <= FEW_COLUMNS
    again = bool(product.columns.reduced_by) or any({product.rows, product.columns} <= along for along in loaded)
    shared = any({product.columns, product.depth} <= along and product.rows not in along for along in loaded)
    return (few or again) and shared


def _proposal(situation: Situation, product: _Product, count: int, step: int, width: int) -> Proposal:
    hints, columns, depth = situation.hints, product.columns, product.depth
    lanes = power_above(-(-columns.size(hints) // width))
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, max(1, THREADS // lanes))
    q, u, v = slot("q", count), slot("u", step), slot("v", width)
    r = loop("r", depth.extent.ceildiv(step))
    blocks: list[Digit] = [block("b0", product.rows.extent.ceildiv(ty.count * count))]
    splits = {
        product.rows.number: mixed((blocks[0], ty.count * count), (q, ty.count), (ty, 1)),
        columns.number: mixed((tx, width), (v, 1)),
        depth.number: mixed((r, step), (u, 1)),
    }
    for k, axis in enumerate(a for a in situation.axes if a.number not in splits):
        blocks.append(block(f"b{k + 1}", axis.extent))
        splits[axis.number] = mixed((blocks[-1], 1))
    kept = kept_digits([*blocks, tx, ty, r, q, u, v], keep_threads=True)
    return Proposal(
        "row_tiles",
        (("threads", lanes * ty.count), ("lanes", lanes), ("rows", count), ("depth", step), ("vector", width)),
        kept,
        anchors(situation, splits),
        loops=("r",) if r in kept else (),
        guards=tuple(_guards(situation, product, width, lanes, step)),
    )


def _widths(situation: Situation, product: _Product) -> tuple[int, ...]:
    """Columns of a thread, for each of which it adds up in a word: no more where elements are shorter; and as many
    where rows are no whole vectors, for what it loads of `x` serves all of them.  3125000 rows of 16 bfloat16 with 15
    columns take an H100 381 us, one column of a thread, 112 so; 1500000 of 20 float32 with 11 143 and 88; but 2380952
    of 4 bfloat16 with 21 79 and 103: of a short row little is loaded, and neighbours store neighbours."""
    width = min(MOST_COLUMNS, situation.width(product.columns.extent, flat=False))
    most = min(MOST_COLUMNS, power_below(situation.tiles.get("vector", MOST_COLUMNS)))
    if width == 1 and product.depth.size(situation.hints) > SHORT_DEPTH:
        return (most,)
    return tuple(dict.fromkeys((width, most)))


def _guards(situation: Situation, product: _Product, width: int, lanes: int, step: int) -> Iterator[AnyGuard]:
    if product.columns.size(situation.hints) % width == 0:
        yield from situation.divisible(product.columns.extent, width)
    elif not product.columns.extent.is_constant:  # whole vectors have accesses of their own
        yield Guard(product.columns.extent, width, negated=True, advisory=True)
    if product.depth.size(situation.hints) % step == 0:
        yield from situation.divisible(product.depth.extent, step)
    if not product.columns.extent.is_constant:
        yield Guard(Affine.of(lanes * width) - product.columns.extent)
        yield Guard(product.columns.extent - lanes * width // 2 - 1, advisory=True)  # shorter rows leave lanes idle
