"""Choosing between values: clip, select, piecewise and what replaces or tests special values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import or_
from typing import Any

import ml_dtypes
import numpy as np

from polyfuse.dtypes import DType, bool_, f64, integer_limits
from polyfuse.errors import DTypeError, ShapeError
from polyfuse.frontends.numpy_like import axes, nodes, promotion
from polyfuse.frontends.numpy_like.elementwise import absolute, equal, isfinite, isnan, itself, ufunc, where
from polyfuse.frontends.numpy_like.lifting import as_dtype, broadcast_shapes, kind_of, lift, lift_all, trace_of
from polyfuse.frontends.numpy_like.nonzero import flatnonzero, nonzero
from polyfuse.frontends.numpy_like.tracer import Tracer

ArrayLike = object


def clip(
    x: ArrayLike, a_min: ArrayLike = None, a_max: ArrayLike = None, *, min: ArrayLike = None, max: ArrayLike = None
) -> Tracer:
    """``minimum(maximum(x, low), high)``."""
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    result = itself(lift(trace_of(x, low, high), x))
    result = Tracer(result.state, result.node)  # of a number NumPy makes an array first
    if type(low) is int and _is_beyond(low, result, "min"):
        low = None
    if type(high) is int and _is_beyond(high, result, "max"):
        high = None
    if low is not None and high is not None:  # one function of three operands
        kinds = tuple(kind_of(t) for t in lift_all(result, low, high))
        result = Tracer(result.state, as_dtype(result, promotion.common(kinds)))
    if low is not None:
        result = ufunc("maximum", result, low)
    return result if high is None else ufunc("minimum", result, high)


def _is_beyond(bound: int, x: Tracer, side: str) -> bool:
    """Whether a bound lies behind all integers of the dtype, and so bounds nothing."""
    if x.weak is not None or x.element.kind not in "iu":
        return False
    limits = integer_limits(x.element)
    return bound < limits.min if side == "min" else bound > limits.max


def select(conditions: Sequence[ArrayLike], choices: Sequence[ArrayLike], default: ArrayLike = 0) -> Tracer:
    """The choice of the first condition that holds.  Python integers do not widen the result: they are cast to it."""
    if len(conditions) != len(choices) or not len(conditions):
        advice = "Give a choice for each condition, and at least one."
        raise ShapeError(f"np.select: {len(choices)} choices for {len(conditions)} conditions", advice=advice)
    trace = trace_of(conditions, choices, default)
    for given in (lift(trace, c).dtype for c in conditions):
        if given != np.bool_:
            raise DTypeError(f"np.select takes conditions, not {given}", advice="Write x != 0 for them.")
    dtype = promotion.common(tuple(kind_of(lift(trace, c)) for c in (*choices, default)))
    result = _cast(lift(trace, default), dtype)
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = where(condition, _cast(lift(trace, choice), dtype, dtype.kind == "u"), result)
    return result


def _cast(x: Tracer, dtype: DType, checked: bool = False) -> Tracer:
    """Also a Python integer modulo the range of `dtype`, as arrays are cast, unless it is to be `checked`."""
    wraps = x.weak is int and dtype.kind in "iu" and not checked
    return Tracer(x.state, nodes.cast(x.node, dtype) if wraps else as_dtype(x, dtype))


def piecewise(x: ArrayLike, conditions: Any, functions: Sequence[Any], *args: Any, **kw: Any) -> Tracer:
    """``y[c] = f(x[c])`` for each condition and its function or number; an extra one is the default, and the last
    condition that holds decides."""
    (x,) = lift_all(x)
    masks = _masks(x, conditions)
    if len(functions) == len(masks) + 1:
        masks.append(~reduce(or_, masks))
    if len(functions) != len(masks):
        raise ShapeError(f"np.piecewise takes {len(masks)} functions, or one more, not {len(functions)}")
    result = Tracer(x.state, nodes.full(x.sizes, 0, x.element))
    for mask, function in zip(masks, functions, strict=True):
        if not x.ndim:
            value = function(x, *args, **kw) if callable(function) else function
            result = Tracer(x.state, as_dtype(where(mask, value, result), x.element))
        else:
            result[mask] = function(x[mask], *args, **kw) if callable(function) else function
    return result


def _masks(x: Tracer, conditions: Any) -> list[Tracer]:
    """Several conditions, or the one that is given alone, as truth values."""
    parts = axes.listed(conditions)
    alone = not axes.is_sequence(conditions) or (x.ndim and not axes.is_sequence(parts[0]))
    return [lift(x.state, part).astype(bool) for part in ([conditions] if alone else parts)]


def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tracer:
    """NaN and infinities replaced; with ``copy=False`` in `x` itself."""
    (x,) = lift_all(x)
    if not x.element.is_float:
        return itself(x) if copy else x
    largest = _largest(x.element)
    values = nan, largest if posinf is None else posinf, -largest if neginf is None else neginf
    fill, high, low = (Tracer(x.state, as_dtype(lift(x.state, v), x.element)) for v in values)
    result = where(isnan(x), fill, x)
    result = where(equal(x, float("inf")), high, result)
    result = where(equal(x, float("-inf")), low, result)
    if copy or not x.ndim:
        return result
    x[...] = result
    return x


def _largest(dtype: DType) -> float:
    return float(ml_dtypes.finfo(dtype.numpy).max)  # type: ignore[no-untyped-call]


def isclose(a: ArrayLike, b: ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tracer:
    a, b = lift_all(a, b)
    if not b.element.is_float:
        b = Tracer(b.state, as_dtype(b, f64))  # a difference of integers may not be one
    near = ufunc("less_equal", absolute(a - b), atol + rtol * absolute(b))
    result = (near & isfinite(b)) | equal(a, b)
    return result | (isnan(a) & isnan(b)) if equal_nan else result


def allclose(a: ArrayLike, b: ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tracer:
    return isclose(a, b, rtol, atol, equal_nan).all()


def array_equal(a: ArrayLike, b: ArrayLike, equal_nan: bool = False) -> Any:
    """Whether shapes and all elements are equal; False at once where the shapes differ."""
    a, b = lift_all(a, b)
    if a.ndim != b.ndim or not all(m == n for m, n in zip(a.shape, b.shape, strict=True)):
        return False
    same = equal(a, b)
    return (same | (isnan(a) & isnan(b)) if equal_nan else same).all()


def array_equiv(a: ArrayLike, b: ArrayLike) -> Any:
    """Whether the arrays are equal once they are broadcast together."""
    a, b = lift_all(a, b)
    try:
        broadcast_shapes(a.state, a.sizes, b.sizes)
    except ShapeError:
        return False
    return equal(a, b).all()


def constant_answer(answer: bool, x: ArrayLike) -> Tracer:
    """isreal and iscomplex of real arrays."""
    (x,) = lift_all(x)
    return Tracer(x.state, nodes.full(x.sizes, answer, bool_))


def isin(
    x: ArrayLike, test_elements: ArrayLike, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Tracer:
    """Whether each element is among the others: compared with all of them, in registers."""
    x, others = lift_all(x, test_elements)
    found = equal(x[..., None], others.reshape(-1)).any(axis=-1)
    return ~found if invert else found


def extract(condition: Any, x: ArrayLike) -> Any:
    """``x[condition]`` of arrays in one line."""
    (x,) = lift_all(x)
    if isinstance(condition, Tracer):
        alike = condition.ndim == x.ndim and all(map(x.state.equal, condition.sizes, x.sizes))
        return (x if alike else x.reshape(-1))[condition.astype(bool) if alike else condition.astype(bool).reshape(-1)]
    if isinstance(condition, np.ndarray):
        x.state.read.append(condition)
    return x.reshape(-1)[np.flatnonzero(np.asarray(condition))]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f.__name__: f for f in (clip, select, piecewise, nan_to_num, isclose, allclose, array_equal, array_equiv)},
    "isreal": partial(constant_answer, True),
    "iscomplex": partial(constant_answer, False),
    "nonzero": lambda x: nonzero(lift_all(x)[0]),
    "flatnonzero": lambda x: flatnonzero(lift_all(x)[0]),
    "isin": isin,
    "in1d": isin,
    "extract": extract,
}
