"""Python integers that meet narrower integers: right where they fit, an error where NumPy has one, never wrapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import DTypeError, StalePlanError
from polyfuse.run.dispatch import Jitted

Jit = Callable[..., Jitted]
X = np.arange(-5, 5, dtype=np.int8)
U = np.arange(9, dtype=np.uint8)


@pytest.mark.parametrize("backend", ["numba_cpu", "interpreter"])
def test_one_program_serves_all_integers_that_fit(jit: Jit, backend: str) -> None:
    f = jit(lambda x, a: x * a, backend=backend)
    for a in (3, 127, -128, 0, 1):
        np.testing.assert_array_equal(f(X, a), X * np.int8(a))
    assert f.cache_info().traces == 1


@pytest.mark.parametrize(
    ("function", "x", "values"),
    [
        (lambda x, a: x * a, X, (3, 128, -129, 5, 1 << 40)),
        (lambda x, a: (x * a, a // 2), X, (3, 300, 5)),  # wide beside narrow: the kernel has the wide one
        (lambda x, a: x * (a * 2), X, (3, 100, 4)),
        (lambda x, a: x + a, U, (-1, 256, 255, 0)),
        (lambda x, a: x * a, np.arange(3, dtype=np.uint64), (-1, 7)),
        (lambda x, a: x // a, np.arange(3, dtype=np.int32), (1 << 31, 7)),
    ],
    ids=["int8", "int8 and int64", "computed", "uint8", "uint64", "int32"],
)
def test_integers_that_do_not_fit_are_errors_as_in_numpy(jit: Jit, function: Any, x: Any, values: Any) -> None:
    f = jit(function)
    for a in (*values, *values):
        try:
            expected = function(x, a)
        except OverflowError as error:
            with pytest.raises(DTypeError, match="out of bounds") as caught:
                f(x, a)
            assert str(error).split()[2] in str(caught.value)  # the number
            assert "test_integer_ranges.py" in str(caught.value)
        else:
            found = f(x, a)
            pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
            for one, other in pairs:
                np.testing.assert_array_equal(one, other)


def test_comparisons_and_limits_are_by_value(jit: Jit) -> None:
    def function(x: Any, a: int) -> Any:
        return x < a, x >= a, x != a, np.clip(x, 0, a)

    f = jit(function)
    for a in (4, 300, 255, 1000, 3):
        for found, wanted in zip(f(U, a), function(U, a), strict=True):
            np.testing.assert_array_equal(found, wanted)
    wide = jit(lambda x: np.clip(x, -1000, 200))
    np.testing.assert_array_equal(wide(X), np.clip(X, -1000, 200))


@pytest.mark.parametrize(
    "function",
    [lambda x: x * x.shape[0], lambda x: x - x.shape[0] * x.shape[1], lambda x: x + (-x.shape[0])],
    ids=["size", "product", "negative"],
)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_sizes_that_do_not_fit_are_errors(jit: Jit, function: Any, dtype: Any) -> None:
    f = jit(function)
    for shape in ((5, 3), (20, 30), (127, 2), (128, 2), (300, 2), (7, 9), (2, 2)):
        x = np.ones(shape, dtype)
        try:
            expected = function(x)
        except OverflowError:
            with pytest.raises(DTypeError, match="out of bounds"):
                f(x)
        else:
            np.testing.assert_array_equal(f(x), expected)


def test_what_is_prepared_ahead_holds_for_integers_that_fit(jit: Jit) -> None:
    f = jit(lambda x, a: x * a)
    compiled = f.compile(X, 3)
    np.testing.assert_array_equal(compiled(X, 7), X * np.int8(7))
    for wrong in (128, 2.0):
        with pytest.raises(StalePlanError):
            compiled(X, wrong)
    with pytest.raises(DTypeError):
        f.bind(X, 128)


@pytest.mark.parametrize(
    ("declared", "fitting", "others"),
    [("i8", (-128, True), (128, 1.0)), ("u8", (255, 0), (256, -1)), ("u64", (7,), (-1,)), ("bool", (True,), (2, 1.0))],
)
def test_declared_numbers_hold_their_own_values(jit: Jit, declared: str, fitting: Any, others: Any) -> None:
    compiled = jit(lambda x, a: x * a).compile(pf.spec("f32[N]"), pf.spec(declared), target="cpu")
    x = np.arange(3, dtype=np.float32)
    for a in fitting:
        np.testing.assert_array_equal(compiled(x, a), x * a)
    for a in others:
        with pytest.raises(StalePlanError):
            compiled(x, a)


def elements(x: Any, a: int) -> Any:
    y = np.zeros(3, np.uint8)
    y[:] = [a, 1, 2]
    y[[0, 2]] = [1, a]
    return y + np.array([a, 1, 2], np.uint8)


@pytest.mark.parametrize("value", [300, -1, 256])
def test_integers_in_lists_fit_the_elements_that_they_become(jit: Jit, value: int) -> None:
    f = jit(elements)
    np.testing.assert_array_equal(f(X, 200), elements(X, 200))
    with pytest.raises(DTypeError, match=f"{value} out of bounds for uint8"):
        f(X, value)
    np.testing.assert_array_equal(f(X, 7), elements(X, 7))
    with pytest.raises(DTypeError, match=f"{value} out of bounds for uint8"):
        jit(lambda x: elements(x, value))(X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, k: k * k * x,
        lambda x, k: k * 10**10 + x,
        lambda x, k: (k + k - 3 * k) * x,
        lambda x, k: (k << 40) * x,
        lambda x, k: 2 ** abs(k % 64) * x,
        lambda x, k: (k**3, x),
        lambda x, k: -k * abs(k) // 7 * x,
        lambda x, k: (1103515245 * k + 12345) % 2**31 * x,
        lambda x, k: k * (k + 1) // 2 % 1000003 + x,
        lambda x, k: x.shape[0] * k * k * x,
    ],
)
def test_integers_of_the_caller_have_as_many_digits_as_they_need(jit: Jit, function: Any) -> None:
    f, x = jit(function), np.arange(3.0)
    for k in (3, 1 << 40, -5, (1 << 63) - 1, 63, 1 << 31, -(1 << 63), 3):
        found, wanted = (v if isinstance(v, tuple) else (v,) for v in (f(x, k), function(x, k)))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.asarray(one, float), np.asarray(other, float), rtol=1e-15)


def test_numbers_that_stay_small_have_one_trace(jit: Jit) -> None:
    f = jit(lambda x, k: (1103515245 * k + 12345) % 2**31 * x)
    for k in range(20):
        f(np.arange(3.0), k << 20)
    assert f.cache_info().traces == 1


def test_long_computations_of_integers_are_looked_at_once(jit: Jit) -> None:
    def function(x: Any, seed: int, k: int) -> Any:
        total = 0
        for _ in range(60):
            seed = (seed * seed + 1103515245 * seed + 12345) % 2**31
            total = total + k
        return x * seed + total

    f, x = jit(function), np.arange(3.0)
    for seed, k in ((1, 2), (12345, -7), (2**31 - 1, 2**40), (5, 2**62)):
        np.testing.assert_allclose(f(x, seed, k), function(x, seed, k), rtol=1e-15)
