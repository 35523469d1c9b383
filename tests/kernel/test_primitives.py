"""Scalar functions, reductions and scans of the interpreters, against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from polyfuse import dtypes
from polyfuse.backends.interpreter import collectives
from polyfuse.backends.interpreter.functions import IMPLEMENTATIONS, apply
from polyfuse.backends.interpreter.special import fma, multiply_high
from polyfuse.scalars import FUNCTIONS


def test_every_scalar_function_has_an_implementation() -> None:
    assert set(IMPLEMENTATIONS) | {"cast", "bitcast"} == set(FUNCTIONS)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fma_rounds_once(dtype: type) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 500)).astype(dtype)
    c = np.where(np.arange(500) % 2, -a * b, rng.standard_normal(500)).astype(dtype)
    got = fma(a, b, c)
    for x, y, z, r in zip(a, b, c, got, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        error = abs(Fraction(float(r)) - exact)
        assert all(error <= abs(Fraction(float(np.nextafter(r, dtype(s)))) - exact) for s in (-np.inf, np.inf))


def test_fma_keeps_infinities_and_nan() -> None:
    a = np.array([np.inf, np.inf, 0.0, 1e308])
    with np.errstate(all="ignore"):
        got = fma(a, np.array([1.0, 1.0, np.inf, 10.0]), np.array([1.0, -np.inf, 1.0, 0.0]))
    assert got[0] == np.inf and np.isnan(got[1]) and np.isnan(got[2]) and got[3] == np.inf


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
def test_multiply_high(dtype: type) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    a, b = np.random.default_rng(0).integers(0, 2**bits, (2, 200), dtype=dtype)
    assert [int(x) for x in multiply_high(a, b)] == [int(x) * int(y) >> bits for x, y in zip(a, b, strict=True)]


def test_integer_corners() -> None:
    def run(function: str, *values: int) -> int:
        return int(apply(function, [np.array([v], np.int32) for v in values], dtypes.i32)[0])

    assert run("floor_divide", 7, 0) == 0 and run("remainder", 7, 0) == 0 and run("fmod", -7, 3) == -1
    assert run("remainder", -7, 3) == 2 and run("floor_divide", -7, 2) == -4
    assert run("add", 2**31 - 1, 1) == -(2**31)
    powers = {(2, -1): 0, (1, -5): 1, (-1, -3): -1, (-1, -2): 1, (0, -1): 0, (3, 4): 81}
    assert {pair: run("power", *pair) for pair in powers} == powers


def test_special_functions_match_libm() -> None:
    x = np.array([-2.5, -1.0, 0.0, 0.25, 3.0, 200.0])
    assert apply("erf", [x], dtypes.f64).tolist() == [math.erf(v) for v in x]
    assert apply("lgamma", [x], dtypes.f64)[1:4].tolist() == [math.inf, math.inf, math.lgamma(0.25)]
    gamma = apply("tgamma", [x], dtypes.f64)
    assert np.isnan(gamma[1]) and gamma[2] == math.inf and gamma[5] == math.inf and gamma[4] == 2


def test_casts() -> None:
    x = np.array([1.7, -1.7, 0.0], np.float32)
    assert apply("cast", [x], dtypes.i32).tolist() == [1, -1, 0]
    assert apply("cast", [x], dtypes.bool_).tolist() == [True, True, False]
    rounded = apply("cast", [x], dtypes.bf16)
    assert rounded.dtype == np.float32 and rounded[0] == np.float32(ml_dtypes.bfloat16(1.7))
    assert apply("bitcast", [x], dtypes.u32)[0] == x.view(np.uint32)[0]


def test_trees_pair_neighbours() -> None:
    x = np.array([1e8, 1.0, -1e8, 1.0, 3.0], np.float32).reshape(1, 1, 5)
    (total,) = collectives.reduce("sum", [x], [2])
    f = np.float32
    assert total.item() == ((f(1e8) + f(1)) + (f(-1e8) + f(1))) + f(3)


def test_reduction_over_two_axes_is_in_c_order() -> None:
    x = np.random.default_rng(0).standard_normal((1, 1, 3, 2, 4)).astype(np.float32) * 1e4
    (got,) = collectives.reduce("sum", [x], [2, 4])
    (flat,) = collectives.reduce("sum", [x.transpose(0, 1, 3, 2, 4).reshape(1, 1, 2, 12)], [3])
    assert got.shape == (1, 1, 1, 2, 1) and (got.ravel() == flat.ravel()).all()


@pytest.mark.parametrize("bits", [0, 1, 4, 31, 6, 96, 127, 99])
def test_threads_combine_over_exactly_their_bits(bits: int) -> None:
    x = np.arange(128, dtype=np.int64).reshape(1, 128) ** 2
    (got,) = collectives.combine_threads("sum", [x], bits, 128)
    threads = np.arange(128)
    expected = [sum(x[0, threads & ~bits == t & ~bits]) for t in threads]
    assert got.tolist() == [expected]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("bits", [0, 7, 24])
def test_scans(bits: int, exclusive: bool, reverse: bool) -> None:
    x = np.random.default_rng(0).integers(-9, 9, (1, 32, 3))
    prefix, total = collectives.scan("sum", x, 2, bits, 32, exclusive, reverse)
    for thread in range(32):
        members = [t for t in range(32) if t & ~bits == thread & ~bits]
        line = np.concatenate([x[0, t] for t in members])
        line = line[::-1] if reverse else line
        sums = np.cumsum(line) - (line if exclusive else 0)
        sums = sums[::-1] if reverse else sums
        place = 3 * members.index(thread)
        assert prefix[0, thread].tolist() == sums[place : place + 3].tolist()
        assert total[0, thread].tolist() == [line.sum()]


def test_argmax_prefers_the_first_nan_then_the_lower_index() -> None:
    x = np.array([1.0, 5.0, np.nan, 5.0, np.nan]).reshape(1, 1, 5)
    index = np.arange(5).reshape(1, 1, 5)
    assert collectives.reduce("argmax", [x, index], [2])[1].item() == 2
    assert collectives.reduce("argmax", [x[..., :2], index[..., :2]], [2])[1].item() == 1
    assert collectives.reduce("argmin", [x[..., 1::2], index[..., 1::2]], [2])[1].item() == 1
