"""Reductions and scans whose order of additions depends on what they run over, and on nothing else.

    rows      last dimension reduced:   j = S*r + TX*V*c + V*tx + v      lanes and slots by the length of the row alone
    columns   last dimension kept:      i = TY*U*r + TY*u + ty           threads and slots by the rows reduced alone

The usual strategies deal rows to lanes, blocks and clusters as their number, their dtypes, the alignment of the arrays
and the other statements of the kernel make it cheap, and so do libraries with products of matrices.  With the option
`batch_invariant` every reduction has the one split that this file gives it, in whatever kernel it stands: a row then
has the same bits among 3 rows as among 3 million.  Guards are exact for the same reason: a plan serves no length of
rows for which another plan would be made.
"""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.places.proposal import Proposal
from polyfuse.schedule import Digit
from polyfuse.scop import Statement
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.situation import Situation, block, block_digits, loop, mixed, power_above, slot, thread

VECTOR = 4  # elements of any dtype that a lane takes side by side, where they divide the row
ROWS = ((256, 8), (1024, 32), (4096, 256), (16384, 512), (32768, 1024))
"""(longest row, lanes that hold it in registers); longer rows loop."""
LOOPED = (512, 16)  # (lanes, elements a lane takes per trip) of longer rows
SCAN_LANES = 256
COLUMN_LANES = 8  # of vectors along the kept dimension: where threads of one column lie decides how they combine
COLUMNS = ((64, 8, 1), (None, 64, 4))  # (most rows reduced, threads they are dealt to, rows a thread unrolls)
CPU_VECTOR, CPU_UNROLL = 16, 4


@dataclass(frozen=True, slots=True)
class Kind:
    """What the reductions and scans of one kernel have in common: the classes they run over, in the order of their
    dimensions; whether the last dimension is one; whether they are scans."""

    over: tuple[AxisClass, ...]
    rows: bool
    scans: bool


def batch_invariant(situation: Situation) -> list[Proposal]:
    """The proposal for a group with reductions or scans; none where they cannot share a kernel and keep their order."""
    found = {_kind(situation, s) for s in (*situation.reductions, *situation.scans)}
    kind = found.pop()
    if found or kind is None:
        return []
    made = _rows(situation, kind) if kind.rows else _columns(situation, kind)
    return [made] if made is not None else []


def _kind(situation: Situation, statement: Statement) -> Kind | None:
    """None where the class of a dimension is longer than the dimension: another value would decide how it is dealt."""
    axes = situation.classes.statement(statement)
    dims = statement.reduced if statement.scanned is None else (statement.scanned,)
    if any(axes[d].extent != statement.extents[d] for d in dims):
        return None
    return Kind(tuple(axes[d] for d in dims), len(axes) - 1 in dims, statement.scanned is not None)


def _exact(extent: Affine, above: int, up_to: int | None) -> tuple[AnyGuard, ...]:
    """That ``above < extent <= up_to``."""
    if extent.is_constant:
        return ()
    low = (Guard(extent - above - 1),) if above else ()
    return (*low, Guard(Affine.of(up_to) - extent)) if up_to is not None else low


def _width(situation: Situation, extent: Affine) -> tuple[int, tuple[AnyGuard, ...]]:
    """`VECTOR` where it divides the row, else 1; what says so."""
    whole = situation.size(extent) % VECTOR == 0
    known = extent.is_constant or (all(f % VECTOR == 0 for _, f in extent.terms) and extent.constant % VECTOR == 0)
    return VECTOR if whole else 1, () if known else (Guard(extent, VECTOR, negated=not whole),)


def _others(kind: Kind, main: AxisClass) -> tuple[list[Digit], dict[int, Affine]]:
    """Loops over the further classes, the first dimension outermost."""
    rest = [axis for axis in kind.over if axis is not main]
    digits = [loop(f"k{n}", axis.extent) for n, axis in enumerate(rest)]
    return digits, {axis.number: mixed((d, 1)) for axis, d in zip(rest, digits, strict=True)}


def _parallel(situation: Situation, kind: Kind) -> list[AxisClass]:
    """Classes that nothing runs over, the longest first: blocks of a launch in their order."""
    axes = [axis for axis in situation.axes if axis not in kind.over]
    return sorted(axes, key=lambda axis: (-axis.size(situation.hints), axis.number))


def _rows(situation: Situation, kind: Kind) -> Proposal:
    main, parallel = kind.over[-1], _parallel(situation, kind)
    lanes, chunks, width, trips, guards = _row_shape(situation, kind, main.extent)
    rows = max(1, 256 // lanes) if parallel and situation.target.kind != "cpu" and not kind.scans else 1
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, rows)
    c, v, r = slot("c", chunks), slot("v", width), loop("r", trips)
    digits, splits = block_digits(parallel, {a.number: rows for a in parallel[:1]}, ty)
    loops, loop_splits = _others(kind, main)
    span = lanes * width
    splits |= loop_splits
    splits[main.number] = mixed((r, span * chunks), (c, span), (tx, width), (v, 1))
    kept = kept_digits([*digits, tx, ty, *loops, r, c, v], keep_threads=True)
    return Proposal(
        "rows",
        (("threads", lanes * rows), ("lanes", lanes), ("chunks", chunks), ("vector", width)),
        kept,
        anchors(situation, splits),
        loops=tuple(d.name for d in [*loops, r] if d in kept),
        guards=guards,
    )


def _row_shape(situation: Situation, kind: Kind, extent: Affine) -> tuple[int, int, int, Affine, tuple[AnyGuard, ...]]:
    """(lanes, chunks, elements side by side, trips, guards) by the length of the row alone."""
    if situation.target.kind == "cpu":
        return 1, 1, CPU_VECTOR, extent.ceildiv(CPU_VECTOR), ()
    width, guards = _width(situation, extent)
    if kind.scans:
        return SCAN_LANES, 1, width, extent.ceildiv(SCAN_LANES * width), guards
    n, floor = situation.size(extent), 0
    for longest, lanes in ROWS:
        if n <= longest:
            return lanes, longest // (lanes * width), width, Affine.of(1), (*guards, *_exact(extent, floor, longest))
        floor = longest
    lanes, elements = LOOPED
    return lanes, elements // width, width, extent.ceildiv(lanes * elements), (*guards, *_exact(extent, floor, None))


def _columns(situation: Situation, kind: Kind) -> Proposal | None:
    main, parallel = kind.over[-1], _parallel(situation, kind)
    some = next(s for s in (*situation.reductions, *situation.scans))
    inner = situation.classes.statement(some)[-1]
    if inner not in parallel:
        return None
    cpu = situation.target.kind == "cpu"
    guards: tuple[AnyGuard, ...] = ()
    width = situation.width(inner.extent, flat=False)
    lanes = 1 if cpu else COLUMN_LANES
    rows, unroll, exact = _column_shape(situation, kind, main.extent)
    if not cpu:
        guards = situation.divisible(inner.extent, width)
        lanes = lanes if not kind.scans else min(128, power_above(-(-inner.size(situation.hints) // width)))
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, rows)
    u, v, r = slot("u", unroll), slot("v", width), loop("r", main.extent.ceildiv(rows * unroll))
    digits, splits = block_digits([a for a in parallel if a is not inner], {})
    digits.append(block(f"b{len(digits)}", inner.extent.ceildiv(lanes * width)))
    loops, loop_splits = _others(kind, main)
    splits |= loop_splits
    splits[inner.number] = mixed((digits[-1], lanes * width), (tx, width), (v, 1))
    splits[main.number] = mixed((r, rows * unroll), (u, rows), (ty, 1))
    kept = kept_digits([*digits, tx, ty, *loops, r, u, v], keep_threads=True)
    return Proposal(
        "columns",
        (("threads", lanes * rows), ("lanes", lanes), ("unroll", unroll), ("vector", width)),
        kept,
        anchors(situation, splits),
        loops=tuple(d.name for d in [*loops, r] if d in kept),
        guards=(*guards, *exact),
    )


def _column_shape(situation: Situation, kind: Kind, extent: Affine) -> tuple[int, int, tuple[AnyGuard, ...]]:
    """(threads along the reduced class, rows each unrolls, guards) by the number of rows reduced alone."""
    if kind.scans:
        return 1, 1, ()
    if situation.target.kind == "cpu":
        return 1, CPU_UNROLL, ()
    n, floor = situation.size(extent), 0
    for most, rows, unroll in COLUMNS:
        if most is None or n <= most:
            return rows, unroll, _exact(extent, floor, most)
        floor = most
    raise AssertionError("the last shape serves any number of rows")
