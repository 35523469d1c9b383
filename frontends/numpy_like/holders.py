"""Copies of what holds arrays or code outside of a traced function: lists, dictionaries, tuples, sets, simple
namespaces.

The function gets the copy, in which arrays are watched and code is rebuilt.  What it changed there is changed in the
original when the trace is done::

    params = {"w": W}             ->  {"w": Watched(W)}
    params["v"] = params["w"] * 2     params["v"] = the plain array
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import MemberDescriptorType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from polyfuse.frontends.numpy_like.classes import line_of

Pairs = list[tuple[Any, Any]]

_WEAK = (WeakKeyDictionary, WeakValueDictionary)
_DICTIONARIES = (dict, OrderedDict, defaultdict, *_WEAK)
_SEQUENCES = (list, deque)
_CHANGED = (set, WeakSet)
_SETS = (frozenset, *_CHANGED)


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy, and the pairs of keys and values that stood in it at first."""

    original: Any
    copy: Any
    put: Pairs

    def write_back(self, restored: Callable[[Any], Any]) -> None:
        """Change the original as the copy was changed.  `restored`: what a value is without the trace."""
        now = _pairs(self.copy)
        if len(now) == len(self.put) and all(a == c and b is d for (a, b), (c, d) in zip(now, self.put, strict=True)):
            return
        if isinstance(self.original, _SEQUENCES):
            self.original.clear()
            self.original.extend(restored(value) for _, value in now)
            return
        if isinstance(self.original, _CHANGED):
            self.original.clear()
            self.original.update(restored(value) for _, value in now)
            return
        target = vars(self.original) if isinstance(self.original, SimpleNamespace) else self.original
        put, kept = dict(self.put), dict(now)
        for key in put.keys() - kept.keys():
            target.pop(restored(key), None)
        for key, value in now:
            if key not in put or put[key] is not value:
                target[restored(key)] = restored(value)


@dataclass(frozen=True, slots=True)
class Slots:
    """An object that keeps attributes in slots, and a copy with `put` in them at first, by descriptor."""

    original: Any
    copy: Any
    put: dict[Any, Any]

    @staticmethod
    def of(original: Any, copy: Any) -> Slots:
        put = slots_of(original)
        for slot, value in put.items():
            if value is not _UNASSIGNED:
                slot.__set__(copy, value)
        return Slots(original, copy, put)

    def write_back(self, restored: Callable[[Any], Any]) -> None:
        """Change the original as the copy was changed.  `restored`: what a value is without the trace."""
        for slot, value in slots_of(self.copy).items():
            if value is self.put[slot]:
                continue
            if value is _UNASSIGNED:
                slot.__delete__(self.original)
            else:
                slot.__set__(self.original, restored(value))


_UNASSIGNED = object()


def slots_of(value: Any) -> dict[Any, Any]:
    """What is in the slots of an object, by their descriptors: of those that classes in Python name."""

    def held_in(slot: Any) -> Any:
        try:
            return slot.__get__(value)
        except AttributeError:
            return _UNASSIGNED

    found = (slot for kind in line_of(type(value)) if "__slots__" in vars(kind) for slot in vars(kind).values())
    return {slot: held_in(slot) for slot in found if isinstance(slot, MemberDescriptorType)}


def is_holder(value: Any) -> bool:
    """Whether a value is nothing but what it holds, and is copied with that."""
    kind = type(value)
    return kind in (tuple, SimpleNamespace, *_SEQUENCES, *_SETS, *_DICTIONARIES) or is_named_tuple(value)


def is_weak(value: Any) -> bool:
    """Whether what is added to a holder is gone with what stands in for it: such are copied, whatever they hold."""
    return isinstance(value, (*_WEAK, WeakSet))


def is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and type(value).__mro__[1] is tuple and hasattr(type(value), "_fields")


def is_fixed(value: Any) -> bool:
    """Whether a holder always holds the same."""
    return isinstance(value, (tuple, frozenset))


def held(value: Any) -> Iterable[Any]:
    """What a holder holds, keys of dictionaries as well."""
    if isinstance(value, SimpleNamespace):
        return vars(value).values()
    return (*value, *value.values()) if isinstance(value, _DICTIONARIES) else value


def again(value: Any, parts: Iterable[Any]) -> Any:
    """A tuple of the kind of `value`, or a frozen set, of other `parts`."""
    return frozenset(parts) if isinstance(value, frozenset) else tuple.__new__(type(value), parts)


def empty(value: Any, rebuilt: Callable[[Any], Any]) -> Any:
    """A holder like `value` that holds nothing yet."""
    if isinstance(value, defaultdict):
        return defaultdict(rebuilt(value.default_factory))
    return deque(maxlen=value.maxlen) if isinstance(value, deque) else type(value)()


def fill(copy: Any, value: Any, rebuilt: Callable[[Any], Any]) -> Copied:
    """Put into `copy` what stands in for what `value` holds."""
    if isinstance(value, _SEQUENCES):
        copy.extend(map(rebuilt, value))
    elif isinstance(value, _CHANGED):
        copy.update(map(rebuilt, value))
    else:
        target = vars(copy) if isinstance(value, SimpleNamespace) else copy
        target.update({rebuilt(key): rebuilt(part) for key, part in _pairs(value)})
    return Copied(value, copy, _pairs(copy))


def _pairs(value: Any) -> Pairs:
    if isinstance(value, _SEQUENCES):
        return list(enumerate(value))
    if isinstance(value, _SETS):
        return [(part, part) for part in value]
    return list((vars(value) if isinstance(value, SimpleNamespace) else value).items())
