"""What one trace has taken from outside of the function, and gives back: watched arrays, and places that are shared.

Stand-ins must not outlive the trace.  Lists, dictionaries and the attributes of objects that the function may write in
place are looked through when it is done; what lies there of the trace's is replaced by what it stands for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from functools import partial
from itertools import islice
from types import CellType, FunctionType, MappingProxyType, ModuleType
from typing import Any
from weakref import ref

import numpy as np

from polyfuse.frontends.numpy_like.holders import Copied, Slots, slots_of
from polyfuse.frontends.numpy_like.instead import Instead
from polyfuse.frontends.numpy_like.spaces import names_in
from polyfuse.frontends.numpy_like.third_party import Library
from polyfuse.frontends.numpy_like.watched import Plain, Source, Watched, plain

_DEPTH = 3  # of objects that are looked through
_MANY = 4096  # parts of an object that are looked through


class Outside:
    """`arrays`: those of which it is known whether they are read.  `copies`: of holders and of objects with slots.
    Everything is kept alive, so that no identity is used twice."""

    def __init__(self, reads: list[Plain]) -> None:
        self._reads = reads
        self._sources: list[Source] = []
        self._shared: dict[int, Any] = {}
        self._exposed: dict[int, Any] = {}
        self._bare: list[Plain] = []
        self._is_blind = False
        self.copies: list[Copied | Slots] = []

    @property
    def arrays(self) -> tuple[Plain, ...]:
        return (*(source.array for source in self._sources), *self._bare)

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
        if id(value) in self._exposed or isinstance(value, _OPAQUE):
            return
        self._exposed[id(value)] = value
        found = list(_arrays_in(value))
        self._reads += found
        self._bare += found

    def expose_code(self, functions: Iterable[FunctionType]) -> None:
        """Code runs that is not rebuilt, and helpers of it: what it mentions it gets as it is."""
        found = deque(functions)
        while found:
            function = found.popleft()
            if id(function) in self._exposed:
                continue
            self._exposed[id(function)] = function
            for value in _mentioned(function):
                if isinstance(value, FunctionType):
                    found.append(value)
                else:
                    self.expose(value)

    # ------------------------------------------------------------------------------------------ what is shared
    def share(self, place: Any) -> Any:
        """`place`, a list, a dictionary or a set that the function may write."""
        self._shared[id(place)] = place
        return place

    def is_shared(self, place: Any) -> bool:
        return id(place) in self._shared

    def sweep(self, kept_of: Callable[[Any], Any]) -> None:
        """Leave nothing of the trace's in shared places.  `kept_of`: what a value is without the trace."""
        for place in self._shared.values():
            if isinstance(place, set):
                for value in [v for v in place if kept_of(v) is not v]:
                    place.remove(value)
                    place.add(kept_of(value))
                continue
            if isinstance(place, dict) and any(type(key) is not str and kept_of(key) is not key for key in place):
                pairs = [(kept_of(key), value) for key, value in place.items()]  # in their order
                place.clear()
                place.update(pairs)
            for key, value in list(place.items() if isinstance(place, dict) else enumerate(place)):
                if (kept := kept_of(value)) is not value:
                    place[key] = kept
        for holder in self._exposed.values():
            for put, pairs in _places(holder):
                for key, value in pairs:
                    if (kept := kept_of(value)) is not value:
                        put(key, kept)


def _places(holder: Any) -> Iterator[tuple[Callable[[Any, Any], None], list[tuple[Any, Any]]]]:
    """What an object holds by key, and how that is replaced: without code of the user's."""
    if isinstance(getattr(holder, "__dict__", None), dict):
        yield vars(holder).__setitem__, list(vars(holder).items())
    if isinstance(holder, dict):
        yield partial(dict.__setitem__, holder), list(dict.items(holder))
    if isinstance(holder, list):
        yield partial(list.__setitem__, holder), list(enumerate(list.__iter__(holder)))


def restored(value: Any, originals: Mapping[int, Any], depth: int = _DEPTH) -> Any:
    """`value` without stand-ins: itself, changed in place, where it is a list or a dictionary that was made in the
    trace.  `originals`: what stand-ins stand for, by their identity."""
    if id(value) in originals:
        return originals[id(value)]
    kind = type(value)
    if kind is Library or isinstance(value, Instead):
        return value.original
    if kind is ref and (referred := originals.get(id(value()))) is not None:
        return ref(referred)
    if kind is set:
        for part in [part for part in value if restored(part, originals, 0) is not part]:
            value.remove(part)
            value.add(restored(part, originals, 0))
    if not depth or kind not in (list, dict, tuple):
        return plain(value) if kind is Watched else value
    pairs = list(value.items() if kind is dict else enumerate(value))
    changed = {key: kept for key, part in pairs if (kept := restored(part, originals, depth - 1)) is not part}
    if kind is tuple and changed:
        return tuple(changed.get(key, part) for key, part in pairs)
    for key, kept in changed.items():
        value[key] = kept
    return value


def _mentioned(function: FunctionType) -> list[Any]:
    """What a function finds under the names in its code, in functions inside as well."""
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]
    return cells + [function.__globals__[n] for n in names_in(function.__code__) if n in function.__globals__]


def _arrays_in(value: Any) -> Iterator[Plain]:
    """The arrays that an object holds, in attributes and items, nearest first and where these are few."""
    seen: dict[int, Any] = {}
    found = deque([(value, _DEPTH)])
    while found and len(seen) < _MANY:
        part, depth = found.popleft()
        if isinstance(part, np.ndarray) and not part.dtype.hasobject:
            yield from (plain(part),) if type(part) in (np.ndarray, Watched) else ()
        elif id(part) not in seen and not isinstance(part, _OPAQUE):
            seen[id(part)] = part
            found += ((below, depth - 1) for below in (_parts(part) if depth else ()))


_OPAQUE = (str, bytes, int, float, type(None), type, ModuleType, FunctionType, np.generic)


def _parts(value: Any) -> list[Any]:
    if (type(value).__module__ or "").startswith("polyfuse."):
        return []
    found = [*vars(value).values()] if hasattr(value, "__dict__") else []
    of_kind: tuple[tuple[type, Any], ...] = ((dict, dict.values), (list, list.__iter__), (tuple, tuple.__iter__))
    for kind, parts in of_kind:  # which run no code of the user's
        found += islice(parts(value), _MANY) if isinstance(value, kind) else ()
    if type(value) is np.ndarray:
        found += value.ravel()[:_MANY].tolist() if value.dtype == object else ()
    if isinstance(value, (MappingProxyType, ValuesView, ItemsView, deque)):
        found += islice(value.values() if isinstance(value, MappingProxyType) else value, _MANY)
    return found + list(slots_of(value).values())
