"""Losses: a number per element or per sample, then their mean, their sum, or all of them (`reduction`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyfuse.errors import ArgumentError, ShapeError
from polyfuse.nn.precision import float_of, wide

Array = Any


def mse_loss(x: Array, target: Array, reduction: str = "mean") -> Array:
    """Squared differences."""
    difference = wide(x) - target
    return _reduced(difference * difference, reduction).astype(float_of(x))


def l1_loss(x: Array, target: Array, reduction: str = "mean") -> Array:
    """Absolute differences."""
    return _reduced(np.abs(wide(x) - target), reduction).astype(float_of(x))


def huber_loss(x: Array, target: Array, delta: float = 1.0, reduction: str = "mean") -> Array:
    """``d**2 / 2`` for differences up to `delta`, ``delta * (d - delta / 2)`` above (Huber, 1964)."""
    d = np.abs(wide(x) - target)
    return _reduced(np.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta)), reduction).astype(float_of(x))


def binary_cross_entropy(p: Array, target: Array, reduction: str = "mean") -> Array:
    """``-target * log(p) - (1 - target) * log(1 - p)``, logarithms cut off at -100."""
    q = wide(p)
    log_p, log_not = np.maximum(np.log(q), -100), np.maximum(np.log1p(-q), -100)
    return _reduced(-target * log_p - (1 - target) * log_not, reduction).astype(float_of(p))


def binary_cross_entropy_with_logits(
    x: Array, target: Array, pos_weight: Array = None, reduction: str = "mean"
) -> Array:
    """`binary_cross_entropy` of ``sigmoid(x)`` without overflow; `pos_weight` multiplies the losses of targets 1."""
    z = wide(x)
    log_p = np.minimum(z, 0) - np.log1p(np.exp(-np.abs(z)))
    positive = target if pos_weight is None else target * pos_weight
    return _reduced((1 - target) * (z - log_p) - positive * log_p, reduction).astype(float_of(x))


def kl_divergence(log_p: Array, target: Array, reduction: str = "mean") -> Array:
    """``target * (log(target) - log_p)`` of probabilities and logarithms of probabilities; 0 where the target is 0."""
    t = wide(target)
    each = np.where(t > 0, t * (np.log(np.where(t > 0, t, 1)) - log_p), 0)
    return _reduced(each, reduction).astype(float_of(log_p))


def cross_entropy(
    logits: Array,
    target: Array,
    axis: int = -1,
    *,
    weight: Array = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Array:
    """``-log(softmax(logits))`` at the target class along `axis`.

    `target`: integers of the shape of `logits` without `axis`, or probabilities of its whole shape.  Samples whose
    class is `ignore_index` count 0; any other class out of range gives NaN.  `weight` (classes,) multiplies the losses
    of a class, and the mean is then the weighted one.  `label_smoothing` moves this part of each target to all classes
    alike (Szegedy et al., 2016).  Raises ShapeError.
    """
    z = wide(logits)
    z = z - z.max(axis=axis, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=axis, keepdims=True))
    loss = nll_loss(
        log_p,
        target,
        axis,
        weight=weight,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
        reduction=reduction,
    )
    return loss.astype(float_of(logits))


def nll_loss(
    log_p: Array,
    target: Array,
    axis: int = -1,
    *,
    weight: Array = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Array:
    """`cross_entropy` of logarithms of probabilities."""
    p = np.moveaxis(wide(log_p), axis, -1)
    p = p if weight is None else p * weight
    if target.ndim == p.ndim:
        chosen = -(np.moveaxis(target, axis, -1) * p).sum(axis=-1)
        share = np.ones_like(chosen)
        kept = share > 0
    elif target.ndim == p.ndim - 1:
        # A comparison with every class, in registers, and no gather: it fuses with whatever computes the logits.
        classes = p.shape[-1]
        mine = target[..., None] == np.arange(classes)
        kept = target != ignore_index
        known = (target >= 0) & (target < classes)
        chosen = np.where(known, -np.where(mine, p, 0).sum(axis=-1), np.nan)
        share = np.where(mine, 1 if weight is None else weight, 0).sum(axis=-1).astype(p.dtype)
    else:
        raise ShapeError(f"targets of rank {target.ndim} do not fit logits of rank {p.ndim}")
    loss = chosen
    if label_smoothing:
        loss = (1 - label_smoothing) * chosen - label_smoothing * p.mean(axis=-1)
    loss = np.where(kept, loss, 0)
    if reduction == "mean":
        return (loss.sum() / np.where(kept, share, 0).sum()).astype(float_of(log_p))
    return _reduced(loss, reduction).astype(float_of(log_p))


def _reduced(values: Array, reduction: str) -> Array:
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f"there is no reduction {reduction!r}", advice='Write "mean", "sum" or "none".')
    return values if reduction == "none" else values.mean() if reduction == "mean" else values.sum()
