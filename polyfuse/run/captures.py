"""What a function reads besides its arguments: arrays are read anew at each call, plain values are guards.

Without this a global that the user rebinds would keep its old value inside a compiled program.
"""

from __future__ import annotations

import logging
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from polyfuse.errors import ArgumentError
from polyfuse.run.arguments import IMMUTABLE, same
from polyfuse.run.arrays import Device, Library
from polyfuse.run.reach import Cell, constant, is_code, is_container, is_of_users

_log = logging.getLogger("polyfuse.run")

_PLAIN = (numbers.Number, np.generic, str, type(None), *IMMUTABLE)
_BYTES = 4096  # of an array whose contents are compared at each call


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
            if current is not value and not ((is_plain(value) or is_code(value)) and same(current, value)):
                return False
        return True


def of_capture(error: ArgumentError) -> ArgumentError:
    """What a library says against an array, of one that no argument's name leads to."""
    return ArgumentError(f"an array that the function holds{error.message}", advice=error.advice)


def _of_library(array: Any, library: Library, device: Device) -> Any:
    return library.upload(array, device) if type(array) is np.ndarray else array


def watch(cells: Sequence[Cell], captured: Sequence[Any], read: Sequence[Any] = ()) -> Watch:
    """Readers for the `cells` that a function may read.

    Functions are guards as plain values are: another one under the same name is another program.
    A captured array that no cell holds stays the object it is.  A small array that is not captured, nor a view of it,
    was read while tracing (``table[0]``, ``float(limit)``): its contents are a plain value, as those of arrays in
    `read` are.  Of what is looked into, as objects of the user's are, the class counts besides what is found there; of
    other things that they are the same, also of an array of which views are captured.
    """
    held = [(cell, cell.read()) for cell in cells if not cell.is_fixed]
    arrays = tuple(next((c.read for c, v in held if v is array), constant(array)) for array in captured)
    loose = [array for array in captured if not any(v is array for _, v in held)]
    guards = {cell.name: _guard(cell, value, captured, loose, read) for cell, value in held}
    return Watch(arrays, tuple(guard for guard in guards.values() if guard is not None))


def _guard(
    cell: Cell, value: Any, captured: Sequence[Any], loose: Sequence[Any], read: Sequence[Any]
) -> tuple[Callable[[], Any], Any] | None:
    """What is read of a cell at each call, and what it has to be; None where that is no question of the trace.
    `loose`: captured arrays that no cell holds, as views are that the function makes of one (``W[::-1] + W``)."""
    if _was_read(value, captured) or any(value is array for array in read):
        return _contents(cell.read), content(value)
    if is_plain(value) or is_code(value):
        return cell.read, value
    if is_of_users(value):
        return _class(cell.read), type(value)
    if is_container(value):
        return None
    is_read_anew = any(value is array for array in captured) and not _is_viewed(value, loose)
    is_guard = type(value) is not np.ndarray or _is_viewed(value, captured)
    return (cell.read, value) if is_guard and not is_read_anew else None


def is_plain(value: Any) -> bool:
    """Whether a value never changes and is compared by what it equals."""
    if type(value) in (tuple, frozenset):
        return all(is_plain(v) for v in value)
    return isinstance(value, _PLAIN) and not isinstance(value, ModuleType)


def _was_read(value: Any, captured: Sequence[Any]) -> bool:
    if type(value) is not np.ndarray or value.nbytes > _BYTES or value.dtype.hasobject:
        return False
    return not _is_viewed(value, captured)


def _is_viewed(value: Any, captured: Sequence[Any]) -> bool:
    """Whether some captured array is `value`, or may be a part of it."""
    return any(type(array) is np.ndarray and np.may_share_memory(value, array) for array in captured)


def content(value: Any) -> Any:
    """What is compared of a value: the elements of an array, anything else itself."""
    return (value.tobytes(), value.dtype.str, value.shape) if type(value) is np.ndarray else value


def _contents(read: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: content(read())


def _class(read: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: type(read())
