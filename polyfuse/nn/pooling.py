"""Pooling over windows of any rank.  Over whole axes, write ``x.max(axis=(2, 3))`` or ``x.mean(axis=(2, 3))``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyfuse.errors import ShapeError
from polyfuse.nn.precision import float_of, wide
from polyfuse.nn.windows import Padding, pairs, per_axis, windows

Array = Any
PerAxis = int | Sequence[int]


def max_pool(
    x: Array, window: PerAxis, stride: PerAxis | None = None, padding: Padding = 0, dilation: PerAxis = 1
) -> Array:
    """The maximum of each window of `x` (n, c, *space): (n, c, *out).  NaN propagates.

    `window`, `stride` (the window, unless given), `dilation`: one number, or one per axis.  `padding`, with values
    below all others: as in `conv`.  Raises ShapeError.
    """
    seen = _windows(x, window, stride, padding, dilation, _lowest(x.dtype))
    return seen.max(axis=tuple(range(x.ndim, seen.ndim)))


def avg_pool(
    x: Array, window: PerAxis, stride: PerAxis | None = None, padding: Padding = 0, *, count_padding: bool = True
) -> Array:
    """The mean of each window of `x` (n, c, *space): (n, c, *out), floats.

    `padding` with zeros, which count as elements of the window unless `count_padding` is false.  Raises ShapeError.
    """
    seen = _windows(wide(x), window, stride, padding, 1, 0)
    inside = tuple(range(x.ndim, seen.ndim))
    if count_padding:
        return seen.mean(axis=inside).astype(float_of(x))
    ones = np.ones((1, 1, *x.shape[2:]), seen.dtype)
    count = _windows(ones, window, stride, padding, 1, 0).sum(axis=inside)
    return (seen.sum(axis=inside) / count).astype(float_of(x))


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "fV":
        return -np.inf
    return np.iinfo(dtype).min if dtype.kind in "iu" else False


def _windows(
    x: Array, window: PerAxis, stride: PerAxis | None, padding: Padding, dilation: PerAxis, fill: Any
) -> Array:
    rank = x.ndim - 2
    if rank < 1:
        raise ShapeError(f"pooling takes an array (n, c, *space), not one of rank {x.ndim}")
    sizes, spread = per_axis(window, rank), per_axis(dilation, rank)
    steps = sizes if stride is None else per_axis(stride, rank)
    around = pairs(padding, [d * (k - 1) for k, d in zip(sizes, spread, strict=True)])
    padded = np.pad(x, [(0, 0), (0, 0), *around], constant_values=fill)
    return windows(padded, sizes, steps, spread)
