"""Sizes as numbers: what is computed from ``x.shape``, at every size that the guards of one trace allow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import DTypeError, ShapeError
from polyfuse.frontends.numpy_like import Traced, specs_of_arrays, trace
from polyfuse.frontends.numpy_like.sizes import SymbolicSize
from polyfuse.reference import evaluate
from tests.frontend.ops import assert_same, run

VALUES = """
m + 3; 3 + m; m - 7; 7 - m; m + n; m - n; -m; +m; abs(m); abs(-m); abs(m - n); abs(1 - m * n); ~m; ~(m * n)
m * n; 2 * (n * m); m * n + 1; 1 - m * n; m * n - m; m * 1.5; m + 0.5; 0.5 - m; m - 0.5; 1.5 * m * n; m + True; m * True
m // 2; m // n; 17 // m; m // -2; m // 2.5; 2.5 // m; (m + n) // 2; m * n // n; m * n // 3; 0 // m; m // True
m % 3; 17 % m; m % n; m % -2; m % 2.5; 7.5 % m; m * n % n; m * n % 5; divmod(m, 4)[0]; divmod(m, 4)[1]
divmod(m * n, n)[0]; divmod(17, m)[0]; divmod(17, m)[1]; divmod(2.5, m)[1]
m / n; 1 / m; 1.5 / m; m * n / m; m ** 2; m ** 0.5; m ** -1; m ** n; m ** 9; 2 ** m; 2.0 ** m; pow(m, 2)
m & 3; 3 & m; m | n; 8 | m; m ^ n; 3 ^ m; m << 1; 1 << m; m >> 1; 64 >> m; m & (m - 1)
round(m); round(m, 1); round(m, -1); max(m, n); min(m, 9); sum([m, n])
np.sqrt(m); np.add(m, n); np.maximum(m, n); np.log(m * n); np.float32(2) * m; m * np.float32(2); np.float64(2) ** m
np.float64(9) // m; m - np.float32(1); np.float32(1) - m; np.hypot(m, 3); np.power(2.0, m)
m * np.int64(2); m + np.int64(3); np.int64(3) - m; m // np.int64(2); m % np.int64(3); m ** np.int64(2)
m * n // np.int64(3); m + np.int8(3); m * np.uint8(3); m // np.int32(2); x[0, 0] * (m * np.int64(2))
x[0, 0].astype(np.int8) * (m + np.int32(1)); (m + np.int64(1)) / 2; (m + np.int64(1)) * 1.5
(m + np.int64(1)) * x[0, 0]; -(m * np.int64(2)); m * np.int64(2) - n; x[0, 0] / (m * np.int64(2) * n - m)
x.sum() * (m * np.int64(1)); m * np.int64(0) + x[0, 0]; m - m * np.int64(1)
m == x.sum(); m != x.sum(); x.sum() == m; m < x.sum(); m >= x[0, 0]; (m > x[:, 0]).sum(); (m <= x).any()
"""

BRANCHES = """
m < n; m <= n; m > n; m >= n; m == n; m != n; m < 5; m <= 5; m > 5; m >= 5; 5 <= m; m == 5; m != 5; m in (4, 5)
m > 4.5; m >= 4.5; m < 4.5; m <= 4.5; 4.5 < m; m > 4.0; m >= 4.0; m < 4.0; m <= 4.0; m == 4.0; m == 4.5; m != 4.0
m < np.float64(5); m > np.float32(4.5); np.float64(4.5) < m; np.int64(5) > m; m == np.int64(5); m == np.float32(5)
m < float("inf"); m <= -float("inf"); m > float("inf"); m > float("nan"); m <= float("nan"); m == float("nan")
m > True; m == True; m == np.True_; m >= np.True_; m * n >= True
m * n > 20; m * n >= 20; m * n < 20; m * n <= 20; 20 < m * n; m * n > 20.5; m * n == n * m; m * n == 24; m * n != m * m
m * n > m; m * n >= m * m; m < m * n; m * n > 4 * m; 2 * m * n > 3 * m * m; m * n > m * n; m * n >= m * n
m * n > (m - 4) * 8; m * n > m + 12; m * n >= (m + n) * m; (m - 4) * n > (m - 4) * 5
m == "a"; m != "a"; m is None; m == None; bool(m); bool(m - 4); bool(m * n); not m - n; m % 2 == 0; m & (m - 1) == 0
m / n > 1; m // n > 0; m * 0.5 >= 2.5; np.sqrt(m) > 2
"""


def listed(text: str) -> list[str]:
    return [entry.strip() for line in text.strip().splitlines() for entry in line.split(";")]


def function_of(expression: str) -> Callable[[Any], Any]:
    code = compile(expression, "<expression>", "eval")

    def value(x: Any) -> Any:
        m, n = x.shape
        return eval(code, {"np": np, "m": m, "n": n, "x": x})

    return value


def traced_at(function: Callable[[Any], Any], m: int, n: int) -> Traced:
    return trace(function, specs_of_arrays([np.ones((m, n))]))


def served(traced: Traced, function: Callable[[Any], Any], m: int, n: int) -> bool:
    """Whether the trace stands for these sizes; if it does, it computes what NumPy computes there."""
    if not all(guard.holds({"n0": m, "n1": n}) for guard in traced.guards):  # type: ignore[call-arg]
        return False
    x = np.ones((m, n))
    assert_same(traced.rebuild(evaluate(traced.program, [x, *traced.captured]), {}), function(x))
    return True


@pytest.mark.parametrize("expression", listed(VALUES))
def test_a_value_at_other_sizes(expression: str) -> None:
    """`np.float32` beside the value shows whether it is a number of Python's."""
    value = function_of(expression)

    def function(x: Any) -> Any:
        found = value(x)
        return x * found, np.ones(2, np.float32) * found

    traced = traced_at(function, 4, 6)
    assert served(traced, function, 4, 6)
    assert sum(served(traced, function, m, n) for m, n in ((6, 10), (7, 3), (5, 5), (8, 9))) >= 2


@pytest.mark.parametrize("expression", listed(BRANCHES))
def test_a_branch_is_guarded(expression: str) -> None:
    """Whatever sizes it is traced at, a program is right for all that its guards let in."""
    value = function_of(expression)

    def function(x: Any) -> Any:
        return x * 2 if value(x) else x * 3

    for sizes in ((4, 6), (5, 4), (4, 4)):
        traced = traced_at(function, *sizes)
        assert served(traced, function, *sizes)
        for m, n in product(range(2, 8), repeat=2):
            served(traced, function, m, n)


@pytest.mark.parametrize(
    "expression", ["m > 4.5", "m >= 4.0", "m * n > 20.5", "m * n >= m * m", "2 * m * n > 3 * m * m", "m < m * n"]
)
def test_a_comparison_does_not_fix_the_size(expression: str) -> None:
    value = function_of(expression)

    def function(x: Any) -> Any:
        return x * 2 if value(x) else x * 3

    traced = traced_at(function, 5, 6)
    assert sum(served(traced, function, m, n) for m, n in product(range(2, 8), repeat=2)) > 5


@pytest.mark.parametrize(
    "expression",
    [
        "np.linspace(0, 1, m - 1)",
        "np.linspace(x[0], 2, m - 2)",
        "np.linspace(0, 1, m // 2)",
        "np.logspace(0, 1, m - 1)",
        "np.linspace(0, 1, m - 2, endpoint=False)",
        "np.linspace(0, 1, m - 1, retstep=True)",
        "np.linspace(0, x[0, 0], m - 2, endpoint=False, retstep=True)",
        "np.linspace(x[0], 1, m - 2, retstep=True)",
        "np.concatenate([x[:2], np.zeros((m - 4, n)), x[-2:]])",
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_an_array_of_a_computed_length(expression: str) -> None:
    """Down to one point, which stands at the beginning of its line, and to none."""
    function = function_of(expression)
    for traced_size in (4, 6):
        traced = traced_at(function, traced_size, 3)
        for m in range(4 if "m - 4" in expression else 2, 9):
            served(traced, function, m, 3)
        assert not served_below(traced, function)


def served_below(traced: Traced, function: Callable[[Any], Any]) -> bool:
    """Whether the trace stands for sizes at which NumPy raises an error."""
    for m in (2, 3):
        try:
            function(np.ones((m, 3)))
        except ValueError:
            if all(guard.holds({"n0": m, "n1": 3}) for guard in traced.guards):  # type: ignore[call-arg]
                return True
    return False


def test_a_size_taken_as_an_integer_or_float_is_fixed() -> None:
    for convert in (int, float, lambda n: "abcdef"[n], lambda n: [0.5] * n):

        def function(x: Any, convert: Any = convert) -> Any:
            value = convert(x.shape[0])
            return x * (value if isinstance(value, float) else len(value) if isinstance(value, (str, list)) else 2)

        traced = traced_at(function, 4, 6)
        assert served(traced, function, 4, 6)
        assert [str(a.shape) for a in traced.program.arguments] == ["(4, n1)"]


@pytest.mark.parametrize("expression", ["m + None", "m < None", "m < 'a'", "m & 1.5", "[] + m"])
def test_what_is_no_number_is_an_error_of_pythons(expression: str) -> None:
    with pytest.raises((TypeError, DTypeError)):
        traced_at(function_of(expression), 4, 6)


@pytest.mark.parametrize(
    "text", [lambda x: f"{x.shape}", lambda x: repr(x.shape), lambda x: str([x.size]), lambda x: f"{len(x)!r}"]
)
def test_texts_of_sizes_have_their_digits(text: Callable[[Any], str]) -> None:
    def function(x: Any) -> Any:
        return {text(x): x}

    jitted = pf.jit(function, backend="interpreter")
    for shape in ((4, 6), (2, 3), (4, 6)):
        assert list(jitted(np.ones(shape))) == [text(np.ones(shape))]


def test_sizes_have_the_attributes_of_integers() -> None:
    def function(x: Any) -> Any:
        m, n = x.shape
        return x * m.bit_length() + n.real - m.imag + (m + n).numerator

    for shape in ((4, 6), (9, 3)):
        assert_same(run(function, np.ones(shape)), function(np.ones(shape)))
    with pytest.raises(AttributeError, match="'int' object has no attribute 'shape'"):
        traced_at(lambda x: x.shape[0].shape, 4, 6)


def test_sizes_have_letters() -> None:
    shown: list[str] = []

    def function(x: Any) -> Any:
        m, n = x.shape
        shown.extend(size.letters for size in (m, m * n, (m + 1) * n * 2, m // 2))
        assert isinstance(m * n, SymbolicSize) and m * n == n * m
        return x

    traced_at(function, 4, 6)
    assert shown == ["n0", "n0*n1", "(2*n0 + 2)*n1", "floor((n0)/2)"]


TABLE, ROW = np.arange(12.0).reshape(3, 4), np.arange(4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (
            np.tile(TABLE, (len(x), 2)),
            np.tile([0, 1], len(x)),
            np.tile(0.5, x.shape),
            np.tile((0, 1), len(x)),
        ),
        lambda x: (np.repeat(TABLE, len(x), axis=0), np.repeat([0, 1], len(x)), np.repeat(7, len(x))),
        lambda x: (np.roll(ROW, -len(x)), np.pad([1, 2], (len(x), 0)), np.broadcast_to(1.0, x.shape)),
        lambda x: (np.resize(ROW, x.shape), np.reshape(ROW, (2, len(x) // 2)), np.split(ROW, len(x) // 2)),
        lambda x: (np.take(ROW, [0, len(x) - 3]), np.rot90(TABLE, len(x)), np.cumsum(ROW, axis=x.ndim - 2)),
        lambda x: (
            np.diag(ROW, len(x)),
            np.diag(TABLE, len(x) - 4),
            np.trace(TABLE, len(x) - 3),
            np.vander(ROW, len(x)),
        ),
        lambda x: (np.insert(ROW, len(x) - 1, 9), np.delete(ROW, len(x) - 2), np.stack((ROW, ROW), axis=len(x) - 4)),
        lambda x: (
            np.unravel_index(5, x.shape),
            np.ravel_multi_index((1, 2), x.shape),
            np.bincount(ROW, minlength=len(x)),
        ),
        lambda x: (np.split(x, len(x)), np.array_split(np.arange(9), len(x)), np.split(np.arange(12), len(x))),
        lambda x: (np.split(x, np.int64(2)), np.split(x, np.array([1, 3])), np.hsplit(x, [len(x) - 2])),
        lambda x: (np.tile(x, np.array([1, 2])), np.roll(x, np.array([1, 2]), (0, 1)), np.zeros(np.array([2, 3]))),
        lambda x: (x / np.prod(x.shape), x.reshape(np.prod(x.shape)), x.reshape(int(np.prod(x.shape[:1])), -1)),
        lambda x: (np.zeros(np.max(x.shape)), np.arange(np.sum(x.shape)), np.ones(np.array(x.shape) // 2)),
        lambda x: np.arange(np.prod(x.shape)).reshape(x.shape) * x,
    ],
)
@pytest.mark.parametrize("shape", [(4, 6), (4, 4)])
def test_arrays_from_outside_and_shapes_follow_sizes(function: Callable[[Any], Any], shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    assert_same(run(function, x), function(x))


def test_a_number_of_sections_is_an_integer() -> None:
    with pytest.raises(ShapeError, match="1 section at least, not 0"):
        run(lambda x: np.split(x, 0), np.ones((4, 6)))
    with pytest.raises(ShapeError, match=r"is an integer, not 2\.0"):
        run(lambda x: np.array_split(x, 2.0), np.ones((4, 6)))


@pytest.mark.parametrize(
    "number",
    [
        lambda n: n**8,
        lambda n: n * (n**2 - 1) * n**4 * 7,
        lambda n: (n + 1) * (n + 2) * (n + 3) * (n + 4) * (n + 5) * (n + 6) * (n + 7) / 5,
        lambda n: n * 10**18,
        lambda n: n - 10**30,
        lambda n: n * 2**80 + 1,
        lambda n: -n * 10**17,
        lambda n: 2**n % 7,
        lambda n: 1 << n,
        lambda n: 1 / n**8,
    ],
)
def test_numbers_beyond_64_bits_are_those_of_python(number: Callable[[Any], Any]) -> None:
    jitted = pf.jit(lambda x: x[:2] * number(len(x)), backend="interpreter")
    for size in (3, 700, 12, 90):
        x = np.broadcast_to(1.5, (size,))
        assert_same(jitted(x), x[:2] * number(size))
