"""Asynchronous copies of a running kernel: when they are on their way, and for which thread they have arrived."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from polyfuse.backends.interpreter.faults import DataRace
from polyfuse.backends.interpreter.memory import Memory
from polyfuse.backends.interpreter.special import Array
from polyfuse.backends.interpreter.tracker import Bools, Clock, Ints


@dataclass(slots=True)
class _Flight:
    """Elements of one copy that are on their way, all arrays flat: of each the thread that began it, as its position
    among all threads in lock step and as its unit, and the group that it belongs to."""

    target: Memory
    element: Ints
    content: Array
    thread: Ints
    unit: Ints
    group: Ints


@dataclass(slots=True)
class Copies:
    """The copies of some blocks in lock step.  `committed`: groups of each thread, ``(blocks, threads)``."""

    committed: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    flights: list[_Flight] = field(default_factory=list)

    def begin(
        self, source: Memory, target: Memory, at: Ints, into: Ints, used: Bools, active: Bools, unit: Ints, clock: Clock
    ) -> None:
        """``target[into] = source[at]`` where `used`, zeros elsewhere where `active`; arrays of one shape ``(blocks,
        threads, *slots)``.  Until they have arrived the cells are undefined, and nobody may touch them."""
        source.check(at, used, unit, clock)
        content = np.zeros(at.shape, source.data.dtype)
        content[used] = source.data[at[used]]
        element, units = into[active], unit[active]
        for flight in self.flights:
            if flight.target is target and (met := np.isin(element, flight.element)).any():
                first = int(np.argmax(met))
                sentence = "a copy goes to a cell to which another one is on its way"
                raise target.fault(DataRace, sentence, int(units[first]), int(element[first]), None)
        if target.tracker is not None:
            target.tracker.write(element, units, clock)
        if target.defined is not None:
            target.defined[element] = False
        threads = np.arange(self.committed.size).reshape(*self.committed.shape, *([1] * (at.ndim - 2)))
        thread = np.broadcast_to(threads, at.shape)[active]
        self.flights.append(_Flight(target, element, content[active], thread, units, self.committed.flat[thread]))

    def commit(self, active: Bools | None) -> None:
        """Every active thread closes a group."""
        self.committed += 1 if active is None else _threads(active, self.committed.shape)

    def wait(self, pending: int, active: Bools | None, clock: Clock) -> None:
        """What active threads began, but for their last `pending` groups and what they have not committed, arrives."""
        waiting = np.ones(self.committed.shape, np.bool_) if active is None else _threads(active, self.committed.shape)
        left: list[_Flight] = []
        for flight in self.flights:
            done = waiting.flat[flight.thread] & (flight.group < self.committed.flat[flight.thread] - pending)
            flight.target.arrive(flight.element[done], flight.content[done], flight.unit[done], clock)
            if not done.all():
                rest = (a[~done] for a in (flight.element, flight.content, flight.thread, flight.unit, flight.group))
                left.append(_Flight(flight.target, *rest))
        self.flights = left


def _threads(active: Bools, shape: tuple[int, ...]) -> Bools:
    """A mask over ``(blocks, threads, *slots)``, equal in all slots, by thread."""
    return np.broadcast_to(active.reshape(*active.shape[:2], -1)[:, :, 0], shape)
