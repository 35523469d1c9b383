"""Rows of a few elements that are read in another order than written pass through tiles in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.backends.numba_cuda.assemble import assemble, find_ptxas
from polyfuse.backends.numba_cuda.compile import compile_kernel
from polyfuse.codegen.printer import print_kernel
from polyfuse.face.interpreted import run_plan
from polyfuse.testing import assert_legal


def turned(x):
    return np.rot90(x)


def swapped(x):
    return x.transpose(1, 0, 2)


def halves(x):
    return x.transpose(1, 0, 2) * 0.5


def with_bias(x, y, b):
    return np.maximum(x.swapaxes(0, 1) + y, b)


def batches(x):
    return x.transpose(0, 2, 1, 3)


CASES: tuple[tuple[Callable[..., Any], tuple[str, ...], float, tuple[dict[str, int], ...]], ...] = (
    (turned, ("u8[H~9001, W~7001, 3]",), 2.0, ({"H": 71, "W": 133}, {"H": 1, "W": 5})),
    (turned, ("u8[H~9000, W~7000, 3]",), 1.6, ({"H": 72, "W": 136}, {"H": 136, "W": 8})),
    (swapped, ("u8[H~9000, W~7000, 2]",), 2.1, ({"H": 72, "W": 136},)),
    (swapped, ("u8[H~9000, W~7000, 4]",), 1.7, ({"H": 72, "W": 136},)),
    (halves, ("bf16[H~9000, W~7000, 3]",), 1.2, ({"H": 72, "W": 136},)),
    (halves, ("f16[H~9001, W~7001, 4]",), 1.4, ({"H": 71, "W": 133},)),
    (swapped, ("f32[H~9000, W~7000, 2]",), 1.1, ({"H": 72, "W": 136},)),
    (swapped, ("f32[H~8000, W~7000, C~3]",), 1.1, ({"H": 72, "W": 136, "C": 3},)),
    (with_bias, ("f32[H~9000, W~7000, 2]", "f32[W~7000, H~9000, 2]", "f32[2]"), 1.1, ({"H": 72, "W": 136},)),
    (batches, ("bf16[B~16, H~2000, W~3000, 3]",), 1.2, ({"B": 2, "H": 72, "W": 136},)),
)


@pytest.mark.parametrize(("function", "specs", "most", "sizes"), CASES)
def test_short_rows_move_in_tiles(
    function: Callable[..., Any], specs: tuple[str, ...], most: float, sizes: tuple[dict[str, int], ...]
) -> None:
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "pixel_tiles"
    cost = plan.cost_analysis()
    assert cost.seconds < most * (plan.target.launch + cost.hbm_bytes.at(**cost.sizes) / plan.target.bandwidth)
    assert_legal(plan)
    for size in sizes:
        arrays = []
        for k, argument in enumerate(plan.program.arguments):
            shape = [n.evaluate(size) for n in argument.shape]
            arrays.append(np.random.default_rng(k).integers(0, 99, shape).astype(argument.dtype.numpy))
        (found,) = run_plan(plan, arrays)
        np.testing.assert_array_equal(found, function(*arrays))


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (swapped, "f32[H~9000, W~7000, 8]"),  # rows of a sector
        (lambda x: x + x.transpose(1, 0, 2), "f32[9000, 9000, 2]"),  # in both orders
        (lambda x: x[:, ::-1], "u8[9000, 9000, 3]"),  # in the order of what is written
    ],
)
def test_other_rows_are_left_alone(function: Callable[..., Any], spec: str) -> None:
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    assert all(kernel.strategy != "pixel_tiles" for kernel in plan.kernels)


@pytest.mark.ptx
def test_the_kernels_compile() -> None:
    for function, specs, *_ in (CASES[0], CASES[4]):
        (launch,) = pf.jit(function).plan(*map(pf.spec, specs), target="h200").launches
        kernel = launch.kernel
        made = compile_kernel(print_kernel(kernel), kernel.name, kernel.parameters, kernel.block_threads, (9, 0))
        assert ".local" not in made.ptx
        assert not find_ptxas() or not assemble(made).resources.spilled_bytes
