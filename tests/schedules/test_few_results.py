"""Small covariances and normal equations: every thread has all results in registers, and elements are read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.backends.numba_cuda.assemble import assemble, find_ptxas
from polyfuse.backends.numba_cuda.compile import compile_kernel
from polyfuse.codegen.printer import print_kernel
from polyfuse.cost.alone import BEGIN
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.testing import assert_legal


def gram(x):
    return x.T @ x


def weighted(x, w):
    return (x * w[:, None]).T @ x


def normal_equations(x, y):
    return x.T @ x, x.T @ y


def inertia(x, m):
    return np.einsum("n,ni,nj->ij", m, x, x)


def of_planes(x):
    return x @ x.T


def crossed(x, y):
    return np.einsum("ki,kj->ij", np.abs(x), y - 1)


CASES = (
    (gram, ("f32[N~25000000, 3]",), (7, 4001)),
    (gram, ("f32[N~12000000, C~6]",), (7, 4001)),
    (gram, ("f32[N~9000000, 8]",), (7, 4001)),
    (gram, ("f32[N~6000000, 12]",), (7, 4001)),
    (gram, ("f32[N~7000000, 9]",), (7, 4001)),
    (gram, ("f64[N~9000000, 3]",), (7, 4001)),
    (gram, ("bf16[N~25000000, 4]",), (8, 4000)),
    (weighted, ("f32[N~9000000, 5]", "f32[N~9000000]"), (7, 4001)),
    (normal_equations, ("f32[N~25000000, 3]", "f32[N~25000000]"), (7, 4001)),
    (inertia, ("f32[N~25000000, 3]", "f32[N~25000000]"), (7, 4001)),
    (of_planes, ("f32[3, N~20000000]",), (8, 4000)),
    (crossed, ("f32[N~20000000, 3]", "f32[N~20000000, 4]"), (7, 4001)),
)


def planned(function: Callable[..., Any], specs: tuple[str, ...]) -> Plan:
    return pf.jit(function).plan(*map(pf.spec, specs), target="h200")


@pytest.mark.parametrize(("function", "specs", "lengths"), CASES)
def test_elements_are_read_once_for_all_products(
    function: Callable[..., Any], specs: tuple[str, ...], lengths: tuple[int, ...]
) -> None:
    plan = planned(function, specs)
    (kernel,) = plan.kernels
    assert kernel.strategy == "few_results"
    cost = plan.cost_analysis()
    bytes_ = sum(np.prod([n.evaluate(cost.sizes) for n in a.shape]) * a.dtype.itemsize for a in plan.program.arguments)
    results = max(int(np.prod([n.evaluate(cost.sizes) for n in node.shape])) for node in plan.program.outputs)
    alone = "lanes=256" in str(plan) and results <= 64  # else several threads read the same, or registers are few
    most = 1.2 if alone else 1.6
    nothing = plan.target.start + plan.target.launch + BEGIN
    assert cost.seconds < most * (nothing + bytes_ / plan.target.bandwidth)
    assert_legal(plan)
    for length in lengths:
        arrays = []
        for k, argument in enumerate(plan.program.arguments):
            shape = [n.evaluate({"N": length, "C": 6}) for n in argument.shape]
            arrays.append(np.random.default_rng(k).integers(-4, 5, shape).astype(argument.dtype.numpy))
        expected = function(*[a.astype(np.float64) for a in arrays])
        found = run_plan(plan, arrays)
        for mine, exact in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            tolerance = 1e-2 if arrays[0].dtype.itemsize == 2 else 1e-6
            np.testing.assert_allclose(mine.astype(np.float64), exact, rtol=tolerance)


def test_more_results_than_registers_are_left_to_tiles() -> None:
    (kernel,) = planned(gram, ("f32[N~3000000, 48]",)).kernels[:1]
    assert kernel.strategy != "few_results"


def test_sums_that_read_each_element_once_are_left_alone() -> None:
    for function in (lambda x: x.sum(0), lambda x: np.abs(x).max((0, 1))):
        kernels = planned(function, ("f32[N~9000000, 3, 3]",)).kernels
        assert "few_results" not in [kernel.strategy for kernel in kernels]


@pytest.mark.ptx
@pytest.mark.parametrize(("function", "specs"), [(gram, ("f32[N~6000000, 12]",)), (of_planes, ("f32[3, N~20000000]",))])
def test_the_kernels_compile(function: Callable[..., Any], specs: tuple[str, ...]) -> None:
    (launch,) = planned(function, specs).launches
    kernel = launch.kernel
    made = compile_kernel(print_kernel(kernel), kernel.name, kernel.parameters, kernel.block_threads, (9, 0))
    assert ".local" not in made.ptx
    assert not find_ptxas() or not assemble(made).resources.spilled_bytes
