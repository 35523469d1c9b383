"""Arrays without elements: every strategy and price knows extents of zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf


def substituted(lower: Any, b: Any) -> Any:
    """The first step sums over nothing."""
    x = np.zeros_like(b)
    for i in range(b.shape[0]):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return x


PROGRAMS = {
    "a matrix both ways": lambda a, x, y: (a @ x, a.T @ y),
    "normal equations": lambda a, x, y: a.T @ (a @ x),
    "sums over every axis": lambda a, x, y: (a.sum(0), a.sum(1), a.sum()),
    "prefixes": lambda a, x, y: np.cumsum(a, axis=0).sum(1),
    "a transposition": lambda a, x, y: a.T + 1,
}


@pytest.mark.parametrize("target", ["h200", "cpu"])
@pytest.mark.parametrize("shape", [(0, 6), (6, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_empty_arrays_are_planned(name: str, shape: tuple[int, int], target: str) -> None:
    m, n = shape
    plan = pf.jit(PROGRAMS[name]).plan(*map(pf.spec, (f"f32[{m}, {n}]", f"f32[{n}]", f"f32[{m}]")), target=target)
    assert plan.fallback == "", "an internal failure"


def picked(x: Any) -> Any:
    rows = np.take(np.exp(x), [0, -1], axis=-2)
    return rows - rows.mean(axis=-1, keepdims=True)


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_rows_without_elements_fill_no_panel(target: str) -> None:
    assert pf.jit(picked).plan(pf.spec("f32[6, 0]"), target=target).fallback == ""


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_sums_over_nothing_among_others(target: str) -> None:
    plan = pf.jit(substituted).plan(pf.spec("f64[6, 6]"), pf.spec("f64[6]"), target=target)
    assert plan.fallback == "" and len(plan.kernels) == 1


def test_what_runs_along_no_empty_rows_is_stored() -> None:
    """Prefixes of no row at all share no kernel with a minimum that every block would store."""

    def mixed(x: Any, y: Any) -> Any:
        return x.min(axis=0), np.cumsum(np.sort(y[:, :-2], axis=-1), axis=-1)

    x = np.random.default_rng(1).normal(size=(1024, 15)).astype(np.float32)
    for rows in (2, 4, 2):
        y = np.random.default_rng(rows).integers(-9, 9, (15, rows, 15)).astype(np.float32)
        for found, expected in zip(pf.jit(mixed, verify=True)(x, y), mixed(x, y), strict=True):
            np.testing.assert_array_equal(found, expected)


def smoothed(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    w = np.lib.stride_tricks.sliding_window_view(e, 2, axis=-1) @ np.array([0.5, 2.0])
    return w[..., :-2] + w[..., 1:-1] * 2 + w[..., 2:]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(1, 2), (1, 3), (3, 2), (0, 9), (3, 9)], ids=str)
def test_kernels_that_never_run_keep_the_rules(shape: tuple[int, int], dtype: str) -> None:
    x = np.random.default_rng(1).normal(size=shape).astype(dtype)
    found, expected = pf.jit(smoothed, verify=True)(x), smoothed(x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-2)
