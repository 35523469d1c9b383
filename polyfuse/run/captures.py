"""What a function reads besides its arguments: arrays are read anew at each call, plain values are guards.

Without this a global that the user rebinds would keep its old value inside a compiled program.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyfuse.errors import ArgumentError
from polyfuse.run.arguments import same
from polyfuse.run.arrays import Device, Library
from polyfuse.run.reach import Cell, constant, is_code

_log = logging.getLogger("polyfuse.run")

_PLAIN = (bool, int, float, str, bytes, type(None))
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
            if current is not value and not same(current, value):
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
    `read` are.
    """
    held = [(cell, cell.read()) for cell in cells]
    arrays = tuple(next((c.read for c, v in held if v is array), constant(array)) for array in captured)
    plain = {cell.name: (cell.read, value) for cell, value in held if is_plain(value) or is_code(value)}
    for cell, value in held:
        if _was_read(value, captured) or any(value is array for array in read):
            plain[cell.name] = (_contents(cell.read), content(value))
    return Watch(arrays, tuple(plain.values()))


def is_plain(value: Any) -> bool:
    if type(value) in (tuple, frozenset):
        return all(is_plain(v) for v in value)
    return type(value) in _PLAIN


def _was_read(value: Any, captured: Sequence[Any]) -> bool:
    if type(value) is not np.ndarray or value.nbytes > _BYTES or value.dtype.hasobject:
        return False
    return not any(type(array) is np.ndarray and np.may_share_memory(value, array) for array in captured)


def content(value: Any) -> Any:
    """What is compared of a value: the elements of an array, anything else itself."""
    return (value.tobytes(), value.dtype.str, value.shape) if type(value) is np.ndarray else value


def _contents(read: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: content(read())
