"""What the interpreter finds wrong with a kernel while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse.errors import PolyfuseError


@dataclass(frozen=True, slots=True)
class Witness:
    """Where a fault happened: a thread of a block (flat block index), a buffer and an element of it."""

    block: int
    thread: int
    buffer: str = ""
    index: tuple[int, ...] = ()
    other_block: int | None = None
    other_thread: int | None = None

    def __str__(self) -> str:
        where = f"thread {self.thread} of block {self.block}"
        element = f" at {self.buffer}[{', '.join(str(i) for i in self.index)}]" if self.buffer else ""
        known = self.other_thread is not None
        other = f", against thread {self.other_thread} of block {self.other_block}" if known else ""
        return where + element + other


class KernelFault(PolyfuseError):
    """Base of all faults: kernel IR did what no kernel may do.  `witness` says where."""

    def __init__(self, sentence: str, witness: Witness) -> None:
        super().__init__(f"{sentence}: {witness}")
        self.sentence, self.witness = sentence, witness


class OutOfBounds(KernelFault):
    """An index outside its array, dimension by dimension."""


class UninitialisedRead(KernelFault):
    """A read of shared memory, or of an array whose content is undefined, before anything was written there."""


class DataRace(KernelFault):
    """Two threads of one block touch an element without a barrier between, at least one of them writing."""


class WriteConflict(KernelFault):
    """Two threads store to one element of a global array within one launch, neither ordered nor atomic."""


class UnsynchronisedRead(KernelFault):
    """A block reads (or overwrites what was read) what another block plainly stores, with no fence and election."""


class UnknownCondition(KernelFault):
    """A condition does not hold where the kernel is known to need no test of it."""


class BarrierDivergence(KernelFault):
    """Some threads of a block reach a barrier or a collective operation that others do not."""


class MisalignedVector(KernelFault):
    """A vector access whose address is not a multiple of its width, or whose elements are not consecutive."""


class CounterFault(KernelFault):
    """An election whose counter does not start at zero, or that more or fewer blocks reach than it counts."""
