"""`functools.singledispatch` in traced code: by the user's classes, of which the trace has others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from polyfuse.frontends.numpy_like.classes import original_of, stands_in
from polyfuse.frontends.numpy_like.python_builtins import of_its_class


class Generic:
    """A generic function.  `value`: what stands in for an implementation."""

    def __init__(self, original: Any, value: Callable[[Any], Any]) -> None:
        self._original, self._value = original, value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not args:
            return self._original(*args, **kwargs)  # says what is missing
        return self._value(self._original.dispatch(_kind(args[0])))(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


class GenericMethod:
    """A generic method.  `attribute`: what stands in for an implementation, as an attribute of a class."""

    def __init__(self, original: functools.singledispatchmethod[Any], attribute: Callable[[Any], Any]) -> None:
        self._original, self._attribute = original, attribute

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            found = self._attribute(self._original.dispatcher.dispatch(_kind(args[0])))
            return found.__get__(instance, owner)(*args, **kwargs)

        return call


def is_generic(function: FunctionType) -> bool:
    return function.__code__.co_filename == functools.__file__ and hasattr(function, "dispatch")


def _kind(value: Any) -> type:
    kind: type = of_its_class(value).__class__
    return original_of(kind) if stands_in(kind) else kind
