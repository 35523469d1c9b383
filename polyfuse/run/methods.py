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


class JittedMethod:
    """What ``model.forward`` is: the jitted function with `instance` for its first argument, in calls and in plans.
    What is compiled ahead of time takes all arguments, `instance` among them."""

    __slots__ = ("_instance", "_jitted")

    def __init__(self, jitted: Jitted, instance: Any) -> None:
        self._jitted, self._instance = jitted, instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._jitted(self._instance, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._jitted, name)
        return partial(found, self._instance) if name in _OF_ARGUMENTS else found

    @property
    def __wrapped__(self) -> MethodType:
        return MethodType(self._jitted.function, self._instance)

    def __repr__(self) -> str:
        return f"<{self._jitted!r} of {self._instance!r}>"
