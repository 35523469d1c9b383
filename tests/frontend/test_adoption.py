"""Real arrays that a function makes and writes traced values into, or indexes with traced ones, are arrays of the
program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import DTypeError, PolyfuseError
from tests.frontend.ops import assert_same

TABLE = np.arange(4.0)
GRID = np.arange(100.0).reshape(10, 10)
X = np.random.default_rng(0).standard_normal(10)


def rotation(x: Any) -> Any:
    r = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    c, s = np.cos(x[0]), np.sin(x[0])
    r[0, 0], r[0, 1], r[1, 0], r[1, 1] = c, -s, s, c
    return x[:3] @ r.T, r


def like_a_table(x: Any) -> Any:
    total, first, half = np.zeros_like(TABLE), np.empty_like(TABLE), np.full_like(TABLE, 0.5, dtype=np.float32)
    total += x[:4]
    first[...] = 1
    first[1:] = x[:3]
    half[x[:4] > 0] = 2
    return total, first, half


def copies(x: Any) -> Any:
    a, b, c, d = TABLE.copy(), np.copy(GRID), TABLE * 2, np.stack([TABLE, TABLE])
    a[1:] = x[:3]
    b[3] += x
    c -= x[:4]
    d[0] = x[:4]
    return a, b, c, d


def loop_over_a_list(x: Any) -> Any:
    y = np.array([0.0] * 4)
    for i in range(len(y)):
        y[i] = x[i] ** 2
    return y


def views(x: Any) -> Any:
    a = np.array([1.0, 2, 3, 4])
    column, b = a.reshape(4, 1), a[1:]
    b[0] = x[0]
    column[3, 0] = x[1]
    return a, b, column


def known_beside_written(x: Any) -> Any:
    weights, taps = np.array([0.5, 0.25, 0.25]), np.array([0, 2, 1])
    total = np.zeros_like(weights)
    for k, weight in zip(taps, weights, strict=True):
        if k > 0:
            total[k] += weight * x[k]
    return total, x[taps], np.zeros(taps[1]), float(weights[0])


def by_functions(x: Any) -> Any:
    q, n, out = np.zeros_like(GRID), np.zeros_like(TABLE), np.ones_like(TABLE)
    np.fill_diagonal(q, x)
    np.add.at(n, [0, 0, 3], x[:3])
    np.exp(x[:4], out=out)
    return q, n, out


def in_containers(x: Any) -> Any:
    sums = {name: np.zeros_like(value) for name, value in {"a": TABLE, "b": GRID}.items()}
    sums["a"] += x[:4]
    sums["b"][0] = x
    return sums["a"], sums["b"]


def zeros_with_signs(x: Any) -> Any:
    a = np.array([0.0, -0.0, 0.0, -0.0])
    a[2] = x[0]
    return np.copysign(1, a)


MADE = (
    rotation, like_a_table, copies, loop_over_a_list, views, known_beside_written, by_functions, in_containers,
    zeros_with_signs,
)  # fmt: skip


@pytest.mark.parametrize("function", MADE, ids=lambda f: f.__name__)
def test_written(function: Any) -> None:
    table, grid = TABLE.copy(), GRID.copy()
    assert_same(pf.jit(backend="interpreter")(function)(X), function(X))
    assert (table == TABLE).all() and (grid == GRID).all()


def test_a_copy_is_of_what_the_table_holds_at_the_call() -> None:
    table = np.arange(4.0)

    def function(x: Any) -> Any:
        y = table.copy()
        y[0] = x[0]
        return y

    jitted = pf.jit(backend="interpreter")(function)
    assert_same(jitted(X), function(X))
    table[2] = 7
    assert_same(jitted(X), function(X))


@pytest.mark.parametrize("make", [lambda a: a, np.asarray, np.ascontiguousarray, np.require, lambda a: a[1:]])
def test_the_users_memory_is_not_written(make: Any) -> None:
    table = np.arange(4.0)

    def function(x: Any) -> Any:
        y = make(table)
        y[0] = x[0]
        return y

    with pytest.raises(PolyfuseError, match=r"Write into a copy that the function makes, a = a.copy\(\)"):
        pf.jit(backend="interpreter")(function)(X)
    assert (table == np.arange(4.0)).all()


class Embedding:
    def __init__(self) -> None:
        self.table = np.random.default_rng(1).standard_normal((9, 4))

    def __call__(self, ids: Any) -> Any:
        w = self.table
        return w[ids], w[ids % 3, 1], w[:, ids % 4], w[ids[0]], w[ids] @ GRID[:4]


def test_elements_of_a_table_that_data_choose() -> None:
    embed = Embedding()
    jitted = pf.jit(backend="interpreter")(embed)
    for ids in (np.array([3, 0, 8]), np.array([5]), np.array([1, -1, 2, 2])):
        assert_same(jitted(ids), embed(ids))
    embed.table[...] *= 2
    assert_same(jitted(ids), embed(ids))
    assert jitted.cache_info().traces <= 2  # contents are read at each call, and compared with nothing
    with pytest.raises(IndexError, match="an index into captured_0 is out of bounds"):
        jitted(np.array([1, 9, 2, 2]))


def test_a_table_by_masks_positions_and_numbers() -> None:
    def function(x: Any, n: Any) -> Any:
        x = x[:4]
        return TABLE[x > 0].sum(), TABLE[x.argsort()], TABLE[np.argmax(x)], TABLE[n] * x, np.zeros(int(TABLE[n]))

    jitted = pf.jit(backend="interpreter")(function)
    for n in (1, 3):
        assert_same(jitted(X, n), function(X, n))


def test_what_else_is_wrong_with_the_write_is_said() -> None:
    def function(x: Any) -> Any:
        y = np.array([1, 2, 3, 4])
        y += x[:4]
        return y

    with pytest.raises(DTypeError, match="the result of an in-place add is float64, which cannot be cast to int64"):
        pf.jit(backend="interpreter")(function)(X)
