"""Numbers of Python lift only the kind of what they meet; NumPy's have a dtype.  Sizes and arguments are Python's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import DTypeError, ShapeError
from tests.frontend.ops import assert_same, run

X = np.linspace(-2, 3, 7, dtype=np.float32)


def sizes_times_numpy(x: Any, s: float, k: int) -> Any:
    n = len(x)
    return (
        *(x * (n * np.log(2.0)), x + (n + np.float64(1)), x * (np.float64(2) - n), x * (n / np.int64(3))),
        *(x * n**0.5, x * (1 / n), x * (n * np.float32(3)), x.astype(np.int8) * (n // 2)),
    )


def rounded_numbers(x: Any, s: float, k: int) -> Any:
    return x * round(s), x * round(s, 1), x.astype(np.int8) * round(s), x * round(k)


def largest_of_numbers(x: Any, s: float, k: int) -> Any:
    return x * max(s, 1), x * min(k, 2.0, s), x.astype(np.int8) * max(k, 2)


def joined_with_numbers(x: Any, s: float, k: int) -> Any:
    return np.r_[x, 0], np.r_[1.5, x, 2], np.r_[x[:2], [1, 2]], np.r_[x.astype(np.int16), 300], np.append(x, 0)


@pytest.mark.parametrize("function", [sizes_times_numpy, rounded_numbers, largest_of_numbers, joined_with_numbers])
def test_dtypes_are_numpys(function: Any) -> None:
    assert_same(pf.jit(backend="interpreter")(function)(X, 2.5, 3), function(X, 2.5, 3))


def test_the_least_of_numbers_some_of_which_are_known() -> None:
    def function(x: Any, s: float, k: int) -> Any:
        return (x if k > 1 else -x) * min(k, 2.0, s), x * max(2, 5, s)

    for s, k in ((2.5, 3), (0.5, 3), (7.5, 1)):
        assert_same(pf.jit(backend="interpreter")(function)(X, s, k), function(X, s, k))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8, np.bool_])
def test_the_largest_of_integers_is_found_among_all_their_bits(dtype: Any) -> None:
    """They are no NaN, and a float64 has 53 bits."""

    def function(x: Any) -> Any:
        return np.nanargmax(x, axis=1), np.nanargmin(x, axis=0), np.nanargmax(x)

    top = 1 if dtype is np.bool_ else np.iinfo(dtype).max
    x = np.array([[top - 1, top, 0], [0, 1, top]], dtype)
    assert_same(pf.jit(backend="interpreter")(function)(x), function(x))


@pytest.mark.parametrize("axis", [1, np.int64(1), (-1,)])
def test_an_axis_is_any_integer(axis: Any) -> None:
    def function(x: Any, along: int) -> Any:
        return np.hypot.reduce(x, axis=axis), np.subtract.reduce(x, axis=along)

    x = np.linspace(0, 1, 6).reshape(2, 3)
    assert_same(pf.jit(backend="interpreter")(function)(x, 1), function(x, 1))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float32])
def test_logical_ufuncs_reduce_numbers_as_truth_values(dtype: Any) -> None:
    def function(x: Any) -> Any:
        ufuncs = np.logical_xor, np.logical_or, np.logical_and
        return [(f.reduce(x, axis=1), f.reduce(x), f.accumulate(x, axis=1)) for f in ufuncs]

    x = np.array([[2, 0, 1], [0, 0, 3]]).astype(dtype)
    assert_same(pf.jit(backend="interpreter")(function)(x), function(x))


def test_dimensions_of_an_ellipsis_are_not_summed_in_silence() -> None:
    def function(x: Any) -> Any:
        return np.einsum("i...,i->i", x, x[:, 0])

    with pytest.raises(ShapeError, match="not in the output 'i'"):
        pf.jit(function)(np.ones((3, 4)))


@pytest.mark.parametrize("k", [3, True, 2.5])
def test_quotients_and_powers_of_numbers_are_pythons(k: Any) -> None:
    def function(x: Any, k: Any) -> Any:
        return *(x * part for part in divmod(k, 2)), *(x * part for part in divmod(7, k))

    def powers(x: Any, k: Any) -> Any:
        return x * k**-1, x * k**-2, x * 2**-k

    x = np.arange(5, dtype=np.int8)
    assert_same(pf.jit(backend="interpreter")(function)(x, k), function(x, k))
    assert_same(pf.jit(backend="interpreter")(powers)(x, k), powers(x, k))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float32, np.bool_])
@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)])
def test_arithmetic_of_truth_values_is_pythons(dtype: Any, flags: tuple[bool, bool]) -> None:
    def function(x: Any, a: bool, b: bool) -> Any:
        sums = x * (a + b), x + (a + True), x * (a * b), x + (a - b + 1), x + (a << b), x * (a**2), x + a // 1
        return *sums, x + abs(a), x * (-a + 1), x + (+a), x * (a & b), x * (a | b), x + (a ^ b), x * (a < b)

    x = np.array([0, 1, 1, 0], dtype)
    assert_same(pf.jit(backend="interpreter")(function)(x, *flags), function(x, *flags))


def stored(write: Any) -> Any:
    def function(x: Any, s: Any) -> Any:
        y = x.copy()
        write(y, s)
        return y

    return function


@pytest.mark.parametrize("backend", ["interpreter", "numba_cpu"])
@pytest.mark.parametrize("s", [2.5, 2.0, -1.5])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, s: (np.full_like(x, s), np.full(3, s, dtype=int) + x, np.full(3, s, dtype=bool)),
        lambda x, s: (np.array(s, dtype=x.dtype) + x, np.asarray(s, dtype=np.int32) + x),
        stored(lambda y, s: y.__setitem__(0, s)),
        stored(lambda y, s: y.__setitem__(slice(1, 3), s)),
        stored(lambda y, s: y.__setitem__(y > 1, s)),
        stored(lambda y, s: y.__setitem__([0, 2], s)),
        stored(lambda y, s: y.flat.__setitem__(2, s)),
        stored(lambda y, s: y.fill(s)),
        stored(lambda y, s: np.copyto(y, s, casting="unsafe")),
        lambda x, s: (np.pad(x, 1, constant_values=s), x.sum(initial=s), x.max(initial=s)),
    ],
)
def test_integers_take_what_is_left_of_a_float(function: Any, s: float, backend: str) -> None:
    x = np.arange(3)
    assert_same(pf.jit(backend=backend)(function)(x, s), function(x, s))


@pytest.mark.parametrize("backend", ["interpreter", "numba_cpu"])
def test_a_number_that_one_kernel_uses_in_several_dtypes_stays_what_it_is(backend: str) -> None:
    def function(mask: Any, z: Any, s: Any) -> Any:
        y = mask.copy()
        y[0] = s
        return y, np.where(mask, mask, s), z * s, z + np.full(3, s, dtype=int)

    mask, z = np.array([True, False, True]), np.array([1.0, 2.0, 3.0])
    for s in (0.5, 2.5, 3, True, 0):
        assert_same(pf.jit(backend=backend)(function)(mask, z, s), function(mask, z, s))


@pytest.mark.parametrize("backend", ["interpreter", "numba_cpu"])
def test_arguments_round_to_sixteen_bits_as_literals_do(backend: str) -> None:
    def function(x: Any, z: Any, s: Any) -> Any:
        return np.full_like(x, s).astype(np.float32) + np.zeros(2, np.float32), x == s, x < s, x > s, z * s

    for s in (0.1, 1e-9, 3.3, 2049):
        x, z = np.full(2, s, np.float16), np.ones(2)
        assert_same(pf.jit(backend=backend)(function)(x, z, s), function(x, z, s))


def test_attributes_and_scalar_types_of_numbers() -> None:
    def function(x: Any, n: int, a: float) -> Any:
        assert n.bit_length() == 3 and n.denominator == 1 and not a.is_integer()
        return np.float32(a) * x, np.int64(n) * x, np.float64(n), x.astype(np.float32) * np.float32(n), np.int8(n) // 2

    assert_same(run(function, np.arange(3.0), 5, 2.5), function(np.arange(3.0), 5, 2.5))


@pytest.mark.parametrize("value", [2.55, 2.675, 0.15, -1.005, 1.0])
def test_decimals_of_a_number_of_the_caller_are_pythons(value: float) -> None:
    """2.675 lies below the middle of 2.67 and 2.68, which it cannot be told apart from once it is multiplied by 100."""

    def function(x: Any, k: float) -> Any:
        return round(k, 1) * x, round(2 * k, 2) + x, round(k, 0) - x

    x = np.arange(3.0)
    jitted = pf.jit(function, backend="interpreter")
    for number in (value, 3.5, value):
        assert_same(jitted(x, number), function(x, number), exact=True)


class Place:
    """Stands for an integer."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __index__(self) -> int:
        return self.at


PLACE = Place(1)


def written_there(x: Any) -> Any:
    y = x.copy()
    y[PLACE, PLACE:] = 0
    y[PLACE] += 1
    return y


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[PLACE], lambda x: x[PLACE:, ::PLACE], lambda x: x[PLACE, PLACE],
        lambda x: x[np.array([0, 1]), PLACE], written_there,
    ],
)  # fmt: skip
def test_objects_that_stand_for_integers_are_indices(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, jitted = np.arange(12.0).reshape(3, 4), pf.jit(function)
    for at in (1, 2, 1):
        monkeypatch.setattr(PLACE, "at", at)
        np.testing.assert_array_equal(jitted(x), function(x))


def test_objects_that_stand_for_integers_are_no_operands() -> None:
    with pytest.raises(DTypeError, match="a value of type Place cannot take part") as raised:
        pf.jit(lambda x: np.add(x, PLACE))(np.ones(3))
    assert "int(...)" in raised.value.advice
