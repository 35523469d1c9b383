"""`functools.cached_property` in traced code."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
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
