"""Where the Array API standard says more than NumPy: the namespace of a traced array follows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyfuse.errors import ShapeError, UnsupportedError
from polyfuse.frontends.numpy_like import spec, trace
from tests.array_api import signatures
from tests.frontend.ops import assert_same, run

RNG = np.random.default_rng(0)
TIES = RNG.integers(0, 4, (5, 9)).astype(np.float32)
TIES[2, 3] = np.nan


TABLES = {"": signatures.ELEMENTWISE + signatures.OTHERS + signatures.CREATION}
TABLES |= {"linalg": signatures.LINALG, "fft": signatures.FFT}


def in_a_trace(*arguments: str) -> Callable[[Callable[..., Any]], Any]:
    """The value that a function gives inside of a trace."""
    found: list[Any] = []

    def of(function: Callable[..., Any]) -> Any:
        trace(lambda x: (found.append(function(x)), x)[1], [spec(a) for a in arguments or ("f32[N, M]",)])
        return found[-1]

    return of


@pytest.mark.parametrize("module", TABLES)
def test_every_function_of_the_standard_is_there(module: str) -> None:
    names = [line.partition("(")[0] for line in TABLES[module].split("\n") if line]

    def callables(x: Any) -> list[str]:
        xp = x.__array_namespace__(api_version="2024.12")
        return [name for name in names if callable(getattr(getattr(xp, module) if module else xp, name))]

    assert in_a_trace()(callables) == names


def test_what_the_namespace_says_of_itself() -> None:
    info = in_a_trace()(lambda x: x.__array_namespace__().__array_namespace_info__())
    assert info.capabilities()["boolean indexing"] is info.capabilities()["data-dependent shapes"] is False
    assert list(info.default_dtypes()) == ["real floating", "integral", "indexing"]
    assert info.dtypes(kind="complex floating") == {}
    assert list(info.dtypes(kind="real floating")) == ["float32", "float64"]
    assert info.default_device() in info.devices()


def test_dtypes_of_arrays_without_values() -> None:
    assert in_a_trace("i8[N]")(lambda x: np.result_type(x, np.float32, 2.0)) == np.float32
    assert in_a_trace("i8[N]")(lambda x: np.result_type(x, 2.0)) == np.float64
    assert in_a_trace("i64[N]")(lambda x: (np.can_cast(x, np.int32), np.can_cast(x, np.float64))) == (False, True)


def test_devices() -> None:
    assert in_a_trace()(lambda x: x.to_device(x.device) is x)
    with pytest.raises(UnsupportedError, match="cannot move to device 'cuda'"):
        trace(lambda x: x.to_device("cuda"), [spec("f32[N]")])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sort_descending(axis: int) -> None:
    got = run(lambda x: x.__array_namespace__().sort(x, axis=axis, descending=True), TIES)
    assert_same(got, np.flip(np.sort(TIES, axis), axis))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_argsort_descending_keeps_equal_elements_in_order(axis: int) -> None:
    got = run(lambda x: x.__array_namespace__().argsort(x, axis=axis, descending=True), TIES)
    numbers = np.where(np.isnan(TIES), np.inf, TIES)  # NaN stands first
    assert_same(got, np.argsort(-numbers, axis, kind="stable"))


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_of_a_dtype(name: str) -> None:
    def frequencies(x: Any) -> Any:
        xp = x.__array_namespace__()
        return getattr(xp.fft, name)(7, d=0.5, dtype=xp.float32) * x

    assert_same(run(frequencies, np.float32([2])), 2 * getattr(np.fft, name)(7, d=0.5).astype(np.float32))


@pytest.mark.parametrize("name", ["rcond", "rtol"])
def test_pinv_by_a_share_of_the_largest_singular_value(name: str) -> None:
    a = RNG.standard_normal((2, 5, 3)) * [1, 1e-3, 1e-6]
    assert_same(
        run(lambda a: np.linalg.pinv(a, **{name: np.array([1e-2, 1e-8])}), a),
        np.linalg.pinv(a, rcond=np.array([1e-2, 1e-8])),
    )
    assert_same(run(lambda a: np.linalg.pinv(a, **{name: 1e-4}), a), np.linalg.pinv(a, rcond=1e-4))


@pytest.mark.parametrize("n", [-3, -1, 0, 1, 5])
def test_powers_of_stacks_of_matrices(n: int) -> None:
    a = RNG.standard_normal((2, 3, 3))
    assert_same(run(lambda a: np.linalg.matrix_power(a, n), a), np.linalg.matrix_power(a, n))
    integers = RNG.integers(-3, 3, (3, 3)) if n >= 0 else 2 * np.eye(3, dtype=np.int64)
    assert_same(run(lambda a: np.linalg.matrix_power(a, n), integers), np.linalg.matrix_power(integers, n))


@pytest.mark.parametrize("ends", [(-1e-9,), (3.5,), (0, 2.5, 1), (np.float32(1), 4, 1), (1, 2, 0.25), (np.int8(2),)])
def test_the_dtype_of_a_range_follows_all_its_numbers(ends: tuple[Any, ...]) -> None:
    assert_same(run(lambda x: np.arange(*ends) + x * 0, np.int8([0])), np.arange(*ends) + np.int8(0))
    assert run(lambda x: np.arange(*ends), np.int8([0])).dtype == np.arange(*ends).dtype


CONTRACTIONS = ["np.matmul(a, b)", "np.dot(a, b)", "np.tensordot(a, b, 1)", "np.vecdot(a, b)", "np.inner(a, b)"]
SHAPES = [((3, 1), (5, 4)), ((3, 5), (1, 4)), ((0, 1), (1, 1, 0, 1)), ((1,), (4,)), ((3,), (1,)), ((2, 1), (1, 4))]


@pytest.mark.parametrize("text", [*CONTRACTIONS, "np.einsum('...i,...i', a, b)"])
@pytest.mark.parametrize("shapes", SHAPES)
def test_an_axis_of_size_one_is_summed_with_its_like_only(text: str, shapes: tuple[Any, Any]) -> None:
    a, b = (RNG.standard_normal(s) for s in shapes)

    def answer(a: Any, b: Any) -> Any:
        return eval(text, {"np": np, "a": a, "b": b})

    try:
        wanted = answer(a, b)
    except ValueError:
        with pytest.raises(ShapeError):
            trace(answer, [spec(f"f64[{', '.join(map(str, s))}]") for s in shapes])
    else:
        assert_same(run(answer, a, b), wanted)


@pytest.mark.parametrize("name", ["tol", "rtol"])
def test_the_rank_of_a_stack_takes_a_tolerance_each(name: str) -> None:
    a = RNG.standard_normal((2, 5, 3)) * [1, 1e-3, 1e-6]
    limits = {name: np.array([1e-2, 1e-8])}
    assert_same(run(lambda a: np.linalg.matrix_rank(a, **limits), a), np.linalg.matrix_rank(a, **limits))
    assert_same(run(lambda a: np.linalg.matrix_rank(a, **{name: 1e-2}), a), np.linalg.matrix_rank(a, **{name: 1e-2}))


def test_meshgrid_is_a_tuple() -> None:
    kinds: list[type] = []

    def grid(x: Any) -> Any:
        found = x.__array_namespace__().meshgrid(x, x)
        kinds.append(type(found))
        return found

    trace(grid, [spec("f32[N]")])
    assert kinds == [type(np.meshgrid(np.ones(2), np.ones(2)))] == [tuple]


ENDS = np.array([np.inf, -np.inf, 2.5, -2.5, 0.0, -0.0, np.nan, 7.0, -7.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floor_divide_of_infinities_is_the_standards(dtype: Any) -> None:
    """With an infinity the sign is that of the quotient; every other pair is as in NumPy."""
    a, b = (v.astype(dtype).ravel() for v in np.meshgrid(ENDS, ENDS))
    with np.errstate(all="ignore"):
        wanted = np.where(np.isinf(a) | np.isinf(b), a / b, np.floor_divide(a, b))
    got = run(lambda a, b: a.__array_namespace__().floor_divide(a, b), a, b)
    assert_same(got, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(wanted[numbers]))


def test_floor_divide_of_numpy_stays_numpys() -> None:
    a, b = (v.ravel() for v in np.meshgrid(ENDS, ENDS))
    with np.errstate(all="ignore"):
        wanted = np.floor_divide(a, b)
    for divided in (lambda a, b: np.floor_divide(a, b), lambda a, b: a // b):
        assert_same(run(divided, a, b), wanted)
    integers = np.arange(-7, 8)
    assert_same(run(lambda a: a.__array_namespace__().floor_divide(a, 3), integers), integers // 3)
