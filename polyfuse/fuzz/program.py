"""A random program as a value: a list of lines over earlier values, which prints as Python."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import polyfuse
from polyfuse.dtypes import ALL
from polyfuse.fuzz.arrays import Array, ArrayValue

NAMES: Mapping[str, Any] = {"np": np, "pf": polyfuse, **{t.name: t.numpy.type for t in ALL}}
WIDE: Mapping[str, Any] = {**NAMES, **{t.name: np.float64 for t in ALL if t.is_float}}
"""What programs may name: the same, with every float a float64, for the oracle."""


@dataclass(frozen=True, slots=True)
class Line:
    """One value.  `text`: an expression with operands ``{0}``, ``{1}`` ..., or statements that assign ``{v}``.  `op`:
    for the histogram.  `pointwise`: no shape changes and nothing moves."""

    op: str
    text: str
    operands: tuple[int, ...] = ()
    pointwise: bool = False

    def code(self, name: Callable[[int], str], own: str) -> list[str]:
        given = [name(o) for o in self.operands]
        if "{v}" in self.text:
            return self.text.format(*given, v=own).split("\n")
        return [f"{own} = {self.text.format(*given)}"]


@dataclass(frozen=True, slots=True)
class WrittenProgram:
    """The text of a function ``program(x0, x1, ...)`` and its arguments.  `donate`: those that it may write."""

    source: str
    arrays: tuple[ArrayValue, ...]
    donate: tuple[int, ...] = ()

    @property
    def donated_names(self) -> tuple[str, ...]:
        return tuple(f"x{k}" for k in self.donate)

    def function(self, names: Mapping[str, Any] = NAMES) -> Callable[..., Any]:
        """The program as a function whose source Python knows, so that values have names and errors lines."""
        file = f"<random program {hashlib.sha256(self.source.encode()).hexdigest()[:12]}>"
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(keepends=True), file)
        space = dict(names)
        exec(compile(self.source, file, "exec"), space)
        made: Callable[..., Any] = space["program"]
        return made

    def arguments(self) -> list[Array]:
        return [array.made() for array in self.arrays]


@dataclass(frozen=True, slots=True)
class RandomProgram:
    """Values ``0 .. len(arrays) - 1`` are arguments, the others lines.  `donate`: arguments that lines may write."""

    arrays: tuple[ArrayValue, ...]
    lines: tuple[Line, ...]
    outputs: tuple[int, ...]
    donate: tuple[int, ...] = ()

    def name(self, value: int) -> str:
        return f"x{value}" if value < len(self.arrays) else f"v{value}"

    @property
    def written(self) -> WrittenProgram:
        parameters = ", ".join(self.name(k) for k in range(len(self.arrays)))
        body = [
            code for k, line in enumerate(self.lines, len(self.arrays)) for code in line.code(self.name, self.name(k))
        ]
        body.append(f"return {', '.join(map(self.name, self.outputs))}")
        source = f"def program({parameters}):\n" + "".join(f"    {code}\n" for code in body)
        return WrittenProgram(source, self.arrays, self.donate)

    @property
    def size(self) -> tuple[int, int, int]:
        """What shrinking makes smaller: lines and arguments, text, elements of arguments and what is special there."""
        text = sum(len(line.text) for line in self.lines)
        details = sum(bool(a.seed) + 2 * (not a.is_plain) + len(a.fill) + (a.dtype != "f32") for a in self.arrays)
        elements = sum(sum(a.shape) for a in self.arrays)
        return len(self.lines) + len(self.arrays), text, elements + details + len(self.donate)
