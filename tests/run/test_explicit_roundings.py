"""Casts to 16 bits and back, as a program writes them to round: no store does it for them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf

X = np.linspace(-2, 3, 7 * 33, dtype=np.float32).reshape(7, 33)


@pytest.mark.parametrize("options", [{}, {"backend": "interpreter", "target": "h200"}], ids=["cpu", "h200"])
@pytest.mark.parametrize("narrow", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
def test_what_is_cast_to_16_bits_and_back_is_rounded(narrow: Any, options: Any) -> None:
    def function(x: Any) -> Any:
        high = x.astype(narrow).astype(np.float32)
        low = (x - high).astype(narrow).astype(np.float64)
        return high, x - high, low, x.astype(narrow) * np.float32(3), x.T[::-1].astype(narrow).astype(np.float32)

    for found, wanted in zip(pf.jit(**options)(function)(X), function(X), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
