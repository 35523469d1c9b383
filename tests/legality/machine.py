"""What an enumeration of a schedule knows at given sizes, whatever block it is in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from polyfuse.affine import Affine
from polyfuse.schedule import Digit, Finish, KernelSchedule, LoopNest, Placed, TreeItem
from polyfuse.scop import Scop, Statement

SHARES = ("partial", "atomic")
"""What a block does with its share: leave it for the elected one, or merge it into the result."""

Element = tuple[int, ...]
Lanes = np.ndarray[Any, Any]  # one entry per (thread, slots) of a block


@dataclass(frozen=True)
class Sum:
    """What a reduction or a total adds up: the instances of a box, over some of its dimensions."""

    extents: tuple[Affine, ...]
    kept: tuple[int, ...]
    reduced: tuple[int, ...]


@dataclass(frozen=True)
class Share:
    """What a block left in global memory: `block` by its other digits than the one that deals the shares."""

    block: tuple[int, ...]
    time: int


class Machine:
    """`found`: for each rule that is violated, a first violation in words.  `shares`: by the placed partial, the number
    of the block along the digit of its election, and the element.  `merges`: by the placed atomic, how often that is
    merged.  `parts`: of a reduction whose blocks meet, what met in each of them: by (name, other block digits, lanes,
    element), then by the number of the block.  `meeting`: the elements that the first block of an election holds, at
    every time."""

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
        self.shares: dict[tuple[str, int, Element], list[Share]] = {}
        self.merges: Counter[tuple[str, int, Element]] = Counter()
        self.parts: dict[tuple[str, Element, Element, Element], dict[int, Counter[Element]]] = {}
        self.meeting: dict[tuple[str, Element, int], Lanes] = {}
        self.prefixes: dict[tuple[str, Element, Element], Counter[Element]] = {}
        self.memory: list[tuple[str, int, tuple[int, ...], int, tuple[int | None, ...]]] = []
        self.nests = dict(paths(schedule.order))

    def fault(self, rule: str, sentence: str) -> None:
        self.found.setdefault(rule, sentence)

    def shape(self, extents: Sequence[Affine]) -> tuple[int, ...]:
        return tuple(max(0, e.evaluate(self.sizes)) for e in extents)

    def statement(self, placed: Placed) -> Statement | None:
        found = self.scop.statements[placed.value]
        return found if placed.role == "compute" and isinstance(found, Statement) else None

    def sum_of(self, placed: Placed) -> Sum | None:
        """Of a reduction, or of a total: over the shares of the blocks."""
        if placed.role == "total":
            extents = (self.schedule.digit(self.along(placed)).extent, *self.scop.shape(placed.value))
            return Sum(extents, tuple(range(1, len(extents))), (0,))
        statement = self.statement(placed)
        if statement is None or statement.monoid is None or statement.scanned is not None:
            return None
        return Sum(statement.extents, statement.kept, statement.reduced)

    def along(self, placed: Placed) -> str:
        """The block digit whose blocks' shares a total adds up, or a reduction, partial or atomic is a share of;
        else empty."""
        if placed.role == "total":
            return self.schedule.finish_of(placed)
        reduction = placed.providers[0] if placed.role in SHARES else placed.name
        return next((g.digit for g in self.schedule.grid_combine if g.reduction == reduction), "")

    def is_share(self, placed: Placed) -> bool:
        """Whether a reduction may be incomplete in each block: all that reads it hands it on as the block's share."""
        readers = [p for p in self.schedule.placed if placed.name in (*p.providers, *p.place)]
        return placed.role == "compute" and bool(self.along(placed)) and all(p.role in SHARES for p in readers)

    def others(self, along: str, env: Mapping[str, Any]) -> tuple[int, ...]:
        """The digits of a block but for `along`."""
        return tuple(int(env[f"${d.name}"]) for d in self.blocks if d.name != along)

    def onwards(self, placed: Placed) -> str:
        """The block digit through whose blocks a scan goes on; else empty."""
        return next((scan.digit for scan in self.schedule.grid_scans if scan.scan == placed.name), "")

    def outside(self, placed: Placed, statement: Statement) -> list[Digit]:
        """The slots of a scan whose steps are longer than that between two of its threads."""
        entry, over = placed.place[statement.scanned or 0], self.over(placed)
        assert isinstance(entry, Affine)
        steps = {d: abs(entry.coefficient(f"${d.name}")) for d in (*self.threads, *self.slots) if d.name in over}
        least = min((n for d, n in steps.items() if d.kind == "thread" and d.count > 1), default=0)
        return [d for d in self.slots if d in steps and 0 < least < steps[d]]

    def over(self, placed: Placed) -> frozenset[str]:
        """Digits that a reduction, a total or a scan runs over."""
        if placed.role == "total":
            return frozenset(n[1:] for n in placed.place[0].names() if n[0] == "$")  # type: ignore[union-attr]
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
        elif isinstance(item, Finish):
            yield from paths(item.items, nest)
        elif item != "barrier":
            yield item, nest


def outermost(machine: Machine, placed: Placed, loops: tuple[str, ...], outside: tuple[str, ...]) -> str:
    """The outermost loop that a reduction or scan runs over, unless it is one of `outside`."""
    over = machine.over(placed)
    first = next((loop for _, loop in machine.nests[placed.name] if loop in over), "")
    return "" if first in outside else first


def instance(statement: Sum, kept: Element, reduced: Element) -> Element:
    """The point of the domain with these kept and reduced coordinates."""
    where = {**dict(zip(statement.kept, kept, strict=True)), **dict(zip(statement.reduced, reduced, strict=True))}
    return tuple(where[d] for d in range(len(statement.extents)))
