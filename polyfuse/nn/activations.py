"""Activation functions: elementwise, except softmax and its logarithm, which normalise along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

import polyfuse as pf

Array = Any

relu, leaky_relu, elu = pf.relu, pf.leaky_relu, pf.elu
sigmoid, silu, softplus = pf.sigmoid, pf.silu, pf.softplus
gelu, gelu_tanh = pf.gelu, pf.gelu_tanh
softmax, log_softmax = pf.softmax, pf.log_softmax


def tanh(x: Array) -> Array:
    """The hyperbolic tangent."""
    return np.tanh(x)


def relu6(x: Array) -> Array:
    """``min(max(x, 0), 6)``."""
    return np.clip(x, 0, 6)


def hard_sigmoid(x: Array) -> Array:
    """``clip(x / 6 + 1 / 2, 0, 1)``."""
    return np.clip(x / 6 + 0.5, 0, 1)


def hard_swish(x: Array) -> Array:
    """``x * hard_sigmoid(x)`` (Howard et al., 2019)."""
    return x * hard_sigmoid(x)


def log_sigmoid(x: Array) -> Array:
    """``log(1 / (1 + exp(-x)))`` without overflow."""
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def softsign(x: Array) -> Array:
    """``x / (1 + |x|)``."""
    return x / (1 + np.abs(x))


def mish(x: Array) -> Array:
    """``x * tanh(log(1 + exp(x)))`` (Misra, 2019)."""
    return x * np.tanh(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def celu(x: Array, alpha: float = 1.0) -> Array:
    """``x`` above 0, ``alpha * (exp(x / alpha) - 1)`` below (Barron, 2017)."""
    return np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0) / alpha)


def selu(x: Array) -> Array:
    """A scaled `elu` that keeps mean 0 and variance 1 (Klambauer et al., 2017)."""
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return scale * (np.maximum(x, 0) + alpha * np.expm1(np.minimum(x, 0)))


def glu(x: Array, axis: int = -1) -> Array:
    """The first half of an axis of even size times the `sigmoid` of the second half (Dauphin et al., 2017)."""
    value, gate = np.split(x, 2, axis)
    return value * (1 / (1 + np.exp(-gate)))
