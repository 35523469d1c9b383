"""Many shapes, few kernels: one compiled kernel serves a class of sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from tests.run.conftest import Jit
from tests.schedules.spellings import layernorm, softmax
from tests.schedules.strategies import assert_close, expected

H200: dict[str, Any] = {"backend": "interpreter", "target": "h200"}
CPU: dict[str, Any] = {"backend": "numba_cpu"}


def shapes(count: int, seed: int) -> list[tuple[int, int]]:
    """Rows by the dozen, as many lengths below 100 as between 1,000 and 10,000."""
    random = np.random.default_rng(seed)
    lengths = np.exp(random.uniform(np.log(2), np.log(20_000), count))
    return [(int(random.integers(2, 12)), int(n)) for n in lengths]


@pytest.mark.parametrize("options", [H200, CPU], ids=["h200", "cpu"])
def test_a_hundred_shapes_of_a_softmax_compile_at_most_eight_kernels(jit: Jit, options: dict[str, Any]) -> None:
    function = jit(softmax, **options)
    random = np.random.default_rng(7)
    for k, shape in enumerate(shapes(100, seed=1)):
        x = random.standard_normal(shape, dtype=np.float32)
        got = function(x)
        if k % 10 == 0:
            assert_close(got, expected(softmax, [x]), "float32")
    info = function.cache_info()
    assert info.misses == 100
    assert info.compilations <= 8
    assert info.traces == 1


def test_sizes_of_one_class_neither_plan_nor_compile_again(jit: Jit) -> None:
    function = jit(layernorm, **H200)
    for n in (1028, 2048, 3000, 4096):
        function(np.ones((5, n), np.float32), np.ones(n, np.float32), np.ones(n, np.float32))
    info = function.cache_info()
    assert (info.traces, info.plans, info.compilations) == (1, 1, 1)


def test_plans_that_run_the_same_kernel_compile_it_once(jit: Jit) -> None:
    """Rows beyond 64 are another class for the price; the kernel turns out the same."""
    function = jit(softmax, **H200)
    for rows in (50, 500):
        function(np.ones((rows, 256), np.float32))
    info = function.cache_info()
    assert info.plans == 2
    assert info.compilations == 1


def test_random_lists_of_parameters_do_not_mean_a_compilation_each(jit: Jit) -> None:
    """Classes of sizes multiply with every parameter; beyond a few dozen the plan for the most similar sizes runs."""

    def step(ps: list[Any], gs: list[Any]) -> list[Any]:
        return [p - 0.5 * g for p, g in zip(ps, gs, strict=True)]

    function, random = jit(step, **H200), np.random.default_rng(0)
    for _ in range(60):
        lengths = np.exp(random.uniform(1, 9, 7)).astype(int)
        ps = [np.ones(n, np.float32) for n in lengths]
        assert all((out == 0.5).all() for out in function(ps, ps))
    info = function.cache_info()
    assert info.traces == 1 and info.misses == 60
    assert info.plans == info.compilations == 24


def test_regular_rows_are_padded_little() -> None:
    """Rows of a multiple of 128 elements: at most half as many again as they have, beyond 512."""
    for n in (640, 768, 1024, 1536, 2048, 3072, 5120, 8192, 10240, 12288, 16384):
        (kernel,) = pf.jit(softmax).plan(pf.spec(f"f32[N~4096, M~{n}]"), target="h200").kernels
        tile = dict(kernel.parameters)
        held = tile["lanes"] * tile["chunks"] * tile["vector"]
        assert n <= held < 1.7 * n, (n, tile)
