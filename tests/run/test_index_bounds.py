"""Data-dependent indices never touch memory outside their array."""

from __future__ import annotations

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import IndexFault


@pytest.mark.parametrize("count", [3, 5000])
@pytest.mark.parametrize("wrong", [10, -11, 2**40, -(2**40)])
def test_an_index_out_of_bounds_raises_on_the_host(count: int, wrong: int) -> None:
    function = pf.jit(lambda x, i: x[i] * 2)
    x, i = np.arange(10, dtype=np.float32), np.zeros(count, np.int64)
    i[count // 2] = wrong
    with pytest.raises(IndexFault, match="out of bounds"):
        function(x, i)
    i[count // 2] = -1
    assert np.array_equal(function(x, i), x[i] * 2)  # the flag was lowered again


def test_computed_indices_are_checked_where_elements_exist_only() -> None:
    function = pf.jit(lambda x, i: x[i + 9] + 1)  # padded lanes would read at 9 too, real ones must be at 0
    x = np.arange(10, dtype=np.float32)
    assert np.array_equal(function(x, np.zeros(37, np.int64)), np.full(37, 10, np.float32))
    with pytest.raises(IndexFault):
        function(x, np.ones(37, np.int64))


def test_clipping_is_numpys() -> None:
    function = pf.jit(lambda x, i: np.take(x, i, mode="clip"))
    x, i = np.arange(10.0), np.array([-100, -1, 3, 12])
    assert np.array_equal(function(x, i), np.take(x, i, mode="clip"))


def test_the_cuda_schedule_masks_what_is_out_of_bounds() -> None:
    source = pf.jit(lambda x, i: x[i]).plan(pf.spec("f32[N]"), pf.spec("i64[K]"), target="h200").source()
    lines = [line for line in source.splitlines() if "load(x_in" in line]
    assert lines and all("mask=" in line and "inside" in line for line in lines)
