"""What is neither a ufunc nor a plain function of whole arrays: joining by index, sizes, methods that work in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import TraceError, UnsupportedError
from tests.frontend.ops import assert_same, run

X = np.array([[3.0, 1.0, 2.0], [9.0, 7.0, 8.0]])


def sorted_rows(x: Any) -> Any:
    y = x.copy()
    top = y[:1]
    y.sort()
    return y, top


def sorted_columns(x: Any) -> Any:
    y = x.copy()
    y[:, 1:].sort(axis=0)
    return y


def middle(x: Any) -> Any:
    y = x.copy()
    y.partition(1)
    return y[:, 1]


CASES: dict[str, Callable[[Any], Any]] = {
    "x.sort() works in place, and views see it": sorted_rows,
    "x.sort() of a view": sorted_columns,
    "x.partition()": middle,
    "x.compress()": lambda x: x.compress([True, False, True], axis=1),
    "r_": lambda x: np.r_[x[0], 5, x[1], 1:4],
    "r_ of matrices": lambda x: np.r_[x, x],
    "c_": lambda x: np.c_[x[0], x[1]],
    "c_ of matrices": lambda x: np.c_[x, x[:, 0]],
    "c_ of higher rank": lambda x: (np.c_[x[None], x[None]], np.c_[x[0].astype(np.float32)], np.c_[x[0, 0], 2]),
    "r_ of numbers": lambda x: x + np.r_[1, 2, 3],
    "a window of a size": lambda x: x * np.hanning(x.shape[1]),
    "frequencies of a size": lambda x: x * np.fft.fftfreq(x.shape[1]),
    "triangle of the matrix": lambda x: x[np.tril_indices_from(x)] + x[np.triu_indices_from(x, -1)][:3],
    "diagonal of the matrix": lambda x: x[:, :2][np.diag_indices_from(x[:, :2])],
    "isscalar and iterable": lambda x: x * np.isscalar(x) + np.iterable(x),
}


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name: str) -> None:
    assert_same(run(CASES[name], X), CASES[name](X.copy()))


OF_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "windows": lambda x, n: (np.hanning(n), np.hamming(n), np.blackman(n), np.bartlett(n), np.kaiser(n, n / 2)),
    "triangles": lambda x, n: (x[:n, :n][np.tril_indices(min(n, 2))], np.triu_indices(n, 1), np.tril_indices(3, m=n)),
    "diagonals": lambda x, n: (np.ones((n, n))[np.diag_indices(n)], np.diag_indices(2, ndim=n)),
    "digits": lambda x, n: x * len(np.binary_repr(n)) * (np.base_repr(n, 3) == "11"),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_functions_of_a_number_that_the_caller_passes(name: str) -> None:
    jitted = pf.jit(OF_NUMBERS[name], backend="interpreter")
    for number in (2, 4, 1, 2):
        assert_same(jitted(X, number), OF_NUMBERS[name](X, number))


def test_a_number_of_numpys_is_told_how_to_be_passed() -> None:
    with pytest.raises(TraceError, match=r"Pass a Python integer: int\(n\)"):
        pf.jit(lambda x, n: x[0, 0] * np.tril_indices(n)[0], backend="interpreter")(X, np.int64(2))


def test_attributes_that_are_refused_are_missing() -> None:
    def f(x: Any) -> Any:
        return x * (hasattr(x, "strides") or hasattr(x, "nothing"))

    assert not run(f, X).any()


def by_library(xp: Any, x: Any) -> Any:
    return np.transpose(x) * 2 if xp is np else x.permute(1, 0) * 2


def of_library(xp: Any) -> Callable[[Any], Any]:
    return lambda x: by_library(xp, x)


def test_errors_for_values_are_not_promised() -> None:
    def quiet(x: Any) -> Any:
        with np.errstate(divide="ignore", over="warn"):
            return np.log(x)

    def loud(x: Any) -> Any:
        with np.errstate(invalid="raise"):
            return np.log(x)

    assert_same(run(quiet, X), np.log(X))
    with pytest.raises(UnsupportedError, match=r"np.errstate\(invalid='raise'\) has no effect.*\n.*test_namespace.py"):
        run(loud, X)


def test_numpy_is_one_module_by_whatever_name() -> None:
    assert_same(run(of_library(np), X), X.T * 2)
