"""``x[:, k]`` for a number k known at run time only: a view, as NumPy makes of every index of numbers and slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import TraceError


def a_write_to_the_array_is_seen(x: Any, k: Any) -> Any:
    a = x.copy()
    row, column, pair = a[k], a[:, k], a[k, 1:3]
    a[...] = 7
    return row, column, pair


def a_write_to_the_view_is_seen(x: Any, k: Any) -> Any:
    a = x.copy()
    column = a[:, k]
    column += 1
    column[1] = 9
    return a, column


def a_view_of_the_view(x: Any, k: Any) -> Any:
    a = x.copy()
    end = a[k][1:]
    a[...] = 0
    end[0] = 4
    return a, end


def an_index_that_is_computed(x: Any, k: Any) -> Any:
    a = x.copy()
    largest = np.argmax(a[0])
    column = a[:, largest]
    a[:, 0] = -1
    a[0] = 5
    return a, column


def updates_in_place(x: Any, k: Any) -> Any:
    a = x.copy()
    a[k] += 2
    a[:, k] *= 3
    a[k] = a[k]
    return a


def the_index_changes_later(x: Any, k: Any) -> Any:
    a = x.copy()
    row = a[k]
    k = k - 1
    a[k] = 0
    row += 1
    return a, row


def an_element_is_a_copy(x: Any, k: Any) -> Any:
    a = x.copy()
    element = a[1, k]
    a[...] = 0
    return element, a


def reshaped_where_it_lies_in_one_piece(x: Any, k: Any) -> Any:
    a = x.copy()
    row = a[k].reshape(2, -1)
    a[...] = 1
    return row


def taken_or_indexed_by_an_array_it_is_a_copy(x: Any, k: Any) -> Any:
    a = x.copy()
    taken, gathered = np.take(a, k, axis=1), a[:, np.arange(2) + k - k]
    a[...] = 1
    return taken, gathered


@pytest.mark.parametrize("backend", ["numba_cpu", "interpreter"])
@pytest.mark.parametrize(
    "program",
    [
        a_write_to_the_array_is_seen,
        a_write_to_the_view_is_seen,
        a_view_of_the_view,
        an_index_that_is_computed,
        updates_in_place,
        the_index_changes_later,
        an_element_is_a_copy,
        reshaped_where_it_lies_in_one_piece,
        taken_or_indexed_by_an_array_it_is_a_copy,
    ],
)
def test_as_in_numpy(program: Callable[..., Any], backend: str) -> None:
    x = np.arange(24.0).reshape(4, 6)
    fused = pf.jit(program, backend=backend)
    for k in (2, -1):
        found, expected = fused(x, k), program(x, k)
        pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
        for mine, numpys in pairs:
            np.testing.assert_array_equal(mine, numpys)


def test_an_update_writes_once() -> None:
    def updated(x: Any, k: Any) -> Any:
        a = x.copy()
        a[k] += 2
        return a

    def assigned(x: Any, k: Any) -> Any:
        a = x.copy()
        a[k] = x[k] + 2
        return a

    specs = pf.spec("f32[64, 32]"), pf.spec("i64")
    assert pf.jit(updated).plan(*specs, target="h200") == pf.jit(assigned).plan(*specs, target="h200")


def test_an_argument_is_not_written() -> None:
    def writes(x: Any, k: Any) -> Any:
        row = x[k]
        row += 1
        return row

    with pytest.raises(TraceError, match="writes into the argument x"):
        pf.jit(writes)(np.ones((3, 4)), 1)
