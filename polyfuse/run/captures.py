"""What a function reads besides its arguments: arrays are read anew at each call, plain values are guards.

Without this a global that the user rebinds would keep its old value inside a compiled program.
"""

from __future__ import annotations

import logging
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyfuse.errors import ArgumentError
from polyfuse.run.arguments import same
from polyfuse.run.arrays import Device, Library

_log = logging.getLogger("polyfuse.run")

_PLAIN = (bool, int, float, str, bytes, type(None))
_DEPTH = 4  # how far helper functions, attributes and items are followed
_ITEMS = 256  # entries of a list that are looked into


@dataclass(frozen=True, slots=True)
class Cell:
    """A place that holds a value: an entry of a namespace, a closure's cell, an attribute or item of what they hold."""

    read: Callable[[], Any]
    name: str


@dataclass(frozen=True, slots=True)
class Watch:
    """`arrays`: one reader per captured array.  `plain`: cells with the values they had at the trace.  `copies`: of
    captured host arrays on devices, with the bytes that they were made of."""

    arrays: tuple[Callable[[], Any], ...] = ()
    plain: tuple[tuple[Callable[[], Any], Any], ...] = field(default=())
    copies: dict[tuple[int, str, Device], tuple[bytes, Any]] = field(default_factory=dict, compare=False)

    def reader(self, position: int, library: Library, device: Device) -> Callable[[], Any]:
        """How calls on a device read a captured array: a NumPy array through a copy there, made anew when it changes;
        on the host as an array of the library that may have to call its own functions on it.

        Programs hold constants (`np.array([0.5, 2.0])`, the indices of a padding) that no user could move.
        """
        read, key = self.arrays[position], (position, library.name, device)
        if device.kind == "cpu":
            return read if library.name == "numpy" else lambda: _of_library(read(), library, device)

        def moved() -> Any:
            array = read()
            if type(array) is not np.ndarray:
                return array
            content = array.tobytes()
            known = self.copies.get(key)
            if known is None or known[0] != content or tuple(known[1].shape) != array.shape:
                known = self.copies[key] = (content, library.upload(array, device))
                _log.info("captured array %d of shape %s was copied to %s", position, array.shape, device)
            return known[1]

        return moved

    def holds(self) -> bool:
        """Whether every plain value is still what the trace saw."""
        for read, value in self.plain:
            current = read()
            if current is not value and not same(current, value):
                return False
        return True


def of_capture(error: ArgumentError) -> ArgumentError:
    """What a library says against an array, of one that no argument's name leads to."""
    return ArgumentError(f"an array that the function holds{error.message}", advice=error.advice)


def _of_library(array: Any, library: Library, device: Device) -> Any:
    return library.upload(array, device) if type(array) is np.ndarray else array


def watch(function: Callable[..., Any], captured: Sequence[Any], statics: Sequence[Any] = ()) -> Watch:
    """Readers for what `function` closes over and for what it may read of its static arguments.

    A captured array that no cell holds stays the object it is.
    """
    cells = list(_cells(function, statics, _DEPTH, set()))
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


def _cells(function: Any, statics: Sequence[Any], depth: int, seen: set[int]) -> Iterator[Cell]:
    """Globals and closure cells of `function` and of the Python functions that it names, with what hangs on them."""
    function = getattr(function, "__wrapped__", function)
    if isinstance(function, types.MethodType):
        function, statics = function.__func__, (function.__self__, *statics)
    if not isinstance(function, types.FunctionType) or id(function) in seen or depth == 0:
        return
    seen.add(id(function))
    found = [_cell(c, n) for n, c in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)]
    space, mentioned = function.__globals__, _mentioned(function.__code__)
    found += [_entry(space, name) for name in mentioned if type(name) is str and name in space]
    found += [Cell(_constant(value), f"static {id(value)}") for value in statics]
    for cell in found:
        yield from _parts(cell, mentioned, depth, seen)
        value = cell.read()
        if callable(value) and getattr(value, "__globals__", None) is space:
            yield from _cells(value, (), depth - 1, seen)


def _parts(cell: Cell, mentioned: Mapping[Any, None], depth: int, seen: set[int]) -> Iterator[Cell]:
    """`cell`, and the attributes and items of what it holds whose names occur in the code."""
    yield cell
    value = cell.read()
    if depth == 0 or id(value) in seen or isinstance(value, (types.ModuleType, types.FunctionType, type)):
        return
    seen.add(id(value))
    if isinstance(value, dict):
        below = [Cell(_item(cell.read, key), f"{cell.name}[{key!r}]") for key in value if key in mentioned]
    elif isinstance(value, (list, tuple)):
        below = [Cell(_item(cell.read, k), f"{cell.name}[{k}]") for k in range(min(len(value), _ITEMS))]
    else:
        mentioned = {**mentioned, **_of_methods(value, mentioned)}
        names = [name for name in getattr(value, "__dict__", ()) if name in mentioned]
        below = [Cell(_attribute(cell.read, name), f"{cell.name}.{name}") for name in names]
    for part in below:
        yield from _parts(part, mentioned, depth - 1, seen)


def _of_methods(value: Any, mentioned: Mapping[Any, None]) -> dict[Any, None]:
    """What the methods of `value` mention, as far as their own names are mentioned."""
    methods = [getattr(type(value), n, None) for n in (*mentioned, "__call__") if type(n) is str]
    found: dict[Any, None] = {}
    for method in methods:
        method = getattr(method, "__wrapped__", method)
        if isinstance(method, types.FunctionType):
            found |= _mentioned(method.__code__)
    return found


def _mentioned(code: types.CodeType) -> dict[Any, None]:
    """Names of globals and attributes in `code`, and its constants that may be keys."""
    found: dict[Any, None] = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _mentioned(constant)
        elif type(constant) in (str, int):
            found[constant] = None
    return found


def _item(read: Callable[[], Any], key: Any) -> Callable[[], Any]:
    def item() -> Any:
        try:
            return read()[key]
        except (LookupError, TypeError):
            return None

    return item


def _attribute(read: Callable[[], Any], name: str) -> Callable[[], Any]:
    return lambda: getattr(read(), name, None)


def _entry(space: dict[str, Any], name: str) -> Cell:
    return Cell(lambda: space.get(name), f"{id(space)}.{name}")


def _cell(cell: types.CellType, name: str) -> Cell:
    def read() -> Any:
        try:
            return cell.cell_contents
        except ValueError:  # not assigned yet
            return None

    return Cell(read, f"{id(cell)}.{name}")
