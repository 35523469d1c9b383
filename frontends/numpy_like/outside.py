"""What one trace has taken from outside of the function, and gives back: watched arrays, and places that are shared.

Stand-ins must not outlive the trace.  Lists, dictionaries and the attributes of objects that the function may write in
place are looked through when it is done; what lies there of the trace's is replaced by what it stands for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import MemberDescriptorType
from typing import Any

import numpy as np

from polyfuse.frontends.numpy_like.holders import Copied
from polyfuse.frontends.numpy_like.watched import Plain, Source, Watched, plain

_DEPTH = 3  # of objects that are looked through
_MANY = 4096  # parts of an object that are looked through


class Outside:
    """`arrays`: those that the function was given to watch, in order.  `copies`: of holders.  Everything is kept alive,
    so that no identity is used twice."""

    def __init__(self, reads: list[Plain]) -> None:
        self._reads = reads
        self._sources: list[Source] = []
        self._shared: dict[int, Any] = {}
        self._seen: dict[int, Any] = {}
        self._is_blind = False
        self.copies: list[Copied] = []

    @property
    def arrays(self) -> tuple[Plain, ...]:
        return tuple(source.array for source in self._sources)

    def watch(self, array: Plain) -> Watched:
        """What stands in for an array.  One of rank 0 is a number of the program."""
        source = Source(array, self._reads)
        self._sources.append(source)
        if self._is_blind or not array.ndim:
            source.read()
        return Watched.of(array, source)

    # ------------------------------------------------------------------------------------------ what tells nothing
    def blind(self) -> None:
        """Something takes arrays that does not tell what it reads: all count as read."""
        self._is_blind = True
        for source in self._sources:
            source.read()

    def expose(self, value: Any) -> None:
        """The function gets an object as it is, and with it the arrays there: they count as read."""
        if id(value) in self._seen or type(value).__module__ == "builtins":
            return
        for array in _arrays_in(value, self._seen):
            if not any(known is array for known in self._reads):
                self._reads.append(array)

    # ------------------------------------------------------------------------------------------ what is shared
    def share(self, place: Any) -> Any:
        """`place`, a list or a dictionary that the function may write."""
        self._shared[id(place)] = place
        return place

    def is_shared(self, place: Any) -> bool:
        return id(place) in self._shared

    def sweep(self, kept_of: Callable[[Any], Any]) -> None:
        """Leave nothing of the trace's in shared places.  `kept_of`: what a value is without the trace."""
        for place in self._shared.values():
            for key, value in list(place.items() if isinstance(place, dict) else enumerate(place)):
                if (kept := kept_of(value)) is not value:
                    place[key] = kept


def restored(value: Any, originals: Mapping[int, Any], depth: int = _DEPTH) -> Any:
    """`value` without stand-ins: itself, changed in place, where it is a list or a dictionary that was made in the
    trace.  `originals`: what stand-ins stand for, by their identity."""
    if id(value) in originals:
        return originals[id(value)]
    kind = type(value)
    if not depth or kind not in (list, dict, tuple):
        return plain(value) if kind is Watched else value
    pairs = list(value.items() if kind is dict else enumerate(value))
    changed = {key: kept for key, part in pairs if (kept := restored(part, originals, depth - 1)) is not part}
    if kind is tuple and changed:
        return tuple(changed.get(key, part) for key, part in pairs)
    for key, kept in changed.items():
        value[key] = kept
    return value


def _arrays_in(value: Any, seen: dict[int, Any], depth: int = _DEPTH) -> Iterator[Plain]:
    """The arrays that an object holds, in attributes and items, where these are few."""
    if type(value) is np.ndarray:
        yield from () if value.dtype.hasobject else (value,)
    elif depth and id(value) not in seen:
        seen[id(value)] = value
        for part in _parts(value)[:_MANY]:
            yield from _arrays_in(part, seen, depth - 1)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        found = list(value.values())
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        found = list(value)
    else:
        found = []
    found += getattr(value, "__dict__", {}).values()
    slots = [s for kind in type(value).__mro__ for s in vars(kind).values() if isinstance(s, MemberDescriptorType)]
    return found + [_held(slot, value) for slot in slots]


def _held(slot: Any, value: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:  # not assigned yet
        return None
