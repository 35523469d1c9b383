"""What testers found in code from elsewhere: Python's own numbers, selections, slices at their ends, long chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import ArgumentError, IndexingError, TraceError, UnsupportedError
from polyfuse.frontends.numpy_like import spec, trace

Function = Callable[..., Any]
X = np.arange(1, 4).astype(np.float32)

POWERS: dict[str, tuple[Function, list[int]]] = {
    "rounded to digits": (lambda x, d: np.round(x / 3 / 10**-d) * 10**-d, [3, 0, -2, 3]),
    "steps of so many bits": (lambda x, bits: x * 2 ** (1 - bits), [8, 1, 0, -3]),
    "an argument": (lambda x, n: x * 2**n, [-3, 0, 5, -1]),
    "its negative": (lambda x, n: x * (-2) ** -n, [3, -3, 0]),
    "called": (lambda x, n: x * pow(2, -n), [3, -2]),
    "of itself": (lambda x, n: x * n**n, [-2, 3, 1]),
    "divided by": (lambda x, n: x / 10**-n, [2, -2]),
    "less a size": (lambda x, n: x * 2 ** (n - x.shape[0]), [1, 5]),
    "of a size": (lambda x, n: x * x.shape[0] ** -n, [2, -2]),
    "the negative of a size": (lambda x, n: x * n ** -x.shape[0], [2, 3]),
    "and of a length": (lambda x, n: x * 2 ** -len(x) + n, [1]),
    "of a truth": (lambda x, n: x * True**n, [2, -2]),
    "a number, to one": (lambda x, n: x * n**-2, [2, -3]),
    "never negative": (lambda x, n: x * 2 ** abs(n), [3, -3]),
}


@pytest.mark.parametrize("case", POWERS)
def test_an_integer_to_a_negative_power_is_a_float(case: str) -> None:
    """It was an integer, zero in most of these, where the exponent was no number in the text."""
    function, values = POWERS[case]
    jitted = pf.jit(function)
    for value in values:
        expected, found = function(X, value), jitted(X, value)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_exponents_of_one_sign_share_a_trace() -> None:
    jitted = pf.jit(lambda x, n: x * 2**n)
    for n in (1, 2, 7, 0):
        jitted(X, n)
    assert jitted.cache_info().traces == 1
    jitted(X, -1), jitted(X, -2)
    assert jitted.cache_info().traces == 2


def test_powers_with_a_modulus_are_refused_with_the_line() -> None:
    for function in (lambda x, n: x * pow(n, 5, 7), lambda x, n: x * pow(len(x), 5, 7), lambda x, n: pow(x, 2, 3)):
        with pytest.raises(UnsupportedError, match="modulus") as caught:
            pf.jit(function)(X, 3)
        assert "test_found_by_testers" in str(caught.value) and "r * x % m" in str(caught.value)


SELECTED: dict[str, Function] = {
    "positions": lambda x: np.flatnonzero(x > 0).size + x,
    "elements": lambda x: x[x > 0].size + x,
    "its shape": lambda x: x[x > 0].shape[0] * x,
    "of a tuple": lambda x: x / np.nonzero(x > 0)[0].size,
    "halves of it": lambda x: x * (x[x > 0].size / 2),
    "to its power": lambda x: x * 2 ** x[x > 0].size,
    "to one more": lambda x: x * 2 ** (x[x > 0].size + 1),
    "in place of a number": lambda x: x - x[x > 0].size // 2,
}


@pytest.mark.parametrize("case", SELECTED)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_the_size_of_a_selection_leaves_the_dtype(case: str, dtype: type) -> None:
    x = np.array([1, -2, 3], dtype)
    expected, found = SELECTED[case](x), pf.jit(SELECTED[case])(x)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    "function", [lambda x: x[:, 1:-1] + x[:, :-2], lambda x: x[:, 1:-1] + x[:, 2:], lambda x: x[:, :-2] - x[:, 1:-1]]
)
def test_slices_that_are_just_empty_have_one_length(function: Function) -> None:
    traced = trace(function, [spec("f32[N~5, M~2]")])
    assert not all(g.holds({"N": 5, "M": 3}) for g in traced.guards)
    np.testing.assert_array_equal(pf.jit(function)(np.ones((5, 2), np.float32)), np.ones((5, 0)))


def test_a_part_of_one_row_by_its_size_is_assigned_to_a_row() -> None:
    def last(x: Any) -> Any:
        y = x.copy()
        y[-1] = y[:-2:3]
        return y

    x = np.arange(15.0).reshape(5, 3)
    np.testing.assert_array_equal(pf.jit(last)(x), last(x))


def test_long_chains_of_choices_are_one_kernel() -> None:
    """What a load is wanted for was asked of each reader in turn, a thousand calls deep."""

    def steps(x: Any, y: Any) -> Any:
        for _ in range(220):
            x = np.where(x > 0.5, x * 0.9, x + 0.25)
        return np.where(y > 0, x, y)

    plan = pf.jit(steps).plan(pf.spec("f32[4, 9]"), pf.spec("f32[4, 9]"), target="h200")
    assert len(plan.kernels) == 1 and not plan.fallback


def test_long_chains_of_truths_are_one_kernel() -> None:
    def masked(x: Any) -> Any:
        i = np.arange(x.shape[0])
        m = i >= 0
        for k in range(220):
            m = m & (i <= 3 * k + 1000)
        return np.where(m, x, 0)

    plan = pf.jit(masked).plan(pf.spec("f32[N~5000]"), target="h200")
    assert len(plan.kernels) == 1 and not plan.fallback


@pytest.mark.parametrize("spec_", ["f32[N~5000, 31, 33]", "f64[N~5000, 31, 33]"])
def test_scans_in_threads_whose_number_is_no_power_of_two_verify(spec_: str) -> None:
    """No bits of their numbers are combined."""
    plan = pf.jit(lambda x: np.cumsum(x, axis=1), verify=True).plan(pf.spec(spec_), target="h200")
    assert not plan.fallback and dict(plan.kernels[0].parameters)["lanes"] == 36


def test_dtypes_without_an_equal_say_what_to_write() -> None:
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.int4):
        with pytest.raises(ArgumentError, match="Convert the array first"):
            pf.jit(lambda v: v + 1)(np.ones(2, dtype))
    with pytest.raises(ArgumentError, match="fields"):
        pf.jit(lambda v: v + 1)(np.zeros(2, [("a", "f4")]))


def test_segments_at_positions_that_are_data_say_what_to_write() -> None:
    with pytest.raises(IndexingError, match="np.add.at"):
        pf.jit(lambda d, p: np.add.reduceat(d, p))(np.arange(6.0), np.array([0, 2, 3]))


def test_an_exponent_that_has_no_value_yet_is_refused() -> None:
    with pytest.raises(TraceError, match=r"2\.0 \*\* n"):
        pf.jit(lambda x, n, k: x * 2 ** (n - k)).plan(pf.spec("f32[8]"), pf.spec("i64"), pf.spec("i64"), target="h200")


@pytest.mark.parametrize("dtype", ["f4", "i4", "f8", "i8"])
@pytest.mark.parametrize("width", [20, 24, 33, 36, 50])
@pytest.mark.parametrize("beside", ["concatenate", "pad"])
def test_nothing_behind_an_argument_is_read(width: int, dtype: str, beside: str) -> None:
    """LLVM 22 made loads without masks of lanes known to be off (AVX2): sums held what lies behind, in silence."""

    def function(x: Any) -> Any:
        x.reshape(3, -1)  # sizes are numbers from here on
        whole = np.concatenate([x, x], 0) if beside == "concatenate" else np.pad(x, ((1, 1), (0, 0), (0, 0)), "edge")
        return x.sum((0, 2)), whole

    memory = np.full(4096, 100, dtype)
    memory[: 12 * width] = 1
    x = memory[: 12 * width].reshape(3, 4, width)
    for found, wanted in zip(pf.jit(function, backend="numba_cpu")(x), function(x), strict=True):
        np.testing.assert_array_equal(found, wanted)


SAMPLES = np.array([1, np.inf, 2, np.nan, 5, 7])
EVEN, UNEVEN = np.arange(6.0), np.arange(6) ** 2 / 3
GRADIENTS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "counted": (lambda f: np.gradient(f, np.arange(6.0)), (SAMPLES,)),
    "of a size": (lambda f: np.gradient(f, np.arange(f.size) * 2.0), (SAMPLES,)),
    "an array outside": (lambda f: np.gradient(f, EVEN), (SAMPLES,)),
    "uneven outside": (lambda f: np.gradient(f, UNEVEN), (SAMPLES,)),
    "an argument": (np.gradient, (SAMPLES, EVEN)),
    "an uneven argument": (np.gradient, (SAMPLES, UNEVEN)),
    "edges of order two": (lambda f, at: np.gradient(f, at, axis=1, edge_order=2), (np.stack([SAMPLES] * 2), EVEN)),
}


@pytest.mark.parametrize("case", GRADIENTS)
def test_points_at_equal_distances_have_one(case: str) -> None:
    """The formula for others multiplies the sample between by nothing, which of infinities is not a number."""
    function, arguments = GRADIENTS[case]
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(pf.jit(function)(*arguments), function(*arguments))


@pytest.mark.parametrize("polynomial", [[], [np.inf, 1, 2], [3]])
def test_constants_of_integrals_depend_on_no_coefficient(polynomial: list[float]) -> None:
    p = np.array(polynomial, float)
    np.testing.assert_array_equal(pf.jit(lambda p: np.polyint(p, 2, [4, 5]))(p), np.polyint(p, 2, [4, 5]))


@pytest.mark.parametrize(
    "function, specs",
    [
        (lambda x: x.T * 2, ("f16[1048576, 0]",)),
        (lambda x: x.transpose(0, 2, 1) + 1, ("u8[2000, 2001, 0]",)),
        (lambda x, y: x.T + y, ("f16[4000001, 0]", "f16[0, 4000001]")),
    ],
)
def test_rows_of_nothing_are_turned(function: Function, specs: tuple[str, ...]) -> None:
    """Division by zero in the price of copied tiles."""
    assert pf.jit(function).plan(*map(pf.spec, specs), target="h200").kernels


def test_what_nobody_asks_for_may_be_an_integer_in_printed_text() -> None:
    """Frames of integers could not be run from their text."""
    from polyfuse.backends.interpreter.fragments import run_source
    from polyfuse.codegen.printer import print_kernel
    from polyfuse.kernel import ArrayParameter

    plan = pf.jit(lambda x: np.cumsum(x, axis=1)).plan(pf.spec("i32[N~4096, 403]"), target="h200")
    kernel = plan.launches[0].kernel
    assert "other=None" in print_kernel(kernel)
    arrays = {p.name: np.ones((3, 403), p.dtype.numpy) for p in kernel.parameters if isinstance(p, ArrayParameter)}
    run_source(print_kernel(kernel), kernel.name, kernel, arrays, {"N": 3}, {})
    np.testing.assert_array_equal(arrays["scan_out" if "scan_out" in arrays else [*arrays][-1]][1], np.arange(1, 404))


@pytest.mark.parametrize("number", [np.int64(3), np.float32(3), np.array(3), np.bool_(True)])
def test_numbers_of_numpy_in_a_branch_say_how_to_pass_them(number: Any) -> None:
    with pytest.raises(TraceError, match=r"Pass a Python number, as int\(\) and float\(\) make it"):
        pf.jit(lambda x, s: x * 2 if s > 1 else x)(X, number)
    with pytest.raises(TraceError, match="np.where"):
        pf.jit(lambda x, s: x * 2 if x[0] > s else x)(X, number)


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_padding_keeps_the_sign_of_zero(target: str) -> None:
    """Loads left 0.0 out, which is equal."""

    def function(x: Any) -> Any:
        p = np.pad(x, ((0, 0), (1, 1)), constant_values=-0.0)
        least = np.lib.stride_tricks.sliding_window_view(p, 3, axis=1)[:, ::2].min(axis=-1)
        return np.copysign(1, p), np.copysign(1, p).sum(axis=0), np.signbit(least)

    found = pf.jit(function, backend="interpreter", target=target)(np.ones((9, 33), np.float32))
    for mine, exact in zip(found, function(np.ones((9, 33), np.float32)), strict=True):
        np.testing.assert_array_equal(mine, exact)


def test_pads_of_pads_in_frames_are_verified() -> None:
    """The verifier missed that rows move an address by as much as the columns in front of them."""

    def function(x: Any) -> Any:
        inner = np.pad(x, ((0, 0), (1, 2), (2, 1)), constant_values=2)
        return np.pad(inner, ((0, 0), (1, 0), (0, 1)), constant_values=1)

    plan = pf.jit(function, verify=True).plan(pf.spec("f32[B~1000, N~512, M~513]"), target="h200")
    assert [k.strategy for k in plan.kernels] == ["pointwise"] and not plan.fallback


def test_columns_of_nothing_are_planned() -> None:
    """How many rows fill a vector was divided by their length."""
    spec = pf.spec("f32[A~299999, B~14, C~2, D~4]")
    assert not pf.jit(lambda x: x[:, :, 2:].max(axis=(0, 1))).plan(spec, target="h200").fallback
