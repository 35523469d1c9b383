"""What is particular to schedules for CPU cores: masks in the last trip only, lanes, tiles turned in registers."""

from __future__ import annotations

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.plan import Plan
from tests.schedules.programs import plan, softmax


def cpu(function, *specs: str, **options) -> Plan:
    return plan(function, *specs, target="cpu", **options)


def test_only_the_last_trip_of_a_row_is_masked() -> None:
    masked = [line for line in cpu(softmax, "f32[N, M]").source().splitlines() if "mask=" in line]
    assert masked and all(line.startswith("        ") for line in masked), "every masked access is inside a branch"
    assert "mask" not in cpu(softmax, "f32[N, 4096]").source()
    assert "% 32" not in cpu(softmax, "f32[N, 4096]").source()


def test_partial_results_stay_in_lanes_until_the_row_ends() -> None:
    lines = cpu(softmax, "f32[N, M]").source().splitlines()
    reductions = [line for line in lines if "reduce_" in line]
    assert len(reductions) == 2
    assert all(line.startswith("    ") and not line.startswith("        ") for line in reductions)


@pytest.mark.parametrize("columns", [1, 5, 31, 32, 33, 64, 100, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_rows_of_any_length(columns: int, dtype: type) -> None:
    x = np.random.default_rng(columns).standard_normal((7, columns)).astype(dtype)
    wide = np.exp(x.astype(np.float64) - x.max(axis=-1, keepdims=True))
    exact = wide / wide.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(pf.jit(softmax)(x), exact, rtol=2e-3 if dtype is np.float16 else 1e-5)


def test_a_transposed_read_is_turned_in_registers() -> None:
    source = cpu(lambda x, y: x + y.T, "f32[N~4000, M~3000]", "f32[M, N]").source()
    assert 'Tile((16, 16), (1, Size("N")))' in source and 'Tile((16, 16), (Size("M"), 1))' in source


@pytest.mark.parametrize("shape", [(64, 64), (130, 67), (16, 500), (63, 65), (300, 17)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_transposed_reads_of_any_shape(shape: tuple[int, int], dtype: type) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-99, 99, s).astype(dtype) for s in (shape, shape[::-1]))
    np.testing.assert_array_equal(pf.jit(lambda x, y: x * 2 + y.T)(x, y), x * 2 + y.T)


def test_scalar_expressions_run_in_the_kernel_that_uses_them() -> None:
    def scaled(x, low, high):
        return (x - low) / (high - low)

    f = pf.jit(scaled)
    x = np.linspace(0, 1, 100_000, dtype=np.float32)
    np.testing.assert_allclose(f(x, 0.25, 0.75), (x - 0.25) / 0.5, rtol=1e-6)
    assert len(f.plan(x, 0.25, 0.75).kernels) == 1


def test_a_kernel_per_row_holds_every_normalisation() -> None:
    def layernorm(x, gain, bias):
        d = x - x.mean(axis=-1, keepdims=True)
        return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5) * gain + bias

    assert len(cpu(layernorm, "f32[N, M]", "f32[M]", "f32[M]").kernels) == 1


FULL_REDUCTIONS = {
    "x / x.sum()": lambda x: x / x.sum(),
    "norm": lambda x: np.sqrt((x * x).sum()),
    "mean of squared differences": lambda x: ((x - x[:1]) ** 2).mean(),
    "divided by the norm": lambda x: x / np.sqrt((x * x).sum()),
}


@pytest.mark.parametrize("name", FULL_REDUCTIONS)
@pytest.mark.parametrize("spec", ["f32[N, M]", "f32[1000, 1000]", "f32[3, 5000000]", "f32[5000000, 3]", "f32[9999999]"])
def test_full_reductions_take_two_kernels_at_most(name: str, spec: str) -> None:
    """The last of the partial sums are added where their total is used, by every block."""
    assert len(cpu(FULL_REDUCTIONS[name], spec).kernels) <= 2


@pytest.mark.parametrize("shape", [(40_001, 3), (700, 31), (9, 40, 17), (70_000, 1)])
def test_blocks_of_several_short_rows(shape: tuple[int, ...]) -> None:
    def program(x, v):
        return (x + v) / (x + v).sum()

    x, v = (np.random.default_rng(0).random(s).astype(np.float32) for s in (shape, shape[-1:]))
    exact = program(x.astype(np.float64), v.astype(np.float64))
    np.testing.assert_allclose(pf.jit(program)(x, v), exact, rtol=1e-5)


def test_short_rows_do_not_make_a_block_each() -> None:
    kernel = cpu(lambda x, v: x - v, "f32[5000000, 3]", "f32[3]").kernels[0]
    assert kernel.cost.blocks <= 10_000


def test_columns_are_read_in_strips_of_a_kilobyte_where_there_are_enough() -> None:
    def strip(spec: str) -> int:
        return cpu(lambda x: x.sum(axis=0), spec).kernels[0].parameters["vector"]

    assert strip("f32[4096, 4096]") == 256
    assert strip("f64[4096, 4096]") == 128
    assert strip("f32[4096, 64]") == 32, "one block a core at least"


@pytest.mark.parametrize("shape", [(6_000_000,), (3, 2_000_000), (12, 1_500_000)])
def test_long_sums_round_as_little_as_pairwise_ones(shape: tuple[int, ...]) -> None:
    """Lanes that add a few hundred numbers each, not hundreds of thousands."""
    f = pf.jit(lambda x: x.sum(axis=-1))
    for x, error in (
        (np.random.default_rng(0).random(shape, dtype=np.float32), 1e-6),
        (np.full(shape, 0.1, "f4"), 6e-6),
    ):
        exact = x.astype(np.float64).sum(axis=-1)
        np.testing.assert_allclose(f(x), exact, rtol=error)


def both_products(a, x, y):
    return a @ x, a.T @ y


def sums_and_extremes(a):
    return a.max(axis=0), (a * a).sum(axis=1), a.sum(axis=0)


def test_rows_and_columns_of_one_matrix_share_a_pass() -> None:
    found = cpu(both_products, "f32[N~4096, M~4096]", "f32[M]", "f32[N]")
    assert [k.strategy for k in found.kernels] == ["one_pass"]
    assert found.hbm_bytes < cpu(both_products, "f32[N~4096, M~4096]", "f32[M]", "f32[N]", fuse="pointwise").hbm_bytes


@pytest.mark.parametrize("shape", [(1, 1), (3, 500), (129, 257), (1000, 40), (0, 5), (5, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_rows_and_columns_of_any_shape(shape: tuple[int, int], dtype: type) -> None:
    generator = np.random.default_rng(1)
    a, x, y = (generator.integers(-9, 9, s).astype(dtype) for s in (shape, shape[1], shape[0]))
    together = pf.jit(both_products, together=[("sum", "sum_1")] if min(shape) > 1 else [], library=False)
    for mine, exact in zip(together(a, x, y), both_products(a.astype(np.int64), x.astype(np.int64), y), strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-3)
    if all(shape):
        for mine, exact in zip(pf.jit(sums_and_extremes)(a), sums_and_extremes(a.astype(np.int64)), strict=True):
            np.testing.assert_allclose(mine, exact, rtol=1e-3)
