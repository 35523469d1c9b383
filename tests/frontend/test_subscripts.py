"""Subscripts and guards of index notation: which of Python's expressions they may be, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine
from polyfuse.errors import IndexingError
from polyfuse.frontends import numpy_like
from polyfuse.frontends.index_notation.affine_terms import affine, condition, keys_of, negated, shown
from tests.frontend.ops import run

i, j = pf.indices("i j")
X = np.random.default_rng(2).standard_normal(12)
A = np.random.default_rng(3).standard_normal((6, 6))
ROW = np.arange(6)

SUBSCRIPTS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "i": (lambda x: x[i], X),
    "+i": (lambda x: x[+i], X),
    "-i + 11": (lambda x: x[-i + 11], X[::-1]),
    "n - 1 - i": (lambda x: x[x.shape[0] - 1 - i], X[::-1]),
    "11 - +i": (lambda x: x[11 - +i], X[::-1]),
    "-(i - 11)": (lambda x: x[-(i - 11)], X[::-1]),
    "i // 2": (lambda x: x[i // 2], X[np.arange(12) // 2]),
    "i % 3": (lambda x: x[i % 3], X[np.arange(12) % 3]),
    "(i + 1) % 12": (lambda x: x[(i + 1) % 12], np.roll(X, -1)),
    "i // 4 * 2 + i % 2": (lambda x: x[i // 4 * 2 + i % 2], X[np.arange(12) // 4 * 2 + np.arange(12) % 2]),
    "1 * i": (lambda x: x[1 * i], X),
    "i * 1 + 0": (lambda x: x[i * 1 + 0], X),
    "2 * (i // 2)": (lambda x: x[2 * (i // 2)], X[np.arange(12) // 2 * 2]),
}

GUARDS: dict[str, tuple[Callable[[], Any], Any]] = {
    "i < j": (lambda: i < j, np.less.outer(ROW, ROW)),
    "i <= j": (lambda: i <= j, np.less_equal.outer(ROW, ROW)),
    "i > j + 1": (lambda: i > j + 1, np.greater.outer(ROW, ROW + 1)),
    "i >= 2 * j": (lambda: i >= 2 * j, np.greater_equal.outer(ROW, 2 * ROW)),
    "i == j": (lambda: i == j, np.eye(6, dtype=bool)),
    "i != j": (lambda: i != j, ~np.eye(6, dtype=bool)),
    "(i > 1) & (j < 4)": (lambda: (i > 1) & (j < 4), np.logical_and.outer(ROW > 1, ROW < 4)),
    "(i > 3) | (j < 2)": (lambda: (i > 3) | (j < 2), np.logical_or.outer(ROW > 3, ROW < 2)),
    "~(i == j)": (lambda: ~(i == j), ~np.eye(6, dtype=bool)),
    "~((i > 1) & (j < 4))": (lambda: ~((i > 1) & (j < 4)), ~np.logical_and.outer(ROW > 1, ROW < 4)),
    "~((i > 3) | (j < 2))": (lambda: ~((i > 3) | (j < 2)), ~np.logical_or.outer(ROW > 3, ROW < 2)),
    "logical_and": (lambda: np.logical_and(i > 1, j % 2 == 0), np.logical_and.outer(ROW > 1, ROW % 2 == 0)),
    "logical_or": (lambda: np.logical_or(i > 4, j // 2 == 1), np.logical_or.outer(ROW > 4, ROW // 2 == 1)),
    "logical_not": (lambda: np.logical_not(i + j < 5), np.add.outer(ROW, ROW) >= 5),
    "(i < j) & True": (lambda: (i < j) & True, np.less.outer(ROW, ROW)),
    "(i < j) | np.False_": (lambda: (i < j) | np.False_, np.less.outer(ROW, ROW)),
    "i * j > 4": (lambda: i * j > 4, np.multiply.outer(ROW, ROW) > 4),
}


@pytest.mark.parametrize("name", SUBSCRIPTS)
def test_a_subscript_is_an_expression_of_indices(name: str) -> None:
    read, wanted = SUBSCRIPTS[name]

    def function(x: Any) -> Any:
        y = pf.zeros(x.shape, x.dtype)
        y[i] = read(x)
        return y

    np.testing.assert_array_equal(run(function, X), wanted)


@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_chooses_points(name: str) -> None:
    guard, wanted = GUARDS[name]

    def function(a: Any) -> Any:
        y = pf.zeros(a.shape, a.dtype)
        y[i, j] = pf.where(guard(), a[i, j], -1)
        return y

    np.testing.assert_array_equal(run(function, A), np.where(wanted, A, -1))


def test_a_guard_restricts_what_is_read() -> None:
    """Beyond the ends there is nothing to read, in either branch and in each part of a disjunction."""

    def function(x: Any) -> Any:
        y = pf.zeros(x.shape, x.dtype)
        n = x.shape[0]
        y[i] = pf.where(~((i < 2) | (i >= n - 1)), x[i - 2] + x[i + 1], x[i])
        return y

    middle = X[:-3] + X[3:]
    np.testing.assert_array_equal(run(function, X), np.concatenate([X[:2], middle, X[-1:]]))


def test_expressions_that_are_not_affine() -> None:
    assert affine(i * j) is None
    assert affine(i // j) is None
    assert affine(i // -2) is None
    assert affine(-(i * j)) is None
    assert affine(abs(i)) is None
    assert affine(True) is None
    assert condition(i * j > 2) is None
    assert condition(~(i * j > 2)) is None
    assert condition((i > 2) & (i * j > 2)) is None
    assert condition((i * j > 2) | (i > 2)) is None
    assert condition(i + 1) is None


def test_conditions_in_normal_form() -> None:
    at = Affine.symbol(i.key)
    assert condition(True) == ((),)
    assert condition(np.False_) == ()
    assert condition(i != 3) == ((at - 4,), (-at + 2,))
    assert condition(i == 3) == ((at - 3, -at + 3),)
    assert negated(((at - 3, -at + 3),)) == ((-at + 2,), (at - 4,))
    assert keys_of([at, Affine.symbol("N")]) == {i.key}
    assert shown(2 * at + 1) == "2*i + 1"


def test_a_division_by_what_is_not_positive_is_data() -> None:
    def function(x: Any) -> Any:
        y = pf.zeros(x.shape, x.dtype)
        y[i] = x[i // -1 + 11]
        return y

    np.testing.assert_array_equal(run(function, X), X[::-1])


def test_a_division_out_of_bounds_has_a_witness() -> None:
    def function(x: Any) -> Any:
        q = pf.indices("q", within=x.shape[0])
        y = pf.zeros(x.shape, x.dtype)
        y[q] = x[q // 2 + 8]
        return y

    with pytest.raises(IndexingError, match=r"is out of bounds: at q = \d+ it is element 12"):
        numpy_like.trace(function, numpy_like.specs_of_arrays([X]))
