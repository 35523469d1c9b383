"""Results along both dimensions of a matrix from one pass: A @ x with A.T @ y, sums of rows with sums of columns.

    r[i] = sum_j f(A[i, j]),  c[j] = sum_i g(A[i, j])
    i = share*b1 + TY*(u + U*r) + ty,   j = C*b0 + TX*V*k + V*tx + v       k, u and v in registers, r a loop

A block takes a tile of the matrix.  Along a row it sums at once; columns stay in registers until the loop over its rows
ends.  Matrices of a batch have blocks of their own.  The tiles of one row of tiles, and those of one column, meet in
the last block of them to arrive.  A tile as wide as the matrix has whole rows: then r[i] may enter c[j] in the same
pass, as in A.T @ (A @ x).  On a CPU a block is a strip of columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from polyfuse.affine import ONE, Affine
from polyfuse.bindings import Guard
from polyfuse.places.proposal import Proposal
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.columns import strip
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.shares import combination
from polyfuse.strategies.situation import Situation, block, loop, mixed, power_above, power_below, slot, thread
from polyfuse.target import is_copied

THREADS = 256
NARROW = 128
"""Threads of a block with a narrow tile: in as many more blocks one loads while another combines.  On an H200, in 128
and 256 threads (benchmarks/results/narrow_tiles_h200.json): A p with A^T r of 1 GB 253 us and 305, margins of 16384 x
4099 80 and 87, of 30001 x 2999 98 and 111, a logistic gradient of rows of 512 127 and 144."""
WAVES = (8, 4, 1)
"""Blocks per multiprocessor: with many the last of them end together (A p with A^T r of 1 GB: 260 us against 284)."""
CLUSTERS = (4, 8)
RESIDENT = {0: 2, 1: 1}
"""Blocks of a cluster per multiprocessor: while one waits for its cluster, the other one loads, unless each loads ahead
of its own trips."""
THREADS_AHEAD, CLUSTERS_AHEAD = 512, (1, 2)
"""A^T (A x) of 16384 x 16384 on an H200: 372 us in clusters of 2 such blocks, 633 in clusters of 4, where the exchange
waits for what is loading; 414 in clusters of 4 blocks of 256 threads without."""
ASYNCHRONOUS = (8, 0)
"""The first capability that copies to shared memory beside its threads."""
RINGS, TRIP = ((512, 3), (256, 3), (1024, 3), (1024, 2)), 1 << 16
"""(threads, trips of a ring), bytes that a block copies in a trip.  On an H200: A^T (A x) of 16384 x 16384 in 512
threads 254 us, the time of reading A once, in 1024 threads 258; of 262144 x 1024 in 256 threads 256, where warps that
hold whole rows take 286."""
OTHERS = 24
"""Registers for addresses and results, beside a vector, the sums of columns and the rows of a trip: of 16-bit floats
two rows a trip of 32 elements in each of 512 threads spill, 160 us against 135 for reading them."""
READ = 64
"""Elements of shares that a thread of the last block reads at once, where threads hold many: A^T (A x) on an H200, 8 MB
of shares in 512 threads, 256 elements at once: 480 us, 64 at once (of 65536 x 4096, 2 MB): 25."""
HELD = 32
"""Elements of a row that a thread holds: as many sums of columns live in its registers."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """`lanes` threads and `chunks` vectors of each along a row, `rows` threads and `unroll` of each down a column."""

    lanes: int
    chunks: int
    rows: int
    unroll: int
    cluster: int = 1
    ahead: int = 0
    ring: int = 0


CORE = _Tile(lanes=1, chunks=1, rows=1, unroll=4)
"""A core takes a strip of columns four rows at a time: several streams of memory at once, and each sum of a column is
loaded and stored for four rows (A @ x with A.T @ y, 4096 x 4096 float32 on two cores: 2.4 ms, row by row 2.8 to 5.3, in
two calls of the library 2.8 to 3)."""
SHARE = 32
"""Rows of a core's block: their pages stay in its first translation buffer while it goes along the strips."""


def one_pass(situation: Situation) -> list[Proposal]:
    """Proposals for groups over two classes, each of which some reduction keeps and another one sums over."""
    axes, inner = [a for a in situation.axes if a.reduced_by], situation.inner
    batch = [a for a in situation.axes if not a.reduced_by and a.extent != ONE]
    cpu = situation.target.kind == "cpu"
    if situation.scans or len(axes) != 2 or inner not in axes or batch and cpu:
        return []
    if axes[0].reduced_by & axes[1].reduced_by == axes[0].reduced_by:
        return []
    assert inner is not None
    if not inner.size(situation.hints):  # sums over nothing need no matrix
        return []
    outer = next(a for a in axes if a is not inner)
    width = strip(situation, inner, []) if cpu else situation.width(inner.extent, flat=False)
    found = []
    for tile in (CORE,) if cpu else _tiles(situation, inner, width, bool(batch)):
        every = (RESIDENT[tile.ahead or min(1, tile.ring)],) if tile.cluster > 1 or tile.ahead or tile.ring else WAVES
        found += [_proposal(situation, batch, outer, inner, tile, width, waves) for waves in every]
    return [p for p in found if p is not None]


def _tiles(situation: Situation, inner: AxisClass, width: int, several: bool) -> list[_Tile]:
    """A narrow tile, whose rows a warp sums without a barrier, and ones that hold whole rows, if they are short.  Each
    also with half the rows at once, for programs that hold several values of every element.  `several`: matrices, as of
    pairs of points, whose rows in a few lanes are `pairs`."""
    size, asked = inner.size(situation.hints), situation.tiles
    lanes = power_below(asked.get("lanes", 32))
    few = min(max(1, 16 // width), -(-size // (lanes * width)))  # others would be idle
    narrow = lanes, asked.get("chunks", few)
    whole = min(1024, max(32, power_above(-(-size // HELD))))
    short = [] if several else _short(situation, size, width)
    shapes = dict.fromkeys((narrow, (whole, -(-size // (whole * width))), *short))
    found: list[_Tile] = []
    for lanes, chunks in shapes:
        if 1 <= chunks * width <= HELD:
            is_narrow = (lanes, chunks) == narrow
            threads = max(lanes, power_below(asked.get("threads", NARROW if is_narrow else THREADS)))
            at_once = HELD * 2 if is_narrow and width > 1 else HELD  # single elements have an address each
            unroll = asked.get("unroll") or min(4, at_once // (chunks * width))
            found.append(_Tile(lanes, chunks, threads // lanes, unroll, ahead=min(1, asked.get("ahead", 0))))
    found += [*_over_clusters(situation, size, width), *_in_rings(situation, size, width)]
    if "unroll" not in asked:  # of blocks, whose rows are a power of two
        found = [replace(tile, unroll=power_below(tile.unroll)) for tile in found]
    fewer = [replace(tile, unroll=tile.unroll // 2) for tile in found if tile.unroll > 1 and "unroll" not in asked]
    return [*dict.fromkeys((*found, *fewer))]


def _short(situation: Situation, size: int, width: int) -> list[tuple[int, int]]:
    """Lanes and vectors of each that hold rows of less than a warp.  By the price of an H200, a million rows of 30
    float32 for a logistic gradient: 38 us in four lanes, 73 in 32, of which 15 have something to do."""
    vectors = -(-size // width)
    if situation.tiles or vectors > situation.target.warp // 2:
        return []
    lanes = max(2, power_above(vectors))
    return [(few, -(-vectors // few)) for few in (lanes // 2, lanes // 4) if few]


def _over_clusters(situation: Situation, size: int, width: int) -> list[_Tile]:
    """Whole rows over the blocks of a cluster: each holds few columns, so that many rows are on their way at once, and
    few clusters leave few shares for the last one.  Or over one or two blocks of more threads, which load the rows of a
    trip while they combine those of the last."""
    asked, found = situation.tiles, []
    ahead = [(cluster, THREADS_AHEAD, 1) for cluster in CLUSTERS_AHEAD]
    for usual, threads, early in (*((cluster, THREADS, 0) for cluster in CLUSTERS), *ahead):
        cluster = asked.get("cluster", usual)
        lanes = power_below(asked.get("lanes", cluster * threads))
        chunks = asked.get("chunks") or -(-size // (lanes * width))
        held = chunks * width
        fits = cluster <= situation.target.cluster and lanes // cluster <= situation.target.threads_per_block
        if fits and lanes >= situation.target.warp * cluster and held <= HELD // (1 + early) and lanes * width <= size:
            unroll = asked.get("unroll") or max(1, min(8, 2 * HELD // (1 + early) // held))
            found.append(_Tile(lanes, chunks, 1, unroll, cluster, min(1, asked.get("ahead", early))))
    return found


def _in_rings(situation: Situation, size: int, width: int) -> list[_Tile]:
    """Whole rows in one block, which are copied to shared memory some trips ahead: registers hold those of one trip."""
    asked, found = situation.tiles, []
    if situation.target.capability < ASYNCHRONOUS or asked.get("cluster", 1) > 1 or asked.get("ahead"):
        return []
    matrices = [value for value in situation.group.loads if len(situation.scop.shape(value)) > 1]
    loaded = [dtype.itemsize for value in matrices for dtype in situation.scop.statements[value].dtypes]
    for threads, usual in RINGS if loaded and all(is_copied(width, size) for size in loaded) else ():
        lanes = power_below(asked.get("lanes", threads))
        chunks, trips = asked.get("chunks") or -(-size // (lanes * width)), asked.get("ring", usual)
        held, most = chunks * width, situation.target.threads_per_block
        if situation.target.warp <= lanes <= most and lanes * width <= power_above(size) and held <= HELD and trips > 1:
            registers = situation.target.registers_per_processor // (lanes * max(1, max(loaded) // 4))
            fits = min(TRIP // (lanes * held * max(loaded)), (registers - OTHERS) // held - 2)
            unroll = asked.get("unroll") or max(1, min(8, fits))
            found.append(_Tile(lanes, chunks, 1, unroll, ring=trips))
    return list(dict.fromkeys(found))


def _proposal(
    situation: Situation,
    batch: list[AxisClass],
    outer: AxisClass,
    inner: AxisClass,
    tile: _Tile,
    width: int,
    waves: int,
) -> Proposal | None:
    tx, ty = thread("tx", 1, tile.lanes), thread("ty", tile.lanes, tile.rows)
    k, u, v = slot("k", tile.chunks), slot("u", tile.unroll), slot("v", width)
    columns, step = tile.lanes * tile.chunks * width, tile.rows * tile.unroll
    whole = columns >= inner.size(situation.hints)
    b0 = block("b0", Affine.of(1) if whole else inner.extent.ceildiv(columns))
    matrices = [block(f"b{2 + k}", axis.extent) for k, axis in enumerate(batch)]
    together = math.prod(situation.size(b.extent) for b in (b0, *matrices)) * tile.cluster
    share = _share(situation, outer, step, max(1, waves * situation.target.processors // together))
    b1, r = block("b1", outer.extent.ceildiv(share)), loop("r", Affine.of(share // step))
    splits = {
        inner.number: mixed((b0, columns), (k, tile.lanes * width), (tx, width), (v, 1)),
        outer.number: mixed((b1, share), (r, step), (u, tile.rows), (ty, 1)),
        **{axis.number: mixed((b, 1)) for axis, b in zip(batch, matrices, strict=True)},
    }
    most = max(1, READ // (tile.chunks * width))
    reads = (b0, combination(b0, None, situation)), (b1, combination(b1, ty, situation, most))
    combines = {d.name: c for d, c in reads}
    t, s = thread("tr", 1, min(tile.lanes * tile.rows, share)), slot("s", max(1, share // (tile.lanes * tile.rows)))
    guards = situation.divisible(inner.extent, width)
    if whole and not inner.extent.is_constant:
        guards = (*guards, Guard(Affine.of(columns) - inner.extent))
    kept = kept_digits([b0, b1, *matrices, tx, ty, t, r, s, k, u, v], keep_threads=True)
    if (tile.ahead or tile.ring) and r not in kept:
        return None
    return Proposal(
        "one_pass",
        (
            *(("threads", tile.lanes * tile.rows), ("lanes", tile.lanes), ("chunks", tile.chunks)),
            *(("unroll", tile.unroll), ("vector", width), ("share", share)),
            *((("cluster", tile.cluster),) if tile.cluster > 1 else ()),
            *((("ahead", 1),) if tile.ahead else ()),
            *((("ring", tile.ring),) if tile.ring else ()),
        ),
        kept,
        anchors(situation, splits),
        loops=tuple(d.name for d in (r,) if d in kept),
        guards=guards,
        combines={name: c for name, c in combines.items() if any(d.name == name for d in kept)},
        finished=anchors(situation, {outer.number: mixed((b1, share), (s, t.count), (t, 1))}),
        cluster=tile.cluster,
        ahead=("r",) if tile.ahead else (),
        rings=(("r", tile.ring),) if tile.ring else (),
    )


def _share(situation: Situation, outer: AxisClass, step: int, wanted: int) -> int:
    """Rows of a block, a power of two, so that about `wanted` blocks share them."""
    if "share" in situation.tiles:
        return max(step, power_below(situation.tiles["share"]))
    if situation.target.kind == "cpu":
        return SHARE
    return max(step, power_above(-(-outer.size(situation.hints) // wanted)))
