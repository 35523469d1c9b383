"""Executes kernel IR on NumPy: all threads of a block in lock step, many blocks at once where they cannot meet."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from polyfuse.backends.interpreter.execution import Execution, Steps
from polyfuse.backends.interpreter.launch import (
    Carries,
    Elections,
    batches,
    check_arguments,
    communicates,
    given_names,
    interleave,
    touched,
    tracker_for,
)
from polyfuse.backends.interpreter.memory import Memory
from polyfuse.backends.interpreter.special import Array
from polyfuse.kernel import ArrayParameter, Kernel, ScalarParameter


def run_kernel(
    kernel: Kernel,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    scalars: Mapping[str, object],
    *,
    seed: int | None = 0,
    checks: bool = True,
    defined: Mapping[str, Array] | None = None,
) -> None:
    """Runs `kernel` on `arrays`, in place.

    `seed` shuffles the order in which blocks that meet in an election or in atomic updates proceed; None runs them one
    after the other.
    `defined` maps the names of arrays whose content may be undefined to boolean masks of their shape; stores set them.

    Raises:
        KernelFault: out of bounds, uninitialised, racing, divergent, misaligned (only with `checks`).
        ArgumentError: an argument is missing or does not fit its parameter.
    """
    check_arguments(kernel, arrays, sizes, scalars)
    memory, copies = _global_memories(kernel, arrays, checks, defined or {})
    elections, carries = Elections({}), Carries({})
    counts: dict[tuple[str, int], int] = {}
    together = not communicates(kernel)
    launched = int(np.prod([n.evaluate(sizes) for n in kernel.grid]))

    def programs() -> Generator[Steps, None, None]:
        for part in _parts(kernel, memory, sizes, scalars):
            own, grid = part.kernel, tuple(n.evaluate(part.sizes) for n in part.kernel.grid)
            groups = batches(own, grid, seed) if together else (np.array([b]) for b in range(int(np.prod(grid))))
            values = _scalars(own, part.scalars)
            for blocks in groups:
                state = (part.memory, dict(values), elections, carries, counts, checks)
                yield Execution(own, part.sizes, grid, blocks, *state, part.first, launched).run()

    interleave(programs(), None if together and not kernel.members else seed)
    elections.complete(counts)
    for array, copy in copies:
        array[...] = copy.reshape(array.shape)


@dataclass(frozen=True, slots=True)
class _Part:
    """A kernel that runs from block `first` of the launch on; its arguments under its own names."""

    kernel: Kernel
    memory: dict[str, Memory]
    sizes: Mapping[str, int]
    scalars: Mapping[str, object]
    first: int = 0


def _parts(
    kernel: Kernel, memory: dict[str, Memory], sizes: Mapping[str, int], scalars: Mapping[str, object]
) -> Iterator[_Part]:
    """The kernel itself, or its members, each with at least one block."""
    if not kernel.members:
        yield _Part(kernel, memory, sizes, scalars)
        return
    for member in kernel.members:
        names = given_names(kernel, member)
        own = {p: memory[g] for p, g in names.items() if g in memory}
        numbers = {**sizes, **{p: sizes[g] for p, g in names.items() if g in sizes}}
        passed = {p: scalars[g] for p, g in names.items() if g in scalars}
        if all(extent.evaluate(numbers) > 0 for extent in member.kernel.grid):
            yield _Part(member.kernel, own, numbers, passed, member.first.evaluate(sizes))


def _scalars(kernel: Kernel, given: Mapping[str, object]) -> dict[str, Array]:
    shape = (1,) * (2 + len(kernel.slots))
    scalars = (p for p in kernel.parameters if isinstance(p, ScalarParameter))
    return {p.name: np.full(shape, given[p.name], p.dtype.compute.numpy) for p in scalars}


def _global_memories(
    kernel: Kernel, arrays: Mapping[str, Array], checks: bool, defined: Mapping[str, Array]
) -> tuple[dict[str, Memory], list[tuple[Array, Array]]]:
    """Memories of the array parameters, and (array, copy) pairs of those that are not C-contiguous."""
    loaded, stored = touched(kernel)
    result: dict[str, Memory] = {}
    copies: list[tuple[Array, Array]] = []
    for p in kernel.parameters:
        if not isinstance(p, ArrayParameter):
            continue
        array = arrays[p.name]
        data = np.ascontiguousarray(array).reshape(-1)
        if p.name in stored and not array.flags.c_contiguous:
            copies.append((array, data))
        mask = defined.get(p.name)
        memory = Memory(p.name, p.dtype, data, array.shape, kernel.threads, None if mask is None else mask.reshape(-1))
        if checks and p.name in stored:
            memory.tracker = tracker_for(memory, data.size, shared_memory=False, reads_matter=p.name in loaded)
        result[p.name] = memory
    return result, copies
