"""Recognising a call that looks like the one before, faster than by its key.

A library's guard (`Library.guard`) tests all arrays of a call at once.  It wants each array once, so that a call that
passes one array several times has a guard of its own::

    f(x, y)   guard(x, y)          f(x, x)   x is x and guard(x)          f({"a": x, "b": [y]})   nesting, guard(x, y)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from polyfuse.run.arrays import VECTOR_ALIGNMENT, Library
from polyfuse.run.record import Record

Check = Callable[..., bool]


@dataclass(frozen=True, slots=True)
class Shortcut:
    """The record of calls whose arrays, all aligned, pass `check`; `tokens`: how they are nested (`spread`)."""

    tokens: tuple[Any, ...]
    check: Check
    record: Record

    def pointers(self, leaves: Sequence[Any]) -> list[Any] | None:
        """The addresses of `leaves`, where this is a call for the record."""
        if not self.check(*leaves):
            return None
        found = [*map(self.record.library.pointer, leaves)]
        bits = 0
        for pointer in found:
            bits |= pointer
        return None if bits % VECTOR_ALIGNMENT else found


def spread(value: Any, leaves: list[Any], tokens: list[Any]) -> None:
    """Append what is no plain container to `leaves`, in order, and the containers to `tokens`."""
    kind = type(value)
    if kind is tuple or kind is list:
        tokens += (kind, len(value))
        for child in value:
            spread(child, leaves, tokens)
    elif kind is dict:
        tokens += (dict, *value)
        for child in value.values():
            spread(child, leaves, tokens)
    else:
        tokens.append(None)
        leaves.append(value)


def guard_of(record: Record, arrays: Sequence[Any]) -> Check | None:
    """The guard for calls of `record` with arrays like these, the same ones in the same positions; kept there."""
    first: dict[int, int] = {}
    places = tuple([first.setdefault(id(array), k) for k, array in enumerate(arrays)])
    if places not in record.guards:
        record.guards[places] = _guard(record.library, arrays, places)
    return record.guards[places]


def _guard(library: Library, arrays: Sequence[Any], places: tuple[int, ...]) -> Check | None:
    kept = sorted(set(places))
    inner = library.guard([arrays[k] for k in kept])
    if inner is None or len(kept) == len(places):
        return inner
    if len(places) == 2:
        return lambda a, b: a is b and inner(a)
    twins = [(k, place) for k, place in enumerate(places) if k != place]

    def check(*given: Any) -> bool:
        return all(given[k] is given[place] for k, place in twins) and inner(*[given[k] for k in kept])

    return check
