"""Arrays that follow from each other along one index: several targets in one statement, against Python's loops."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from tests.frontend.ops import run

t, i, j = pf.indices("t i j")
RNG = np.random.default_rng(8)


def rotated(x: Any, a: Any) -> Any:
    """A filter with two states."""
    u = x.copy()
    v = pf.zeros(x.shape, x.dtype)
    u[t], v[t] = a * u[t - 1] - v[t - 1] / 2 + x[t], v[t - 1] / 2 + a * u[t - 1]
    return u, v


def rotated_by_loops(x: Any, a: Any) -> Any:
    u, v = x.copy(), np.zeros_like(x)
    for n in range(1, len(x)):
        u[n], v[n] = a * u[n - 1] - v[n - 1] / 2 + x[n], v[n - 1] / 2 + a * u[n - 1]
    return u, v


def predator_and_prey(x: Any, a: Any) -> Any:
    """Three arrays, one without a say in the others; two steps back."""
    prey, predators, seen = abs(x), abs(x) / 2, pf.zeros(x.shape[0])
    prey[t], predators[t], seen[t] = (
        prey[t - 1] * (1 + a / 10) - prey[t - 2] * predators[t - 1] / 20,
        predators[t - 1] * 0.9 + prey[t - 1] * predators[t - 2] / 40,
        seen[t - 1] + predators[t - 1],
    )
    return prey, predators, seen


def predator_and_prey_by_loops(x: Any, a: Any) -> Any:
    prey, predators, seen = abs(x), abs(x) / 2, np.zeros(len(x))
    for n in range(2, len(x)):
        prey[n], predators[n], seen[n] = (
            prey[n - 1] * (1 + a / 10) - prey[n - 2] * predators[n - 1] / 20,
            predators[n - 1] * 0.9 + prey[n - 1] * predators[n - 2] / 40,
            seen[n - 1] + predators[n - 1],
        )
    return prey, predators, seen


def backwards(x: Any, a: Any) -> Any:
    n = x.shape[0]
    u, v = x.copy(), x * 2
    u[n - 1 - t], v[n - 1 - t] = v[n - t] * a + x[n - 1 - t], u[n - t] - v[n - 1 - t] / 8
    return u, v


def backwards_by_loops(x: Any, a: Any) -> Any:
    u, v = x.copy(), x * 2
    for n in range(len(x) - 2, -1, -1):
        u[n], v[n] = v[n + 1] * a + x[n], u[n + 1] - v[n] / 8
    return u, v


def counted(x: Any, a: Any) -> Any:
    """States of different dtypes, and a choice by the index."""
    level, crossings = x.copy(), pf.zeros(x.shape, np.int64)
    level[t], crossings[t] = (
        pf.where(t > 2, a, 1) * level[t - 1] + pf.where(t > 2, x[t], -x[t]) * crossings[t - 1],
        crossings[t - 1] + pf.where(level[t - 1] > 0, 1, 0),
    )
    return level, crossings


def counted_by_loops(x: Any, a: Any) -> Any:
    level, crossings = x.copy(), np.zeros(len(x), np.int64)
    for n in range(1, len(x)):
        level[n], crossings[n] = (
            (a if n > 2 else 1) * level[n - 1] + (x[n] if n > 2 else -x[n]) * crossings[n - 1],
            crossings[n - 1] + (1 if level[n - 1] > 0 else 0),
        )
    return level, crossings


def columns(x: Any, a: Any) -> Any:
    """Two columns of one array."""
    s = pf.zeros((x.shape[0], 2))
    s[0] = 1.0
    s[t, 0], s[t, 1] = s[t - 1, 0] + a * s[t - 1, 1], s[t - 1, 0] * x[t]
    return s


def columns_by_loops(x: Any, a: Any) -> Any:
    s = np.zeros((len(x), 2))
    s[0] = 1.0
    for n in range(1, len(x)):
        s[n, 0], s[n, 1] = s[n - 1, 0] + a * s[n - 1, 1], s[n - 1, 0] * x[n]
    return s


def cells(x: Any, a: Any) -> Any:
    """A memory cell per column, with what comes before and behind in NumPy's spelling."""
    drive = np.exp(-x[:, None] * np.arange(3.0))
    c, h = drive.copy(), np.zeros_like(drive)
    c[t, j], h[t, j] = np.tanh(h[t - 1, j]) * c[t - 1, j] + drive[t, j], np.tanh(a * c[t - 1, j])
    return (h * drive).sum(axis=0), c.max()


def cells_by_loops(x: Any, a: Any) -> Any:
    drive = np.exp(-x[:, None] * np.arange(3.0))
    c, h = drive.copy(), np.zeros_like(drive)
    for n in range(1, len(x)):
        c[n], h[n] = np.tanh(h[n - 1]) * c[n - 1] + drive[n], np.tanh(a * c[n - 1])
    return (h * drive).sum(axis=0), c.max()


def within_a_range(x: Any, a: Any) -> Any:
    """Points outside of the range stay, and an update reads its own point."""
    q = pf.indices("q", within=(3, x.shape[0]))
    u, v = x.copy(), x * 3
    u[q], v[q] = v[q - 3] + a * u[q], u[q - 1] - v[q]
    return u, v


def within_a_range_by_loops(x: Any, a: Any) -> Any:
    u, v = x.copy(), x * 3
    for n in range(3, len(x)):
        u[n], v[n] = v[n - 3] + a * u[n], u[n - 1] - v[n]
    return u, v


PAIRS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (rotated, rotated_by_loops),
    (predator_and_prey, predator_and_prey_by_loops),
    (backwards, backwards_by_loops),
    (counted, counted_by_loops),
    (columns, columns_by_loops),
    (cells, cells_by_loops),
    (within_a_range, within_a_range_by_loops),
]


@pytest.mark.parametrize(("traced", "by_loops"), PAIRS, ids=lambda f: f.__name__)
def test_arrays_that_take_turns_equal_the_loop(traced: Callable[..., Any], by_loops: Callable[..., Any]) -> None:
    for size in (1, 2, 3, 4, 29):
        x = RNG.normal(size=size)
        _assert_close(run(traced, x, 0.75), by_loops(x, 0.75))
    _assert_close(pf.jit(traced)(x, 0.75), by_loops(x, 0.75))
    _assert_close(pf.jit(traced, backend="interpreter")(x, 0.75), by_loops(x, 0.75))


def _assert_close(found: Any, wanted: Any) -> None:
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for f, w in pairs:
        assert f.dtype == w.dtype
        np.testing.assert_allclose(f, w, rtol=1e-11, atol=1e-11)


def test_they_are_one_kernel_that_stores_what_is_returned() -> None:
    plan = pf.jit(rotated).plan(pf.spec("f32[N]"), 0.5, target="h200")
    assert [kernel.stores for kernel in plan.kernels] == [("u", "v")]
    (kernel,) = pf.jit(lambda x, a: rotated(x, a)[1]).plan(pf.spec("f32[N]"), 0.5, target="h200").kernels
    assert kernel.stores == ("v",)


def test_values_at_the_same_point_need_no_turns() -> None:
    def swapped(x: Any, y: Any) -> Any:
        u, v = x.copy(), y.copy()
        u[i], v[i] = v[i] + 1, u[i] * 2
        return u, v

    x, y = RNG.normal(size=(2, 9))
    _assert_close(run(swapped, x, y), (y + 1, x * 2))
    assert "recurrence" not in str(pf.jit(swapped).plan(x, y))


def test_reading_ahead_needs_no_turns() -> None:
    def ahead(x: Any, y: Any) -> Any:
        u, v = x.copy(), y.copy()
        u[i], v[i] = v[i + 1] + 1, u[i + 1] * 2
        return u, v

    x, y = RNG.normal(size=(2, 9))
    u, v = x.copy(), y.copy()
    u[:-1], v[:-1] = y[1:] + 1, x[1:] * 2
    _assert_close(run(ahead, x, y), (u, v))
    assert "recurrence" not in str(pf.jit(ahead).plan(x, y))


def test_statements_of_their_own_run_one_after_the_other() -> None:
    def apart(x: Any) -> Any:
        u, v = x.copy(), x * 2
        u[t] = u[t - 1] + v[t - 1]
        v[t] = u[t - 1] - v[t - 1]
        return u, v

    x = RNG.normal(size=9)
    u, v = x.copy(), x * 2
    for n in range(1, 9):
        u[n] = u[n - 1] + v[n - 1]
    for n in range(1, 9):
        v[n] = u[n - 1] - v[n - 1]
    _assert_close(run(apart, x), (u, v))


def test_arrays_of_other_indices_that_take_turns_are_refused() -> None:
    def mixed(x: Any) -> Any:
        u = pf.zeros(x.shape[0])
        w = x.copy()
        u[t], w[t, j] = w[t - 1, 0], u[t - 1] + x[t, j]
        return w

    with pytest.raises(pf.errors.UnsupportedError, match=r"u\[t\], w\[t, j\] read new values of each other"):
        pf.jit(mixed).plan(pf.spec("f64[N, M]"))


def test_new_values_through_another_view_are_refused() -> None:
    def shifted(x: Any) -> Any:
        y = x.copy()
        rest = y[1:]
        y[i] = rest[i - 2] + x[i]
        return y

    def reversed_(x: Any) -> Any:
        y = x.copy()
        back = y[::-1]
        y[i] = back[i] + 1
        return y

    with pytest.raises(pf.errors.UnsupportedError, match="read through another view of the same memory"):
        pf.jit(shifted).plan(pf.spec("f64[N]"))
    with pytest.raises(pf.errors.IndexingError, match="meets new values"):
        pf.jit(reversed_).plan(pf.spec("f64[N]"))


def test_elements_written_earlier_do_not_join_statements() -> None:
    def apart(x: Any) -> Any:
        u, v = x.copy(), x * 2
        element = x[t]
        u[t] = v[t - 1] + 1
        v[t] = element * 3
        return u, v

    x = RNG.normal(size=9)
    u = x.copy()
    u[1:] = 2 * x[:-1] + 1
    _assert_close(run(apart, x), (u, x * 3))


def test_a_value_written_before_another_line_is_refused_where_they_take_turns() -> None:
    def apart(x: Any) -> Any:
        u, v = x.copy(), x * 2
        first = v[t - 1] + 1
        second = u[t - 1] * 3
        u[t] = first
        v[t] = second
        return u, v

    with pytest.raises(pf.errors.UnsupportedError, match="was written before .* was assigned, and they"):
        pf.jit(apart).plan(pf.spec("f64[N]"))


def drawn(seed: int) -> tuple[str, str]:
    """A random statement with two or three targets, and the loop that it stands for, as functions named f."""
    draw = random.Random(seed)
    names, rows, backwards = "abc"[: draw.choice([2, 2, 3])], draw.random() < 0.3, draw.random() < 0.25
    back = ahead = 0
    values = []
    for _ in names:
        terms = []
        for _ in range(draw.randint(1, 3)):
            read = draw.choice(names + "x")
            lag = draw.choice([0, 1, -1] if read == "x" else [1, 1, 1, 2, 3, 0])
            back, ahead = max(back, lag), max(ahead, -lag)
            terms.append(f"{draw.choice([0.5, -0.25, 1])} * {_element(read, lag, rows, backwards)}")
        values.append(" + ".join(terms))
    statement = f"{', '.join(_element(name, 0, rows, backwards) for name in names)} = {', '.join(values)}"
    before = ["n = x.shape[0]", *(f"{name} = x * {k + 2}" for k, name in enumerate(names))]
    loop = [f"for t in range({back}, n - {ahead}):", *(["    for j in range(x.shape[1]):"] if rows else [])]
    loop.append(" " * 4 * len(loop) + statement)
    returned = f"return {', '.join(names)}"
    written, looped = (
        "def f(x):\n" + "".join(f"    {line}\n" for line in (*before, *middle, returned))
        for middle in ([statement], loop)
    )
    return written, looped


def _element(name: str, lag: int, rows: bool, backwards: bool) -> str:
    at = f"t - {lag}" if lag > 0 else f"t + {-lag}" if lag else "t"
    at = f"n - 1 - ({at})" if backwards else at
    return f"{name}[{at}, j]" if rows else f"{name}[{at}]"


@pytest.mark.parametrize("seed", range(24))
def test_random_statements_equal_their_loops(seed: int) -> None:
    functions = []
    for text in drawn(seed):
        scope: dict[str, Any] = {"t": t, "j": j}
        exec(compile(text, f"<statement {seed}>", "exec"), scope)
        functions.append(scope["f"])
    written, looped = functions
    for size in (1, 2, 4, 9):
        x = np.random.default_rng(seed).normal(size=(size, 3) if "j" in drawn(seed)[0] else size)
        _assert_close(run(written, x), looped(x.copy()))
    if seed % 6 == 0:
        _assert_close(pf.jit(written)(x), looped(x.copy()))


def test_a_value_that_reads_nothing_is_of_the_statement_in_whose_line_it_stands() -> None:
    """Over the points of that statement alone, and where an earlier point may have written what is read."""

    def mirrored(x: Any, y: Any) -> Any:
        n, c, d = x.shape[0], x.copy(), y.copy()
        c[i], d[i] = d[n - 1 - i], 3
        return c, d

    def ahead(x: Any, y: Any) -> Any:
        c, d, e = x.copy(), y.copy(), x.copy()
        c[i], d[i], e[i] = c[i + 2], -1, i * 2.0
        return c, d, e

    def cleared(x: Any, y: Any) -> Any:
        short, long = x[:3].copy(), y.copy()
        for each in (short, long): each[i] = 0  # noqa: E701
        return short, long

    x, y = np.arange(6.0), np.arange(6.0) + 10
    with pytest.raises(pf.errors.IndexingError, match="meets new values"):
        pf.jit(mirrored)(x, y)
    c, d, e = pf.jit(ahead)(x, y)
    assert np.array_equal(c, [2, 3, 4, 5, 4, 5]) and np.array_equal(d, [-1, -1, -1, -1, 14, 15])
    assert np.array_equal(e, [0, 2, 4, 6, 4, 5])
    assert not any(part.any() for part in pf.jit(cleared)(x, y))
