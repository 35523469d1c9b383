"""Attention, and the rotation of queries and keys by their position."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from polyfuse.errors import ShapeError
from polyfuse.nn.precision import wide

Array = Any


def attention(
    q: Array, k: Array, v: Array, mask: Array = None, *, causal: bool = False, scale: float | None = None
) -> Array:
    """``softmax(q @ k.T * scale) @ v`` (Vaswani et al., 2017): (..., s, d), (..., t, d), (..., t, e) to (..., s, e).

    `mask`, broadcast against the scores (..., s, t): booleans keep a score where they are true, floats are added.
    `causal`: query i sees keys 0 to i.  `scale`: 1 / sqrt(d) unless given.  Rows that see no key are NaN.
    Raises ShapeError.
    """
    if min(q.ndim, k.ndim, v.ndim) < 2:
        raise ShapeError("attention takes arrays (..., positions, features)")
    factor = 1 / sqrt(q.shape[-1]) if scale is None else scale
    scores = np.matmul(wide(q), np.swapaxes(wide(k), -1, -2)) * factor
    if causal:
        seen = np.arange(q.shape[-2])[:, None] >= np.arange(k.shape[-2])
        scores = np.where(seen, scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    return np.matmul(weights, wide(v)).astype(v.dtype)


def rotary_embedding(x: Array, positions: Array = None, *, base: float = 10000.0, interleaved: bool = False) -> Array:
    """Pairs of features of `x` (..., s, d), d even, turned by ``position * base ** (-2 i / d)`` (Su et al., 2021).

    `positions` (..., s): 0 to s - 1 unless given.  A pair is feature i of both halves, or with `interleaved`
    features 2 i and 2 i + 1.  Raises ShapeError.
    """
    size = x.shape[-1]
    if size % 2:
        raise ShapeError(f"rotary_embedding turns pairs of features, of which there are {size}")
    y = wide(x)
    at = np.arange(x.shape[-2]) if positions is None else positions
    angle = at[..., None] * base ** (np.arange(size // 2) * (-2 / size))
    cos, sin = np.cos(angle).astype(y.dtype), np.sin(angle).astype(y.dtype)
    a, b = (y[..., ::2], y[..., 1::2]) if interleaved else np.split(y, 2, axis=-1)
    turned = a * cos - b * sin, a * sin + b * cos
    if interleaved:
        return np.stack(turned, axis=-1).reshape(x.shape).astype(x.dtype)
    return np.concatenate(turned, axis=-1).astype(x.dtype)
