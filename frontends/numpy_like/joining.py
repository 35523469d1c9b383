"""Arrays put together from parts: concatenate, stack, roll, tile, repeat, all as regions of affine views."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from polyfuse import expr
from polyfuse.affine import ZERO, Affine, dimension, dimensions
from polyfuse.errors import ArgumentError, DTypeError, IndexingError, ShapeError, UnsupportedError
from polyfuse.expr import Piece
from polyfuse.frontends.numpy_like import axes, nodes, promotion
from polyfuse.frontends.numpy_like.known_values import settled
from polyfuse.frontends.numpy_like.lifting import (
    as_dtype,
    kind_of,
    lift,
    lift_all,
    lift_arrays,
    mismatch,
    text_of,
    trace_of,
)
from polyfuse.frontends.numpy_like.sizes import SymbolicSize
from polyfuse.frontends.numpy_like.slicing import position
from polyfuse.frontends.numpy_like.specs import numpy_dtype
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.views import atleast, expand_dims, unstack

ArrayLike = object


def concatenate(
    arrays: Sequence[ArrayLike], axis: int | None = 0, *, dtype: Any = None, casting: Any = "same_kind"
) -> Tracer:
    """Raises DTypeError where `dtype` is given and the rule `casting` forbids the cast."""
    tracers = lift_all(*arrays)
    if axis is None:
        tracers, axis = [x.reshape(-1) for x in tracers], 0
    first = tracers[0]
    if any(x.ndim == 0 for x in tracers):
        raise ShapeError("arrays of rank 0 cannot be concatenated", advice="Use np.stack, or x[None].")
    axis = axes.one(axis, first.ndim)
    for x in tracers[1:]:
        _check_alike(first, x, axis)
    return _joined(_alike_dtypes(tracers, dtype, casting), axis)


def _alike_dtypes(tracers: Sequence[Tracer], dtype: Any, casting: Any) -> list[Tracer]:
    """All in `dtype`, or in the one that they share."""
    common = numpy_dtype(dtype) if dtype is not None else promotion.common(tuple(kind_of(x) for x in tracers))
    for x in tracers if dtype is not None else ():
        if not np.can_cast(x.dtype, common.numpy, casting):
            raise DTypeError(
                f"{x.dtype} is not cast to dtype={common.numpy} by the rule {casting!r}",
                advice="Give casting='unsafe', or leave dtype out and cast the result.",
            )
    return [Tracer(x.state, as_dtype(x, common)) for x in tracers]


def _check_alike(first: Tracer, x: Tracer, axis: int) -> None:
    if x.ndim != first.ndim:
        shown = f"{text_of(first.sizes)} and {text_of(x.sizes)}"
        raise ShapeError(f"arrays of different rank cannot be concatenated: {shown}")
    for k, (a, b) in enumerate(zip(first.sizes, x.sizes, strict=True)):
        if k != axis and not first.state.equal(a, b):
            problem = f"arrays to concatenate along axis {axis} differ in axis {k}"
            raise mismatch(problem, first.state, (first.sizes, x.sizes), a, b, f"axis {k}")


def _joined(parts: Sequence[Tracer], axis: int) -> Tracer:
    """Parts of one dtype, one after the other along `axis`."""
    point, end = dimension(axis), ZERO
    pieces = []
    for part in parts:
        start, end = end, end + part.sizes[axis]
        index = list(dimensions(part.ndim))
        index[axis] = point - start
        pieces.append(Piece((end - 1 - point,), part.node, tuple(index)))
    shape = list(parts[0].sizes)
    shape[axis] = end
    pieces = [p for p, part in zip(pieces, parts, strict=True) if part.sizes[axis] != ZERO] or pieces[:1]
    return Tracer(parts[0].state, nodes.region(shape, [*pieces[:-1], Piece((), pieces[-1].source, pieces[-1].index)]))


def stack(
    arrays: Sequence[ArrayLike] | Tracer, axis: int = 0, *, dtype: Any = None, casting: Any = "same_kind"
) -> Tracer:
    tracers = lift_arrays(*(unstack(arrays) if isinstance(arrays, Tracer) else arrays))
    for x in tracers[1:]:
        if len(x.sizes) != len(tracers[0].sizes):
            raise ShapeError(f"arrays to stack differ: {text_of(tracers[0].sizes)} and {text_of(x.sizes)}")
    axis = axes.one(axis, tracers[0].ndim + 1)
    return concatenate([expand_dims(x, axis) for x in _alike_dtypes(tracers, dtype, casting)], axis)


def vstack(arrays: Sequence[ArrayLike], **kwargs: Any) -> Tracer:
    return concatenate([atleast(2, x) for x in lift_all(*arrays)], 0, **kwargs)


def hstack(arrays: Sequence[ArrayLike], **kwargs: Any) -> Tracer:
    parts = [atleast(1, x) for x in lift_all(*arrays)]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, **kwargs)


def dstack(arrays: Sequence[ArrayLike]) -> Tracer:
    return concatenate([atleast(3, x) for x in lift_all(*arrays)], 2)


def column_stack(arrays: Sequence[ArrayLike]) -> Tracer:
    return concatenate([x if x.ndim > 1 else expand_dims(atleast(1, x), 1) for x in lift_all(*arrays)], 1)


def block(parts: Any) -> Tracer:
    """Nested lists of blocks, joined in new memory: the innermost lists along the last axis."""
    depth = _depth(parts)
    trace = trace_of(parts)

    def joined(part: Any, level: int) -> Tracer:
        if not isinstance(part, list):
            return _raised(lift(trace, part), depth)
        return concatenate([joined(p, level + 1) for p in part], level - depth)

    return Tracer(trace, joined(parts, 0).node)


def _depth(parts: Any) -> int:
    """How deep the lists are nested.  Raises ShapeError where that is not everywhere the same."""
    if not isinstance(parts, list):
        return 0
    depths = set(map(_depth, parts))
    if len(depths) != 1:
        raise ShapeError("np.block takes lists that are nested equally deep, and not empty")
    return 1 + depths.pop()


def _raised(x: Tracer, rank: int) -> Tracer:
    while x.ndim < rank:
        x = expand_dims(x, 0)
    return x


def append(x: ArrayLike, values: ArrayLike, axis: int | None = None) -> Tracer:
    return concatenate(lift_all(x, values), axis)


# ---------------------------------------------------------------------------------------------- roll, tile, repeat


def roll(x: ArrayLike, shift: Any, axis: Any = None) -> Tracer:
    (x,) = lift_all(x)
    if axis is None:
        return roll(x.reshape(-1), shift, 0).reshape(x.shape)
    rolled, shifts = axes.listed(axis), axes.listed(shift)
    shifts = shifts * len(rolled) if len(shifts) == 1 else shifts
    rolled = rolled * len(shifts) if len(rolled) == 1 else rolled
    if len(shifts) != len(rolled):
        raise ShapeError(f"np.roll: {len(shifts)} shifts for {len(rolled)} axes", advice="Give one, or one for each.")
    result = x
    for amount, k in zip(shifts, rolled, strict=True):
        along = axes.one(k, x.ndim)
        if isinstance(amount, Tracer) and not amount.ndim and x.state.scalar_value(amount.node) is None:
            result = _roll_by_data(result, amount, along)
        else:
            result = _roll_one(result, position(x.state, amount, "a shift"), along)
    return Tracer(x.state, result.node)


def _roll_by_data(x: Tracer, shift: Tracer, axis: int) -> Tracer:
    """By a number that is known at run time only: a gather.  Raises IndexingError for floats."""
    if shift.element.kind not in "iu":
        raise IndexingError(f"a shift is an integer, not {shift.dtype}", advice="Cast it with .astype(np.int64).")
    points = Tracer(x.state, nodes.iota((x.sizes[axis],), dimension(0)))
    at = (points - shift.astype(np.int64)) % x.shape[axis]
    rolled: Tracer = x[(slice(None),) * axis + (at,)]
    return rolled


def _roll_one(x: Tracer, shift: Affine, axis: int) -> Tracer:
    """Element i comes from ``i - shift``, or from ``i - shift + n`` where that is negative."""
    trace, size = x.state, x.sizes[axis]
    if size.is_constant and shift.is_constant:
        shift = Affine.of(shift.constant % size.constant if size.constant else 0)
    if not trace.decide(shift):
        shift = shift + size
    if not (trace.decide(shift) and trace.decide(size - shift)):
        shift = Affine.of(trace.fixed(shift) % trace.fixed(size))
    point = dimension(axis)
    pieces = []
    for where, entry in (((point - shift,), point - shift), ((), point - shift + size)):
        index = list(dimensions(x.ndim))
        index[axis] = entry
        pieces.append(Piece(where, x.node, tuple(index)))
    return Tracer(trace, nodes.region(x.sizes, pieces))


def tile(x: ArrayLike, reps: Any) -> Tracer:
    (x,) = lift_all(x)
    counts = axes.listed(reps)
    x = _raised(x, len(counts))
    counts = [1] * (x.ndim - len(counts)) + counts
    known = [_repetitions(x, count) for count in counts]
    x = x[tuple(slice(0, 0) if count == 0 else slice(None) for count in known)]
    return Tracer(x.state, _repeated_whole(_wrapped(x, known), known).node)


def _wrapped(x: Tracer, counts: Sequence[int]) -> Tracer:
    """`x` repeated along axes of known sizes: a division finds the element."""
    index, shape = list(dimensions(x.ndim)), list(x.sizes)
    for axis, (size, count) in enumerate(zip(x.sizes, counts, strict=True)):
        if size.is_constant:
            index[axis] = index[axis] % size.constant if size.constant and count != 1 else index[axis]
            shape[axis] = size * count
    return Tracer(x.state, nodes.view(x.node, shape, index))


_SIDE_BY_SIDE = 4
"""Copies of an array that are regions beside each other, which kernels of any size can be.  Of more, arguments are
traced with the sizes that they have: 9 x 11 copies of 1001 x 1003 float32 took an H200 595 us as regions."""


def _repeated_whole(x: Tracer, counts: Sequence[int]) -> Tracer:
    """`x` repeated along the other axes: few copies are regions, else an axis is two, of which the outer one is as long
    as it is repeated."""
    far = [1 if n.is_constant else count for n, count in zip(x.sizes, counts, strict=True)]
    if prod(far) > _SIDE_BY_SIDE:
        try:
            return _seen_again(x, far)
        except UnsupportedError:  # the spec leaves the sizes open
            pass
    for axis, count in enumerate(far):
        x = x if count == 1 else _joined([x] * count, axis)
    return x


def _seen_again(x: Tracer, far: Sequence[int]) -> Tracer:
    """Raises UnsupportedError for sizes that a spec leaves open: axes of these do not become one."""
    inside, shape = dimensions(2 * x.ndim)[1::2], [n for pair in zip(far, x.sizes, strict=True) for n in pair]
    apart = Tracer(x.state, nodes.view(x.node, shape, inside))
    return apart.reshape(*[n * size for n, size in zip(far, x.shape, strict=True)])


def _repetitions(x: Tracer, count: Any) -> int:
    found = x.state.fixed(position(x.state, count, "a number of repetitions"))
    if found < 0:
        raise ShapeError(f"an array is repeated 0 times or more, not {found} times")
    return found


def repeat(x: ArrayLike, repeats: Any, axis: int | None = None, **_: Any) -> Tracer:
    (x,) = lift_all(x)
    if axis is None:
        x = x.reshape(-1)
        axis = 0
    axis = axes.one(axis, x.ndim)
    if isinstance(repeats, Tracer) and repeats.ndim and (counts := settled(x.state, repeats.node)) is not None:
        repeats = counts
    if isinstance(repeats, np.ndarray):
        x.state.read.append(repeats)
    if isinstance(repeats, (list, tuple, np.ndarray)):
        sources = np.repeat(np.arange(x.state.fixed(x.sizes[axis])), repeats)
        return x[(slice(None),) * axis + (sources,)]
    count = _repetitions(x, repeats)
    if count == 0:
        return x[(slice(None),) * axis + (slice(0, 0),)]
    index = list(dimensions(x.ndim))
    index[axis] = index[axis] // count
    shape = [n * count if k == axis else n for k, n in enumerate(x.sizes)]
    return Tracer(x.state, nodes.view(x.node, shape, index))


# ---------------------------------------------------------------------------------------------- triangles, differences


def _triangle(x: ArrayLike, k: Any, lower: bool) -> Tracer:
    (x,) = lift_all(x)
    if not x.ndim:
        raise ShapeError("a triangle needs an array of rank 1 at least")
    if x.ndim == 1:
        x = broadcast_rows(x)
    k = k if isinstance(k, (Tracer, SymbolicSize)) else operator.index(k)
    row, column = (nodes.iota(x.sizes[-2:], dimension(d)) for d in (0, 1))
    rows, columns = Tracer(x.state, row), Tracer(x.state, column)
    keep = columns <= rows + k if lower else columns >= rows + k
    zero = Tracer(x.state, expr.constant(0, x.element))
    where = x.state.functions["where"]
    return where(keep, x, zero)  # type: ignore[no-any-return]


def broadcast_rows(x: Tracer) -> Tracer:
    return Tracer(x.state, nodes.broadcast(x.node, (x.sizes[0], x.sizes[0])))


def tril(x: ArrayLike, k: int = 0) -> Tracer:
    return _triangle(x, k, lower=True)


def triu(x: ArrayLike, k: int = 0) -> Tracer:
    return _triangle(x, k, lower=False)


def diff(x: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike = None, append: ArrayLike = None) -> Tracer:
    (x,) = lift_all(x)
    axis = axes.one(axis, x.ndim)
    if not operator.index(n):
        return x[...]
    ends = [_edge(x, v, axis) for v in (prepend, append)]
    parts = [p for p in (ends[0], x, ends[1]) if p is not None]
    x = concatenate(parts, axis) if len(parts) > 1 else x
    times = operator.index(n)
    if times < 0:
        raise ArgumentError(f"np.diff is taken 0 times or more, not {times} times")
    before = (slice(None),) * axis
    for _ in range(times):
        later, earlier = x[(*before, slice(1, None))], x[(*before, slice(None, -1))]
        x = later != earlier if x.element.kind == "b" else later - earlier
    return x


def _edge(x: Tracer, value: ArrayLike, axis: int) -> Tracer | None:
    if value is None:
        return None
    edge = lift(x.state, value)
    if edge.ndim:
        return edge
    shape = [Affine.of(1) if k == axis else n for k, n in enumerate(x.sizes)]
    return Tracer(x.state, nodes.broadcast(edge.node, shape))  # no weak scalar: NumPy makes an array of it first


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "concatenate": concatenate,
    "concat": concatenate,
    "stack": stack,
    "vstack": vstack,
    "row_stack": vstack,
    "hstack": hstack,
    "dstack": dstack,
    "column_stack": column_stack,
    "block": block,
    "append": append,
    "roll": roll,
    "tile": tile,
    "repeat": repeat,
    "tril": tril,
    "triu": triu,
    "diff": diff,
}
