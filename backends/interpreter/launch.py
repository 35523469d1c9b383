"""What both interpreters need before a kernel runs: argument checks, memories, and the order of blocks."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from polyfuse.affine import names_of
from polyfuse.backends.interpreter.faults import CounterFault, Witness
from polyfuse.backends.interpreter.memory import Memory
from polyfuse.backends.interpreter.special import Array
from polyfuse.backends.interpreter.tracker import Bools, Ints, Tracker
from polyfuse.errors import ArgumentError
from polyfuse.kernel import (
    ArrayParameter,
    AsyncCopy,
    AtomicUpdate,
    Carry,
    Elect,
    For,
    If,
    Kernel,
    Load,
    Member,
    Neighbours,
    Op,
    SizeParameter,
    Store,
)

WINDOW = 6
"""Blocks in flight at once where they may communicate: enough to interleave, few enough to stay fast."""

BATCH_ELEMENTS = 1 << 18
"""Elements of one value over all blocks that run in lock step: values stay within a core's cache."""


@dataclass(slots=True)
class Elections:
    """Counters of `Elect`: who arrived in which phase."""

    arrived: dict[tuple[str, int], dict[int, int]]

    def arrive(self, counter: Memory, group: int, count: int, block: int, phase: int) -> dict[int, int] | None:
        """Registers an arrival; the phases of all members where `block` is the last of them."""
        witness = Witness(block, 0, counter.name, (group,))
        if not 0 <= group < counter.data.size or counter.data[group] != 0:
            raise CounterFault("an election's counter does not exist or is not zero at launch", witness)
        members = self.arrived.setdefault((counter.name, group), {})
        if len(members) >= count or block in members:
            raise CounterFault(f"more than {count} arrivals at an election", witness)
        members[block] = phase
        return members if len(members) == count else None

    def complete(self, counts: Mapping[tuple[str, int], int]) -> None:
        """Fails where an election was begun and not finished."""
        for key, members in self.arrived.items():
            if len(members) < counts[key]:
                sentence = f"only {len(members)} of {counts[key]} blocks reach an election"
                raise CounterFault(sentence, Witness(max(members), 0, key[0], (key[1],)))


@dataclass(slots=True)
class Carries:
    """What blocks that begin in order leave for those behind them, by place and by their number in the line."""

    left: dict[tuple[str, int], dict[int, Array]]

    def leave(self, words: Memory, line: int, number: int, block: int, total: Array) -> None:
        """Registers the total of a block."""
        witness = Witness(block, 0, words.name, (line, number))
        if words.data.any():
            raise CounterFault("what blocks leave for others is not zero at launch", witness)
        found = self.left.setdefault((words.name, line), {})
        if number in found:
            raise CounterFault("a block leaves two totals", witness)
        found[number] = total

    def before(self, words: Memory, line: int, number: int) -> list[Array] | None:
        """The totals of all blocks in front, in their order; None where one has left none yet."""
        found = self.left.get((words.name, line), {})
        return [found[k] for k in range(number)] if all(k in found for k in range(number)) else None


def operations(body: Sequence[Op]) -> Iterator[Op]:
    """Every operation, in program order."""
    for op in body:
        yield op
        match op:
            case For(_, _, inner) | Neighbours(inner):
                yield from operations(inner)
            case If(_, inner, orelse):
                yield from operations(inner)
                yield from operations(orelse)
            case _:
                pass


def communicates(kernel: Kernel) -> bool:
    """True where blocks meet through an election or wait for each other; all others may run in lock step together."""
    if any(communicates(member.kernel) for member in kernel.members):
        return True
    return any(isinstance(op, (Elect, Carry)) for op in operations(kernel.body))


def touched(kernel: Kernel) -> tuple[set[str], set[str]]:
    """Names of memories that are loaded, and that are stored or updated."""
    loaded: set[str] = set()
    stored: set[str] = set()
    for member in kernel.members:
        names = given_names(kernel, member)
        for own, found in zip(touched(member.kernel), (loaded, stored), strict=True):
            found |= {names.get(name, name) for name in own}
    for op in operations(kernel.body):
        match op:
            case Load():
                loaded.add(op.array)
            case Store() | AtomicUpdate():
                stored.add(op.array)
            case AsyncCopy():
                loaded.add(op.array)
                stored.add(op.buffer)
            case _:
                pass
    return loaded, stored


def given_names(kernel: Kernel, member: Member) -> dict[str, str]:
    """Per parameter of a member the name that the whole kernel has for it."""
    given = [kernel.parameters[k].name for k in member.arguments]
    return {p.name: name for p, name in zip(member.kernel.parameters, given, strict=True)}


def check_arguments(
    kernel: Kernel, arrays: Mapping[str, Array], sizes: Mapping[str, int], scalars: Mapping[str, object]
) -> None:
    """Every parameter has an argument of its dtype and shape, and every size symbol of a shape or the grid a value.

    Raises:
        ArgumentError: the argument is missing or does not fit.
    """
    for parameter in kernel.parameters:
        known: Collection[str] = scalars
        if isinstance(parameter, ArrayParameter):
            known = arrays
        elif isinstance(parameter, SizeParameter):
            known = sizes
        if parameter.name not in known:
            raise ArgumentError(f"kernel {kernel.name} needs an argument for its parameter {parameter.name}")
    extents = [n for p in kernel.parameters if isinstance(p, ArrayParameter) for n in p.shape]
    for symbol in sorted(names_of([*kernel.grid, *extents]) - set(sizes)):
        raise ArgumentError(f"kernel {kernel.name} needs a value for the size {symbol}")
    for parameter in kernel.parameters:
        if isinstance(parameter, ArrayParameter):
            array, shape = arrays[parameter.name], tuple(n.evaluate(sizes) for n in parameter.shape)
            if array.dtype != parameter.dtype.numpy or array.shape != shape:
                given = f"{array.dtype}{list(array.shape)}"
                raise ArgumentError(f"{parameter.name} is {given}; {kernel.name} takes {parameter.dtype}{list(shape)}")


def tracker_for(memory: Memory, elements: int, shared_memory: bool, reads_matter: bool) -> Tracker:
    """A race tracker that reports in terms of `memory`."""
    return Tracker(elements, memory.threads, memory.fault, shared_memory, reads_matter)


def shared_memories(kernel: Kernel, blocks: int, checks: bool) -> dict[str, Memory]:
    """Fresh shared memory for `blocks` blocks: undefined, one copy each."""
    result: dict[str, Memory] = {}
    for buffer in kernel.shared:
        elements = blocks * buffer.elements
        data = np.zeros(elements, buffer.dtype.numpy)
        defined: Bools | None = np.zeros(elements, np.bool_) if checks else None
        memory = Memory(buffer.name, buffer.dtype, data, (buffer.elements,), kernel.threads, defined)
        if checks:
            memory.tracker = tracker_for(memory, elements, shared_memory=True, reads_matter=True)
        result[buffer.name] = memory
    return result


def batches(kernel: Kernel, grid: tuple[int, ...], seed: int | None) -> Iterator[Ints]:
    """Block numbers that run in lock step together: in order, or shuffled by `seed` where blocks update what others do,
    each in its turn."""
    blocks = int(np.prod(grid, dtype=np.int64))
    order = np.arange(blocks, dtype=np.int64)
    if seed is not None and any(isinstance(op, AtomicUpdate) for op in operations(kernel.body)):
        np.random.default_rng(seed).shuffle(order)
    slots = int(np.prod([s.extent for s in kernel.slots], dtype=np.int64))
    step = max(1, BATCH_ELEMENTS // (kernel.threads * slots))
    for start in range(0, blocks, step):
        yield order[start : start + step]


def interleave(programs: Iterator[Generator[None, None, None]], seed: int | None) -> None:
    """Runs block programs, each a generator that pauses where blocks may meet: in order, or shuffled by `seed`."""
    chooser = random.Random(seed)
    active = list(itertools.islice(programs, 1 if seed is None else WINDOW))
    while active:
        position = chooser.randrange(len(active))
        if next(active[position], active) is active:
            active.pop(position)
            active.extend(itertools.islice(programs, 1))
