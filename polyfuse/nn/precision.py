"""In which dtype sums and exponentials are computed."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def wide(x: Array) -> Array:
    """`x` in float32, or in float64 where that is the dtype it promotes to: 16-bit floats have too few digits for
    sums, and float16 overflows at 65504."""
    return x.astype(np.result_type(x.dtype, np.float32))


def float_of(x: Array) -> np.dtype[Any]:
    """The dtype of results: that of `x` for floats, else what `wide` computes in."""
    return x.dtype if x.dtype.kind in "fV" else np.result_type(x.dtype, np.float32)
