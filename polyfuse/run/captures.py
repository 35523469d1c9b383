"""What a function reads besides its arguments: arrays are read anew at each call, plain values are guards.

Without this a global that the user rebinds would keep its old value inside a compiled program.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from polyfuse.run.arguments import same

_PLAIN = (bool, int, float, str, bytes, type(None))
_DEPTH = 4  # helper functions within helper functions that are looked into


@dataclass(frozen=True, slots=True)
class Cell:
    """A place that holds a value: an entry of a namespace, or a closure's cell."""

    read: Callable[[], Any]
    name: str


@dataclass(frozen=True, slots=True)
class Watch:
    """`arrays`: one reader per captured array.  `plain`: cells with the values they had at the trace."""

    arrays: tuple[Callable[[], Any], ...] = ()
    plain: tuple[tuple[Callable[[], Any], Any], ...] = field(default=())

    def holds(self) -> bool:
        """Whether every plain value is still what the trace saw."""
        for read, value in self.plain:
            current = read()
            if current is not value and not same(current, value):
                return False
        return True


def watch(function: Callable[..., Any], captured: Sequence[Any]) -> Watch:
    """Readers for what `function` closes over; a captured array that no cell holds stays the object it is."""
    cells = list(_cells(function, _DEPTH, set()))
    held = [(cell, cell.read()) for cell in cells]
    arrays = tuple(next((c.read for c, v in held if v is array), _constant(array)) for array in captured)
    plain = {cell.name: (cell.read, value) for cell, value in held if _is_plain(value)}
    return Watch(arrays, tuple(plain.values()))


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _is_plain(value: Any) -> bool:
    if type(value) is tuple:
        return all(_is_plain(v) for v in value)
    return type(value) in _PLAIN


def _cells(function: Callable[..., Any], depth: int, seen: set[int]) -> Iterator[Cell]:
    """Globals and closure cells that `function` and the Python functions it names refer to."""
    function = getattr(function, "__wrapped__", function)
    if not isinstance(function, types.FunctionType) or id(function) in seen or depth == 0:
        return
    seen.add(id(function))
    found = [_cell(c, n) for n, c in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)]
    space = function.__globals__
    found += [_entry(space, name) for name in _global_names(function.__code__) if name in space]
    for cell in found:
        yield cell
        value = cell.read()
        if callable(value) and getattr(value, "__globals__", None) is space:
            yield from _cells(value, depth - 1, seen)


def _global_names(code: types.CodeType) -> dict[str, None]:
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


def _entry(space: dict[str, Any], name: str) -> Cell:
    return Cell(lambda: space.get(name), f"{id(space)}.{name}")


def _cell(cell: types.CellType, name: str) -> Cell:
    def read() -> Any:
        try:
            return cell.cell_contents
        except ValueError:  # not assigned yet
            return None

    return Cell(read, f"{id(cell)}.{name}")
