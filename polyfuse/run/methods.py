"""Jitted functions as methods of objects.

    class Model:
        @pf.jit
        def forward(self, x):
            return np.maximum(x @ self.weight, 0) * self.scale

The object is part of the program, as a static argument is, but by its identity: its attributes are read as captured
values are, arrays anew at each call, plain values as guards.  A dataclass or a tuple is a container of arrays, here as
for every parameter.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any

from polyfuse.run.arguments import IMMUTABLE, SCALARS, known_library
from polyfuse.run.foreign import adopt

if TYPE_CHECKING:
    from polyfuse.run.dispatch import Jitted

_OF_ARGUMENTS = frozenset(("plan", "lower", "compile", "bind", "graph"))


def is_receiver(value: Any) -> bool:
    """Whether `value` is an object that only attributes can be taken of: no array, number, container or constant."""
    kind = type(value)
    if value is None or kind in SCALARS or known_library(kind) is not None:
        return False
    if isinstance(value, (dict, tuple, list, *IMMUTABLE)) or dataclasses.is_dataclass(value):
        return False
    return adopt(value) is None


def is_method_of(function: Any, value: Any) -> bool:
    """Whether `function` was defined in the body of a class that `value` is an object of: what a property or another
    decorator above `jit` calls with the object, class and name of the method unseen."""
    module, (body, _, _) = getattr(function, "__module__", None), getattr(function, "__qualname__", "").rpartition(".")
    return any(kind.__qualname__ == body and kind.__module__ == module for kind in type(value).__mro__)


class JittedMethod:
    """What ``model.forward`` is: the jitted function with `instance` for its first argument, in calls and in plans.
    What is compiled ahead of time takes all arguments, `instance` among them.  Equal, copied and pickled as methods
    are: by the object and the function."""

    __slots__ = ("_instance", "_jitted")

    def __init__(self, jitted: Jitted, instance: Any) -> None:
        self._jitted, self._instance = jitted, instance

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._jitted(self._instance, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._jitted, name)
        return partial(found, self._instance) if name in _OF_ARGUMENTS else found

    @property
    def __wrapped__(self) -> MethodType:
        return MethodType(self._jitted.function, self._instance)

    @property
    def __self__(self) -> Any:
        return self._instance

    @property
    def __func__(self) -> Jitted:
        return self._jitted

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JittedMethod):
            return NotImplemented
        return self._jitted is other._jitted and self._instance is other._instance

    def __hash__(self) -> int:
        return hash((id(self._jitted), id(self._instance)))

    def __reduce__(self) -> tuple[type[JittedMethod], tuple[Jitted, Any]]:
        return JittedMethod, (self._jitted, self._instance)

    def __repr__(self) -> str:
        return f"<{self._jitted!r} of {self._instance!r}>"
