"""Elementwise groups on two-dimensional tiles: transposed reads and stencils through shared memory.

z[i, j] = x[i, j] + y[j, i]        i = 64*b1 + 16*q + ty,  j = 64*b0 + 4*tx + v;  y put by rows, got by columns
u[i, j] = f(x[i-1, j], ...), y[i, j] = g(u[i, j-1], ...)      u (and x) in boxes with a halo; recomputed at their edges
"""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal, Staging
from polyfuse.schedule import Digit
from polyfuse.scop import Read
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.situation import Situation, block, mixed, power_above, power_below, slot, thread

TILE, COLUMNS = 64, 64
"""Of a tile that is transposed: elements along what is read in rows, of halves twice as many, and along what is written
in rows.  8192 x 8192 bfloat16 on an H200: 76 us in 128 x 64 with vectors of eight, 81 in 64 x 128, 84 in 64 x 64 with
vectors of four."""
SINGLE_ROWS, SINGLE_COLUMNS = (64, 32), (96, 128)
"""Of a tile that is transposed in single elements: along what is read in rows, of less than a word and of words; along
what is written in rows, whichever leaves less empty.  A row that is not aligned gains from long pieces.  On an H200, in
32 x 96, 32 x 128 and 64 x 64: 95 million float32 to rows of 287 236, 249 and 283 us, of 517 268, 275 and 295, of 1003
266, 262 and 293, x.T * 2 of 8191 x 8193 147, 151 and 170; of bfloat16 in 64 x 128, 32 x 128 and 64 x 64 92, 98 and 97,
of 268 million bytes, kept in rows of whole words, 255, 279 and 279."""
THREADS = 256
TRANSPOSING = 512
"""Threads of a block that transposes.  On an H200, beside blocks of 256: 253 us against 270 for 300 x 511 x 700 times a
vector, 190 against 190 to 212 for x + y.T of 8192 x 8192."""
STENCIL_ROWS, STENCIL_COLUMNS = 32, 64


def tiles(situation: Situation) -> list[Proposal]:
    """Proposals for elementwise groups in which some access runs along another class than the rest, or at offsets."""
    if situation.reductions or situation.scans or situation.target.kind == "cpu":
        return []
    axes = situation.classes.statement(situation.lead)
    inner = situation.inner
    covered = {a.number for a in axes}
    if inner is None or inner.number not in covered or any(a.number not in covered for a in situation.axes):
        return []
    found = []
    crossing = crossing_reads(situation, inner)
    for outer in sorted({b for _, b in crossing}, key=lambda a: -a.weight)[:1]:
        values = [v for v, b in crossing if b is outer]
        found.append(_transposed(situation, axes, inner, outer, values))
    neighbours = _neighbours(situation)
    if neighbours and len(axes) >= 2:
        found.append(_stencil(situation, axes, inner, neighbours))
    return found


def _reads(situation: Situation) -> list[tuple[tuple[AxisClass, ...], Read]]:
    return [
        (situation.classes.statement(s), read) for s in situation.group.statements() for read in s.reads if read.index
    ]


def crossing_reads(situation: Situation, inner: AxisClass) -> list[tuple[int, AxisClass]]:
    """Loaded arrays that are read with unit stride along another class than the inner one."""
    found: dict[tuple[int, int], tuple[int, AxisClass]] = {}
    for axes, read in _reads(situation):
        last = read.index[-1]
        if read.source not in situation.group.loads or not isinstance(last, Affine) or not read.affine:
            continue
        along = [axes[int(a[1:])] for a, f in last.terms if isinstance(a, str) and a[0] == "%" and abs(f) == 1]
        elsewhere = {axes[int(n[1:])].number for e in read.index[:-1] if isinstance(e, Affine) for n in _dims(e)}
        if along and along[0].number != inner.number and inner.number in elsewhere:
            found[(read.source, along[0].number)] = (read.source, along[0])
    return list(found.values())


def _dims(entry: Affine) -> list[str]:
    return [n for n in entry.names() if n.startswith("%")]


def _transposed(
    situation: Situation,
    axes: tuple[AxisClass, ...],
    inner: AxisClass,
    outer: AxisClass,
    values: list[int],
) -> Proposal:
    width = situation.width(inner.extent, flat=False)
    tile, columns = _extents(situation, inner, width)
    threads = power_below(situation.tiles.get("threads", TRANSPOSING))
    side_by_side = columns // width  # no cache puts together what stores leave between them
    lanes = min(threads, side_by_side & -side_by_side)
    rows = min(tile, threads // lanes)
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, rows)
    q, u, v = slot("q", tile // rows), slot("u", columns // (lanes * width)), slot("v", width)
    digits: list[Digit] = []
    splits: dict[int, Affine] = {}
    b0, b1 = block("b0", inner.extent.ceildiv(columns)), block("b1", outer.extent.ceildiv(tile))
    splits[inner.number] = mixed((b0, columns), (u, lanes * width), (tx, width), (v, 1))
    splits[outer.number] = mixed((b1, tile), (q, ty.count), (ty, 1))
    for k, axis in enumerate(a for a in axes if a not in (inner, outer)):
        b = block(f"b{k + 2}", axis.extent)
        digits.append(b)
        splits[axis.number] = mixed((b, 1))
    ordered = [b0, b1, *digits, tx, ty, q, u, v]
    staged = width
    while staged > 1 and situation.size(outer.extent) % staged:
        staged //= 2
    guards = situation.divisible(inner.extent, width)
    return Proposal(
        "tiles",
        (
            *(("threads", lanes * rows), ("tile", tile)),
            *([("columns", columns)] if columns != tile else []),
            ("vector", width),
        ),
        kept_digits(ordered, keep_threads=True),
        anchors(situation, splits),
        staging={value: Staging(unless="tx" if lanes > 1 else "v", vector=staged) for value in values},
        guards=(*guards, *situation.divisible(outer.extent, staged)) if staged > 1 else guards,
    )


def _extents(situation: Situation, inner: AxisClass, width: int) -> tuple[int, int]:
    """Elements of a tile along what is read in rows, and along what is written in rows in vectors of `width`."""
    asked, size = situation.tiles, situation.size(inner.extent)
    if width > 1 or size <= TILE or asked.keys() & {"tile", "columns"}:
        usual = TILE * max(4, width) // 4
        tile = max(4, power_below(asked.get("tile", usual)))
        return tile, max(width, power_below(asked.get("columns", COLUMNS * tile // usual)))
    is_word = min(situation.long_itemsizes) >= 4
    return SINGLE_ROWS[is_word], min(reversed(SINGLE_COLUMNS), key=lambda n: -(-size // n) * n)


def _neighbours(situation: Situation) -> list[int]:
    """Values computed in the group (or loaded) that one statement reads at several constant offsets."""
    found: list[int] = []
    for statement in situation.group.statements():
        by_source: dict[int, set[tuple[object, ...]]] = {}
        for read in statement.reads:
            by_source.setdefault(read.source, set()).add(tuple(read.index))
        found += [source for source, places in by_source.items() if len(places) > 1]
    return [v for v in dict.fromkeys(found) if v in situation.group.body]


def _stencil(situation: Situation, axes: tuple[AxisClass, ...], inner: AxisClass, staged: list[int]) -> Proposal:
    others = [a for a in axes if a is not inner]
    outer = others[-1]
    rows = situation.tiles.get("rows", min(STENCIL_ROWS, power_above(situation.size(outer.extent))))
    columns = situation.tiles.get("columns", min(STENCIL_COLUMNS, power_above(situation.size(inner.extent))))
    tx = thread("tx", 1, min(32, columns))
    ty = thread("ty", tx.count, min(THREADS // tx.count, rows))
    q, h = slot("q", rows // ty.count), slot("h", columns // tx.count)
    b0, b1 = block("b0", inner.extent.ceildiv(columns)), block("b1", outer.extent.ceildiv(rows))
    splits = {
        inner.number: mixed((b0, columns), (h, tx.count), (tx, 1)),
        outer.number: mixed((b1, rows), (q, ty.count), (ty, 1)),
    }
    digits: list[Digit] = []
    for k, axis in enumerate(others[:-1]):
        b = block(f"b{k + 2}", axis.extent)
        digits.append(b)
        splits[axis.number] = mixed((b, 1))
    return Proposal(
        "stencil",
        (("threads", tx.count * ty.count), ("rows", rows), ("columns", columns)),
        kept_digits([b0, b1, *digits, tx, ty, q, h], keep_threads=True),
        anchors(situation, splits),
        staging={value: Staging() for value in staged},
    )
