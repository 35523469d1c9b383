"""Blocks that are threads of a block of the device, as prices see them: as threads along what they lie along.

    y[$b1, $b0]   $b0 < 513, $b1 < 512, 256 of them a block   ->   y[$b1, 171*$b0 + $b0.lane]   $b0 < 3, $b0.lane < 171
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polyfuse.affine import Affine, digit
from polyfuse.schedule import Digit, KernelSchedule, Placed


def as_threads(schedule: KernelSchedule, hints: Mapping[str, int]) -> KernelSchedule:
    """The schedule with thread digits in place of the innermost blocks, of which there are as many as fit evenly: as
    many threads in all, but for a few."""
    if schedule.packed == 1:
        return schedule
    digits, places = list[Digit](), dict[str, Affine]()
    left, stride = schedule.packed, 1
    for d in sorted(schedule.of_kind("block"), key=lambda d: int(d.name[1:])):
        count = max(1, d.extent.evaluate(hints))
        blocks = -(-count // left)
        lanes = -(-count // blocks)
        lane = Digit(f"{d.name}.lane", "thread", Affine.of(lanes), stride)
        digits += [Digit(d.name, "block", Affine.of(blocks)), lane]
        places[f"${d.name}"] = digit(d.name) * lanes + digit(lane.name)
        left, stride = max(1, left // lanes), stride * lanes
    rest = [d for d in schedule.digits if d.kind != "block"]
    return replace(schedule, digits=(*digits, *rest), placed=tuple([_moved(p, places) for p in schedule.placed]))


def _moved(placed: Placed, places: Mapping[str, Affine]) -> Placed:
    return placed.moved(tuple([e if isinstance(e, str) else e.substitute(places) for e in placed.place]))
