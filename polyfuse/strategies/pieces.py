"""Into how many pieces the conditions of a group cut a row: a CPU core goes through each by itself.

    y = where(j < n, a[i, j], b[i, j - n]):  2        pad(x, 1):  3
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from polyfuse.affine import ZERO, Affine
from polyfuse.bindings import Guard
from polyfuse.dependences import known_sizes
from polyfuse.scop import Statement
from polyfuse.sets import BudgetExceeded, Constraint, implied
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.situation import Situation
from polyfuse.terms import conditions
from polyfuse.wanted import as_condition

LEAST = 4
"""Elements of a piece, on average, from which a loop of its own is worth entering."""
LONGEST = 1 << 23
"""Elements of a row of which 32 bits hold as many times as many as a vector has: what is divided by that to count the
vectors of a piece."""
MOST = 16384
"""Elements of a piece, on average, up to which rows are had as a whole: blocks of longer ones lie in one, but for a
few, and test once which.  An array of 300 x 20000 float32, padded by what lies across, and summed over neighbours: 2.2
ms on two cores of an EPYC in pieces, 6.4 in blocks."""

ALONE = 32 * 1024
"""Elements that the caller's thread computes by itself."""

MASKED = 3.0
"""Times that reading and choosing one of several pieces takes, masked, of what the wanted one takes by itself: 40
arrays of 5000 float64 took two cores twenty times as long in blocks of 4096 as one core in pieces
(benchmarks/results/cpu_pieces.json)."""
BLOCK = 4096  # elements of those, see `pointwise`


def pieces(situation: Situation, inner: AxisClass) -> int:
    """How many pieces of a row of `inner` begin anywhere in it, at most; 1 where each is whole."""
    return 1 + sum(len(borders) for _, borders in _borders(situation, inner))


def order(situation: Situation, inner: AxisClass) -> tuple[Guard, ...]:
    """The guards that pieces begin inside of their rows, as far as nothing else says so: of the first seven columns,
    that there are seven.  None of what does not hold at the hinted sizes."""
    found: dict[Affine, None] = {}
    for statement, borders in _borders(situation, inner):
        extents = {f"%{d}": extent - 1 for d, extent in enumerate(statement.extents)}
        axes = situation.classes.statement(statement)
        row = next(n for n, axis in zip(statement.extents, axes, strict=True) if axis is inner)
        for border in sorted(borders, key=str):
            most = {name: last if border.coefficient(name) > 0 else ZERO for name, last in extents.items()}
            least = {name: last if border.coefficient(name) < 0 else ZERO for name, last in extents.items()}
            found |= dict.fromkeys((row - border.substitute(most), border.substitute(least)))
    open_ = [c for c in found if not c.is_constant and not _is_positive(c) and c.evaluate(situation.hints) >= 0]
    known = known_sizes(situation.scop.program, ()) if open_ else ()
    return tuple([Guard(c) for c in open_ if not _follows(c, known)])


def _is_positive(expression: Affine) -> bool:
    return expression.constant >= 0 and all(factor > 0 for _, factor in expression.terms)


def _follows(condition: Affine, known: Sequence[Constraint]) -> bool:
    try:
        return implied(condition, known)
    except BudgetExceeded:
        return False


def _borders(situation: Situation, inner: AxisClass) -> list[tuple[Statement, set[Affine]]]:
    """Per statement where the conditions of its reads and its own begin or cease to hold along `inner`."""
    if inner.number not in situation.borders:
        situation.borders[inner.number] = [
            (statement, found)
            for statement in situation.group.statements()
            if (found := set(_borders_of(statement, situation.classes.statement(statement), inner)))
        ]
    return situation.borders[inner.number]


def _borders_of(statement: Statement, axes: Sequence[AxisClass], inner: AxisClass) -> Iterator[Affine]:
    along = [f"%{d}" for d, axis in enumerate(axes) if axis is inner]
    own = [where for body in statement.body for where in conditions(as_condition(body))]
    for condition in {w for where in (*own, *[read.where for read in statement.reads]) for w in where}:
        for name in along:
            factor = condition.coefficient(name)
            if abs(factor) == 1:
                rest = condition - Affine.symbol(name) * factor
                yield -rest if factor > 0 else rest + 1


def of_rows(situation: Situation, inner: AxisClass) -> int:
    """How many pieces a core goes through one by one of a row that it has as a whole; 1 where it does not."""
    count = pieces(situation, inner) if situation.target.kind == "cpu" else 1
    return count if LEAST * count <= inner.size(situation.hints) < LONGEST else 1


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
