"""Orders of NumPy arrays, made by sorting numbers that are all different, are those of its stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.library_calls import orders

RNG = np.random.default_rng(5)
DTYPES = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]


def values(dtype: str, shape: tuple[int, ...], few: bool) -> np.ndarray:
    """All different, or many equal; of floats both zeros, infinities, and NaN of both signs."""
    if dtype == "?":
        return RNG.random(shape) > 0.5
    if dtype[0] != "f":
        info = np.iinfo(dtype)
        low, high = (0, 4) if few else (info.min, info.max)
        return RNG.integers(low, high, shape, dtype=dtype, endpoint=True)
    found = RNG.standard_normal(shape).astype(dtype)
    if few:
        found = np.round(found * 3).astype(dtype)
        for share, value in ((0.1, np.nan), (0.05, -np.inf), (0.05, np.inf), (0.1, -0.0), (0.02, -np.nan)):
            found[RNG.random(shape) < share] = value
    return found


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("shape", [(5000,), (50, 100), (4, 1000), (2500, 2), (1, 3000), (300, 10)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_orders_are_stable(dtype: str, shape: tuple[int, ...], few: bool) -> None:
    x = values(dtype, shape, few)
    for axis in range(x.ndim):
        np.testing.assert_array_equal(orders.stable_order(x, axis), np.argsort(x, axis=axis, kind="stable"))
        last = np.moveaxis(x, axis, -1)
        falling = last.shape[-1] - 1 - np.argsort(last[..., ::-1], axis=-1, kind="stable")[..., ::-1]
        for count in {0, 1, min(7, x.shape[axis]), x.shape[axis]}:
            wanted = np.moveaxis(falling[..., :count], -1, axis)
            np.testing.assert_array_equal(orders.largest(x, count, axis), wanted)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_programs_take_them(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    numbered = orders._numbered
    monkeypatch.setattr(orders, "_numbered", lambda keys: made.append(keys) or numbered(keys))
    x = values(dtype, (4000,), few=True)
    f = pf.jit(lambda x: (np.argsort(x), pf.top_k(x, 9)[1], np.sort(x)))
    order, top, rising = f(x)
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(top, orders.largest(x, 9))
    np.testing.assert_array_equal(rising, np.sort(x))
    assert len(made) >= 2
