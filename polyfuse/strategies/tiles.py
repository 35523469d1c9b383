"""Elementwise groups on two-dimensional tiles: transposed reads and stencils through shared memory.

u[i, j] = f(x[i-1, j], ...), y[i, j] = g(u[i, j-1], ...)      u (and x) in boxes with a halo; recomputed at their edges
"""

from __future__ import annotations

from collections.abc import Sequence

from polyfuse.affine import Affine
from polyfuse.places.proposal import Proposal, Staging
from polyfuse.schedule import Digit
from polyfuse.scop import Read
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.copied_tiles import copied_tiles
from polyfuse.strategies.pointwise import anchors, kept_digits
from polyfuse.strategies.situation import Situation, block, mixed, power_above, slot, thread
from polyfuse.strategies.turned_tiles import turned_tiles

THREADS = 256
STENCIL_ROWS, STENCIL_COLUMNS = 32, 64
FARTHEST = 4
"""Elements of a row between those that lanes side by side read, at most: further apart each has a sector of its own."""


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
    for along in dict.fromkeys((inner, axes[-1])):  # what most arrays run along, and what is written along
        crossing = crossing_reads(situation, along, FARTHEST)
        for outer in sorted({b for _, b in crossing}, key=lambda a: -a.weight)[:1]:
            values = [v for v, b in crossing if b is outer]
            strided = _are_strided(situation, values, (along, outer))
            made = list(turned_tiles(situation, axes, along, outer, values, strided=strided))
            made += [] if strided else [copied_tiles(situation, axes, along, outer, values)]
            found += [proposal for proposal in made if proposal is not None]
    neighbours = _neighbours(situation)
    if neighbours and len(axes) >= 2:
        found.append(_stencil(situation, axes, inner, neighbours))
    return found


def _reads(situation: Situation) -> list[tuple[tuple[AxisClass, ...], Read]]:
    return [
        (situation.classes.statement(s), read) for s in situation.group.statements() for read in s.reads if read.index
    ]


def crossing_reads(situation: Situation, inner: AxisClass, farthest: int = 1) -> list[tuple[int, AxisClass]]:
    """Loaded arrays that are read along another class than the inner one, `farthest` elements of a row apart at most.
    """
    found: dict[tuple[int, int], tuple[int, AxisClass]] = {}
    for axes, read in _reads(situation):
        last = read.index[-1]
        if read.source not in situation.group.loads or not isinstance(last, Affine) or not read.affine:
            continue
        along = [axes[int(a[1:])] for a, f in last.terms if isinstance(a, str) and a[0] == "%" and abs(f) <= farthest]
        elsewhere = {axes[int(n[1:])].number for e in read.index[:-1] if isinstance(e, Affine) for n in _dims(e)}
        if along and along[0].number != inner.number and inner.number in elsewhere:
            found[(read.source, along[0].number)] = (read.source, along[0])
    return list(found.values())


def _are_strided(situation: Situation, values: Sequence[int], tile: tuple[AxisClass, AxisClass]) -> bool:
    """Whether some elements between those that are read of these arrays along the classes of a tile are not."""
    for axes, read in _reads(situation):
        for entry in read.index if read.source in values else ():
            for atom, factor in entry.terms if isinstance(entry, Affine) else ():
                if abs(factor) > 1 and isinstance(atom, str) and atom[0] == "%" and axes[int(atom[1:])] in tile:
                    return True
    return False


def _dims(entry: Affine) -> list[str]:
    return [n for n in entry.names() if n.startswith("%")]


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
