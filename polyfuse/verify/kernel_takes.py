"""Rules of `Take`: register numbers are known when the kernel is compiled, and exist."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NoReturn

from polyfuse.affine import Affine
from polyfuse.kernel import Kernel, Take
from polyfuse.kernel_types import Types, expression_type
from polyfuse.verify.intervals import Interval, interval


def check_take(kernel: Kernel, types: Types, op: Take, refuse: Callable[[str], NoReturn]) -> None:
    """`refuse` raises with the operation's name."""
    axes = expression_type(op.value, types, kernel).axes
    extents = {s.name: s.extent for s in kernel.slots}
    ranges = {f"${name}": Interval(0, extent - 1) for name, extent in extents.items()}
    counted = [slot for slots, _ in op.index for slot in slots]
    for slot in counted:
        if slot not in extents:
            refuse(f"there is no slot {slot}; the kernel has {list(extents)}")
        if counted.count(slot) > 1:
            refuse(f"the slot {slot} is taken at two numbers")
    for slots, at in op.index:
        varying = [s for s in slots if s in axes]
        if varying and [s for s in slots if extents[s] > 1] != [s for s in varying if extents[s] > 1]:
            refuse(f"{op.value.name} varies over {varying} only of the slots {list(slots)}, which count one number")
        if not _side_by_side([s for s in slots if extents[s] > 1], axes, kernel):
            refuse(f"the slots {list(slots)} do not lie side by side in {op.value.name}")
        _inside(at, prod(extents[s] for s in slots), ranges, refuse)


def _side_by_side(slots: Sequence[str], axes: frozenset[str], kernel: Kernel) -> bool:
    order = [s.name for s in kernel.slots if s.name in axes and s.extent > 1]
    if not slots or not set(slots) & axes:
        return True
    first = order.index(slots[0])
    return order[first : first + len(slots)] == list(slots)


def _inside(at: Affine, count: int, ranges: dict[str, Interval], refuse: Callable[[str], NoReturn]) -> None:
    for name in sorted(at.names()):
        if name not in ranges:
            refuse(f"the register number {at} reads {name}, which is no slot")
    found = interval(at, ranges)
    if found.low is None or found.high is None or found.low < 0 or found.high >= count:
        refuse(f"the register number {at} leaves 0 .. {count - 1}")
