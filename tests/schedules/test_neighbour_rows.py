"""Reductions over what neighbours along a row or a column give take windows of registers; prefixes whose neighbours are
needed wait in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.bindings import is_advisory
from polyfuse.cost.alone import BEGIN
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.testing import assert_legal


def variation(x: Any) -> Any:
    return np.abs(x[:, 1:] - x[:, :-1]).sum(1)


def of_bytes(x: Any) -> Any:
    return np.abs(x[:, 1:].astype(np.float32) - x[:, :-1]).sum(1)


def peaks(x: Any) -> Any:
    return ((x[:, 1:-1] > x[:, 2:]) & (x[:, 1:-1] > x[:, :-2])).sum(1)


def volatility(x: Any) -> Any:
    return np.std(np.diff(np.log(x), axis=1), axis=1)


def around(x: Any) -> Any:
    return np.abs(x - np.roll(x, 1, 1)).max(1)


def autocorrelations(x: Any) -> Any:
    return np.stack([(x[:, k:] * x[:, : x.shape[1] - k]).mean(1) for k in range(1, 6)], 1)


def where_it_rises(x: Any) -> Any:
    return np.argmax(np.diff(x, axis=1), axis=1)


def of_all(x: Any) -> Any:
    return np.abs(np.diff(x)).sum()


def of_channels(x: Any) -> Any:
    return np.abs(np.diff(x, axis=2)).mean((0, 2))


def filtered(x: Any) -> Any:
    taps = sum(x[:, k : x.shape[1] - 4 + k] for k in range(5))
    return np.maximum(taps, 0).sum(1)


def scores(x: Any) -> Any:
    d = x - np.roll(x, 1, 1)
    return (d - d.mean(1, keepdims=True)) / (1 + d.std(1, keepdims=True))


def planned(function: Callable[..., Any], spec: str) -> Plan:
    plan = pf.jit(function, verify=True).plan(pf.spec(spec), target="h200")
    assert_legal(plan)
    return plan


def check(plan: Plan, function: Callable[..., Any], spec: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    """At shapes that all guards but those of size classes hold for."""
    dtype = pf.spec(spec).dtype
    for shape in shapes:
        known = zip(plan.program.arguments[0].shape, shape, strict=True)
        sizes = {name: size for extent, size in known for name in extent.names()}
        assert all(guard.holds(sizes) for guard in plan.guards if not is_advisory(guard))
        x = np.random.default_rng(shape[0]).integers(1, 5, shape).astype(dtype.numpy)
        expected, (found,) = function(x.astype(np.float64)), run_plan(plan, [x])
        tolerance = 1e-4 if dtype.itemsize > 2 else 3e-2
        np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=tolerance, atol=tolerance)


ROWS = (
    (variation, "bf16[N~20000, M~8192]", ((3, 8192), (2, 7680))),
    (of_bytes, "u8[N~20000, M~16384]", ((2, 16384),)),
    (variation, "bf16[N~20000, M~8191]", ((2, 8191), (3, 8190))),
    (peaks, "f32[N~20000, 4096]", ((3, 4096),)),
    (volatility, "f32[N~20000, M~4096]", ((3, 4096), (2, 4092))),
    (volatility, "f32[N~20000, M~4093]", ((3, 4093),)),
    (volatility, "f32[N~262144, 252]", ((17, 252),)),
    (volatility, "f32[N~1000, M~65536]", ((2, 65536),)),
    (around, "f32[N~20000, M~4096]", ((3, 4096),)),
    (filtered, "f32[N~20000, M~4096]", ((3, 4096), (2, 4000))),
    (where_it_rises, "bf16[N~20000, 8192]", ((3, 8192),)),
    (of_all, "bf16[N~134217728]", ((4096 * 40,), (300001,))),
    (variation, "bf16[N~16, M~8388608]", ((2, 600000),)),
    (of_channels, "bf16[B~64, C~64, M~32768]", ((2, 3, 32768),)),
    (scores, "f32[N~20000, M~4096]", ((3, 4096),)),
)


@pytest.mark.parametrize(("function", "spec", "shapes"), ROWS)
def test_rows_have_windows(function: Callable[..., Any], spec: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    plan = planned(function, spec)
    (kernel,) = plan.kernels
    assert kernel.strategy == "rows" and kernel.parameters["neighbours"] == 1
    assert plan.source().count("load(") <= plan.source().count("take(") * 2  # neighbours are taken, not loaded again
    check(plan, function, spec, shapes)


@pytest.mark.parametrize(("function", "spec"), [c[:2] for c in ROWS if c[0] not in (volatility, scores)])
def test_they_take_about_what_their_bytes_take(function: Callable[..., Any], spec: str) -> None:
    """Single elements of 16-bit rows took an H200 twice, of bytes and filters three times as long."""
    plan = planned(function, spec)
    cost = plan.cost_analysis()
    moved = cost.hbm_bytes.at(**cost.sizes) / plan.target.bandwidth
    assert cost.seconds < 1.35 * (plan.target.launch + BEGIN + moved)


def test_correlations_with_neighbours_are_one_kernel() -> None:
    plan = planned(autocorrelations, "f32[N~20000, M~4096]")
    assert [k.parameters.get("neighbours", 0) for k in plan.kernels] == [1]
    check(plan, autocorrelations, "f32[N~20000, M~4096]", ((3, 4096),))


@pytest.mark.parametrize("spec", ["f32[N~20000, M~4096]", "bf16[N~20000, M~8191]"])
def test_what_is_read_at_its_own_elements_has_no_windows(spec: str) -> None:
    for function in (lambda x: x.sum(1), lambda x: (x - x.max(1, keepdims=True)).sum(1)):
        assert not any("neighbours" in kernel.parameters for kernel in planned(function, spec).kernels)


def test_rows_that_begin_anywhere_and_are_shifted_have_frames() -> None:
    plan = planned(lambda x: np.abs(x[:, 1:]).max(1), "bf16[N~20000, M~8191]")
    assert not any("neighbours" in kernel.parameters for kernel in plan.kernels)


def differences_down(x: Any) -> Any:
    return np.diff(np.log(x), axis=0).std(0)


def middle(x: Any) -> Any:
    return np.abs(np.diff(np.log(x), axis=1)).mean(1)


def filtered_down(x: Any) -> Any:
    taps = sum(x[k : x.shape[0] - 4 + k] for k in range(5))
    return np.maximum(taps, 0).max(0)


COLUMNS = (
    (differences_down, "f32[N~8192, M~8192]", ((515, 64), (1030, 8))),
    (differences_down, "f32[N~1000000, M~64]", ((40000, 64),)),
    (middle, "f32[B~256, N~512, M~512]", ((2, 512, 64), (3, 77, 8))),
    (filtered_down, "bf16[N~16384, M~8192]", ((300, 64),)),
    (filtered_down, "f32[N~8192, M~8192]", ((900, 64),)),
)


@pytest.mark.parametrize(("function", "spec", "shapes"), COLUMNS)
def test_columns_have_windows(function: Callable[..., Any], spec: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    """A thread has rows that follow each other: logarithms of neighbours are computed once, 98 us where two kernels
    took 199, taps are loaded once, 69 and 95."""
    plan = planned(function, spec)
    (kernel,) = plan.kernels
    assert kernel.strategy == "columns" and kernel.parameters["neighbours"] == 1
    check(plan, function, spec, shapes)


def moving_means(x: Any) -> Any:
    c = np.cumsum(x, 1)
    return (c[:, 9:] - c[:, :-9]) / 9


def moving_deviations(x: Any) -> Any:
    c, q = np.cumsum(x, 1), np.cumsum(x * x, 1)
    m = (c[:, 20:] - c[:, :-20]) / 20
    return np.sqrt(np.maximum((q[:, 20:] - q[:, :-20]) / 20 - m * m, 0))


def new_highs(x: Any) -> Any:
    m = np.maximum.accumulate(x, 1)
    return (m[:, 1:] > m[:, :-1]) * 1.0


PREFIXES = (
    (moving_means, "f32[N~20000, M~4096]", ((3, 4096), (2, 4000))),
    (moving_means, "f32[N~300000, 252]", ((9, 252),)),
    (moving_means, "f32[N~20000, M~5000]", ((3, 5000),)),
    (moving_means, "bf16[N~20000, 8192]", ((2, 8192),)),
    (moving_deviations, "f32[N~20000, M~4096]", ((3, 4096),)),
    (new_highs, "f32[N~20000, M~4096]", ((3, 4096),)),
)


@pytest.mark.parametrize(("function", "spec", "shapes"), PREFIXES)
def test_neighbours_of_prefixes_wait_in_shared_memory(
    function: Callable[..., Any], spec: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    plan = planned(function, spec)
    (kernel,) = plan.kernels
    assert kernel.parameters["staged"] == 1 and "shared(" in plan.source()
    check(plan, function, spec, shapes)


def test_prefixes_behind_their_places_stay_kernels_of_their_own() -> None:
    """Those in front of the first one are in no cell of the row."""
    plan = planned(lambda x: np.cumsum(x, 1) - np.roll(np.cumsum(x, 1), 3, 1), "f32[N~20000, M~4096]")
    assert not any("staged" in kernel.parameters for kernel in plan.kernels)


@pytest.mark.parametrize(
    ("step", "dtype", "columns", "vector"), [(4, "bf16", 8192, 2), (2, "f32", 4096, 2), (4, "f32", 4096, 1)]
)
def test_lanes_have_as_many_elements_as_lie_in_a_vector(step: int, dtype: str, columns: int, vector: int) -> None:
    """Eight bfloat16 four apart in a lane take an H200 167 us, two 76."""
    plan = planned(lambda x: (x[:, ::step] * x[:, 1::step]).sum(1), f"{dtype}[20000, {columns}]")
    (kernel,) = plan.kernels
    assert kernel.strategy == "rows" and kernel.parameters["vector"] == vector
