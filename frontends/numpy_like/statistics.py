"""Histograms and covariances: sorts between fused kernels, and what is computed from them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.dtypes import f64, i64
from polyfuse.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from polyfuse.frontends.numpy_like import bisection, nodes, promotion
from polyfuse.frontends.numpy_like.boundaries import argsort, place_among, searchsorted, sort
from polyfuse.frontends.numpy_like.contractions import matmul
from polyfuse.frontends.numpy_like.creation import linspace
from polyfuse.frontends.numpy_like.elementwise import ufunc, where
from polyfuse.frontends.numpy_like.joining import concatenate, diff
from polyfuse.frontends.numpy_like.known_values import known, settled
from polyfuse.frontends.numpy_like.lifting import lift, lift_all, text_of, trace_of
from polyfuse.frontends.numpy_like.reductions import average, max_, min_
from polyfuse.frontends.numpy_like.scans import cumulative
from polyfuse.frontends.numpy_like.sizes import SymbolicSize, affine_of
from polyfuse.frontends.numpy_like.specs import numpy_dtype
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.updates import added_at
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
        return _edges(x, bins)
    bins = operator.index(bins)  # a scalar argument that counts bins is one that the trace holds for
    if bins < 1:
        raise ArgumentError(f"a histogram has 1 bin at least, not {bins}")
    if range is not None:
        if not float("-inf") < float(range[0]) <= float(range[1]) < float("inf"):
            raise ArgumentError(f"the range of a histogram rises and is finite, not {range}")
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


def _edges(x: Tracer, bins: ArrayLike) -> Tracer:
    """Edges that are given.  Raises ShapeError, and ArgumentError for those that are known and do not rise."""
    edges = lift(x.state, bins)
    if edges.ndim != 1:
        raise ShapeError(f"the edges of a histogram are a vector, not an array of rank {edges.ndim}")
    values = _known(bins, edges)
    if values is not None and (values[:-1] > values[1:]).any():
        raise ArgumentError("the edges of a histogram rise", advice="Sort them with np.sort.")
    return edges


def _known(given: ArrayLike, lifted: Tracer) -> np.ndarray[Any, Any] | None:
    """The values of an array in which no argument has a say."""
    if isinstance(given, np.ndarray):
        lifted.state.read.append(given)
        return given
    if isinstance(given, (list, tuple)) and not any(isinstance(v, Tracer) for v in given):
        return np.asarray(given)
    return known(lifted.node)


def histogram(
    x: ArrayLike, bins: Any = 10, range: Any = None, density: Any = None, weights: ArrayLike = None
) -> tuple[Tracer, Tracer]:
    """Counts (or sums of weights) between edges: of values by their place among few edges, or the positions of edges
    among the sorted values."""
    (x,) = lift_all(x)
    edges = histogram_bin_edges(x, bins, range)
    flat = x.reshape(-1)
    if weights is None and bisection.steps_for(x.state, edges.sizes[0]) is not None:
        return _density(_counts(flat, edges, _known(bins if np.ndim(bins) else edges, edges)), edges, density), edges
    if weights is None:
        ordered, total = sort(flat), None
    else:
        w = lift(x.state, weights)
        if w.ndim != x.ndim or not all(x.state.equal(m, n) for m, n in zip(x.sizes, w.sizes, strict=True)):
            raise ShapeError(f"np.histogram of shape {text_of(x.sizes)} with weights of shape {text_of(w.sizes)}")
        order = argsort(flat)
        ordered = flat[order]
        sums = cumulative("sum", w.reshape(-1)[order])
        zero = Tracer(x.state, nodes.full((1,), 0, sums.element))
        total = concatenate([zero, sums])
    ends = concatenate([searchsorted(ordered, edges[:-1]), searchsorted(ordered, edges[-1:], side="right")])
    counts = diff(ends if total is None else total[ends])
    if weights is not None:
        counts = counts.astype(lift(x.state, weights).dtype)
    return _density(counts, edges, density), edges


def _counts(x: Tracer, edges: Tracer, values: np.ndarray[Any, Any] | None) -> Tracer:
    """How many values lie between edges, the last one included.  `values`: of the edges, where they are known."""
    last = edges.shape[0] - 1
    at = place_among(edges, x, "right", values).astype(np.int32) - 1
    at = where(ufunc("equal", x, edges[-1]), last - 1, at)
    at = where(ufunc("less", at, 0), last, at)  # what lies outside, or is NaN, has a bin of its own
    is_short = x.state.known(np.iinfo(np.uint16).max - edges.sizes[0])
    at = at.astype(np.uint16 if is_short else np.int32)  # memory holds them in between
    bins = Tracer(x.state, nodes.full(edges.sizes, 0, i64))
    return added_at(bins, at, 1, bounds="assume")[:-1]


def _density(counts: Tracer, edges: Tracer, density: Any) -> Tracer:
    """The share of each bin per width, where that is asked for."""
    if not density:
        return counts
    return counts / diff(edges).astype(np.float64) / counts.sum()


def bincount(x: ArrayLike, weights: ArrayLike = None, minlength: Any = 0) -> Tracer:
    """How often 0, 1, ..., minlength - 1 occur, or the sums of their weights, in order.

    NumPy's result is longer where a value is larger.  So it is here where values are known while tracing; of others, as
    of negative ones, that is an IndexError at the next synchronisation.  Raises UnsupportedError without `minlength`.
    """
    given, trace = x, trace_of(x, weights, minlength)
    x = lift(trace, x)
    if x.element.kind == "f":
        raise DTypeError(f"np.bincount takes integers, not {x.dtype}")
    if x.ndim != 1:
        raise ShapeError("np.bincount takes a vector")
    size = minlength if isinstance(minlength, SymbolicSize) else _at_least(operator.index(minlength), given, x)
    extent = affine_of(size)
    is_empty = not x.state.decide(x.sizes[0] - 1)
    if extent is None or (extent.is_constant and extent.constant < (0 if is_empty else 1)):
        raise UnsupportedError(
            "np.bincount without minlength has a shape that depends on the values",
            advice="Say how many counts there are: np.bincount(x, minlength=n), with all values below n.",
        )
    if weights is None or is_empty:  # NumPy counts where there is nothing to weigh
        return added_at(Tracer(x.state, nodes.full((extent,), 0, i64)), x, 1)
    sums, w = Tracer(x.state, nodes.full((extent,), 0, f64)), lift(x.state, weights)
    if w.ndim != 1 or not x.state.equal(w.sizes[0], x.sizes[0]):
        raise ShapeError(f"np.bincount of {text_of(x.sizes)} with weights of shape {text_of(w.sizes)}")
    return added_at(sums, x, w.astype(np.float64))


def _at_least(minlength: int, given: ArrayLike, x: Tracer) -> int:
    """How many counts there are where the values that are counted are known."""
    if isinstance(given, Tracer):
        values = None if minlength else settled(x.state, x.node)
    else:
        values = np.asarray(given)
        x.state.read.extend([given] if isinstance(given, np.ndarray) else [])
    return minlength if values is None or not values.size else max(minlength, int(values.max()) + 1)


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Tracer:
    """The number of the bin of every element; edges rise or fall, which those that are not known decide at run time."""
    x, edges = lift_all(x, bins)
    if edges.ndim != 1:
        raise ShapeError("np.digitize takes a vector of edges")
    side, count = "left" if right else "right", edges.shape[0]
    values = _known(bins, edges)
    if values is None and x.state.decide(edges.sizes[0] - 2):
        falls = edges[0] > edges[-1]
        found = searchsorted(where(falls, edges[::-1], edges), x, side=side)
        return where(falls, count - found, found)
    if values is not None and not ((values[:-1] <= values[1:]).all() or (values[:-1] >= values[1:]).all()):
        raise ArgumentError("the edges of np.digitize rise or fall", advice="Sort them with np.sort.")
    if values is not None and values.size > 1 and values[0] > values[-1]:
        return count - place_among(edges[::-1], x, side, values[::-1])
    return place_among(edges, x, side, values)


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
        raise UnsupportedError("np.cov with fweights= is not supported", advice="Repeat the samples.")
    if dtype is not None and not numpy_dtype(dtype).is_float:
        raise DTypeError(f"covariances are no {numpy_dtype(dtype).numpy}", advice="Leave dtype out; cast the result.")
    first = _variables(m, rowvar, dtype)
    x = first if y is None else concatenate([first, _variables(y, rowvar, dtype)], 0)
    samples = x.shape[1]
    lost = (1 if bias == 0 else 0) if ddof is None else operator.index(ddof)
    weights = None if aweights is None else lift(x.state, aweights)
    if weights is not None and weights.ndim != 1:
        raise ShapeError(f"the weights of np.cov are a vector, not an array of rank {weights.ndim}")
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
