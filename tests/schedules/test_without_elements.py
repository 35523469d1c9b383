"""Of arrays without elements nothing is computed, whatever they are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf


def moved(y: Any, dt: float) -> Any:
    """Two steps of Runge and Kutta around a centre."""

    def speed(s: Any) -> Any:
        x, v = s[:, :2], s[:, 2:]
        return np.concatenate([v, -x / ((x**2).sum(1, keepdims=True) + 0.1) ** 1.5], axis=1)

    for _ in range(2):
        k1 = speed(y)
        k2 = speed(y + dt / 2 * k1)
        k3 = speed(y + dt / 2 * k2)
        y = y + dt / 6 * (k1 + 4 * k2 + speed(y + dt * k3))
    return y


def test_no_kernel_computes_what_is_not_there() -> None:
    """There were 36 kernels, whose results had no elements."""
    plan = pf.jit(moved).plan(np.ones((0, 4), np.float32), 0.01)
    assert len(plan.kernels) == 1 and "sqrt" not in plan.source() and "sum" not in plan.source()
    found = pf.jit(moved)(np.ones((0, 4), np.float32), 0.01)
    assert found.shape == (0, 4) and found.dtype == np.float32


@pytest.mark.parametrize("options", [{}, {"backend": "interpreter", "target": "h200"}], ids=["cpu", "h200"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x > 0, x.astype(np.int8), np.exp(x)),
        lambda x: (x.sum(), x.sum(axis=0), x.prod(axis=0), (x > 0).any(axis=0), x.mean(axis=1)),
        lambda x: (np.cumsum(x, axis=0), np.sort(x, axis=0), x.argmax(axis=1), np.take(x, [0], axis=1)),
        lambda x: (np.concatenate([x, x + 1]), np.concatenate([x, np.ones((2, 3))]).sum(axis=0), x @ np.ones((3, 2))),
        lambda x: (np.einsum("ij,ik->jk", x, x), (x.T @ x) + 1, np.pad(x, 1)),
        lambda x: (np.where(x > 0, x, 2.0)[1:], x[::-1], x.T.copy(), np.roll(x, 1, axis=0)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_results_are_those_of_numpy(function: Any, dtype: Any, options: dict[str, Any]) -> None:
    x = np.ones((0, 3), dtype)
    with np.errstate(all="ignore"):
        for found, expected in zip(pf.jit(**options)(function)(x), function(x), strict=True):
            assert found.shape == expected.shape and found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
