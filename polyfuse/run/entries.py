"""What collections hold: those that are nothing but what is found in them, and when they hold the same."""

from __future__ import annotations

import numbers
import operator
import types
from array import array
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import ItemsView, Iterable, KeysView, ValuesView
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary, ref

import numpy as np

from polyfuse.run.arguments import IMMUTABLE, same


class _Absent:
    __slots__ = ()

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()
"""What is read where nothing is: None may be there."""
BUFFERS = (array, bytearray, memoryview)
MAPPINGS = (dict, types.MappingProxyType)
CONTAINERS = (*MAPPINGS, list, tuple, set, deque)
KEPT_IN: tuple[tuple[tuple[type, ...], str], ...] = (
    ((UserDict, UserList), "data"),
    ((ChainMap,), "maps"),
    ((KeysView, ValuesView, ItemsView), "mapping"),
    ((WeakKeyDictionary, WeakValueDictionary, WeakSet), "data"),
)
"""Collections that keep what they hold in an attribute."""
REFERENCES = (ContextVar, ref)
_COLLECTIONS = (*CONTAINERS, *BUFFERS, *(kind for kinds, _ in KEPT_IN for kind in kinds))


@dataclass(slots=True, eq=False)
class Entries:
    """Equal where the same objects stand in the same order, or constants that are the same to a program.  Every call
    makes some, which takes a frozen one three times as long."""

    values: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entries) or len(self.values) != len(other.values):
            return False
        if all(map(operator.is_, self.values, other.values)):
            return True
        pairs = zip(self.values, other.values, strict=True)
        return all(a is b or (is_plain(a) and is_plain(b) and same(a, b)) for a, b in pairs)


_USUAL = frozenset((int, float, bool, str, type(None), Entries))
"""What long lists hold, and calls compare: a look at one takes a twentieth of that at a `numbers.Number`."""
_PLAIN = (numbers.Number, np.generic, str, *IMMUTABLE)


def is_plain(value: Any) -> bool:
    """Whether a value never changes and is compared by what it equals."""
    if type(value) in _USUAL:
        return True
    if type(value) in (tuple, frozenset):
        return all(is_plain(v) for v in value)
    return isinstance(value, _PLAIN) and not isinstance(value, types.ModuleType)


def is_container(value: Any) -> bool:
    """Whether `value` is nothing but what is found in it."""
    return isinstance(value, (*_COLLECTIONS, types.ModuleType))


def kept_in(value: Any) -> str | None:
    """The attribute in which a collection keeps what it holds."""
    return next((name for kinds, name in KEPT_IN if isinstance(value, kinds)), None)


def length(value: Any) -> int | None:
    return len(value) if isinstance(value, CONTAINERS) else None


def entries(value: Any, *, is_whole: bool) -> Entries | None:
    """All that a container holds, in order; of a mapping its keys, and where it `is_whole` its values too."""
    if not isinstance(value, CONTAINERS):
        return None
    return Entries((*value, *value.values()) if is_whole and isinstance(value, MAPPINGS) else tuple(value))


def members(value: Iterable[Any]) -> Entries:
    """What a set holds, which has no order: the constants as one set, of other things which they are."""
    others = sorted((v for v in value if not is_plain(v)), key=id)
    return Entries((frozenset(filter(is_plain, value)), *others))


def elements(value: Any) -> tuple[type, bytes] | None:
    """The elements of a buffer of Python's."""
    return (type(value), bytes(value)) if isinstance(value, BUFFERS) else None


def referred(value: Any) -> Any:
    """What a context variable or a weak reference leads to now."""
    if isinstance(value, ContextVar):
        return value.get(None)
    return value() if isinstance(value, ref) else None
