"""Loops over further reduced classes, and which of them go inside which."""

from __future__ import annotations

import math

from polyfuse.affine import Affine
from polyfuse.schedule import Digit
from polyfuse.strategies.classes import AxisClass
from polyfuse.strategies.situation import Situation, block, loop, mixed

NEAR = 128 << 10
"""Bytes from one element of a class to the next, up to which its loop goes inside that of a class further out.  On an
H100, largest of axes 0 and 2 of 15825 x 9 x 4 x 78 float32, of which a copy is made, 267 us with the loop over four
rows of 312 bytes outside, 210 inside: sectors that two of them share are stored, and asked for, at once.  Of axes 0 and
1 of 4000 x 2 x 1151 x 16, 74 KB a step, and of what lies a step behind, 799 and 600.  But least of axes 0 and 1 of 118
x 7 x 71 x 1629, 463 KB a step, 422 to 452 us outside and 465 inside."""


def around(situation: Situation, main: AxisClass, rest: list[AxisClass]) -> tuple[list[AxisClass], list[AxisClass]]:
    """Further reduced classes whose loops go around that of `main`, and those whose loops go inside."""
    if situation.target.kind == "cpu" or any(a.scanned_by for a in (main, *rest)):
        return rest, []
    order = [axis.number for axis in situation.classes.statement(situation.lead)]
    sizes = {axis.number: axis.size(situation.hints) for axis in situation.axes}
    itemsize = max(situation.long_itemsizes, default=4)

    def is_near(axis: AxisClass) -> bool:
        if axis.number not in order or main.number not in order[: order.index(axis.number)]:
            return False
        behind = [sizes.get(number, 1) for number in order[order.index(axis.number) + 1 :]]
        return math.prod(behind) * itemsize <= NEAR

    return [a for a in rest if not is_near(a)], [a for a in rest if is_near(a)]


def outer_loops(axes: list[AxisClass], blocks: list[Digit]) -> tuple[list[Digit], dict[int, Affine]]:
    """A loop per class; for one that is scanned in runs, in a run of the block's own, whose digit joins `blocks`."""
    digits, splits = list[Digit](), dict[int, Affine]()
    for n, axis in enumerate(axes):
        run = run_block(axis, blocks)
        digits.append(loop(f"k{n}", Affine.of(axis.run) if run is not None else axis.extent))
        splits[axis.number] = mixed((run, axis.run), (digits[-1], 1))
    return digits, splits


def run_block(axis: AxisClass, blocks: list[Digit]) -> Digit | None:
    """The block digit that deals the runs of a scan, added to `blocks`; None where the scan goes along the whole."""
    if not axis.run:
        return None
    blocks.append(block(f"b{len(blocks)}", axis.extent.ceildiv(axis.run)))
    return blocks[-1]
