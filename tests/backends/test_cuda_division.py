"""Quotients by a shared divisor have the bits of IEEE division; combinations of many values are dealt to threads."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from polyfuse import dtypes
from polyfuse.affine import Affine
from polyfuse.backends.numba_cuda.compile import CompiledKernel, compile_kernel
from polyfuse.kernel import ArrayParameter


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """One rounding: products of two float32 are exact in float64, sums of these in the longer significand."""
    return (x.astype(np.longdouble) * y + z).astype(np.float32)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs an extended significand")
@pytest.mark.parametrize("hard", [False, True])
def test_two_corrections_give_the_nearest_quotient(hard: bool) -> None:
    random, n = np.random.default_rng(5), 1 << 20
    low = (1 << 24) - 4096 if hard else 1 << 23
    d = np.ldexp(random.integers(low, 1 << 24, n), random.integers(-99, 99, n) - 23).astype(np.float32)
    x = np.ldexp(random.integers(1 << 23, 1 << 24, n), random.integers(-99, 99, n) - 23).astype(np.float32)
    if hard:  # next to the middle between two floats
        x = (np.ldexp(random.integers(1 << 24, 1 << 25, n) | 1, -24) * d).astype(np.float32)
    inside = np.abs(np.log2(x.astype(float) / d)) < 120
    x, d = x[inside], d[inside]
    inverse = np.float32(1) / d
    q = x * inverse
    for _ in range(2):
        q = fma(fma(q, -d, x), inverse, q)
    np.testing.assert_array_equal(q, x / d)


def exact_fma(x: float, y: float, z: float) -> float:
    return float(Fraction(x) * Fraction(y) + Fraction(z))


def test_float64_rounds_to_the_nearest_float32_also_below_the_normal_ones() -> None:
    random, n = np.random.default_rng(7), 3000
    some = np.array([0.0, -0.0, 1e-45, -1e-45, 3e-45, 1.1754944e-38, 3.4028235e38, np.inf, -np.inf, np.nan, 1.0, 3.0])
    x = np.ldexp(random.integers(1, 1 << 24, n), random.integers(-149, 104, n)).astype(np.float32)
    d = np.ldexp(random.integers(1, 1 << 24, n), random.integers(-149, 104, n)).astype(np.float32)
    small = np.arange(1, 40, dtype=np.float32) * np.float32(1e-45)
    x = np.concatenate([x, np.repeat(some, 12), np.repeat(small, 39)]).astype(np.float32)
    d = np.concatenate([d, np.tile(some, 12), np.tile(np.arange(1, 40), 39)]).astype(np.float32)
    with np.errstate(all="ignore"):
        want, inverse = x / d, 1 / d.astype(float)
        q = x * inverse
        finite = np.isfinite(q) & np.isfinite(d)
        for k in np.flatnonzero(finite):
            rest = exact_fma(float(q[k]), -float(d[k]), float(x[k]))
            q[k] = exact_fma(rest, float(inverse[k]), float(q[k])) if rest else q[k]
        got = q.astype(np.float32)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("hard", [False, True])
def test_the_same_of_float64(hard: bool) -> None:
    random, n = np.random.default_rng(6), 2000
    low = (1 << 53) - 4096 if hard else 1 << 52
    d = np.ldexp(random.integers(low, 1 << 53, n).astype(float), random.integers(-499, 499, n) - 52)
    x = np.ldexp(random.integers(1 << 52, 1 << 53, n).astype(float), random.integers(-499, 499, n) - 52)
    if hard:  # next to the middle between two floats
        halves = [Fraction(int(k) | 1, 1 << 53) for k in random.integers(1 << 53, 1 << 54, n)]
        x = np.array([float(half * Fraction(each)) for half, each in zip(halves, d.tolist(), strict=True)])
    for dividend, divisor in zip(x.tolist(), d.tolist(), strict=True):
        inverse = 1 / divisor
        q = dividend * inverse
        for _ in range(2):
            q = exact_fma(exact_fma(q, -divisor, dividend), inverse, q)
        assert q == dividend / divisor


def compiled(body: str, threads: int = 256, dtype: dtypes.DType = dtypes.f32, rows: int = 4) -> CompiledKernel:
    lines = ("v = load(x, 4 * thread(), TILE)", body)
    tile = f"TILE = Tile(({rows}, 4), (1024, 1), vector=4)\n"
    source = tile + "def k(x, y):\n" + "".join(f"    {line}\n" for line in lines)
    parameters = [ArrayParameter(n, dtype, (Affine.symbol("N"),), readonly=n == "x") for n in "xy"]
    return compile_kernel(source, "k", parameters, threads, (9, 0))


def count(kernel: CompiledKernel, pattern: str) -> int:
    return len(re.findall(pattern, kernel.ptx))


@pytest.mark.ptx
def test_one_reciprocal_serves_the_slots_of_a_divisor() -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, v / reduce_sum(v, (0, 1)))", rows=2)
    assert count(kernel, r"fma\.rn\.f32") == 8 * 4 and count(kernel, r"(div|rcp)\.rn\.f32") == 1
    per_column = compiled("store(y, 4 * thread(), TILE, v / reduce_sum(v, (0,)))")
    assert count(per_column, r"(div|rcp)\.rn\.f32") == 4 and count(per_column, r"(div|rcp)\.rn\.f64") == 4


@pytest.mark.ptx
@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_slots_divide_in_float64_where_one_is_odd(rows: int) -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, v / reduce_sum(v, (0, 1)))", rows=rows)
    assert count(kernel, r"(div|rcp)\.rn\.f32") == 1 and count(kernel, r"(div|rcp)\.rn\.f64") == 1
    assert count(kernel, r"fma\.rn\.f64") == 4 * rows * 2 and count(kernel, r"cvt\.rn\.f32\.f64") == 4 * rows


@pytest.mark.ptx
def test_pieces_of_rows_that_wait_in_cells_have_no_registers_for_it() -> None:
    keep = "c = own_cells(float32, (4, 4), 256)\n    put_cells(c, v)\n    "
    kernel = compiled(f"{keep}store(y, 4 * thread(), TILE, get_cells(c) / reduce_sum(v, (0, 1)))")
    assert count(kernel, r"(div|rcp)\.rn\.f32") == 1 + 16 and count(kernel, r"\.f64") == 0


@pytest.mark.ptx
def test_the_reciprocal_of_a_number_in_the_text_is_known() -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, v / 255.0)")
    assert count(kernel, r"(div|rcp)\.rn\.f") == 0 and count(kernel, r"fma\.rn\.f32") == 4 * 16
    quarter = compiled("store(y, 4 * thread(), TILE, v / 4.0)")
    assert count(quarter, r"(div|rcp|fma)\.rn\.f") == 0 and count(quarter, r"mul\.(rn\.)?f32") == 16


@pytest.mark.ptx
def test_float64_shares_reciprocals_too() -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, v / reduce_sum(v, (0, 1)))", dtype=dtypes.f64)
    assert count(kernel, r"fma\.rn\.f64") == 16 * 4
    assert count(kernel, r"(div|rcp)\.rn\.f64") == 1 + 16


@pytest.mark.ptx
def test_divisors_of_their_own_divide() -> None:
    each = compiled("store(y, 4 * thread(), TILE, v / (v + 1.0))", rows=2)  # 9 to 16 slots: test_cuda_quotients.py
    assert count(each, r"div\.rn\.f32") == 8 and count(each, r"fma\.rn\.f32") == 0


@pytest.mark.ptx
def test_dividends_of_nothing_are_replaced_where_few_share_a_divisor() -> None:
    """Idle lanes have them: columns of 1000000 x 100 less a number each, over another, took an H200 278 us, and 196."""
    few = compiled("store(y, 4 * thread(), TILE, v / (reduce_sum(v, (0,)) + 1.0))", rows=2)
    assert count(few, r"div\.rn\.f32") == 8 and count(few, r"setp\.eq\.f32") >= 8


@pytest.mark.ptx
def test_sums_of_columns_are_dealt_to_threads_between_warps() -> None:
    """Eight lanes of four columns, 64 rows: two barriers and two loads, not 16 partials of each column."""
    kernel = compiled("store(y, 4 * thread(), TILE, v - threads_sum(reduce_sum(v, (0,)), 504, 512))", 512)
    assert count(kernel, r"bar\.sync") == 2
    assert count(kernel, r"ld\.shared") <= 2
    assert count(kernel, r"shfl\.sync\.bfly") == 2 + 1 + 4  # lanes hand over half of their columns
    assert kernel.shared_bytes == (16 + 1) * 32 * 4
    row = compiled("store(y, 4 * thread(), TILE, v - threads_sum(reduce_sum(v, (0, 1)), 511, 512))", 512)
    assert count(row, r"bar\.sync") == 1


@pytest.mark.ptx
def test_sums_of_slots_that_are_no_power_of_two_are_dealt_too() -> None:
    """Lanes keep 6 of 12 slots, then 3, and combine these three times; 96 partials are one round of 256 threads."""
    kernel = compiled("store(y, thread(), TILE, threads_sum(v, 127, 256))", 256, rows=3)
    assert count(kernel, r"shfl\.sync\.bfly") == 6 + 3 + 3 * 3 + 2
    assert count(kernel, r"st\.shared") == 3 + 1 and count(kernel, r"ld\.shared") == 1 + 3
