"""Order statistics, histograms and covariances: sorts between fused kernels, and what is computed from them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.dtypes import f64, i64
from polyfuse.errors import ShapeError, UnsupportedError
from polyfuse.frontends.numpy_like import axes, nodes, promotion
from polyfuse.frontends.numpy_like.axes import Axis
from polyfuse.frontends.numpy_like.boundaries import argsort, searchsorted, sort
from polyfuse.frontends.numpy_like.contractions import matmul
from polyfuse.frontends.numpy_like.creation import linspace
from polyfuse.frontends.numpy_like.elementwise import as_float, isnan, ufunc, where
from polyfuse.frontends.numpy_like.indexing import take_along_axis
from polyfuse.frontends.numpy_like.joining import concatenate, diff, stack
from polyfuse.frontends.numpy_like.lifting import as_dtype, lift, lift_all
from polyfuse.frontends.numpy_like.reductions import average, max_, min_
from polyfuse.frontends.numpy_like.scans import cumulative
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.views import diagonal, expand_dims, moveaxis, squeeze

ArrayLike = object


# ---------------------------------------------------------------------------------------------- quantiles

# Where a method looks between two neighbours, from the fraction that the linear method has.
_METHODS: dict[str, Callable[[Tracer], Any]] = {
    "linear": lambda t: t,
    "lower": lambda t: 0.0,
    "higher": lambda t: where(t > 0, 1.0, 0.0),
    "midpoint": lambda t: where(t > 0, 0.5, 0.0),
}


def _lanes(x: Tracer, axis: Axis) -> Tracer:
    """The reduced axes as one last axis."""
    reduced = axes.many(axis, x.ndim)
    kept = [k for k in range(x.ndim) if k not in reduced]
    moved = x.transpose([*kept, *reduced])
    sizes = [x.shape[k] for k in kept]
    return moved if len(reduced) == 1 else moved.reshape((*sizes, -1))


def _at(ordered: Tracer, position: Tracer, method: str) -> Tracer:
    """The value of each lane at a position that lies between two elements."""
    below = ufunc("floor", position)
    t = _METHODS[method](position - below)
    last = ordered.shape[-1] - 1
    low = ufunc("minimum", below.astype(i64.numpy), last)
    high = ufunc("minimum", low + 1, last)
    shape = (*ordered.shape[:-1], 1)
    ends = [take_along_axis(ordered, nodes_of(k, shape), -1)[..., 0] for k in (low, high)]
    a, b = ends
    step = b - a
    return where(equal_ends(a, b), a, where(t < 0.5, a + step * t, b - step * (1 - t)))


def equal_ends(a: Tracer, b: Tracer) -> Tracer:
    """Neighbours that are equal, infinities too, need no difference."""
    return ufunc("equal", a, b)


def nodes_of(index: Tracer, shape: Any) -> Tracer:
    """One index per lane, as an array of the rank of the lanes."""
    found: Tracer = index.state.functions["broadcast_to"](index[..., None], shape)
    return found


def quantile(
    x: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    overwrite_input: bool = False,
    ignore_nan: bool = False,
    scale: float = 1,
    **unsupported: Any,
) -> Tracer:
    """Quantiles of sorted lanes; `q` is a number or a vector of static size.  NaN where a lane has one.

    Raises UnsupportedError for weights and for methods other than linear, lower, higher and midpoint.
    """
    if method not in _METHODS or any(v is not None and v is not False for v in unsupported.values()):
        raise UnsupportedError(
            f"np.quantile supports the methods {', '.join(_METHODS)}, and no weights",
            advice="Sort the array with np.sort, and pick and weigh its elements yourself.",
        )
    x = lift_all(x, q)[0]
    wide = as_float(x)
    at = lift(x.state, q)
    if at.weak is not None:
        at = Tracer(x.state, as_dtype(at, wide.element))
    at = at / scale
    lanes = _lanes(wide, axis)
    if not x.state.decide(lanes.sizes[-1] - 1):
        return _of_nothing(lanes, at, axis, x.ndim, keepdims)
    ordered = sort(lanes, -1)
    present = ~isnan(ordered)
    count = present.sum(axis=-1) if ignore_nan else lanes.shape[-1]
    results = []
    for one in [at] if not at.ndim else [at[k] for k in range(at.state.fixed(at.sizes[0]))]:
        position = one * ufunc("maximum", count - lift(x.state, 1), 0).astype(one.dtype)
        spread = Tracer(x.state, nodes.broadcast(position.node, ordered.sizes[:-1]))
        found = _at(ordered, spread, method)
        known = present[..., 0] if ignore_nan else present[..., -1]
        results.append(where(known, found, float("nan")))
    result = results[0] if not at.ndim else stack(results)
    if not keepdims:
        return result
    return expand_dims(result, tuple(k + at.ndim for k in axes.many(axis, x.ndim)))


def _of_nothing(lanes: Tracer, at: Tracer, axis: Axis, rank: int, keepdims: bool) -> Tracer:
    """NaN for every lane."""
    result = Tracer(lanes.state, nodes.full((*at.sizes, *lanes.sizes[:-1]), float("nan"), lanes.element))
    return expand_dims(result, tuple(k + at.ndim for k in axes.many(axis, rank))) if keepdims else result


def median(
    x: ArrayLike, axis: Axis = None, *, keepdims: bool = False, overwrite_input: bool = False, ignore_nan: bool = False
) -> Tracer:
    """The mean of the middle two of the sorted axis; NaN where there is one."""
    (x,) = lift_all(x)
    found = quantile(as_float(x), 0.5, axis, keepdims=keepdims, ignore_nan=ignore_nan, method="midpoint")
    return found


# ---------------------------------------------------------------------------------------------- histograms


def histogram_bin_edges(x: ArrayLike, bins: Any = 10, range: Any = None, weights: Any = None) -> Tracer:
    """Edges from a number of bins, between the extremes or in a range; given edges stay as they are."""
    (x,) = lift_all(x)
    if isinstance(bins, str):
        raise UnsupportedError(
            f"the number of bins={bins!r} depends on the values", advice="Give a number of bins, or their edges."
        )
    if not isinstance(bins, int):
        return lift(x.state, bins)
    if range is not None:
        low, high = (lift(x.state, float(v)) for v in range)
        if range[0] == range[1]:
            low, high = low - 0.5, high + 0.5
    elif not x.state.decide(x.reshape(-1).sizes[0] - 1):
        low, high = lift(x.state, 0.0), lift(x.state, 1.0)
    else:
        low, high = min_(x) * 1.0, max_(x) * 1.0
        low, high = where(ufunc("equal", low, high), low - 0.5, low), where(ufunc("equal", low, high), high + 0.5, high)
    dtype = promotion.common((x.element, *([] if x.element.is_float else [f64])))
    found: Tracer = linspace(x.state, low, high, bins + 1, dtype=dtype.numpy)
    return found


def histogram(
    x: ArrayLike, bins: Any = 10, range: Any = None, density: Any = None, weights: ArrayLike = None
) -> tuple[Tracer, Tracer]:
    """Counts (or sums of weights) between edges: positions of the edges among the sorted values."""
    (x,) = lift_all(x)
    edges = histogram_bin_edges(x, bins, range)
    flat = x.reshape(-1)
    if weights is None:
        ordered, total = sort(flat), None
    else:
        order = argsort(flat)
        ordered = flat[order]
        sums = cumulative("sum", lift(x.state, weights).reshape(-1)[order])
        zero = Tracer(x.state, nodes.full((1,), 0, sums.element))
        total = concatenate([zero, sums])
    ends = concatenate([searchsorted(ordered, edges[:-1]), searchsorted(ordered, edges[-1:], side="right")])
    counts = diff(ends if total is None else total[ends])
    if density:
        widths = diff(edges).astype(np.float64)
        return counts / widths / counts.sum(), edges
    return counts, edges


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Tracer:
    """The number of the bin of every element; edges that are known may fall, computed ones must rise."""
    x, edges = lift_all(x, bins)
    rest = [n for n in (edges.sizes[0],) if edges.ndim == 1]
    if not rest:
        raise ShapeError("np.digitize takes a vector of edges")
    falling = isinstance(bins, (list, tuple, np.ndarray)) and len(bins) > 1 and not _traced(bins) and bins[0] > bins[-1]
    if falling:
        return edges.shape[0] - searchsorted(edges[::-1], x, side="right" if right else "left")
    return searchsorted(edges, x, side="left" if right else "right")


def _traced(values: Any) -> bool:
    return isinstance(values, Tracer) or any(isinstance(v, Tracer) for v in values)


# ---------------------------------------------------------------------------------------------- covariance


def cov(
    m: ArrayLike,
    y: ArrayLike = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: ArrayLike = None,
    *,
    dtype: Any = None,
) -> Tracer:
    """Covariances of the rows (of the columns where not `rowvar`).  Raises UnsupportedError for frequencies."""
    if fweights is not None:
        raise UnsupportedError("np.cov with fweights= is not supported", advice="Use aweights=, or repeat the samples.")
    first = _variables(m, rowvar, dtype)
    x = first if y is None else concatenate([first, _variables(y, rowvar, dtype)], 0)
    samples = x.shape[1]
    lost = (0 if bias else 1) if ddof is None else ddof
    weights = None if aweights is None else lift(x.state, aweights)
    center = x - expand_dims(average(x, 1, weights), 1)
    if weights is None:
        degrees = ufunc("maximum", lift(x.state, samples) - lost, 0).astype(x.dtype)
        weighed = center
    else:
        total = weights.sum()
        degrees = total - lost * (weights * weights).sum() / total if lost else total
        weighed = center * weights
    return squeeze(matmul(center, weighed.T) * (Tracer(x.state, expr.constant(1, x.element)) / degrees))


def _variables(m: ArrayLike, rowvar: bool, dtype: Any) -> Tracer:
    (x,) = lift_all(m)
    if x.ndim > 2:
        raise ShapeError("np.cov takes vectors and matrices")
    x = x.astype(promotion.common((x.element, f64)).numpy if dtype is None else dtype)
    if x.ndim < 2:
        return x.reshape(1, -1)
    return x if rowvar else x.T


def corrcoef(x: ArrayLike, y: ArrayLike = None, rowvar: bool = True, *, dtype: Any = None) -> Tracer:
    """Correlation coefficients, clipped to [-1, 1]."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    spread = ufunc("sqrt", diagonal(c))
    found = c / spread[:, None] / spread[None, :]
    return ufunc("minimum", ufunc("maximum", found, -1), 1)


def percentile(x: ArrayLike, q: ArrayLike, axis: Axis = None, **options: Any) -> Tracer:
    return quantile(x, q, axis, scale=100, **options)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantile": quantile,
    "percentile": percentile,
    "nanquantile": partial(quantile, ignore_nan=True),
    "nanpercentile": partial(percentile, ignore_nan=True),
    "median": median,
    "nanmedian": partial(median, ignore_nan=True),
    "histogram": histogram,
    "histogram_bin_edges": histogram_bin_edges,
    "digitize": digitize,
    "cov": cov,
    "corrcoef": corrcoef,
}
