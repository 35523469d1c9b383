"""Samples of a curve: differences, integrals, interpolation, convolution, and windows."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import pi
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.dtypes import bool_, f64
from polyfuse.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from polyfuse.frontends.numpy_like import axes, nodes, promotion
from polyfuse.frontends.numpy_like.axes import Axis
from polyfuse.frontends.numpy_like.boundaries import argsort, searchsorted
from polyfuse.frontends.numpy_like.contractions import labelled
from polyfuse.frontends.numpy_like.elementwise import absolute, isnan, ufunc, where
from polyfuse.frontends.numpy_like.indexing import take
from polyfuse.frontends.numpy_like.joining import concatenate, diff, stack
from polyfuse.frontends.numpy_like.known_values import settled
from polyfuse.frontends.numpy_like.lifting import as_dtype, as_real, kind_of, lift, lift_all, text_of
from polyfuse.frontends.numpy_like.padding import pad
from polyfuse.frontends.numpy_like.scans import cumulative
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.views import flip, moveaxis, sliding_window_view

ArrayLike = object


# ---------------------------------------------------------------------------------------------- derivatives, integrals


def gradient(f: ArrayLike, *spacing: ArrayLike, axis: Axis = None, edge_order: int = 1) -> Any:
    """Central differences inside, one-sided ones at the ends; one array per axis.  Raises ShapeError on short axes."""
    if lift_all(f)[0].element == bool_:
        raise DTypeError("np.gradient takes differences, which truth values have none of", advice="Cast them first.")
    x = as_real(f)
    if edge_order not in (1, 2):
        raise ArgumentError(f"np.gradient has edges of order 1 and 2, not {edge_order}")
    edge_order = int(edge_order)
    chosen = axes.sequence(axis, x.ndim)
    steps = list(spacing) * (len(chosen) if len(spacing) == 1 else 1) or [1.0] * len(chosen)
    if len(steps) != len(chosen):
        raise ShapeError(f"np.gradient needs one spacing or {len(chosen)}, not {len(steps)}")
    derivatives = [_derivative(x, k, lift(x.state, h), edge_order) for k, h in zip(chosen, steps, strict=True)]
    found = [Tracer(x.state, nodes.cast(y.node, x.element)) for y in derivatives]
    return found[0] if len(found) == 1 else tuple(found)


def _derivative(x: Tracer, axis: int, h: Tracer, edge_order: int) -> Tracer:
    if not x.state.decide(x.sizes[axis] - edge_order - 1):
        raise ShapeError(f"np.gradient needs {edge_order + 1} samples along axis {axis} of {text_of(x.sizes)}")
    y = moveaxis(x, axis, 0)
    if h.ndim > 1 or (h.ndim == 1 and not x.state.equal(h.sizes[0], y.sizes[0])):
        at = f"axis {axis} of {text_of(x.sizes)} at points of shape {text_of(h.sizes)}"
        raise ShapeError(f"np.gradient along {at}", advice="Give one distance, or one position for each sample.")
    if h.ndim == 1:
        return moveaxis(_at_points(y, diff(h), edge_order), 0, axis)
    h = Tracer(x.state, as_dtype(h, x.element)) if h.weak else h
    return moveaxis(_evenly(y, h, edge_order), 0, axis)


def _at_points(y: Tracer, gaps: Tracer, edge_order: int) -> Tracer:
    """As NumPy does: points that are all equally far apart have one distance, whether that is known here or not."""
    known = settled(y.state, gaps.node) if all(n.is_constant for n in gaps.sizes) else None
    columns = gaps[(slice(None),) + (None,) * (y.ndim - 1)]
    if known is not None:
        known_even = bool((known == known[0]).all())
        return _evenly(y, columns[0], edge_order) if known_even else _uneven(y, columns, edge_order)
    is_even = (gaps == gaps[:1]).all()
    return where(is_even, _evenly(y, columns[0], edge_order), _uneven(y, columns, edge_order))


def _evenly(y: Tracer, h: Tracer, edge_order: int) -> Tracer:
    """Differences along the first axis of samples `h` apart."""
    inner = (y[2:] - y[:-2]) / (2.0 * h)
    if edge_order == 1:
        ends = (y[1:2] - y[:1]) / h, (y[-1:] - y[-2:-1]) / h
    else:
        ends = (
            (-1.5 * y[:1] + 2.0 * y[1:2] - 0.5 * y[2:3]) / h,
            (0.5 * y[-3:-2] - 2.0 * y[-2:-1] + 1.5 * y[-1:]) / h,
        )
    return concatenate([ends[0], inner, ends[1]], 0)


def _uneven(y: Tracer, gaps: Tracer, edge_order: int) -> Tracer:
    """Differences of second order on a grid with the given gaps."""
    a, b = gaps[:-1], gaps[1:]
    inner = -b / (a * (a + b)) * y[:-2] + (b - a) / (a * b) * y[1:-1] + a / (b * (a + b)) * y[2:]
    if edge_order == 1:
        ends = (y[1:2] - y[:1]) / gaps[:1], (y[-1:] - y[-2:-1]) / gaps[-1:]
    else:
        c, d, e, g = gaps[:1], gaps[1:2], gaps[-2:-1], gaps[-1:]
        first = -(2.0 * c + d) / (c * (c + d)) * y[:1] + (c + d) / (c * d) * y[1:2] - c / (d * (c + d)) * y[2:3]
        last = g / (e * (e + g)) * y[-3:-2] - (g + e) / (e * g) * y[-2:-1] + (2.0 * g + e) / (g * (e + g)) * y[-1:]
        ends = first, last
    return concatenate([ends[0], inner, ends[1]], 0)


def trapezoid(y: ArrayLike, x: ArrayLike = None, dx: ArrayLike = 1.0, axis: int = -1) -> Tracer:
    """The integral of samples by the trapezoidal rule."""
    y = lift_all(y, x if x is not None else dx)[0] if x is not None else lift_all(y)[0]
    along = axes.one(axis, y.ndim)
    before: tuple[Any, ...] = (slice(None),) * along
    width = lift(y.state, dx)
    if x is not None:
        points = lift(y.state, x)
        width = diff(points, axis=axis if points.ndim > 1 else -1)
        if points.ndim == 1:
            width = width[(slice(None),) + (None,) * (y.ndim - 1 - along)]
    areas = width * (y[(*before, slice(1, None))] + y[(*before, slice(None, -1))]) / 2.0
    return areas.sum(axis=axis)  # as it was given: there may be more points than samples have axes


def ediff1d(x: ArrayLike, to_end: ArrayLike = None, to_begin: ArrayLike = None) -> Tracer:
    """Differences of neighbours of the flattened array, with values before and after them."""
    (x,) = lift_all(x)
    line = x.reshape(-1)
    middle = line[1:] - line[:-1]  # not `diff`, which takes truth values
    ends = [None if v is None else _cast_safely(lift(x.state, v), x).reshape(-1) for v in (to_begin, to_end)]
    parts = [p for p in (ends[0], middle, ends[1]) if p is not None]
    return concatenate(parts) if len(parts) > 1 else middle


def _cast_safely(value: Tracer, x: Tracer) -> Tracer:
    """`value` in the dtype of `x`.  Raises DTypeError where that would change its kind."""
    if not np.can_cast(value.dtype, x.dtype, "same_kind"):
        raise DTypeError(f"{value.dtype} cannot be cast to {x.dtype}", advice="Cast with .astype(...) first.")
    return value.astype(x.dtype)


def unwrap(p: ArrayLike, discont: float | None = None, axis: int = -1, *, period: float = 2 * pi) -> Tracer:
    """Phases with jumps of more than half a period taken out."""
    (x,) = lift_all(p)
    axis = axes.one(axis, x.ndim)
    before: tuple[Any, ...] = (slice(None),) * axis
    step = diff(x, axis=axis)
    dtype = promotion.common((step.element, kind_of(lift(x.state, period))))
    half = period / 2 if dtype.is_float else period // 2
    wrapped = ufunc("remainder", step + half, period) - half
    if dtype.is_float or period % 2 == 0:  # both ends of the interval are the same phase
        wrapped = where(ufunc("equal", wrapped, -half) & (step > 0), half, wrapped)
    correction = where(absolute(step) < (period / 2 if discont is None else discont), 0, wrapped - step)
    rest = x[(*before, slice(1, None))] + cumulative("sum", correction, axis)
    return concatenate([x[(*before, slice(None, 1))].astype(dtype.numpy), rest.astype(dtype.numpy)], axis)


# ---------------------------------------------------------------------------------------------- interpolation


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike = None,
    right: ArrayLike = None,
    period: Any = None,
) -> Tracer:
    """Linear interpolation between points with rising `xp`, constant beyond them."""
    x, xp, fp = (Tracer(t.state, as_dtype(t, f64)) for t in lift_all(x, xp, fp))
    if xp.ndim != 1 or fp.ndim != 1 or not xp.state.equal(xp.sizes[0], fp.sizes[0]):
        raise ShapeError(f"np.interp needs vectors of equal size, not {text_of(xp.sizes)} and {text_of(fp.sizes)}")
    if not xp.state.decide(xp.sizes[0] - 1):
        raise ShapeError("np.interp needs points: the array of them is empty")
    if period is not None:
        if np.ndim(period) or (not isinstance(period, Tracer) and period == 0):
            raise ArgumentError(f"np.interp takes a number as its period, and not 0: {period}")
        x, xp = ufunc("remainder", x, abs(period)), ufunc("remainder", xp, abs(period))
        order = argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = concatenate([xp[-1:] - abs(period), xp, xp[:1] + abs(period)])
        fp = concatenate([fp[-1:], fp, fp[:1]])
        left = right = None
    low = fp[0] if left is None else lift(x.state, left)
    high = fp[-1] if right is None else lift(x.state, right)
    inside = _between(x, xp, fp) if x.state.decide(xp.sizes[0] - 2) else fp[0]
    found = where(x < xp[0], low, where(x > xp[-1], high, where(ufunc("equal", x, xp[-1]), fp[-1], inside)))
    return where(isnan(x), x, found)


def _between(x: Tracer, xp: Tracer, fp: Tracer) -> Tracer:
    """The line between the two points around `x`."""
    last = xp.shape[0] - 2
    at = searchsorted(xp, x, side="right") - 1
    at = ufunc("minimum", ufunc("maximum", at, 0), last)
    (x0, y0), (x1, y1) = ([take(v, k, bounds="assume") for v in (xp, fp)] for k in (at, at + 1))
    slope = (y1 - y0) / (x1 - x0)
    return slope * (x - x0) + y0


# ---------------------------------------------------------------------------------------------- convolution


def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Tracer:
    """The sliding product of two vectors, with zeros beyond the ends, whose products with infinities are no numbers.
    Raises ShapeError where one is empty."""
    a, v = _vectors("correlate", a, v)
    if a.state.decide(v.sizes[0] - a.sizes[0] - 1):
        return flip(_sliding(v, a, mode))
    return _sliding(a, v, mode)


def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Tracer:
    """The product of two polynomials, in other words; zeros lie beyond the ends, as in `correlate`.  Raises ShapeError
    where one is empty."""
    a, v = _vectors("convolve", a, v)
    if a.state.decide(v.sizes[0] - a.sizes[0] - 1):
        a, v = v, a
    return _sliding(a, flip(v), mode)


def _vectors(name: str, a: ArrayLike, v: ArrayLike) -> list[Tracer]:
    found = [x.reshape(1) if not x.ndim else x for x in lift_all(a, v)]
    if any(x.ndim != 1 for x in found):
        raise ShapeError(f"np.{name} takes vectors, not {' and '.join(text_of(x.sizes) for x in found)}")
    if not all(x.state.decide(x.sizes[0] - 1) for x in found):
        raise ShapeError(f"np.{name} of an empty array")
    return found


def _sliding(a: Tracer, v: Tracer, mode: str) -> Tracer:
    """Windows of `a`, as wide as `v`, times `v`; what `mode` leaves of all positions."""
    width = v.shape[0]
    before = {"full": width - 1, "valid": 0, "same": width // 2}.get(mode)
    if before is None:
        raise UnsupportedError(f"there is no mode {mode!r}", advice='Write mode="full", "same" or "valid".')
    after = {"full": width - 1, "valid": 0, "same": width - 1 - width // 2}[mode]
    dtype = promotion.common((a.element, v.element))
    a = Tracer(a.state, nodes.cast(a.node, dtype))
    windows = sliding_window_view(pad(a, (before, after)), width)
    return labelled([windows, v], [("i", "k"), ("k",)], ("i",))


# ---------------------------------------------------------------------------------------------- geometric ranges


def apply_over_axes(function: Callable[..., Any], a: ArrayLike, over: Any) -> Any:
    """A reduction over one axis after the other, each kept with size 1."""
    x: Any = lift_all(a)[0]
    for axis in over if isinstance(over, (tuple, list)) else [over]:
        found = function(x, axis)
        x = found if found.ndim == x.ndim else found.state.functions["expand_dims"](found, axis)
    return x


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Tracer:
    """Powers of a vector as columns, each the product of the one before and the vector."""
    (x,) = lift_all(x)
    if x.ndim != 1:
        raise ShapeError("np.vander takes a vector")
    count = x.state.fixed(x.sizes[0]) if N is None else operator.index(N)
    if count < 0:
        raise ShapeError(f"np.vander of {count} columns")
    wide = Tracer(x.state, nodes.cast(x.node, promotion.common((x.element, promotion.default(int)))))
    columns = [Tracer(x.state, nodes.broadcast(expr.constant(1, wide.element), wide.sizes))]
    for _ in range(count - 1):
        columns.append(columns[-1] * wide)
    if count < 1:
        return wide[:, None][:, :0]
    return stack(columns if increasing else columns[::-1], axis=1)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (gradient, trapezoid, ediff1d, unwrap, interp, correlate, convolve, apply_over_axes, vander)
}
