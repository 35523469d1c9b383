"""Into how many pieces the conditions of a group cut a row: a CPU core goes through each by itself.

    y = where(j < n, a[i, j], b[i, j - n]):  2        pad(x, 1):  3
"""

from __future__ import annotations

import math

from polyfuse.affine import Affine
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.situation import Situation

LEAST = 4
"""Elements of a piece, on average, from which a loop of its own is worth entering."""
MOST = 16384
"""Elements of a piece, on average, up to which rows are had as a whole: blocks of longer ones lie in one, but for a
few, and test once which.  An array of 300 x 20000 float32, padded by what lies across, and summed over neighbours: 2.2
ms on two cores of an EPYC in pieces, 6.4 in blocks."""

ALONE = 32 * 1024
"""Elements that the caller's thread computes by itself."""

MASKED = 3.0
"""Times that reading and choosing one of several pieces takes, masked, of what the wanted one takes by itself: 40 arrays
of 5000 float64 took two cores 0.84 ms in blocks of 4096, one core 0.05 in pieces."""
BLOCK = 4096  # elements of those, see `pointwise`


def pieces(situation: Situation, inner: AxisClass) -> int:
    """How many pieces of a row of `inner` begin anywhere in it, at most; 1 where each is whole."""
    borders: set[tuple[int, Affine]] = set()
    for statement in situation.group.statements():
        axes = situation.classes.statement(statement)
        along = {f"%{d}" for d, axis in enumerate(axes) if axis is inner}
        for condition in {w for read in statement.reads for w in read.where}:
            for name in along & condition.names():
                factor = condition.coefficient(name)
                if abs(factor) == 1:
                    rest = condition - Affine.symbol(name) * factor
                    borders.add((statement.id, -rest if factor > 0 else rest + 1))
    return len(borders) + 1


def of_rows(situation: Situation, inner: AxisClass) -> int:
    """How many pieces a core goes through one by one of a row that it has as a whole; 1 where it does not."""
    count = pieces(situation, inner) if situation.target.kind == "cpu" else 1
    return count if LEAST * count <= inner.size(situation.hints) else 1


def of_short_rows(situation: Situation, inner: AxisClass) -> int:
    """The same of an elementwise group, whose rows need not be had as a whole: where most blocks would lie in several
    pieces, and there are several rows for each core, or so few cores that this makes up for those that have none."""
    if situation.target.kind != "cpu" or situation.reductions or situation.scans:
        return 1
    size = inner.size(situation.hints)
    rows = math.prod(a.size(situation.hints) for a in situation.axes if a is not inner)
    count = of_rows(situation, inner) if situation.width(inner.extent, flat=False) > 1 else 1
    if count == 1 or size >= MOST * count:
        return 1
    processors = situation.target.processors
    torn = MASKED * count * min(1.0, BLOCK * count / size)  # of a block that lies in several, what it reads of all
    is_shared = rows >= 4 * processors or rows * size <= ALONE or processors <= (1 + torn) * rows
    return count if is_shared else 1
