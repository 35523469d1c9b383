"""``dtype=``, ``initial=`` and operands that are numbers, of ufuncs and their methods, as NumPy resolves them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyfuse.errors import DTypeError, ShapeError
from tests.frontend.ops import assert_same, run

K = np.array([[5, 3, 200], [7, 0, 2]], np.int32)
U = np.array([3, 250, 7], np.uint64)
H = np.array([[1.5, -2.25, 300.0]], np.float16)
B = np.array([True, False, True])

TAKEN = """
np.bitwise_or.reduce(i, axis=0, dtype="u1"); np.bitwise_and.reduce(i, dtype="i8", keepdims=True)
np.bitwise_xor.reduce(u, dtype=np.int16); np.maximum.reduce(i, dtype="f4"); np.fmin.reduce(h, axis=1, dtype="f8")
np.maximum.accumulate(i, dtype="i2"); np.bitwise_or.accumulate(u, dtype="u1"); np.maximum.accumulate(i, 1, np.float64)
np.hypot.reduce(i, axis=1, dtype="f4"); np.logaddexp.reduce(i % 9, axis=1, dtype="f4")
np.subtract.reduce(i, dtype="i1"); np.logical_or.reduce(b & False, initial=-1)
np.logical_and.reduce(b | True, initial=0)
np.logical_and.reduce(i, axis=1, dtype=bool); np.bitwise_or.reduceat(u, [0, 2], dtype="u1")
np.logaddexp.reduce(i % 9, axis=1, where=i > 2, initial=1); np.cumsum(i, axis=1, dtype=bool)
np.cumulative_prod(i[0] % 5, dtype=bool, include_initial=True)
np.multiply.outer(h, 7); np.add.outer(2.5, h); np.multiply.outer(u, 7); np.less.outer(u, 7); np.add.outer(b, True)
np.ldexp(h, u.astype("i4") % 5, dtype="f4"); np.add(i, h, dtype="f8"); np.divide(i, 3, dtype="f4")
np.maximum(i, h, dtype="f4", casting="unsafe"); np.add(h, 1, dtype="f4"); np.modf(h, dtype="f8")
np.divmod(i, 4, dtype="i8")
"""


def parts(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split("; ")]


@pytest.mark.parametrize("call", parts(TAKEN))
def test_as_numpy(call: str) -> None:
    function: Any = eval(f"lambda i, u, h, b: {call}", {"np": np})
    assert_same(run(function, K, U, H, B), function(K, U, H, B))


ARRAYS_OF_NUMBERS = """
np.inner(u, 3); np.dot(2.5, h); np.tensordot(h, 3, 0); np.einsum("i,->i", u, 3); np.stack([u[0], 3]); np.sum([u[0], 3])
np.mean([h[0, 0], 3]); np.max([h[0, 0], True]); np.median([h[0, 0], 2.5]); np.clip(3, h, None); np.polyval(u, 3)
np.polyval([np.int8(3), 1], h); np.geomspace(3, abs(h), 3); np.searchsorted(np.sort(u), -2); u * [u[0], 3, 1]
np.linspace(h[0, 0] * 0, 1, 3, dtype=bool)
"""


@pytest.mark.parametrize("call", parts(ARRAYS_OF_NUMBERS))
def test_numbers_of_which_numpy_makes_arrays_have_a_dtype(call: str) -> None:
    function: Any = eval(f"lambda i, u, h, b: {call}", {"np": np})
    assert_same(run(function, K, U, H, B), function(K, U, H, B))


BEYOND_64_BITS = """
h * 10**30; h.astype("f4") * 10**30; i < 2**70; 2**70 > i; u == -(2**70); i[0] != 10**30; np.maximum(h, 2**70)
np.clip(h.astype(float), -(10**30), 10**30); np.clip(i, -(10**30), 2); np.where(b, h.astype("f4"), 2**70)
"""


@pytest.mark.parametrize("call", parts(BEYOND_64_BITS))
def test_integers_beyond_64_bits_meet_floats_and_are_compared(call: str) -> None:
    function: Any = eval(f"lambda i, u, h, b: {call}", {"np": np})
    with np.errstate(over="ignore"):
        assert_same(run(function, K, U, H, B), function(K, U, H, B))


def test_integers_beyond_64_bits_meet_no_integers() -> None:
    with pytest.raises(DTypeError, match=r"the Python integer 1e\+30 is out of bounds for int32"):
        run(lambda i: i + 10**30, K)
    with pytest.raises(DTypeError, match="beyond all floats"):
        run(lambda i: i * 1.0 + 10**400, K)


def test_numbers_of_numpy_into_an_array_of_the_trace() -> None:
    def function(x: Any) -> Any:
        return np.exp(np.float32(0.5), out=x * 0)

    assert_same(run(function, np.ones(3)), function(np.ones(3)))


def test_rounded_to_tens_in_float64() -> None:
    x = np.array([13241819081006940982, 2**63, 250], np.uint64)
    i = np.array([4781175726245799200, -(2**62) - 55, 149])
    b = np.array([127, -55, 25], np.int8)
    assert_same(run(lambda x, i, b: (x.round(-2), np.round(i, -1), np.round(b, -1)), x, i, b),
                (x.round(-2), np.round(i, -1), np.round(b, -1)))  # fmt: skip


def test_unwrap_in_the_dtype_of_the_array() -> None:
    i = np.array([0, 1, 2, -1, 0, 9], np.int32)
    u = np.array([0, 65531, 2, 7], np.uint16)
    for function in (
        lambda i, u: np.unwrap(i, period=4),
        lambda i, u: np.unwrap(i, period=3),
        lambda i, u: np.unwrap(u),
        lambda i, u: np.unwrap(i, discont=5, period=4),
        lambda i, u: np.unwrap(i.astype(np.float32)),
    ):
        assert_same(run(function, i, u), function(i, u))


def test_ldexp_of_a_number_and_an_array_of_exponents() -> None:
    n, h = np.array([1, 5, -3]), np.array([2, 1, 0], np.int8)
    for function in (lambda n, h: np.ldexp(3, n), lambda n, h: np.ldexp(2.5, h), lambda n, h: np.ldexp(h, n)):
        assert_same(run(function, n, h), function(n, h))


REFUSED = """
np.bitwise_or.reduce(i, dtype="f4"); np.hypot.reduce(i, dtype="i1"); np.logical_or.reduce(i, dtype="i1")
np.true_divide(i, 2, dtype="i4"); np.exp(u, dtype="u8"); np.hypot(i, u, dtype="i1"); np.left_shift(i, 1, dtype="f4")
np.maximum(h, 1, dtype="i4"); np.frexp(h, dtype="f8"); np.copysign.reduce(i, dtype="u4")
"""


@pytest.mark.parametrize("call", parts(REFUSED))
def test_dtypes_without_a_loop_are_refused(call: str) -> None:
    function: Any = eval(f"lambda i, u, h, b: {call}", {"np": np})
    with pytest.raises(TypeError):
        function(K, U, H, B)
    with pytest.raises(DTypeError, match="does not compute in dtype="):
        run(function, K, U, H, B)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        ('h.astype("i4", casting="safe")', "x.astype cannot cast float16 to int32 by the rule 'safe'"),
        ('h.astype("u8", "K", "same_kind")', "x.astype cannot cast float16 to uint64 by the rule 'same_kind'"),
        ("np.round(b, 1)", "np.round does not take truth values to decimal places"),
        ("+b", "np.positive does not accept bool"),
        ("np.bitwise_xor.accumulate(h)", "np.bitwise_xor does not accept float16"),
        ("np.concatenate([h, h], dtype=int)", "float16 is not cast to dtype=int64 by the rule 'same_kind'"),
        ("np.stack([i, i], dtype='u1')", "int32 is not cast to dtype=uint8 by the rule 'same_kind'"),
        ("np.hstack([i, i], dtype='f8', casting='no')", "int32 is not cast to dtype=float64 by the rule 'no'"),
        ("np.add(i, h, casting='no')", "np.add does not compute for int32, float16 by the rule 'no'"),
        ("np.ldexp(h, u)", "np.ldexp does not accept float16, uint64"),
    ],
)
def test_casts_and_operands_that_numpy_refuses(call: str, match: str) -> None:
    function: Any = eval(f"lambda i, u, h, b: {call}", {"np": np})
    with pytest.raises(TypeError):
        function(K, U, H, B)
    with pytest.raises(DTypeError, match=match):
        run(function, K, U, H, B)


def test_variances_in_integers_are_refused() -> None:
    with pytest.raises(DTypeError, match="variances are no int8"):
        run(lambda i: np.var(i, dtype=np.int8), K)
    with pytest.raises(DTypeError, match="variances are no bool"):
        run(lambda i: np.std(i, dtype=bool), K)


def test_samples_at_points_of_more_axes() -> None:
    def function(y: Any, x: Any) -> Any:
        return np.trapezoid(y, x)

    y, x = np.array([1.0, 2.0, 4.0]), np.arange(12.0).reshape(4, 3) ** 2
    assert_same(run(function, y, x), function(y, x))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "minimum", "maximum"])
@pytest.mark.parametrize("value", [np.int8(-1), np.uint8(200), np.array([3, 2, 300], np.int16), 3, True], ids=repr)
@pytest.mark.parametrize("dtype", ["u1", "i1", "i4", "f4"])
def test_repeated_updates_by_values_of_another_dtype(name: str, value: Any, dtype: str) -> None:
    def function(x: Any) -> Any:
        y = x + 0
        getattr(np, name).at(y, [0, 0, 1], value)
        return y

    x = np.array([1, 0, 3], dtype)
    assert_same(run(function, x), function(x))


def test_what_does_not_broadcast_fills_no_array() -> None:
    for function in (lambda x, y: np.full(x.shape, y), lambda x, y: np.full_like(x, y)):
        with pytest.raises(ShapeError, match="does not broadcast to"):
            run(function, np.ones((3, 1)), np.ones(5))
