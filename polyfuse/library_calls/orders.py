"""Stable orders of NumPy arrays, by sorting numbers that are all different.

    order     = argsort(x, kind="stable")
    k         = unsigned numbers of 32 bits in the order of x
    order     = sort(k * 2**32 + position) mod 2**32

NumPy sorts such numbers by vector instructions, several times as fast as it merges what may be equal.  Keys of 64 bits
are ordered by its own unstable sort first; that numbers them, and where none are equal it was stable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

FEW, SHORT = 1 << 11, 1 << 8
"""Elements, and of a row of 64-bit numbers, below which NumPy's stable sort takes no longer than what is made here
before one."""
_HALF = np.uint64(32)
_POSITIONS = np.uint64((1 << 32) - 1)


def stable_order(x: Array, axis: int = -1) -> Array:
    """``np.argsort(x, axis, kind="stable")``."""
    if not _is_slow(x, x.shape[axis]):
        return np.argsort(x, axis=axis, kind="stable")
    rows = np.moveaxis(x, axis, -1)
    return np.moveaxis(_positions(np.sort(_numbered(_keys(rows)), axis=-1)), -1, axis)


def largest(x: Array, count: int, axis: int = -1) -> Array:
    """The positions of the `count` largest along an axis, largest first, NaN before all numbers; of equal elements the
    first one first."""
    rows = np.moveaxis(x, axis, -1)
    if not _is_slow(x, rows.shape[-1]):
        order = rows.shape[-1] - 1 - np.argsort(rows[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        return np.moveaxis(order[..., :count], -1, axis)
    numbers = _numbered(_POSITIONS - _keys(rows))
    if 0 < count < rows.shape[-1]:
        numbers = np.partition(numbers, count - 1, axis=-1)[..., :count]
    return np.moveaxis(_positions(np.sort(numbers[..., :count], axis=-1)), -1, axis)


def _is_slow(x: Array, length: int) -> bool:
    """Whether NumPy merges rows of a `length`: integers of 16 bits it sorts by their digits."""
    if x.size < FEW or not 0 < length <= 1 << 32 or x.dtype.kind not in "iuf":
        return False
    return length >= SHORT if x.dtype.itemsize > 4 else x.dtype.itemsize > 2 or x.dtype.kind == "f"


def _numbered(keys: Array) -> Array:
    """Each with its position in its row behind it."""
    return (keys << _HALF) | np.arange(keys.shape[-1], dtype=np.uint64)


def _positions(numbers: Array) -> Array:
    return (numbers & _POSITIONS).astype(np.int64)


def _keys(x: Array) -> Array:
    """Numbers below 2**32, as unsigned ones of 64 bits, in NumPy's order: both zeros are equal, NaN comes last."""
    if x.dtype.itemsize > 4:
        return _ranks(x)
    if x.dtype.kind != "f":
        return (x.astype(np.int64) - (np.iinfo(x.dtype).min if x.dtype.kind == "i" else 0)).astype(np.uint64)
    plain = x.astype(np.float32) + np.float32(0)
    plain[np.isnan(plain)] = np.nan
    bits = plain.view(np.int32)
    return np.where(bits < 0, ~bits, bits ^ np.iinfo(np.int32).min).view(np.uint32).astype(np.uint64)


def _ranks(x: Array) -> Array:
    """How many different ones are smaller."""
    order = np.argsort(x, axis=-1)
    rising = np.take_along_axis(x, order, -1)
    with np.errstate(invalid="ignore"):
        steps = rising[..., 1:] != rising[..., :-1]
    if x.dtype.kind == "f":
        steps &= ~np.isnan(rising[..., :-1])  # of which all are one
    ranks = np.zeros(x.shape, np.uint64)
    np.put_along_axis(ranks[..., :], order[..., 1:], np.cumsum(steps, axis=-1, dtype=np.uint64), -1)
    return ranks
