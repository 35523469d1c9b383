"""Reductions of segments of an axis that begin at known positions: ``np.add.reduceat``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from polyfuse.errors import IndexingError
from polyfuse.frontends.numpy_like import axes, reductions, scans
from polyfuse.frontends.numpy_like.elementwise import where
from polyfuse.frontends.numpy_like.indexing import take
from polyfuse.frontends.numpy_like.joining import concatenate
from polyfuse.frontends.numpy_like.known_masks import known_positions
from polyfuse.frontends.numpy_like.lifting import lift_all
from polyfuse.frontends.numpy_like.tracer import Tracer
from polyfuse.frontends.numpy_like.updates import update
from polyfuse.frontends.numpy_like.views import moveaxis

ArrayLike = object

_FEW = 16
"""Segments that are as many reductions: a program of thousands of statements takes the planner seconds to minutes."""
_SCATTERED = ("add", "multiply", "minimum", "maximum")


def reduceat(name: str, a: ArrayLike, indices: Any, axis: int = 0, dtype: Any = None) -> Tracer:
    """Each segment ends where the next begins, and has one element where that is not behind it.

    x [a b c d e] at [0, 3]  ->  [a+b+c, d+e]
    """
    (x,) = lift_all(a)
    axis = axes.one(axis, x.ndim)
    size = x.state.fixed(x.sizes[axis])
    starts = _starts(name, x, indices, size)
    reduction = partial(reductions.BY_UFUNC.get(name) or partial(scans.reduced, name), keepdims=True)
    options = {} if dtype is None else {"dtype": dtype}
    ends = [max(end, start + 1) for start, end in zip(starts, [*starts[1:], size], strict=False)]
    before: tuple[Any, ...] = (slice(None),) * axis
    equal = _equal_runs(starts, ends)
    if equal < 2 and len(starts) > _FEW and name in _SCATTERED and starts == sorted(starts):
        return _by_number(name, reduction(x[..., None], axis=-1, **options).squeeze(-1), starts, axis)
    parts = []
    if equal > 1:  # rows of a matrix
        width = ends[0] - starts[0]
        shape = (*x.shape[:axis], equal, width, *x.shape[axis + 1 :])
        rows = x[(*before, slice(starts[0], ends[equal - 1]))].reshape(shape)
        parts.append(reduction(rows, axis=axis + 1, **options).squeeze(axis + 1))
    for start, end in list(zip(starts, ends, strict=True))[equal if equal > 1 else 0 :]:
        parts.append(reduction(x[(*before, slice(start, end))], axis=axis, **options))
    if not starts:
        return reduction(x, axis=axis, **options)[(*before, slice(0, 0))]
    return concatenate(parts, axis)


def _by_number(name: str, x: Tracer, starts: list[int], axis: int) -> Tracer:
    """Many segments: every element goes to the one whose number it has.  Those without elements keep the one at which
    they begin."""
    x = moveaxis(x, axis, 0)
    first = take(x, starts, axis=0)
    numbers = np.searchsorted(starts, np.arange(starts[0], x.state.fixed(x.sizes[0])), side="right") - 1
    if name in ("add", "multiply"):
        is_empty = np.diff([*starts, starts[-1] + 1]) == 0
        first = where(is_empty.reshape(-1, *(1,) * (x.ndim - 1)), first, getattr(np, name).identity).astype(x.dtype)
    return moveaxis(update(first, numbers, name, x[starts[0] :]), 0, axis)


SEGMENTS = (
    "Number the segments and write np.add.at(out, segment, x), or np.maximum.at; sums are also differences of "
    "prefixes: c = np.cumsum(x); c[p[1:] - 1] - c[p[:-1] - 1]."
)


def _starts(name: str, x: Tracer, indices: Any, size: int) -> list[int]:
    """Where segments begin.  Raises IndexingError for data, and for positions outside of the axis."""
    found = known_positions(x.state, indices, f"{name}.reduceat", "the lengths of its segments are unknown", SEGMENTS)
    starts = [int(start) for start in found]
    outside = next((start for start in starts if not 0 <= start < size), None)
    if outside is not None:
        raise IndexingError(f"index {outside} is out of bounds for an axis of size {size}")
    return starts


def _equal_runs(starts: list[int], ends: list[int]) -> int:
    """How many of the first segments lie one after the other and are of one length."""
    count = 0
    for start, end in zip(starts, ends, strict=True):
        if end - start != ends[0] - starts[0] or start != starts[0] + count * (ends[0] - starts[0]):
            break
        count += 1
    return count
