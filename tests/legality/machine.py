"""What an enumeration of a schedule knows at given sizes, whatever block it is in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from polyfuse.affine import Affine
from polyfuse.schedule import KernelSchedule, LoopNest, Placed, TreeItem
from polyfuse.scop import Scop, Statement

Element = tuple[int, ...]
Lanes = np.ndarray[Any, Any]  # one entry per (thread, slots) of a block


class Machine:
    """`found`: for each rule that is violated, a first violation in words."""

    def __init__(self, scop: Scop, schedule: KernelSchedule, sizes: Mapping[str, int]) -> None:
        self.scop, self.schedule, self.sizes = scop, schedule, dict(sizes)
        self.found: dict[str, str] = {}
        self.placed = {p.name: p for p in schedule.placed}
        self.boxes = {b.value: b for b in schedule.shared}
        self.kind = {d.name: d.kind for d in schedule.digits}
        self.extent = {d.name: d.extent.evaluate(sizes) for d in schedule.digits}
        self.threads = schedule.of_kind("thread")
        self.slots = schedule.of_kind("slot")
        self.blocks = schedule.of_kind("block")
        lanes = list(product(*(range(d.count) for d in (*self.threads, *self.slots))))
        columns = np.array(lanes, dtype=np.int64).reshape(len(lanes), -1)
        self.lane = {f"${d.name}": columns[:, k] for k, d in enumerate((*self.threads, *self.slots))}
        self.lanes = len(lanes)
        self.thread = sum((self.lane[f"${d.name}"] * d.stride for d in self.threads), np.zeros(self.lanes, np.int64))
        self.stores: Counter[tuple[int, int, Element]] = Counter()
        self.memory: list[tuple[str, int, tuple[int, ...], int, tuple[int | None, ...]]] = []
        self.nests = dict(paths(schedule.order))

    def fault(self, rule: str, sentence: str) -> None:
        self.found.setdefault(rule, sentence)

    def shape(self, extents: Sequence[Affine]) -> tuple[int, ...]:
        return tuple(max(0, e.evaluate(self.sizes)) for e in extents)

    def statement(self, placed: Placed) -> Statement | None:
        found = self.scop.statements[placed.value]
        return found if placed.role == "compute" and isinstance(found, Statement) else None

    def over(self, placed: Placed) -> frozenset[str]:
        """Digits that a reduction or a scan runs over."""
        statement = self.statement(placed)
        if statement is None or statement.monoid is None:
            return frozenset()
        dims = statement.reduced if statement.scanned is None else (statement.scanned,)
        return frozenset(n[1:] for d in dims for n in placed.place[d].names() if n[0] == "$")  # type: ignore[union-attr]


def points(extents: Sequence[int]) -> Iterator[Element]:
    return product(*(range(n) for n in extents))


def paths(order: Sequence[TreeItem], nest: tuple[tuple[int, str], ...] = ()) -> Iterator[tuple[str, Any]]:
    """Per leaf the loops around it, each with its position in the tree."""
    for k, item in enumerate(order):
        if isinstance(item, LoopNest):
            yield from paths(item.items, (*nest, (k, item.digit)))
        elif item != "barrier":
            yield item, nest


def outermost(machine: Machine, placed: Placed, loops: tuple[str, ...], outside: tuple[str, ...]) -> str:
    """The outermost loop that a reduction or scan runs over, unless it is one of `outside`."""
    over = machine.over(placed)
    first = next((loop for _, loop in machine.nests[placed.name] if loop in over), "")
    return "" if first in outside else first


def instance(statement: Statement, kept: Element, reduced: Element) -> Element:
    """The point of the domain with these kept and reduced coordinates."""
    where = {**dict(zip(statement.kept, kept, strict=True)), **dict(zip(statement.reduced, reduced, strict=True))}
    return tuple(where[d] for d in range(len(statement.extents)))
