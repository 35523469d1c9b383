"""Functions for results of 16 bits: few instructions, and errors within what is promised."""

from __future__ import annotations

import re

import numpy as np
import pytest

from polyfuse.affine import Affine
from polyfuse.backends.numba_cuda.compile import CompiledKernel, compile_kernel
from polyfuse.dtypes import f32
from polyfuse.kernel import ArrayParameter

PROMISED = {"divide_short": 5e-7, "exp_short": 8e-6}
ULP = 2.0**-23
APPROXIMATE = 2 * ULP
"""Relative error of ``ex2.approx.ftz`` and ``rcp.approx.ftz``, PTX ISA 8.0, on the bits that matter."""


def noisy(x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    return (x * (1 + APPROXIMATE * random.uniform(-1, 1, x.shape))).astype(np.float32)


def flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 2.0**-126, 0, x).astype(np.float32)


def test_exponentials_are_near_also_where_they_are_subnormal() -> None:
    random = np.random.default_rng(3)
    x = np.concatenate([random.uniform(-87, 88.7, 1 << 18), random.uniform(-1, 1, 1 << 16)]).astype(np.float32)
    half = (x * np.float32(0.7213475204444817)).astype(np.float32)
    root = flushed(noisy(np.exp2(half.astype(np.float64)), random))
    exact = np.exp(x.astype(np.float64))
    assert np.abs((root * root).astype(np.float64) / exact - 1).max() < PROMISED["exp_short"]
    tiny = np.linspace(-103, -88, 4096).astype(np.float32)
    half = (tiny * np.float32(0.7213475204444817)).astype(np.float32)
    root = flushed(noisy(np.exp2(half.astype(np.float64)), random))
    np.testing.assert_allclose(root * root, np.exp(tiny.astype(np.float64)), rtol=1e-5, atol=2.0**-149)


def test_quotients_by_reciprocals_are_near_wherever_these_are_normal() -> None:
    random, n = np.random.default_rng(4), 1 << 18
    d = np.ldexp(random.uniform(1, 2, n), random.integers(-126, 126, n)).astype(np.float32)
    x = np.ldexp(random.uniform(1, 2, n), random.integers(-126, 126, n)).astype(np.float32)
    exact = x.astype(np.float64) / d
    inside = (exact > 2.0**-120) & (exact < 2.0**126)
    with np.errstate(over="ignore"):
        found = x * flushed(noisy(1 / d.astype(np.float64), random))
    assert np.abs(found[inside] / exact[inside] - 1).max() < PROMISED["divide_short"]


def compiled(body: str) -> CompiledKernel:
    lines = ("v = load(x, 4 * thread(), TILE)", body)
    source = "TILE = Tile((4, 4), (1024, 1), vector=4)\ndef k(x, y):\n" + "".join(f"    {line}\n" for line in lines)
    parameters = [ArrayParameter(n, f32, (Affine.symbol("N"),), readonly=n == "x") for n in "xy"]
    return compile_kernel(source, "k", parameters, 256, (9, 0))


def count(kernel: CompiledKernel, pattern: str) -> int:
    return len(re.findall(pattern, kernel.ptx))


@pytest.mark.ptx
def test_one_reciprocal_serves_the_slots_of_a_divisor() -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, divide_short(v, reduce_sum(v, (0, 1))))")
    assert count(kernel, r"rcp\.approx\.ftz\.f32") == 1
    assert count(kernel, r"div\.full\.f32") == 16  # in the branch for divisors that have none
    assert count(kernel, r"mul(\.rn)?\.f32") == 16


@pytest.mark.ptx
def test_divisors_of_their_own_divide() -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, divide_short(v, v + 1.0))")
    assert count(kernel, r"div\.full\.f32") == 16 and count(kernel, r"rcp") == 0


@pytest.mark.ptx
def test_an_exponential_is_three_instructions() -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, exp_short(v))")
    assert count(kernel, r"ex2\.approx\.ftz\.f32") == 16 and count(kernel, r"ex2\.approx\.f32") == 0
    assert count(kernel, r"mul(\.rn)?\.f32") == 2 * 16
