"""Constants of kernel IR as weak literals of the printed text."""

from __future__ import annotations

import math

import numpy as np

from polyfuse.codegen.tree import Literal, Name, Node, Unary
from polyfuse.dtypes import DType, f32


def literal(value: bool | int | float, dtype: DType) -> Node:
    """The shortest literal that converts to exactly `value` in `dtype`."""
    if dtype.kind == "b":
        return Literal(bool(value))
    if not dtype.is_float:
        return Literal(int(value))
    number = float(value)
    if math.isnan(number):
        return Name("NAN")
    if math.isinf(number):
        return Name("INF") if number > 0 else Unary("-", Name("INF"))
    return Literal(number, _shortest(number) if dtype.compute == f32 else "")


def _shortest(number: float) -> str:
    """``0.1`` rather than ``0.10000000149011612``: the digits that single precision needs."""
    with np.errstate(over="ignore"):
        single = np.float32(number)
        shown = repr(float(str(single)))
        return shown if np.float32(float(shown)) == single else repr(float(single))
