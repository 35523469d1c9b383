"""Reduced classes that no statement has together: the same lanes have parts of each, one class after the other.

    d[i] = sum_j x[i, j] - sum_k y[i, k]      j = TX*V*c + V*tx + v,   k = TX*V'*c' + V'*tx + v'

A loop in every lane over all of the second would read each of its elements once per lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polyfuse.affine import ONE, Affine
from polyfuse.bindings import AnyGuard
from polyfuse.schedule import Digit
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.situation import Situation, loop, mixed, power_above, slot


@dataclass(frozen=True, slots=True)
class Dealt:
    """Digits, loops, splits and guards of classes that are dealt to the lanes of another one."""

    slots: tuple[Digit, ...] = ()
    loops: tuple[Digit, ...] = ()
    splits: tuple[tuple[int, Affine], ...] = ()
    guards: tuple[AnyGuard, ...] = ()


def siblings(situation: Situation, main: AxisClass, over: Sequence[AxisClass]) -> list[AxisClass]:
    """Those of the reduced classes `over` that share no statement with `main`, nor with each other."""
    if situation.target.kind == "cpu" or main.scanned_by:
        return []
    if all(axis is main for axis in over):  # nearly always
        return []
    together = [frozenset(situation.classes.statement(s)) for s in situation.group.statements()]
    found: list[AxisClass] = []
    for axis in over:
        apart = not any(axis in axes and (main in axes or axes & set(found)) for axes in together)
        if axis is not main and not axis.scanned_by and apart:
            found.append(axis)
    return found


def dealt_to(
    situation: Situation, axes: Iterable[AxisClass], lanes: Digit, widths: Sequence[int], most: int
) -> Dealt:
    """`axes` over `lanes`, in vectors of as many elements as `widths` say; a lane has `most` elements at a time."""
    dealt = Dealt()
    for k, (axis, width) in enumerate(zip(axes, widths, strict=True)):
        size, span = axis.size(situation.hints), lanes.count * width
        total = power_above(-(-size // span))
        c, v = slot(f"c{k}", min(total, max(1, most // width))), slot(f"v{k}", width)
        r, guards = loop(f"r{k}", axis.extent.ceildiv(span * c.count)), situation.divisible(axis.extent, width)
        if c.count == total:
            r = loop(f"r{k}", ONE)
            guards = (*guards, *situation.fits(axis.extent, span * total))
        split = mixed((r, span * c.count), (c, span), (lanes, width), (v, 1))
        dealt = Dealt(
            (*dealt.slots, c, v),
            (*dealt.loops, *([r] if c.count < total else [])),
            (*dealt.splits, (axis.number, split)),
            (*dealt.guards, *guards),
        )
    return dealt
