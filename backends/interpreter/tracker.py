"""Happens-before bookkeeping for one buffer: who touched each element last, and whether that is ordered.

A *unit* is ``block * threads + thread``.  Within a block, two accesses by threads of one warp are ordered when a warp
or block barrier lies between, by threads of different warps when a block barrier does.  Between blocks they are
ordered when the later one follows an `Elect` that the earlier block reached after its access.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from polyfuse.backends.interpreter.faults import DataRace, KernelFault, UnsynchronisedRead, WriteConflict

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Report = Callable[[type[KernelFault], str, int, int, int], KernelFault]
"""(fault, sentence, unit, element, other unit) -> the exception to raise."""

NOBODY, MANY = -1, -2
WARP = 32


@dataclass(slots=True)
class Clock:
    """The time of one block (or of several in lock step): barrier intervals, and elections reached.

    `seen[b]`: the last phase of block b whose stores are visible here, or -1.
    """

    interval: int = 0
    warp_interval: int = 0
    phase: int = 0
    seen: Ints | None = None

    def barrier(self) -> None:
        self.interval += 1
        self.warp_interval += 1

    def warp_barrier(self) -> None:
        self.warp_interval += 1

    def arrived(self, members: Mapping[int, int] | None, blocks: int) -> None:
        """After an election: a new phase, and for the elected block a view of what all `members` stored before."""
        self.phase += 1
        if members is None:
            return
        if self.seen is None:
            self.seen = np.full(blocks, -1, np.int64)
        for member, phase in members.items():
            self.seen[member] = max(phase, int(self.seen[member]))


@dataclass(slots=True)
class _Record:
    """The last access of one kind to each element: by whom, in which barrier intervals, in which phase."""

    unit: Ints
    warp: Ints
    block: Ints
    interval: Ints
    warp_interval: Ints
    phase: Ints

    @staticmethod
    def empty(elements: int) -> _Record:
        return _Record(*(np.full(elements, NOBODY, np.int64) for _ in range(6)))


@dataclass(slots=True)
class Tracker:
    """Checks the accesses to one buffer of `elements`; `shared_memory` words the message."""

    elements: int
    threads: int
    report: Report
    shared_memory: bool
    reads_matter: bool = True
    _written: _Record = field(init=False)
    _read: _Record = field(init=False)
    _atomic: Bools = field(init=False)

    def __post_init__(self) -> None:
        self._written = _Record.empty(self.elements)
        self._read = _Record.empty(self.elements if self.reads_matter else 0)
        self._atomic = np.zeros(self.elements, np.bool_)

    # ------------------------------------------------------------------------------------------ accesses
    def read(self, element: Ints, unit: Ints, clock: Clock) -> None:
        """Plain reads of `element` by `unit` (flat, of equal length)."""
        self._check(self._written, element, unit, clock, "reads", "a store")
        if self.reads_matter:
            self._remember_readers(element, unit, clock)

    def write(self, element: Ints, unit: Ints, clock: Clock, atomic: bool = False) -> None:
        """Plain or atomic writes."""
        exempt = self._atomic[element] if atomic else None
        self._check(self._written, element, unit, clock, "stores", "a store", exempt)
        if self.reads_matter:
            self._check(self._read, element, unit, clock, "stores", "a read")
        self._remember(self._written, element, unit, clock)
        self._atomic[element] = atomic
        if not atomic:
            twice = self._written.unit[element] != unit
            if twice.any():
                self._fail(twice, element, unit, self._written.unit[element], "stores", "a store", True)

    # ------------------------------------------------------------------------------------------ order
    def _check(
        self, record: _Record, element: Ints, unit: Ints, clock: Clock, verb: str, against: str,
        exempt: Bools | None = None,
    ) -> None:
        """Fails on an access that is not ordered after the one in `record`."""
        other, block = record.unit[element], unit // self.threads
        warp = unit // WARP if self.threads % WARP == 0 else unit // self.threads
        same_block = record.block[element] == block
        inside = (record.interval[element] == clock.interval) & (record.warp[element] != warp)
        inside |= (record.warp_interval[element] == clock.warp_interval) & (other != unit)
        if clock.seen is None:
            visible = np.zeros(element.shape, np.bool_)
        else:
            visible = record.phase[element] <= clock.seen[np.maximum(record.block[element], 0)]
        bad = (other != NOBODY) & np.where(same_block, inside, ~visible)
        if exempt is not None:
            bad &= ~exempt
        if bad.any():
            self._fail(bad, element, unit, other, verb, against, bool(same_block[bad][0]))

    def _fail(
        self, bad: Bools, element: Ints, unit: Ints, other: Ints, verb: str, against: str, same_block: bool
    ) -> None:
        first = int(np.argmax(bad))
        writes = verb == "stores" and against == "a store"
        if writes and not self.shared_memory:
            kind: type[KernelFault] = WriteConflict
            sentence = "two threads store to one element of a global array, neither ordered nor atomic"
        elif same_block or self.shared_memory:
            kind = DataRace
            sentence = f"a thread {verb} what meets {against} by another thread with no barrier between"
        else:
            kind = UnsynchronisedRead
            sentence = f"a block {verb} what meets {against} by another block with no fence and election between"
        raise self.report(kind, sentence, int(unit[first]), int(element[first]), int(other[first]))

    # ------------------------------------------------------------------------------------------ records
    def _remember(self, record: _Record, element: Ints, unit: Ints, clock: Clock) -> None:
        record.unit[element] = unit
        record.warp[element] = unit // WARP if self.threads % WARP == 0 else unit // self.threads
        record.block[element] = unit // self.threads
        record.interval[element] = clock.interval
        record.warp_interval[element] = clock.warp_interval
        record.phase[element] = clock.phase

    def _remember_readers(self, element: Ints, unit: Ints, clock: Clock) -> None:
        """As `_remember`, but several readers since the last synchronisation are kept as `MANY`."""
        record = self._read
        block = unit // self.threads
        warp = unit // WARP if self.threads % WARP == 0 else block
        same_block = record.block[element] == block
        before_unit = np.where(
            same_block & (record.warp_interval[element] == clock.warp_interval), record.unit[element], NOBODY
        )
        before_warp = np.where(same_block & (record.interval[element] == clock.interval), record.warp[element], NOBODY)
        before_block = record.block[element]
        self._remember(record, element, unit, clock)
        for column, before, now in (
            (record.unit, before_unit, unit),
            (record.warp, before_warp, warp),
            (record.block, before_block, block),
        ):
            many = (column[element] != now) | ((before != NOBODY) & (before != now))
            column[element[many]] = MANY
