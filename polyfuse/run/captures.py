"""What a function reads besides its arguments: arrays are read anew at each call, plain values are guards.

Without this a global that the user rebinds would keep its old value inside a compiled program.
"""

from __future__ import annotations

import logging
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import getattr_static
from typing import Any

import numpy as np

from polyfuse.errors import ArgumentError
from polyfuse.run.arguments import same
from polyfuse.run.arrays import Device, Library

_log = logging.getLogger("polyfuse.run")

_PLAIN = (bool, int, float, str, bytes, type(None))
_DEPTH = 8  # how far helper functions, attributes and items are followed
_ITEMS = 256  # entries of a container that are looked into
_BYTES = 4096  # of an array whose contents are compared at each call


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

    A captured array that no cell holds stays the object it is.  A small array that is not captured, nor a view of it,
    was read while tracing (``table[0]``, ``float(limit)``): its contents are a plain value.
    """
    cells = list(_cells(function, statics, _DEPTH, set()))
    held = [(cell, cell.read()) for cell in cells]
    arrays = tuple(next((c.read for c, v in held if v is array), _constant(array)) for array in captured)
    plain = {cell.name: (cell.read, value) for cell, value in held if _is_plain(value)}
    for cell, value in held:
        if _was_read(value, captured):
            plain[cell.name] = (_contents(cell.read), _content(value))
    return Watch(arrays, tuple(plain.values()))


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _is_plain(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(_is_plain(v) for v in value)
    return type(value) in _PLAIN


def _was_read(value: Any, captured: Sequence[Any]) -> bool:
    if type(value) is not np.ndarray or value.nbytes > _BYTES or value.dtype.hasobject:
        return False
    return not any(type(array) is np.ndarray and np.may_share_memory(value, array) for array in captured)


def _content(value: Any) -> Any:
    return (value.tobytes(), value.dtype.str, value.shape) if type(value) is np.ndarray else value


def _contents(read: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: _content(read())


def _cells(function: Any, statics: Sequence[Any], depth: int, seen: set[int]) -> Iterator[Cell]:
    """Globals and closure cells of `function` and of the Python functions that it names, with what hangs on them."""
    function = getattr(function, "__wrapped__", function)
    if isinstance(function, partial):
        function, statics = function.func, (*function.args, *function.keywords.values(), *statics)
    elif isinstance(call := getattr_static(type(function), "__call__", None), types.FunctionType):
        function, statics = call, (function, *statics)
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
    """`cell`, and what it holds: items, and attributes whose names occur in the code."""
    yield cell
    value = cell.read()
    if isinstance(value, types.FunctionType):  # not in `seen` for what is kept on it: it is there as code
        yield from (Cell(_attribute(cell.read, n), f"{cell.name}.{n}") for n in value.__dict__ if n in mentioned)
        return
    if depth == 0 or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, (dict, list, tuple, set)):
        below = list(_items(cell, value, mentioned))
    else:
        mentioned = {**mentioned, **_of_methods(value, mentioned)}
        below = [Cell(_attribute(cell.read, n), f"{cell.name}.{n}") for n in _attributes(value) if n in mentioned]
    for part in below:
        yield from _parts(part, mentioned, depth - 1, seen)


def _items(cell: Cell, value: Any, mentioned: Mapping[Any, None]) -> Iterator[Cell]:
    """The items of a container, of a large dictionary those whose keys occur in the code, and how many there are."""
    read = cell.read
    if isinstance(value, set):
        yield Cell(lambda: frozenset(now) if isinstance(now := read(), set) else None, f"set({cell.name})")
        return
    if not isinstance(value, tuple):
        yield Cell(_length(read), f"len({cell.name})")
    keys = range(min(len(value), _ITEMS)) if isinstance(value, (list, tuple)) else list(value)
    for key in keys:
        if len(value) <= _ITEMS or not isinstance(value, dict) or key in mentioned:
            yield Cell(_item(read, key), f"{cell.name}[{key!r}]")


def _attributes(value: Any) -> list[str]:
    """Names of what a user's object, class or module holds: methods and properties are code, not values."""
    if isinstance(value, types.ModuleType):
        return list(vars(value)) if _is_users(value.__name__, getattr(value, "__file__", None)) else []
    kind = value if isinstance(value, type) else type(value)
    found = dict.fromkeys(() if isinstance(value, type) else getattr(value, "__dict__", ()))
    for base in kind.__mro__:
        if _is_users(base.__module__, getattr(sys.modules.get(base.__module__), "__file__", None)):
            slots = (types.MemberDescriptorType,)
            found |= {n: None for n, v in vars(base).items() if isinstance(v, slots) or not hasattr(v, "__get__")}
    return list(found)


def _is_users(module: str, file: str | None) -> bool:
    """Whether a module is no library: what those hold does not change."""
    root = module.partition(".")[0]
    return root not in sys.stdlib_module_names and root != "polyfuse" and "-packages" not in (file or "")


def _of_methods(value: Any, mentioned: Mapping[Any, None]) -> dict[Any, None]:
    """What the methods and properties of `value` mention, as far as their own names are mentioned."""
    methods = [getattr(type(value), n, None) for n in (*mentioned, "__call__") if type(n) is str]
    found: dict[Any, None] = {}
    for method in methods:
        method = method.fget if isinstance(method, property) else getattr(method, "__wrapped__", method)
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


def _length(read: Callable[[], Any]) -> Callable[[], Any]:
    def length() -> Any:
        value = read()
        return len(value) if isinstance(value, (dict, list)) else None

    return length


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
