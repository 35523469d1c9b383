"""What kernels take longer than their bytes say decides between schedules that move as many; each case was timed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.explain.kernels import KernelView

Function = Callable[..., Any]


def planned(function: Function, *specs: str, **options: Any) -> KernelView:
    (kernel,) = pf.jit(function, **options).plan(*map(pf.spec, specs), target="h100").kernels
    return kernel


PREFIXES = {
    "bf16[N~100001, M~777]": 32,
    "i64[N~20001, M~1501]": 128,
    "f32[N~32769, M~1001]": 128,
    "f32[N~32769, M~2001]": 128,
}


@pytest.mark.parametrize("spec", PREFIXES)
def test_lanes_of_a_scan_are_not_idle(spec: str) -> None:
    """Rows of 777 bfloat16 take an H200 249 us in 256 lanes, of which 61 are idle, 194 in two trips of 128; in frames
    143 in 128 lanes, 139 in four trips of 32; of 1001 float32 in frames 132 in one trip of 256, 127 in two of 128."""
    kernel = planned(lambda x: np.cumsum(x, 1), spec)
    assert kernel.strategy == "rows" and dict(kernel.parameters)["lanes"] == PREFIXES[spec]


def five_rows(a):
    return a[:-4] + 4 * a[1:-3] + 6 * a[2:-2] + 4 * a[3:-1] + a[4:]


def weighted_neighbours(a, w):
    return sum(a[:, :, i : i + 110, j : j + 110] * w[:, i, j][:, None, None] for i in range(3) for j in range(3))


def test_many_places_are_read_into_windows() -> None:
    """Five rows of 8,191 bfloat16 312 us in frames, 241 in windows; nine weighted neighbours 208 and 121."""
    assert planned(five_rows, "bf16[N~16388, M~8191]").strategy == "windows"
    assert planned(weighted_neighbours, "f32[32, 96, 112, 112]", "f32[96, 3, 3]").strategy == "windows"
    differences = planned(lambda a: a[:, 1:] - a[:, :-1], "bf16[N~16388, M~8191]")
    assert dict(differences.parameters).get("frames") == 1  # two places are as fast in frames


def test_positions_are_looked_up_ahead_of_what_is_read_there() -> None:
    """Sums of 16 weighted rows of a table: 118 us where a trip looks up each, 59 in threads that have all at once."""
    specs = ("f32[100000, 64]", "i64[N~60001, 16]", "f32[N~60001, 16]")
    kernel = planned(lambda a, i, w: (a[i] * w[:, :, None]).sum(axis=1), *specs)
    assert kernel.strategy == "in_thread"


def test_columns_of_bytes_are_pieces_of_whole_sectors() -> None:
    """Sums of 2000 columns of bytes 133 us in pieces of 16 bytes, 81 in shares of rows of 256."""
    kernel = planned(lambda x: x.sum(axis=0), "u8[N~100003, M~2000]")
    tile = dict(kernel.parameters)
    assert kernel.strategy == "columns" and tile["lanes"] * tile["vector"] >= 32


def test_panels_of_single_elements_are_held_in_registers() -> None:
    """Softmax of 60001 columns of 1000: 390 us where a part waits in shared memory, 265 in registers alone; two
    kernels are predicted to take about as long."""

    def softmax(x):
        e = np.exp(x - x.max(axis=0))
        return e / e.sum(axis=0)

    kernel = planned(softmax, "f32[N~1000, M~60001]", strategies={"e": "panels"})
    assert kernel.strategy == "panels" and "shared" not in dict(kernel.parameters)
    assert "shared" in dict(planned(softmax, "f32[N~1000, M~60000]").parameters)


def test_windows_of_bytes_store_words() -> None:
    """A game of life of 16001 x 16002 bytes: 273 us where threads store two bytes of a row, 237 where they store four.
    """

    def life(a):
        at = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
        n = sum(a[i : i + a.shape[0] - 2, j : j + a.shape[1] - 2] for i, j in at)
        return np.where((n == 3) | ((n == 2) & (a[1:-1, 1:-1] == 1)), 1, 0 * n)

    kernel = planned(life, "u8[N~16001, M~16002]")
    assert kernel.strategy == "windows" and dict(kernel.parameters)["columns"] == 4


def neighbours_in_rows(x):
    return x[:, :, :-2] * 0.25 + x[:, :, 1:-1] * 0.5 + x[:, :, 2:] * 0.25


def test_threads_with_whole_rows_in_windows_take_longer() -> None:
    """Three neighbours in rows of 6 float16, 200 MB: an H100 takes 477 us in windows, 331 in rows."""
    spec = pf.spec("f16[N~8333333, M~6, K~6]")
    tiles = {"add_1": {"rows": 4, "columns": 4}}
    windows = pf.jit(neighbours_in_rows).plan(spec, target="h100", strategies={"add_1": "windows"}, tiles=tiles)
    rows = pf.jit(neighbours_in_rows).plan(spec, target="h100", strategies={"add_1": "pointwise"})
    assert windows.cost_analysis().seconds > 1.2 * rows.cost_analysis().seconds


PRODUCTS = {
    ("f16[155575, 14, 16]", "f16[155575, 16, 15]"): "contraction",
    ("f32[52083, 16, 16]", "f32[52083, 16, 16]"): "contraction",
    ("f32[17000, 32, 32]", "f32[17000, 32, 32]"): "contraction",
    ("bf16[500000, 8, 8]", "bf16[500000, 8, 8]"): "in_thread",
    ("f32[833333, 4, 4]", "f32[833333, 4, 4]"): "in_thread",
    ("f32[2184533, 12]", "f32[12, 12]"): "row_tiles",
}


@pytest.mark.parametrize("specs", PRODUCTS)
def test_elements_are_not_loaded_for_every_result(specs: tuple[str, str]) -> None:
    """Each is what was fastest of the schedules in benchmarks/results/forced_products_h100.json."""
    assert planned(lambda x, w: x @ w, *specs).strategy == PRODUCTS[specs]
