"""Moments of what a block holds: nobody adds up how many elements there are, and what is masked is masked once."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan


def deviations(x: Any) -> Any:
    return x.std(axis=1)


def standardised(x: Any) -> Any:
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)


def gained(x: Any, gain: Any) -> Any:
    mean = x.mean(axis=1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * gain[:, None, None]


def channels(x: Any) -> Any:
    mean, variance = x.mean(axis=(0, 2, 3), keepdims=True), x.var(axis=(0, 2, 3), keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5)


def checked(function: Any, plan: pf.Plan, x: np.ndarray[Any, Any]) -> None:
    (found,) = run_plan(plan, (x,))
    np.testing.assert_allclose(found, function(x.astype(np.float64)), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 15, 16, 33])
def test_lanes_that_hold_a_row_know_its_length(rows: int) -> None:
    plan = pf.jit(standardised).plan(pf.spec("bf16[N~524288, M~49]"), target="h200")
    source = plan.source()
    assert "moments_block_all = cast(constant(M, int64), float32)" in source
    assert "constant(1.0, float32)" not in source
    x = np.random.default_rng(rows).standard_normal((rows, 49), np.float32).astype(ml_dtypes.bfloat16)
    (found,) = run_plan(plan, (x,))
    np.testing.assert_allclose(found.astype(np.float64), standardised(x.astype(np.float64)), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("shape", [(2, 256, 14, 14), (3, 200, 14, 14), (1, 129, 3, 8)])
def test_panels_know_the_number_of_their_rows(shape: tuple[int, ...]) -> None:
    """Of 1024 x 512 x 7 x 7 float32 a layernorm takes an H200 80 us so, 115 with a sum of ones and masks of each sum:
    by ptxas 3,536 instructions and 4,216."""
    plan = pf.jit(gained).plan(pf.spec("f32[N~1024, C~512, H~7, W~7]"), pf.spec("f32[C~512]"), target="h200")
    source = plan.source()
    assert [k.strategy for k in plan.kernels] == ["panels"]
    assert "moments_block_all = cast(constant(C, int64), float32)" in source
    assert "constant(1.0, float32)" not in source
    assert re.search(r"moments_1_block_off = (where\(|x - )", source), "a product of what is masked is added at once"
    assert not re.search(r"where\(\w+, where\(", source)
    rng = np.random.default_rng(shape[1])
    x, gain = rng.standard_normal(shape, np.float32) - 2, rng.standard_normal(shape[1], np.float32)
    (found,) = run_plan(plan, (x, gain))
    np.testing.assert_allclose(found, gained(x.astype(np.float64), gain.astype(np.float64)), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(33, 3, 7, 7), (64, 2, 7, 7), (17, 5, 3, 11), (1, 1, 1, 1)])
def test_blocks_of_a_cluster_count_their_own(shape: tuple[int, ...]) -> None:
    plan = pf.jit(channels).plan(pf.spec("f32[N~1024, C~512, H~7, W~7]"), target="h200")
    assert re.search(r"moments_block_all = reduce_sum\(where\(mask\w*, constant\(1.0, float32\), 0.0\)", plan.source())
    checked(channels, plan, np.random.default_rng(shape[0]).standard_normal(shape, np.float32) + 1)


@pytest.mark.parametrize("rows", [1, 7, 64, 129, 1000])
def test_trips_count_in_masks_of_their_loads(rows: int) -> None:
    """A covariance of 3001 columns takes an H200 197 us so, and 217 where each trip asks by a comparison of its own how
    many elements it has."""
    plan = pf.jit(deviations).plan(pf.spec("f32[B~200, N~4000, M~300]"), target="h200")
    assert re.search(r"moments_part_all = reduce_sum\(where\(mask\w*, constant\(1.0, float32\), 0.0\)", plan.source())
    checked(deviations, plan, np.random.default_rng(rows).standard_normal((2, rows, 36), np.float32))


def test_what_is_not_counted_may_be_anything() -> None:
    """Lanes behind the last row hold what is beside it, or nothing: no infinity there becomes a number."""
    plan = pf.jit(standardised).plan(pf.spec("bf16[N~524288, M~49]"), target="h200")
    assert "moments" in plan.source()
    x = np.random.default_rng(8).standard_normal((5, 49), np.float32).astype(ml_dtypes.bfloat16)
    x[1::2] = np.inf
    with np.errstate(invalid="ignore"):
        (found,) = run_plan(plan, (x,))
        expected = standardised(x.astype(np.float64))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2e-2, atol=2e-2)
