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


def test_meshgrid_is_a_tuple() -> None:
    kinds: list[type] = []

    def grid(x: Any) -> Any:
        found = x.__array_namespace__().meshgrid(x, x)
        kinds.append(type(found))
        return found

    trace(grid, [spec("f32[N]")])
    assert kinds == [type(np.meshgrid(np.ones(2), np.ones(2)))] == [tuple]
