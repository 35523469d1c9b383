"""Copies of the globals and closures of the user's functions, for one trace.

Functions of one module share a copy, and functions that share a variable share a copied cell: what one of them binds
the others see.  What is bound anew goes back to the originals when the trace is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType
from typing import Any

from polyfuse.errors import escaped
from polyfuse.frontends.numpy_like.escapes import origin

_EMPTY = object()
Names = dict[str, Any]


@dataclass(slots=True)
class Space:
    """The globals of one module.  `put`: what stands in the copy under the names that functions use."""

    original: Names
    copy: Names
    used: set[str] = field(default_factory=set)
    put: Names = field(default_factory=dict)


@dataclass(slots=True)
class Closed:
    """A variable that functions close over."""

    name: str
    original: CellType
    copy: CellType = field(default_factory=CellType)
    put: Any = _EMPTY


class Spaces:
    """The namespaces of one trace."""

    def __init__(self) -> None:
        self._spaces: dict[int, Space] = {}
        self._closed: dict[int, Closed] = {}
        self._copies: set[int] = set()

    def has(self, function: FunctionType) -> bool:
        """Whether a function is rebuilt, or defined by one that is."""
        return id(function.__globals__) in self._copies

    def of(self, function: FunctionType, builtins: Callable[[Names], Names]) -> Names:
        """The copy of a function's globals, with these `builtins`."""
        original = function.__globals__
        if id(original) not in self._spaces:
            copy = dict(original)
            copy["__builtins__"] = builtins(copy)
            self._spaces[id(original)] = Space(original, copy)
            self._copies.add(id(copy))
        return self._spaces[id(original)].copy

    def cells(self, function: FunctionType) -> tuple[CellType, ...]:
        """The copies of a function's closure."""
        names = function.__code__.co_freevars
        pairs = zip(names, function.__closure__ or (), strict=True)
        return tuple(self._closed.setdefault(id(cell), Closed(name, cell)).copy for name, cell in pairs)

    def fill(self, function: FunctionType, value: Callable[[Any], Any]) -> None:
        """Put the stand-ins that `value` gives under the names that `function` uses."""
        space = self._spaces[id(function.__globals__)]
        for name in names_in(function.__code__):
            space.used.add(name)
            held = space.copy.get(name, _EMPTY)
            if held is not _EMPTY and name not in space.put and held is space.original.get(name, _EMPTY):
                space.put[name] = held  # first, because functions refer to each other
                space.put[name] = space.copy[name] = value(held)
        for cell in function.__closure__ or ():
            closed = self._closed[id(cell)]
            if closed.put is _EMPTY and (held := _content(cell)) is not _EMPTY:
                closed.put = held
                closed.put = closed.copy.cell_contents = value(held)

    def write_back(self, original_of: Callable[[Any], Any]) -> None:
        """Bind what was bound anew in the originals too.  `original_of`: what a stand-in stands for.  Raises TraceError
        where that is a value of the trace."""
        for space in self._spaces.values():
            for name in sorted(space.used & space.copy.keys()):
                if space.copy[name] is not space.put.get(name, _EMPTY) and name != "__builtins__":
                    space.original[name] = original_of(_outlasting(name, space.copy[name]))
        for closed in self._closed.values():
            now = _content(closed.copy)
            if now is not _EMPTY and now is not closed.put:
                closed.original.cell_contents = original_of(_outlasting(closed.name, now))


def _outlasting(name: str, value: Any) -> Any:
    """`value`, if it may be kept under a global or closed-over `name` when the trace is done."""
    found = origin(value)
    if found is None:
        return value
    what, source = found
    raise escaped(name, "the call", what, source)


def names_in(code: CodeType) -> set[str]:
    """The global names that a function and the functions inside it use."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= names_in(constant)
    return found


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY
