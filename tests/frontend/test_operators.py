"""Every operator of Python, both ways, in place and between kinds of numbers, against NumPy."""

from __future__ import annotations

import operator
from array import array
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyfuse.errors import DTypeError, TraceError
from tests.frontend.ops import assert_same, run

RANDOM = np.random.default_rng(3)
FLOATS = RANDOM.uniform(0.5, 4, (3, 4))
OTHERS = RANDOM.uniform(0.5, 3, (3, 4)).astype(np.float32)
WHOLES = RANDOM.integers(1, 9, (3, 4))
SMALL = RANDOM.integers(1, 5, 4).astype(np.int16)
SQUARE = RANDOM.standard_normal((4, 4))

NUMBERS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
BITS = ("and_", "or_", "xor", "lshift", "rshift")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def by_name(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(operator, name)
    return found


def assert_as_numpy(function: Callable[..., Any], *arrays: Any) -> None:
    assert_same(run(function, *arrays), function(*(a.copy() for a in arrays)))


@pytest.mark.parametrize("name", [*NUMBERS, "eq", "lt"])
def test_of_sequences_of_python(name: str) -> None:
    function, queue, numbers = by_name(name), deque([1.5, 2, 3, 4]), array("f", [1, 2, 3, 4])
    assert_as_numpy(lambda x: (function(x, range(1, 5)), function(range(1, 5), x), function(x, queue)), OTHERS)
    assert_as_numpy(lambda x: (function(x, numbers), np.add(x, numbers), x @ range(4)), OTHERS)
    assert_as_numpy(lambda x: function(x, deque([x[0, 0], 2.0, 3.0, x[1, 1]])), OTHERS)


@pytest.mark.parametrize("name", [*NUMBERS, *COMPARISONS, "divmod"])
def test_of_numbers(name: str) -> None:
    function = divmod if name == "divmod" else by_name(name)
    assert_as_numpy(lambda x, y, n: (function(x, y), function(x, n), function(n, x)), FLOATS, OTHERS, WHOLES)
    assert_as_numpy(lambda x: (function(x, 2), function(2, x), function(x, 1.5), function(1.5, x)), OTHERS)
    assert_as_numpy(lambda n: (function(n, 3), function(3, n), function(n, n[0])), WHOLES)
    assert_as_numpy(lambda n: (function(np.int64(9), n), function(n, np.float32(2))), SMALL)


@pytest.mark.parametrize("name", BITS)
def test_of_bits(name: str) -> None:
    function = by_name(name)
    assert_as_numpy(lambda n, s: (function(n, s), function(s, n), function(n, 2), function(5, n)), WHOLES, SMALL)
    if name.endswith(("_", "xor")):
        assert_as_numpy(lambda x: (function(x > 2, x < 3), function(x > 2, True), function(False, x > 2)), FLOATS)


@pytest.mark.parametrize("name", [*NUMBERS, *BITS])
def test_in_place_the_array_changes_for_all_who_hold_it(name: str) -> None:
    function = by_name("i" + name.rstrip("_"))
    given, other = (WHOLES, SMALL) if name in BITS else (FLOATS, OTHERS)

    def whole(x: Any, y: Any) -> Any:
        a = x.copy()
        held, row = a, a[1]
        result = function(a, y)
        return a, held, row, result

    def part(x: Any, y: Any) -> Any:
        a = x.copy()
        a[1:] = function(a[1:], 2)
        column = a[:, 1]
        column = function(column, 3)
        return a, column

    assert_as_numpy(whole, given, other)
    assert_as_numpy(part, given, other)


def test_of_matrices() -> None:
    assert_as_numpy(lambda x, a: (x @ a, a @ a, a @ a[0], x[0] @ a), FLOATS, SQUARE)

    def in_place(a: Any) -> Any:
        b = a.copy()
        held = b
        b @= a
        return b, held

    assert_as_numpy(in_place, SQUARE)
    given = np.arange(16.0).reshape(4, 4)
    assert_as_numpy(lambda a: (given @ a, a @ given, given[0] @ a), SQUARE)


def test_of_one() -> None:
    assert_as_numpy(lambda x, n: (-x, +x, abs(-x), -n, +n, abs(1 - n), ~n), FLOATS, WHOLES)
    assert_as_numpy(lambda x: (~(x > 2), abs(x[0, 0] - 3), round(x[0, 0], 2), round(x[0, 0])), FLOATS)


def test_a_captured_array_on_the_left() -> None:
    given = np.linspace(1, 2, 4)
    for name in (*NUMBERS, *COMPARISONS):
        function = by_name(name)
        assert_as_numpy(lambda x, function=function: (function(given, x), function(x, given)), FLOATS)


def test_an_integer_array_does_not_become_floats_in_place() -> None:
    def function(n: Any) -> Any:
        a = n.copy()
        a /= 2
        return a

    with pytest.raises(TypeError, match="Cannot cast ufunc 'divide' output from .*float64.* to .*int64"):
        function(WHOLES)
    with pytest.raises(DTypeError, match="the result of an in-place divide is float64, which cannot be cast to int64"):
        run(function, WHOLES)


@pytest.mark.parametrize("count", [3, 0, True])
def test_integers_repeat_sequences(count: int) -> None:
    def function(x: Any, n: int) -> Any:
        rows = [x[0]]
        rows *= n
        assert "ab" * n == n * "ab"
        shape = (1,) * n + x.shape
        several = (2,) * np.arange(3)[2]
        return [0] * n, n * (1, 2), [x[0, 0], 5] * n, rows, [slice(None)] * n == [], x.reshape(shape), several

    assert_same(run(function, FLOATS, count), function(FLOATS, count))


def test_values_do_not_repeat_sequences() -> None:
    with pytest.raises(TraceError, match="needs the value of an array"):
        run(lambda n: [0] * n[0, 0], WHOLES)
