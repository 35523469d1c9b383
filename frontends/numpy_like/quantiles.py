"""Quantiles: elements of the sorted axis, at places that are computed, and what lies between them.

The sort is a call of the caller's array library, and what reads its result one kernel; of few elements both are one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from polyfuse.affine import dimension
from polyfuse.dtypes import DType, bool_, f64, i64
from polyfuse.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from polyfuse.expr import Shape
from polyfuse.frontends.numpy_like import axes, networks, nodes
from polyfuse.frontends.numpy_like.axes import Axis
from polyfuse.frontends.numpy_like.boundaries import argsort, rising
from polyfuse.frontends.numpy_like.elementwise import isnan, ufunc, where
from polyfuse.frontends.numpy_like.indexing import take_along_axis
from polyfuse.frontends.numpy_like.lifting import as_dtype, lift, lift_all, trace_of
from polyfuse.frontends.numpy_like.reductions import count_nonzero, sum_
from polyfuse.frontends.numpy_like.scans import cumulative
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.views import broadcast_to, expand_dims, transpose

ArrayLike = object


@dataclass(frozen=True, slots=True)
class Rows:
    """The axes to reduce as one last axis, the others in order before it."""

    values: Tracer
    kept: Shape
    reduced: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        return not self.values.state.decide(self.values.sizes[-1] - 1)

    def rising(self) -> Tracer:
        """The values in order, NaN last."""
        return rising(self.values, -1, networks.FEW)

    def at(self, ordered: Tracer, index: Tracer) -> Tracer:
        """Elements of the last axis: `index` broadcasts against the kept axes, and may have more in front."""
        mesh = [Tracer(index.state, nodes.iota(self.kept, dimension(k))) for k in range(len(self.kept))]
        return ordered[(*mesh, index)]


def _rows(x: Tracer, axis: Axis) -> Rows:
    reduced = axes.many(axis, x.ndim)
    kept = [k for k in range(x.ndim) if k not in reduced]
    sizes = tuple(x.sizes[k] for k in kept)
    moved = transpose(x, (*kept, *reduced)) if x.ndim > 1 else x
    if len(reduced) != 1:
        moved = moved.reshape(*moved.shape[: len(kept)], -1)
    return Rows(moved, sizes, reduced)


def _kept_dims(result: Tracer, rows: Rows, keepdims: bool) -> Tracer:
    """The reduced axes back as axes of size 1, behind the axes of the quantiles."""
    if not keepdims:
        return result
    rank, front = len(rows.kept) + len(rows.reduced), result.ndim - len(rows.kept)
    return expand_dims(result, tuple(front + k for k in range(rank) if k in rows.reduced))


# ---------------------------------------------------------------------------------------------- medians


def median(x: ArrayLike, axis: Axis = None, overwrite_input: bool = False, keepdims: bool = False) -> Tracer:
    """The mean of the middle two of the sorted axis; NaN where there is one, or no element."""
    (array,) = lift_all(x)
    rows = _rows(array, axis)
    if rows.is_empty:
        return _kept_dims(rows.values.mean(axis=-1), rows, keepdims)
    ordered = rows.rising()
    n = ordered.shape[-1]
    low, high, last = (_real(ordered[..., k]) for k in ((n - 1) // 2, n // 2, -1))
    middle = low if low.node is high.node else _mean(low, high)
    result = where(isnan(last), last, middle) if rows.values.element.is_float else middle
    return _kept_dims(result.astype(low.dtype), rows, keepdims)


def nan_median(x: ArrayLike, axis: Axis = None, overwrite_input: bool = False, keepdims: bool = False) -> Tracer:
    """The median of what is not NaN; NaN where there is nothing else."""
    (array,) = lift_all(x)
    rows = _rows(array, axis)
    if rows.is_empty:
        return _kept_dims(rows.values.mean(axis=-1), rows, keepdims)
    ordered = rows.rising()
    n = count_nonzero(~isnan(rows.values), -1)
    low, high = (_real(rows.at(ordered, ufunc("maximum", k // 2, 0))) for k in (n - 1, n))
    return _kept_dims(_mean(low, high).astype(low.dtype), rows, keepdims)


def _real(x: Tracer) -> Tracer:
    """Means of integers are float64, whatever their width."""
    return x if x.element.is_float else Tracer(x.state, nodes.cast(x.node, f64))


def _mean(a: Tracer, b: Tracer) -> Tracer:
    """Of two elements, which may be one: its double may be beyond all numbers."""
    wide = a.element.compute.numpy
    a, b = a.astype(wide), b.astype(wide)
    return where(ufunc("equal", a, b), a, (a + b) / 2)


# ---------------------------------------------------------------------------------------------- places of quantiles

# Hyndman and Fan (1996): place (n * q + alpha + q * (1 - alpha - beta) - 1) between the sorted elements.
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}


def _between(method: str, n: Tracer, q: Tracer) -> tuple[Tracer, Tracer] | None:
    """The place of the element before, and the weight of the one after; None for methods that choose an element."""
    if method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        place = n * q + (alpha + q * (1 - alpha - beta)) - 1
        return (before := ufunc("floor", place)), place - before
    if method == "linear":
        place = (n - 1) * q
        return (before := ufunc("floor", place)), place - before
    if method == "midpoint":
        place = (n - 1) * q
        before = ufunc("floor", place)
        return before, where(before == place, 0.0, 0.5).astype(q.dtype)
    if method == "averaged_inverted_cdf":
        place = n * q - 1
        before = ufunc("floor", place)
        return before, where(before == place, 0.5, 1.0).astype(q.dtype)
    return None


def _chosen(method: str, n: Tracer, q: Tracer) -> Tracer:
    """The place of the element.  Raises ArgumentError for unknown methods."""
    if method in ("lower", "higher", "nearest"):
        return ufunc({"lower": "floor", "higher": "ceil", "nearest": "rint"}[method], (n - 1) * q)
    if method == "inverted_cdf":
        return ufunc("ceil", n * q - 1)
    if method == "closest_observation":
        place = n * q - 1.5
        before = ufunc("floor", place)
        return where((before == place) & (before % 2 == 1), before, before + 1)
    known = ", ".join([*_CONTINUOUS, "linear, midpoint, averaged_inverted_cdf, lower, higher, nearest, inverted_cdf"])
    raise ArgumentError(
        f"there is no method {method!r} of quantiles", advice=f"Use one of {known}, closest_observation."
    )


def _interpolated(a: Tracer, b: Tracer, t: Tracer) -> Tracer:
    """From `a` to `b`, exact at both ends."""
    return where(t >= 0.5, b - (b - a) * (1 - t), a + (b - a) * t)


# ---------------------------------------------------------------------------------------------- quantiles


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike = None,
    interpolation: str | None = None,
    _full: float = 1.0,
    _skip: bool = False,
) -> Tracer:
    """``np.quantile``: the axes of `q` come first.  NaN where there is a NaN, and for `q` outside of [0, 1].

    Raises ArgumentError for unknown methods and for numbers `q` out of range.
    """
    trace = trace_of(a, q, weights)
    x = lift(trace, a)
    is_short = _skip and x.element.is_float and x.element.itemsize == 2  # how many there are is known to kernels alone
    rows, levels = _rows(x, axis), _levels(x, q, _full, f64 if is_short else x.element)
    if rows.is_empty:
        raise ShapeError("there is no quantile of no elements", advice="Write np.nan for it where that is wanted.")
    front = levels[(..., *[None] * len(rows.kept))]
    if weights is not None:
        result = _weighted(rows, x, lift(trace, weights), front, interpolation or method, _skip)
    else:
        result = _unweighted(rows, front, interpolation or method, _skip)
    result = result.astype(x.dtype) if is_short and lift(trace, q).weak else result
    wanted = [*levels.shape, *rows.values.shape[:-1]]
    return _kept_dims(broadcast_to(result, wanted)[...], rows, keepdims)


def _levels(x: Tracer, q: Any, full: float, dtype: DType) -> Tracer:
    """`q` as floats from 0 to 1: Python numbers in the dtype of float arrays, as NumPy has them, or in another `dtype`:
    NumPy rounds places between halves as well, and a kernel does not."""
    if isinstance(q, (bool, int, float, list, tuple, np.ndarray)):
        given = np.asarray(q)
        x.state.read.extend([q] if isinstance(q, np.ndarray) else [])
        if given.dtype.kind in "biuf" and not np.all((given >= 0) & (given <= full)):
            raise ArgumentError(f"quantiles lie between 0 and {full:g}", advice=f"This is {q}.")
    levels = lift(x.state, q)
    if levels.weak and x.element.is_float:
        levels = Tracer(x.state, as_dtype(levels, dtype))
    elif not levels.element.is_float:
        levels = Tracer(x.state, as_dtype(levels, f64))
    return levels if full == 1 else levels / full


def _unweighted(rows: Rows, q: Tracer, method: str, skip: bool) -> Tracer:
    ordered = rows.rising()
    count = lift(q.state, ordered.shape[-1])
    if skip:
        count = count_nonzero(~isnan(rows.values), -1)
    n = Tracer(q.state, as_dtype(count, q.element))

    def at(place: Tracer) -> Tracer:
        inside = ufunc("maximum", ufunc("minimum", place, n - 1), 0)
        return rows.at(ordered, Tracer(q.state, nodes.cast(where(isnan(q), 0, inside).node, i64)))

    between = _between(method, n, q)
    if between is None:
        result = at(_chosen(method, n, q))
    else:
        before, share = between
        if rows.values.element == bool_:
            advice = 'Cast them with .astype(np.float64), or write method="lower".'
            raise DTypeError("there are no quantiles between truth values", advice=advice)
        result = _interpolated(_real(at(before)), _real(at(before + 1)), share)
    return result if skip and not result.element.is_float else _with_nan(result, ordered, q, skip)


def _with_nan(result: Tracer, ordered: Tracer, q: Tracer, skip: bool) -> Tracer:
    """NaN where the data or the quantile is none."""
    if not result.element.is_float:
        return result
    found = where((q >= 0) & (q <= 1), result, float("nan"))
    if ordered.element.is_float and not skip:
        last = ordered[..., -1]
        found = where(isnan(last), last, found)
    return found.astype(result.dtype)


def _weighted(rows: Rows, x: Tracer, weights: Tracer, q: Tracer, method: str, skip: bool) -> Tracer:
    """The first element at which the share of the weights up to it reaches `q`."""
    if method != "inverted_cdf" or skip:
        raise UnsupportedError(
            "weights are supported for np.quantile and np.percentile with method='inverted_cdf' only",
            advice="Give method='inverted_cdf', and leave NaN out by a weight of 0.",
        )
    if weights.ndim != x.ndim:
        (axis,) = rows.reduced
        weights = weights[(slice(None), *[None] * (x.ndim - 1 - axis))]
    spread = _rows(broadcast_to(weights, x.shape), rows.reduced).values
    order = argsort(rows.values, -1)
    ordered = take_along_axis(rows.values, order, -1)
    upto = cumulative("sum", take_along_axis(spread, order, -1).astype(np.float64), -1)
    share = upto / upto[..., -1:]
    index = sum_((share < q[..., None]) | (share <= 0), -1)
    return _with_nan(rows.at(ordered, ufunc("minimum", index, ordered.shape[-1] - 1)), ordered, q, skip)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "median": median,
    "nanmedian": nan_median,
    "quantile": quantile,
    "percentile": partial(quantile, _full=100.0),
    "nanquantile": partial(quantile, _skip=True),
    "nanpercentile": partial(quantile, _full=100.0, _skip=True),
}
