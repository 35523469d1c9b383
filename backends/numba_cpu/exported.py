"""How an exported CPU program runs: this module's text is part of every exported file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyfuse.backends.exported import as_number, in_language
from polyfuse.backends.numba_cpu.fragments import (
    Fragment,
    LoadedKernel,
    Pointer,
    compile_function,
    namespace,
    parameter_layout,
)

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class ExportedLaunch:
    """One kernel: its function, parameters as (kind, dtype name), grid, and where each argument comes from.

    `arguments`: ``("argument", k)``, ``("output", k)``, ``("buffer", k)`` or ``("size", function of the sizes)``.
    """

    function: Callable[..., None]
    parameters: Sequence[tuple[str, str]]
    blocks: Callable[[Sizes], int]
    arguments: Sequence[tuple[str, Any]]


@dataclass
class ExportedProgram:
    """A fused program with everything that it needs to run on NumPy arrays.

    `arguments`: (name, dtype name, shape as size names or numbers; None for a scalar).  `buffers`: (dtype name, shape,
    whether it starts with zeros).  `guards`: (text, test).  `checks`: what is wrong where the status word, the last
    buffer, holds 1, 2, ...: data indices that may leave their array.  `copies`: results that are an argument or another
    result, with what they are; nothing computes them.
    """

    name: str
    arguments: Sequence[tuple[str, str, Sequence[str | int] | None]]
    outputs: Sequence[tuple[str, Callable[[Sizes], tuple[int, ...]]]]
    buffers: Sequence[tuple[str, Callable[[Sizes], tuple[int, ...]], bool]]
    guards: Sequence[tuple[str, Callable[[Sizes], bool]]]
    launches: Sequence[ExportedLaunch]
    index_bits: int = 32
    checks: Sequence[str] = ()
    copies: Sequence[tuple[tuple[str, int], tuple[str, int]]] = ()
    _loaded: dict[int, Any] = field(default_factory=dict)

    def __call__(self, *values: Any) -> Any:
        """Run on arrays (anything NumPy converts) and numbers; returns one array, or a tuple of several.

        Raises TypeError for a wrong number of arguments and for what is no number, ValueError for sizes that the plan
        does not cover, and IndexError for data indices out of bounds.
        """
        if len(values) != len(self.arguments):
            raise TypeError(f"{self.name} takes {len(self.arguments)} arguments, not {len(values)}")
        arrays = [
            as_number(v, name, dtype) if shape is None else np.require(v, np.dtype(dtype), ["C", "A"])
            for v, (name, dtype, shape) in zip(values, self.arguments, strict=True)
        ]
        sizes = self._sizes(arrays)
        outputs = [np.empty(shape(sizes), np.dtype(dtype)) for dtype, shape in self.outputs]
        buffers = [
            (np.zeros if zeroed else np.empty)(shape(sizes), np.dtype(dtype)) for dtype, shape, zeroed in self.buffers
        ]
        places = {"argument": arrays, "output": outputs, "buffer": buffers}
        for number, launch in enumerate(self.launches):
            blocks = launch.blocks(sizes)
            if blocks > 0:
                passed = [_passed(where, what, places, sizes) for where, what in launch.arguments]
                self._kernel(number).run((blocks,), passed)
        for (to, k), (where, n) in self.copies:
            places[to][k][...] = places[where][n]
        self._check(buffers)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _check(self, buffers: Sequence[Any]) -> None:
        if self.checks and (number := int(buffers[-1][0])):
            raise IndexError(self.checks[number - 1])

    def _sizes(self, arrays: Sequence[Any]) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for array, (name, _, shape) in zip(arrays, self.arguments, strict=True):
            if shape is None:
                continue
            if array.ndim != len(shape):
                raise ValueError(f"{name} has {array.ndim} dimensions, not {len(shape)}")
            for n, wanted in zip(array.shape, shape, strict=True):
                known = sizes.setdefault(wanted, n) if isinstance(wanted, str) else wanted
                if known != n:
                    raise ValueError(f"{name} has an axis of {n} where {wanted} = {known}")
        for text, holds in self.guards:
            if not holds(sizes):
                raise ValueError(f"{self.name} was exported for sizes with {text}; these are {sizes}")
        return sizes

    def _kernel(self, number: int) -> Any:
        if number not in self._loaded:
            launch = self.launches[number]
            names = namespace(self.index_bits)
            types = [_type(kind, dtype, names, self.index_bits) for kind, dtype in launch.parameters]
            code = compile_function(in_language(launch.function, names), types, names, False)
            self._loaded[number] = LoadedKernel(code, parameter_layout(types), 16 * 1024)
        return self._loaded[number]


def _passed(where: str, what: Any, places: Mapping[str, Sequence[Any]], sizes: Sizes) -> Any:
    if where == "size":
        return what(sizes)
    value = places[where][what]
    return value.ctypes.data if isinstance(value, np.ndarray) else value


def _type(kind: str, dtype: str, names: Mapping[str, Any], index_bits: int) -> Any:
    match kind:
        case "in" | "out":
            return Pointer(names[dtype], kind == "in", False)
        case "scalar":
            return Fragment(names[dtype].compute, (), weak=True)
        case _:
            return Fragment(names[f"int{index_bits}"], (), weak=True)
