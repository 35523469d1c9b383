"""Every scalar function of `polyfuse.scalars` on NumPy arrays: the primitives of both interpreters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from polyfuse import dtypes
from polyfuse.backends.interpreter.special import Array, elementwise, fma, lgamma, multiply_high, power, tgamma
from polyfuse.dtypes import DType
from polyfuse.scalars import FUNCTIONS


def _reciprocal_root(x: Array) -> Array:
    return np.asarray(x.dtype.type(1) / np.sqrt(x))


def _invert(x: Array) -> Array:
    return np.asarray(np.logical_not(x) if x.dtype == np.bool_ else np.invert(x))


_OWN: dict[str, Callable[..., Array]] = {
    "rsqrt": _reciprocal_root,
    "divide_short": np.divide,
    "exp_short": np.exp,
    "tanh_short": np.tanh,
    "invert": _invert,
    "power": power,
    "fma": fma,
    "multiply_high": multiply_high,
    "erf": elementwise(math.erf),
    "erfc": elementwise(math.erfc),
    "lgamma": elementwise(lgamma),
    "tgamma": elementwise(tgamma),
}
_CONVERSIONS = ("cast", "bitcast")
IMPLEMENTATIONS: dict[str, Callable[..., Array]] = {
    name: _OWN[name] if name in _OWN else getattr(np, name) for name in FUNCTIONS if name not in _CONVERSIONS
}


def apply(function: str, operands: Sequence[Array], dtype: DType) -> Array:
    """One function slot by slot, in the operands' dtype; the result is held in ``dtype.compute``.

    Invalid operations give NaN or, for integer division by zero, 0, without a warning.
    """
    with np.errstate(all="ignore"):
        if function == "cast":
            return convert(operands[0], dtype)
        if function == "bitcast":
            return np.ascontiguousarray(operands[0]).view(dtype.numpy)
        result = IMPLEMENTATIONS[function](*operands)
        return np.asarray(result).astype(dtype.compute.numpy, copy=False)


def convert(value: Array, dtype: DType) -> Array:
    """A register value in `dtype`; 16-bit floats are rounded and stay in float32."""
    with np.errstate(all="ignore"):
        if dtype == dtypes.bool_:
            return np.asarray(value != 0)
        if value.dtype.kind == "f" and dtype.kind in "iu":
            value = np.trunc(value)
        return value.astype(dtype.numpy).astype(dtype.compute.numpy, copy=False)
