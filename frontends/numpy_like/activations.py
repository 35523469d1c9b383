"""Activation functions of neural networks, spelled as their users spell them, so that both spellings are equal."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

from polyfuse.frontends.numpy_like.elementwise import absolute, as_float, itself, ufunc, where
from polyfuse.frontends.numpy_like.tracer import Tracer

ArrayLike = object


def sigmoid(x: ArrayLike) -> Tracer:
    """``1 / (1 + exp(-x))``."""
    return 1 / (1 + ufunc("exp", -as_float(x)))


def relu(x: ArrayLike) -> Tracer:
    """``maximum(x, 0)``."""
    return ufunc("maximum", x, 0)


def leaky_relu(x: ArrayLike, slope: float = 0.01) -> Tracer:
    """``x`` above 0, ``slope * x`` below."""
    x = itself(x)
    return where(x > 0, x, x * slope)


def elu(x: ArrayLike, alpha: float = 1.0) -> Tracer:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below (Clevert et al., 2015)."""
    x = as_float(x)
    return where(x > 0, x, alpha * ufunc("expm1", ufunc("minimum", x, 0)))


def silu(x: ArrayLike) -> Tracer:
    """``x / (1 + exp(-x))``."""
    x = as_float(x)
    return x / (1 + ufunc("exp", -x))


def gelu(x: ArrayLike) -> Tracer:
    """``x * (1 + erf(x / sqrt(2))) / 2``, exact."""
    x = as_float(x)
    return 0.5 * x * (1 + ufunc("erf", x * (1 / sqrt(2))))


def gelu_tanh(x: ArrayLike) -> Tracer:
    """The tanh approximation of `gelu` (Hendrycks and Gimpel, 2016)."""
    x = as_float(x)
    return 0.5 * x * (1 + ufunc("tanh", sqrt(2 / pi) * (x + 0.044715 * x * x * x)))


def softplus(x: ArrayLike) -> Tracer:
    """``log(1 + exp(x))`` without overflow."""
    x = as_float(x)
    return ufunc("maximum", x, 0) + ufunc("log1p", ufunc("exp", -absolute(x)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (sigmoid, relu, leaky_relu, elu, silu, gelu, gelu_tanh, softplus)
}
