"""`functools.cached_property` and `functools.lru_cache` in traced code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import MethodType
from typing import Any


class CachedProperty:
    """The `original` of an object that lasts computes a value outside of the trace and keeps it, as without one, in the
    object's own dictionary, which comes first.  For any other object `rebuilt` does, and the value goes with the trace.
    `lasting`: the object that lasts, or None."""

    def __init__(
        self, original: cached_property[Any], rebuilt: Callable[[Any], Any], lasting: Callable[[Any], Any]
    ) -> None:
        self._original, self._rebuilt, self._lasting = original, rebuilt, lasting
        self._found: dict[int, tuple[Any, Any]] = {}

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if (lasting := self._lasting(instance)) is not None:
            return self._original.__get__(lasting, type(lasting))
        if id(instance) not in self._found:
            self._found[id(instance)] = instance, self._rebuilt(instance)
        return self._found[id(instance)][1]


class CachedFunction:
    """A function behind `lru_cache`.  The `original` computes outside of the trace, and keeps, what is asked of values
    that last, as without one.  Of others `rebuilt` does, and nothing is kept.  `lasting`: the given value as it is
    without the trace, in a tuple, or none where it is of it; `value`: what stands in for a result."""

    def __init__(
        self,
        original: Callable[..., Any],
        rebuilt: Callable[..., Any],
        lasting: Callable[[Any], tuple[Any, ...]],
        value: Callable[[Any], Any],
    ) -> None:
        self._original, self._rebuilt, self._lasting, self._value = original, rebuilt, lasting, value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        hash((args, *kwargs.values()))  # arrays have none
        given = [part for value in (*args, *kwargs.values()) for part in self._lasting(value)]
        if len(given) < len(args) + len(kwargs):
            return self._rebuilt(*args, **kwargs)
        named = dict(zip(kwargs, given[len(args) :], strict=True))
        return self._value(self._original(*given[: len(args)], **named))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)
