"""Steps of a prepared call that are not kernel launches: library calls and copies between whole arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polyfuse.errors import IndexFault, Source
from polyfuse.expr import Call, Program
from polyfuse.library_calls.contraction import Contraction
from polyfuse.plan import IndexSite
from polyfuse.run.arrays import Library
from polyfuse.run.services import Launcher


def library_call(
    library: Library, call: Call, operands: Sequence[int], results: Sequence[int], line: Callable[[], Source | None]
) -> Launcher:
    """Call a library function (or the user's own); `operands` and `results` are positions of arrays in the values.
    `line`: the user's, for an index that the function finds out of bounds."""
    settings = dict(call.settings)

    def step(values: list[Any], stream: int) -> None:
        written = [values[k] for k in results] if call.in_place else []
        arrays = [values[k] for k in operands]  # a library's current stream is the one that the launches use
        if call.function is not None and call.in_place:
            call.function(*arrays, *written, stream=stream)
            return
        if call.function is not None:
            answer = call.function(*arrays, **settings)
        else:
            try:
                answer = library.call(call.name, arrays + written, settings)
            except IndexError as error:
                advice = 'Use np.clip on the index, or jit(bounds="clip").'
                raise IndexFault(str(error), advice=advice, source=line()) from None
        if call.in_place:
            return
        answers = answer if isinstance(answer, (tuple, list)) else (answer,)
        for k, value in zip(results, answers, strict=True):
            library.copy(values[k], value)

    return step


def contraction(
    library: Library, spec: Contraction, sizes: Mapping[str, int], operands: Sequence[int], result: int
) -> Launcher:
    """Run a contraction as a product of matrices, at these sizes."""
    product = library.product(spec, sizes)
    left, right = operands

    def step(values: list[Any], stream: int) -> None:
        del stream
        product(values[left], values[right], values[result])

    return step


def index_check(status: int, sites: Sequence[IndexSite], program: Program) -> Launcher:
    """Raise IndexFault when a kernel on the host has set the status word whose address is at a position of the values.
    `program`: as traced, which tells the lines of the sites."""
    word = ctypes.c_int32.from_address

    def step(values: list[Any], stream: int) -> None:
        del stream
        cell = word(values[status])
        if number := cell.value:
            cell.value = 0
            raise sites[number - 1].fault(program)

    return step


def copy(library: Library, target: int, source: int) -> Launcher:
    """Copy between arrays at two positions of the values."""

    def step(values: list[Any], stream: int) -> None:
        del stream
        library.copy(values[target], values[source])

    return step
