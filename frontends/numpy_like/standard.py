"""The namespace of the Array API standard, ``x.__array_namespace__()``.

Its functions are NumPy's, save where the standard asks for other values than NumPy gives: these are here, and
``np.floor_divide(x, y)`` and ``x // y`` stay NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from polyfuse.frontends.numpy_like.elementwise import isinf, logical, ufunc, where
from polyfuse.frontends.numpy_like.lifting import lift
from polyfuse.frontends.numpy_like.namespace import Namespace
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer


def floor_divide(trace: Trace, x1: Any, x2: Any, /) -> Tracer:
    """The quotient rounded down.  With an infinity it is the exact quotient: ``inf // 2`` is inf and ``1 // -inf`` is
    -0.0, where NumPy, which goes by remainders, has NaN and -1."""
    a, b = lift(trace, x1), lift(trace, x2)
    down = ufunc("floor_divide", a, b)
    if not down.element.is_float:
        return down
    infinite = logical("logical_or", isinf(a), isinf(b))
    return where(infinite, ufunc("divide", a, b), down)


OF_THE_STANDARD: Mapping[str, Callable[..., Any]] = MappingProxyType({"floor_divide": floor_divide})


class Standard(Namespace):
    """The namespace that an array of a trace gives."""

    def __getattr__(self, name: str) -> Any:
        if name in OF_THE_STANDARD:
            return partial(self._trace.run, OF_THE_STANDARD[name], self._trace)
        return super().__getattr__(name)
