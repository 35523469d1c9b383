"""Contractions: a sum of products whose factors are each reused along a kept dimension.

    y[i, j] = sum_k x[i, k] * w[k, j]      tile 128 x 128 x 16: x's and w's tiles through shared memory,
                                           8 x 8 results a thread, epilogue on the registers
    g[i, j] = sum_n x[n, i] * y[n, j]      long sums of few results: every block has a share of n and all results

What makes a contraction is the access relation: the reduced statement's factors each lack a kept class that the result
has.  Whatever computes a factor is its prologue and runs when the tile is put.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt, prod

from polyfuse.affine import ONE, Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.places.proposal import Proposal, Staging
from polyfuse.schedule import Digit
from polyfuse.scop import Statement
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.shares import SHARES, combination, share_of
from polyfuse.strategies.situation import Situation, block, loop, mixed, power_above, power_below, slot, thread

Shape = tuple[int, int, int, int, int]

LARGE: tuple[Shape, ...] = ((128, 128, 16, 8, 8), (128, 64, 16, 8, 4))
SHAPES: tuple[Shape, ...] = ((64, 64, 16, 4, 4), (32, 32, 32, 2, 2))
"""(rows, columns, depth, rows a thread, columns a thread): larger tiles read less, smaller ones fill the device; of the
large ones the second where the first leave processors idle."""
SMALLEST, LARGEST = 16, 128
"""Rows and columns of all results where the depth is dealt to blocks, each of which has all of them."""
DEPTH, LONG = (32, 16), 2048  # that small and large tiles have of the depth, and the shortest that is dealt
LEAST = 4  # of the depth, where rows or columns are so many that shared memory has no room for more
WAVES = (8, 4, 2, 1)
"""Blocks per multiprocessor then."""
EARLY = 16
"""Trips from which tiles are loaded one ahead, in registers, while others multiply.  On an H200, of float32: x.T @ x of
16384 x 1024 in 128 blocks 1416 us, ahead 1086; sums over 2**20 rows in 263 blocks of 125 trips 225 and 170; products of
64 x 1024 x 64 with themselves, in four trips, 377 and 473."""


@dataclass(frozen=True, slots=True)
class Contraction:
    """`rows` are the kept classes that only the first factor has, `columns` those only the second has, `depth` the
    reduced class, `batch` the kept classes of both; `factors` are the values that tiles hold."""

    statement: Statement
    rows: AxisClass
    columns: AxisClass
    depth: AxisClass
    factors: tuple[int, ...]


def contraction(situation: Situation) -> list[Proposal]:
    """Proposals for groups around one contraction; several contractions of one kernel must share their classes."""
    if situation.scans or situation.target.kind == "cpu":
        return []
    found = [c for s in situation.reductions if (c := recognise(situation, s)) is not None]
    if not found or len({(c.rows.number, c.columns.number, c.depth.number) for c in found}) > 1:
        return []
    first = found[0]
    over = [a for a in situation.axes if a.reduced_by]
    if any(a is not first.depth and not set(a.reduced_by) <= {c.statement.id for c in found} for a in over):
        return []
    factors = tuple(dict.fromkeys(v for c in found for v in c.factors))
    waves = (0, *WAVES) if first.depth.size(situation.hints) >= LONG else (0,)
    tried = [(shape, False, 0) for shape in _shapes(situation, first)]
    tried += [(shape, True, n) for shape in _whole_shapes(situation, first) for n in waves]
    made = [_tiled(situation, first, factors, *each) for each in tried]
    return [p for p in made if p is not None]


def _shapes(situation: Situation, c: Contraction) -> list[Shape]:
    """The shapes to try: ours that agree with what the user asked for, else one made for it."""
    asked = situation.tiles
    blocks = [prod(-(-a.size(situation.hints) // LARGE[0][0]) for a in (c.rows, c.columns))]
    blocks += [a.size(situation.hints) for a in situation.axes if a not in (c.rows, c.columns) and not a.reduced_by]
    usual = (LARGE[prod(blocks) < situation.target.processors], *SHAPES)
    known = [(s, dict(_parameters(s))) for s in (LARGE + SHAPES if asked else usual)]
    ours = [s for s, has in known if all(has.get(n, size) == size for n, size in asked.items())]
    if ours:
        return ours
    rows, columns, depth = (power_below(asked.get(n, 64)) for n in ("rows", "columns", "depth"))
    depth = min(depth, 32) if "depth" not in asked else depth
    each = rows * columns // power_below(asked.get("threads", 256))
    if each < 1 or depth < 4:
        return []
    per_row = min(rows, power_below(isqrt(each)))
    return [(rows, columns, depth, per_row, each // per_row)] if each // per_row <= columns else []


def _whole_shapes(situation: Situation, c: Contraction) -> list[Shape]:
    """The shape of a tile that has all rows and columns, if one may; or those that the user asked for."""
    if situation.tiles.keys() & {"rows", "columns", "depth", "threads"}:
        return _shapes(situation, c)
    rows, columns = (max(SMALLEST, power_above(a.size(situation.hints))) for a in (c.rows, c.columns))
    each = 2 if rows * columns < 1024 else 4 if rows * columns <= 4096 else 8
    depth = DEPTH[rows * columns > 4096]
    size = max(situation.scop.dtype(value).compute.itemsize for value in c.factors)
    while depth > LEAST and (rows + columns) * (depth + 1) * size > situation.target.shared_per_block:
        depth //= 2  # of few rows, a tile is as wide as many columns are
    return [(rows, columns, depth, each, each)] if rows * columns <= LARGEST * LARGEST else []


def _parameters(shape: Shape) -> tuple[tuple[str, int], ...]:
    rows, columns, depth, per_row, per_column = shape
    threads = (rows // per_row) * (columns // per_column)
    return (("rows", rows), ("columns", columns), ("depth", depth), ("threads", threads))


def recognise(situation: Situation, statement: Statement) -> Contraction | None:
    """The contraction that `statement` is, by its accesses; None for any other reduction."""
    product = _product(situation, statement)
    if product is None:
        return None
    axes = situation.classes.statement(product)
    kept = {situation.classes.of[(statement.id, d)].number for d in statement.kept}
    reduced = [situation.classes.of[(statement.id, d)] for d in statement.reduced]
    has: list[tuple[int, frozenset[int]]] = []
    for read in product.reads:
        dims = {n for e in read.index if isinstance(e, Affine) for n in e.names() if n.startswith("%")}
        has.append((read.source, frozenset(axes[int(n[1:])].number for n in dims)))
    of = {a.number: a for a in situation.classes.axes}
    missing = [(source, kept - classes) for source, classes in has]
    place = {situation.classes.of[(statement.id, d)].number: d for d in statement.kept}
    lacking = [(source, lack) for source, lack in missing if lack]
    lacking.sort(key=lambda factor: sorted(place[n] for n in factor[1]))  # however the product was written
    if len(lacking) < 2 or not reduced:
        return None
    columns = {n for _, lack in lacking[:1] for n in lack}
    rows = {n for _, lack in lacking[1:] for n in lack} - columns
    if not rows or not columns:
        return None
    deep = max(reduced, key=lambda a: a.size(situation.hints))
    if any(deep.number not in classes for source, classes in has if source in dict(lacking)):
        return None
    inner = situation.inner
    first, second = (
        max((of[n] for n in numbers), key=lambda a: (a is inner, a.size(situation.hints), -a.number))
        for numbers in (rows, columns)
    )
    if inner is first:  # the unit-stride class of the result runs along lanes
        first, second = second, first
    return Contraction(statement, first, second, deep, tuple(source for source, _ in lacking))


def _product(situation: Situation, statement: Statement) -> Statement | None:
    """The multiply that a sum reduces, when the group contains it."""
    if statement.monoid != "sum" or len(statement.reads) != 1:
        return None
    source = statement.reads[0].source
    found = situation.scop.statements[source]
    inside = source in situation.group.body and isinstance(found, Statement) and found.monoid is None
    return found if inside and isinstance(found, Statement) and len(found.reads) >= 2 else None


def _tiled(
    situation: Situation,
    c: Contraction,
    factors: tuple[int, ...],
    shape: Shape,
    whole: bool,
    waves: int,
) -> Proposal | None:
    """`whole`: one tile has all rows and columns, and `waves` blocks for each multiprocessor share the depth, where
    that is not 0.  Nothing where a tile has fewer rows or columns, or one block would have the whole depth."""
    rows, columns, depth, per_row, per_column = shape
    if whole and (c.rows.size(situation.hints) > rows or c.columns.size(situation.hints) > columns):
        return None
    tx = thread("tx", 1, columns // per_column)
    ty = thread("ty", tx.count, rows // per_row)
    iv, jv = slot("iv", min(4, per_row)), slot("jv", min(4, per_column))
    ih, jh = slot("ih", per_row // iv.count), slot("jh", per_column // jv.count)
    b0 = block("b0", ONE if whole else c.columns.extent.ceildiv(columns))
    b1 = block("b1", ONE if whole else c.rows.extent.ceildiv(rows))
    splits = {
        c.rows.number: mixed((b1, rows), (ih, rows // ih.count), (ty, iv.count), (iv, 1)),
        c.columns.number: mixed((b0, columns), (jh, columns // jh.count), (tx, jv.count), (jv, 1)),
    }
    around = [a for a in situation.axes if a.number not in splits and a is not c.depth]
    outer = [loop(f"k{n}", a.extent) for n, a in enumerate([a for a in around if a.reduced_by])]
    batch = [block(f"b{n + 2}", a.extent) for n, a in enumerate([a for a in around if not a.reduced_by])]
    left = {True: iter(outer), False: iter(batch)}
    splits |= {a.number: mixed((next(left[bool(a.reduced_by)]), 1)) for a in around}
    kk = slot("kk", 4)
    kt, kq = loop("kt", c.depth.extent.ceildiv(depth)), loop("kq", Affine.of(depth // kk.count))
    shares: list[tuple[Digit, int]] = []
    if waves:
        found = share_of(situation, c.depth, [b0, b1, *batch], depth, waves)
        if found is None:
            return None
        kt, shares = loop("kt", Affine.of(found[1])), [(found[0], found[1] * depth)]
    splits[c.depth.number] = mixed(*shares, (kt, depth), (kq, kk.count), (kk, 1))
    early = situation.tiles.get("ahead", situation.size(kt.extent) >= EARLY)
    pinned = tuple(d.name for d in [*outer, kt])
    most = max(1, SHARES // (per_row * per_column))
    dealt = [d for d, _ in shares]
    return Proposal(
        "contraction",
        (*_parameters(shape), *((("ahead", 1),) if early else ()), *(("share", share) for _, share in shares)),
        kept_digits([b0, b1, *batch, *dealt, tx, ty, *outer, kt, kq, kk, ih, iv, jh, jv], keep_threads=True),
        anchors(situation, splits),
        loops=(*pinned, "kq"),
        ahead=(kt.name,) if early else (),
        staging=dict.fromkeys(factors, Staging(pinned, vector=_vector(situation, c, whole), apart=frozenset(factors))),
        guards=tuple(_guards(situation, c, shape if whole else None)),
        combines={d.name: combination(d, None, situation, most) for d in dealt},
    )


def _vector(situation: Situation, c: Contraction, whole: bool) -> int:
    """Elements that a thread moves at once to shared memory: along the depth, or along rows and columns where one tile
    has them and they lie side by side."""
    along = (c.rows, c.columns) if whole and situation.inner is not c.depth else (c.depth,)
    return min(4, *[situation.vector(a.extent, flat=False) for a in along])


def _guards(
    situation: Situation, c: Contraction, whole: Shape | None
) -> Iterator[AnyGuard]:
    """`whole`: the shape of a tile that has all rows and columns."""
    width = situation.vector(c.depth.extent, flat=False)
    yield from situation.divisible(c.depth.extent, width)
    if situation.size(c.columns.extent) % max(1, width) == 0:
        yield from situation.divisible(c.columns.extent, width)
    for axis, most in ((c.rows, whole[0]), (c.columns, whole[1])) if whole else ():
        if not axis.extent.is_constant:
            yield Guard(Affine.of(most) - axis.extent)
            if situation.inner is not c.depth:
                yield from situation.divisible(axis.extent, _vector(situation, c, True))
