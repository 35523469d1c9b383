"""Neighbouring dimensions that every access traverses together run as one, also those that only reductions have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from tests.run.conftest import Jit


def group_normalised(x: Any) -> Any:
    centred = x - x.mean(axis=(2, 3), keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=(2, 3), keepdims=True) + 1e-5)


@pytest.mark.parametrize("spec", ["f32[64, 192, 96, 100]", "f32[A~64, B~192, C~96, D~100]"])
def test_planes_are_normalised_like_rows(spec: str) -> None:
    (kernel,) = pf.jit(group_normalised).plan(pf.spec(spec), target="h200").kernels
    assert kernel.strategy == "rows"
    assert kernel.stores == (kernel.statements[-1].name,)
    assert kernel.parameters["vector"] == 4


def test_a_reduction_over_two_dimensions_is_one_long_row() -> None:
    plan = pf.jit(lambda x: x.sum(axis=(1, 2))).plan(pf.spec("f32[1000, 96, 100]"), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "rows"
    assert "9600 * block(0)" in plan.source(), "a row of 9600 elements"
    assert plan.source().count("for ") <= 1, "whole in registers or in one loop, not a loop for each dimension"


def test_a_second_reader_that_walks_otherwise_keeps_dimensions_apart(jit: Jit) -> None:
    def program(x: Any, w: Any) -> Any:
        return x.sum(axis=(1, 2)) + (x * w[:, None]).sum(axis=(1, 2))

    x, w = np.random.default_rng(0).standard_normal((3, 5, 7)), np.arange(5.0)
    got = jit(program, backend="interpreter", target="h200")(x, w)
    np.testing.assert_allclose(got, x.sum((1, 2)) + (x * w[:, None]).sum((1, 2)), rtol=1e-12)


def test_group_normalisation_is_right(jit: Jit) -> None:
    x = np.random.default_rng(1).standard_normal((3, 4, 6, 10)).astype(np.float32)
    got = jit(group_normalised, backend="interpreter", target="h200")(x)
    np.testing.assert_allclose(got, group_normalised(x.astype(np.float64)), rtol=2e-5, atol=2e-5)


def test_operands_that_follow_a_reduction_are_loaded_after_it() -> None:
    def layernorm(x: Any, gain: Any) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True)) * gain

    source = pf.jit(layernorm).plan(pf.spec("f32[M, 4096]"), pf.spec("f32[4096]"), target="h200").source()
    lines = source.splitlines()
    last = max(k for k, line in enumerate(lines) if "threads_sum(" in line)
    (load,) = [k for k, line in enumerate(lines) if "load(gain" in line]
    assert load > last


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_results_of_sixteen_bits_are_computed_by_short_instructions(dtype: str) -> None:
    function = pf.jit(lambda x, y: np.exp(x) / y)
    source = function.plan(pf.spec(f"{dtype}[N]"), pf.spec(f"{dtype}[N]"), target="h200").source()
    assert ("exp_short(" in source and "divide_short(" in source) == (dtype != "f32")


def variation_of_pixels(x: Any) -> Any:
    """Channels last."""
    return np.abs(x[:, 1:] - x[:, :-1]).sum((1, 2, 3)) + np.abs(x[:, :, 1:] - x[:, :, :-1]).sum((1, 2, 3))


def neighbouring_rows(x: Any) -> Any:
    return ((x[1:] * x[:-1]).sum(), x.max((0, 1)), (x[:, 2:] - x[:, :-2]).sum((1, 2)))


def neighbouring_channels(x: Any) -> Any:
    return np.abs(x[..., 1:] - x[..., :-1]).sum((1, 2, 3))


def test_pixels_whose_neighbours_are_read_are_one_long_row() -> None:
    plan = pf.jit(variation_of_pixels, verify=True).plan(pf.spec("f32[B~64, H~512, W~512, 3]"), target="h200")
    (kernel,) = plan.kernels
    assert kernel.parameters["vector" if "vector" in kernel.parameters else "columns"] == 4
    x = np.random.default_rng(0).integers(0, 9, (3, 9, 12, 3)).astype(np.float32)
    (found,) = run_plan(plan, [x])
    np.testing.assert_allclose(found, variation_of_pixels(x.astype(np.float64)), rtol=1e-6)


@pytest.mark.parametrize(
    ("program", "spec", "shape"),
    [
        (neighbouring_rows, "f32[H~4000, W~3000, 4]", (9, 12, 4)),
        (neighbouring_rows, "bf16[H~4000, W~3000, 3]", (9, 8, 3)),
        (neighbouring_channels, "f32[B~64, H~512, W~512, 3]", (3, 9, 12, 3)),
        (neighbouring_channels, "f32[B~64, H~512, W~512, C~3]", (3, 9, 12, 3)),
    ],
)
def test_neighbours_along_either_dimension_are_right(program: Any, spec: str, shape: tuple[int, ...]) -> None:
    """Those of the inner one keep the dimensions apart."""
    plan = pf.jit(program, verify=True).plan(pf.spec(spec), target="h200")
    x = np.random.default_rng(0).integers(0, 5, shape).astype(pf.spec(spec).dtype.numpy)
    expected = program(x.astype(np.float64))
    for mine, exact in zip(run_plan(plan, [x]), expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(np.asarray(mine, np.float64), exact, rtol=1e-2)
