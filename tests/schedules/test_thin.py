"""Dimensions of one element make no difference to a plan: a column of numbers is read as a row of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.testing import assert_legal

LONG = 1 << 24


def strategies(function: Any, *shapes: tuple[int, ...]) -> tuple[list[Any], float]:
    plan = pf.jit(function).plan(*[np.empty(s, np.float32) for s in shapes], target="h200")
    assert_legal(plan)
    return [(k.strategy, k.schedule.parameters) for k in plan.kernels], plan.cost_analysis().seconds


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x * 2 + 1, (LONG, 1)),
        (lambda x: x * 2 + 1, (1, LONG, 1)),
        (lambda x: x.sum(axis=0), (LONG, 1)),
        (lambda x: np.cumsum(x, axis=0), (LONG, 1)),
        (lambda x: x + np.roll(x, 1, axis=0), (LONG, 1)),
        (lambda x: x - x.mean(axis=1, keepdims=True), (4096, 4096, 1)),
        (lambda x: x[::2] * 2, (LONG, 1)),
    ],
)
def test_plans_are_those_of_what_is_left(function: Any, shape: tuple[int, ...]) -> None:
    """Columns of one number each were read one by one."""
    assert strategies(function, shape) == strategies(function, tuple(n for n in shape if n > 1))


def test_thin_pixels_are_turned_in_tiles() -> None:
    """By the price of an H200 101 us one by one, 38 in tiles."""
    turned, seconds = strategies(lambda x: x.transpose(1, 0, 2) * 2, (4096, 4096, 1))
    assert [s for s, _ in turned] == ["tiles"] and seconds < 45e-6


def chosen(x: Any, i: Any) -> Any:
    return np.take(x, i, axis=1), np.take_along_axis(x, i[:, None], axis=0)


PROGRAMS: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "elementwise": (lambda x, y: x * y + 1, ((37, 1), (1, 1))),
    "all thin": (lambda x: np.exp(x) + x.sum(), ((1, 1),)),
    "stretched": (lambda x, y: x + y, ((37, 1), (1, 21))),
    "stretched between": (lambda x, y: (x * y).sum(axis=1, keepdims=True), ((5, 1, 3), (5, 9, 1))),
    "sums along one": (lambda x: (x.sum(axis=1), x.mean(axis=0), x.max()), ((40, 1),)),
    "sums of sums": (lambda x: x.sum(axis=1, keepdims=True) - x, ((7, 1, 9),)),
    "prefixes along one": (lambda x: np.cumsum(x, axis=1) + np.cumsum(x, axis=0), ((33, 1),)),
    "shifted away": (lambda x: np.pad(x, ((0, 0), (1, 2))) * 2, ((9, 1),)),
    "joined": (lambda x, y: np.concatenate([x, y], axis=1) + 1, ((9, 1), (9, 3))),
    "joined thin": (lambda x, y: np.concatenate([x, y], axis=0), ((9, 1), (4, 1))),
    "turned": (lambda x: x.transpose(2, 0, 1) + 1, ((6, 5, 1),)),
    "backwards": (lambda x: x[::-1, ::-1] * 2, ((9, 1),)),
    "windows": (lambda x: x[1:-1] - x[:-2] + x[2:], ((19, 1),)),
    "products": (lambda x, y: x @ y, ((8, 12), (12, 1))),
    "outer": (lambda x, y: x @ y, ((8, 1), (1, 7))),
    "largest": (lambda x: (x.argmax(axis=0), x.argmax(axis=1)), ((25, 1),)),
    "sorted": (lambda x: np.sort(x, axis=0) + np.sort(x, axis=1), ((12, 1),)),
    "softmax": (lambda x: np.exp(x - x.max(0)) / np.exp(x - x.max(0)).sum(0), ((50, 1),)),
    "written": (lambda x: np.concatenate([x, x * 2], axis=-1).sum(-1, keepdims=True), ((11, 1),)),
}


@pytest.mark.parametrize("options", [{}, {"backend": "interpreter", "target": "h200"}], ids=["cpu", "h200"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_numpy(name: str, options: dict[str, Any]) -> None:
    function, shapes = PROGRAMS[name]
    rng = np.random.default_rng(len(name))
    arrays = [rng.standard_normal(shape) for shape in shapes]
    found, expected = pf.jit(**options)(function)(*arrays), function(*arrays)
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    for mine, exact in pairs:
        assert mine.shape == exact.shape
        np.testing.assert_allclose(mine, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"backend": "interpreter", "target": "h200"}], ids=["cpu", "h200"])
def test_strided_columns_and_what_data_choose(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    wide, i = rng.standard_normal((20, 6)), np.zeros(4, np.int64)
    for x in (wide[:, 2:3], wide[::2, :1], wide.T[:1].T, wide[::-1, 5:]):
        np.testing.assert_array_equal(pf.jit(**options)(lambda x: x * 2)(x), x * 2)
        for mine, exact in zip(pf.jit(**options)(chosen)(x, i), chosen(x, i), strict=True):
            np.testing.assert_array_equal(mine, exact)


@pytest.mark.parametrize("width", [(), (1,), (1, 1), (3, 1)])
def test_scatters_of_thin_rows(width: tuple[int, ...]) -> None:
    """What a kernel wants was followed into what other kernels compute, over dimensions that its arrays lack here."""

    def scattered(x: Any, i: Any, u: Any) -> Any:
        x = x.copy()
        np.add.at(x, i, u)
        return x

    rng = np.random.default_rng(5)
    x, u, i = rng.standard_normal((10, *width)), rng.standard_normal((4000, *width)), rng.integers(0, 10, 4000)
    found = pf.jit(scattered, backend="interpreter", target="h200")(x, i, u)
    np.testing.assert_allclose(found, scattered(x, i, u), rtol=1e-12, atol=1e-12)
