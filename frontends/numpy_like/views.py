"""Views: other looks at the same memory, each one an affine index map with its inverse for writing."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from polyfuse.affine import ONE, ZERO, Affine, dimension, dimensions
from polyfuse.errors import IterationError, ShapeError, TraceError, UnsupportedError
from polyfuse.expr import Shape
from polyfuse.frontends.numpy_like import axes
from polyfuse.frontends.numpy_like.lifting import broadcast_shapes, check_fits, lift_all, text_of
from polyfuse.frontends.numpy_like.reshaping import size_factors
from polyfuse.frontends.numpy_like.sizes import SymbolicSize
from polyfuse.frontends.numpy_like.slicing import position
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Path, Tracer

ArrayLike = object

# ---------------------------------------------------------------------------------------------- order of axes


def permuted(x: Tracer, order: Sequence[int]) -> Tracer:
    """Axis j of the result is axis ``order[j]`` of `x`."""
    back = {axis: j for j, axis in enumerate(order)}
    index = [dimension(back[axis]) for axis in range(x.ndim)]
    shape = tuple(x.sizes[axis] for axis in order)
    return x.through(Path(shape, tuple(index), tuple(dimension(axis) for axis in order)))


def transpose(x: ArrayLike, *order: Any, axes: Any = None) -> Tracer:
    """``np.transpose(x, axes)``, ``x.transpose(1, 0)``."""
    (x,) = lift_all(x)
    wanted = axes if axes is not None else (order[0] if len(order) == 1 and not isinstance(order[0], int) else order)
    if wanted is None or (axes is None and not order):
        return permuted(x, range(x.ndim)[::-1])
    return permuted(x, _permutation(wanted, x.ndim))


def _permutation(wanted: Sequence[int], rank: int) -> list[int]:
    order = axes.sequence(list(wanted), rank)
    if len(order) != rank:
        raise ShapeError(f"axes {tuple(wanted)} do not permute an array of rank {rank}")
    return order


def matrix_transpose(x: ArrayLike) -> Tracer:
    (x,) = lift_all(x)
    return swapaxes(x, -1, -2)


def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> Tracer:
    (x,) = lift_all(x)
    a, b = axes.one(axis1, x.ndim), axes.one(axis2, x.ndim)
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return permuted(x, order)


def moveaxis(x: ArrayLike, source: Any, destination: Any) -> Tracer:
    (x,) = lift_all(x)
    moved, targets = axes.sequence(source, x.ndim), axes.sequence(destination, x.ndim)
    if len(moved) != len(targets):
        raise ShapeError("moveaxis needs as many destinations as sources")
    order = [axis for axis in range(x.ndim) if axis not in moved]
    for target, axis in sorted(zip(targets, moved, strict=True)):
        order.insert(target, axis)
    return permuted(x, order)


def rollaxis(x: ArrayLike, axis: int, start: int = 0) -> Tracer:
    (x,) = lift_all(x)
    axis = axes.one(axis, x.ndim)
    start = start + x.ndim if start < 0 else start
    return moveaxis(x, axis, start - 1 if axis < start else start)


# ---------------------------------------------------------------------------------------------- unit axes


def expand_dims(x: ArrayLike, axis: Any = 0) -> Tracer:
    (x,) = lift_all(x)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    inserted = axes.many(axis, x.ndim + count)
    kept = [k for k in range(x.ndim + count) if k not in inserted]
    shape = [ONE] * (x.ndim + count)
    inverse = [ZERO] * (x.ndim + count)
    for axis_before, axis_after in enumerate(kept):
        shape[axis_after] = x.sizes[axis_before]
        inverse[axis_after] = dimension(axis_before)
    return x.through(Path(tuple(shape), tuple(dimension(k) for k in kept), tuple(inverse)))


def squeeze(x: ArrayLike, axis: Any = None) -> Tracer:
    (x,) = lift_all(x)
    dropped = [k for k, n in enumerate(x.sizes) if x.state.is_one(n)] if axis is None else axes.many(axis, x.ndim)
    for k in dropped:
        if not x.state.is_one(x.sizes[k]):
            raise ShapeError(f"cannot squeeze axis {k} of size {x.sizes[k]}: only axes of size 1 can go")
    kept = [k for k in range(x.ndim) if k not in dropped]
    position = {k: j for j, k in enumerate(kept)}
    index = tuple(dimension(position[k]) if k in position else ZERO for k in range(x.ndim))
    return x.through(Path(tuple(x.sizes[k] for k in kept), index, tuple(dimension(k) for k in kept)))


def atleast(rank: int, *arrays: ArrayLike) -> Any:
    found = []
    for x in lift_all(*arrays):
        while x.ndim < rank:
            x = expand_dims(x, -1 if rank == 3 and x.ndim == 2 else 0)
        found.append(x)
    return found[0] if len(found) == 1 else tuple(found)


# ---------------------------------------------------------------------------------------------- broadcasting


def shape_argument(trace: Trace, shape: Any) -> Shape:
    """A shape as the user writes it: an integer or symbolic size, or a sequence of them.  Raises ShapeError."""
    sizes = []
    for part in axes.listed(shape):
        size = size_factors(trace, part)
        affine = SymbolicSize(trace, size).affine
        if affine is None:
            for factor in size[1:]:
                trace.fixed(factor)
            raise UnsupportedError(f"an axis of size {SymbolicSize(trace, size)} is a product of symbolic sizes")
        if not trace.decide(affine):
            raise ShapeError(f"negative dimensions are not allowed: {shape}")
        sizes.append(affine)
    return tuple(sizes)


def broadcast_to(x: ArrayLike, shape: Any, subok: bool = False) -> Tracer:
    (x,) = lift_all(x)
    target = shape_argument(x.state, shape)
    check_fits(x.state, x.sizes, target, f"shape {text_of(x.sizes)} does not broadcast to {text_of(target)}")
    return broadcast(x, target)


def broadcast(x: Tracer, target: Shape) -> Tracer:
    """A view whose elements may share memory, and which is not written."""
    points = dimensions(len(target))[len(target) - x.ndim :]
    index = tuple(ZERO if n == ONE else p for n, p in zip(x.sizes, points, strict=True))
    return x.through(Path(target, index, None))


def broadcast_arrays(*arrays: ArrayLike, subok: bool = False) -> tuple[Tracer, ...]:
    """Views; arrays that have the shape of all are themselves."""
    tracers = lift_all(*arrays)
    shape = broadcast_shapes(tracers[0].state, *(x.sizes for x in tracers))
    return tuple(x if x.sizes == shape and x.weak is None else broadcast(x, shape) for x in tracers)


# ---------------------------------------------------------------------------------------------- reversal, diagonals


def flip(x: ArrayLike, axis: Any = None) -> Tracer:
    (x,) = lift_all(x)
    flipped = axes.many(axis, x.ndim)
    index = tuple(n - 1 - dimension(k) if k in flipped else dimension(k) for k, n in enumerate(x.sizes))
    return x.through(Path(x.sizes, index, index))


def rot90(x: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tracer:
    (x,) = lift_all(x)
    first, second = axes
    if first % max(x.ndim, 1) == second % max(x.ndim, 1):
        raise ShapeError(f"np.rot90 turns two axes, not axis {first} alone")
    match k % 4:
        case 0:
            return x[...]
        case 1:
            return swapaxes(flip(x, second), first, second)
        case 2:
            return flip(flip(x, first), second)
    return flip(swapaxes(x, first, second), second)


def diagonal(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tracer:
    """The diagonal as the last axis."""
    (x,) = lift_all(x)
    a, b = axes.one(axis1, x.ndim), axes.one(axis2, x.ndim)
    if x.ndim < 2 or a == b:
        raise ShapeError("diagonal needs two different axes")
    offset = operator.index(offset)
    down, right = max(-offset, 0), max(offset, 0)
    length = _smaller(x.state, x.sizes[a] - down, x.sizes[b] - right)
    kept = [k for k in range(x.ndim) if k not in (a, b)]
    last = dimension(len(kept))
    place = {k: dimension(j) for j, k in enumerate(kept)} | {a: last + down, b: last + right}
    shape = (*(x.sizes[k] for k in kept), length)
    return x.through(Path(shape, tuple(place[k] for k in range(x.ndim)), None))


def _smaller(trace: Trace, a: Affine, b: Affine) -> Affine:
    """The smaller of two sizes, at least 0, by hint with guards."""
    smaller = a if trace.decide(b - a) else b
    return smaller if trace.decide(smaller) else ZERO


def sliding_window_view(x: ArrayLike, window_shape: Any, axis: Any = None, **_: Any) -> Tracer:
    """Windows as further axes at the end."""
    (x,) = lift_all(x)
    windows = shape_argument(x.state, window_shape)
    chosen = list(range(x.ndim)) if axis is None else axes.sequence(axis, x.ndim)
    if len(chosen) != len(windows):
        raise ShapeError("sliding_window_view needs one window size per axis")
    shape, index = list(x.sizes), list(dimensions(x.ndim))
    for j, (k, window) in enumerate(zip(chosen, windows, strict=True)):
        shape[k] = shape[k] - window + 1
        if not x.state.decide(shape[k] - 1):
            raise ShapeError(f"a window of size {window} does not fit axis {k} of size {x.sizes[k]}")
        index[k] = index[k] + dimension(x.ndim + j)
    return x.through(Path((*shape, *windows), tuple(index), None))


# ---------------------------------------------------------------------------------------------- splitting


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Tracer, ...]:
    """The slices along an axis; its size must be a number."""
    (x,) = lift_all(x)
    axis = axes.one(axis, x.ndim) if x.ndim else axis
    if not x.ndim:
        raise IterationError("iteration over an array of rank 0")
    if declared := sorted(x.sizes[axis].names() - x.state.fresh):
        raise TraceError(
            f"this iterates over an axis of symbolic size {x.sizes[axis]}",
            advice=f"Compute with whole arrays and axis=, or write the number in the spec in place of {declared[0]}.",
        )
    moved = moveaxis(x, axis, 0)
    return tuple(moved[k] for k in range(x.state.fixed(x.sizes[axis])))


def split(x: ArrayLike, sections: Any, axis: int = 0) -> list[Tracer]:
    (x,) = lift_all(x)
    axis = axes.one(axis, x.ndim)
    if axes.is_sequence(sections):
        return array_split(x, sections, axis)
    count = _section_count(sections)
    part = x.state.divide(x.sizes[axis], count)
    return _pieces(x, [part * k for k in range(1, count)], axis)


def array_split(x: ArrayLike, sections: Any, axis: int = 0) -> list[Tracer]:
    (x,) = lift_all(x)
    axis = axes.one(axis, x.ndim)
    if axes.is_sequence(sections):
        return _pieces(x, [position(x.state, cut, "where an array is split") for cut in sections], axis)
    count = _section_count(sections)
    each, extra = divmod(x.state.fixed(x.sizes[axis]), count)
    return _pieces(x, [Affine.of(each * k + min(k, extra)) for k in range(1, count)], axis)


def _section_count(sections: Any) -> int:
    """The number of parts, an integer.  Raises ShapeError."""
    if not hasattr(sections, "__index__"):
        raise ShapeError(f"a number of sections is an integer, not {sections!r}", advice="Round it first.")
    count = operator.index(sections)
    if count < 1:
        raise ShapeError(f"an array is split into 1 section at least, not {count}")
    return count


def _pieces(x: Tracer, cuts: Sequence[Affine], axis: int) -> list[Tracer]:
    ends = [ZERO, *cuts, x.sizes[axis]]
    before = (slice(None),) * axis
    whole = [SymbolicSize(x.state, (e,)) if not e.is_constant else e.constant for e in ends]
    return [x[(*before, slice(a, b))] for a, b in zip(whole, whole[1:], strict=False)]


def split_along(name: str, axis: int, x: ArrayLike, sections: Any) -> list[Tracer]:
    (x,) = lift_all(x)
    if x.ndim < {"vsplit": 2, "hsplit": 1, "dsplit": 3}[name]:
        raise ShapeError(f"np.{name} of an array of rank {x.ndim}", advice="Use np.split(x, sections, axis=0).")
    return split(x, sections, axis if x.ndim > 1 or axis != 1 else 0)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "transpose": transpose,
    "permute_dims": transpose,
    "matrix_transpose": matrix_transpose,
    "linalg.matrix_transpose": matrix_transpose,
    "swapaxes": swapaxes,
    "moveaxis": moveaxis,
    "rollaxis": rollaxis,
    "expand_dims": expand_dims,
    "squeeze": squeeze,
    "atleast_1d": lambda *x: atleast(1, *x),
    "atleast_2d": lambda *x: atleast(2, *x),
    "atleast_3d": lambda *x: atleast(3, *x),
    "broadcast_to": broadcast_to,
    "broadcast_arrays": broadcast_arrays,
    "flip": flip,
    "fliplr": lambda x: flip(x, 1),
    "flipud": lambda x: flip(x, 0),
    "rot90": rot90,
    "diagonal": diagonal,
    "linalg.diagonal": lambda x, *, offset=0: diagonal(x, offset, -2, -1),
    "sliding_window_view": sliding_window_view,
    "lib.stride_tricks.sliding_window_view": sliding_window_view,
    "unstack": unstack,
    "split": split,
    "array_split": array_split,
    **{name: partial(split_along, name, axis) for axis, name in enumerate(("vsplit", "hsplit", "dsplit"))},
}
