"""Short rows side by side in memory, reduced with what lies behind them: groups of channels that come last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.testing import assert_legal, assert_schedule

GROUPS = 12


def grouped(x: Any) -> Any:
    n, h, w, c = x.shape
    return x.reshape(n, h, w, GROUPS, c // GROUPS)


def sums(x):
    z = grouped(x)
    a, b = z.sum(axis=(1, 2, 4)), (z * z).sum(axis=(1, 2, 4))
    return a, b


def extremes(x):
    z = grouped(x)
    low, high = z.min(axis=(1, 2, 4)), z.max(axis=(1, 2, 4))
    return low, high


def planned(function: Callable[..., Any], spec: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(pf.spec(spec), target="h200")


def test_a_warp_reads_the_groups_of_a_pixel_side_by_side() -> None:
    plan = planned(extremes, "f32[64, 64, 64, 120]")
    assert_schedule(
        plan,
        """
        kernel min_high   groups lanes=16 unroll=2 vector=2 share=512   grid 64 x 8   block 256
          min  = min(x[i, k, l, 10*j + p], axis=(2, 3, 4))   global, combine grid
          high = max(x[i, k, l, 10*j + p], axis=(2, 3, 4))   global, combine grid
        """,
    )
    assert_legal(plan)
    (kernel,) = plan.kernels
    (load,) = [p for p in kernel.schedule.placed if p.role == "load"]
    assert load.place[-1].coefficient("$tx") == 10


CASES = (
    (sums, "f32", (3, 5, 7, 120)),
    (sums, "f64", (2, 9, 4, 12 * 3)),
    (sums, "bf16", (2, 6, 6, 12 * 16)),
    (extremes, "f32", (3, 16, 16, 12 * 7)),
    (extremes, "f16", (1, 40, 33, 12 * 2)),
)
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": bfloat16}


@pytest.mark.parametrize(("function", "dtype", "shape"), CASES)
def test_groups_come_out_right(function: Any, dtype: str, shape: tuple[int, ...]) -> None:
    wishes = {"sum": "groups"} if dtype == "bf16" else {}  # rows side by side of several results cost about the same
    plan = planned(function, f"{dtype}[N~4096, {', '.join(map(str, shape[1:]))}]", strategies=wishes)
    assert all(kernel.strategy == "groups" for kernel in plan.kernels)
    assert_legal(plan)
    x = np.random.default_rng(1).standard_normal(shape).astype(TYPES[dtype])
    expected = function(x.astype(np.float64))
    tolerance = {2: 1e-2, 4: 1e-5, 8: 1e-12}[x.dtype.itemsize]
    for found, exact in zip(run_plan(plan, [x]), expected, strict=True):
        np.testing.assert_allclose(found.astype(np.float64), exact, rtol=tolerance, atol=100 * tolerance)


def test_pixels_are_dealt_to_blocks_where_images_are_few() -> None:
    plan = planned(sums, "f32[1, 256, 256, 120]")
    (kernel,) = plan.kernels
    assert "share" in dict(kernel.schedule.parameters) and kernel.schedule.grid_combine
    assert_legal(plan)
    x = np.random.default_rng(1).standard_normal((1, 256, 256, 120)).astype(np.float32)
    for found, exact in zip(run_plan(plan, [x]), sums(x.astype(np.float64)), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-3)


def test_short_pieces_of_rows_stay_in_one_block() -> None:
    """Beside blocks that share rows in pieces of 16 and 64 bytes; those of 128 are as good."""
    for spec in ("bf16[4069, 32, 32, 24]", "f32[1017, 32, 32, 48]", "bf16[332, 56, 56, 96]"):
        assert [kernel.strategy for kernel in planned(sums, spec).kernels] == ["groups"]
    assert [kernel.strategy for kernel in planned(sums, "bf16[166, 56, 56, 192]").kernels] == ["planes"]


def test_long_rows_and_rows_apart_are_left_to_others() -> None:
    assert "groups" not in str(planned(extremes, f"f32[8, 32, 32, {12 * 64}]"))
    assert "groups" not in str(planned(lambda x: x.max(axis=(1, 2)), "f32[64, 4096, 8]"))


def group_norm(x):
    z = grouped(x)
    m, v = z.mean(axis=(1, 2, 4), keepdims=True), z.var(axis=(1, 2, 4), keepdims=True)
    y = ((z - m) / np.sqrt(v + 1e-5)).reshape(x.shape)
    return y


def instance_norm(x):
    n, h, w, c = x.shape
    z = x.reshape(n, h, w, c, 1)
    m, v = z.mean(axis=(1, 2, 4), keepdims=True), z.var(axis=(1, 2, 4), keepdims=True)
    y = ((z - m) / np.sqrt(v + 1e-5)).reshape(x.shape)
    return y


@pytest.mark.parametrize(
    ("function", "channels", "first"), [(group_norm, 120, "groups"), (instance_norm, 320, "columns")]
)
def test_norms_of_channels_that_come_last_take_all_moments_in_one_pass(
    function: Any, channels: int, first: str
) -> None:
    plan = planned(function, f"f32[32, 64, 64, {channels}]")
    moments, rest = plan.kernels
    assert moments.strategy == first and "moments(" in str(plan)
    assert len([p for p in moments.schedule.placed if p.role == "load"]) == 1
    assert len([p for p in rest.schedule.placed if p.role == "load" and plan.scop.statements[p.value].name == "x"]) == 1
    assert_legal(plan)


@pytest.mark.parametrize("function", [group_norm, instance_norm])
def test_norms_of_channels_that_come_last_come_out_right(function: Any) -> None:
    x = np.random.default_rng(4).standard_normal((2, 5, 6, 36)).astype(np.float32)
    plan = planned(function, "f32[2, 5, 6, 36]")
    (found,) = run_plan(plan, [x])
    np.testing.assert_allclose(found, function(x.astype(np.float64)), rtol=1e-4, atol=1e-5)
