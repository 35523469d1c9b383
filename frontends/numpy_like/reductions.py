"""Reductions over any axes.  16-bit floats accumulate in float32; result dtypes are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from polyfuse import expr
from polyfuse.affine import ONE, dimension
from polyfuse.dtypes import DType, bool_, f64, i64
from polyfuse.errors import ArgumentError, DTypeError, ShapeError
from polyfuse.expr import Node, Shape
from polyfuse.frontends.numpy_like import axes, nodes, promotion
from polyfuse.frontends.numpy_like.axes import Axis
from polyfuse.frontends.numpy_like.elementwise import as_float, isfinite, isnan, logaddexp, ufunc, where
from polyfuse.frontends.numpy_like.lifting import (
    as_dtype,
    as_real,
    broadcast_shapes,
    check_mask,
    lift,
    lift_all,
    text_of,
    trace_of,
)
from polyfuse.frontends.numpy_like.sizes import Size, size_of
from polyfuse.frontends.numpy_like.specs import numpy_dtype
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.views import expand_dims
from polyfuse.scalars import MONOIDS

ArrayLike = object

_FUNCTION = {"sum": "add", "prod": "multiply", "max": "maximum", "min": "minimum"}
_FUNCTION |= {"any": "bitwise_or", "all": "bitwise_and"}
_FUNCTION |= {"fmax": "fmax", "fmin": "fmin", "bitor": "bitwise_or", "bitand": "bitwise_and", "bitxor": "bitwise_xor"}


def _operand(x: Tracer, monoid: str, mask: ArrayLike) -> Tracer:
    """`x`, with the neutral element where `mask` does not hold."""
    if mask is None or mask is True:
        return x
    neutral = nodes.neutral(MONOIDS[monoid].neutral[0], x.element)
    check_mask(x, mask, within=True)
    return where(mask, x, Tracer(x.state, expr.constant(neutral, x.element)))


def fold(
    x: Tracer, monoid: str, axis: Axis, keepdims: bool = False, mask: ArrayLike = None, initial: ArrayLike = None
) -> Tracer:
    """Reduce `x` in its own dtype (16-bit floats through float32)."""
    result_dtype = x.element
    if monoid in ("sum", "prod") and result_dtype.is_float:
        x = Tracer(x.state, nodes.cast(x.node, result_dtype.compute))
    x = _operand(x, monoid, mask)
    reduced = axes.many(axis, x.ndim)
    node = nodes.reduce_(monoid, [x.node], reduced)
    result = _kept(Tracer(x.state, nodes.cast(node, result_dtype)), reduced, keepdims)
    if initial is None:
        return result
    first = lift(x.state, initial)
    if first.ndim:
        raise ShapeError(f"initial= is a number, not an array of shape {text_of(first.sizes)}")
    start = Tracer(x.state, as_dtype(first, result_dtype))
    return ufunc(_FUNCTION[monoid], result, start)


def _kept(result: Tracer, reduced: tuple[int, ...], keepdims: bool) -> Tracer:
    """With unit axes in place of the reduced ones, if asked for."""
    if not keepdims or not reduced:
        return result
    return Tracer(result.state, expand_dims(result, reduced).node)


def _argument(x: ArrayLike, *others: ArrayLike) -> Tracer:
    return lift(trace_of(x, *others), x)


def _cast(x: Tracer, dtype: Any, default: DType) -> Tracer:
    return Tracer(x.state, as_dtype(x, numpy_dtype(dtype) if dtype is not None else default))


# ---------------------------------------------------------------------------------------------- monoids


def sum_like(
    monoid: str,
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike = None,
    where: ArrayLike = True,
) -> Tracer:
    """sum and prod: integers accumulate in 64 bits."""
    x = _argument(a, where)
    x = _cast(x, dtype, promotion.accumulator(x.element))
    if x.element.kind == "b":
        monoid = {"sum": "any", "prod": "all"}[monoid]
    return fold(x, monoid, axis, keepdims, where, initial)


def extreme(
    monoid: str,
    a: ArrayLike,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike = None,
    where: ArrayLike = True,
    dtype: Any = None,
) -> Tracer:
    """max and min: NaN wins.  Raises ShapeError on empty axes without `initial`."""
    x = _argument(a, where)
    x = _cast(x, dtype, x.element)
    if monoid in ("fmax", "fmin") and not x.element.is_float:
        monoid = monoid[1:]
    if initial is None:
        _check_not_empty(x, axes.many(axis, x.ndim), monoid)
        if where is not True and where is not None:
            raise ShapeError(f"np.{monoid} with where= needs initial=", advice="Give initial=-np.inf or the like.")
    return fold(x, monoid, axis, keepdims, where, initial)


def _check_not_empty(x: Tracer, reduced: tuple[int, ...], what: str, advice: str = "Give initial= a value.") -> None:
    for k in reduced:
        if not x.state.decide(x.sizes[k] - 1):
            raise ShapeError(f"np.{what} over axis {k} of size 0 has no value", advice=advice)


def truth(
    monoid: str,
    a: ArrayLike,
    axis: Axis = None,
    *,
    keepdims: bool = False,
    where: ArrayLike = True,
    initial: ArrayLike = None,
) -> Tracer:
    """any and all."""
    x = _argument(a, where)
    start = None if initial is None else Tracer(x.state, nodes.logical(lift(x.state, initial).node))
    return fold(Tracer(x.state, nodes.logical(x.node)), monoid, axis, keepdims, where, start)


def bitwise(
    monoid: str, a: ArrayLike, axis: Axis = 0, dtype: Any = None, *, keepdims: bool = False, **kwargs: Any
) -> Tracer:
    x = _argument(a)
    x = _cast(x, dtype, x.element)
    if x.element.kind not in "biu":
        raise DTypeError(f"bitwise reductions need integers, not {x.dtype}")
    if x.element.kind == "b":
        monoid = {"bitor": "any", "bitand": "all"}.get(monoid, monoid)
    return fold(x, monoid, axis, keepdims, kwargs.get("where"), kwargs.get("initial"))


def log_of_sum(
    a: ArrayLike,
    axis: Axis = 0,
    dtype: Any = None,
    *,
    keepdims: bool = False,
    where: ArrayLike = True,
    initial: ArrayLike = None,
) -> Tracer:
    """``np.logaddexp.reduce`` of an array that has the dtype already."""
    x = as_float(a, where)  # small integers in few bits
    result = logsumexp(_operand(x, "max", where), axis, keepdims=keepdims)
    if initial is None:
        return result
    return logaddexp(result, Tracer(x.state, as_dtype(lift(x.state, initial), x.element)))


sum_, prod = partial(sum_like, "sum"), partial(sum_like, "prod")
max_, min_ = partial(extreme, "max"), partial(extreme, "min")
any_, all_ = partial(truth, "any"), partial(truth, "all")


# ---------------------------------------------------------------------------------------------- positions


def argument_of(monoid: str, a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Tracer:
    """argmax and argmin: the first NaN, else the lowest index of the extreme; over all axes the flat index."""
    x = _argument(a)
    is_whole = axis is None or (not x.ndim and axis in (0, -1))
    reduced = axes.many(None, x.ndim) if is_whole else (axes.one(axis, x.ndim),)
    _check_not_empty(x, reduced, monoid, "No element, no position: guard it with x.size.")
    if not x.ndim:
        return Tracer(x.state, expr.constant(0, i64))
    node = expr.reduce_(monoid, [x.node, _flat_index(x.sizes, reduced)], reduced, component=1)
    return _kept(Tracer(x.state, node), reduced, keepdims)


def _flat_index(shape: Shape, reduced: tuple[int, ...]) -> Node:
    """The C-order index over the reduced axes at every point."""
    index: Node | None = None
    for k in reduced:
        at = nodes.iota(shape, dimension(k))
        if index is None:
            index = at
        elif isinstance(index, expr.Iota) and isinstance(at, expr.Iota) and shape[k].is_constant:
            index = nodes.iota(shape, index.index * shape[k].constant + at.index)
        else:
            scaled = nodes.apply("multiply", [index, nodes.iota((), shape[k])])
            index = nodes.apply("add", [scaled, at])
    assert index is not None
    return index


# ---------------------------------------------------------------------------------------------- moments


def count(x: Tracer, reduced: tuple[int, ...], mask: ArrayLike = None, keepdims: bool = False) -> Size | Tracer:
    """How many elements are reduced."""
    if mask is None or mask is True:
        return size_of(x.state, ONE, *(x.sizes[k] for k in reduced))
    check_mask(x, mask, within=True)
    spread = nodes.broadcast(nodes.logical(lift(x.state, mask).node), broadcast_shapes(x.state, x.sizes))
    return sum_(Tracer(x.state, spread), reduced, keepdims=keepdims)


def _moment_operand(x: Tracer, dtype: Any) -> tuple[Tracer, DType]:
    """The operand in the dtype to compute in, and the dtype of the result."""
    wanted = numpy_dtype(dtype) if dtype is not None else (x.element if x.element.is_float else f64)
    if wanted == bool_:
        advice = "Leave dtype out, and cast the result with .astype(bool); np.any asks whether any element is true."
        raise DTypeError("means are no truth values: dtype= is that of their sums", advice=advice)
    return Tracer(x.state, as_dtype(x, wanted.compute)), wanted


def mean(
    a: ArrayLike, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False, where: ArrayLike = True
) -> Tracer:
    """``sum / count``; integers in float64."""
    x = _argument(a, where)
    x, result_dtype = _moment_operand(x, dtype)
    total = fold(x, "sum", axis, keepdims, where)
    result = total / count(x, axes.many(axis, x.ndim), where, keepdims)
    return Tracer(x.state, nodes.cast(result.node, result_dtype))


def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: Any = None,
    ddof: Any = 0,
    *,
    keepdims: bool = False,
    where: ArrayLike = True,
    correction: Any = None,
    mean: ArrayLike = None,
) -> Tracer:
    """In two passes: the mean, then the mean of squared differences."""
    x = _argument(a, where)
    if dtype is not None and not numpy_dtype(dtype).is_float:
        advice = "Leave dtype out, and cast the result with .astype(...)."
        raise DTypeError(f"variances are no {numpy_dtype(dtype).numpy}: dtype= is that of their sums", advice=advice)
    x, result_dtype = _moment_operand(x, dtype)
    reduced = axes.many(axis, x.ndim)
    center = fold(x, "sum", axis, True, where) / count(x, reduced, where, True) if mean is None else mean
    difference = x - center
    total = fold(difference * difference, "sum", axis, keepdims, where)
    number = count(x, reduced, where, keepdims)
    lost = ddof if correction is None else correction
    degrees: Any = number
    if isinstance(lost, Tracer) or (lost and isinstance(number, Tracer)):
        degrees = ufunc("maximum", number - lost, 0)
    elif isinstance(number, int):
        degrees = max(number - lost, 0)
    elif lost:  # of a size, which is 1 at least
        degrees = number - lost if lost <= 1 or number >= lost else 0
    result = total / degrees if not (isinstance(degrees, (int, float)) and degrees == 0) else total / lift(x.state, 0.0)
    return Tracer(x.state, nodes.cast(result.node, result_dtype))


def std(a: ArrayLike, *args: Any, **kwargs: Any) -> Tracer:
    return ufunc("sqrt", var(a, *args, **kwargs))


def average(
    a: ArrayLike, axis: Axis = None, weights: ArrayLike = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    if weights is None:
        result = mean(a, axis, keepdims=keepdims)
        x = _argument(a)
        none = Tracer(x.state, nodes.full(result.sizes, 0, result.element))
        total = ufunc("add", none, count(x, axes.many(axis, x.ndim)))
        return (result, total) if returned else result
    x, w = lift_all(a, weights)
    w = _along_axes(x, w, axis)
    dtype = promotion.common((x.element, w.element, *([] if x.element.is_float else [f64])))
    x, w = (Tracer(t.state, nodes.cast(t.node, dtype)) for t in (x, w))
    w = Tracer(w.state, nodes.broadcast(w.node, x.sizes))
    scale = sum_(w, axis, keepdims=keepdims)
    result = sum_(x * w, axis, keepdims=keepdims) / scale
    return (result, scale) if returned else result


def _along_axes(x: Tracer, w: Tracer, axis: Axis) -> Tracer:
    """Weights of the shape of `x`, or of its axes in the order of `axis`, that broadcast to it.  Raises ShapeError."""
    if w.ndim == x.ndim and all(x.state.equal(m, n) for m, n in zip(x.sizes, w.sizes, strict=True)):
        return w
    problem = f"np.average of an array of shape {text_of(x.sizes)} with weights of shape {text_of(w.sizes)}"
    if axis is None:
        raise ShapeError(problem, advice="Say which axes the weights belong to: axis=0, say.")
    along = axes.sequence(axis, x.ndim)
    if w.ndim != len(along) or not all(x.state.equal(x.sizes[k], n) for k, n in zip(along, w.sizes, strict=True)):
        raise ShapeError(f"{problem} along {axis}", advice="Give one weight for each element of these axes.")
    w = w.transpose([along.index(k) for k in sorted(along)])
    return w[tuple(slice(None) if k in along else None for k in range(x.ndim))]


def ptp(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Tracer:
    return max_(a, axis, keepdims=keepdims) - min_(a, axis, keepdims=keepdims)


def count_nonzero(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Tracer:
    x = _argument(a)
    return sum_(Tracer(x.state, nodes.logical(x.node)), axis, keepdims=keepdims)


# ---------------------------------------------------------------------------------------------- ignoring NaN


def nan_sum_like(monoid: str, a: ArrayLike, axis: Axis = None, dtype: Any = None, **kwargs: Any) -> Tracer:
    x = _argument(a)
    neutral = 0 if monoid == "sum" else 1
    return sum_like(monoid, where(isnan(x), neutral, x), axis, dtype, **kwargs)


def nan_mean(
    a: ArrayLike, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False, where: ArrayLike = True
) -> Tracer:
    x = _argument(a)
    return mean(x, axis, dtype, keepdims=keepdims, where=_number(x, where))


def nan_var(
    a: ArrayLike, axis: Axis = None, dtype: Any = None, ddof: Any = 0, *, where: ArrayLike = True, **kwargs: Any
) -> Tracer:
    """As `var`, but NaN where no degrees of freedom are left."""
    x = _argument(a)
    if not x.element.is_float:
        return var(x, axis, dtype, ddof, where=where, **kwargs)
    found = var(x, axis, dtype, ddof, where=_number(x, where), **kwargs)
    lost = ddof if kwargs.get("correction") is None else kwargs["correction"]
    if not isinstance(lost, Tracer) and not lost:
        return found
    number = count(x, axes.many(axis, x.ndim), _number(x, where), kwargs.get("keepdims", False))
    return _where_more(number, lost, found)


def _where_more(number: Any, than: Any, values: Tracer) -> Tracer:
    return where(number > than, values, float("nan"))


def _number(x: Tracer, chosen: ArrayLike) -> Tracer:
    """Where the elements that `where=` chooses are numbers."""
    return ~isnan(x) if chosen is True else ~isnan(x) & chosen


def nan_std(a: ArrayLike, *args: Any, **kwargs: Any) -> Tracer:
    return ufunc("sqrt", nan_var(a, *args, **kwargs))


def nan_argument_of(monoid: str, a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Tracer:
    """Of floats: integers are no NaN, and not all of them are floats."""
    x = _argument(a)
    if not x.element.is_float:
        return argument_of(monoid, x, axis, keepdims=keepdims)
    worst = float("-inf") if monoid == "argmax" else float("inf")
    return argument_of(monoid, where(isnan(x), worst, x), axis, keepdims=keepdims)


# ---------------------------------------------------------------------------------------------- exponentials, norms


def softmax(x: ArrayLike, axis: Axis = -1) -> Tracer:
    """``exp(x) / sum(exp(x))`` along an axis, without overflow."""
    x = as_real(x)
    e = ufunc("exp", x - max_(x, axis, keepdims=True))
    return e / sum_(e, axis, keepdims=True)


def log_softmax(x: ArrayLike, axis: Axis = -1) -> Tracer:
    """The logarithm of `softmax`, without taking that of small numbers."""
    x = as_real(x)
    shifted = x - max_(x, axis, keepdims=True)
    return shifted - ufunc("log", sum_(ufunc("exp", shifted), axis, keepdims=True))


def logsumexp(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Tracer:
    """``log(sum(exp(x)))`` without overflow; rows of -inf give -inf."""
    x = as_real(x)
    top = max_(x, axis, keepdims=True, initial=float("-inf"))
    finite = where(isfinite(top), top, 0)
    total = sum_(ufunc("exp", x - finite), axis, keepdims=True)
    result = ufunc("log", total) + finite
    reduced = axes.many(axis, x.ndim)
    if keepdims or not reduced:
        return result
    return Tracer(x.state, result.state.call("squeeze", result, reduced).node)


def norm(x: ArrayLike, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tracer:
    """Vector norms of any order; of matrices Frobenius, 1 and inf (`linear_algebra` has those by singular values)."""
    x = as_real(x)
    _check_order(ord, len(axes.many(axis, x.ndim)))
    if ord in (None, "fro") or (ord == 2 and len(axes.many(axis, x.ndim)) == 1):
        return ufunc("sqrt", sum_(x * x, axis, keepdims=keepdims))
    magnitude = ufunc("absolute", x)
    reduced = axes.many(axis, x.ndim)
    if len(reduced) == 2 and ord in (1, -1, float("inf"), float("-inf")):
        inner, outer = (reduced[0], reduced[1]) if ord in (1, -1) else (reduced[1], reduced[0])
        sums = sum_(magnitude, inner, keepdims=True)
        result = max_(sums, outer, keepdims=True, initial=0) if ord > 0 else min_(sums, outer, keepdims=True)
        return result if keepdims else result.state.call("squeeze", result, reduced)
    return _vector_norm(x, magnitude, ord, axis, keepdims)


def _check_order(order: Any, rank: int) -> None:
    """Raises ArgumentError for orders that NumPy has no norm of vectors, or of matrices, of."""
    texts, numbers = ("fro", "nuc"), (1, -1, 2, -2, float("inf"), float("-inf"))
    if order is None or (order in (*texts, *numbers) if rank == 2 else not isinstance(order, str)):
        return
    what, known = ("matrices", ", ".join(map(repr, (*texts, *numbers)))) if rank == 2 else ("vectors", "numbers")
    raise ArgumentError(f"there is no norm of {what} with ord={order!r}", advice=f"Known are {known}.")


def _vector_norm(x: Tracer, magnitude: Tracer, order: Any, axis: Any, keepdims: bool) -> Tracer:
    if order == float("inf"):
        return max_(magnitude, axis, keepdims=keepdims, initial=0)
    if order == float("-inf"):
        return min_(magnitude, axis, keepdims=keepdims)
    if order == 0:
        return count_nonzero(x, axis, keepdims=keepdims).astype(x.dtype)
    if order == 1:
        return sum_(magnitude, axis, keepdims=keepdims)
    return ufunc("power", sum_(ufunc("power", magnitude, order), axis, keepdims=keepdims), 1 / order)


def vector_norm(x: ArrayLike, *, axis: Axis = None, ord: Any = 2, keepdims: bool = False) -> Tracer:
    x = as_real(x)
    if axis is None:
        result = norm(x.reshape(-1), ord, 0)
        return result.reshape((1,) * x.ndim) if keepdims else result
    return norm(x, ord, axis, keepdims) if ord != 2 else ufunc("sqrt", sum_(x * x, axis, keepdims=keepdims))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": sum_,
    "prod": prod,
    "max": max_,
    "min": min_,
    "amax": max_,
    "amin": min_,
    "any": any_,
    "all": all_,
    "argmax": partial(argument_of, "argmax"),
    "argmin": partial(argument_of, "argmin"),
    "mean": mean,
    "var": var,
    "std": std,
    "average": average,
    "ptp": ptp,
    "count_nonzero": count_nonzero,
    "nansum": partial(nan_sum_like, "sum"),
    "nanprod": partial(nan_sum_like, "prod"),
    "nanmax": partial(extreme, "fmax"),
    "nanmin": partial(extreme, "fmin"),
    "nanmean": nan_mean,
    "nanvar": nan_var,
    "nanstd": nan_std,
    "nanargmax": partial(nan_argument_of, "argmax"),
    "nanargmin": partial(nan_argument_of, "argmin"),
    "softmax": softmax,
    "log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "linalg.vector_norm": vector_norm,
}

# ufunc.reduce, by the ufunc's name
BY_UFUNC: dict[str, Callable[..., Tracer]] = {
    "add": sum_,
    "multiply": prod,
    "maximum": max_,
    "minimum": min_,
    "fmax": partial(extreme, "fmax"),
    "fmin": partial(extreme, "fmin"),
    "logical_or": any_,
    "logical_and": all_,
    "bitwise_or": partial(bitwise, "bitor"),
    "bitwise_and": partial(bitwise, "bitand"),
    "bitwise_xor": partial(bitwise, "bitxor"),
    "logaddexp": log_of_sum,
}
