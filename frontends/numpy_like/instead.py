"""What stands in for functions of NumPy and of Python while a function is traced: one for each, and equal to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyfuse.frontends.numpy_like.state import Trace


def one(trace: Trace, original: Any, role: str, make: Callable[[], Any]) -> Any:
    """One stand-in in a trace, under whatever name it is found: ``np.abs is np.absolute`` holds as it does outside."""
    key = id(original), role
    if key not in trace.stand_ins:
        trace.stand_ins[key] = make()
    return trace.stand_ins[key]


class Instead:
    """What stands in for a function of a module: equal to it, so that tables find one by the other."""

    __slots__ = ("_original",)

    def __init__(self, original: Any) -> None:
        self._original = original

    @property
    def original(self) -> Any:
        return self._original

    @property  # type: ignore[misc]  # for `isinstance`
    def __class__(self) -> Any:
        return type(self) if self._original is None else type(self._original)

    def __eq__(self, other: object) -> bool:
        if self._original is None:
            return self is other
        return bool(self._original == (other.original if isinstance(other, Instead) else other))

    def __hash__(self) -> int:
        return id(self) if self._original is None else hash(self._original)

    def __repr__(self) -> str:
        return repr(self._original)

    def __copy__(self) -> Instead:
        return self

    def __deepcopy__(self, memo: Any) -> Instead:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


class Builtin(Instead):
    """A function of Python's own, for which `function` is called."""

    __slots__ = ("_function",)

    def __init__(self, original: Any, function: Callable[..., Any]) -> None:
        super().__init__(original)
        self._function = function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)
