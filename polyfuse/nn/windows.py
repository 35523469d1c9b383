"""Windows that slide over axes of space, and the arguments that describe them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyfuse.errors import ShapeError

Array = Any
Padding = int | str | Sequence[int] | Sequence[tuple[int, int]]


def per_axis(value: Any, rank: int) -> list[int]:
    """One number for all axes, or one per axis.  Raises ShapeError."""
    found = list(value) if isinstance(value, (tuple, list)) else [value] * rank
    if len(found) != rank:
        raise ShapeError(f"{tuple(found)} does not give one number to each of {rank} axes")
    return found


def pairs(padding: Padding, reach: Sequence[int]) -> list[tuple[int, int]]:
    """(before, after) per axis; `reach` is by how much an axis shrinks without padding."""
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ShapeError(f"there is no padding {padding!r}", advice='Write numbers, "same" or "valid".')
        return [(r // 2, r - r // 2) if padding == "same" else (0, 0) for r in reach]
    given: list[Any] = per_axis(padding, len(reach))
    return [tuple(p) if isinstance(p, (tuple, list)) else (p, p) for p in given]


def windows(x: Array, window: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Array:
    """Windows over the last axes of `x`, as many as `window` has: (..., *places, *window), a view."""
    rank = len(window)
    if not rank:
        return x
    spans = tuple(d * (k - 1) + 1 for k, d in zip(window, dilation, strict=True))
    seen: Array = np.lib.stride_tricks.sliding_window_view(x, spans, axis=tuple(range(x.ndim - rank, x.ndim)))
    return seen[(..., *(slice(None, None, s) for s in (*stride, *dilation)))]
