"""Rows and panels that stay in registers between passes, of one block or of a cluster of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.testing import assert_legal
from polyfuse.text.apply import apply_text

DTYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16}


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)
    return y


def middle_softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    y = e / e.sum(axis=1, keepdims=True)
    return y


def standardise(x):
    y = (x - x.mean(axis=0)) / x.std(axis=0)
    return y


def batch_normalised(x):
    y = (x - x.mean(axis=(0, 2), keepdims=True)) / np.sqrt(x.var(axis=(0, 2), keepdims=True) + 1e-5)
    return y


def spread(x):
    y = np.where(x == x.max(axis=1, keepdims=True), x.argmin(axis=1)[:, None], x.argmax(axis=1)[:, None])
    return y


def none_beyond(x):
    y = np.where((np.abs(x) < 3).all(axis=0), x, -x)
    return y


ROWS, PANELS, PLANES = "held_rows", "panels", "planes"
CASES: tuple[tuple[Callable[..., Any], str, str, dict[str, int]], ...] = (
    (softmax, "f32[5, 1000]", ROWS, {"threads": 128, "cluster": 2}),
    (softmax, "f32[3, 999]", ROWS, {"threads": 512, "cluster": 16}),
    (softmax, "bf16[5, 1000]", ROWS, {"threads": 128, "cluster": 4}),
    (softmax, "f64[2, 1001]", ROWS, {"threads": 256, "cluster": 2}),
    (spread, "f32[7, 300]", ROWS, {"threads": 64, "cluster": 2}),
    (middle_softmax, "f32[3, 300, 44]", PANELS, {"threads": 512, "cluster": 4}),
    (middle_softmax, "f16[2, 77, 43]", PANELS, {"threads": 128, "cluster": 2}),
    (middle_softmax, "f32[3, 250, 100]", PANELS, {}),
    (standardise, "f32[1000, 45]", PANELS, {"threads": 1024, "cluster": 8}),
    (standardise, "f64[257, 24]", PANELS, {"lanes": 8, "unroll": 4, "cluster": 4}),
    (batch_normalised, "f32[20, 3, 100]", PLANES, {"threads": 512, "cluster": 8}),
    (batch_normalised, "f64[9, 2, 53]", PLANES, {"threads": 256, "cluster": 2, "lanes": 32}),
    (batch_normalised, "bf16[17, 2, 64]", PLANES, {}),
    (none_beyond, "f32[513, 40]", PANELS, {"threads": 2048, "cluster": 4}),
)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_held_values_meet_across_the_blocks_of_a_cluster(case: int) -> None:
    function, spec, strategy, tiles = CASES[case]
    plan = pf.jit(function).plan(pf.spec(spec), target="h200", strategies={"y": strategy}, tiles={"y": tiles})
    (kernel,) = plan.kernels
    assert (kernel.strategy, kernel.schedule.cluster) == (strategy, tiles.get("cluster", 1))
    if "cluster" in tiles:
        assert "combine cluster" in str(plan)
    assert_legal(plan)
    shape = tuple(n.evaluate({}) for n in plan.program.arguments[0].shape)
    x = (np.random.default_rng(case).standard_normal(shape) + 1).astype(DTYPES[spec.split("[")[0]])
    expected = function(x.astype(np.float64))
    tolerance = {2: 2e-2, 4: 2e-5, 8: 1e-12}[x.dtype.itemsize]
    for seed in (0, 1):
        (found,) = run_plan(plan, [x], seed=seed)
        np.testing.assert_allclose(found.astype(np.float64), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", range(0, len(CASES), 2))
def test_the_text_gives_the_cluster_back(case: int) -> None:
    function, spec, strategy, tiles = CASES[case]
    plan = pf.jit(function).plan(pf.spec(spec), target="h200", strategies={"y": strategy}, tiles={"y": tiles})
    assert apply_text(str(plan), plan) == plan


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (softmax, "f32[512, 262144]"),
        (softmax, "f32[4096, 32768]"),
        (middle_softmax, "f32[64, 512, 4096]"),
        (standardise, "f32[2048, 16384]"),
        (batch_normalised, "f32[128, 256, 3136]"),
    ],
    ids=["longest rows", "long rows", "middle axis", "first axis", "batch"],
)
def test_what_fits_a_cluster_is_read_once(function: Callable[..., Any], spec: str) -> None:
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    (kernel,) = plan.kernels
    assert not kernel.schedule.of_kind("loop")
    assert len([p for p in kernel.schedule.placed if p.role == "load"]) == 1
    assert kernel.schedule.block_threads <= 1024 and kernel.schedule.cluster <= 16


@pytest.mark.parametrize("target", ["a100", "cpu"])
def test_devices_without_clusters_get_none(target: str) -> None:
    for function, spec in ((softmax, "f32[512, 262144]"), (standardise, "f32[16384, 8192]")):
        plan = pf.jit(function).plan(pf.spec(spec), target=target)
        assert all(kernel.schedule.cluster == 1 for kernel in plan.kernels)


def test_what_one_pass_finishes_is_not_held() -> None:
    """A lone reduction streams through registers: holding all of it would leave memory idle meanwhile."""
    for function, spec in ((lambda x: x.sum(axis=0), "f32[2048, 4096]"), (lambda x: x.max(axis=1), "f32[64, 65536]")):
        (kernel,) = pf.jit(function).plan(pf.spec(spec), target="h200").kernels
        assert kernel.strategy in ("columns", "rows")


@pytest.mark.parametrize("seed", [0, 1])
def test_the_last_cluster_finishes_what_all_have_summed(seed: int) -> None:
    def gram(a, x):
        y = a.T @ (a @ x)
        return y

    specs = (pf.spec("f32[M~16384, N~4096]"), pf.spec("f32[N]"))
    tiles = {"y": {"cluster": 4}}
    plan = pf.jit(gram).plan(*specs, target="h200", strategies={"y": "one_pass"}, tiles=tiles)
    (kernel,) = plan.kernels
    assert kernel.schedule.cluster == 4
    assert "combine cluster" in str(plan) and "combine grid" in str(plan)
    assert_legal(plan)
    random = np.random.default_rng(3)
    a, x = (random.standard_normal(shape).astype(np.float32) for shape in ((600, 260), (260,)))
    (found,) = run_plan(plan, [a, x], seed=seed)
    np.testing.assert_allclose(found, gram(a.astype(np.float64), x.astype(np.float64)), rtol=1e-4, atol=5e-2)


def test_a_class_of_row_lengths_shares_one_kernel() -> None:
    jitted = pf.jit(softmax, backend="interpreter", target="h200")
    for n in (20_000, 24_004, 32_768):
        x = np.random.default_rng(n).standard_normal((2, n)).astype(np.float32)
        np.testing.assert_allclose(jitted(x), softmax(x.astype(np.float64)), rtol=2e-5, atol=1e-9)
    info = jitted.cache_info()
    assert info.compilations + info.loads == 1  # made, or found on disk


@pytest.mark.ptx
def test_what_blocks_push_into_each_other_fits() -> None:
    """Two long rows in a cluster of 16: 512 threads of a block combine apart, twice, beside what waits in cells."""

    def flipped(x):
        v = x - x.mean(axis=-1, keepdims=True)
        v = np.flip(v / np.sqrt((v * v).mean(axis=-1, keepdims=True) + 0.1))
        return 0 / v, np.min(v, axis=1, keepdims=True)

    lowered = pf.jit(flipped).lower(pf.spec("f64[2, 1024]"), target="h200")
    assert all(k.kernel.shared_bytes <= 227 * 1024 for k in lowered.compile().ready.kernels)
