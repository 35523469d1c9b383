"""Functions that no affine kernel computes: sorting and searching.  Each is one call of the caller's array library
between fused kernels; shapes and dtypes of the results are known while tracing.  Short axes, and vectors of few keys,
are sorted and searched in the program itself (`networks`, `bisection`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.affine import Affine
from polyfuse.dtypes import DType, bf16, f32, i64
from polyfuse.errors import ArgumentError, DTypeError, IndexingError, ShapeError, UnsupportedError
from polyfuse.expr import Call, Shape
from polyfuse.frontends.numpy_like import axes, bisection, networks, nodes, promotion
from polyfuse.frontends.numpy_like.elementwise import ufunc
from polyfuse.frontends.numpy_like.indexing import take_along_axis
from polyfuse.frontends.numpy_like.joining import stack
from polyfuse.frontends.numpy_like.known_values import known
from polyfuse.frontends.numpy_like.lifting import as_dtype, kind_of, lift, lift_all, lift_arrays, text_of
from polyfuse.frontends.numpy_like.slicing import integer_index
from polyfuse.frontends.numpy_like.specs import numpy_dtype
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.views import flip, shape_argument, unstack

ArrayLike = object


def library(name: str, operands: Sequence[Tracer], shape: Shape, dtype: DType, **settings: Any) -> Tracer:
    """A call of the caller's array library; the setting `result` says which one where there are several."""
    call = Call(name, tuple(sorted(settings.items())))
    return Tracer(operands[0].state, expr.opaque(call, [o.node for o in operands], shape, dtype))


def opaque(call: Call, operands: Sequence[Tracer], shape: Any, dtype: Any) -> Tracer:
    """The result of any call, with its shape and dtype as a user writes them."""
    trace = operands[0].state
    sizes = shape_argument(trace, shape)
    return Tracer(trace, expr.opaque(call, [o.node for o in operands], sizes, numpy_dtype(dtype)))


# ---------------------------------------------------------------------------------------------- sorting


def _sortable(x: Tracer) -> Tracer:
    """bfloat16 sorts as float32: exact, and every library has it."""
    return Tracer(x.state, nodes.cast(x.node, f32)) if x.element == bf16 else x


def _along(x: ArrayLike, axis: Any) -> tuple[Tracer, int]:
    (array,) = lift_all(x)
    if axis is None:
        return array.reshape(-1), 0
    return array, axes.one(axis, array.ndim)


def _check_kind(kind: Any, order: Any, stable: Any = None) -> None:
    """Every kind of sort is stable here, and so all that NumPy knows are one."""
    if kind is not None and (not isinstance(kind, str) or kind[:1] not in set("qQhHmMsS")):
        raise ArgumentError(f"np.sort has no kind {kind!r}", advice='Write kind="stable", or leave it out.')
    if kind is not None and stable is not None:
        raise ArgumentError("np.sort takes kind= or stable=, not both", advice="Leave one of them out.")
    if order is not None:
        raise UnsupportedError("np.sort with order= needs structured arrays", advice="Sort one field at a time.")


def sort(
    x: ArrayLike, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: bool = False
) -> Tracer:
    """``np.sort``; NaN stands last, with the Array API's `descending` first."""
    _check_kind(kind, order, stable)
    array, axis = _along(x, axis)
    result = rising(array, axis, networks.ALL)
    return flip(result, axis) if descending else result


def rising(x: Tracer, axis: int, most: int) -> Tracer:
    """An array sorted along an axis, NaN last; in the program itself where there are no more than `most` elements."""
    if networks.is_short(x.state, x.sizes[axis], most):
        return stack(networks.ordered(x, axis), axis)
    keys = _sortable(x)
    found = library("sort", [keys], keys.sizes, keys.element, axis=axis)
    return Tracer(x.state, nodes.cast(found.node, x.element))


def argsort(
    x: ArrayLike, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: bool = False
) -> Tracer:
    """``np.argsort``, always stable, `descending` too, so that the answer is the same in every library."""
    _check_kind(kind, order, stable)
    array, axis = _along(x, axis)
    if networks.is_short(array.state, array.sizes[axis], networks.PLACED):
        _, places = networks.placed(array, axis, largest=descending)
        return stack(places, axis, dtype=np.int64)
    keys = _sortable(flip(array, axis) if descending else array)
    found = library("argsort", [keys], array.sizes, i64, axis=axis)
    if not descending:
        return found
    last = Tracer(array.state, nodes.iota((), array.sizes[axis] - 1))
    return ufunc("subtract", last, flip(found, axis))


def top_k(x: ArrayLike, k: int, axis: int = -1) -> tuple[Tracer, Tracer]:
    """Values and positions of the `k` largest along an axis, largest first; of equal ones the first comes first."""
    array, axis = _along(x, axis)
    extent = array.sizes[axis]
    if k < 0 or not array.state.decide(extent - k):
        raise ShapeError(f"the {k} largest of an axis of size {extent}")
    if k and networks.is_short(array.state, extent, networks.PLACED):
        values, places = networks.placed(array, axis, largest=True)
        return stack(values[:k], axis), stack(places[:k], axis, dtype=np.int64)
    shape = tuple(Affine.of(k) if d == axis else n for d, n in enumerate(array.sizes))
    indices = library("top_k_indices", [_sortable(array)], shape, i64, axis=axis, k=k)
    return take_along_axis(array, indices, axis), indices


def partition(x: ArrayLike, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tracer:
    """A sort: every position is in place, not only `kth`."""
    _check_place(x, kth, axis)
    return sort(x, axis, None, order)


def argpartition(x: ArrayLike, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Tracer:
    _check_place(x, kth, axis)
    return argsort(x, axis, None, order)


def _check_place(x: ArrayLike, kth: Any, axis: Any) -> None:
    """Raises ShapeError unless the axis has elements at `kth`, or none at all."""
    array, axis = _along(x, axis)
    size = array.sizes[axis]
    for place in axes.listed(kth):
        if not isinstance(place, Tracer) and array.state.decide(size - 1):
            try:
                integer_index(array.state, place, size, axis)
            except IndexingError as error:
                raise ShapeError(f"kth: {error.message}", advice=error.advice) from None


def lexsort(keys: Any, axis: int = -1) -> Tracer:
    """Positions that sort by the last key, equal ones by the key before it, and so on: stable sorts from the first."""
    columns = lift_all(*(keys if isinstance(keys, (tuple, list)) else unstack(keys)))
    order = argsort(columns[0], axis)
    for key in columns[1:]:
        order = take_along_axis(order, argsort(take_along_axis(key, order, axis), axis), axis)
    return order


def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike = None) -> Tracer:
    """``np.searchsorted``: where to insert `v` into the sorted vector `a`."""
    keys, values = lift_arrays(a, v)
    if keys.ndim != 1:
        raise ShapeError(f"searchsorted needs a sorted vector, not an array of rank {keys.ndim}")
    if side not in ("left", "right"):
        raise UnsupportedError(f"searchsorted has no side {side!r}", advice='Write side="left" or side="right".')
    if sorter is not None:
        order = lift(keys.state, sorter)
        if order.element.kind not in "iu":
            raise DTypeError(f"sorter= takes integers, not {order.dtype}", advice="Give np.argsort of the vector.")
        if order.ndim != 1 or not keys.state.equal(order.sizes[0], keys.sizes[0]):
            problem = f"searchsorted of {text_of(keys.sizes)} with sorter= of {text_of(order.sizes)}"
            raise ShapeError(problem, advice="Give np.argsort of the vector.")
        keys = keys[order]
    return place_among(keys, values, side, known(keys.node))


def place_among(keys: Tracer, values: Tracer, side: str, contents: np.ndarray[Any, Any] | None = None) -> Tracer:
    """Where to insert `values` into a sorted vector of `keys`.  `contents`: these, where a trace knows them."""
    common = promotion.common((kind_of(keys), kind_of(values)))
    common = f32 if common == bf16 else common
    keys, values = (Tracer(t.state, as_dtype(t, common)) for t in (keys, values))
    steps = bisection.steps_for(keys.state, keys.sizes[0])
    if steps is not None:
        contents = None if contents is None else contents.astype(common.numpy)
        return bisection.places(keys, values, steps, right=side == "right", known=contents)
    return library("searchsorted", [keys, values], values.sizes, i64, side=side)


# ---------------------------------------------------------------------------------------------- complex results


def refuse_complex(name: str, *_: Any, **__: Any) -> Any:
    raise UnsupportedError(
        f"np.{name} has complex results, and programs are real",
        advice="Call it outside the jitted function, and pass the real and the imaginary part as two arrays.",
    )


def shift(sign: int, x: ArrayLike, axes: Any = None) -> Tracer:
    """fftshift and ifftshift: a roll by half of each axis."""
    (array,) = lift_all(x)
    found = tuple(range(array.ndim)) if axes is None else (axes if isinstance(axes, (tuple, list)) else (axes,))
    steps = [array.shape[a] // 2 if sign > 0 else -(array.shape[a] // 2) for a in found]
    result: Tracer = array.state.functions["roll"](array, steps, found)
    return result


_COMPLEX = [
    f"fft.{n}" for n in "fft ifft fft2 ifft2 fftn ifftn rfft irfft rfft2 irfft2 rfftn irfftn hfft ihfft".split()
]
_COMPLEX += ["linalg.eig", "linalg.eigvals"]

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{f.__name__: f for f in (sort, argsort, top_k, partition, argpartition, lexsort, searchsorted)},
    **{n: partial(refuse_complex, n) for n in _COMPLEX},
    "fft.fftshift": partial(shift, 1),
    "fft.ifftshift": partial(shift, -1),
}
