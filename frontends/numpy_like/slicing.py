"""Basic indexing: integers, slices of any step and sign, ellipsis and newaxis, as one view."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyfuse.affine import ONE, ZERO, Affine, dimension
from polyfuse.errors import IndexingError, ShapeError
from polyfuse.expr import Constant, Shape
from polyfuse.frontends.index_notation.terms import Term
from polyfuse.frontends.numpy_like.lifting import text_of
from polyfuse.frontends.numpy_like.nonzero import as_masks
from polyfuse.frontends.numpy_like.sizes import SymbolicSize, affine_of, is_integer
from polyfuse.frontends.numpy_like.specs import is_array
from polyfuse.frontends.numpy_like.state import Trace
from polyfuse.frontends.numpy_like.tracer import Path, Tracer, as_argument


def expand_ellipsis(items: Sequence[Any], shape: Shape, consumed: Sequence[int]) -> list[Any]:
    """`items` with the ellipsis (or the missing end) replaced by full slices; `consumed`: axes that each item takes."""
    dots = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexingError("an index can only have a single ellipsis ('...')")
    missing = len(shape) - sum(consumed)
    if missing < 0:
        raise IndexingError(f"too many indices: {sum(consumed)} for an array of shape {text_of(shape)}")
    at = dots[0] if dots else len(items)
    return [*items[:at], *[slice(None)] * missing, *items[at + 1 :]]


def stand_apart(items: Sequence[Any]) -> bool:
    """Whether an ellipsis parts the arrays and integers of an index: it does where it stands for no axis as well."""
    at = [k for k, item in enumerate(items) if not (item is None or item is Ellipsis or isinstance(item, slice))]
    return bool(at) and any(item is Ellipsis for item in items[at[0] : at[-1]])


def position(trace: Trace, value: Any, what: str) -> Affine:
    """An integer position that the user wrote.  Raises IndexingError."""
    if isinstance(value, Tracer) and not value.sizes and value.element.kind in "iu":
        known = trace.scalar_value(value.node)
        value = value if known is None else int(known)
    if isinstance(value, Tracer):
        raise IndexingError(
            f"{what} depends on a value, so the shape of the result does too",
            advice=as_argument(
                value, "Index with an integer array such as np.arange(n) + start, or mark the argument as static."
            ),
        )
    if isinstance(value, np.ndarray) and not value.ndim and value.dtype.kind in "iu":
        trace.read.append(value)
        value = int(value)
    affine = affine_of(value) if isinstance(value, SymbolicSize) or is_integer(value) else None
    if affine is None and isinstance(value, SymbolicSize):
        affine = Affine.of(int(value))
    if affine is None:
        raise IndexingError(f"{what} is an integer, not {value!r}")
    return affine


def integer_index(trace: Trace, value: Any, size: Affine, axis: int) -> Affine:
    """An index into an axis of `size`, wrapped if negative.  Raises IndexingError when it is out of bounds."""
    at = position(trace, value, "an index")
    wrapped = at if trace.decide(at) else at + size
    if not trace.decide(wrapped) or not trace.decide(size - 1 - wrapped):
        shown = f"{size} (here {trace.hint(size)})" if not size.is_constant else str(size)
        raise IndexingError(f"index {at} is out of bounds for axis {axis} of size {shown}")
    return wrapped


SHORT = 4
"""Elements of a row at most of which a program that picks one by its number says what they are: colours, coordinates,
taps."""


def _know_short(trace: Trace, size: Affine) -> None:
    """Rows of a few elements that a program picks have as many in every call: what lies side by side is then known."""
    if size.names() and size.names() <= trace.fresh and not trace.decide(size - SHORT - 1):
        trace.fixed(size)


def slice_bounds(trace: Trace, wanted: slice, size: Affine) -> tuple[Affine, Affine, int]:
    """Start, length and step of a slice of an axis of `size`, clamped as Python does, by hint with guards."""
    step = 1 if wanted.step is None else position(trace, wanted.step, "a slice step")
    step = step if isinstance(step, int) else trace.fixed(step)
    if step == 0:
        raise ShapeError("a slice step cannot be 0", advice="Write x[a:b], or a step of 1 or more, or of -1 or less.")
    low, high = (ZERO, size) if step > 0 else (Affine.of(-1), size - 1)
    start = _clamped(trace, wanted.start, "the start of a slice", size, low, high, low if step > 0 else high)
    stop = _clamped(trace, wanted.stop, "the end of a slice", size, low, high, high if step > 0 else low)
    span = stop - start if step > 0 else start - stop
    if not trace.decide(span - 1):
        is_span = trace.hint(span) == 0 and trace.decide(span)  # as of ``x[:-2]`` beside ``x[1:-1]`` of two elements
        return ZERO, span if is_span or trace.known(span) else ZERO, step
    return start, span.ceildiv(abs(step)), step


def _clamped(trace: Trace, value: Any, what: str, size: Affine, low: Affine, high: Affine, default: Affine) -> Affine:
    if value is None:
        return default
    at = position(trace, value, what)
    if not trace.decide(at):
        at = at + size
        return at if trace.decide(at - low) else low
    return at if trace.decide(high - at) else high


def basic_path(x: Tracer, items: Sequence[Any]) -> Path:
    """The view for integers, slices and None; the ellipsis is already expanded."""
    shape: list[Affine] = []
    index: list[Affine] = []
    inverse: list[Affine] = []
    where: list[Affine] = []
    for item in items:
        if item is None:
            shape.append(ONE)
            inverse.append(ZERO)
            continue
        axis = len(index)
        size, point = x.sizes[axis], dimension(axis)
        if not isinstance(item, slice):
            at = integer_index(x.state, item, size, axis)
            if 0 < axis == x.ndim - 1:
                _know_short(x.state, size)
            index.append(at)
            where += [] if size == ONE else [point - at, at - point]
            continue
        start, length, step = slice_bounds(x.state, item, size)
        index.append(dimension(len(shape)) * step + start)
        shape.append(length)
        offset = point - start if step > 0 else start - point
        inverse.append(offset // abs(step))
        where += _range_conditions(offset, length, abs(step), size)
    return Path(tuple(shape), tuple(index), tuple(inverse), tuple(where))


def _range_conditions(offset: Affine, length: Affine, step: int, size: Affine) -> list[Affine]:
    """``offset`` is one of ``0, step, ..., step * (length - 1)``."""
    if length == size and step == 1:
        return []
    conditions = [offset, (length - 1) * step - offset]
    if step > 1:
        conditions.append((offset // step) * step - offset)
    return conditions


def is_basic(item: Any) -> bool:
    if isinstance(item, Tracer):
        return isinstance(item.node, Constant) and item.element.kind in "iu"
    return item is None or item is Ellipsis or isinstance(item, (slice, SymbolicSize)) or is_integer(item)


def items_of(index: Any) -> list[Any]:
    """The parts of an index; lists become arrays, all positions of a mask the mask, and objects that stand for integers
    these."""
    parts = as_masks(index if isinstance(index, tuple) else (index,))
    return [_as_array(p) if isinstance(p, list) else _as_integer(p) for p in parts]


def _as_integer(part: Any) -> Any:
    if isinstance(part, slice):
        ends = part.start, part.stop, part.step
        found = tuple(map(_as_integer, ends))
        return part if all(map(operator.is_, ends, found)) else slice(*found)
    is_known = isinstance(part, (int, np.generic, Tracer, SymbolicSize, Term)) or is_array(part)
    return part if is_known or not hasattr(type(part), "__index__") else operator.index(part)


def _as_array(part: list[Any]) -> Any:
    array = np.asarray(part) if not any(isinstance(p, (Tracer, SymbolicSize)) for p in part) else None
    if array is None:
        return part
    return array.astype(np.int64) if array.size == 0 else array
