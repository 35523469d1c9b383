"""Writes through index arrays that hit each element once are choices, not scatters; wrong indices still raise."""

from __future__ import annotations

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.expr import Scatter, topological
from polyfuse.face.interpreted import run_plan
from polyfuse.frontends.numpy_like import specs_of_arrays, trace


def one_hot(labels, x):
    y = np.zeros((labels.shape[0], x.shape[0]), dtype=np.float32)
    y[np.arange(labels.shape[0]), labels] = 1
    return y * x


def added_to(labels, x):
    y = np.full((labels.shape[0], x.shape[0]), 0.5, dtype=np.float32)
    y[np.arange(labels.shape[0]), labels] += x[labels]
    return y


def diagonal(labels, x):
    y = x[:, None] * x
    k = np.arange(x.shape[0])
    y[k, k] = labels[0]
    return y


def shifted(labels, x):
    n = x.shape[0]
    y = x[:, None] + np.zeros((n, n + 3), dtype=np.float32)
    k = np.arange(n)
    y[k, k + 2] -= 1
    y[k[1:], k[:-1]] *= 2
    return y


def largest_only(labels, x):
    y = x[labels][:, None] * x
    out = np.zeros_like(y)
    out[np.arange(labels.shape[0]), y.argmax(axis=1)] = 7
    return out


def three_ways(labels, x):
    y = np.zeros((2, labels.shape[0], x.shape[0]), dtype=np.float32)
    y[1, np.arange(labels.shape[0]), labels] = x[0]
    y[:, np.arange(labels.shape[0]), labels] = 3.0
    return y


FUNCTIONS = (one_hot, added_to, diagonal, shifted, largest_only)
LABELS, X = np.array([0, 3, -1, 2, 0, -4]), np.linspace(1, 2, 4, dtype=np.float32)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_no_scatter_and_the_values_of_numpy(function) -> None:
    traced = trace(function, specs_of_arrays([LABELS, X]))
    assert not any(isinstance(node, Scatter) for node in topological(traced.program.outputs))
    expected = function(LABELS, X)
    np.testing.assert_allclose(pf.jit(function)(LABELS, X), expected, rtol=1e-6)
    np.testing.assert_allclose(run_plan(pf.jit(function).plan(LABELS, X, target="h200"), (LABELS, X))[0], expected)


def test_indices_that_leave_an_axis_alone_may_meet_twice() -> None:
    np.testing.assert_allclose(pf.jit(three_ways)(LABELS, X), three_ways(LABELS, X))


@pytest.mark.parametrize("function", [one_hot, added_to], ids=lambda f: f.__name__)
@pytest.mark.parametrize("label", [4, -5, 10**9])
def test_an_index_out_of_bounds_is_an_error(function, label: int) -> None:
    jitted = pf.jit(function)
    jitted(LABELS, X)
    with pytest.raises(IndexError):
        jitted(np.array([0, label, 1]), X)


@pytest.mark.parametrize("index", [[0, 5], [-6, 1]])
def test_an_index_into_a_broadcast_array_is_checked(index: list[int]) -> None:
    def constant(i, x):
        return np.full(5, 2.0, dtype=np.float32)[i] + x

    def repeated(i, x):
        return np.broadcast_to(x[:, None], (2, 5))[:, i] * 2

    x = np.ones(2, np.float32)
    for function in (constant, repeated):
        jitted = pf.jit(function)
        good = np.array([4, -5])
        np.testing.assert_allclose(jitted(good, x), function(good, x))
        with pytest.raises(IndexError):
            jitted(np.array(index), x)


def cross_entropy_gradient(labels, x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    s = e / e.sum(axis=1, keepdims=True)
    s[np.arange(len(labels)), labels] -= 1
    return s / len(labels)


def test_an_update_of_what_stands_there_gathers_nothing() -> None:
    generator = np.random.default_rng(0)
    labels, x = generator.integers(-30, 30, 40), generator.standard_normal((40, 30)).astype(np.float32)
    function = pf.jit(cross_entropy_gradient)
    for target in ("h200", "cpu"):
        plan = function.plan(labels, x, target=target)
        assert len(plan.kernels) == 1 and not plan.library_calls, plan
    np.testing.assert_allclose(function(labels, x), cross_entropy_gradient(labels, x.astype(np.float64)), atol=1e-6)
    assert function(labels[:39], x[:39]).shape == (39, 30)
    with pytest.raises(IndexError, match="out of bounds"):
        function(labels + 30, x)


def test_fewer_positions_than_rows_are_no_scatter_either() -> None:
    def some_rows(labels, x):
        y = x * 2
        y[np.arange(len(labels)), labels] *= 3
        return y

    labels, x = np.array([1, 0, 2]), np.arange(20.0).reshape(5, 4)
    function = pf.jit(some_rows)
    np.testing.assert_array_equal(function(labels, x), some_rows(labels, x))
    assert not function.plan(labels, x).library_calls
    with pytest.raises(IndexError):
        function(np.zeros(6, dtype=np.int64), x)
