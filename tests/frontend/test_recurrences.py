"""Recurrences of any step along one index, against Python's loops, on the interpreter and on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from tests.frontend.ops import run

i, j = pf.indices("i j")
RNG = np.random.default_rng(5)


def smoothed(x: Any, a: Any) -> Any:
    h = x.copy()
    h[i] = a * h[i - 1] + (1 - a) * x[i]
    return h


def smoothed_by_loops(x: Any, a: Any) -> Any:
    h = x.copy()
    for t in range(1, len(x)):
        h[t] = a * h[t - 1] + (1 - a) * x[t]
    return h


def decayed_rows(x: Any, a: Any) -> Any:
    """One rate per row: parallel over rows."""
    h = x.copy()
    h[i, j] = a[i] * h[i, j - 1] + x[i, j]
    return h


def decayed_rows_by_loops(x: Any, a: Any) -> Any:
    h = x.copy()
    for t in range(1, x.shape[1]):
        h[:, t] = a * h[:, t - 1] + x[:, t]
    return h


def cell(x: Any, a: Any) -> Any:
    """Along the first axis: neighbouring lanes take neighbouring columns."""
    h = x.copy()
    h[i, j] = np.tanh(a[j] * h[i - 1, j] + x[i, j])
    return h


def cell_by_loops(x: Any, a: Any) -> Any:
    h = x.copy()
    for t in range(1, len(x)):
        h[t] = np.tanh(a * h[t - 1] + x[t])
    return h


def discounted(x: Any, a: Any) -> Any:
    """From the end to the start."""
    n = x.shape[0]
    h = x.copy()
    h[n - 1 - i] = a * h[n - i] + x[n - 1 - i]
    return h


def discounted_by_loops(x: Any, a: Any) -> Any:
    h = x.copy()
    for t in range(len(x) - 2, -1, -1):
        h[t] = a * h[t + 1] + x[t]
    return h


def resonator(x: Any, a: Any) -> Any:
    """Two steps back, old values ahead, and the element that there is not before the first ones."""
    h = x.copy()
    h[i] = pf.where(pf.inside(h[i - 2]), a * h[i - 1] - h[i - 2] / 2 + x[i], x[i])
    return h


def resonator_by_loops(x: Any, a: Any) -> Any:
    h = x.copy()
    for t in range(2, len(x)):
        h[t] = a * h[t - 1] - h[t - 2] / 2 + x[t]
    return h


def predicted(x: Any, a: Any) -> Any:
    """Two arrays: the second follows the first."""
    level, trend = x.copy(), pf.zeros(x.shape, x.dtype)
    level[i] = a * x[i] + (1 - a) * level[i - 1]
    trend[i] = a * (level[i] - level[i - 1]) + (1 - a) * trend[i - 1]
    return level, level + trend


def predicted_by_loops(x: Any, a: Any) -> Any:
    level, trend = x.copy(), np.zeros_like(x)
    for t in range(1, len(x)):
        level[t] = a * x[t] + (1 - a) * level[t - 1]
        trend[t] = a * (level[t] - level[t - 1]) + (1 - a) * trend[t - 1]
    return level, level + trend


def gauss_seidel(x: Any, a: Any) -> Any:
    h = x.copy()
    h[i] = a * (h[i - 1] + h[i + 1])
    return h


def gauss_seidel_by_loops(x: Any, a: Any) -> Any:
    h = x.copy()
    for t in range(1, len(x) - 1):
        h[t] = a * (h[t - 1] + h[t + 1])
    return h


def between_numpy_calls(x: Any, a: Any) -> Any:
    q = pf.indices("j", within=(1, x.shape[1]))
    y = np.exp(-x * x)
    h = y.copy()
    h[i, q] = pf.where(q > 3, a[i] * h[i, q - 1] + y[i, q], h[i, q - 1] / 2)
    return h.sum(axis=0), (h - y).max()


def between_numpy_calls_by_loops(x: Any, a: Any) -> Any:
    y = np.exp(-x * x)
    h = y.copy()
    for t in range(1, x.shape[1]):
        h[:, t] = a * h[:, t - 1] + y[:, t] if t > 3 else h[:, t - 1] / 2
    return h.sum(axis=0), (h - y).max()


LINES: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (smoothed, smoothed_by_loops),
    (discounted, discounted_by_loops),
    (resonator, resonator_by_loops),
    (predicted, predicted_by_loops),
    (gauss_seidel, gauss_seidel_by_loops),
]
TABLES: list[tuple[Callable[..., Any], Callable[..., Any], int]] = [
    (decayed_rows, decayed_rows_by_loops, 0),
    (cell, cell_by_loops, 1),
    (between_numpy_calls, between_numpy_calls_by_loops, 0),
]


def assert_close(found: Any, wanted: Any) -> None:
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for f, w in pairs:
        np.testing.assert_allclose(f, w, rtol=1e-12, atol=1e-12)
        assert f.dtype == w.dtype


@pytest.mark.parametrize(("traced", "by_loops"), LINES, ids=lambda f: f.__name__)
def test_a_line_equals_the_loop(traced: Callable[..., Any], by_loops: Callable[..., Any]) -> None:
    for size in (1, 2, 3, 37):
        x = RNG.normal(size=size)
        assert_close(run(traced, x, 0.75), by_loops(x, 0.75))
    assert_close(pf.jit(traced)(x, 0.75), by_loops(x, 0.75))


@pytest.mark.parametrize(("traced", "by_loops", "axis"), TABLES, ids=lambda f: getattr(f, "__name__", ""))
def test_a_table_equals_the_loop(traced: Callable[..., Any], by_loops: Callable[..., Any], axis: int) -> None:
    for shape in ((1, 5), (33, 6), (7, 70)):
        x, a = RNG.normal(size=shape), RNG.normal(size=shape[axis]) / 2
        assert_close(run(traced, x, a), by_loops(x, a))
    assert_close(pf.jit(traced)(x, a), by_loops(x, a))


def test_integers_wrap_as_the_loop_does() -> None:
    def hashed(x: Any) -> Any:
        h = x.copy()
        h[i] = (h[i - 1] * 31 + x[i]) % 1009
        return h

    x = RNG.integers(0, 1000, 50)
    wanted = x.copy()
    for t in range(1, len(x)):
        wanted[t] = (wanted[t - 1] * 31 + x[t]) % 1009
    np.testing.assert_array_equal(run(hashed, x), wanted)


def test_new_values_make_choices() -> None:
    def tent(x: Any) -> Any:
        h = x.copy()
        h[i, j] = pf.where(h[i - 1, j] > 0.5, 2 - 2 * h[i - 1, j], 2 * h[i - 1, j])
        return h

    x = RNG.random((9, 5))
    wanted = x.copy()
    for t in range(1, len(x)):
        wanted[t] = np.where(wanted[t - 1] > 0.5, 2 - 2 * wanted[t - 1], 2 * wanted[t - 1])
    np.testing.assert_array_equal(run(tent, x), wanted)


def test_what_surrounds_a_recurrence_is_fused_with_it() -> None:
    def program(x: Any, a: Any) -> Any:
        y = np.sqrt(np.abs(x))
        h = y.copy()
        h[i, j] = a[j] * h[i - 1, j] + y[i, j]
        return h.sum(axis=0)

    plan = pf.jit(program).plan(pf.spec("f32[N, M]"), pf.spec("f32[M]"), target="h200")
    assert plan.kernels[0].stores and "y" not in plan.kernels[0].stores
    assert "recurrence(" in str(plan)


def test_few_rows_are_dealt_to_warps_and_recomputed_where_they_are_needed() -> None:
    def averaged(x: Any, b: Any) -> Any:
        h = pf.zeros(x.shape, x.dtype)
        h[i, j] = pf.where(pf.inside(h[i - 1, j]), h[i - 1, j] / 2 + b[i, j] * x[i, j], b[i, j] * x[i, j])
        return h

    (kernel,) = pf.jit(averaged).plan(pf.spec("f32[N, 4096]"), pf.spec("f32[N, 4096]"), target="h200").kernels
    assert (kernel.strategy, kernel.threads) == ("serial", 32)
    assert [v.name for v in kernel.statements] == ["multiply", "h"]  # the guard is no product of its own
    (kernel,) = pf.jit(averaged).plan(pf.spec("f32[N, 65536]"), pf.spec("f32[N, 65536]"), target="h200").kernels
    assert (kernel.strategy, kernel.threads) == ("serial", 128)
    (kernel,) = pf.jit(averaged).plan(pf.spec("f32[N, 4096]"), pf.spec("f32[N, 4096]"), target="cpu").kernels
    assert kernel.strategy == "columns"  # vectors of a core


def test_explain_says_what_one_thread_does_alone() -> None:
    line = pf.jit(smoothed).plan(pf.spec("f32[1000000]"), 0.5, target="h200").explain()
    assert "in order   h: a thread takes all of i, step by step; parts of it cannot be joined" in line
    rows = pf.jit(decayed_rows).plan(pf.spec("f32[64, 4096]"), pf.spec("f32[64]"), target="cpu").explain()
    assert "in order   h: a thread takes all of j, step by step, one each of i side by side; parts" in rows
    assert "in order   " not in pf.jit(np.cumsum).plan(pf.spec("f32[1000000]"), target="h200").explain()


def test_a_schedule_that_deals_a_recurrence_to_threads_is_refused() -> None:
    plan = pf.jit(decayed_rows).plan(pf.spec("f32[64, 4096]"), pf.spec("f32[64]"), target="h200")
    text = str(plan)
    assert "serial" in text
    with pytest.raises(pf.errors.ScheduleError):
        pf.parse_schedule(
            text.replace("serial", "rows"), pf.jit(decayed_rows), pf.spec("f32[64, 4096]"), pf.spec("f32[64]")
        )


def test_a_recurrence_from_a_given_start() -> None:
    """The state is one longer than what drives it: an index runs over both where all accesses are in bounds."""

    def states(x: Any, a: Any) -> Any:
        s = pf.zeros(x.shape[0] + 1)
        s[0] = 2.0
        s[i + 1] = s[i] * a + x[i]
        return s

    for size in (1, 9):
        x = RNG.normal(size=size)
        wanted = np.full(size + 1, 2.0)
        for t in range(size):
            wanted[t + 1] = wanted[t] * 0.5 + x[t]
        np.testing.assert_allclose(run(states, x, 0.5), wanted, rtol=1e-12)


def test_differences_over_steps_of_their_own() -> None:
    def slopes(x: Any, h: Any) -> Any:
        d = pf.empty()
        d[i] = (x[i + 1] - x[i]) / h[i]
        return d

    x, h = RNG.normal(size=8), RNG.random(7) + 1
    np.testing.assert_allclose(run(slopes, x, h), np.diff(x) / h, rtol=1e-12)
    with pytest.raises(pf.errors.IndexingError, match="index i runs over axis 0 of x of size .* and over axis 0 of h"):
        run(slopes, x, RNG.random(6))
