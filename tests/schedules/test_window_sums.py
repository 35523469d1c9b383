"""Sums over all that neighbouring elements give take windows of registers and one pass, whatever else is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.cost.alone import BEGIN
from polyfuse.face.interpreted import run_plan
from polyfuse.testing import assert_legal


def jacobi(x):
    return 0.2 * (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1])


def residual(x):
    d = jacobi(x) - x[1:-1, 1:-1]
    return (d * d).sum()


def step_and_residual(x):
    u = jacobi(x)
    return u, np.abs(u - x[1:-1, 1:-1]).max()


def total_variation(x):
    return np.abs(x[1:] - x[:-1]).sum() + np.abs(x[:, 1:] - x[:, :-1]).sum()


def laplace(x):
    c = x[1:-1, 1:-1, 1:-1]
    planes, rows = x[2:, 1:-1, 1:-1] + x[:-2, 1:-1, 1:-1], x[1:-1, 2:, 1:-1] + x[1:-1, :-2, 1:-1]
    return planes + rows + x[1:-1, 1:-1, 2:] + x[1:-1, 1:-1, :-2] - 6 * c


def energy(x):
    return (laplace(x) ** 2).sum()


def step_and_energy(x):
    u = laplace(x)
    return u, (u * u).sum()


def edges(x):
    across = x[:-2, 2:] - x[:-2, :-2] + 2 * (x[1:-1, 2:] - x[1:-1, :-2]) + x[2:, 2:] - x[2:, :-2]
    down = x[2:, :-2] - x[:-2, :-2] + 2 * (x[2:, 1:-1] - x[:-2, 1:-1]) + x[2:, 2:] - x[:-2, 2:]
    return np.sqrt(across * across + down * down).mean(), np.abs(across).max()


def variations(x: Any) -> Any:
    """Of each image."""
    down, right = x[:, 1:, :-1] - x[:, :-1, :-1], x[:, :-1, 1:] - x[:, :-1, :-1]
    return np.sum(np.abs(down) + np.abs(right), axis=(1, 2))


def sharpness(x: Any) -> Any:
    """Of each colour of each image."""
    c = x[:, :, 1:-1, 1:-1]
    y = x[:, :, 2:, 1:-1] + x[:, :, :-2, 1:-1] + x[:, :, 1:-1, 2:] + x[:, :, 1:-1, :-2] - 4 * c
    return np.sum(y, axis=(2, 3)), np.sum(y * y, axis=(2, 3))


def pooled(x: Any) -> Any:
    """The mean of the largest of two by two, of each channel of each image."""
    b, c, n, m = x.shape
    largest = x[:, :, : n // 2 * 2, : m // 2 * 2].reshape(b, c, n // 2, 2, m // 2, 2).max(axis=(3, 5))
    return np.tanh(np.clip(largest, -1, 1).mean(axis=(2, 3)))


def spread_of_largest(x: Any) -> Any:
    """The largest and the least of means of overlapping three by three."""
    means = np.lib.stride_tricks.sliding_window_view(x, (3, 3))[::2, ::2].mean(axis=(-1, -2))
    return means.max() - means.min()


CASES = (
    (pooled, "f32[B~64, C~64, N~256, M~256]", 1.2, ((2, 3, 8, 64), (1, 2, 35, 136), (1, 1, 2, 8))),
    (spread_of_largest, "f32[N~20001, M~4003]", 1.7, ((40, 65), (35, 133), (3, 1027))),
    (residual, "f32[N~8192, M~8192]", 1.1, ((40, 64), (35, 132), (3, 1028))),
    (residual, "f32[N~8001, M~8003]", 1.7, ((40, 65), (35, 133), (3, 1027))),
    (residual, "f16[N~16384, M~16384]", 1.4, ((40, 64), (35, 136), (4, 1024))),
    (step_and_residual, "f32[N~8192, M~8190]", 1.2, ((40, 66), (35, 134))),
    (total_variation, "f32[N~8192, M~8192]", 1.1, ((40, 64), (1, 64), (37, 132))),
    (total_variation, "f32[N~8191, M~8193]", 1.4, ((40, 65), (1, 63), (37, 131))),
    (energy, "f32[L~300, N~300, M~400]", 2.2, ((9, 20, 64), (6, 35, 132))),
    (step_and_energy, "f32[L~300, N~300, M~400]", 1.35, ((9, 20, 64), (6, 35, 132))),
    (edges, "f32[N~8192, M~8192]", 1.6, ((40, 64), (35, 132))),
    (variations, "f32[B~300, N~601, M~803]", 1.4, ((3, 40, 65), (2, 35, 131), (5, 2, 3))),
    (sharpness, "f32[B~100, C~3, N~600, M~800]", 1.4, ((2, 3, 40, 64), (1, 2, 35, 132))),
)


@pytest.mark.parametrize(("function", "spec", "most", "shapes"), CASES)
def test_what_stencils_leave_is_summed_where_it_is_made(
    function: Callable[..., Any], spec: str, most: float, shapes: tuple[tuple[int, ...], ...]
) -> None:
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "window_sums"
    cost = plan.cost_analysis()
    moved = cost.hbm_bytes.at(**cost.sizes) / plan.target.bandwidth
    assert kernel.seconds < most * (plan.target.launch + BEGIN + moved)
    assert_legal(plan)
    for shape in shapes:
        x = np.random.default_rng(shape[0]).integers(-3, 4, shape).astype(pf.spec(spec).dtype.numpy)
        expected = function(x.astype(np.float64))
        found = run_plan(plan, [x])
        for mine, exact in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_allclose(mine.astype(np.float64), exact, rtol=2e-3 if spec[1] == "1" else 1e-5, atol=1e-5)


def test_windows_of_rows_are_loaded_a_trip_early_where_registers_are_left() -> None:
    """Of single elements in loops without them, passes of the cache wait for lines on their way: 110 us, measured."""
    (kernel,) = pf.jit(total_variation).plan(pf.spec("f32[N~8191, M~8193]"), target="h200").kernels
    assert kernel.schedule.ahead == ("r",) and kernel.registers < 128
    (kernel,) = pf.jit(energy).plan(pf.spec("f32[L~300, N~300, M~400]"), target="h200").kernels
    assert not kernel.schedule.ahead


def test_what_is_stored_besides_is_written_in_pieces_of_a_kilobyte() -> None:
    """By rows of planes, whose neighbours the cache has lost when they come again, 245 to 356 us; so 212."""

    def step_and_change(u: Any, f: Any) -> Any:
        new = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - f[1:-1, 1:-1])
        return new, np.abs(new - u[1:-1, 1:-1]).max(axis=1).max()

    specs = [pf.spec("f32[8192, 8192]")] * 2
    (kernel,) = pf.jit(step_and_change).plan(*specs, target="h200").kernels
    assert kernel.strategy == "window_sums"
    assert kernel.parameters["lanes"] * kernel.parameters["columns"] * 4 >= 1024


def test_blocks_too_few_to_fill_a_device_are_not_proposed() -> None:
    plan = pf.jit(residual).plan(pf.spec("f32[256, 262144]"), target="h200")
    assert all(kernel.strategy != "window_sums" for kernel in plan.kernels)


def test_what_comes_back_to_its_elements_is_left_alone() -> None:
    plan = pf.jit(lambda x: laplace(x) / np.abs(laplace(x)).max()).plan(pf.spec("f32[300, 300, 400]"), target="h200")
    assert [kernel.strategy for kernel in plan.kernels] == ["window_sums", "pointwise"]
    assert_legal(plan)


def of_rows(x: Any, n: int) -> Any:
    return sum(x[i : x.shape[0] - n + 1 + i] for i in range(n))


def box(x: Any, n: int) -> Any:
    """Sums of n x n."""
    rows = of_rows(x, n)
    return sum(rows[:, i : x.shape[1] - n + 1 + i] for i in range(n))


def agreement(a: Any, b: Any, n: int) -> Any:
    """Structural similarity, of sums."""
    ma, mb = box(a, n), box(b, n)
    va, vb, c = box(a * a, n) - ma * ma, box(b * b, n) - mb * mb, box(a * b, n) - ma * mb
    return ((2 * ma * mb + 1) * (2 * c + 1) / ((ma * ma + mb * mb + 1) * (va * va + vb * vb + 1))).sum()


def agreement_of_7(a: Any, b: Any) -> Any:
    return agreement(a, b, 7)


def test_windows_that_registers_do_not_hold_are_not_loaded_a_trip_early() -> None:
    """Of 478 words 255 have registers: the others are written and read in each of 63 trips, where they were counted
    once; its kernel spilled 4 KB in each thread."""
    (kernel,) = pf.jit(agreement_of_7).plan(*[pf.spec("f32[N~8000, M~8000]")] * 2, target="h200").kernels
    assert kernel.strategy == "window_sums" and not kernel.schedule.ahead


def test_bodies_of_thousands_of_operations_are_written_once() -> None:
    """Masks hardly count in them, while several of them take longer to compile."""
    specs = [pf.spec("f32[N~8000, M~8000]")] * 2
    large = pf.jit(agreement_of_7).plan(*specs, target="h200")
    small = pf.jit(lambda a, b: agreement(a, b, 3)).plan(*specs, target="h200")
    assert [plan.kernels[0].strategy for plan in (large, small)] == 2 * ["window_sums"]
    assert [plan.source().count(" / ") for plan in (large, small)] == [1, 3]  # in a block inside the last trip apart
    assert_legal(large)
    for shape in ((20, 140), (33, 64), (7, 8)):
        rng = np.random.default_rng(shape[0])
        a, b = (rng.integers(-1, 2, shape).astype(np.float32) for _ in range(2))
        (found,) = run_plan(large, [a, b])
        np.testing.assert_allclose(found, agreement_of_7(a.astype(np.float64), b.astype(np.float64)), rtol=1e-5)


def of_a_batch(x: Any) -> Any:
    return np.abs(x[:, :, 1:] - x[:, :, :-1]).mean() + np.abs(x[..., 1:] - x[..., :-1]).mean()


def channels_last(x: Any) -> Any:
    return np.abs(x[:, 1:] - x[:, :-1]).mean() + np.abs(x[:, :, 1:] - x[:, :, :-1]).mean()


@pytest.mark.parametrize(
    ("function", "spec", "shape"),
    [
        (of_a_batch, "f32[B~64, C~3, N~512, M~512]", (4, 3, 40, 64)),
        (channels_last, "f32[B~64, N~512, M~512, 3]", (4, 40, 64, 3)),
    ],
)
def test_batches_that_are_summed_as_well_are_summed_last(function: Any, spec: str, shape: tuple[int, ...]) -> None:
    """Of each image by itself windows have its neighbours."""
    plan = pf.jit(function, verify=True).plan(pf.spec(spec), target="h200")
    assert plan.kernels[0].strategy == "window_sums" and len(plan.kernels) == 2
    x = np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)
    np.testing.assert_allclose(run_plan(plan, [x])[0], function(x.astype(np.float64)), rtol=1e-5)
