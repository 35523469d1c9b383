"""Real arrays from outside as the first argument, with arrays and numbers of the trace behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import UnsupportedError
from tests.frontend.ops import assert_same, run

X, K = np.arange(12.0) * 1.5 - 3, np.array([1, 2, 2, 0])
R, M, I = np.arange(5.0) * 0.5, np.arange(12.0).reshape(4, 3), np.array([3, 1, 2])  # noqa: E741

CALLS = """
np.clip(R, x[0], x[3]); np.clip(R, 0, x[:5]); np.clip(3.0, x[0], x[3]); R.clip(0, n); R.clip(x[0], x[3])
np.bincount(I, weights=x[:3]); np.bincount(I, x[:3], 6); np.bincount([0, 1, 1], weights=x[:3]); np.bincount(I, x[:3], 1)
np.bincount(np.arange(len(x)) // 5, weights=x); np.cov(R, x[:5]); np.corrcoef(R, x[:5]); np.average(R, weights=x[5:10])
np.trapezoid(R, dx=x[0]); np.gradient(R, x[:5]); np.gradient(R, x[3]); np.diff(R, prepend=x[0]); np.roll(R, k[0])
np.histogram(R, bins=x)[0]; np.histogram(R, 3, weights=x[:5])[0]; np.ediff1d(R, to_end=x[:1]); np.insert(R, 1, x[0])
np.pad(R, 1, constant_values=x[0]); np.pad(R, 1, "linear_ramp", end_values=x[0]); np.nan_to_num(R, nan=x[0])
np.sum(R, initial=x[0]); np.max(R, initial=x[0]); np.std(R, mean=x[3]); np.piecewise(R, [x[:5] > 0], [1, 2])
np.compress(R > 1, x[:5]); np.extract(R > 1, x[:5]); np.select([R > 1], [x[:5]], R); np.where(R > 1, x[:5], 0)
"""


@pytest.mark.parametrize("call", [part.strip() for line in CALLS.strip().splitlines() for part in line.split("; ")])
def test_as_numpy(call: str) -> None:
    scope: dict[str, Any] = {"np": np, "R": R, "M": M, "I": I}
    exec(f"def function(x, k, n):\n    return {call}", scope)
    assert_same(run(scope["function"], X, K, 2), scope["function"](X, K, 2))


def test_real_numbers_of_bins_that_change_are_seen() -> None:
    bins = np.zeros(1000, int)
    f = pf.jit(lambda x: np.bincount(bins, weights=x), backend="interpreter")
    x = np.arange(1000.0)
    assert_same(f(x), np.bincount(bins, weights=x))
    bins[500:] = 3
    assert_same(f(x), np.bincount(bins, weights=x))


WRITES = """
np.copyto(R, x[:5]); np.put(R, [0], x[0]); np.putmask(R, x[:5] > 0, 1); np.fill_diagonal(M, x[0])
np.place(R, x[:5] > 0, [1]); np.add.at(R, [0], x[0]); np.put_along_axis(R, I, x[:3], 0)
"""


@pytest.mark.parametrize("call", [part.strip() for line in WRITES.strip().splitlines() for part in line.split("; ")])
def test_they_are_not_written(call: str) -> None:
    scope: dict[str, Any] = {"np": np, "R": R, "M": M, "I": I}
    exec(f"def function(x):\n    {call}\n    return x", scope)
    with pytest.raises(UnsupportedError, match="writes a real NumPy array, which is not part of the program"):
        run(scope["function"], X)
