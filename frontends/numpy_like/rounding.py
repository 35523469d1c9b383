"""Whole numbers and decimal places near a number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import index
from typing import Any

import numpy as np

from polyfuse.dtypes import bool_, u64
from polyfuse.errors import ArgumentError, DTypeError
from polyfuse.frontends.numpy_like.elementwise import as_float, astype, itself, ufunc, where
from polyfuse.frontends.numpy_like.lifting import lift_all
from polyfuse.frontends.numpy_like.tracer import Tracer

ArrayLike = object


_MOST_DECIMALS = 308  # as a power of ten, that of the largest float


def round_(x: ArrayLike, decimals: int = 0) -> Tracer:
    """Half to even; NumPy scales by a power of ten.  Raises TypeError for decimals that are no integer."""
    (x,) = lift_all(x)
    decimals = index(decimals)
    if abs(decimals) > _MOST_DECIMALS:
        raise ArgumentError(f"numbers have no {decimals} decimals")
    if x.element == bool_ and x.weak is None and decimals:
        advice = "Leave decimals out, or cast with x.astype(np.float32) first."
        raise DTypeError("np.round does not take truth values to decimal places", advice=advice)
    if x.element == bool_:
        return astype(x, np.float16)
    if not x.element.is_float:
        if decimals >= 0:
            return itself(x)
        scale = float(10**-decimals)
        tens = ufunc("multiply", ufunc("rint", ufunc("divide", astype(x, np.float64), scale)), scale)
        return astype(tens if x.element == u64 else astype(tens, np.int64), x.dtype)  # numbers beyond it wrap around
    if decimals == 0:
        return ufunc("rint", x)
    scale = 10 ** abs(decimals)
    if decimals > 0:
        return ufunc("divide", ufunc("rint", ufunc("multiply", x, scale)), scale)
    return ufunc("multiply", ufunc("rint", ufunc("divide", x, scale)), scale)


def floor_like(name: str, x: ArrayLike) -> Tracer:
    (x,) = lift_all(x)
    return ufunc(name, x) if x.element.is_float or x.weak is float else itself(x)


def fix(x: ArrayLike) -> Tracer:
    return floor_like("trunc", x)


def modf(x: ArrayLike) -> tuple[Tracer, Tracer]:
    x = as_float(x)
    whole = ufunc("trunc", x)
    rest = where(ufunc("isinf", x), 0, x - whole)
    return ufunc("copysign", rest, x), whole


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{n: partial(floor_like, n) for n in ("floor", "ceil", "trunc")},
    "fix": fix,
    "round": round_,
    "around": round_,
    "modf": modf,
}
