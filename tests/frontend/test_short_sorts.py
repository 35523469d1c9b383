"""Short axes are sorted, and vectors of few keys searched, by elementwise code inside the program."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import polyfuse as pf
from polyfuse.frontends.numpy_like.networks import exchanges

RNG = np.random.default_rng(7)
DTYPES = (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.uint64, np.bool_)


def values(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Few different ones, so that many are equal; of floats NaN, infinities and zeros of both signs as well."""
    if np.dtype(dtype).kind != "f":
        return RNG.integers(0, 2 if dtype is np.bool_ else 6, shape).astype(dtype)
    found = RNG.integers(-3, 4, shape).astype(dtype)
    odd = RNG.random(shape)
    for low, value in ((0.94, np.nan), (0.91, np.inf), (0.88, -np.inf), (0.85, -0.0)):
        found[(odd >= low) & (odd < low + 0.03)] = value
    return found


def calls(function: Callable[..., Any], *arguments: Any) -> tuple[str, ...]:
    plan = pf.jit(function).plan(*arguments, backend="interpreter")
    return tuple(called.call.name for called in plan.library_calls)


@pytest.mark.parametrize("count", range(1, 34))
def test_a_network_sorts(count: int) -> None:
    """It sorts everything if it sorts all zeros and ones (Knuth, volume 3, section 5.3.4)."""
    rows = itertools.product((0, 1), repeat=count) if count < 12 else RNG.integers(0, 2, (4000, count)).tolist()
    columns = np.array(list(rows)).T
    for low, high in exchanges(count):
        assert low < high
        columns[[low, high]] = np.minimum(columns[low], columns[high]), np.maximum(columns[low], columns[high])
    assert (columns[:-1] <= columns[1:]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("count", "axis"), [(1, -1), (2, 1), (5, 1), (8, -1), (9, 0), (16, 1)])
def test_sort(dtype: Any, count: int, axis: int) -> None:
    x = np.moveaxis(values((37, count), dtype), 1, axis)
    found = pf.jit(lambda x: np.sort(x, axis=axis), backend="interpreter")(x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, np.sort(x, axis=axis))
    assert calls(lambda x: np.sort(x, axis=axis), x) == ()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [2, 3, 8])
def test_positions_of_equal_elements_keep_their_order(dtype: Any, count: int) -> None:
    x = values((41, count), dtype)
    found = pf.jit(lambda x: np.argsort(x, axis=1), backend="interpreter")(x)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.argsort(x, axis=1, kind="stable"))
    assert calls(lambda x: np.argsort(x, axis=1), x) == ()


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
@pytest.mark.parametrize("k", [1, 2, 8])
def test_top_k(dtype: Any, k: int) -> None:
    """As by the library: NaN before all numbers, of equal elements the first one first."""
    x = values((41, 8), dtype)
    top, at = pf.jit(lambda x: pf.top_k(x, k), backend="interpreter")(x)
    backwards = x.shape[1] - 1 - np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    np.testing.assert_array_equal(at, backwards[:, :k])
    np.testing.assert_array_equal(top, np.take_along_axis(x, backwards[:, :k], 1))


def test_descending_keeps_equal_elements_in_order() -> None:
    x = values((29, 6), np.float32)
    falling, at = pf.jit(
        lambda x: (pf.sort(x, descending=True), pf.argsort(x, descending=True)), backend="interpreter"
    )(x)
    backwards = x.shape[1] - 1 - np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    np.testing.assert_array_equal(at, backwards)
    np.testing.assert_array_equal(falling, np.take_along_axis(x, backwards, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int32])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.median(x, axis=1),
        lambda x: np.median(x, axis=0, keepdims=True),
        lambda x: np.median(sliding_window_view(np.pad(x, 1, mode="edge"), (3, 3)), axis=(2, 3)),
        lambda x: np.percentile(x, 30, axis=1),
        lambda x: np.quantile(x, np.array([0.0, 0.5, 1.0]), axis=1),
        lambda x: np.sort(x, axis=1)[:, 1:-1].mean(axis=1),
        lambda x: np.sort(x, axis=0)[::2].sum(axis=0),
        lambda x: np.partition(x, 2, axis=1)[:, 2],
    ],
)
def test_places_of_sorted_rows(function: Callable[..., Any], dtype: Any) -> None:
    x = values((12, 7), dtype)
    with np.errstate(invalid="ignore"):
        want = function(x)
    found = pf.jit(function, backend="interpreter")(x)
    assert found.dtype == want.dtype
    np.testing.assert_allclose(found, want, rtol=1e-6)
    assert calls(function, x) == ()


def test_the_median_of_an_odd_number_is_an_element() -> None:
    """Twice the largest number would be infinite."""
    x = np.full((3, 5), np.finfo(np.float32).max)
    np.testing.assert_array_equal(pf.jit(lambda x: np.median(x, axis=1), backend="interpreter")(x), x[:, 0])


def test_a_median_computes_no_other_element() -> None:
    """One kernel, which does not compare what only other places need."""
    x = np.zeros((1000, 9), np.float32)
    plan = pf.jit(lambda x: np.median(x, axis=1)).plan(x, target="h200")
    (kernel,) = plan.kernels
    compared = [s for s in kernel.group.statements() if s.name.startswith(("fmin", "maximum"))]
    assert len(compared) < 2 * len(list(exchanges(9)))


def test_what_is_added_up_of_a_sorted_row_is_no_row() -> None:
    """Neither is a stack made, nor chosen from, where it is cut before its elements are added."""
    for spec, axis in (("f32[10000000, 8]", 1), ("f32[9, 10000003]", 0)):
        plan = pf.jit(lambda x, axis=axis: np.moveaxis(np.sort(x, axis=axis), axis, 0)[2:-2].mean(axis=0)).plan(
            pf.spec(spec), target="h200"
        )
        (kernel,) = plan.kernels
        names = {s.name.rstrip("_0123456789") for s in kernel.group.statements()}
        assert names <= {"fmin", "maximum", "add", "multiply", "divide"}


def test_a_network_of_many_statements_is_one_kernel_at_once() -> None:
    """Several kernels would compute no less: there is nothing to search for, which would take seconds."""
    plan = pf.jit(lambda x: np.sort(x, axis=1)).plan(pf.spec("f32[5000000, 16]"), target="h200")
    (kernel,) = plan.kernels
    assert len(kernel.group.body) > 100
    assert plan.work < 50 * len(kernel.group.body)


@pytest.mark.parametrize("count", [17, 100])
def test_longer_axes_are_sorted_by_the_library(count: int) -> None:
    x = values((11, count), np.float32)
    assert calls(lambda x: np.sort(x, axis=1), x) == ("sort",)
    np.testing.assert_array_equal(
        pf.jit(lambda x: np.sort(x, axis=1), backend="interpreter")(x), np.sort(x, axis=1)
    )


def test_one_function_serves_short_and_long_axes() -> None:
    f = pf.jit(lambda x: np.sort(x, axis=1), backend="interpreter")
    for count in (8, 100, 9, 3, 17, 8):
        x = values((5, count), np.float32)
        np.testing.assert_array_equal(f(x), np.sort(x, axis=1))


KEYS = (np.float32, np.float64, np.int32, np.uint8)


@pytest.mark.parametrize("dtype", KEYS)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 15, 16, 17, 63, 64, 1000, 4095])
def test_searchsorted(dtype: Any, side: Any, count: int) -> None:
    keys = np.sort(values((count,), dtype))
    x = values((7, 53), dtype)
    f = pf.jit(lambda keys, x: np.searchsorted(keys, x, side=side), backend="interpreter")
    found = f(keys, x)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.searchsorted(keys, x, side=side))
    assert calls(lambda keys, x: np.searchsorted(keys, x, side=side), keys, x) == ()


def test_searches_fuse_with_what_is_around_them() -> None:
    def weights(x: Any, edges: Any, table: Any) -> Any:
        return table[np.searchsorted(edges, x * 2)] - 1

    specs = pf.spec("f32[30000000]"), pf.spec("f32[100]"), pf.spec("f32[101]")
    plan = pf.jit(weights).plan(*specs, target="h200")
    assert len(plan.kernels) == 1
    x, edges = values((500,), np.float32), np.sort(RNG.random(100).astype(np.float32))
    table = RNG.random(101).astype(np.float32)
    np.testing.assert_allclose(pf.jit(weights)(x, edges, table), weights(x, edges, table), rtol=1e-6)


def test_many_keys_are_searched_by_the_library() -> None:
    x, keys = values((50,), np.float32), np.arange(5000, dtype=np.float32)
    assert calls(lambda keys, x: np.searchsorted(keys, x), keys, x) == ("searchsorted",)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
@pytest.mark.parametrize(
    "options",
    [
        {"bins": 5, "range": (-1.0, 2.0)},
        {"bins": [0, 1, 1, 3]},
        {"bins": 1, "range": (0, 5), "density": True},
        {"bins": 100, "range": (2, 3)},
    ],
)
def test_values_count_in_their_bins(options: dict[str, Any], dtype: Any) -> None:
    """The last edge belongs to the last bin; NaN, and what lies outside, to none.  Nothing is sorted."""
    x = values((40, 30), dtype)
    counts, edges = pf.jit(lambda x: np.histogram(x, **options), backend="interpreter")(x)
    want, wanted_edges = np.histogram(x, **options)
    assert counts.dtype == want.dtype
    np.testing.assert_allclose(counts, want, rtol=1e-12)
    np.testing.assert_allclose(edges, wanted_edges, rtol=1e-6)
    assert calls(lambda x: np.histogram(x, **options), x) == ("scatter",)


@pytest.mark.parametrize("count", [1, 2, 9])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("falls", [False, True])
def test_digitize(count: int, right: bool, falls: bool) -> None:
    edges = np.arange(count, dtype=np.float32)[:: -1 if falls else 1].copy()
    x = values((100,), np.float32)
    found = pf.jit(lambda x, edges: np.digitize(x, edges, right=right), backend="interpreter")(x, edges)
    np.testing.assert_array_equal(found, np.digitize(x, edges, right=right))
