"""One block of a schedule, executed instance by instance: all threads and slots in lock step.

Registers hold which element they have, partial results which contributions they hold, shared cells what was put there;
what goes wrong is filed under the rule that ought to forbid it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from polyfuse.affine import Affine
from polyfuse.expr import DataIndex
from polyfuse.schedule import Finish, LoopNest, Placed, TreeItem, window_index
from polyfuse.scop import Read, Statement
from tests.legality.machine import SHARES, Element, Lanes, Machine, Share, Sum, instance, outermost, paths, points
from tests.legality.touches import CellTouch, races, read_what_was_put


@dataclass
class Frame:
    """The registers defined in one pass of a loop: by name, per lane the element held; None: unknown elements."""

    live: dict[str, list[Lanes]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)


class Block:
    """One block: all its threads and slots in lock step."""

    def __init__(self, machine: Machine, digits: dict[str, int], point: tuple[int, ...]) -> None:
        self.machine, self.point = machine, point
        self.env: dict[str, Any] = {**machine.sizes, **digits, **machine.lane}
        self.frames = [Frame()]
        self.time = 0
        self.epochs = (0, 0)
        self.visits: Counter[str] = Counter()
        self.elected = False  # inside a `Finish`
        self.sums: dict[str, dict[Element, Counter[Element]]] = {}
        self.touches: list[CellTouch] = []
        self.cells: dict[tuple[int, Element], Element] = {}

    def step(self, position: int, item: TreeItem) -> None:
        """One item of the root of the order tree."""
        self._items((item,), (), (), position)

    def finish(self, position: int, item: Finish, elected: bool) -> None:
        """What the elected block runs; the registers defined there are its own."""
        self.time += 1
        if elected:
            self.elected = True
            self.frames.append(Frame())
            self._items(item.items, (), (position, item.digit, 0))
            self.frames.pop()
            self.elected = False
        self.frames[-1].gone |= {name for name, _ in paths((item,))}

    def end(self) -> None:
        """What can be said when everything has run: as an elected block saw it, and as any other did."""
        races(self.machine, [(t, t.epochs[0]) for t in self.touches])
        races(self.machine, [(t, t.epochs[1]) for t in self.touches if not t.elected])
        read_what_was_put(self.machine, self.touches)

    # ---------------------------------------------------------------- order tree
    def _items(
        self, items: Sequence[TreeItem], loops: tuple[str, ...], nest: tuple[Any, ...], start: int = 0
    ) -> None:
        for k, item in enumerate(items, start):
            self.time += 1
            if isinstance(item, LoopNest):
                self._loop(item, loops, (*nest, k, item.digit))
            elif item == "barrier":
                self.epochs = (self.epochs[0] + 1, self.epochs[1] + (not self.elected))
            else:
                assert isinstance(item, str)  # elections are held at the root of the tree
                self._execute(self.machine.placed[item], loops, nest)

    def _loop(self, item: LoopNest, loops: tuple[str, ...], nest: tuple[Any, ...]) -> None:
        inside = [self.machine.placed[n] for n, _ in paths((item,))]
        starting = [p for p in inside if outermost(self.machine, p, (*loops, item.digit), loops) == item.digit]
        for placed in starting:
            self.sums[placed.name] = {}
        for k in range(self.machine.extent[item.digit]):
            self.env[f"${item.digit}"] = k
            self.frames.append(Frame())
            self._items(item.items, (*loops, item.digit), (*nest, k))
            self.frames.pop()
        del_ = self.env.pop(f"${item.digit}", None)
        assert del_ is not None or self.machine.extent[item.digit] < 1
        scans = {p.name for p in inside if (s := self.machine.statement(p)) is not None and s.scanned is not None}
        finished = {p.name for p in starting} - scans
        summing = {p.name for p in inside if p not in starting and outermost(self.machine, p, (), ()) in loops}
        self.frames[-1].gone |= {p.name for p in inside} - finished - (summing - scans)
        for placed in starting:
            if placed.name in finished:
                self._finish(placed)

    # ---------------------------------------------------------------- one placed statement
    def _execute(self, placed: Placed, loops: tuple[str, ...], nest: tuple[Any, ...]) -> None:
        machine, statement = self.machine, self.machine.statement(placed)
        active = self._valid(placed)
        for entry in placed.place:
            if isinstance(entry, str):
                self._visible(machine.placed[entry], placed, active)
        if statement is not None:
            for read, provider in zip(statement.reads, placed.providers, strict=True):
                self._check_read(machine.placed[provider], placed, read, active)
        if placed.role in ("store", "put", *SHARES):
            active = self._effect(placed) & (active if placed.role != "put" else True)  # a put writes padding too
            self._check(machine.placed[placed.providers[0]], placed, self._index(placed), active)
        match placed.role:
            case "take":
                self._take(placed, active)
            case "load":
                self._remember("load", placed, active)
            case "store":
                self._store(placed, active, loops)
            case "put" | "get":
                self._touch(placed, active, nest)
            case "partial":
                self._leave(placed, active)
            case "atomic":
                self._merge(placed, active)
            case "total":
                self._collect(placed, active)
        if machine.sum_of(placed) is not None:
            if placed.name not in self.sums or not outermost(machine, placed, loops, ()):
                self.sums[placed.name] = {}
            self._contribute(placed)
            if not outermost(machine, placed, loops, ()):
                self._finish(placed)
        elif statement is None or statement.monoid is None:
            data = any(isinstance(e, str) for e in placed.place)
            self.frames[-1].live[placed.name] = [] if data else [self._index(placed)]
        else:
            self._scan(placed, statement, active, loops)

    def _values(self, entries: Sequence[Affine]) -> Lanes:
        """(lanes, entries)."""
        found = np.empty((self.machine.lanes, len(entries)), np.int64)
        for k, entry in enumerate(entries):
            found[:, k] = entry.evaluate(self.env)
        return found

    def _inside(self, entries: Sequence[Affine], extents: Sequence[Affine]) -> Lanes:
        index = self._values(entries)
        limits = np.array([e.evaluate(self.machine.sizes) for e in extents], np.int64)
        return ((index >= 0) & (index < limits)).all(axis=1)

    def _valid(self, placed: Placed) -> Lanes:
        statement, total = self.machine.statement(placed), self.machine.sum_of(placed)
        extents = statement.extents if statement is not None else self.machine.scop.shape(placed.value)
        extents = total.extents if total is not None else extents
        pairs = [(e, n) for e, n in zip(placed.place, extents, strict=True) if isinstance(e, Affine)]
        return self._inside([e for e, _ in pairs], [n for _, n in pairs])

    def _effect(self, placed: Placed) -> Lanes:
        """A store is made by the first thread and block that has it (any block may be elected), a put and a share by
        the first thread, a put inside its box."""
        machine = self.machine
        chosen = np.ones(machine.lanes, np.bool_)
        for d in (*machine.threads, *(machine.blocks if placed.role == "store" else ())):
            if d.name not in placed.digits() and d.name != machine.schedule.finish_of(placed):
                chosen = chosen & (self.env[f"${d.name}"] == 0)
        if placed.role == "put":
            box = machine.boxes[placed.value]
            local = [a - o for a, o in zip(self._place(placed), box.origin, strict=True)]
            chosen = chosen & self._inside(local, [Affine.of(n) for n in box.extents])
        return chosen

    def _place(self, placed: Placed) -> list[Affine]:
        return [e for e in placed.place if isinstance(e, Affine)]

    def _index(self, placed: Placed) -> Lanes:
        total, statement = self.machine.sum_of(placed), self.machine.statement(placed)
        dims = statement.kept if statement is not None else range(len(placed.place))
        dims = total.kept if total is not None else dims
        return self._values([placed.place[d] for d in dims])  # type: ignore[misc]

    # ---------------------------------------------------------------- registers
    def _state(self, name: str) -> list[Lanes] | str:
        for frame in reversed(self.frames):
            if name in frame.live:
                return frame.live[name]
            if name in frame.gone:
                return "gone"
        return "unset"

    def _visible(self, provider: Placed, consumer: Placed, active: Lanes) -> list[Lanes] | None:
        state = self._state(provider.name)
        if not isinstance(state, str):
            return state
        if active.any():
            rule = "scope" if state == "gone" else "order"
            self.machine.fault(rule, f"{consumer.name} reads {provider.name}, which is {state}")
        return None

    def _check_read(self, provider: Placed, consumer: Placed, read: Read, active: Lanes) -> None:
        at = {f"%{d}": p for d, p in enumerate(consumer.place) if isinstance(p, Affine)}
        where = [condition.substitute(at) for condition in read.where]
        active = active & (self._values(where) >= 0).all(axis=1)
        if read.affine:
            needed = [e.substitute(at) for e in read.index if isinstance(e, Affine)]
            self._check(provider, consumer, self._values(needed), active)
            return
        if provider.role != "load" or self._visible(provider, consumer, active) is None:
            return
        statement = self.machine.statement(consumer)
        assert statement is not None
        for entry, held in zip(read.index, provider.place, strict=True):
            if isinstance(entry, DataIndex):
                index = statement.reads[entry.operand]
                self._check_read(self.machine.placed[str(held)], consumer, index, active)
            else:
                wrong = active & (self._values([entry.substitute(at)]) != self._values([held])).any(axis=1)  # type: ignore[list-item]
                if wrong.any():
                    self.machine.fault("scope", f"{consumer.name} gathers {provider.name} at another place")

    def _check(self, provider: Placed, consumer: Placed, needed: Lanes, active: Lanes) -> None:
        """The provider's register holds the needed element in every active lane."""
        state = self._visible(provider, consumer, active)
        for held in state or ():
            wrong = active & (held != needed).any(axis=1)
            if wrong.any():
                lane = int(np.argmax(wrong))
                sentence = f"{consumer.name} needs {needed[lane]} of {provider.name}, which holds {held[lane]}"
                self.machine.fault("scope", sentence)
                return

    def _take(self, placed: Placed, active: Lanes) -> None:
        """Registers of a thread are numbered by its slots; what is taken is the one of the wanted number."""
        machine, holder = self.machine, self.machine.placed[placed.providers[0]]
        state = self._visible(holder, placed, active)
        if len(holder.place) != len(placed.place):
            machine.fault("scope", f"{holder.name} is no window")
            return
        digits = (*machine.threads, *machine.slots)
        columns = {d.name: machine.lane[f"${d.name}"] for d in digits}
        slots = [d.name for d in machine.slots]
        counted = [name for along, _ in window_index(holder, placed, slots) for name in along]
        for (along, at), entry in zip(window_index(holder, placed, slots), holder.place, strict=True):
            count = 1
            for name in reversed(along):
                if entry.coefficient(f"${name}") != count:  # type: ignore[union-attr]
                    machine.fault("scope", f"{holder.name} at {entry} is no window")
                count *= machine.extent[name]
            if len(set(counted)) < len(counted) or not at.names() <= {f"${name}" for name in slots}:
                machine.fault("scope", f"{placed.name} takes register {at}")
                return
            rest = self._values([at])[:, 0]
            if ((rest < 0) | (rest >= count)).any():
                machine.fault("scope", f"{placed.name} takes register {rest} of {count}")
                return
            for name in reversed(along):
                columns[name], rest = rest % machine.extent[name], rest // machine.extent[name]
        lane = np.zeros(machine.lanes, np.int64)
        for d in digits:
            lane = lane * d.count + columns[d.name]
        for held in state or ():
            if (active & (held[lane] != self._index(placed)).any(axis=1)).any():
                machine.fault("scope", f"{placed.name} takes another element of {holder.name}")

    # ---------------------------------------------------------------- reductions and scans
    def _meeting(self, placed: Placed) -> frozenset[str]:
        """Threads and slots whose contributions meet."""
        return frozenset(d for d in self.machine.over(placed) if self.machine.kind[d] in ("thread", "slot"))

    def _groups(self, together: frozenset[str]) -> list[Element]:
        """Per lane the digits that tell its result from those of others."""
        digits = (*self.machine.threads, *self.machine.slots)
        columns = [self.machine.lane[f"${d.name}"] for d in digits if d.name not in together]
        return list(map(tuple, np.stack(columns, axis=1).tolist())) if columns else [()] * self.machine.lanes

    def _contribute(self, placed: Placed) -> None:
        statement = self.machine.sum_of(placed)
        assert statement is not None
        sums = self.sums[placed.name]
        instances = list(map(tuple, self._values(self._place(placed)).tolist()))
        reduced = self._inside(
            [placed.place[d] for d in statement.reduced],  # type: ignore[misc]
            [statement.extents[d] for d in statement.reduced],
        )
        for lane, group in enumerate(self._groups(self._meeting(placed))):
            if reduced[lane]:
                sums.setdefault(group, Counter())[instances[lane]] += 1

    def _finish(self, placed: Placed) -> None:
        """Compare what met with what belongs to each element that is held."""
        machine, statement = self.machine, self.machine.sum_of(placed)
        assert statement is not None
        kept = [placed.place[d] for d in statement.kept]
        unknown = sorted({n[1:] for e in kept for n in e.names() if n[0] == "$" and n not in self.env})  # type: ignore[union-attr]
        held: list[Lanes] = []
        for passes in product(*(range(machine.extent[n]) for n in unknown)):
            self.env |= {f"${n}": k for n, k in zip(unknown, passes, strict=True)}
            held.append(self._values(kept))  # type: ignore[arg-type]
            self._complete(placed, statement, held[-1])
        for n in unknown:
            self.env.pop(f"${n}", None)
        self.frames[-1].live[placed.name] = held

    def _complete(self, placed: Placed, statement: Sum, kept: Lanes) -> None:
        """Of what blocks add up together, what met in this block is kept for `whole`."""
        along = self.machine.along(placed) if self.machine.is_share(placed) else ""
        others = self.machine.others(along, self.env)
        if along:
            self._same_in_all(placed, others, kept)
        sizes = self.machine.shape(statement.extents)
        limits = np.array([sizes[d] for d in statement.kept], np.int64)
        inside = ((kept >= 0) & (kept < limits)).all(axis=1)
        reduced = list(points([sizes[d] for d in statement.reduced]))
        seen: set[tuple[Element, Element]] = set()
        for lane, group in enumerate(self._groups(self._meeting(placed))):
            element = tuple(kept[lane].tolist())
            if not inside[lane] or (group, element) in seen:
                continue
            seen.add((group, element))
            met = self.sums[placed.name].get(group, Counter())
            if along:
                parts = self.machine.parts.setdefault((placed.name, others, group, element), {})
                if parts.setdefault(self.env[f"${along}"], met) != met:
                    self.machine.fault("combine", f"{placed.name} has two shares of {element} in block {self.point}")
            elif met != Counter(instance(statement, element, r) for r in reduced):
                self.machine.fault("combine", f"{placed.name} at {element} in {group} of block {self.point}")

    def _scan(self, placed: Placed, statement: Statement, active: Lanes, loops: tuple[str, ...]) -> None:
        machine, over = self.machine, self.machine.over(placed)
        meeting = self._meeting(placed)
        outside = machine.outside(placed, statement)
        slots = [d for d in machine.slots if d.name in over and d not in outside]
        threads = sorted((d for d in machine.threads if d.name in over), key=lambda d: d.stride)
        if placed.name not in self.sums or not outermost(machine, placed, loops, ()):
            self.sums[placed.name] = {}
        instances = list(map(tuple, self._values(self._place(placed)).tolist()))
        scanned = statement.scanned or 0
        element = self._values([placed.place[scanned]])[:, 0]  # type: ignore[list-item]
        extent = machine.shape(statement.extents)[scanned]
        inner_first = (*slots[::-1], *threads, *outside[::-1])  # np.lexsort: the slowest comes last
        levels = [machine.lane[f"${d.name}"] for d in inner_first]
        ranked = np.lexsort(levels) if levels else np.arange(machine.lanes)
        groups, along = self._groups(meeting), machine.onwards(placed)
        others = machine.others(along, self.env) if along else ()
        for lane in ranked[::-1] if statement.reverse else ranked:
            state = self.sums[placed.name].setdefault(groups[lane], Counter())
            if along:  # blocks come in the order of their digits
                state = machine.prefixes.setdefault((placed.name, others, groups[lane]), Counter())
            if 0 <= element[lane] < extent:
                state[instances[lane]] += 1
            if active[lane]:
                own = instances[lane]
                first = own[scanned] - own[scanned] % statement.run if statement.run else 0
                span = range(own[scanned], extent) if statement.reverse else range(first, own[scanned] + 1)
                if state != Counter((*own[:scanned], e, *own[scanned + 1 :]) for e in span):
                    machine.fault("scan", f"{placed.name} at {own}")
        self.frames[-1].live[placed.name] = [self._index(placed)]

    # ---------------------------------------------------------------- shares of other blocks
    def _same_in_all(self, placed: Placed, others: tuple[int, ...], kept: Lanes) -> None:
        """Blocks that meet hold one element in the same lane at the same time."""
        visit = self.visits[placed.name] = self.visits[placed.name] + 1
        expected = self.machine.meeting.setdefault((placed.name, others, visit), kept)
        if (expected != kept).any():
            self.machine.fault("combine", f"{placed.name} holds other elements in block {self.point}")

    def _leave(self, placed: Placed, active: Lanes) -> None:
        """Store the block's share for the elected one."""
        left = Share(self.machine.others(self.machine.along(placed), self.env), self.time)
        for cell in self._cells(placed, active):
            self.machine.shares.setdefault(cell, []).append(left)

    def _merge(self, placed: Placed, active: Lanes) -> None:
        """Merge the block's share into the result."""
        self.machine.merges.update(self._cells(placed, active))

    def _cells(self, placed: Placed, active: Lanes) -> list[tuple[str, int, Element]]:
        """Per share that is handed on: by what, the number of the block, the element."""
        index, number = self._index(placed), int(self.env[f"${self.machine.along(placed)}"])
        for d in self.machine.slots:  # a slot that the place does not use is no execution of its own
            if d.name not in placed.digits():
                active = active & (self.env[f"${d.name}"] == 0)
        return [(placed.name, number, tuple(index[lane].tolist())) for lane in np.flatnonzero(active)]

    def _collect(self, placed: Placed, active: Lanes) -> None:
        """Every share that a total reads was stored, once, by a block of this election."""
        own = self.machine.others(self.machine.along(placed), self.env)
        for lane, (number, *element) in enumerate(self._values(self._place(placed)).tolist()):
            for name in placed.providers if active[lane] else ():
                left = self.machine.shares.get((name, number, tuple(element)), [])
                if [share.block for share in left] != [own]:
                    self.machine.fault("combine", f"{placed.name} reads the share {number} of {element}: {left}")

    # ---------------------------------------------------------------- memory
    def _remember(self, role: str, placed: Placed, active: Lanes) -> None:
        if not self.machine.schedule.reuses:
            return
        columns = [self._values([e])[:, 0] if isinstance(e, Affine) else None for e in placed.place]
        for lane in np.flatnonzero(active):
            element = tuple(None if c is None else int(c[lane]) for c in columns)
            who = (*self.point, int(self.machine.thread[lane]))
            self.machine.memory.append((role, placed.value, who, self.time, element))

    def _store(self, placed: Placed, active: Lanes, loops: tuple[str, ...]) -> None:
        self._remember("store", placed, active)
        index = self._index(placed)
        for d in self.machine.slots:  # a slot that the place does not use is no execution of its own
            if d.name not in placed.digits():
                active = active & (self.env[f"${d.name}"] == 0)
        for lane in np.flatnonzero(active):
            self.machine.stores[(placed.value, placed.component, tuple(index[lane].tolist()))] += 1

    def _touch(self, placed: Placed, active: Lanes, nest: tuple[Any, ...]) -> None:
        machine, box = self.machine, self.machine.boxes[placed.value]
        local = self._values([a - o for a, o in zip(self._place(placed), box.origin, strict=True)])
        inside = ((local >= 0) & (local < np.array(box.extents, np.int64))).all(axis=1)
        writes = placed.role == "put"
        index = self._index(placed)
        chosen = self._effect(placed) if writes else np.ones(machine.lanes, np.bool_)
        if not writes and not inside.all():
            machine.fault("box", f"{placed.name} reads outside its box")
        pinned = {n[1:] for o in box.origin for n in o.names() if n[0] == "$"}
        fills = nest[: 3 * (1 + max((k for k, loop in enumerate(nest[1::3]) if loop in pinned), default=-1))]
        for lane in np.flatnonzero(chosen):
            cell, element = tuple(local[lane].tolist()), tuple(index[lane].tolist())
            stale = not writes and self.cells.get((placed.value, cell)) != element
            if writes:
                self.cells[(placed.value, cell)] = element
            self.touches.append(
                CellTouch(
                    self.time, self.epochs, placed.name, writes, int(machine.thread[lane]), cell, element,
                    fills, stale, self.elected,
                )
            )  # fmt: skip
