"""What a function reads besides its arguments: arrays are read anew at each call, plain values are guards.

Without this a global that the user rebinds would keep its old value inside a compiled program.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from polyfuse.errors import ArgumentError
from polyfuse.overlap import share_elements
from polyfuse.run.arguments import same
from polyfuse.run.arrays import Device, Library
from polyfuse.run.entries import Entries, is_container, is_plain
from polyfuse.run.reach import Cell, constant, is_code, is_of_users

_log = logging.getLogger("polyfuse.run")

_BYTES = 4096  # of an array that the trace did not watch, and whose contents are compared at each call


@dataclass(frozen=True, slots=True)
class Contents:
    """Reads the elements, dtype and shape of an array, `shown` as the user writes it."""

    read: Callable[[], Any]
    shown: str

    def __call__(self) -> Any:
        return content(self.read())


@dataclass(frozen=True, slots=True)
class Watch:
    """`arrays`: one reader per captured array.  `plain`: cells with the values they had at the trace.  `copies`: of
    captured host arrays on devices, with the bytes that they were made of."""

    arrays: tuple[Callable[[], Any], ...] = ()
    plain: tuple[tuple[Callable[[], Any], Any], ...] = field(default=())
    copies: dict[tuple[int, str, Device], tuple[bytes, Any]] = field(default_factory=dict, compare=False)

    def held(self) -> tuple[tuple[Contents, Any], ...]:
        """The contents that are compared of captured arrays, or of what these are views of."""
        compared = [(read, contents) for read, contents in self.plain if isinstance(read, Contents)]
        arrays = [read() for read in self.arrays] if compared else []
        return tuple([pair for pair in compared if _is_viewed(pair[0].read(), arrays)])

    def compared(self) -> dict[str, int]:
        """How many bytes of arrays each call compares, by what the user calls them."""
        of_arrays = [(read, value) for read, value in self.plain if isinstance(read, Contents)]
        return {read.shown: len(value[0]) for read, value in of_arrays if type(value) is tuple}

    def differs_in_contents(self, other: Watch) -> bool:
        """Whether the traces of both were made of the same values, but for what stood in arrays."""
        if len(self.plain) != len(other.plain) or not self.compared():
            return False
        pairs = zip(self.plain, other.plain, strict=True)
        return all(
            (isinstance(read, Contents) and isinstance(theirs, Contents)) or value is old or _is_same(value, old)
            for (read, value), (theirs, old) in pairs
        )

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
            if current is not value and not _is_same(current, value):
                return False
        return True


def of_capture(error: ArgumentError) -> ArgumentError:
    """What a library says against an array, of one that no argument's name leads to."""
    return ArgumentError(f"an array that the function holds{error.message}", advice=error.advice)


def _of_library(array: Any, library: Library, device: Device) -> Any:
    return library.upload(array, device) if type(array) is np.ndarray else array


def watch(
    cells: Sequence[Cell], captured: Sequence[Any], read: Sequence[Any] = (), watched: Sequence[Any] = ()
) -> Watch:
    """Readers for the `cells` that a function may read.

    Functions are guards as plain values are: another one under the same name is another program.
    A captured array that no cell holds stays the object it is.  Of an array in `read`, or of the one that it is a view
    of, the contents are a plain value, whether it is captured or not; where no cell holds it, those of the object.  Of
    other arrays in `watched` only the form counts, and where they are captured nothing.  An array that nothing watched,
    small and neither captured nor viewed, counts as read.  Of what is looked into, as objects of the user's are, the
    class counts besides what is found there; of other things that they are the same, also of an array of which views
    are captured.  What several cells hold is read by way of the first, and the others hold the same object still.
    """
    every = [(cell, cell.read()) for cell in cells]
    first = {id(value): cell for cell, value in reversed(every)}
    held = [(cell, value) for cell, value in every if not cell.is_fixed]
    arrays = tuple(first[id(array)].read if id(array) in first else constant(array) for array in captured)
    loose = [array for array in captured if not any(v is array for _, v in held)]
    known = _Arrays(captured, loose, _ids(_held_of(read, [v for _, v in held])), _ids(watched))
    found = {(cell.name, k): g for cell, value in held for k, g in enumerate(_guards(cell, value, known))}
    for cell, value in every:
        if (one := first[id(value)]) is not cell and _is_read_once(value, known):
            found[cell.name, 0] = _is_still(cell.read, one.read), True
    kept = [array for array in read if id(array) in known.watched and not any(_shares(v, array) for _, v in held)]
    named = "an array that the function holds"
    unnamed = [(Contents(constant(array), named), content(array)) for array in {id(a): a for a in kept}.values()]
    return Watch(arrays, (*found.values(), *unnamed))


@dataclass(frozen=True, slots=True)
class _Arrays:
    """What a trace did with arrays.  `loose`: captured ones that no cell holds, as views are that the function makes of
    one (``W[::-1] + W``); `read`, `watched`: identities, of which there may be many."""

    captured: Sequence[Any]
    loose: Sequence[Any]
    read: frozenset[int]
    watched: frozenset[int]


def _is_read_once(value: Any, known: _Arrays) -> bool:
    """Whether one of the cells that hold `value` stands for all of them: only there it is looked into."""
    if is_plain(value) or isinstance(value, ModuleType):
        return False
    return is_of_users(value) or is_container(value) or _is_in(value, known.captured)


def _guards(cell: Cell, value: Any, known: _Arrays) -> list[tuple[Callable[[], Any], Any]]:
    """What is read of a cell at each call, and what it has to be; nothing where that is no question of the trace."""
    if type(value) is np.ndarray:
        return _guards_of_array(cell, value, known)
    if is_plain(value) or is_code(value):
        return [(cell.read, value)]
    if isinstance(value, np.ma.MaskedArray):
        return [(Contents(cell.read, cell.shown), content(value))]
    if is_of_users(value):
        return [(_class(cell.read), type(value))]
    if is_container(value) or _is_in(value, known.captured):
        return []
    return [(cell.read, value)]


def _guards_of_array(cell: Cell, value: Any, known: _Arrays) -> list[tuple[Callable[[], Any], Any]]:
    found: list[tuple[Callable[[], Any], Any]] = []
    is_watched, is_captured = id(value) in known.watched, _is_in(value, known.captured)
    if id(value) in known.read or (not is_watched and _was_read(value, known.captured)):
        found.append((Contents(cell.read, cell.shown), content(value)))
    elif is_watched and not is_captured:
        found.append((_form(cell.read), form(value)))
    if _is_viewed(value, known.loose if is_captured else known.captured):
        found.append((cell.read, value))
    return found


def _held_of(read: Sequence[Any], held: Sequence[Any]) -> list[Any]:
    """The arrays that cells hold among `read`: themselves, or those that share elements with one that no cell holds."""
    found = []
    for array in read:
        found += [array] if _is_in(array, held) else [value for value in held if _shares(value, array)]
    return found


def _ids(arrays: Sequence[Any]) -> frozenset[int]:
    return frozenset(map(id, arrays))


def _is_in(value: Any, arrays: Sequence[Any]) -> bool:
    return any(value is array for array in arrays)


def _shares(value: Any, array: Any) -> bool:
    return type(value) is np.ndarray and share_elements(value, array)


def _is_same(current: Any, value: Any) -> bool:
    return (is_plain(value) or is_code(value)) and same(current, value)


def _was_read(value: Any, captured: Sequence[Any]) -> bool:
    if type(value) is not np.ndarray or value.nbytes > _BYTES:
        return False
    return not _is_viewed(value, captured)


def _is_viewed(value: Any, captured: Sequence[Any]) -> bool:
    """Whether some captured array is `value`, or may be a part of it."""
    return any(type(array) is np.ndarray and np.may_share_memory(value, array) for array in captured)


def content(value: Any) -> Any:
    """What is compared of a value: the elements of an array, of an array of objects these, anything else itself."""
    if isinstance(value, np.ma.MaskedArray):
        return value.data.tobytes() + np.ma.getmaskarray(value).tobytes(), value.dtype.str, value.shape
    if type(value) is not np.ndarray:
        return value
    if value.dtype.hasobject:  # kept: another one may come to lie where one of them lay
        return Entries((value.dtype.str, value.shape, *value.ravel().tolist()))
    return value.tobytes(), value.dtype.str, value.shape


def form(value: Any) -> Any:
    """What an array is but for its elements; of anything else that it is something else."""
    return (value.dtype.str, value.shape) if type(value) is np.ndarray else type(value)


def _form(read: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: form(read())


def _is_still(read: Callable[[], Any], other: Callable[[], Any]) -> Callable[[], bool]:
    """Whether two cells hold one object."""
    return lambda: read() is other()


def _class(read: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: type(read())
