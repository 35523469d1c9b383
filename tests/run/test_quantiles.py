"""Quantiles through the back ends: one sort by the library, one kernel that reads it at computed places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import ArgumentError, PolyfuseError, UnsupportedError

X = np.random.default_rng(0).standard_normal((5, 7))


@pytest.mark.parametrize("backend", ["numba_cpu", "interpreter"])
def test_quantiles_with_and_without_nan(backend: str) -> None:
    def f(x, q):
        return np.quantile(x, q, axis=1), np.nanquantile(x, q, axis=1), np.nanmedian(x, axis=0), np.median(x, (0, 1))

    x = X.copy()
    x[1, :3] = np.nan
    with np.errstate(invalid="ignore"):
        expected = f(x, np.array([0.1, 1.0]))
    for a, b in zip(pf.jit(f, backend=backend)(x, np.array([0.1, 1.0])), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_median_without_nan_is_a_sort_and_one_kernel() -> None:
    plan = pf.jit(lambda x: np.nanmedian(x, axis=1), target="h200").plan(pf.spec("f32[N, 1000]"))
    assert len(plan.library_calls) == 1 and len(plan.kernels) == 1


@pytest.mark.parametrize("backend", ["numba_cpu", "interpreter"])
@pytest.mark.parametrize(
    "index",
    [lambda: np.full((1, 7), 2), lambda: np.full((1, 7), -1), lambda: np.uint8(3) * np.ones((1, 7), np.uint8)],
)
def test_an_index_that_is_a_constant(backend: str, index: Any) -> None:
    def f(x):
        return np.take_along_axis(np.cumsum(x, 0), index(), 0), pf.take(x, np.int64(2), 0, bounds="assume")

    first, second = pf.jit(f, backend=backend)(X)
    np.testing.assert_allclose(first, np.take_along_axis(np.cumsum(X, 0), index(), 0))
    np.testing.assert_array_equal(second, X[2])


@pytest.mark.parametrize("backend", ["numba_cpu", "interpreter"])
def test_a_prefix_that_is_read_whole_and_at_its_end(backend: str) -> None:
    """The second read alone is no place for the prefix: it stays apart instead of being proposed without end."""

    def f(x, w):
        return np.quantile(x, [0.0, 0.3, 0.8], method="inverted_cdf", weights=w)

    np.testing.assert_array_equal(pf.jit(f, backend=backend)(X, X * X), f(X, X * X))


@pytest.mark.parametrize(
    "function, kind, message",
    [
        (lambda x: np.quantile(x, 1.5), ArgumentError, "quantiles lie between 0 and 1"),
        (lambda x: np.percentile(x, [50, -1]), ArgumentError, "quantiles lie between 0 and 100"),
        (lambda x: np.quantile(x, 0.5, method="mode"), ArgumentError, "there is no method 'mode'"),
        (lambda x: np.quantile(x, 0.5, weights=x), UnsupportedError, "method='inverted_cdf' only"),
    ],
)
def test_what_is_refused(function: Any, kind: type[PolyfuseError], message: str) -> None:
    with pytest.raises(kind, match=message):
        pf.jit(function)(X)


def test_a_traced_quantile_out_of_range_is_nan() -> None:
    got = pf.jit(lambda x, q: np.quantile(x, q), backend="interpreter")(X, np.array([0.5, 1.5, np.nan]))
    assert np.isnan(got).tolist() == [False, True, True]
