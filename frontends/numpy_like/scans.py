"""Prefix operations along one axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.affine import Affine, dimension, dimensions
from polyfuse.errors import ShapeError, UnsupportedError
from polyfuse.expr import Piece
from polyfuse.frontends.numpy_like import axes, nodes, promotion, steps
from polyfuse.frontends.numpy_like.elementwise import isfinite, isnan, ufunc, where
from polyfuse.frontends.numpy_like.joining import concatenate
from polyfuse.frontends.numpy_like.lifting import as_dtype, as_real, lift_all
from polyfuse.frontends.numpy_like.reductions import max_
from polyfuse.frontends.numpy_like.specs import numpy_dtype
from polyfuse.frontends.numpy_like.tracer import Tracer

ArrayLike = object


def scan(x: Tracer, monoid: str, axis: int | None) -> Tracer:
    """The inclusive scan in the dtype of `x`; None flattens first, and so does an axis of a number, as with NumPy."""
    if axis is None or (not x.ndim and axis in (0, -1)):
        x = x.reshape(-1)
        axis = 0
    dtype = x.element
    operand = nodes.cast(x.node, dtype.compute) if monoid in ("sum", "prod") else x.node
    return Tracer(x.state, nodes.cast(expr.scan(monoid, operand, axes.one(axis, x.ndim)), dtype))


def cumulative(monoid: str, a: ArrayLike, axis: int | None = None, dtype: Any = None) -> Tracer:
    """cumsum and cumprod: integers in 64 bits."""
    (x,) = lift_all(a)
    wanted = numpy_dtype(dtype) if dtype is not None else promotion.accumulator(x.element)
    if wanted.kind == "b":  # as sums and products of truth values
        monoid = {"sum": "any", "prod": "all"}[monoid]
    return scan(Tracer(x.state, as_dtype(x, wanted)), monoid, axis)


def cumulative_from(
    monoid: str, x: ArrayLike, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tracer:
    """The Array API's cumulative_sum and cumulative_prod."""
    (x,) = lift_all(x)
    x = x if x.ndim else x.reshape(1)
    axis = 0 if axis is None and x.ndim == 1 else axes.one(axis, x.ndim)
    result = cumulative(monoid, x, axis, dtype)
    if not include_initial:
        return result
    shape = [Affine.of(1) if k == axis else n for k, n in enumerate(result.sizes)]
    first = nodes.full(shape, 0 if monoid == "sum" else 1, result.element)
    return concatenate([Tracer(x.state, first), result], axis)


def nan_cumulative(monoid: str, a: ArrayLike, axis: int | None = None, dtype: Any = None) -> Tracer:
    (x,) = lift_all(a)
    return cumulative(monoid, where(isnan(x), 0 if monoid == "sum" else 1, x), axis, dtype)


def logcumsumexp(a: ArrayLike, axis: int = -1) -> Tracer:
    """``log(cumsum(exp(x)))``, shifted by the maximum of the axis: -inf where a prefix lies beyond the exponents of the
    dtype below that, 87 in float32; ``np.logaddexp.accumulate`` has it, one element after the other."""
    x = as_real(a)
    top = max_(x, axis, keepdims=True)
    finite = where(isfinite(top), top, 0)
    return ufunc("log", scan(ufunc("exp", x - finite), "sum", axis)) + finite


_MONOIDS = {"maximum": "max", "minimum": "min", "fmax": "fmax", "fmin": "fmin", "bitwise_or": "bitor"}
_MONOIDS |= {"bitwise_and": "bitand", "bitwise_xor": "bitxor", "logical_or": "any", "logical_and": "all"}


def accumulate(name: str, a: ArrayLike, axis: int = 0, dtype: Any = None) -> Tracer:
    """``np.<name>.accumulate``: a scan, or element after element where the operation is not associative.  Raises
    UnsupportedError for functions whose results are no operands of theirs."""
    if name in ("add", "multiply"):
        return cumulative({"add": "sum", "multiply": "prod"}[name], a, axis, dtype)
    monoid = _MONOIDS.get(name)
    (x,) = lift_all(a)
    x = x if dtype is None else x.astype(dtype)
    if monoid is None:
        return _one_by_one(name, x, axes.one(axis, x.ndim))
    promotion.resolve(name, (x.element, x.element))
    if monoid in ("any", "all"):
        x = Tracer(x.state, nodes.logical(x.node))
    elif x.element.kind == "b" and monoid.startswith("bit"):
        monoid = {"bitor": "any", "bitand": "all"}.get(monoid, monoid)
    elif monoid in ("fmax", "fmin") and not x.element.is_float:
        monoid = monoid[1:]
    return scan(x, monoid, axis)


def reduced(
    name: str, a: ArrayLike, axis: Any = 0, dtype: Any = None, keepdims: bool = False, **options: Any
) -> Tracer:
    """``np.<name>.reduce`` of a function that is no monoid: what its accumulation ends with.  Raises UnsupportedError
    as `accumulate`, and for several axes; ShapeError for an axis without elements."""
    (x,) = lift_all(a)
    if options:
        raise UnsupportedError(
            f"np.{name}.reduce is supported without {' and '.join(f'{n}=' for n in options)}",
            advice="Put what it begins with in front of the array, by np.concatenate.",
        )
    axis = axis[0] if isinstance(axis, tuple) and len(axis) == 1 else 0 if axis is None and x.ndim == 1 else axis
    if axis is None or axes.is_sequence(axis):
        raise UnsupportedError(
            f"np.{name}.reduce is supported along one axis: the order along several would not be defined",
            advice="Reduce one axis after the other.",
        )
    along, start = axes.one(axis, x.ndim), getattr(np, name).identity
    if start is not None:
        shape = [Affine.of(1) if k == along else n for k, n in enumerate(x.sizes)]
        x = concatenate([Tracer(x.state, nodes.full(shape, start, x.element)), x], along)
    elif not x.state.decide(x.sizes[along] - 1):
        raise ShapeError(f"np.{name}.reduce has no value for an axis without elements", advice="Guard it with x.size.")
    steps_of = accumulate(name, x, along, dtype)
    last: Tracer = steps_of[(slice(None),) * along + ((slice(-1, None) if keepdims else -1),)]
    return last


def _one_by_one(name: str, x: Tracer, axis: int) -> Tracer:
    """``y[0] = x[0];  y[i] = f(y[i - 1], x[i])``"""
    function = x.state.functions.get(name)
    if function is not None and getattr(np, name).nin == 2:
        whole = function(x, x)
        x = x.astype(whole.dtype) if whole.element.kind != "b" or name.startswith("logical") else x
        before = expr.input_(-1, x.sizes, x.element)
        value = function(Tracer(x.state, before), x)
        if isinstance(value.node, expr.Opaque):
            raise UnsupportedError(
                f"np.{name}.accumulate and reduce are not supported: np.{name} is a call of the array library, on whole"
                " arrays at once",
                advice=f"Combine halves of the array until one element is left: np.{name}(x[::2], x[1::2]).",
            )
        if value.element == x.element:
            points = dimensions(x.ndim)
            later = Piece((dimension(axis) - 1,), value.node, points)
            step = nodes.region(x.sizes, [later, Piece((), x.node, points)])
            start = nodes.full(x.sizes, 0, x.element)  # no element asks for it
            return Tracer(x.state, steps.recurrence(step, {before: 1}, [start], axis))
    raise UnsupportedError(
        f"np.{name}.accumulate and reduce are not supported: a result of np.{name} is no operand of it",
        advice="Use cumsum, cumprod, or maximum/minimum.accumulate.",
    )


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cumsum": partial(cumulative, "sum"),
    "cumprod": partial(cumulative, "prod"),
    "cumulative_sum": partial(cumulative_from, "sum"),
    "cumulative_prod": partial(cumulative_from, "prod"),
    "nancumsum": partial(nan_cumulative, "sum"),
    "nancumprod": partial(nan_cumulative, "prod"),
    "logcumsumexp": logcumsumexp,
}
