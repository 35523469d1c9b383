"""Quotients and roots of fragments with divisors of their own: every bit IEEE's, one branch for all slots."""

from __future__ import annotations

import re

import numpy as np
import pytest

from polyfuse.affine import Affine
from polyfuse.backends.numba_cuda.compile import CompiledKernel, compile_kernel
from polyfuse.backends.numba_cuda.fragments.quotients import FAR, LEAST_ROOT, ROOTS
from polyfuse.dtypes import f32
from polyfuse.kernel import ArrayParameter

extended = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs an extended significand")


def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    return (x.astype(np.longdouble) * y + z).astype(np.float32)


def about(exact: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """One of the floats next to a value: what the instruction promises, PTX ISA 8.0."""
    near = exact.astype(np.float32)
    bits = near.view(np.int32) + random.integers(-1, 2, near.size).astype(np.int32)
    return bits.view(np.float32)


def quotient(x: np.ndarray, d: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """As `quotients` computes it, without the sign of the divisor."""
    r = about(1 / d.astype(float), random)
    r = fma(r, fma(-r, d, np.float32(1)), r)
    q = (x * r).astype(np.float32)
    for _ in range(2):
        q = fma(fma(-q, d, x), r, q)
    return q


@extended
@pytest.mark.parametrize("hard", [False, True])
def test_a_reciprocal_that_is_near_gives_the_nearest_quotient(hard: bool) -> None:
    random, n = np.random.default_rng(11), 1 << 20
    low = (1 << 24) - 4096 if hard else 1 << 23
    d = np.ldexp(random.integers(low, 1 << 24, n), random.integers(-FAR, FAR, n) - 23).astype(np.float32)
    x = np.ldexp(random.integers(1 << 23, 1 << 24, n), random.integers(-FAR, FAR, n) - 23).astype(np.float32)
    if hard:  # next to the middle between two floats
        x = (np.ldexp(random.integers(1 << 24, 1 << 25, n) | 1, -24) * d).astype(np.float32)
    inside = np.abs(x) >= 2.0**-FAR
    x, d = x[inside], d[inside]
    np.testing.assert_array_equal(quotient(x, d, random), x / d)


@extended
def test_a_root_that_is_near_gives_the_nearest_root() -> None:
    random, n = np.random.default_rng(12), 1 << 20
    x = random.integers(LEAST_ROOT, LEAST_ROOT + ROOTS, n, dtype=np.int64).astype(np.int32).view(np.float32)
    y = about(1 / np.sqrt(x.astype(float)), random)
    s, half = (x * y).astype(np.float32), (y * np.float32(0.5)).astype(np.float32)
    np.testing.assert_array_equal(fma(fma(-s, s, x), half, s), np.sqrt(x))


def compiled(body: str, shape: tuple[int, ...] = (4, 4)) -> CompiledKernel:
    steps = (1024, 1) if len(shape) == 2 else (1,)
    lines = ("u, v = load(x, 4 * thread(), TILE), load(z, 4 * thread(), TILE)", body)
    source = f"TILE = Tile({shape}, {steps})\ndef k(x, z, y):\n" + "".join(f"    {line}\n" for line in lines)
    parameters = [ArrayParameter(n, f32, (Affine.symbol("N"),), readonly=n != "y") for n in "xzy"]
    return compile_kernel(source, "k", parameters, 256, (9, 0))


def count(kernel: CompiledKernel, pattern: str) -> int:
    return len(re.findall(pattern, kernel.ptx))


def test_one_branch_divides_otherwise() -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, u / v)")
    assert count(kernel, r"rcp\.approx\.ftz\.f32") == count(kernel, r"div\.rn\.f32") == 16
    assert count(kernel, r"@%p\d+ bra") == 1
    assert count(kernel, r"fma\.rm\.f32") == 32  # remainders of nothing are -0


def test_more_slots_have_a_branch_for_every_16() -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, u / v)", (10, 4))
    assert count(kernel, r"rcp\.approx\.ftz\.f32") == count(kernel, r"div\.rn\.f32") == 40
    assert count(kernel, r"@%p\d+ bra") == 3


def test_one_branch_takes_roots_otherwise() -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, sqrt(u * v))")
    assert count(kernel, r"rsqrt\.approx\.ftz\.f32") == count(kernel, r"sqrt\.rn\.f32") == 16
    assert count(kernel, r"@%p\d+ bra") == 1


@pytest.mark.parametrize("shape", [(2, 4), (4, 4), (4, 8)])
def test_roots_of_nothing_go_the_short_way(shape: tuple[int, int]) -> None:
    """One stands in for it in front of the root, and it is what comes out: IEEE's took rays that miss a sphere 190 us,
    120 so."""
    kernel, slots = compiled("store(y, 4 * thread(), TILE, sqrt(u * v))", shape), shape[0] * shape[1]
    assert count(kernel, r"setp\.eq\.f32\s+%p\d+, %f\d+, 0f00000000") == slots
    assert count(kernel, r"selp\.f32\s+%f\d+, 0f3F800000, %f\d+") == slots
    assert count(kernel, r"selp\.f32") == 2 * slots


def test_reciprocals_take_no_remainders() -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, 1.0 / u)")
    assert count(kernel, r"rcp\.approx\.ftz\.f32") == 16 and count(kernel, r"fma\.rm\.f32") == 0


def test_few_slots_divide_by_themselves() -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, u / v)", (8,))
    assert count(kernel, r"rcp\.approx") == 0 and count(kernel, r"div\.rn\.f32") == 8


def test_many_slots_take_roots_by_themselves() -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, sqrt(u * v))", (4, 8))
    assert count(kernel, r"rsqrt\.approx") == 0 and count(kernel, r"sqrt\.rn\.f32") == 32


def test_other_numbers_in_the_text_divide_by_themselves() -> None:
    kernel = compiled("store(y, 4 * thread(), TILE, 0.333 / u)")
    assert count(kernel, r"rcp\.approx") == 0 and count(kernel, r"div\.rn\.f32") == 16
