"""Where the Array API standard says more than NumPy: the namespace of a traced array follows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyfuse.frontends.numpy_like import spec, trace
from tests.frontend.ops import assert_same, run

RNG = np.random.default_rng(0)
TIES = RNG.integers(0, 4, (5, 9)).astype(np.float32)
TIES[2, 3] = np.nan


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


def test_meshgrid_is_a_tuple() -> None:
    kinds: list[type] = []

    def grid(x: Any) -> Any:
        found = x.__array_namespace__().meshgrid(x, x)
        kinds.append(type(found))
        return found

    trace(grid, [spec("f32[N]")])
    assert kinds == [type(np.meshgrid(np.ones(2), np.ones(2)))] == [tuple]
