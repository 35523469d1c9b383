"""``x[mask]`` for a mask of unknown values: its length depends on them, so it stays the whole array beside its mask.

Elementwise functions, reductions and assignment back under the same mask need no more: ``x[m].mean()``, ``a[m] += 1``,
``a[m] = b[m] * 2``, and what integers of it choose stays under it: ``table[k[m]].sum()``.  Everything else is an error
that names the alternative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from polyfuse.dtypes import integer_limits
from polyfuse.errors import IndexingError, ShapeError, TraceError
from polyfuse.frontends.numpy_like.known_values import settled
from polyfuse.frontends.numpy_like.locations import Location, here
from polyfuse.frontends.numpy_like.sizes import is_integer
from polyfuse.frontends.numpy_like.state import Trace, located
from polyfuse.frontends.numpy_like.tracer import Tracer

ADVICE = (
    "Keep the shape: np.where(mask, x, fill), x.sum(where=mask), or x[:k] with a size that is known. "
    "Reductions of x[mask], its size (np.count_nonzero(mask) for len) and assignments a[mask] = ... work."
)
_REDUCTIONS = frozenset("sum prod mean var std any all".split())
_ELEMENTWISE = frozenset("where clip round around nan_to_num isclose".split())
_QUANTILES = frozenset("median quantile percentile nanmedian nanquantile nanpercentile".split())
_ELEMENTS = frozenset("lower higher nearest inverted_cdf closest_observation".split())
"""Methods whose quantiles are elements, of their dtype."""
_POSITIONS = {"argmax": "max", "argmin": "min"}
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
    is_selection = True  # for what knows no traces

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
        if method == "at" and isinstance(inputs[0], Tracer):
            return self.state.call("ufunc", ufunc, method, inputs, kwargs)
        out = kwargs.pop("out", None)
        if method == "__call__" and ufunc is np.matmul and len(inputs) == 2 and not kwargs and out is None:
            return self._product(*inputs)
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

    def _chooses(self, item: Any) -> Any:
        """A number or the integers of a selection under the same mask as an index of whole arrays."""
        if is_integer(item) or (isinstance(item, Tracer) and not item.ndim and item.element.kind in "iu"):
            return item
        if not isinstance(item, Masked) or not item._is_flat or not item.fits(self.mask, self.array.ndim, 0):
            self._refuse()
        return self.state.call("where", self.mask, item.array, 0) if item.array.element.kind in "iu" else self._refuse()

    def astype(self, dtype: Any) -> Masked:
        return self._like(self.array.astype(dtype))

    def copy(self, order: Any = "C") -> Masked:
        return self._like(self.array)

    def ravel(self, order: Any = "C") -> Masked:
        """The same: chosen elements lie along one axis.  Chosen rows do not."""
        return self.copy() if self._is_flat else self._refuse()

    flatten = ravel

    def reshape(self, *shape: Any, **options: Any) -> Masked:
        return self.copy() if shape in ((-1,), ((-1,),)) and self._is_flat and not options else self._refuse()

    @property
    def _is_flat(self) -> bool:
        return self.array.ndim == self.mask.ndim

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

    def _product(self, one: Any, other: Any) -> Any:
        """``x[m] @ y[m]`` of selections of one axis: a sum in the dtype of the products."""
        for each in (one, other):
            if not isinstance(each, Masked) or not each._is_flat:
                self._refuse()
        products: Any = np.multiply(one, other)
        return products._reduced("sum", dtype=products.dtype)

    def _weighted(self, weights: Any) -> Any:
        """The mean under weights, in the dtype of both, and of float64 where the elements are integers."""
        if not isinstance(weights, Masked) or not weights._is_flat:
            self._refuse()
        real = self if self.array.element.is_float else self.astype(float)
        products: Any = np.multiply(real, weights)
        return products._reduced("sum") / weights.astype(products.dtype)._reduced("sum")

    def _without_nan(self, *, mean: bool) -> Any:
        """The sum of the elements that are numbers, or their mean, which has the dtype of the sum."""
        if not self.array.element.is_float:
            return self._reduced("mean" if mean else "sum")
        none: Any = np.isnan(self)
        total = self._applied("where", (none, 0, self), {})._reduced("sum")
        return (total / (~none)._reduced("sum")).astype(total.dtype) if mean else total

    def _quantile(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Of the whole array with NaN for what the mask does not choose, which is passed over; NaN where a chosen
        element is and the function does not pass it over."""
        real = self.array if self.array.element.is_float else self.array.astype(float)
        whole = self.state.call("where", self.mask, real, np.nan)
        found = self.state.call(name if name.startswith("nan") else f"nan{name}", whole, *args, **kwargs)
        if kwargs.get("method") in _ELEMENTS:
            found = found.astype(self.dtype)
        if name.startswith("nan") or not self.array.element.is_float:
            return found
        any_nan = self.state.call("any", np.isnan(self.array) & self.mask)
        return self.state.call("where", any_nan, np.nan, found).astype(found.dtype)

    def _position(self, name: str) -> Any:
        """How many chosen elements lie in front of the first that is the greatest or the least, or the first NaN."""
        wanted, values, mask = self._reduced(_POSITIONS[name]), self.array.ravel(), self.mask.ravel()
        hit = mask & (values == wanted)
        if self.array.element.is_float:
            hit = hit | mask & np.isnan(values) & np.isnan(wanted)
        return (mask & (hit.cumsum() == 0)).sum()

    def _summarised(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Functions of all elements that are made of others; those with options are left to them."""
        alone = self._is_flat and args[0] is self
        if alone and kwargs.get("axis", 0) in (None, 0, -1):  # there is no other axis
            kwargs = {key: value for key, value in kwargs.items() if key != "axis"}
        match name, args[1:]:
            case "count_nonzero", () if alone and not kwargs:
                nonzero: Any = self != 0
                return nonzero._reduced("sum")
            case "ptp", () if alone and not kwargs:
                return self._reduced("max") - self._reduced("min")
            case "average", () if alone and not kwargs.keys() - {"weights"}:
                weights = kwargs.get("weights")
                return self._reduced("mean") if weights is None else self._weighted(weights)
            case "nansum" | "nanmean", () if alone and not kwargs:
                return self._without_nan(mean=name == "nanmean")
            case "norm", () if alone and not kwargs:
                squares: Any = np.square(self if self.array.element.is_float else self.astype(float))
                return np.sqrt(squares._reduced("sum"))
            case "dot" | "vdot" | "inner", (other,) if not kwargs:
                return self._product(args[0], other)
            case "allclose", (_,):
                return self._applied("isclose", args, kwargs)._reduced("all")
            case "ravel", () if alone and not kwargs:
                return self.ravel()
            case ("argmax" | "argmin"), () if alone and not kwargs:
                return self._position(name)
            case _, rest if alone and name in _QUANTILES and not kwargs.keys() - {"q", "method"}:
                return self._quantile(name, rest, kwargs)
        return self._refuse()

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
        if name in _POSITIONS and self._is_flat:
            return lambda **kwargs: self._summarised(name, (self,), kwargs)
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
        if args and "out" not in kwargs:
            return self._summarised(function.__name__, args, kwargs)
        self._refuse()

    __array__ = __getitem__ = __setitem__ = __iter__ = __len__ = __bool__ = _refuse


def gathered(x: Tracer, items: Sequence[Any]) -> Masked:
    """``x[k[m]]``, ``x[:, k[m], 0]``: what the integers of selections choose, all under one mask and side by side.
    Outside of it stands an element that nobody sees."""
    first = next(i for i in items if isinstance(i, Masked))
    choosing = [place for place, i in enumerate(items) if not isinstance(i, slice)]
    before, rank = choosing[0], first.mask.ndim
    if choosing != list(range(before, before + len(choosing))):
        first._refuse()
    part = x[tuple(i if isinstance(i, slice) else first._chooses(i) for i in items)]
    if before:
        part = first.state.call("moveaxis", part, tuple(range(before, before + rank)), tuple(range(rank)))
    return Masked(part, first.mask, before)


def refusal(location: Location | None = None) -> IndexingError:
    problem = "x[mask] has a shape that depends on the values of the mask"
    return IndexingError(problem, advice=ADVICE, source=location.source() if location else None)
