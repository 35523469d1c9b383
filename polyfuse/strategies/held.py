"""Reductions over what stays in registers between all passes over it: of a block, or of a cluster of blocks.

    rows     y[i, :]:  i = b0,  j = TX*V*c + V*tx + v              tx over all threads of a cluster, c in registers
    planes   y[:, i, :] likewise, with k = ty + TY*u for the outer of two reduced classes
    panels   y[:, j]:  j = b0*TX*V + V*tx + v,  i = ty + TY*u      TX*V columns with all their rows, u in registers

A normalisation along any axis then reads its input once, where a loop would read it in every pass.  Rows that begin off
the boundaries of vectors are dealt in frames (`polyfuse.strategies.frames`).
"""

from __future__ import annotations

from polyfuse.affine import ZERO, Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.places.proposal import Proposal
from polyfuse.schedule import Digit
from polyfuse.strategies.batches import Dealt, deal
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.frames import VECTOR, WORD, Frame, frame
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.row_shape import framed_bucket
from polyfuse.strategies.situation import (
    Situation,
    block_digits,
    mixed,
    power_above,
    power_below,
    row_width,
    slot,
    thread,
)

HELD = 32
"""Words of a row or panel that a thread holds at most: a block of 512 threads leaves room for a second one then."""
BESIDE = 48
"""And words in shared memory: those of two blocks of 512 threads fit a processor's 227 KB."""
OF_VECTORS = (24, 40)
"""Instead of half of 64 words in each, where rows are whole vectors.  Softmax of 4096 x 32768 on an H200, 512 threads:
315 us with 8 vectors in registers, which spill, and 8 in shared memory, 283 with 7 and 9, 276 with 6 and 10, 288 with 4
and 12; in 1024 threads with 8 in registers 318.  Of 4096 x 24576: 245 with 8 and 8, 208 with 6 and 6."""
IN_FRAMES = (16, 48)
"""The same where the ends of rows cut vectors, which takes registers as well: by ptxas log-softmax of rows of 50257
bfloat16 spills four words of 64 with three vectors in registers and four in shared memory, none with two and five."""
IN_ROWS = ((HELD, 0), (HELD // 2, 0), (HELD, HELD // 2), (HELD, HELD), (HELD, BESIDE))
"""Of rows: the longer they are, the fewer blocks of a cluster have to wait for each other."""
THREADS = (512, 1024)
"""Of a block in a cluster; the larger where only it brings all threads that are needed into one cluster."""
PANEL_CLUSTER = 1  # unless asked for: of 16384 rows, 504 to 570 us against 572 in loops, but the search ends beside it
LONG = {True: 32768, False: 16384}
"""Rows, of whole vectors or of words, up to which one block alone is about as fast: 296 us against 324 for the softmax
of 4096 x 32768 on an H200.  Fewer kinds of kernels serve all lengths then."""
BESIDE_FROM = {True: 16384, False: 4096}
"""The same where shared memory holds a part.  Words that a block does not hold it reads again: softmax of 16384 rows of
8191 takes 270 us instead of 348, of 16381 618 instead of 932, layernorm of them 273 and 614 instead of 345 and 1039."""
FEW_ROWS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
"""Ends of classes of the rows that one thread has of each of its columns."""
IN_COLUMNS, COLUMN_THREADS = (32, 64), 128
"""Words of them in a thread at most, and threads of a block.  Softmax over the middle of 5000 x 7 x 2500 float32 takes
an H200 168 us so, 268 in panels of 32 threads with eight rows; of 16 x 21 x 512 x 512 170, 193 in panels of 64."""
SECTOR = 32
"""Bytes of memory that a row of a plane fills with those of the next results, in the same block: of channels that lie
behind each other, a block for each group reads parts of sectors, and another one the rest.  Means and deviations of
groups of 8 of 256 channels of 64 x 56 x 56 bfloat16 take an H200 141 us so, 101 with two groups in a block; of 4 of 128
float32 140 and 90, where the bytes of both are 48 and 96."""
SECTORS = (256, 128, 64)
"""Bytes of a panel's row: cache lines, or half of one where rows are many; and four times the most where they are few:
rmsnorm over 64 channels of 32 x 64 x 512 x 512 takes an H200 1,062 us in rows of 1 KB, 1,144 of 128 bytes."""


def held(situation: Situation) -> list[Proposal]:
    """Proposals for groups that reduce one class, or two with the contiguous one among them."""
    over = [a for a in situation.axes if a.reduced_by]
    inner = situation.inner
    if situation.scans or situation.target.kind == "cpu" or inner is None or not 1 <= len(over) <= 2:
        return []
    if not comes_back(situation, over):
        return []
    if len(over) == 2:
        outer = next(a for a in over if a is not inner)
        found = [_plane(situation, inner, outer, beside) for beside in (0, HELD)] if inner in over else []
    elif inner in over:
        framed = _framed(situation, inner)
        found = [_row(situation, inner, most, beside, framed) for most, beside in IN_ROWS]
    else:
        found = [_column(situation, inner, over[0], most) for most in IN_COLUMNS]
        if not any(found[:1]):
            found += [_panel(situation, inner, over[0], sector, 0) for sector in (4 * SECTORS[0], *SECTORS)]
            found += [_panel(situation, inner, over[0], sector, HELD) for sector in (2 * SECTORS[0], *SECTORS)]
    return list({p.parameters: p for p in found if p is not None}.values())


def comes_back(situation: Situation, over: list[AxisClass]) -> bool:
    """Whether something runs over a reduced class that depends on a reduction over it: else one pass does."""
    later: set[int] = set()
    for statement in situation.group.statements():
        after = any(
            read.source in later or any(read.source in axis.reduced_by for axis in over) for read in statement.reads
        )
        if after and any(axis in over for axis in situation.classes.statement(statement)):
            return True
        later |= {statement.id} if after else set()
    return False


def _framed(situation: Situation, inner: AxisClass) -> Frame | None:
    """The frame of long rows that begin off the boundaries of vectors, each of which has blocks of its own."""
    short = situation.size(inner.extent) <= BESIDE_FROM[True] and "frames" not in situation.tiles
    return None if short else frame(situation, inner, _parallel(situation, inner)[1], enough=VECTOR)


def _parallel(situation: Situation, inner: AxisClass) -> tuple[list[Digit], dict[int, Affine]]:
    """Blocks of the device along the classes beside the rows."""
    return block_digits(situation.nearest(a for a in situation.axes if a is not inner), {})


def _row(
    situation: Situation, inner: AxisClass, most: int, beside: int, framed: Frame | None
) -> Proposal | None:
    """Rows over the threads of two blocks or more; of one, where `beside` the registers shared memory holds words."""
    extent, asked = inner.extent if framed is None else framed.padded(inner.extent), situation.tiles
    size = situation.size(extent)
    if framed is not None:
        width = framed.width
    else:
        width = situation.width(inner.extent, flat=False) if size > LONG[False] else row_width(situation, inner.extent)
    held, waiting = most, beside
    if beside and width == situation.widest:
        held, waiting = OF_VECTORS if framed is None else IN_FRAMES
        waiting = max(waiting, beside)
    chunks, shared = asked.get("chunks") or max(1, held // width), asked.get("shared", waiting // width)
    if not asked and size <= (BESIDE_FROM if shared else LONG)[width == situation.widest]:
        return None
    shape = _cluster(situation, -(-size // ((chunks + shared) * width)))
    if shape is None or shape[1] == 1 and (not shared or beside > HELD and not asked):
        return None
    lanes, cluster = shape
    span = lanes * width
    close = not asked and (framed is not None or situation.is_busy)
    if extent.is_constant or close:
        total = -(-size // span)
        chunks, shared = min(chunks, total), max(0, total - chunks)
        if close and cluster == 1 and not shared:
            return None  # such rows have a strategy of their own
    capacity = span * (chunks + shared)
    tx, c, v = thread("tx", 1, lanes), slot("c", chunks + shared), slot("v", width)
    digits, splits = _parallel(situation, inner)
    splits[inner.number] = mixed((c, span), (tx, width), (v, 1)) - (framed.shift if framed else ZERO)
    tile = ("threads", lanes), ("cluster", cluster), ("chunks", chunks), *_beside(shared), ("vector", width)
    if framed is None:
        guards = *situation.divisible(inner.extent, width), *situation.fits(extent, capacity)
    else:
        above = 0 if asked else capacity - span
        guards = *framed.guards, *framed_bucket(extent, size, width, above, capacity)
    return Proposal(
        "held_rows",
        (*tile, ("frames", 1)) if framed is not None else tile,
        kept_digits([*digits, tx, c, v], keep_threads=True),
        anchors(situation, splits),
        guards=guards,
        cluster=cluster,
        cells=("c", chunks) if shared else None,
    )


def _beside(shared: int) -> tuple[tuple[str, int], ...]:
    """The parameter of what is held in shared memory, where there is some."""
    return (("shared", shared),) if shared else ()


def _side_by_side(situation: Situation, inner: AxisClass, outer: AxisClass) -> int:
    """Results of a block whose rows, one behind the other in memory, fill a sector between them."""
    near = next(iter(situation.nearest(a for a in situation.axes if a is not inner and a is not outer)), None)
    row = inner.size(situation.hints) * _itemsize(situation)
    results = power_below(situation.tiles.get("beside", max(1, SECTOR // max(1, row))))
    return results if near is not None and near.size(situation.hints) % results == 0 else 1


def _itemsize(situation: Situation) -> int:
    return min((situation.scop.dtype(value).itemsize for value in situation.group.loads), default=WORD)


def _plane(situation: Situation, inner: AxisClass, outer: AxisClass, beside: int) -> Proposal | None:
    """Rows that are reduced together, dealt to groups of lanes; shared memory holds `beside` words of a thread."""
    width, results = situation.width(inner.extent, flat=False), _side_by_side(situation, inner, outer)
    size, asked = inner.size(situation.hints), situation.tiles
    narrow = min(situation.target.warp, power_above(-(-size // width)))  # else lanes of short rows would be idle
    usual = (power_below(asked["lanes"]),) if "lanes" in asked else (1024, 512, 256, 128, 64, narrow)
    shapes = [(lanes, asked.get("chunks") or max(1, -(-size // (lanes * width)))) for lanes in usual]
    shapes = [(lanes, chunks) for lanes, chunks in shapes if lanes * chunks * width >= size]
    if not shapes:
        return None
    lanes, chunks = min(shapes, key=lambda shape: (shape[1] * width > HELD, shape[0] * shape[1], shape[1]))
    words = chunks * width if results == 1 else max(1, chunks * width * _itemsize(situation) // WORD)
    unroll, shared = asked.get("unroll") or max(1, HELD // words), asked.get("shared", beside // words)
    several = lanes * results
    shape = _cluster(situation, several * power_above(-(-outer.size(situation.hints) // (unroll + shared))))
    if shape is None or shape[0] < several or chunks * width > HELD:
        return None
    threads, cluster = shape
    rows = threads // several
    unroll, shared = _parts(situation, outer, rows, unroll, shared)
    tx, tb, ty = thread("tx", 1, lanes), thread("tb", lanes, results), thread("ty", several, rows)
    u, c, v = slot("u", unroll + shared), slot("c", chunks), slot("v", width)
    parallel = situation.nearest(a for a in situation.axes if a is not inner and a is not outer)
    dealt = {parallel[0].number: results} if results > 1 else {}
    digits, splits = block_digits(parallel, dealt, tb if dealt else None)
    splits[inner.number] = mixed((c, lanes * width), (tx, width), (v, 1))
    splits[outer.number] = mixed((u, rows), (ty, 1))
    along = situation.fits(inner.extent, lanes * chunks * width)
    fits = (*along, *situation.fits(outer.extent, rows * (unroll + shared)))
    return Proposal(
        "planes",
        (
            *(("threads", threads), ("cluster", cluster), ("lanes", lanes), ("chunks", chunks)),
            *(("unroll", unroll), *_beside(shared), ("vector", width)),
            *((("beside", results),) if results > 1 else ()),
        ),
        kept_digits([*digits, tx, tb, ty, u, c, v], keep_threads=True),
        anchors(situation, splits),
        guards=(*situation.divisible(inner.extent, width), *fits),
        cluster=cluster,
        cells=("u", unroll) if shared else None,
    )


def _parts(situation: Situation, axis: AxisClass, rows: int, unroll: int, shared: int) -> tuple[int, int]:
    """(registers, cells of shared memory) of a thread along a class that `rows` threads share: no more than it has."""
    if not shared or not axis.extent.is_constant:
        return unroll, shared
    total = -(-axis.size(situation.hints) // rows)
    return min(unroll, total), max(0, total - unroll)


def _panel(situation: Situation, inner: AxisClass, main: AxisClass, sector: int, beside: int) -> Proposal | None:
    """Panels of `sector` bytes' columns, all rows in the registers of a block or a cluster, and `beside` words of a
    thread in shared memory."""
    width = situation.width(inner.extent, flat=False)
    itemsize = max(1, situation.target.vector_bytes // situation.widest)
    lanes = situation.tiles.get("lanes") or max(1, sector // (width * itemsize))
    unroll = situation.tiles.get("unroll") or max(1, HELD // width)
    shared = situation.tiles.get("shared", beside // width)
    need = lanes * power_above(-(-main.size(situation.hints) // (unroll + shared)))
    shape = _cluster(situation, need, PANEL_CLUSTER)
    if shape is None or shape[0] < lanes:
        return None
    threads, cluster = shape
    rows = threads // lanes
    unroll, shared = _parts(situation, main, rows, unroll, shared)
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, rows)
    u, v = slot("u", unroll + shared), slot("v", width)
    parallel = situation.nearest(a for a in situation.axes if a is not main)
    digits, splits = block_digits(parallel, {inner.number: lanes * width})
    splits[inner.number] += mixed((tx, width), (v, 1))
    splits[main.number] = mixed((u, rows), (ty, 1))
    return Proposal(
        "panels",
        (
            *(("threads", threads), ("cluster", cluster), ("lanes", lanes)),
            *(("unroll", unroll), *_beside(shared), ("vector", width)),
        ),
        kept_digits([*digits, tx, ty, u, v], keep_threads=True),
        anchors(situation, splits),
        guards=(*situation.divisible(inner.extent, width), *situation.fits(main.extent, rows * (unroll + shared))),
        cluster=cluster,
        cells=("u", unroll) if shared else None,
    )


def _column(situation: Situation, inner: AxisClass, main: AxisClass, most: int) -> Proposal | None:
    """Whole columns of a few rows in the registers of a thread, as many side by side as leave it `most` words: of one
    batch, or of several where they are short."""
    size, width = main.size(situation.hints), situation.width(inner.extent, flat=False)
    if size > min(most, FEW_ROWS[-1]) or not situation.has_much or situation.tiles:
        return None
    unroll = size if main.extent.is_constant else next(rows for rows in FEW_ROWS if rows >= size)
    while width > 1 and unroll * width > most:
        width //= 2
    several = inner.size(situation.hints) < COLUMN_THREADS * width
    found = (deal if several else _of_one)(situation, inner, main, width)
    if found is None:
        return None
    digits, splits, guards = found
    u, v = slot("u", unroll), slot("v", width)
    splits[main.number] = mixed((u, 1))
    fits: tuple[AnyGuard, ...] = ()
    if not main.extent.is_constant:
        fewer = max((rows for rows in FEW_ROWS if rows < unroll), default=0)
        fits = Guard(main.extent - fewer - 1), Guard(unroll - main.extent)
    lanes, threads = digits[-2].count, digits[-2].count * digits[-1].count
    tile = ("threads", threads), ("cluster", 1), ("lanes", lanes), ("unroll", unroll), ("vector", width)
    return Proposal(
        "panels",
        tile,
        kept_digits([*digits, u, v], keep_threads=True),
        anchors(situation, splits),
        guards=(*guards, *fits),
    )


def _of_one(situation: Situation, inner: AxisClass, main: AxisClass, width: int) -> Dealt:
    """As `deal`, for batches whose columns keep all threads of a block."""
    parallel = situation.nearest(a for a in situation.axes if a is not main)
    digits, splits = block_digits(parallel, {inner.number: COLUMN_THREADS * width})
    tx = thread("tx", 1, COLUMN_THREADS)
    splits[inner.number] += mixed((tx, width), (slot("v", width), 1))
    return [*digits, tx, thread("ty", COLUMN_THREADS, 1)], splits, situation.divisible(inner.extent, width)


def _cluster(situation: Situation, need: int, most: int = 16) -> tuple[int, int] | None:
    """(threads, blocks of the device that share them) for at least `need` threads; None where no cluster has them."""
    asked, target = situation.tiles, situation.target
    threads = power_below(asked["threads"]) if "threads" in asked else max(target.warp, power_above(need))
    if threads < need:
        return None
    for size in THREADS:
        cluster = asked.get("cluster") or max(1, threads // size)
        fits = cluster & (cluster - 1) == 0 and target.warp <= threads // cluster <= target.threads_per_block
        if fits and cluster <= min(target.cluster, asked.get("cluster", most)):
            return threads, cluster
    return None
