"""``x[mask]`` for a mask of unknown values: its length depends on them, so it stays the whole array beside its mask.

Elementwise functions, reductions and assignment back under the same mask need no more: ``x[m].mean()``, ``a[m] += 1``,
``a[m] = b[m] * 2``.  Everything else is an error that names the alternative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from polyfuse.dtypes import integer_limits
from polyfuse.errors import IndexingError, ShapeError, TraceError
from polyfuse.frontends.numpy_like.known_values import settled
from polyfuse.frontends.numpy_like.locations import Location, here
from polyfuse.frontends.numpy_like.state import Trace, located
from polyfuse.frontends.numpy_like.tracer import Tracer

ADVICE = (
    "Keep the shape: np.where(mask, x, fill), x.sum(where=mask), or x[:k] with a size that is known. "
    "Reductions of x[mask] and assignments a[mask] = ... work."
)
_REDUCTIONS = frozenset("sum prod mean var std any all".split())
_ELEMENTWISE = frozenset("where clip round around nan_to_num isclose".split())
_EXTREMES = {"max": -np.inf, "min": np.inf, "amax": -np.inf, "amin": np.inf}


_BY_UFUNC = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}


class Masked(NDArrayOperatorsMixin):
    """The elements of `array` where `mask` (over its leading axes) holds, along axis `before` of the result, which is 1
    for ``x[:, mask]``: a copy, which later writes to the two leave as it is."""

    __slots__ = ("array", "before", "location", "mask")
    __array_priority__ = 2 * Tracer.__array_priority__
    is_leaf = True

    def __init__(self, array: Tracer, mask: Tracer, before: int = 0) -> None:
        self.array, self.mask = Tracer(array.state, array.node), Tracer(mask.state, mask.node)
        self.before, self.location = before, here()

    @property
    def state(self) -> Trace:
        return self.array.state

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.array.dtype

    @property
    def ndim(self) -> int:
        return self.array.ndim - self.mask.ndim + 1

    @property
    def count(self) -> Tracer:
        """How many elements of the mask hold: a Python int to NumPy, which leaves the dtype of arrays beside it."""
        return Tracer(self.state, self.mask.sum().node, weak=int)

    @property
    def shape(self) -> tuple[Any, ...]:
        rest = self.array.shape[self.mask.ndim :]
        return (*rest[: self.before], self.count, *rest[self.before :])

    @property
    def size(self) -> Any:
        return self.count if self.array.ndim == self.mask.ndim else self._refuse()

    def settle(self) -> None:
        """Trace again with the sizes fixed that the mask follows from, if it follows from sizes alone."""
        settled(self.state, self.mask.node)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        self.settle()
        raise located(self.refusal())

    def refusal(self, location: Location | None = None) -> TraceError:
        """The error for what needs the elements by themselves; `location`: of a line other than the present one."""
        return refusal(location)

    def _like(self, array: Tracer) -> Masked:
        return Masked(array, self.mask, self.before)

    def fits(self, mask: Tracer, ndim: int, before: int) -> bool:
        """Whether another part of so many axes under `mask` has the same elements at the same places."""
        return self.mask.node is mask.node and self.array.ndim == ndim and self.before == before

    # ------------------------------------------------------------------------------------------ elementwise
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "reduce" and ufunc.__name__ in _BY_UFUNC:
            return self._reduced(_BY_UFUNC[ufunc.__name__], **{"axis": 0, **kwargs})
        out = kwargs.pop("out", None)
        if method != "__call__" or ufunc.signature is not None or kwargs.keys() - {"dtype", "casting"}:
            self._refuse()
        operands = tuple(map(self._operand, inputs))
        if out is not None:
            return self._written(ufunc, operands, kwargs, out)
        result = self.state.call("ufunc", ufunc, method, operands, kwargs)
        return tuple(map(self._like, result)) if isinstance(result, tuple) else self._like(result)

    def _applied(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Masked:
        """A function of elements that is no ufunc."""
        given = {key: self._operand(value) for key, value in kwargs.items()}
        return self._like(self.state.call(name, *map(self._operand, args), **given))

    def _written(self, ufunc: np.ufunc, operands: tuple[Any, ...], kwargs: dict[str, Any], out: tuple[Any, ...]) -> Any:
        """``s += 1``: all who hold the selection see it.  Another kind of array has no room for it."""
        (target,) = out if len(out) == 1 else (None,)
        if not isinstance(target, Masked):
            self._refuse()
        array = Tracer(self.state, self._operand(target).node)
        self.state.call("ufunc", ufunc, "__call__", operands, {**kwargs, "out": (array,)})
        target.array = array
        return target

    def _operand(self, value: Any) -> Any:
        """The whole array of a selection under the same mask; other operands may span the axes behind the mask."""
        if isinstance(value, Masked):
            return value.array if value.fits(self.mask, self.array.ndim, self.before) else self._refuse()
        return value if np.ndim(value) <= self.array.ndim - self.mask.ndim - self.before else self._refuse()

    def astype(self, dtype: Any) -> Masked:
        return self._like(self.array.astype(dtype))

    def copy(self) -> Masked:
        return self._like(self.array)

    # ------------------------------------------------------------------------------------------ reductions
    def _reduced(self, name: str, axis: Any = None, keepdims: bool = False, **options: Any) -> Tracer:
        rank = self.mask.ndim
        if axis not in (None, self.before) or options.keys() & {"where", "out"}:
            self._refuse()
        axes = None if axis is None else tuple(range(rank))
        where = self.mask[(...,) + (None,) * (self.array.ndim - rank)]
        if name in _EXTREMES and "initial" not in options:
            sizes = [n for k, n in enumerate(self.array.sizes) if axes is None or k in axes]
            if not all(self.state.decide(n - 1) for n in sizes):
                raise located(ShapeError(f"np.{name} of no elements has no value", advice="Give initial= a value."))
        if name in _EXTREMES:
            options.setdefault("initial", self._worst(name))
        found: Tracer = self.state.call(name, self.array, axis=axes, where=where, **options)
        if not keepdims:
            return found
        kept = (None,) * self.ndim if axis is None else (*(slice(None),) * self.before, None)
        return found[kept]

    def _worst(self, name: str) -> Any:
        dtype = self.array.element
        if dtype.is_float:
            return _EXTREMES[name]
        if dtype.kind == "b":
            return name.endswith("min")
        limits = integer_limits(dtype)
        return int(limits.min if name.endswith("max") else limits.max)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name in _REDUCTIONS or name in _EXTREMES:
            return lambda *args, **kwargs: self._reduced(name, *args, **kwargs)
        if name in ("clip", "round"):
            return lambda *args, **kwargs: self._applied(name, (self, *args), kwargs)
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"x[mask] has no attribute {name!r}")
        return self._refuse if callable(getattr(np.ndarray, name)) else self._refuse()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if args and args[0] is self and (function.__name__ in _REDUCTIONS or function.__name__ in _EXTREMES):
            return self._reduced(function.__name__, *args[1:], **kwargs)
        if function.__name__ in _ELEMENTWISE and "out" not in kwargs:
            return self._applied(function.__name__, args, kwargs)
        if function in (np.size, np.shape, np.ndim):
            return getattr(self, function.__name__)
        self._refuse()

    __array__ = __getitem__ = __setitem__ = __iter__ = __len__ = __bool__ = _refuse


def refusal(location: Location | None = None) -> IndexingError:
    problem = "x[mask] has a shape that depends on the values of the mask"
    return IndexingError(problem, advice=ADVICE, source=location.source() if location else None)
