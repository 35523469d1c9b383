"""An integer for every axis gives a scalar, which later writes do not reach; other basic indices give views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyfuse.frontends.numpy_like import spec, trace
from tests.frontend.ops import Case, assert_same, collector, run

CASES: dict[str, Case] = {}
case = collector(CASES)


@case((16,))
def of_a_vector(x: Any) -> Any:
    a = x * 1
    kept, last, typed = a[13], a[-1], a[np.int64(3)]
    a[...] += 1
    return kept, last, typed, a


@case((4, 5))
def of_a_matrix(x: Any) -> Any:
    a = x * 1
    kept, of_a_row, of_a_column = a[1, 2], a[1][2], a[:, 2][-1]
    row, column = a[1], a[:, 2]
    a[1, 2] = 9
    a += 1
    return kept, of_a_row, of_a_column, row, column, a


@case((4, 5))
def of_other_views(x: Any) -> Any:
    a = x * 1
    flat, turned, every = a.reshape(-1)[7], a.T[2, 1], a[::2, ::-1][1, 0]
    a[:] = 0
    return flat, turned, every, a


@case(())
def of_rank_0(x: Any) -> Any:
    a = np.array(3.0) + x
    kept, whole = a[()], a[...]
    return kept, whole, kept + 1


@case((16,))
def an_ellipsis_keeps_it_a_view(x: Any) -> Any:
    a = x * 1
    part, whole, empty = a[13, ...], a[...], a[()]
    a += 1
    return part, whole, empty, a


@case((16,))
def a_view_of_rank_0_is_written(x: Any) -> Any:
    a = x * 1
    part, other = a[13, ...], a[..., 2]
    part += 1
    other[...] = 5
    a[3, ...] *= 2
    return part, other, a


@case((4, 5))
def in_place(x: Any) -> Any:
    a, v = x * 1, x[0] * 2
    a[1] += v
    a[1, 2] -= 1
    a[-1, -1] *= a[0, 0]
    a[0, 0] += a[0, 0]
    v[2] += v[1]
    v[-1] /= v[2]
    v[1] = v[2]
    v[3] = v[3]
    return a, v


@case((6,))
def scalars_are_immutable(x: Any) -> Any:
    a = x * 1
    v = a[0]
    v += 1
    w = v
    w *= 2
    return a, v, w


@case((6,))
def swaps(x: Any) -> Any:
    a = x * 1
    a[0], a[1] = a[1], a[0]
    a[2], a[3], a[4] = a[4], a[2], a[3]
    held = a[5]
    a[5] = a[0]
    a[0] = held
    return a


@case((3, 4))
def swaps_in_a_matrix(x: Any) -> Any:
    a = x * 1
    a[0, 1], a[2, 3] = a[2, 3], a[0, 1]
    a[1], a[2] = a[2].copy(), a[1].copy()
    return a


@case((5,), (3, 2))
def iterated(x: Any, m: Any) -> Any:
    a, b = x * 1, m * 1
    numbers, rows = list(a), list(b)
    corners = [list(row) for row in b]
    (first, *_), (low, high) = a, b[0]
    a += 1
    b *= 2
    return numbers, rows, corners, first, low, high


@case((5,))
def cascade(x: Any) -> Any:
    a = x * 1
    for k in range(1, 5):
        before = a[k - 1]
        a[k] += before
        a[k - 1] = 0
    return a


@case((5,), dtypes="i4")
def of_integers(x: Any) -> Any:
    a = x * 1
    v = a[1]
    v += 2.5
    a[1] += 1.5
    a[2] -= a[1]
    return v, a


@case((4, 5), (5,))
def taken(x: Any, y: Any) -> Any:
    a, b = x * 1, y * 1
    row, column, number = np.take(a, 1, axis=0), a.take(2, 1), np.take(b, 3)
    a += 1
    b += 1
    return row, column, number


@case((4, 5))
def functional(x: Any) -> Any:
    a = x.copy()
    v = a[2, 3]
    np.add.at(a, (2, 3), v)
    np.add(a[0], v, out=a[1])
    a[a > v] = v
    return a, v


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(name: str) -> None:
    arguments = CASES[name].arguments()
    wanted = CASES[name].function(*(np.array(a) for a in arguments))
    assert_same(run(CASES[name].function, *(np.asarray(a) for a in arguments)), wanted)


def test_an_element_of_an_argument_is_the_functions_own() -> None:
    def function(x: Any) -> Any:
        v = x[2]
        v += 1
        return v

    x = np.arange(4.0)
    assert_same(run(function, x), np.float64(3))


def test_names_of_elements() -> None:
    def function(x: Any) -> Any:
        a = x * 2
        first = a[0] + 0
        a[1] += first
        return a, first

    program = trace(function, [spec("f64[8]")]).program
    assert {"first", "a"} <= set(program.names.values())
