"""Normalisations: subtract a mean, divide by a deviation.  They differ in the axes over which both are taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyfuse.errors import ShapeError
from polyfuse.nn.precision import float_of, wide

Array = Any
Axes = int | Sequence[int]


def layer_norm(x: Array, weight: Array = None, bias: Array = None, axis: Axes = -1, eps: float = 1e-5) -> Array:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the last axis, or over `axis` (Ba et al., 2016).

    `weight`, `bias`: broadcast against `x`, so of the shape of the last axes for these.
    """
    return _affine(_standardised(wide(x), axis, eps), weight, bias).astype(float_of(x))


def rms_norm(x: Array, weight: Array = None, axis: Axes = -1, eps: float = 1e-6) -> Array:
    """``x / sqrt(mean(x**2) + eps) * weight`` over the last axis, or over `axis` (Zhang and Sennrich, 2019)."""
    y = wide(x)
    y = y / np.sqrt(np.mean(y * y, axis=_axes(axis), keepdims=True) + eps)
    return _affine(y, weight, None).astype(float_of(x))


def batch_norm(
    x: Array, mean: Array = None, var: Array = None, weight: Array = None, bias: Array = None, eps: float = 1e-5
) -> Array:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` per channel of `x` (n, c, *space) (Ioffe and Szegedy, 2015).

    `mean`, `var`, `weight`, `bias`: (c,).  Without mean and var, those of the batch, as in training.
    Raises ShapeError.
    """
    if x.ndim < 2 or (mean is None) != (var is None):
        raise ShapeError("batch_norm takes an array (n, c, *space), and both or neither of mean and var")
    y = wide(x)
    if mean is None:
        y = _standardised(y, (0, *range(2, x.ndim)), eps)
    else:
        y = (y - _channels(mean, x.ndim)) / np.sqrt(_channels(var, x.ndim) + eps)
    return _affine(y, _channels(weight, x.ndim), _channels(bias, x.ndim)).astype(float_of(x))


def instance_norm(x: Array, weight: Array = None, bias: Array = None, eps: float = 1e-5) -> Array:
    """Each channel of each sample of `x` (n, c, *space) by itself (Ulyanov et al., 2016); `weight`, `bias`: (c,)."""
    y = _standardised(wide(x), tuple(range(2, x.ndim)), eps)
    return _affine(y, _channels(weight, x.ndim), _channels(bias, x.ndim)).astype(float_of(x))


def group_norm(x: Array, groups: int, weight: Array = None, bias: Array = None, eps: float = 1e-5) -> Array:
    """The channels of `x` (n, c, *space) in `groups` groups per sample (Wu and He, 2018); `weight`, `bias`: (c,).

    Raises ShapeError where the groups do not divide the channels.
    """
    n, channels, *space = x.shape
    if channels % groups:
        raise ShapeError(f"{channels} channels do not form {groups} groups of one size")
    parts = wide(x).reshape(n, groups, channels // groups, *space)
    y = _standardised(parts, tuple(range(2, parts.ndim)), eps).reshape(x.shape)
    return _affine(y, _channels(weight, x.ndim), _channels(bias, x.ndim)).astype(float_of(x))


def _standardised(x: Array, axis: Axes, eps: float) -> Array:
    over = _axes(axis)
    center = x - np.mean(x, axis=over, keepdims=True)
    return center / np.sqrt(np.mean(center * center, axis=over, keepdims=True) + eps)


def _affine(x: Array, weight: Array, bias: Array) -> Array:
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias


def _axes(axis: Axes) -> Any:
    return tuple(axis) if isinstance(axis, (tuple, list)) else axis


def _channels(values: Array, rank: int) -> Array:
    """(c,) so that it broadcasts along axis 1 of an array of `rank`."""
    return None if values is None else values[(slice(None), *[None] * (rank - 2))]
