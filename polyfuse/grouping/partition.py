"""The state of the search: which values are stored, and which stores share a kernel.

A kernel is its roots.  Its body follows by demand: walk back from the roots to values that some kernel stores, or to
inputs; what is not stored is recomputed by every kernel that demands it, so recompute is no decision of its own::

    roots {y}, m stored elsewhere          x --> e --> y        body {e, y}, loads {x, m}
                                                 ^
                                           m ----+

Only where a stored value is computed *again* (an output that is cheaper to rebuild than to read) the kernel says so.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, replace

from polyfuse.errors import ScheduleError
from polyfuse.grouping.costs import Costs
from polyfuse.grouping.order import ROOM, Order, depth_first


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """Values stored, computed and loaded by one kernel, and its predicted time in picoseconds."""

    roots: frozenset[int]
    body: frozenset[int]
    loads: frozenset[int]
    time: int

    @property
    def name(self) -> int:
        """The least root: names the kernel canonically, since a value is stored by one kernel only."""
        return min(self.roots)


@dataclass(frozen=True, slots=True)
class Sketch:
    """A kernel to be: the values that it stores, and stored values of others that it computes again."""

    roots: frozenset[int]
    again: frozenset[int] = frozenset()


class Partition:
    """Kernels by number (numbers are never reused), who stores, loads and computes each value, and a launch order."""

    __slots__ = (
        "_next", "again", "consumers", "costs", "is_input", "kernels", "names", "once", "operands", "order", "owner",
        "pinned", "readers", "users",
    )  # fmt: skip

    def __init__(self, costs: Costs) -> None:
        values = range(costs.count)
        self.costs = costs
        self.operands = [costs.operands(v) for v in values]
        self.consumers: list[list[int]] = [[] for _ in values]  # values that read the value
        for reader, read in enumerate(self.operands):
            for value in set(read):
                self.consumers[value].append(reader)
        self.is_input = [costs.is_input(v) for v in values]
        self.once = [costs.must_store(v) for v in values]
        self.pinned = [once or costs.is_output(v) for v, once in enumerate(self.once)]
        self.kernels: dict[int, KernelGroup] = {}
        self.names: dict[int, int] = {}
        self.owner: dict[int, int] = {}  # stored value -> kernel
        self.readers: list[set[int]] = [set() for _ in values]  # kernels that load the value
        self.users: list[set[int]] = [set() for _ in values]  # kernels that compute the value
        self.again: dict[int, set[int]] = {}  # per kernel: values that it computes though another kernel stores them
        self.order = Order()
        self._next = 0

    @staticmethod
    def unfused(costs: Costs) -> Partition:
        """Every value that an output needs is stored, by a kernel of its own, which has no price yet: its time is what
        its bytes take at least."""
        state = Partition(costs)
        singles = [frozenset((v,)) for v in sorted(state.live()) if not state.is_input[v]]
        loads = [frozenset(state.operands[v]) for (v,) in singles]
        pairs = zip(singles, loads, strict=True)
        return Partition.of(costs, [KernelGroup(one, one, read, costs.floor(one, read)) for one, read in pairs])

    @staticmethod
    def of(costs: Costs, kernels: Sequence[KernelGroup]) -> Partition:
        """The partition of `kernels`, which are in launch order."""
        state = Partition(costs)
        for index, kernel in enumerate(kernels):
            state.add(kernel, index * ROOM)
        return state

    # ------------------------------------------------------------------------------------------------ queries
    def total(self) -> int:
        return sum(kernel.time for kernel in self.kernels.values())

    def live(self) -> frozenset[int]:
        """Values that an output needs, inputs among them."""
        found: set[int] = set()
        todo = [v for v, pinned in enumerate(self.pinned) if pinned]
        while todo:
            value = todo.pop()
            if value not in found:
                found.add(value)
                todo.extend(self.operands[value])
        return frozenset(found)

    def successors(self, kernel: int) -> set[int]:
        readers = self.readers
        return set().union(*[readers[root] for root in self.kernels[kernel].roots])

    def predecessors(self, kernel: int) -> set[int]:
        owner = self.owner
        return {owner[value] for value in self.kernels[kernel].loads if value in owner}

    def sketch(self, kernel: int) -> Sketch:
        """The kernel as it is."""
        return Sketch(self.kernels[kernel].roots, frozenset(self.again[kernel]))

    def closure(
        self, sketch: Sketch, gone: Collection[int], made: Set[int]
    ) -> tuple[frozenset[int], frozenset[int]]:
        """Body and loads of the kernel, were the values `gone` no longer stored and the values `made` stored."""
        operands, is_input, owner, again = self.operands, self.is_input, self.owner, sketch.again
        known = self._grown_from(sketch, gone, made)
        if known is None:
            body, loads, todo = set(sketch.roots), set[int](), list(sketch.roots)
        else:
            todo = [v for v in known.loads.intersection(gone) if v not in made]
            if not todo:
                return known.body, known.loads
            body, loads = set(known.body.union(todo)), set(known.loads.difference(todo))
        while todo:
            for value in operands[todo.pop()]:
                if value in body or value in loads:
                    continue
                stored = value in made or (value in owner and value not in gone)
                if is_input[value] or (stored and value not in again):
                    loads.add(value)
                else:
                    body.add(value)
                    todo.append(value)
        return frozenset(body), frozenset(loads)

    def _grown_from(self, sketch: Sketch, gone: Collection[int], made: Set[int]) -> KernelGroup | None:
        """A kernel that computes all that the one to be does, or less, so that not all of it is walked again: one value
        more or less of a kernel of thousands is what most moves change."""
        number = self.owner.get(next(iter(sketch.roots), -1))  # a move may leave nothing to store
        if number is None or sketch.again != self.again[number]:
            return None
        kernel = self.kernels[number]
        freed = kernel.roots - sketch.roots
        if not sketch.roots <= kernel.roots or not freed.isdisjoint(made) or not freed.issubset(gone):
            return None
        if not all(any(r in kernel.body for r in self.consumers[v]) for v in freed):
            return None  # what only that root needed is no longer computed
        return kernel if kernel.body.isdisjoint(made - self.owner.keys()) else None

    def hull(self, a: int, b: int) -> frozenset[int]:
        """`a`, `b` and every kernel on a path between them: the least superset that is one kernel without a cycle."""
        position = self.order.position
        if position[a] > position[b]:
            a, b = b, a
        low, high = position[a], position[b]
        below, todo = {a}, [a]
        while todo:
            for other in self.successors(todo.pop()):
                if other not in below and position[other] < high:
                    below.add(other)
                    todo.append(other)
        if len(below) == 1:
            return frozenset((a, b))
        above, todo = {b}, [b]
        while todo:
            for other in self.predecessors(todo.pop()):
                if other not in above and position[other] > low:
                    above.add(other)
                    todo.append(other)
        return frozenset({a, b} | (below & above))

    def needed(self, roots: Iterable[int], inside: Set[int]) -> frozenset[int]:
        """Those of `roots` that somebody outside the kernels `inside` wants."""
        return frozenset(r for r in roots if self.pinned[r] or not self.readers[r] <= inside)

    def in_launch_order(self) -> list[int]:
        """Kernels in the topological order that always takes the least name next: a function of the partition alone.
        Raises ScheduleError where kernels wait for each other."""
        waiting = {k: len(self.predecessors(k)) for k in self.kernels}
        ready = [(self.names[k], k) for k, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        order = list[int]()
        while ready:
            number = heapq.heappop(ready)[1]
            order.append(number)
            for other in self.successors(number):
                waiting[other] -= 1
                if waiting[other] == 0:
                    heapq.heappush(ready, (self.names[other], other))
        if len(order) < len(self.kernels):
            names = sorted(self.names[k] for k in waiting if waiting[k])
            raise ScheduleError(f"the kernels of values {names} wait for each other")
        return order

    # ------------------------------------------------------------------------------------------------ changes
    def settle_prices(self, values: Iterable[int]) -> None:
        """Price the kernels that store these values."""
        for number in sorted({self.owner[v] for v in values}):
            kernel = self.kernels[number]
            time = self.costs.price(kernel.body, kernel.roots, kernel.loads)
            self.kernels[number] = replace(kernel, time=time)

    def add(self, kernel: KernelGroup, position: int, number: int | None = None) -> int:
        """Take up `kernel` under a new number, or again under the `number` that it had."""
        if number is None:
            number = self._next
            self._next += 1
        self.kernels[number] = kernel
        self.names[number] = kernel.name
        self.order.place(number, position)
        self.again[number] = {v for v in kernel.body if v in self.owner and v not in kernel.roots}
        for root in kernel.roots:
            self.owner[root] = number
            for user in self.users[root]:
                self.again[user].add(root)
        for value in kernel.loads:
            self.readers[value].add(number)
        for value in kernel.body:
            self.users[value].add(number)
        return number

    def remove(self, number: int) -> KernelGroup:
        kernel = self.kernels.pop(number)
        del self.names[number], self.again[number]
        self.order.remove(number)
        for value in kernel.loads:
            self.readers[value].discard(number)
        for value in kernel.body:
            self.users[value].discard(number)
        for root in kernel.roots:
            del self.owner[root]
            for user in self.users[root]:
                self.again[user].discard(root)
        return kernel

    def replace(self, old: Collection[int], new: Sequence[KernelGroup]) -> list[int] | None:
        """Put the kernels `new` in place of `old`; their numbers, or None and no change if that makes a cycle."""
        position = self.order.position
        saved = sorted((position[k], k) for k in old)
        before = {k: self.kernels[k] for k in old}
        home = {value: place for place, k in reversed(saved) for value in before[k].body}
        for number in old:
            self.remove(number)
        fresh = [self.add(kernel, min(home[r] for r in kernel.roots)) for kernel in new]
        if self._sort([place for place, _ in saved], fresh):
            return fresh
        for number in fresh:
            self.remove(number)
        for place, number in saved:
            self.add(before[number], place, number)
        return None

    def _sort(self, places: list[int], fresh: list[int]) -> bool:
        """Re-sort the window from the first of the freed `places` to the last of them and of what the kernels `fresh`
        load; False if it has a cycle."""
        position, added = self.order.position, set(fresh)
        loaded = [position[k] for number in fresh for k in self.predecessors(number)]
        window = self.order.window(places[0], max(places + loaded))
        sequence = depth_first(window, self.predecessors, position.__getitem__)
        if sequence is None:
            return False
        free = sorted(places + [position[k] for k in window if k not in added])
        slots = self.order.slots(free, len(sequence))
        if slots is None:
            self.order.renumber()
            position = self.order.position
            slots = sorted(position[k] for k in window)
        for number, slot in zip(sequence, slots, strict=True):
            if position[number] != slot:
                self.order.place(number, slot)
        return True
