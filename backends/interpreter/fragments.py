"""Runs *printed* kernels on NumPy, without a GPU, so that defects of the printer show."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping

import numpy as np

from polyfuse.backends.interpreter.launch import (
    Carries,
    Elections,
    batches,
    check_arguments,
    communicates,
    interleave,
    touched,
    tracker_for,
)
from polyfuse.backends.interpreter.layouts import Pointer
from polyfuse.backends.interpreter.memory import Memory
from polyfuse.backends.interpreter.rewriting import lock_step
from polyfuse.backends.interpreter.runtime import Runtime
from polyfuse.backends.interpreter.special import Array
from polyfuse.codegen.strides import element_strides
from polyfuse.kernel import ArrayParameter, Kernel, ScalarParameter, SizeParameter


def run_source(
    source: str,
    name: str,
    kernel: Kernel,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    scalars: Mapping[str, object],
    *,
    seed: int | None = 0,
    checks: bool = True,
) -> None:
    """Runs the function `name` of the printed module `source` on `arrays`, in place.

    `kernel` gives the parameters' order, the grid and the block size; nothing else of it is looked at.

    Raises:
        KernelFault: as `run_kernel`; out of bounds means outside of the whole array here.
        FragmentError: the text breaks a rule of the language.
    """
    check_arguments(kernel, arrays, sizes, scalars)
    grid = tuple(n.evaluate(sizes) for n in kernel.grid)
    pointers, write_back = _pointers(kernel, arrays, sizes, checks)
    arguments: list[object] = []
    for p in kernel.parameters:
        match p:
            case ArrayParameter():
                arguments.append(pointers[p.name])
            case SizeParameter():
                arguments.append(int(sizes[p.name]))
            case ScalarParameter():
                arguments.append(p.dtype.compute.numpy.type(scalars[p.name]).item())
    code, elections = lock_step(source, name), Elections({})
    carries = Carries({})
    counts: dict[tuple[str, int], int] = {}
    together = not communicates(kernel)
    alone = not together or "scalar(" in source
    groups = (np.array([b]) for b in range(math.prod(grid))) if alone else batches(kernel, grid, seed)

    def programs() -> Generator[Generator[None, None, None], None, None]:
        for blocks in groups:
            runtime = Runtime(kernel, grid, blocks, elections, carries, counts, checks)
            namespace = runtime.namespace()
            exec(code, namespace)
            yield namespace[name](*arguments)

    interleave(programs(), None if together else seed)
    elections.complete(counts)
    write_back()


def _pointers(
    kernel: Kernel, arrays: Mapping[str, Array], sizes: Mapping[str, int], checks: bool
) -> tuple[dict[str, Pointer], Callable[[], None]]:
    """Each array in memory laid out as its parameter says, and what copies results back."""
    loaded, stored = touched(kernel)
    result: dict[str, Pointer] = {}
    views: list[tuple[Array, Array]] = []
    for p in kernel.parameters:
        if not isinstance(p, ArrayParameter):
            continue
        array = arrays[p.name]
        strides = [s.evaluate(sizes) for s in element_strides(p)]
        reach = [(n - 1) * s for n, s in zip(array.shape, strides, strict=True)] if array.size else []
        origin = -sum(min(r, 0) for r in reach)
        data = np.zeros(origin + sum(max(r, 0) for r in reach) + 1 if array.size else 0, array.dtype)
        view = np.lib.stride_tricks.as_strided(data[origin:], array.shape, [s * array.itemsize for s in strides])
        view[...] = array
        if p.name in stored:
            views.append((array, view))
        memory = Memory(p.name, p.dtype, data, data.shape, kernel.threads)
        if checks and p.name in stored:
            memory.tracker = tracker_for(memory, data.size, shared_memory=False, reads_matter=p.name in loaded)
        result[p.name] = Pointer(memory, origin)

    def write_back() -> None:
        for array, view in views:
            array[...] = view

    return result, write_back
