"""Data indices out of bounds on a device: status words that kernels write and the host reads without waiting.

A plan that checks data indices (`Plan.sites`) owns one word of page-locked host memory.  A kernel that meets an index
out of bounds reads the nearest element instead and leaves the number of the check in the word; nobody waits for it.
The next call of any jitted function that finds a word set, or `synchronize`, raises the error and clears the word::

    y = f(x, i)          launches
    pf.synchronize()     IndexFault: an index into x is out of bounds where y is computed, with the line of `y = x[i]`
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from polyfuse.expr import Program
from polyfuse.plan import IndexSite, Plan

PAGE = 4096  # bytes; a word is 4 of them
_WORD = ctypes.sizeof(ctypes.c_int32)


@dataclass(frozen=True, slots=True)
class StatusWord:
    """The word of one plan, whose sites it numbers from 1; `program` tells their lines."""

    address: int
    sites: Sequence[IndexSite]
    program: Program

    def take(self) -> int:
        """The word, cleared."""
        cell = ctypes.c_int32.from_address(self.address)
        number, cell.value = cell.value, 0
        return number


@dataclass(slots=True)
class Board:
    """All status words of the process, and the devices that write them.

    `pages`: views of the memory in which words lie, as far as it is used; empty while no plan checks anything.  Words
    live as long as the process: a kernel in flight may write the word of a plan that is gone.
    """

    pages: list[memoryview] = field(default_factory=list)
    _words: list[StatusWord] = field(default_factory=list)
    _waits: dict[object, Callable[[], None]] = field(default_factory=dict)
    _base: int = 0

    def word(self, plan: Plan, program: Program, page: Callable[[], int]) -> StatusWord:
        """A word for `plan`, in memory of `page`: `PAGE` zeroed bytes that kernels and the host share."""
        at = len(self._words) * _WORD % PAGE
        if at == 0:
            self._base = page()
            self.pages.append(memoryview(b""))
        found = StatusWord(self._base + at, plan.sites, program)
        self._words.append(found)
        self.pages[-1] = memoryview((ctypes.c_char * (at + _WORD)).from_address(self._base)).cast("B")
        return found

    def watch(self, device: object, wait: Callable[[], None]) -> None:
        """Have `synchronize` wait for `device`."""
        self._waits.setdefault(device, wait)

    def check(self) -> None:
        """Raise IndexFault where a word is set; costs 0.2 microseconds a page where none is."""
        for page in self.pages:
            if any(bytes(page)):
                self._fail()

    def _fail(self) -> None:
        found = [(word, number) for word in self._words if (number := word.take())]
        for word, number in found:
            raise word.sites[number - 1].fault(word.program)

    def synchronize(self) -> None:
        """Wait for every watched device, then `check`."""
        for wait in list(self._waits.values()):
            wait()
        self.check()


BOARD = Board()


def synchronize() -> None:
    """Wait until every device on which polyfuse runs kernels is idle.

    Raises IndexFault, with the line of the program, where a kernel met a data index out of bounds since the last check.
    """
    BOARD.synchronize()
