"""Prefixes whose neighbours along a row are needed, as of moving means: a block has the row in shared memory.

    c[i, j] = c[i, j - 1] + x[i, j]       j = V*tx + v      the order of the prefix, whole vectors in each lane
    y[i, j] = c[i, j + 50] - c[i, j]      j = TX*c + tx     out of shared memory, neighbours in neighbouring lanes

What follows from a prefix is read at no other lane's place otherwise: it would be stored, and read again twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse.affine import ONE, Affine
from polyfuse.places.proposal import Proposal, Staging
from polyfuse.scop import Statement
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.row_shape import bucket, scanned_piece
from polyfuse.strategies.situation import Situation, block_digits, loop, mixed, slot, thread

LANES = (32, 64, 128, 256)
"""Of a row."""
THREADS = 128
"""Of a block, at least."""
MOST, LEAST = 64, 4
"""Results of a row in a lane."""
AT_ONCE = 4
"""And of these, at a time."""


def staged_scans(situation: Situation) -> list[Proposal]:
    """Proposals for groups of scans along the contiguous class, or what is computed of them, that are read at several
    places of it."""
    inner, scans = situation.inner, situation.scans
    if situation.target.kind == "cpu" or inner is None or not scans or situation.reductions or situation.tiles:
        return []
    along = [situation.classes.of[s.id, s.scanned] for s in scans if s.scanned is not None and not s.lags and not s.run]
    if len(along) < len(scans) or any(axis is not inner for axis in along):
        return []
    reach = _reach(situation, inner)
    if situation.classes.mirrored or not situation.has_much or not reach:
        return []
    width = situation.width(inner.extent, flat=False)
    piece = scanned_piece(situation, width)
    shapes = [_shape(situation.size(inner.extent), lanes, reach, piece) for lanes in LANES]
    found = [shape for shape in shapes if LEAST <= shape.chunks <= MOST]
    return [_proposal(situation, inner, scans, shape, width) for shape in found]


@dataclass(frozen=True, slots=True)
class _Shape:
    """Lanes of a row, results of each, neighbours that each scans at once, and trips through all prefixes that results
    of padding would need."""

    lanes: int
    chunks: int
    width: int
    trips: int


def _shape(size: int, lanes: int, reach: int, width: int) -> _Shape:
    chunks = -(-size // (AT_ONCE * lanes)) * AT_ONCE
    return _Shape(lanes, chunks, width, -(-(chunks * lanes + reach) // (lanes * width)))


def _reach(situation: Situation, inner: AxisClass) -> int:
    """How far behind its own place along `inner` a result needs prefixes, or what is computed of them; 0 where it needs
    none elsewhere, or in front of it."""
    running, reach = set[int](), dict[int, int]()
    for statement in situation.group.statements():
        if statement.scanned is not None or any(read.source in running for read in statement.reads):
            running.add(statement.id)
    for statement in reversed(situation.group.statements()):
        axes = situation.classes.statement(statement)
        names = [f"%{d}" for d, axis in enumerate(axes) if axis is inner]
        for read in statement.reads:
            for entry in read.index if read.source in running else ():
                if isinstance(entry, Affine) and any(entry.coefficient(name) for name in names):
                    shift = entry - Affine.symbol(names[0])
                    if not shift.is_constant or shift.constant < 0:
                        return 0
                    behind = reach.get(statement.id, 0) + shift.constant
                    reach[read.source] = max(reach.get(read.source, 0), behind)
    return max(reach.values(), default=0)


def _proposal(
    situation: Situation, inner: AxisClass, scans: tuple[Statement, ...], shape: _Shape, width: int
) -> Proposal:
    """`width`: of an access."""
    lanes = shape.lanes
    parallel = situation.nearest(a for a in situation.axes if a is not inner)
    rows = max(1, THREADS // lanes) if parallel else 1
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, rows)
    c, v, r = slot("c", AT_ONCE), slot("v", shape.width), loop("r", Affine.of(shape.trips))
    q = loop("q", Affine.of(shape.chunks // AT_ONCE))
    longest = max(parallel, key=lambda a: (a.size(situation.hints), -a.number), default=None)
    dealt = parallel[:1] if longest is None or rows == 1 else [longest]
    digits, splits = block_digits(parallel, {a.number: rows for a in dealt}, ty)
    of = situation.classes.of
    in_order = splits | {inner.number: mixed((r, lanes * shape.width), (tx, shape.width), (v, 1))}
    staging = {s.id: Staging(at=tuple(in_order[of[s.id, d].number] for d in s.kept), vector=shape.width) for s in scans}
    splits[inner.number] = mixed((q, AT_ONCE * lanes), (c, lanes), (tx, 1))
    least = lanes * (shape.chunks - AT_ONCE)
    return Proposal(
        "rows",
        (("threads", lanes * rows), ("lanes", lanes), ("staged", 1), ("chunks", shape.chunks), ("vector", shape.width)),
        kept_digits([*digits, tx, ty, r, q, c, v], keep_threads=True),
        anchors(situation, splits),
        loops=tuple(d.name for d in (r, q) if d.extent != ONE),
        staging=staging,
        guards=(*situation.divisible(inner.extent, width), *bucket(inner.extent, least, lanes * shape.chunks)),
    )
