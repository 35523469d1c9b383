"""Arrays that follow from positions and sizes alone: where Python or a shape needs their values, these are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import IndexingError, TraceError, UnsupportedError
from tests.frontend.ops import assert_same, run

X, Y, M = np.arange(12.0) + 1, np.arange(4.0), np.arange(12.0).reshape(3, 4)

SAME = """
x[np.arange(len(x)) % 3 == 0] | m[np.tri(*m.shape) > 0]
x[:3][np.arange(10)[len(y) : len(y) + 3] > 5] | x[np.zeros(len(x), bool)] | m[:, np.arange(m.shape[1]) > 1] + 1
np.delete(x, np.arange(0, len(x), 2)) | np.delete(x, np.arange(len(x)) % 3 == 0) | np.delete(x, [len(y) - 1, -1])
np.delete(m, np.arange(2), axis=1) | np.delete(x, [np.arange(3)[1], 0]) | np.delete(x, np.arange(5)[2])
np.insert(x, np.arange(len(y)), 0) | np.insert(m, np.repeat(np.arange(1, m.shape[1]), 2), 0, axis=1)
np.repeat(x[:3], np.arange(3)) | np.repeat(m, np.arange(m.shape[0]), axis=0)
np.compress(np.arange(len(x)) % 3 == 0, x) | np.extract(np.arange(len(x)) % 3 == 0, x) | np.extract(np.eye(3, 4), m)
x[np.flatnonzero(np.arange(len(x)) % 3 == 0)] | x[np.where(np.arange(12) % 3 == 0)] | x[np.arange(len(x)) > 2]
np.nonzero(np.tri(len(y), dtype=int)) + np.where(np.eye(3) > 0) | np.argwhere(np.eye(len(y)))
np.unique(np.arange(len(x)) // 4) + y[:3] | np.intersect1d(np.arange(len(x)), [3, 40]) * y[0]
x[slice(*np.arange(6).reshape(3, 2).cumsum(1)[1])] | np.zeros(np.arange(3)[1:] + 1) + x[0]
[x[i:j].sum() for i, j in zip(np.cumsum(np.arange(4)), np.cumsum(np.arange(1, 5)))] | x[: int(np.arange(5).mean())]
[x[k] for k in np.arange(len(y)) if k % 2] | x.reshape(np.arange(2, 4).prod(), -1)
"""


@pytest.mark.parametrize("text", [part.strip() for line in SAME.strip().splitlines() for part in line.split(" | ")])
def test_as_numpy(text: str) -> None:
    scope: dict[str, Any] = {"np": np}
    exec(f"def function(x, y, m):\n    return {text}", scope)
    assert_same(run(scope["function"], X, Y, M), scope["function"](X, Y, M))


def test_elements_are_counted_off_and_lists_have_a_shape() -> None:
    def function(x: Any, m: Any) -> Any:
        y = np.zeros(m.shape)
        for place, value in np.ndenumerate(m):
            y[place] = value * sum(place)
        for (k,), value in np.ndenumerate(np.arange(2)):
            y[0, k] = value
        return y, np.ndim([x, x]), np.shape([m, m]), np.size([x, x]), np.size([[x[0], 1]], 1), np.shape([1, 2])

    assert_same(run(function, X, M), function(X, M))


def test_numbers_of_the_caller_decide_too() -> None:
    function = pf.jit(lambda x, k: x[np.arange(12) % k == 0], backend="interpreter")
    assert_same(function(X, 3), X[::3])
    assert_same(function(X, 5), X[::5])


def test_sizes_stay_open_where_no_shape_needs_the_values() -> None:
    function = pf.jit(lambda x: x[np.arange(len(x)) > 1].sum(), backend="interpreter")
    assert_same(function(X), X[2:].sum())
    assert_same(function(X[:7]), X[2:7].sum())
    assert function.cache_info().traces == 1


def test_selections_by_data_are_those_of_an_index() -> None:
    def function(x: Any, m: Any) -> Any:
        y = m.copy()
        y[m > 4] = np.extract(m > 4, m * 2)
        return np.extract(x > 3, x).sum(), np.extract(m.reshape(-1) > 3, m).max(), y

    assert_same(run(function, X, M), function(X, M))


REFUSED: dict[str, tuple[Any, type[TraceError], str]] = {
    "delete": (lambda x: np.delete(x, [x.astype(int)[0]]), IndexingError, r"np\.delete at positions that are data"),
    "nonzero": (lambda x: np.nonzero(x), UnsupportedError, r"the shape of np\.nonzero\(mask\) depends"),
    "where": (lambda x: np.where(x > 0), UnsupportedError, r"the shape of np\.where\(mask\) depends"),
    "mask": (lambda x: x[x > 0], IndexingError, r"x\[mask\] has a shape that depends on the values"),
    "memory": (lambda x: np.shares_memory(np.zeros(3), np.ones(3)), UnsupportedError, "np.shares_memory"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_data_and_memory_are_refused(name: str) -> None:
    function, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        run(function, X)
