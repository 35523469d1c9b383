"""Arrays with parts taken out, put in or written at positions that are known while tracing, and flat positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from polyfuse.affine import dimension
from polyfuse.dtypes import bool_, i64
from polyfuse.errors import ArgumentError, DTypeError, ShapeError
from polyfuse.frontends.numpy_like import axes, masked, nodes
from polyfuse.frontends.numpy_like.creation import diag
from polyfuse.frontends.numpy_like.elementwise import ufunc, where
from polyfuse.frontends.numpy_like.joining import concatenate, tile
from polyfuse.frontends.numpy_like.known_masks import known_positions
from polyfuse.frontends.numpy_like.lifting import as_dtype, lift, lift_all, text_of
from polyfuse.frontends.numpy_like.sizes import is_integer
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.updates import write
from polyfuse.frontends.numpy_like.views import broadcast_to, moveaxis, shape_argument

ArrayLike = object


def _line(x: ArrayLike, axis: int | None) -> tuple[Tracer, int]:
    (array,) = lift_all(x)
    if axis is None:
        return array.reshape(-1), 0
    return array, axes.one(axis, array.ndim)


def _runs(x: Tracer, axis: int, kept: np.ndarray[Any, Any]) -> list[Tracer]:
    """Consecutive positions along an axis as slices."""
    before: tuple[Any, ...] = (slice(None),) * axis
    breaks = np.flatnonzero(np.diff(kept) != 1) + 1
    return [x[(*before, slice(int(run[0]), int(run[-1]) + 1))] for run in np.split(kept, breaks) if run.size]


def delete(x: ArrayLike, obj: Any, axis: int | None = None) -> Tracer:
    """``np.delete`` at known positions."""
    array, axis = _line(x, axis)
    size = array.state.fixed(array.sizes[axis])
    kept = np.delete(np.arange(size), known_positions(array.state, obj, "delete"))
    parts = _runs(array, axis, kept)
    return concatenate(parts, axis) if parts else array[(slice(None),) * axis + (slice(0, 0),)]


def insert(x: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Tracer:
    """``np.insert`` at known positions."""
    array, axis = _line(x, axis)
    size = array.state.fixed(array.sizes[axis])
    given = lift(array.state, values)
    given = given if given.weak is None else Tracer(array.state, as_dtype(given, array.element))
    obj = known_positions(array.state, obj, "insert")
    single = is_integer(obj)
    if single:
        while given.ndim < array.ndim:
            given = given[None]
        given = moveaxis(given, 0, axis)
        count = given.state.fixed(given.sizes[axis])
    else:
        count = len(np.arange(size)[obj] if isinstance(obj, slice) else obj)
    shape = tuple(count if k == axis else array.shape[k] for k in range(array.ndim))
    added = broadcast_to(given, shape).astype(array.dtype)
    order = np.insert(np.arange(size), [obj] * count if single else obj, size + np.arange(count))
    both = concatenate([Tracer(array.state, array.node), added], axis)
    return concatenate(_runs(both, axis, order), axis)


def resize(x: ArrayLike, new_shape: Any) -> Tracer:
    """``np.resize``: the elements over and over until the new shape is full."""
    (x,) = lift_all(x)
    sizes = shape_argument(x.state, new_shape)
    wanted = int(np.prod([x.state.fixed(n) for n in sizes]))
    line = x.reshape(-1)
    have = x.state.fixed(line.sizes[0])
    if not have or not wanted:
        return Tracer(x.state, nodes.full(sizes, 0, x.element))
    shape = tuple(n.constant for n in sizes)
    return tile(line, -(-wanted // have))[:wanted].reshape(shape)


def refill(x: Tracer, values: ArrayLike) -> None:
    """``x.flat = values``."""
    source = lift(x.state, values)
    x[...] = resize(source, x.shape) if source.ndim else source


def diagflat(v: ArrayLike, k: int = 0) -> Tracer:
    return diag(lift_all(v)[0].reshape(-1), k)


# ---------------------------------------------------------------------------------------------- flat positions


def indices_of(name: str, x: ArrayLike, k: int = 0) -> tuple[Any, ...]:
    """``np.tril_indices_from`` and its kin: constants, for the sizes of this trace."""
    (x,) = lift_all(x)
    sizes = [x.state.fixed(n) for n in x.sizes]
    if name == "diag_indices":
        return np.diag_indices(sizes[0], x.ndim)
    found: tuple[Any, ...] = getattr(np, name)(sizes[-2], k, sizes[-1])
    return found


def _element_order(order: Any) -> str:
    """``C`` or ``F``.  Raises ArgumentError."""
    word = "C" if order is None else order.upper() if isinstance(order, str) else order
    if word not in ("C", "F"):
        raise ArgumentError(f"elements have no order {order!r} here", advice="Write order='C' or order='F'.")
    return str(word)


def _check_integers(name: str, *indices: Tracer) -> None:
    for given in indices:
        if given.element.is_float:
            advice = "Cast them with .astype(np.int64)."
            raise DTypeError(f"np.{name} takes integers, not {given.dtype}", advice=advice)


def unravel_index(indices: ArrayLike, shape: Any, order: str = "C") -> tuple[Tracer, ...]:
    """The position along every axis; indices are taken to lie in the array."""
    (flat,) = lift_all(indices)
    order = _element_order(order)
    _check_integers("unravel_index", flat)
    rest = Tracer(flat.state, as_dtype(flat, i64))
    sizes = axes.listed(shape)
    found: list[Tracer] = []
    for size in reversed(sizes) if order == "C" else sizes:
        found.append(ufunc("remainder", rest, size))
        rest = ufunc("floor_divide", rest, size)
    return tuple(reversed(found)) if order == "C" else tuple(found)


def ravel_multi_index(multi_index: Sequence[ArrayLike], dims: Any, mode: Any = "raise", order: str = "C") -> Tracer:
    """The flat position; with mode="raise" indices are taken to lie in the array."""
    places = lift_all(*multi_index)
    _check_integers("ravel_multi_index", *places)
    order = _element_order(order)
    if len(places) != len(dims):
        raise ShapeError(f"{len(places)} indices for {len(dims)} axes")
    modes = [mode] * len(places) if isinstance(mode, str) else list(mode)
    total: Tracer | None = None
    pairs = list(zip(places, dims, modes, strict=True))
    for place, size, how in pairs if order == "C" else pairs[::-1]:
        at = Tracer(place.state, as_dtype(place, i64))
        if how == "clip":
            at = ufunc("minimum", ufunc("maximum", at, 0), size - 1)
        elif how == "wrap":
            at = ufunc("remainder", at, size)
        total = at if total is None else total * size + at
    assert total is not None
    return total


def ix_(*vectors: ArrayLike) -> tuple[Tracer, ...]:
    """An open mesh of index vectors."""
    tracers = list(lift_all(*vectors))
    rank = range(len(tracers))
    for k, (given, v) in enumerate(zip(vectors, tracers, strict=True)):
        if v.ndim != 1:
            raise ShapeError(f"np.ix_ takes vectors, not an array of shape {text_of(v.sizes)}")
        if v.element == bool_:
            tracers[k] = lift(v.state, np.flatnonzero(known_positions(v.state, given, "ix_")))
    return tuple(v[tuple(slice(None) if j == k else None for j in rank)] for k, v in enumerate(tracers))


# ---------------------------------------------------------------------------------------------- writing


def put(x: Tracer, ind: Any, v: ArrayLike, mode: str = "raise") -> None:
    """``np.put``: values at flat positions, repeated as often as needed."""
    line, at = x.reshape(-1), ind if isinstance(ind, Tracer) else np.asarray(ind).reshape(-1)
    if not isinstance(at, Tracer) and mode != "raise":
        size = x.state.fixed(line.sizes[0])
        at = np.clip(at, 0, size - 1) if mode == "clip" else at % size
    value = lift(x.state, v)
    if _is_empty(value):
        return
    if value.ndim and not isinstance(at, Tracer):
        value = resize(value, at.shape)
    line[at] = value
    write(x, line.reshape(x.shape).node)


def putmask(x: Tracer, mask: ArrayLike, values: ArrayLike) -> None:
    """``np.putmask``: values of another shape than the array's are repeated in the order of its elements."""
    value = lift(x.state, values)
    _check_same(x, lift(x.state, mask), "putmask")
    if _is_empty(value):
        return
    if value.ndim and not _alike(x, value):
        value = resize(value, x.shape)
    if value.weak is not None:
        value = Tracer(x.state, as_dtype(value, x.element))
    chosen = where(mask, value, x)
    write(x, as_dtype(Tracer(x.state, chosen.node), x.element))


def _is_empty(values: Tracer) -> bool:
    """Whether there are no values to write: then NumPy writes none."""
    return bool(values.ndim) and not all(values.state.decide(n - 1) for n in values.sizes)


def _check_same(x: Tracer, mask: Tracer, name: str) -> None:
    if not _alike(x, mask):
        shapes = f"{text_of(x.sizes)} and {text_of(mask.sizes)}"
        raise ShapeError(f"np.{name} takes an array and a mask of one shape, not {shapes}")


def _alike(x: Tracer, y: Tracer) -> bool:
    return x.ndim == y.ndim and all(x.state.equal(n, m) for n, m in zip(x.sizes, y.sizes, strict=True))


def place(x: Tracer, mask: ArrayLike, vals: ArrayLike) -> None:
    """``np.place`` with a single value."""
    value = lift(x.state, vals)
    _check_same(x, lift(x.state, mask), "place")
    if value.ndim and not (value.sizes[0].is_constant and value.sizes[0].constant == 1):
        raise ShapeError("np.place takes its values one by one where the mask holds", advice=masked.ADVICE)
    putmask(x, mask, value.reshape(()) if value.ndim else value)


def fill_diagonal(x: Tracer, val: ArrayLike, wrap: bool = False) -> None:
    """``np.fill_diagonal``: the values over and over along the diagonal, which in a tall matrix begins again, a row
    below its end, with `wrap`."""
    value = lift(x.state, val)
    if x.ndim < 2:
        advice = "np.diagflat makes a matrix of its diagonal."
        raise ShapeError("np.fill_diagonal takes arrays with two axes or more, not a vector or a number", advice=advice)
    if x.ndim > 2 and not all(x.state.equal(x.sizes[0], n) for n in x.sizes[1:]):
        advice = "Write x[i, i, i] = value with i = np.arange(n), as far as it goes."
        raise ShapeError(f"axes of {text_of(x.sizes)} differ, so that it has no diagonal", advice=advice)
    if _is_empty(value):
        return
    on = [Tracer(x.state, nodes.iota(x.sizes, dimension(k))) for k in range(x.ndim)]
    step, columns = on[0], x.shape[1]
    if x.ndim == 2 and wrap:
        below = ufunc("subtract", on[0], on[1])
        mask = ufunc("equal", ufunc("remainder", below, columns + 1), 0)
        step = on[1] + ufunc("floor_divide", below, columns + 1) * columns
    else:
        mask = ufunc("equal", on[0], on[1])
    for other in on[2:]:
        mask = mask & ufunc("equal", on[0], other)
    if value.ndim:
        line = value.reshape(-1)
        value = line[ufunc("remainder", step, line.shape[0])]
    write(x, as_dtype(where(mask, value, x), x.element))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        f.__name__: f
        for f in (
            delete,
            insert,
            resize,
            diagflat,
            unravel_index,
            ravel_multi_index,
            ix_,
            put,
            putmask,
            place,
            fill_diagonal,
        )
    },
    **{f"{n}_from": partial(indices_of, n) for n in ("tril_indices", "triu_indices", "diag_indices")},
}
