"""Sums and differences of places are places: conditions on them are decided by indices, and bands are read alone."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan

Function = Callable[..., Any]


def places(x: Any, dtype: Any = np.int64) -> tuple[Any, Any]:
    return np.arange(x.shape[0], dtype=dtype)[:, None], np.arange(x.shape[1], dtype=dtype)[None, :]


def below(x: Any) -> Any:
    i, j = places(x)
    return np.where(i + 3 >= j, x, 0)


def at_the_end(x: Any) -> Any:
    i, j = places(x)
    return np.where(i >= j - (x.shape[1] - x.shape[0]), x, 0)


def window(x: Any) -> Any:
    i, j = places(x)
    d = i - j
    return np.where((d >= 0) & (d < 5), x, 0)


def band(x: Any) -> Any:
    i, j = places(x)
    return np.where(np.abs(i - j) <= 4, x, 0)


def mirrored_band(x: Any) -> Any:
    i, j = places(x)
    return np.where(np.greater(4, np.abs(2 * i - j)), x, 0)


def diagonal(x: Any) -> Any:
    return np.where(np.eye(x.shape[0], x.shape[1], k=2) > 0, x, 0)


def against(x: Any) -> Any:
    i, j = places(x)
    return np.where(i + j < x.shape[1] - 1, x, -x)


def sloped(x: Any) -> Any:
    i, j = places(x)
    return x + (j - i).astype(np.float32) * 0.5


MASKS = (below, at_the_end, window, band, mirrored_band, diagonal, against, sloped)


@pytest.mark.parametrize("function", MASKS)
@pytest.mark.parametrize("shape", [(8, 12), (13, 7), (1, 1), (40, 33), (5, 600)])
def test_results_are_those_of_numpy(function: Function, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    plan = pf.jit(function).plan(x, target="h200")
    (found,) = run_plan(plan, [x])
    np.testing.assert_allclose(found, function(x), rtol=1e-6)


@pytest.mark.parametrize("function", MASKS)
def test_no_long_integer_is_left(function: Function) -> None:
    source = pf.jit(function).plan(pf.spec("f32[N~4096, M~8192]"), target="h200").source()
    assert "int64" not in source


def test_an_equality_is_one_comparison() -> None:
    source = pf.jit(diagonal).plan(pf.spec("f32[N~4096, M~8192]"), target="h200").source()
    assert "==" in source and "<=" not in source


@pytest.mark.parametrize("function", [window, band, mirrored_band])
def test_of_a_band_nothing_else_is_read(function: Function) -> None:
    """Rows of 32 KB of which a vector or two is wanted: what is written is all that counts."""
    plan = pf.jit(function).plan(pf.spec("f32[4096, 8192]"), target="h200")
    whole = pf.jit(lambda x: x * 2).plan(pf.spec("f32[4096, 8192]"), target="h200")
    assert plan.cost_analysis().seconds < 0.75 * whole.cost_analysis().seconds


def test_integers_that_may_wrap_around_are_left_alone() -> None:
    def short(x: Any) -> Any:
        i, j = places(x, np.int32)
        return np.where(i - j + np.int32(2**31 - 8) >= 0, x, 0)

    def far(x: Any) -> Any:
        i, j = places(x)
        return np.where(i * 2**61 - j < 2**62, x, 0)

    x = np.random.default_rng(0).standard_normal((20, 30)).astype(np.float32)
    for function in (short, far):
        plan = pf.jit(function).plan(x, target="h200")
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(run_plan(plan, [x])[0], function(x))


def test_sums_that_32_bits_do_not_hold_take_64() -> None:
    def sides(x: Any) -> Any:
        i, j = places(x)
        return np.where(i + 2 * j < x.shape[1], x, 0)

    few = pf.jit(sides).plan(pf.spec("f32[2, 1000000]"), target="h200")
    many = pf.jit(sides).plan(pf.spec("f32[2, 1200000000]"), target="h200")
    assert [plan.launches[0].kernel.index_bits for plan in (few, many)] == [32, 64]


class Drawn:
    """The text of a random choice by places of an array of some rank."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.rank = self.dice.choice((1, 2, 2, 3))
        self.dtype = self.dice.choice(("np.int64", "np.int64", "np.int32"))

    def place(self, depth: int) -> str:
        kind = self.dice.random()
        if depth == 0 or kind < 0.35:
            axis = self.dice.randrange(self.rank)
            shape = tuple(-1 if k == axis else 1 for k in range(self.rank))
            return f"np.arange(x.shape[{axis}], dtype={self.dtype}).reshape({shape})"
        inner = self.place(depth - 1)
        if kind < 0.75:
            return f"({inner} {self.dice.choice('+-')} {self.place(depth - 1)})"
        if kind < 0.85:
            return f"({inner} * {self.dice.choice((2, 3, -1, -2, 7))})"
        return f"({inner} + {self.dice.choice((-5, 1, 1000, -40000))})" if kind < 0.95 else f"(-{inner})"

    def condition(self, depth: int) -> str:
        one, other = self.place(2), self.dice.choice((self.place(1), str(self.dice.choice((0, 1, -2, 7, 100)))))
        one = f"np.abs({one})" if self.dice.random() < 0.3 else one
        sides = [one, other] if self.dice.random() < 0.7 else [other, one]
        found = f"({sides[0]} {self.dice.choice(('<', '<=', '>', '>=', '==', '!='))} {sides[1]})"
        if depth and self.dice.random() < 0.5:
            return f"({found} {self.dice.choice('&|')} {self.condition(depth - 1)})"
        return found

    def program(self) -> str:
        text = f"np.where({self.condition(1)}, x, {self.dice.choice(('0.0', '-1.0'))})"
        ends = ("", "", ".sum(axis=-1)", ".max(axis=0)", f" + ({self.place(2)}).astype(np.float32) * 0.25", ".sum()")
        return text + self.dice.choice(ends)


@pytest.mark.parametrize("seed", range(60))
def test_random_conditions_on_places(seed: int) -> None:
    drawn = Drawn(seed)
    text = drawn.program()
    function = eval(f"lambda x: {text}", {"np": np})
    shape = tuple(drawn.dice.choice((1, 2, 5, 8, 12, 33, 40)) for _ in range(drawn.rank))
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    for target in ("h200", "cpu"):
        (found,) = run_plan(pf.jit(function).plan(x, target=target), [x])
        np.testing.assert_allclose(found, function(x), rtol=1e-4, atol=1e-3, err_msg=text)
    if seed % 4 == 0:  # as it is printed
        np.testing.assert_allclose(pf.jit(function)(x), function(x), rtol=1e-4, atol=1e-3, err_msg=text)


def test_an_equality_of_loops_has_both_sides() -> None:
    """Each pair of a loop of one thread with another: as printed, one side of it was missing once."""

    def energy(p: Any, q: Any) -> Any:
        distance = np.sqrt(((p[:, None] - p[None]) ** 2).sum(axis=-1))
        np.fill_diagonal(distance, np.inf)
        return (q[:, None] * q / distance).sum()

    random = np.random.default_rng(0)
    p, q = random.standard_normal((15, 3)).astype(np.float32), random.standard_normal(15).astype(np.float32)
    exact = energy(p.astype(np.float64), q.astype(np.float64))
    np.testing.assert_allclose(pf.jit(energy)(p, q), exact, rtol=1e-4)
