"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from polyfuse.affine import ONE, Affine
from polyfuse.errors import ArgumentError, UnsupportedError
from polyfuse.frontends.numpy_like import nodes
from polyfuse.frontends.numpy_like.curves import convolve, vander
from polyfuse.frontends.numpy_like.elementwise import as_float
from polyfuse.frontends.numpy_like.joining import concatenate
from polyfuse.frontends.numpy_like.lifting import as_real, lift_arrays
from polyfuse.frontends.numpy_like.linear_algebra import lstsq
from polyfuse.frontends.numpy_like.tracer import Tracer

ArrayLike = object


def polyval(p: ArrayLike, x: ArrayLike) -> Tracer:
    """The value of a polynomial of static degree (Horner)."""
    p, x = lift_arrays(p, x)
    value = x * 0
    for k in range(p.state.fixed(p.sizes[0])):
        value = value * x + p[k]
    return value


def _aligned(a: ArrayLike, b: ArrayLike) -> tuple[Tracer, Tracer]:
    """Both with the number of coefficients of the longer."""
    a, b = (x.reshape(1) if not x.ndim else x for x in lift_arrays(a, b))
    longer = a if a.state.decide(a.sizes[0] - b.sizes[0]) else b
    first, second = (_lengthened(x, longer.sizes[0] - x.sizes[0]) for x in (a, b))
    return first, second


def _lengthened(x: Tracer, more: Affine) -> Tracer:
    if more.is_constant and more.constant == 0:
        return x
    return concatenate([Tracer(x.state, nodes.full((more,), 0, x.element)), x])


def polyadd(a: ArrayLike, b: ArrayLike) -> Tracer:
    a, b = _aligned(a, b)
    return a + b


def polysub(a: ArrayLike, b: ArrayLike) -> Tracer:
    a, b = _aligned(a, b)
    return a - b


def polymul(a: ArrayLike, b: ArrayLike) -> Tracer:
    """The product.  Coefficients that are zero in front stay, which NumPy drops: a shape says nothing of values."""
    return convolve(a, b)


def _powers(p: Tracer) -> Tracer:
    """The power that belongs to each coefficient but the last."""
    size = p.sizes[0]
    return Tracer(p.state, nodes.iota((size - ONE,), size - ONE - Affine.symbol("%0")))


def polyder(p: ArrayLike, m: int = 1) -> Tracer:
    """The derivative of order `m`."""
    (p,) = lift_arrays(p)
    if operator.index(m) < 0:
        raise ArgumentError(f"np.polyder takes 0 derivatives or more, not {m}", advice="Use np.polyint.")
    for _ in range(min(operator.index(m), p.state.fixed(p.sizes[0]))):
        p = p[:-1] * _powers(p)
    return p


def polyint(p: ArrayLike, m: int = 1, k: Any = None) -> Tracer:
    """The integral of order `m`, with constants `k` (0 without)."""
    (p,) = lift_arrays(p)
    times = operator.index(m)
    constants = [0.0] * times if k is None else ([k] * times if np.ndim(k) == 0 else list(k))
    if len(constants) == 1:
        constants *= times
    if not 0 <= times <= len(constants):
        problem = f"np.polyint of order {m} with {len(constants)} constants"
        raise ArgumentError(problem, advice="Give one for each order.")
    for constant in constants[:times]:
        p = as_float(p)
        rising = Tracer(p.state, nodes.iota((p.sizes[0],), p.sizes[0] - Affine.symbol("%0")))
        nothing = Tracer(p.state, nodes.full((ONE,), 0, p.element))
        p = concatenate([p / rising, nothing + constant])
    return p


def polyfit(x: ArrayLike, y: ArrayLike, deg: int, rcond: Any = None, full: bool = False, **options: Any) -> Tracer:
    """The polynomial of degree `deg` nearest to the points, with columns of equal norm.  Raises UnsupportedError."""
    if full or rcond is not None or any(v is not None and v is not False for v in options.values()):
        raise UnsupportedError(
            "np.polyfit supports x, y and deg only", advice="Scale both sides by the weights, and use np.linalg.lstsq."
        )
    if operator.index(deg) < 0:
        raise ArgumentError(f"np.polyfit of degree {deg}")
    x, y = lift_arrays(x, y)
    x, y = as_real(x), as_real(y)
    if not all(x.state.decide(n - 1) for n in x.sizes):
        raise ArgumentError("np.polyfit of no points", advice="Return early where x.size == 0.")
    columns = vander(x, deg + 1)
    scale = (columns * columns).sum(axis=0) ** 0.5
    found = lstsq(columns / scale, y)[0]
    return (found.T / scale).T


FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (polyval, polyadd, polysub, polymul, polyder, polyint, polyfit)
}
