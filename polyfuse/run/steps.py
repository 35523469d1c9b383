"""Steps of a prepared call that are not kernel launches: library calls and copies between whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyfuse.errors import IndexFault
from polyfuse.expr import Call
from polyfuse.run.arrays import Library
from polyfuse.run.services import Launcher


def library_call(library: Library, call: Call, operands: Sequence[int], results: Sequence[int]) -> Launcher:
    """Call a library function (or the user's own); `operands` and `results` are positions of arrays in the values."""
    settings = dict(call.settings)

    def step(values: list[Any], stream: int) -> None:
        arrays = [values[k] for k in operands]  # a library's current stream is the one that the launches use
        if call.function is not None and call.in_place:
            call.function(*arrays, *(values[k] for k in results), stream=stream)
            return
        if call.function is not None:
            answer = call.function(*arrays, **settings)
        else:
            answer = library.call(call.name, arrays, settings)
        answers = answer if isinstance(answer, (tuple, list)) else (answer,)
        for k, value in zip(results, answers, strict=True):
            library.copy(values[k], value)

    return step


def index_check(flag: int) -> Launcher:
    """Raise IndexFault when a kernel has set the flag at a position of the values; host memory only."""

    def step(values: list[Any], stream: int) -> None:
        del stream
        if int(values[flag][0]):
            values[flag][0] = 0
            raise IndexFault(
                "an index is out of bounds for the array that it reads",
                advice='Use np.clip on the index, or np.take(..., mode="clip").',
            )

    return step


def copy(library: Library, target: int, source: int) -> Launcher:
    """Copy between arrays at two positions of the values."""

    def step(values: list[Any], stream: int) -> None:
        del stream
        library.copy(values[target], values[source])

    return step
