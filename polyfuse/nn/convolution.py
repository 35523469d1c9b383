"""Convolutions of any rank: windows of the input, contracted with the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyfuse.errors import ShapeError
from polyfuse.nn.windows import Padding, pairs, per_axis, windows

Array = Any


def conv(
    x: Array,
    w: Array,
    bias: Array = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: Padding = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """The cross-correlation of `x` (n, c, *space) with `w` (o, c / groups, *window), plus `bias` (o): (n, o, *out).

    `stride`, `dilation`: one number, or one per axis of space.  `padding` with zeros: one number, one per axis, a pair
    (before, after) per axis, or "same", which keeps the size for stride 1 (the odd element stands behind).  With
    `groups`, each group of o / groups results sees c / groups channels.  Raises ShapeError.
    """
    rank = w.ndim - 2
    if rank < 0 or x.ndim != w.ndim:
        raise ShapeError(
            f"conv takes arrays of one rank, (n, c, *space) and (o, c, *window), not {x.ndim} and {w.ndim}"
        )
    if padding == "same" and any(s != 1 for s in per_axis(stride, rank)):
        raise ShapeError('padding="same" needs stride 1', advice="Give the numbers of zeros, a pair per axis.")
    spread = per_axis(dilation, rank)
    around = pairs(padding, [d * (k - 1) for k, d in zip(w.shape[2:], spread, strict=True)])
    y = _correlate(np.pad(x, [(0, 0), (0, 0), *around]), w, per_axis(stride, rank), spread, groups)
    return y if bias is None else y + bias[(slice(None), *[None] * rank)]


def _correlate(x: Array, w: Array, stride: Sequence[int], dilation: Sequence[int], groups: int) -> Array:
    """(n, g*c, *space) and (g*o, c, *window) to (n, g*o, *out): channels in groups, then one sum of products."""
    n, channels, *space = x.shape
    outputs, each, *window = w.shape
    if channels % groups or outputs % groups or each != channels // groups:
        raise ShapeError(f"{channels} channels in {groups} groups do not fit weights of shape {tuple(w.shape)}")
    seen = windows(x.reshape(n, groups, each, *space), window, stride, dilation)
    kernels = w.reshape(groups, outputs // groups, each, *window)
    at, inside = range(4, 4 + len(window)), range(4 + len(window), 4 + 2 * len(window))
    y = np.einsum(seen, [0, 1, 3, *at, *inside], kernels, [1, 2, 3, *inside], [0, 1, 2, *at])
    return y.reshape(n, outputs, *y.shape[3:])


def conv_transpose(
    x: Array,
    w: Array,
    bias: Array = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """The transpose of `conv`: `x` (n, c, *space), `w` (c, o / groups, *window), `bias` (o), result (n, o, *out).

    An axis of m elements becomes ``(m - 1) * stride - 2 * padding + dilation * (window - 1) + 1 + output_padding``: the
    correlation, with stride 1, of the input with zeros between its elements and the mirrored weights.
    Raises ShapeError.
    """
    rank = w.ndim - 2
    if rank < 0 or x.ndim != w.ndim:
        raise ShapeError(f"conv_transpose takes arrays of one rank, not {x.ndim} and {w.ndim}")
    n, channels, *space = x.shape
    c, each, *window = w.shape
    if c != channels or channels % groups:
        raise ShapeError(f"{channels} channels in {groups} groups do not fit weights of shape {tuple(w.shape)}")
    steps, spread = per_axis(stride, rank), per_axis(dilation, rank)
    lost, extra = per_axis(padding, rank), per_axis(output_padding, rank)
    z: Array = np.zeros((n, channels, *((m - 1) * s + 1 for m, s in zip(space, steps, strict=True))), x.dtype)
    z[(..., *(slice(None, None, s) for s in steps))] = x
    reach = [d * (k - 1) - p for k, d, p in zip(window, spread, lost, strict=True)]
    z = _grown(z, [(r, r + e) for r, e in zip(reach, extra, strict=True)])
    mirrored = np.flip(w, tuple(range(2, 2 + rank))).reshape(groups, channels // groups, each, *window)
    turned = np.swapaxes(mirrored, 1, 2).reshape(groups * each, channels // groups, *window)
    y = _correlate(z, turned, [1] * rank, spread, groups)
    return y if bias is None else y + bias[(slice(None), *[None] * rank)]


def _grown(x: Array, around: Sequence[tuple[int, int]]) -> Array:
    """`x` with zeros around its axes of space; a negative number takes elements away."""
    cut = [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(around, x.shape[2:], strict=True)]
    return np.pad(x[(..., *cut)], [(0, 0), (0, 0), *((max(a, 0), max(b, 0)) for a, b in around)])
