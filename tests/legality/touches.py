"""What the threads of a block do in shared memory, and what can be wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.legality.machine import Element, Machine


@dataclass(frozen=True)
class CellTouch:
    """One access to one cell of a shared box.  `fills`: the pass of the loops that the box is pinned to.  `epochs`: the
    barriers before it, all of them, and those that every block comes to.  `elected`: only an elected block does it."""

    time: int
    epochs: tuple[int, int]
    move: str
    writes: bool
    thread: int
    cell: Element
    element: Element
    fills: tuple[Any, ...]
    stale: bool = False
    elected: bool = False


def races(machine: Machine, touches: Sequence[tuple[CellTouch, int]]) -> None:
    """Two threads in one cell between the same barriers, one of them writing."""
    met: dict[tuple[int, Element, int], list[CellTouch]] = {}
    for touch, epoch in touches:
        met.setdefault((machine.placed[touch.move].value, touch.cell, epoch), []).append(touch)
    for (value, cell, _), together in met.items():
        threads = {t.thread for t in together}
        if len(threads) > 1 and any(t.writes for t in together):
            machine.fault("barrier", f"threads {sorted(threads)} meet in cell {cell} of value {value}")


def read_what_was_put(machine: Machine, touches: Sequence[CellTouch]) -> None:
    """Every element that a get reads was put, before it, and by blocks like the one that reads."""
    put: dict[tuple[str, tuple[Any, ...], Element, bool], int] = {}
    for t in (t for t in touches if t.writes):
        put.setdefault((t.move, t.fills, t.element, True), t.time)
        if not t.elected:  # what a block that is not elected finds
            put.setdefault((t.move, t.fills, t.element, False), t.time)
    for t in (t for t in touches if not t.writes):
        provider = machine.placed[t.move].providers[0]
        written = put.get((provider, t.fills, t.element, t.elected))
        if put.get((provider, t.fills, t.element, True), t.time) > t.time:
            machine.fault("order", f"{t.move} reads {t.element} before it is put there")
        if written is None:
            machine.fault("scope", f"{t.move} reads {t.element}, which is not put there")
        elif written <= t.time and t.stale and "box" not in machine.found:  # all rules missed something
            machine.fault("stale", f"{t.move} reads {t.element} where another element lies")
