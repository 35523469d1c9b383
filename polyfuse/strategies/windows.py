"""Elementwise groups that read neighbours: several rows and a vector per thread, what it needs in windows of registers.

y[i, j] = f(x[i, j], x[i+1, j], x[i, j+1], ...)      i = 64*b1 + 8*ty + q,  j = 128*b0 + 4*tx + v
x[i, j] for all needs of a thread: a window of 9 x 8 registers, 18 loads of four; a value computed in between likewise
"""

from __future__ import annotations

from polyfuse.affine import Affine
from polyfuse.bindings import AnyGuard, Guard
from polyfuse.expr import IndexEntry
from polyfuse.places.proposal import Proposal, Windows
from polyfuse.schedule import Digit
from polyfuse.scop import Read
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.situation import Situation, block, mixed, power_above, power_below, slot, thread

THREADS = 256
LANES = 32  # of a block along the rows: a warp reads whole lines, and few halo elements above and below
ROWS = (8, 4, 2)  # per thread: a 3 x 3 stencil loads 10/8, 6/4 or 4/2 rows per row of results
BYTES = 64  # a thread's loads in flight, per array


def windows(situation: Situation) -> list[Proposal]:
    """Proposals for elementwise groups in which some array is read at neighbouring elements or along a shifted,
    reversed or strided row."""
    if situation.reductions or situation.scans or situation.target.kind == "cpu":
        return []
    axes = situation.classes.statement(situation.lead)
    inner = situation.inner
    covered = {a.number for a in axes}
    if inner is None or inner.number not in covered or any(a.number not in covered for a in situation.axes):
        return []
    moved = _moved_axes(situation, inner)
    if not moved:
        return []
    others = [a for a in axes if a is not inner]
    outer = max(others, key=lambda a: (a in moved, axes.index(a)), default=None)
    extent = situation.lead.extents[axes.index(inner)]
    widths = dict.fromkeys((_width(situation, extent, flat=not others), 1))
    wanted = (situation.tiles["rows"],) if "rows" in situation.tiles else ROWS
    return [_proposal(situation, axes, inner, outer, width, rows) for width in widths for rows in wanted]


def _moved_axes(situation: Situation, inner: AxisClass) -> set[AxisClass]:
    """Classes along which some array is read at several elements, or, of the inner one, at other than its own."""
    found: set[AxisClass] = set()
    reads: dict[int, list[tuple[tuple[AxisClass, ...], Read]]] = {}
    for statement in situation.group.statements():
        for read in statement.reads:
            if read.affine and read.index:
                reads.setdefault(read.source, []).append((situation.classes.statement(statement), read))
    for same in reads.values():
        for axes, read in same:
            moved = _moved(read.index[-1])
            found |= {inner} if inner in [axes[d] for d in moved] else set()
            for d, entry in enumerate(read.index):
                if any(r.index[d] != entry for _, r in same):
                    found |= {axes[k] for k in _dims(entry)}
    return found


def _dims(entry: IndexEntry) -> list[int]:
    return [int(n[1:]) for n in entry.names() if n.startswith("%")] if isinstance(entry, Affine) else []


def _moved(entry: IndexEntry) -> list[int]:
    """Dimensions by which an index is shifted, reversed or strided."""
    plain = isinstance(entry, Affine) and not entry.constant and all(f == 1 for _, f in entry.terms)
    return [] if plain else _dims(entry)


def _width(situation: Situation, extent: Affine, *, flat: bool) -> int:
    """The widest vector that divides the rows of the results and of every array that runs along the same class."""
    width = situation.width(extent, flat=flat)
    for value in situation.group.loads | situation.group.roots:
        shape = situation.scop.shape(value)
        while width > 1 and len(shape) > 1 and situation.size(shape[-1]) % width:
            width //= 2
    return width


def _proposal(
    situation: Situation,
    axes: tuple[AxisClass, ...],
    inner: AxisClass,
    outer: AxisClass | None,
    width: int,
    rows: int,
) -> Proposal:
    threads = power_below(situation.tiles.get("threads", THREADS))
    lanes = LANES * (2 if width == 1 else 1) if outer is not None else threads
    lanes = min(threads, lanes, power_above(-(-max(1, inner.size(situation.hints)) // width)))
    tx, ty = thread("tx", 1, lanes), thread("ty", lanes, threads // lanes)
    v, u = slot("v", width), slot("u", rows if outer is None else 1)
    span = lanes * width * u.count
    b = block("b0", inner.extent.ceildiv(span))
    splits = {inner.number: mixed((b, span), (u, lanes * width), (tx, width), (v, 1))}
    digits: list[Digit] = [b]
    q = slot("q", rows if outer is not None else 1)
    for k, axis in enumerate(a for a in axes if a is not inner):
        step = ty.count * q.count if axis is outer else 1
        b = block(f"b{k + 1}", axis.extent.ceildiv(step))
        digits.append(b)
        splits[axis.number] = mixed((b, step), *(((ty, q.count), (q, 1)) if axis is outer else ()))
    values = situation.group.loads | situation.group.body - situation.group.roots
    return Proposal(
        "windows",
        (("threads", threads), ("rows", rows), ("vector", width)),
        kept_digits([*digits, tx, ty, u, q, v], keep_threads=True),
        anchors(situation, splits),
        guards=_guards(situation, situation.lead.extents[axes.index(inner)], width, flat=outer is None),
        windows=Windows(("q", "v"), {value: width if value in situation.group.loads else 1 for value in values}),
        border=True,
    )


def _guards(situation: Situation, extent: Affine, width: int, *, flat: bool) -> tuple[AnyGuard, ...]:
    """That `width` divides every row that was looked at, and that no wider vector would."""
    if flat:
        return ()
    found = dict.fromkeys(situation.divisible(extent, width))
    for value in sorted(situation.group.loads | situation.group.roots):
        for row in situation.scop.shape(value)[1:][-1:]:
            whole = all(f % width == 0 for _, f in row.terms) and row.constant % width == 0
            found |= dict.fromkeys(() if whole else (Guard(row, width),))
    return tuple(found)
