"""Long prefixes of few rows in one kernel, whose blocks begin in order and take the totals of those in front.

    rows      y[j]:     j = T*V*C*b + T*V*c + V*tx + v       all threads run through C pieces of a block together
    columns   y[i, j]:  i = Y*U*b1 + U*ty + u,  j = X*V*b0 + V*tx + v         warps below each other, rows side by side

What a block holds is loaded once and stored once.  It waits for totals of blocks that have begun before it (Merrill and
Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016), and merges all of them in an order that its
number gives, so that results have the same bits in every run, whichever block comes first.

Blocks that wait in step leave memory idle meanwhile.  Rows may therefore be summed some blocks ahead of the block that
stores their prefixes, which then waits for nobody and finds them in the last-level cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod

from polyfuse.places.proposal import Proposal
from polyfuse.schedule import Digit, nests
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.situation import Situation, block, mixed, power_above, power_below, row_width, slot, thread

ROW_SHAPES = ((256, 4, 6, 2), (256, 4, 4, 2), (256, 8, 4, 0), (256, 4, 4, 0))
"""Threads, pieces of a vector that each of them holds, blocks per processor, and how many blocks per processor totals
are left ahead.  Cumsum of 67 million float32 on an H200: with totals 2, 4, 6, 8 and 16 blocks ahead 175, 181, 198, 204
and 207 us in the first, with 4 ahead 185 in the second, 189 in the third, with 2, 4 and 8 ahead in it 183, 198 and 201,
237 in the last; where 6 blocks of that fit 211."""
COLUMN_THREADS = 256
VECTORS, SINGLES = ((16, 8, 4), (8, 8, 4)), ((32, 16, 4),)
"""Threads; lanes along the columns at most, rows that a thread holds, blocks per processor, of vectors and of single
elements.  Of 8192 x 8192 float32 on an H200, in 32 lanes along the columns with eight rows of vectors: 167 us; in 3
blocks 182, with totals ahead of it 226; of 16 rows in 2 blocks 214, of 4 in 6 189.  On an H100, of vectors in 32, 16
and 8 lanes: of 65536 x 1024 float32 240, 224 and 223 us, of 65536 x 4096 bfloat16 637, 563 and 549, of 500000 x 100
251, 213 and 207, of 123457 x 40 float64 78, 61 and 50, of 8192 x 8192 220, 214 and 229."""
WIDEST = 4
"""The widest vectors of a column's rows.  On an H200, of 16384 x 8192 bfloat16: 245 us in vectors of four, 301 in twice
as many of two, 406 in half as many of eight; of 16383 x 8191 379 in 16 single elements, 460 in 8, 491 in 32, float32
464, 530 and 608."""
FEW_READERS, LEAST_GROUP = 16, 16
"""Threads that share what a block reads of those in front, up to which it should be little; and the least groups then.
On an H100, prefixes along axis 0 in groups of 8, 16, 32 and 64 blocks: of 65536 x 1024 float32 248, 237, 254 and 295
us, of 1000003 x 131 bfloat16 677, 630, 668 and 767; of 2000000 x 24 float32, in 32 such threads, 234, 238, 231, 227."""
LEAST_PIECE = 64
"""Bytes of a row that a block takes at least, if it does not take all of it: those of 65536 x 4096 bfloat16 in eight
lanes, above.  Fewer were not measured."""
LEAST_BLOCKS = 2  # along the prefix: what one block holds needs nobody else


def in_order(situation: Situation) -> list[Proposal]:
    """Proposals for a group of scans along one class."""
    if not situation.scans or situation.reductions or situation.target.kind == "cpu" or situation.inner is None:
        return []
    over = [a for a in situation.axes if a.scanned_by]
    if len(over) != 1 or over[0].run or any(s.lags for s in situation.scans):
        return []
    if over[0] is situation.inner:
        found = [_rows(situation, over[0], *shape) for shape in ROW_SHAPES]
    else:
        width = min(WIDEST, situation.width(situation.inner.extent, flat=False))
        columns = -(-situation.inner.size(situation.hints) // width)
        shapes = SINGLES if width == 1 else [s for s in VECTORS if s[0] <= power_above(columns)] or VECTORS[-1:]
        found = [_columns(situation, situation.inner, over[0], width, *shape) for shape in shapes]
    return [p for p in found if p is not None]


def _fewer(situation: Situation, vectors: int, width: int) -> int:
    """Vectors that a thread holds where it may hold so many of four words."""
    words = max(max(1, s.dtypes[0].compute.itemsize // 4) for s in situation.scans)
    return max(1, min(vectors, 4 * vectors // (width * words)))


def _group(situation: Situation, blocks: int) -> int:
    """Totals that are left as one: a block reads one of each group in front, and up to two groups one by one."""
    return situation.tiles.get("group", min(256, max(4, power_below(isqrt(max(1, 2 * blocks // 3))))))


def _group_of_few(situation: Situation, blocks: int) -> int:
    """The same where few threads share what a block reads: with groups of groups it is the fewest."""
    fewest = max(LEAST_GROUP, power_below(int((3 * blocks) ** (1 / 3))))
    return situation.tiles.get("group", min(_group(situation, blocks), fewest))


def _lead(situation: Situation, resident: int, blocks: int, lines: int) -> int | None:
    """Blocks of a line that totals are left ahead, where there are several times as many.  None where there are not, or
    where a total depends on what its block takes."""
    ahead = situation.tiles.get("lead", -(-resident * situation.target.processors // lines))
    wanted = "lead" in situation.tiles or blocks >= 4 * ahead
    return ahead if not ahead or wanted and _apart(situation) else None


def _apart(situation: Situation) -> bool:
    """Whether no prefix is made of another one."""
    behind: set[int] = set()
    for statement in situation.group.statements():
        after = any(read.source in behind for read in statement.reads)
        if after and statement.scanned is not None:
            return False
        if after or statement.scanned is not None:
            behind.add(statement.id)
    return True


def _parallel(situation: Situation, apart: Sequence[AxisClass], first: int) -> tuple[list[Digit], list[AxisClass]]:
    """A block digit for every class but for those `apart`, from the `first` number on."""
    parallel = [a for a in situation.axes if a not in apart]
    parallel.sort(key=lambda a: (-a.size(situation.hints), a.number))
    return [block(f"b{k}", a.extent) for k, a in enumerate(parallel, first)], parallel


def _rows(
    situation: Situation, axis: AxisClass, threads: int, pieces: int, resident: int, ahead: int
) -> Proposal | None:
    flat = len(situation.axes) == 1 and situation.width(axis.extent, flat=True) > row_width(situation, axis.extent)
    width = situation.width(axis.extent, flat=True) if flat else row_width(situation, axis.extent)
    pieces = _fewer(situation, pieces, width)
    span = threads * pieces * width
    blocks = -(-axis.size(situation.hints) // span)
    digits, parallel = _parallel(situation, [axis], 0)
    lines = prod(a.size(situation.hints) for a in parallel)
    lead = _lead(situation, ahead, blocks, lines)
    if blocks < LEAST_BLOCKS or lines >= situation.target.processors or lead is None:
        return None
    b, tx = block(f"b{len(digits)}", axis.extent.ceildiv(span)), thread("tx", 1, threads)  # behind those of all rows
    c, v = slot("c", pieces), slot("v", width)
    splits = {a.number: mixed((d, 1)) for a, d in zip(parallel, digits, strict=True)}
    splits[axis.number] = mixed((b, span), (c, threads * width), (tx, width), (v, 1))
    group = _group(situation, blocks)
    tile = (("threads", threads), ("lanes", threads), ("chunks", pieces), ("vector", width))
    return Proposal(
        "rows",
        (*tile, ("group", group), *((("lead", lead),) if lead else ())),
        kept_digits([*digits, b, tx, c, v], keep_threads=True),
        anchors(situation, splits),
        guards=() if flat else situation.divisible(axis.extent, width),
        minimum_blocks=resident,
        in_order={b.name: (group, lead)},
        border=len(situation.axes) == 1,
    )


def _columns(
    situation: Situation, inner: AxisClass, axis: AxisClass, width: int, most: int, steps: int, resident: int
) -> Proposal | None:
    steps = steps if width == 1 else _fewer(situation, steps, width)
    lanes = min(most, power_above(-(-inner.size(situation.hints) // width)))
    warps = COLUMN_THREADS // lanes  # rows of threads below each other
    blocks = -(-axis.size(situation.hints) // (warps * steps))
    panels = -(-inner.size(situation.hints) // (lanes * width))
    digits, parallel = _parallel(situation, [axis, inner], 1)
    lead = _lead(situation, 0, blocks, panels * prod(a.size(situation.hints) for a in parallel))
    piece = lanes * width * max(situation.long_itemsizes, default=4)
    narrow = width == 1 and lanes < situation.target.warp or panels > 1 and piece < LEAST_PIECE
    if blocks < LEAST_BLOCKS or narrow or lead is None:
        return None
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, warps)
    u, v = slot("u", steps), slot("v", width)
    panel = block("b0", inner.extent.ceildiv(lanes * width))  # neighbouring blocks share rows
    b = block(f"b{len(digits) + 1}", axis.extent.ceildiv(warps * steps))
    splits = {a.number: mixed((d, 1)) for a, d in zip(parallel, digits, strict=True)}
    splits[inner.number] = mixed((panel, lanes * width), (tx, width), (v, 1))
    splits[axis.number] = mixed((b, warps * steps), (ty, steps), (u, 1))
    few = warps <= FEW_READERS and nests(LEAST_GROUP, width)
    group = _group_of_few(situation, blocks) if few else _group(situation, blocks)
    tile = (("threads", lanes * warps), ("lanes", lanes), ("unroll", steps), ("vector", width))
    return Proposal(
        "columns",
        (*tile, ("group", group), *((("lead", lead),) if lead else ())),
        kept_digits([panel, *digits, b, tx, ty, u, v], keep_threads=True),
        anchors(situation, splits),
        guards=situation.divisible(inner.extent, width),
        minimum_blocks=resident,
        in_order={b.name: (group, lead)},
    )
