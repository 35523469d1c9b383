"""Sums over all that neighbouring elements give, as the residual of a stencil: its windows, and a share of every block.

    s    = sum of f(x[i, j], x[i+1, j], x[i, j+1], ...)     i = 16*b0 + 4*ty + q,  j = 128*r + 4*tx + v
    s[n] = sum of f(x[n, i, j], x[n, i+1, j], ...)          n = b1,  the same

A thread has its rows and a vector of each in windows of registers (`windows.py`), goes on along the row in a loop, and
sums what it finds.  Blocks share the outermost dimension; the last to arrive adds up their shares.  What is stored of
the same elements, as the next step of the stencil, is stored on the way.  Each of what is summed may itself be reduced
from few elements, as the mean of largest ones of two by two: a thread has all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from polyfuse.places.proposal import Proposal, Windows
from polyfuse.scop import Statement
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.held import comes_back
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.shares import combination
from polyfuse.strategies.situation import Situation, block, loop, mixed, slot, thread
from polyfuse.strategies.windows import moved_axes, of_few, row_guards, vector_of

LANES, THREADS = 32, (128, 256)
TILES = {2: ((1, 4), (1, 8)), 3: ((1, 4), (2, 4), (4, 4), (4, 2))}
"""(planes, rows) of a thread, by how many dimensions there are."""
STORING = (1, 2, 128, 256)
"""(planes, rows, lanes, threads) where results are stored besides: lanes of a row write pieces of a kilobyte.  On an
H200, the residual of 8192 x 8192 float32 and its square 212 us, in tiles of 4 and 8 rows by 128 lanes 215 to 226, by 32
lanes 231 to 246; in planes 245 to 356."""
EARLY = {2: (False, True), 3: (False,)}
"""Whether windows are loaded a trip before they are used.  On an H200, of 8191 x 8193 float32: the total variation in
77 us, the residual of a Jacobi step in 142, and in 147 to 154 where they are not; of 403 x 401 x 400, the norm of the
Laplacian in 109, in 107 where they are not, in 194 where windows of twice the rows leave no registers."""
BESIDE = 2
"""Blocks of a processor at least: a block loads its windows, then computes, and only others load meanwhile."""


def window_sums(situation: Situation) -> list[Proposal]:
    """Proposals for groups whose reductions all run over two or three dimensions, along which some array is read at
    neighbouring elements, of one array or of each of a batch; or over few elements for each of these."""
    if not situation.reductions or situation.scans or not situation.has_much or situation.tiles:
        return []
    few = of_few(situation)
    sums = [s for s in situation.reductions if s not in few]
    order = _order(situation, sums)
    within = dict.fromkeys(a for s in few for a in _along(situation, s))
    batch = [a for a in situation.axes if a not in order and a not in within]
    if len(order) not in TILES or comes_back(situation, order) or not within.keys().isdisjoint(order):
        return []
    inner = order[-1]
    if not few and inner is not situation.inner or not moved_axes(situation, inner):
        return []
    if any(set(_kept(situation, s)) != set(batch) for s in sums):
        return []
    rank = len(order)
    tiles = [(*tile, LANES, threads, early) for tile in TILES[rank] for threads in THREADS for early in EARLY[rank]]
    if rank == 2 and any(situation.scop.shape(v) for v in situation.group.roots):
        tiles += [(*STORING, early) for early in EARLY[rank]]
    found = [_proposal(situation, batch, order, [*within], *tile) for tile in tiles]
    enough = BESIDE * situation.target.processors
    blocks = [prod(situation.size(d.extent) for d in proposal.digits if d.kind == "block") for proposal in found]
    return [proposal for proposal, count in zip(found, blocks, strict=True) if count >= enough]


def _order(situation: Situation, sums: Sequence[Statement]) -> list[AxisClass]:
    """The classes that every one of some reductions runs over, outermost first; none where they differ."""
    found: list[AxisClass] = []
    for statement in sums:
        along = _along(situation, statement)
        if found and set(found) != set(along):
            return []
        found = found or along
    return found


def _along(situation: Situation, statement: Statement) -> list[AxisClass]:
    return [situation.classes.of[statement.id, d] for d in statement.reduced]


def _kept(situation: Situation, statement: Statement) -> list[AxisClass]:
    return [situation.classes.of[statement.id, d] for d in statement.kept]


def _proposal(
    situation: Situation,
    batch: list[AxisClass],
    order: list[AxisClass],
    within: list[AxisClass],
    planes: int,
    rows: int,
    lanes: int,
    threads: int,
    early: bool,
) -> Proposal:
    inner, outermost = order[-1], order[0]
    stored = [v for v in situation.group.roots if situation.scop.shape(v)]
    columns = situation.width(inner.extent, flat=False) if stored else situation.widest
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, threads // lanes)
    p, q, v = slot("p", planes), slot("q", rows), slot("v", columns)
    span = ty.count * rows
    dealt = planes if len(order) > 2 else span
    b = block("b0", outermost.extent.ceildiv(dealt))  # blocks side by side read what lies at the edges of their rows
    parallel = situation.nearest(batch)
    digits = [block(f"b{k + 1}", axis.extent) for k, axis in enumerate(parallel)]
    splits = {axis.number: mixed((d, 1)) for axis, d in zip(parallel, digits, strict=True)}
    r = loop("r", inner.extent.ceildiv(lanes * columns))
    loops = [r]
    splits[inner.number] = mixed((r, lanes * columns), (tx, columns), (v, 1))
    if len(order) > 2:
        k = loop("k0", order[1].extent.ceildiv(span))
        loops.insert(0, k)
        splits[outermost.number] = mixed((b, planes), (p, 1))
        splits[order[1].number] = mixed((k, span), (ty, rows), (q, 1))
    else:
        splits[outermost.number] = mixed((b, span), (ty, rows), (q, 1))
    whole = [slot(f"s{n}", axis.extent.constant) for n, axis in enumerate(within)]
    splits |= {axis.number: mixed((s, 1)) for axis, s in zip(within, whole, strict=True)}
    values = situation.group.loads | situation.group.body - situation.group.roots
    vectors = {n: vector_of(situation, n) if n in situation.group.loads else 1 for n in values}
    kept = kept_digits([b, *digits, tx, ty, *loops, p, q, *whole, v], keep_threads=True)
    several = (("planes", planes),) if len(order) > 2 else ()
    several = several if lanes == LANES else (("lanes", lanes), *several)
    early = early and r in kept
    return Proposal(
        "window_sums",
        (("threads", threads), *several, ("rows", rows), ("columns", columns), *((("ahead", 1),) if early else ())),
        kept,
        anchors(situation, splits),
        loops=tuple(d.name for d in loops if d in kept),
        guards=row_guards(situation, inner.extent, columns if stored else 1, vectors, flat=False),
        ahead=(r.name,) if early else (),
        combines={b.name: combination(b, tx, situation)} if b in kept else {},
        windows=Windows(("p", "q", "v", *[s.name for s in whole]), vectors),
        border=True,
    )
