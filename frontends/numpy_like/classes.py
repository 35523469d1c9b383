"""Classes of the user's in traced code: derived ones stand in for them, with methods that are rebuilt.

A stand-in has the instances of its original.  It is not equal to it, lest caches of other libraries give one for the
other.  Behind it in the order of resolution come the stand-ins of its bases, so that `super()` in a rebuilt method
finds rebuilt ones, and the originals last.
"""

from __future__ import annotations

import enum
from abc import ABCMeta
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import numpy as np

from polyfuse.frontends.numpy_like.watched import plain

_HEAP_TYPE = 1 << 9  # the flag of classes that Python code made
_NEVER = (BaseException, enum.Enum, np.ndarray, np.generic, type)
_OWN = frozenset("__dict__ __weakref__ __slots__ __getattribute__ __del__ __abstractmethods__ _abc_impl".split())

_LINES = ("__mro__", "__bases__", "__base__")


class StandIn(type):
    """The class of stand-ins.  A class that traced code derives from one is an ordinary class."""

    def mro(cls) -> list[type]:
        behind = vars(cls).get("__behind__")
        return super().mro() if behind is None else [cls, *behind]

    def __getattribute__(cls, name: str) -> Any:
        """What a class keeps is rebuilt, as what the function finds elsewhere is: ``Layer.activation is np.tanh``.  It
        derives from stand-ins, and the originals behind them do not show."""
        found = super().__getattribute__(name)
        if name in _LINES and super().__getattribute__("__is_filled__"):
            return _without_originals(cls, name)
        return found if name.startswith("__") else super().__getattribute__("__rebuilt__")(found)

    def __subclasses__(cls) -> list[type]:
        """What derives from the class, and from its original outside."""
        rebuilt = super().__getattribute__("__rebuilt__")
        below: Callable[[type], list[type]] = type.__subclasses__
        own = [kind for kind in below(cls) if "__stands_for__" not in vars(kind)]
        kinds = below(original_of(cls))
        return [*(rebuilt(kind) for kind in kinds if not stands_in(kind)), *own]

    def __hash__(cls) -> int:
        """That of the original, of which hashes of the user's may be made."""
        return type.__hash__(original_of(cls))

    def __instancecheck__(cls, value: Any) -> bool:
        return type.__instancecheck__(original_of(cls), value)

    def __setattr__(cls, name: str, value: Any) -> None:
        """What traced code keeps on its class the class has afterwards."""
        super().__setattr__(name, value)
        if "__stands_for__" in vars(cls) and not name.startswith("__"):
            setattr(original_of(cls), name, plain(value))

    def __delattr__(cls, name: str) -> None:
        """Nor has the class what traced code deletes."""
        original = original_of(cls)
        if name in vars(cls):
            super().__delattr__(name)
        if "__stands_for__" in vars(cls) and name in vars(original):
            delattr(original, name)

    def __subclasscheck__(cls, other: type) -> bool:
        return type.__subclasscheck__(original_of(cls), original_of(other))


def _without_originals(cls: type, name: str) -> Any:
    """An attribute of `_LINES` as it is without the trace, with stand-ins for the user's classes."""
    stand_ins = {original_of(kind): kind for kind in line_of(cls) if original_of(kind) is not kind}
    found = line_of(cls) if name == "__mro__" else type.__dict__[name].__get__(original_of(cls))
    if isinstance(found, type):
        return stand_ins.get(found, found)
    return tuple(dict.fromkeys(stand_ins.get(kind, kind) for kind in found))


def line_of(kind: type) -> tuple[type, ...]:
    """The classes whose attributes `kind` has, in their order: originals behind stand-ins as well."""
    return type.__dict__["__mro__"].__get__(kind)  # type: ignore[no-any-return]


class AbstractStandIn(StandIn, ABCMeta):
    """The class of stand-ins for classes with abstract methods."""


def original_of(kind: Any) -> Any:
    """The user's class behind a stand-in; anything else is its own."""
    return vars(kind).get("__stands_for__", kind) if stands_in(kind) else kind


def stands_in(kind: Any) -> bool:
    """Whether a class, or one that it derives from, is a stand-in: instances have rebuilt methods."""
    return issubclass(type(kind), StandIn)


def can_stand_in(kind: Any) -> bool:
    """Whether a class is of a form that may be derived without effects: Python made it, and no metaclass of its own."""
    plain = isinstance(kind, type) and type(kind) in (type, ABCMeta) and bool(kind.__flags__ & _HEAP_TYPE)
    return plain and not issubclass(kind, _NEVER) and not hasattr(kind, "__array__")


def stand_in(
    original: type,
    bases: dict[type, type],
    attribute: Callable[[Any, str], Any],
    rebuilt: Callable[[Any], Any],
    object_of: Callable[[Any], Any],
) -> type:
    """A stand-in without methods of its own yet.  `bases`: those of the user's classes that `original` derives from;
    `attribute`: what ``__getattribute__`` is; `rebuilt`: what stands in for what a class keeps; `object_of`: what an
    object stands for.  Raises TypeError where a class cannot be derived."""
    rest = original.__mro__[1:]
    known = [bases.get(kind, kind) for kind in rest]
    behind = (*known, original, *(kind for kind in rest if kind in bases))
    made = {"__behind__": behind, "__stands_for__": original, "__getattribute__": attribute}
    made |= {"__rebuilt__": staticmethod(rebuilt), "__is_filled__": False, "__object_of__": staticmethod(object_of)}
    made |= {"__module__": original.__module__, "__qualname__": original.__qualname__}
    if "__slots__" in vars(original):
        made["__slots__"] = ()
    kind = AbstractStandIn if isinstance(original, ABCMeta) else StandIn
    found = kind(original.__name__, (original,), made)
    for name, as_original in (("__eq__", _is_same), ("__hash__", _hash)):
        if getattr(original, name) is getattr(object, name):
            type.__setattr__(found, name, as_original)
    return found


def object_of(value: Any) -> Any:
    """The user's object behind one of a class that stands in; anything else is its own."""
    return type(value).__object_of__(value) if stands_in(type(value)) else value


def _is_same(one: Any, other: Any) -> Any:
    """What Python looks up by identity is found where the code gets originals: in weak dictionaries, in subclasses of
    the user's of `dict` and `list`, by what caches."""
    return object_of(one) is object_of(other) or NotImplemented


def _hash(one: Any) -> int:
    return object.__hash__(object_of(one))


def _or_same(equal: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """``__eq__`` of the user's, as Python's own look-ups ask for it: not of an object and itself, and where they find
    an original, of what stands in for it."""

    @wraps(equal)
    def found(one: Any, other: Any) -> Any:
        if one is not other and object_of(one) is object_of(other):
            return True
        return equal(one, type(one).__rebuilt__(other) if stands_in(type(one)) else other)

    return found


def _of_original(hashed: Callable[[Any], int]) -> Callable[[Any], int]:
    """``__hash__`` of the user's: that of the original, whatever it is made of."""

    @wraps(hashed)
    def found(one: Any) -> int:
        original = object_of(one)
        return hashed(one) if original is one else hash(original)

    return found


def _but_of_stand_ins(hook: classmethod[Any, Any, None]) -> classmethod[Any, Any, None]:
    """``__init_subclass__`` of the user's: of a class that the code derives, not of one that comes to stand in."""
    function = hook.__func__

    @wraps(function)
    def found(kind: Any, *args: Any, **kwargs: Any) -> None:
        if vars(kind).get("__is_filled__", True):
            function(kind, *args, **kwargs)

    return classmethod(found)


_LOOKED_UP_BY: Mapping[str, Callable[[Any], Any]] = {"__eq__": _or_same, "__hash__": _of_original}


def fill(derived: type, original: type, rebuilt: Callable[[Any], Any]) -> None:
    """Gives a stand-in what its original has, functions `rebuilt`."""
    for name, value in vars(original).items():
        if name in _OWN or type(value).__name__ == "member_descriptor":
            continue
        again = rebuilt(value)
        if name in _LOOKED_UP_BY and callable(value):
            again = _LOOKED_UP_BY[name](again)
        elif name == "__init_subclass__" and isinstance(again, classmethod):
            again = _but_of_stand_ins(again)
        type.__setattr__(derived, name, again)
        if again is not value and hasattr(again, "__set_name__") and not stands_in(type(again)):
            again.__set_name__(derived, name)
    type.__setattr__(derived, "__is_filled__", True)
