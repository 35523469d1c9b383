"""Histograms and covariances: sorts between fused kernels, and what is computed from them."""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.dtypes import f64, i64
from polyfuse.errors import DTypeError, ShapeError, UnsupportedError
from polyfuse.frontends.numpy_like import nodes, promotion
from polyfuse.frontends.numpy_like.boundaries import argsort, searchsorted, sort
from polyfuse.frontends.numpy_like.contractions import matmul
from polyfuse.frontends.numpy_like.creation import linspace
from polyfuse.frontends.numpy_like.elementwise import ufunc, where
from polyfuse.frontends.numpy_like.joining import concatenate, diff
from polyfuse.frontends.numpy_like.known_values import settled
from polyfuse.frontends.numpy_like.lifting import lift, lift_all, trace_of
from polyfuse.frontends.numpy_like.reductions import average, max_, min_
from polyfuse.frontends.numpy_like.scans import cumulative
from polyfuse.frontends.numpy_like.sizes import SymbolicSize, affine_of
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.updates import update
from polyfuse.frontends.numpy_like.views import diagonal, expand_dims, squeeze

ArrayLike = object


# ---------------------------------------------------------------------------------------------- histograms


def histogram_bin_edges(x: ArrayLike, bins: Any = 10, range: Any = None, weights: Any = None) -> Tracer:
    """Edges from a number of bins, between the extremes or in a range; given edges stay as they are."""
    (x,) = lift_all(x)
    if isinstance(bins, str):
        raise UnsupportedError(
            f"the number of bins={bins!r} depends on the values", advice="Give a number of bins, or their edges."
        )
    if isinstance(bins, (list, tuple)) or (isinstance(bins, (Tracer, np.ndarray)) and bins.ndim):
        return lift(x.state, bins)
    bins = index(bins)  # a scalar argument that counts bins is one that the trace holds for
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
    if weights is not None:
        counts = counts.astype(lift(x.state, weights).dtype)
    if density:
        widths = diff(edges).astype(np.float64)
        return counts / widths / counts.sum(), edges
    return counts, edges


def bincount(x: ArrayLike, weights: ArrayLike = None, minlength: Any = 0) -> Tracer:
    """How often 0, 1, ..., minlength - 1 occur, or the sums of their weights, in order.

    NumPy's result is longer where a value is larger.  So it is here where values are known while tracing; of others, as
    of negative ones, that is an IndexError at the next synchronisation.  Raises UnsupportedError without `minlength`.
    """
    given, trace = x, trace_of(x, weights, minlength)
    x = lift(trace, x)
    if x.element.kind == "f" or x.element.name == "u64":
        raise DTypeError(f"np.bincount takes integers, not {x.dtype}")
    if x.ndim != 1:
        raise ShapeError("np.bincount takes a vector")
    size = minlength if isinstance(minlength, SymbolicSize) else _at_least(index(minlength), given, x)
    extent = affine_of(size)
    is_empty = not x.state.decide(x.sizes[0] - 1)
    if extent is None or (extent.is_constant and extent.constant < (0 if is_empty else 1)):
        raise UnsupportedError(
            "np.bincount without minlength has a shape that depends on the values",
            advice="Say how many counts there are: np.bincount(x, minlength=n), with all values below n.",
        )
    at = x.astype(np.int64)
    at = where(ufunc("less", at, 0), size, at)  # nothing wraps: out of bounds
    if weights is None or is_empty:  # NumPy counts where there is nothing to weigh
        return update(Tracer(x.state, nodes.full((extent,), 0, i64)), at, "add", 1)
    sums = Tracer(x.state, nodes.full((extent,), 0, f64))
    return update(sums, at, "add", lift(x.state, weights).astype(np.float64))


def _at_least(minlength: int, given: ArrayLike, x: Tracer) -> int:
    """How many counts there are where the values that are counted are known."""
    if isinstance(given, Tracer):
        values = None if minlength else settled(x.state, x.node)
    else:
        values = np.asarray(given)
        x.state.read.extend([given] if isinstance(given, np.ndarray) else [])
    return minlength if values is None or not values.size else max(minlength, int(values.max()) + 1)


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Tracer:
    """The number of the bin of every element; edges that are known may fall, computed ones must rise."""
    x, edges = lift_all(x, bins)
    rest = [n for n in (edges.sizes[0],) if edges.ndim == 1]
    if not rest:
        raise ShapeError("np.digitize takes a vector of edges")
    falling = isinstance(bins, (list, tuple, np.ndarray)) and len(bins) > 1 and not _traced(bins) and bins[0] > bins[-1]
    side = "left" if right else "right"
    return edges.shape[0] - searchsorted(edges[::-1], x, side=side) if falling else searchsorted(edges, x, side=side)


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


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "histogram": histogram,
    "histogram_bin_edges": histogram_bin_edges,
    "bincount": bincount,
    "digitize": digitize,
    "cov": cov,
    "corrcoef": corrcoef,
}
