"""Resizing of axes of space by linear interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyfuse.errors import ArgumentError
from polyfuse.nn.precision import float_of, wide
from polyfuse.nn.windows import per_axis

Array = Any


def resize(x: Array, size: int | Sequence[int], mode: str = "linear", *, align_corners: bool = False) -> Array:
    """The axes of space of `x` (n, c, *space) in new sizes: linear along each axis (bilinear, trilinear), or "nearest".

    Element i of m lies at ``(i + 1/2) * n / m - 1/2`` of n, inside the array; with `align_corners` at
    ``i * (n - 1) / (m - 1)``.  Nearest takes element ``floor(i * n / m)``.  Raises ArgumentError.
    """
    if mode not in ("linear", "nearest"):
        raise ArgumentError(f"there is no mode {mode!r}", advice='Write "linear" or "nearest".')
    rank = x.ndim - 2
    sizes = per_axis(size, rank)
    if mode == "nearest":
        nearest = [np.arange(m) * n // m for m, n in zip(sizes, x.shape[2:], strict=True)]
        return x[(..., *(_along(rank, k, index) for k, index in enumerate(nearest)))]
    places = [_place(n, m, align_corners) for n, m in zip(x.shape[2:], sizes, strict=True)]
    mesh = [
        (_along(rank, k, low), _along(rank, k, high), _along(rank, k, p)) for k, (low, high, p) in enumerate(places)
    ]
    return _blended(wide(x), mesh, ()).astype(float_of(x))


def _along(rank: int, axis: int, values: Array) -> Array:
    """A vector along one of `rank` axes."""
    return values[(*[None] * axis, slice(None), *[None] * (rank - axis - 1))]


def _place(n: int, m: int, align_corners: bool) -> tuple[Array, Array, Array]:
    """For each of m results: the elements before and after its place among n, and how far it is between them."""
    order = np.arange(m).astype(np.float64)
    at = order * ((n - 1) / max(m - 1, 1)) if align_corners else (order + 0.5) * (n / m) - 0.5
    at = np.clip(at, 0, n - 1)
    low = np.floor(at).astype(np.int64)
    return low, np.minimum(low + 1, n - 1), at - low


def _blended(x: Array, mesh: Sequence[tuple[Array, Array, Array]], corner: tuple[Array, ...]) -> Array:
    """The corners of a cell, weighed axis by axis: one read per corner."""
    if not mesh:
        return x[(..., *corner)]
    (low, high, part), *rest = mesh
    share = part.astype(x.dtype)
    return _blended(x, rest, (*corner, low)) * (1 - share) + _blended(x, rest, (*corner, high)) * share
