"""Jitted functions in traced code."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, NoReturn

from polyfuse.errors import TraceError
from polyfuse.frontends.numpy_like.state import located

_OF_JITTED = frozenset("bind graph plan lower compile cache_info cache_clear".split())


class Inlined:
    """A jitted function or method that traced code calls: a part of the program, with no plan and arrays of its own."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        object.__setattr__(self, "_function", function)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if "out" in kwargs and "out" not in signature(self._function).parameters:
            self._refuse("out= names memory", "Write out[...] = f(x), or leave it out.")
        return self._function(*args, **kwargs)

    @property
    def function(self) -> Any:
        return self._function

    def __getattr__(self, name: str) -> Any:
        if name in _OF_JITTED:
            self._refuse(f"{name} asks for a program of its own", "Call it, or use that outside of the trace.")
        return getattr(self._function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._function, name, value)

    def _refuse(self, reason: str, advice: str) -> NoReturn:
        problem = f"{self.__name__} is a part of the jitted function that calls it: {reason}"
        raise located(TraceError(problem, advice=advice))
