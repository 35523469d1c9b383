"""Arrays made inside the function: constants and index vectors, which cost no memory, of symbolic shapes too.

Functions of `FUNCTIONS` take the trace first (no argument need be a tracer); those of `LIKE` an array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.affine import ZERO, Affine, dimension
from polyfuse.dtypes import DType, bool_, f64, i64
from polyfuse.errors import ArgumentError, DTypeError, ShapeError
from polyfuse.expr import Shape
from polyfuse.frontends.numpy_like import nodes, promotion
from polyfuse.frontends.numpy_like.elementwise import ufunc, where
from polyfuse.frontends.numpy_like.layout import in_order
from polyfuse.frontends.numpy_like.lifting import (
    as_dtype,
    broadcast_shapes,
    check_fits,
    check_integer,
    fits,
    kind_of,
    lift,
    lift_all,
    text_of,
    traces_in,
)
from polyfuse.frontends.numpy_like.sizes import SymbolicSize, affine_of, is_integer, size_of
from polyfuse.frontends.numpy_like.specs import is_array, numpy_dtype
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Tracer, as_array
from polyfuse.frontends.numpy_like.views import broadcast, broadcast_arrays, expand_dims, shape_argument

ArrayLike = object


def constant(value: float, trace: Trace, shape: Any, dtype: Any = None, order: Any = "C", **_: Any) -> Tracer:
    """zeros, ones and empty (which is zeros)."""
    wanted = numpy_dtype(dtype) if dtype is not None else f64
    return as_array(Tracer(trace, nodes.full(shape_argument(trace, shape), value, wanted)))


def full(trace: Trace, shape: Any, fill_value: ArrayLike, dtype: Any = None, order: Any = "C", **_: Any) -> Tracer:
    value = lift(trace, fill_value)
    wanted = numpy_dtype(dtype) if dtype is not None else value.element
    return _filled(value, shape_argument(trace, shape), wanted)


def _filled(value: Tracer, sizes: Shape, dtype: DType) -> Tracer:
    """An array of these sizes with `value` all over.  Raises ShapeError where it does not broadcast to them."""
    problem = f"an array of shape {text_of(value.sizes)} does not broadcast to {text_of(sizes)}, which it is to fill"
    check_fits(value.state, value.sizes, sizes, problem)
    return as_array(Tracer(value.state, nodes.broadcast(as_dtype(value, dtype), sizes)))


def constant_like(value: float, x: ArrayLike, dtype: Any = None, *args: Any, shape: Any = None, **_: Any) -> Tracer:
    (x,) = lift_all(x)
    sizes = x.sizes if shape is None else shape_argument(x.state, shape)
    return as_array(Tracer(x.state, nodes.full(sizes, value, numpy_dtype(dtype) if dtype is not None else x.element)))


def full_like(
    x: ArrayLike, fill_value: ArrayLike, dtype: Any = None, *args: Any, shape: Any = None, **_: Any
) -> Tracer:
    x, value = lift_all(x, fill_value)
    sizes = x.sizes if shape is None else shape_argument(x.state, shape)
    return _filled(value, sizes, numpy_dtype(dtype) if dtype is not None else x.element)


# ---------------------------------------------------------------------------------------------- ranges

KNOWN_COUNT = "Write start + step * np.arange(n) for as many numbers as are known; or pass the number as an argument."


def arange(trace: Trace, start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, **_: Any) -> Tracer:
    first, last = (0, start) if stop is None else (start, stop)
    step = int(step) if isinstance(step, Tracer) and step.weak is int else step
    ends = [_affine(v) for v in (first, last)]
    if is_integer(step) and step and None not in ends:
        step = int(step)
        wanted = numpy_dtype(dtype) if dtype is not None else i64
        begin, end = (e for e in ends if e is not None)
        length = (end - begin).ceildiv(step) if step > 0 else (begin - end).ceildiv(-step)
        length = length if trace.decide(length) else ZERO
        if wanted == bool_ and trace.decide(length - 3):
            raise DTypeError("np.arange has two truth values at most", advice="Compare it: np.arange(n) > 0.")
        _check_first(trace, (begin, begin + int(step)), length, wanted)
        ramp = nodes.iota((length,), dimension(0) * int(step) + begin)
        return Tracer(trace, nodes.cast(ramp, wanted))
    numbers = [float(v.known("np.arange", KNOWN_COUNT) if isinstance(v, Tracer) else v) for v in (first, last, step)]
    if not numbers[2]:
        raise ArgumentError("np.arange takes no steps of 0")
    count = max(ceil((numbers[1] - numbers[0]) / numbers[2]), 0)
    wanted = numpy_dtype(dtype) if dtype is not None else _range_dtype(first, last, step)
    if wanted.kind in "iu":  # NumPy casts the first two numbers, and steps on by their difference
        low, second = int(numbers[0]), int(numbers[0] + numbers[2])
        _check_first(trace, (Affine.of(low), Affine.of(second)), Affine.of(count), wanted)
        ramp = nodes.iota((Affine.of(count),), dimension(0) * (second - low) + low)
        return Tracer(trace, nodes.cast(ramp, wanted))
    delta = (first + step) - first
    index = Tracer(trace, nodes.cast(nodes.iota((Affine.of(count),), dimension(0)), wanted))
    return ufunc("add", ufunc("multiply", index, delta), first)


def _check_first(trace: Trace, numbers: tuple[Affine, Affine], length: Affine, dtype: DType) -> None:
    """Raises DTypeError where the first two numbers, which NumPy casts and steps on from, are none of the dtype."""
    for k, number in enumerate(numbers):
        if number.is_constant and not fits(number.constant, dtype) and trace.decide(length - k - 1):
            check_integer(number.constant, dtype)


def _range_dtype(*numbers: Any) -> DType:
    """NumPy's dtype for a range with these ends and this step."""
    kinds = [v.weak or v.dtype.type if isinstance(v, Tracer) else type(v) for v in numbers]
    return numpy_dtype(np.arange(*(kind(1) for kind in kinds)).dtype)


def _affine(value: Any) -> Affine | None:
    if isinstance(value, Tracer) and value.weak is int:
        value = int(value)
    if isinstance(value, SymbolicSize) and value.affine is None:
        value = int(value)
    return affine_of(value) if isinstance(value, SymbolicSize) or is_integer(value) else None


def linspace(
    trace: Trace,
    start: ArrayLike,
    stop: ArrayLike,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    **_: Any,
) -> Any:
    """``start + step * arange(num)``, the last point exactly `stop`."""
    ends = [lift(trace, v) for v in (start, stop)]
    common = promotion.common((*(kind_of(v) for v in ends), float))
    first, last = (Tracer(trace, as_dtype(v, common)) for v in ends)
    (length,) = shape_argument(trace, num)
    parts = length - 1 if endpoint else length
    is_divided = not retstep or trace.decide(parts - 1)
    divisor = _divisor(trace, parts)
    index = Tracer(trace, nodes.cast(nodes.iota((length,), dimension(0)), common))
    delta = last - first
    step = ufunc("divide", delta, divisor)
    ramp = (index[(slice(None),) + (None,) * step.ndim] if step.ndim else index) * step + first
    if endpoint and not (length.is_constant and length.constant < 2):
        at_end = index[(slice(None),) + (None,) * step.ndim] if step.ndim else index
        ramp = where(ufunc("equal", at_end, divisor), last, ramp)
    wanted = numpy_dtype(dtype) if dtype is not None else common
    if wanted.kind in "iu":
        ramp = ufunc("floor", ramp)
    result = Tracer(trace, nodes.cast(ramp.node, wanted))
    result = trace.functions["moveaxis"](result, 0, axis) if axis else result
    return (result, step if is_divided else np.nan) if retstep else result


def _divisor(trace: Trace, parts: Affine) -> Tracer:
    """The number of parts of a line, and 1 for a point, which has none."""
    number = Tracer(trace, nodes.iota((), parts), weak=int)
    return number if trace.known(parts - 1) else trace.call("weak", "maximum", number, 1)


def logspace(
    trace: Trace,
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Tracer:
    base = lift(trace, base)
    if base.ndim:  # one for each of the ends
        start, stop, base = broadcast_arrays(lift(trace, start), lift(trace, stop), base)
        base = expand_dims(base, axis)
    result = ufunc("power", base, linspace(trace, start, stop, num, endpoint, axis=axis))
    return result.astype(dtype) if dtype is not None else result


def geomspace(
    trace: Trace,
    start: ArrayLike,
    stop: ArrayLike,
    num: Any = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Tracer:
    """Numbers spaced evenly on a logarithmic scale; the ends are exact."""
    if any(isinstance(v, (int, float)) and v == 0 for v in (start, stop)):
        raise ArgumentError("no geometric sequence has a 0")
    first, last = (lift(trace, v) for v in (start, stop))
    common = promotion.common((first.element, last.element, float))  # of numbers NumPy makes arrays first
    first, last = (Tracer(trace, as_dtype(v, common)) for v in (first, last))
    sign = ufunc("sign", first)
    logs = [ufunc("log10", ufunc("divide", v, sign)) for v in (first, last)]
    exponents = linspace(trace, logs[0], logs[1], num, endpoint)
    ramp = ufunc("power", Tracer(trace, expr.constant(10, common)), exponents) * sign
    point = Tracer(trace, nodes.iota(ramp.sizes, dimension(0)))
    ramp = where(ufunc("equal", point, 0), first, ramp)
    if endpoint:
        length = size_of(trace, ramp.sizes[0])
        ramp = where(ufunc("equal", point, length - 1) & (point > 0), last, ramp)
    found = trace.functions["moveaxis"](ramp, 0, axis) if axis else ramp
    return found.astype(dtype) if dtype is not None else found


def fftfreq(half: bool, trace: Trace, n: Any, d: Any = 1.0, device: Any = None, *, dtype: Any = None) -> Tracer:
    """fftfreq and rfftfreq: the frequencies of bins, of symbolic sizes too.  `dtype`: the Array API's."""
    size = n if isinstance(n, SymbolicSize) else operator.index(n)
    (extent,) = shape_argument(trace, size)
    scale = 1.0 / (n * d)
    count = extent // 2 + 1 if half else extent
    point = Tracer(trace, nodes.iota((count,), dimension(0)))
    if not half:
        point = where(point > (size - 1) // 2, point - size, point)
    result = ufunc("multiply", point.astype(np.float64), scale)
    return result if dtype is None else result.astype(dtype)


# ---------------------------------------------------------------------------------------------- matrices, grids


def eye(
    trace: Trace, N: Any, M: Any = None, k: int = 0, dtype: Any = None, order: Any = "C", **kwargs: Any
) -> Tracer:
    k = kwargs.get("n_cols_offset", k)
    shape = shape_argument(trace, (N, N if M is None else M))
    return _masked(trace, shape, "equal", k, dtype)


def tri(trace: Trace, N: Any, M: Any = None, k: int = 0, dtype: Any = None, **_: Any) -> Tracer:
    return _masked(trace, shape_argument(trace, (N, N if M is None else M)), "less_equal", k, dtype)


def _masked(trace: Trace, shape: Shape, comparison: str, k: int, dtype: Any) -> Tracer:
    """1 where ``column (comparison) row + k``."""
    row, column = (Tracer(trace, nodes.iota(shape, dimension(d))) for d in (0, 1))
    mask = ufunc(comparison, column, row + k)
    return Tracer(trace, nodes.cast(mask.node, numpy_dtype(dtype) if dtype is not None else f64))


def diag(v: ArrayLike, k: int = 0) -> Tracer:
    """The diagonal of a matrix, or the matrix of a diagonal."""
    (v,) = lift_all(v)
    if v.ndim == 2:
        return v.state.functions["diagonal"](v, k)  # type: ignore[no-any-return]
    if v.ndim != 1:
        raise ShapeError("diag needs an array of rank 1 or 2")
    k = operator.index(k)
    size = v.sizes[0] + abs(k)
    point = dimension(0) if k >= 0 else dimension(0) + k
    index = dimension(1) - dimension(0) - k
    pieces = [
        expr.Piece((index, -index, point, v.sizes[0] - 1 - point), v.node, (point,)),
        expr.Piece((), expr.constant(0, v.element), ()),
    ]
    return Tracer(v.state, nodes.region((size, size), pieces))


def indices(trace: Trace, dimensions: Any, dtype: Any = int, sparse: bool = False) -> Any:
    shape = shape_argument(trace, dimensions)
    wanted = numpy_dtype(dtype)
    grids = [Tracer(trace, nodes.cast(nodes.iota(shape, dimension(k)), wanted)) for k in range(len(shape))]
    if sparse:
        rank = range(len(shape))
        return tuple(g[tuple(slice(None) if j == k else slice(0, 1) for j in rank)] for k, g in enumerate(grids))
    return trace.functions["stack"](grids)


def fromfunction(trace: Trace, function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any) -> Any:
    sizes = shape_argument(trace, shape)
    wanted = numpy_dtype(dtype)
    grids = [Tracer(trace, nodes.cast(nodes.iota(sizes, dimension(k)), wanted)) for k in range(len(sizes))]
    return function(*grids, **kwargs)


def meshgrid(*vectors: ArrayLike, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> tuple[Tracer, ...]:
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"np.meshgrid has no indexing={indexing!r}", advice='Write indexing="xy" or indexing="ij".')
    tracers = [v.reshape(-1) for v in lift_all(*vectors)]
    rank = len(tracers)
    place = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    shape: list[Affine] = [ZERO] * rank
    for v, k in zip(tracers, place, strict=True):
        shape[k] = v.sizes[0]
    grids = []
    for v, k in zip(tracers, place, strict=True):
        grid = v[tuple(slice(None) if j == k else None for j in range(rank))]
        grid = grid if sparse else broadcast(grid, tuple(shape))
        grids.append(Tracer(v.state, grid.node) if copy else grid)
    return tuple(grids)


# ---------------------------------------------------------------------------------------------- conversion


def array(
    trace: Trace,
    value: Any,
    dtype: Any = None,
    copy: bool | None = True,
    *,
    order: Any = "K",
    ndmin: int = 0,
    **_: Any,
) -> Any:
    """``np.array``: of tracers a copy or a stack; of constants a real array stays one until it meets a tracer."""
    found = _array(trace, value, dtype, copy)
    found = in_order(found, order) if isinstance(found, Tracer) else found
    return found[(None,) * (ndmin - found.ndim)] if found.ndim < ndmin else found


def _array(trace: Trace, value: Any, dtype: Any, copy: bool | None) -> Any:
    if isinstance(value, (list, tuple)) and any(True for _ in traces_in(value)):
        value = trace.functions["stack"]([_array(trace, v, dtype, copy=False) for v in value])
        copy = False
    if not isinstance(value, (Tracer, SymbolicSize)):
        return np.array(value, dtype=dtype) if copy else np.asarray(value, dtype)
    tracer = lift(trace, value)
    if dtype is not None and numpy_dtype(dtype) != tracer.element:
        return as_array(Tracer(trace, as_dtype(tracer, numpy_dtype(dtype))))
    return as_array(Tracer(trace, tracer.node) if copy or tracer.weak else tracer)


def asarray(
    trace: Trace, value: Any, dtype: Any = None, order: Any = None, *args: Any, copy: bool | None = None, **_: Any
) -> Any:
    return array(trace, value, dtype, copy=bool(copy), order=order)


def contiguous(order: str, trace: Trace, value: Any, dtype: Any = None, **_: Any) -> Any:
    """``np.ascontiguousarray``: of rank 1 at least, and a copy of what lies in another order."""
    found = asarray(trace, value, dtype, order)
    return found if found.ndim else found.reshape(1)


def require(trace: Trace, value: Any, dtype: Any = None, requirements: Any = None, **_: Any) -> Any:
    """``np.require``: a copy of what lies in another order, or in the memory of another array where it may not."""
    wanted = {name.upper()[0] for name in requirements or ()}
    found = asarray(trace, value, dtype, order="F" if "F" in wanted else "C" if "C" in wanted else None)
    is_view = isinstance(found, Tracer) and found.path is not None
    return Tracer(trace, found.node) if is_view and "O" in wanted else found


def result_type(*values: Any) -> Any:
    """``np.result_type``."""
    kinds = []
    for value in values:
        is_value = isinstance(value, (Tracer, SymbolicSize, bool, int, float)) or is_array(value)
        if is_value and not isinstance(value, type):  # np.float32 itself has the attributes of an array
            known = next(iter(traces_in(values)))
            kinds.append(kind_of(lift(known, value)))
        else:
            kinds.append(numpy_dtype(value))
    return promotion.common(tuple(kinds)).numpy


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """``np.can_cast`` of an array's dtype."""
    return np.can_cast(from_.dtype if isinstance(from_, Tracer) else from_, to, casting)


def broadcast_shape_sizes(trace: Trace, *shapes: Any) -> Sequence[Any]:
    sizes = broadcast_shapes(trace, *(shape_argument(trace, s) for s in shapes))
    return tuple(size_of(trace, n) for n in sizes)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "zeros": partial(constant, 0),
    "ones": partial(constant, 1),
    "empty": partial(constant, 0),
    "full": full,
    "arange": arange,
    "linspace": linspace,
    "logspace": logspace,
    "geomspace": geomspace,
    "fft.fftfreq": partial(fftfreq, False),
    "fft.rfftfreq": partial(fftfreq, True),
    "eye": eye,
    "identity": eye,
    "tri": tri,
    "indices": indices,
    "fromfunction": fromfunction,
    "array": array,
    "asarray": asarray,
    "asanyarray": asarray,
    "ascontiguousarray": partial(contiguous, "C"),
    "asfortranarray": partial(contiguous, "F"),
    "require": require,
    "broadcast_shapes": broadcast_shape_sizes,
}

LIKE: dict[str, Callable[..., Any]] = {
    "zeros_like": partial(constant_like, 0),
    "ones_like": partial(constant_like, 1),
    "empty_like": partial(constant_like, 0),
    "full_like": full_like,
    "diag": diag,
    "meshgrid": meshgrid,
    "result_type": result_type,
    "can_cast": can_cast,
}
