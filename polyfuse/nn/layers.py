"""Small layers: linear maps, tables, dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

import polyfuse as pf

Array = Any


def linear(x: Array, w: Array, bias: Array = None) -> Array:
    """``x @ w.T + bias``: (..., i), (o, i) and (o,) to (..., o)."""
    y = np.matmul(x, np.swapaxes(w, 0, 1))
    return y if bias is None else y + bias


def embedding(table: Array, indices: Array) -> Array:
    """Rows of `table` (rows, ...) at integers of any shape; IndexError for those out of range."""
    return table[indices]


def one_hot(indices: Array, classes: int, dtype: Any = np.float32) -> Array:
    """1 at the index along a new last axis, else 0; all 0 for indices out of range."""
    return (indices[..., None] == np.arange(classes)).astype(dtype)


def dropout(x: Array, rate: float, key: pf.random.Key) -> Array:
    """`x` with each element zeroed with probability `rate`, and the others divided by ``1 - rate``.

    `key`: of ``pf.random.key(seed)``; equal keys drop equal elements on every back end.
    """
    return pf.random.dropout(key, x, rate)
