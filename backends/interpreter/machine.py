"""Executes kernel IR on NumPy: all threads of a block in lock step, many blocks at once where they cannot meet."""

from __future__ import annotations

from collections.abc import Generator, Mapping

import numpy as np

from polyfuse.backends.interpreter.execution import Execution, Steps
from polyfuse.backends.interpreter.launch import (
    Elections,
    batches,
    check_arguments,
    communicates,
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

    `seed` shuffles the order in which blocks that meet in an election proceed; None runs them one after the other.
    `defined` maps the names of arrays whose content may be undefined to boolean masks of their shape; stores set them.

    Raises:
        KernelFault: out of bounds, uninitialised, racing, divergent, misaligned (only with `checks`).
        ArgumentError: an argument is missing or does not fit its parameter.
    """
    check_arguments(kernel, arrays, sizes, scalars)
    grid = tuple(n.evaluate(sizes) for n in kernel.grid)
    memory, copies = _global_memories(kernel, arrays, checks, defined or {})
    values = {
        p.name: np.full((1,) * (2 + len(kernel.slots)), scalars[p.name], p.dtype.compute.numpy)
        for p in kernel.parameters
        if isinstance(p, ScalarParameter)
    }
    elections = Elections({})
    counts: dict[tuple[str, int], int] = {}
    together = not communicates(kernel)
    groups = batches(kernel, grid) if together else (np.array([b]) for b in range(int(np.prod(grid))))

    def programs() -> Generator[Steps, None, None]:
        for blocks in groups:
            yield Execution(kernel, sizes, grid, blocks, memory, dict(values), elections, counts, checks).run()

    interleave(programs(), None if together else seed)
    elections.complete(counts)
    for array, copy in copies:
        array[...] = copy.reshape(array.shape)


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
