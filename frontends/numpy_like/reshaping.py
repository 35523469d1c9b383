"""reshape as an index map: axes are matched in groups of equal volume, and split and merged inside a group.

Inside a group the flat index is formed and taken apart again, with constant factors only (``M*i + j`` has no affine
form).  Where an inner size is symbolic, sizes of actual arrays are fixed by a guard; declared letters are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polyfuse.affine import ONE, ZERO, Affine, dimension
from polyfuse.errors import ArgumentError, ShapeError, UnsupportedError
from polyfuse.expr import Shape
from polyfuse.frontends.numpy_like import axes
from polyfuse.frontends.numpy_like.layout import is_contiguous, is_run, strides_of
from polyfuse.frontends.numpy_like.lifting import lift_all, text_of
from polyfuse.frontends.numpy_like.sizes import SymbolicSize, is_integer, normal_factors, quotient, size_of
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.strides import UNIT, Polynomial, Strides, split
from polyfuse.frontends.numpy_like.tracer import Path, Tracer

ArrayLike = object
Factors = tuple[Affine, ...]


def size_factors(trace: Trace, size: Any) -> Factors:
    """A size that the user wrote, as factors.  Raises ShapeError."""
    if isinstance(size, SymbolicSize):
        return size.factors
    if is_integer(size) or isinstance(size, np.ndarray):
        return (Affine.of(int(size)),)
    if isinstance(size, Tracer):
        return (Affine.of(size.__index__()),)
    raise ShapeError(f"a size is an integer or a size of another array, not {size!r}")


def reshape(
    x: ArrayLike, *sizes: Any, order: str = "C", copy: bool | None = None, shape: Any = None, newshape: Any = None
) -> Tracer:
    """``x.reshape(2, -1)``, ``np.reshape(x, (2, -1))``, ``shape=(2, -1)``; a view where NumPy gives one."""
    (x,) = lift_all(x)
    if sizes and isinstance(sizes[-1], str):  # np.reshape(x, (2, 3), "F")
        sizes, order = sizes[:-1], sizes[-1]
    parts = _wanted(sizes, shape, newshape)
    if _checked_order(x, order) == "F":
        flipped = reshape(x.T, tuple(reversed(parts)), copy=copy)
        return flipped.T
    target = _with_inferred(x, [size_factors(x.state, p) for p in parts])
    _check_volume(x, target)
    path = _path(x, target)
    groups = _groups(x.state, x.sizes, target)
    if copy or not all(is_run(x, source) for source, _ in groups):
        return Tracer(x.state, x.through(path).node)
    seen = x.through(path)
    return Tracer(x.state, seen.buffer, replace(seen.path or path, strides=_strides(x, path.shape, groups)))


def _strides(x: Tracer, shape: Shape, groups: Sequence[tuple[list[int], list[int]]]) -> Strides | None:
    """The strides of a reshape that is a view: a group of axes is one axis of memory, divided anew."""
    steps = strides_of(x)
    if steps is None:
        return None
    found: list[Polynomial] = [UNIT] * len(shape)
    for source, target in groups:
        step = steps[source[-1]] if source else UNIT
        for j, stride in zip(target, split(step, [shape[j] for j in target]), strict=True):
            found[j] = stride
    return tuple(found)


def _wanted(sizes: tuple[Any, ...], shape: Any, newshape: Any) -> list[Any]:
    """The sizes that the user wrote: one by one, as one shape, or by name (`newshape` before NumPy 2.1)."""
    given = [*([sizes] if sizes else []), *(named for named in (shape, newshape) if named is not None)]
    if len(given) != 1:
        raise ShapeError("reshape takes one new shape", advice="Write x.reshape(2, -1) or np.reshape(x, (2, -1)).")
    (wanted,) = given
    wanted = wanted[0] if wanted is sizes and len(sizes) == 1 else wanted
    return axes.listed(wanted)


def _with_inferred(x: Tracer, sizes: list[Factors]) -> list[Factors]:
    """The -1 in a shape replaced by what is left."""
    unknown = [k for k, size in enumerate(sizes) if size == (Affine.of(-1),)]
    if not unknown:
        return sizes
    if len(unknown) > 1:
        raise ShapeError("only one size of a new shape may be -1")
    known = tuple(f for size in sizes for f in size if size != (Affine.of(-1),))
    sizes[unknown[0]] = _exact_quotient(x, known)
    return sizes


def _exact_quotient(x: Tracer, known: Factors) -> Factors:
    rest = quotient((ONE, *x.sizes), (ONE, *known))
    if rest is not None:
        return rest
    trace = x.state
    number, symbolic = normal_factors(x.sizes)
    divisor, cancelled = normal_factors(known)
    remaining = list(symbolic)
    for factor in cancelled:
        if factor in remaining:
            remaining.remove(factor)
        else:
            remaining = []
            break
    if divisor and len(remaining) == 1:
        return (trace.divide(remaining[0] * number, divisor),)
    if divisor == 0 or _volume(trace, x.sizes) % _volume(trace, known):
        raise ShapeError(f"cannot reshape {text_of(x.sizes)}: its size is no multiple of {size_of(trace, *known)}")
    _fix(x, (*known, *x.sizes))
    raise AssertionError("sizes without symbols have an exact quotient")


def _volume(trace: Trace, factors: Sequence[Affine]) -> int:
    volume = 1
    for factor in factors:
        volume *= trace.hint(factor)
    return volume


def _fix(x: Tracer, sizes: Sequence[Affine]) -> None:
    """Fix symbolic sizes at their hints, the last one first: an outer size (of a batch) is often enough left alone.
    Raises UnsupportedError for declared letters."""
    for size in sizes:
        declared = sorted(size.names() - x.state.fresh)
        if declared:
            raise UnsupportedError(
                f"this reshape of {text_of(x.sizes)} merges or splits the symbolic size {size}",
                advice=f"Write a number for {declared[0]} in the spec, or keep the axes apart.",
            )
    for size in reversed(sizes):
        x.state.fixed(size)


def _check_volume(x: Tracer, target: Sequence[Factors]) -> None:
    wanted = tuple(f for size in target for f in size)
    if normal_factors(wanted) == normal_factors(x.sizes):
        return
    negative = any(f.is_constant and f.constant < 0 for f in wanted)
    if _volume(x.state, wanted) == _volume(x.state, x.sizes) and not negative:
        symbolic = [f for f in (*wanted, *x.sizes) if not f.is_constant]
        if symbolic:
            _fix(x, symbolic)
    shown = ", ".join(str(size_of(x.state, *size)) for size in target)
    raise ShapeError(f"cannot reshape {text_of(x.sizes)} into ({shown}): the numbers of elements differ")


def _groups(trace: Trace, source: Shape, target: Sequence[Factors]) -> list[tuple[list[int], list[int]]]:
    """Consecutive axes of source and target of equal volume, as short as possible; unit axes are left out."""
    left = [k for k, n in enumerate(source) if n != ONE]
    right = [j for j, size in enumerate(target) if normal_factors(size) != (1, ())]
    groups: list[tuple[list[int], list[int]]] = []
    while left or right:
        taken: tuple[list[int], list[int]] = ([], [])
        while True:
            a = normal_factors(tuple(source[k] for k in taken[0]))
            b = normal_factors(tuple(f for j in taken[1] for f in target[j]))
            if a == b and (taken[0] or taken[1]):
                break
            if not left and not right:
                break
            _extend(trace, taken, left, right, source, target)
        groups.append(taken)
    return groups


def _extend(
    trace: Trace,
    taken: tuple[list[int], list[int]],
    left: list[int],
    right: list[int],
    source: Shape,
    target: Sequence[Factors],
) -> None:
    """Take one more axis on the side whose volume is smaller."""
    a = _volume(trace, [source[k] for k in taken[0]])
    b = _volume(trace, [f for j in taken[1] for f in target[j]])
    if left and (not taken[0] or a <= b or not right) and (a <= b or not right):
        taken[0].append(left.pop(0))
    else:
        taken[1].append(right.pop(0))


def _path(x: Tracer, target: Sequence[Factors]) -> Path:
    index, inverse = [ZERO] * x.ndim, [ZERO] * len(target)
    shape = [ONE] * len(target)
    if any(n == ZERO for n in x.sizes):
        return _empty_path(x, target)
    for source_axes, target_axes in _groups(x.state, x.sizes, target):
        _fix(x, [x.sizes[k] for k in source_axes[1:] if len(target_axes) != 1 or len(source_axes) != 1])
        for j in target_axes:
            shape[j] = _affine(x, target[j])
        if len(source_axes) > 1 or len(target_axes) > 1:
            _fix(x, [shape[j] for j in target_axes[1:]])
        _connect(index, source_axes, x.sizes, target_axes, shape)
        _connect(inverse, target_axes, shape, source_axes, x.sizes)
    return Path(tuple(shape), tuple(index), tuple(inverse))


def _empty_path(x: Tracer, target: Sequence[Factors]) -> Path:
    shape = tuple(_affine(x, size) for size in target)
    return Path(shape, (ZERO,) * x.ndim, (ZERO,) * len(target))


def _affine(x: Tracer, size: Factors) -> Affine:
    affine = SymbolicSize(x.state, size).affine
    if affine is None:
        _fix(x, [f for f in size if not f.is_constant][1:])
        raise AssertionError("a product of one symbolic size is affine")
    return affine


def _connect(
    index: list[Affine], outer: Sequence[int], extents: Sequence[Affine], points: Sequence[int], sizes: Sequence[Affine]
) -> None:
    """Entries of axes `outer` (of `extents`) from the flat index of the points of axes `points` (of `sizes`)."""
    flat, stride = ZERO, 1
    for j in reversed(points):
        flat = flat + dimension(j) * stride
        stride *= sizes[j].constant if j != points[0] else 1
    step = 1
    for k in reversed(outer):
        entry = flat // step
        index[k] = entry % extents[k].constant if k != outer[0] else entry
        step *= extents[k].constant if k != outer[0] else 1


def ravel(x: ArrayLike, order: str = "C") -> Tracer:
    """A view of what lies side by side; a copy of anything else, also of one axis."""
    (x,) = lift_all(x)
    order = _checked_order(x, order)
    seen = x.T if order == "F" else x
    return reshape(x, -1, order=order, copy=not is_contiguous(seen))


def flatten(x: ArrayLike, order: str = "C") -> Tracer:
    return reshape(x, -1, order=order, copy=True)


def _checked_order(x: Tracer, order: Any) -> str:
    """``C`` or ``F``.  Raises UnsupportedError for the order of memory, where an array of several axes has one."""
    word = order.upper() if isinstance(order, str) else order
    if word in ("C", "F"):
        return str(word)
    if word is None or (word in ("A", "K") and x.ndim < 2):
        return "C"
    if word not in ("A", "K"):
        raise ArgumentError(f"elements have no order {order!r}", advice="Write order='C' or order='F'.")
    raise UnsupportedError(
        f"order={order!r} asks how an array lies in memory, which the plan decides",
        advice="Write order='C' for elements row by row, or order='F' for column by column.",
    )


class Flat(Tracer):
    """``x.flat``: a part of it is a copy, and writes reach `x`."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        found: Any = super().__getitem__(index)
        return Tracer(found.state, found.node) if isinstance(found, Tracer) else found


def flat(x: Tracer) -> Flat:
    """All elements in C order, in the memory of `x`."""
    seen = x.through(_path(x, _with_inferred(x, [(Affine.of(-1),)])))
    return Flat(x.state, seen.buffer, seen.path)


FUNCTIONS: dict[str, Callable[..., Any]] = {"reshape": reshape, "ravel": ravel, "flatten": flatten}
