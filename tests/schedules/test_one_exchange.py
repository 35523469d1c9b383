"""Cascades in clusters: a block sums relative to its own maximum or mean, and states meet in one exchange."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import polyfuse as pf
from polyfuse.backends.interpreter import collectives
from polyfuse.backends.numba_cuda.assemble import assemble, find_ptxas
from polyfuse.backends.numba_cuda.compile import CompiledKernel, compile_kernel
from polyfuse.codegen.printer import print_kernel
from polyfuse.errors import KernelError
from polyfuse.face.interpreted import run_plan
from polyfuse.kernel import Exchange, Kernel, Slot
from polyfuse.plan import Plan
from polyfuse.planning import planner
from polyfuse.reference import evaluate
from polyfuse.rewrites.cascades import cascaded, sites
from polyfuse.testing import assert_legal
from polyfuse.verify.kernel import verify_kernel
from tests.schedules.normalisations import batch, log_softmax, softmax, standardise


def exponentials(x):
    """Which are wanted themselves."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    y = e + e.sum(axis=-1, keepdims=True)
    return e, y


def layernorm(x):
    d = x - x.mean(axis=-1, keepdims=True)
    y = d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5)
    return y


def in_clusters(function: Callable[..., Any], spec: str, strategy: str, tiles: dict[str, int]) -> Plan:
    plain = pf.jit(function).plan(pf.spec(spec), target="h200")
    steered = pf.jit(function).plan(pf.spec(spec), target="h200", strategies={"y": strategy}, tiles={"y": tiles})
    program = cascaded(plain.program, sites(plain.program))
    return planner.plan_program(program, plain.target, steered.options, plain.layouts)


CASES = (
    (softmax, "f32[3, 1000]", "held_rows", {"threads": 128, "cluster": 4}),
    (softmax, "f32[2, 999]", "held_rows", {"threads": 512, "cluster": 16}),
    (softmax, "bf16[3, 1000]", "held_rows", {"threads": 128, "cluster": 2}),
    (softmax, "f64[2, 501]", "held_rows", {"threads": 128, "cluster": 2}),
    (exponentials, "f32[2, 700]", "held_rows", {"threads": 128, "cluster": 4}),
    (log_softmax, "f32[3, 1000]", "held_rows", {"threads": 128, "cluster": 4}),
    (layernorm, "f32[3, 1000]", "held_rows", {"threads": 128, "cluster": 4}),
    (layernorm, "f16[3, 999]", "held_rows", {"threads": 256, "cluster": 2}),
    (standardise, "f32[300, 45]", "panels", {"threads": 256, "cluster": 4}),
    (batch, "f32[9, 3, 50]", "planes", {"threads": 128, "cluster": 4}),
    (batch, "f32[33, 3, 70]", "planes", {"threads": 1024, "cluster": 16}),
    (layernorm, "f64[3, 999]", "held_rows", {"threads": 512, "cluster": 16}),
    (softmax, "f32[3, 200]", "rows", {}),
)


def exchanges(plan: Plan) -> list[Exchange]:
    return [op for launch in plan.launches for op in launch.kernel.body if isinstance(op, Exchange)]


def compiled(kernel: Kernel) -> CompiledKernel:
    source, threads, blocks = print_kernel(kernel), kernel.block_threads, kernel.minimum_blocks
    return compile_kernel(source, kernel.name, kernel.parameters, threads, (9, 0), blocks, cluster=kernel.cluster)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_states_meet_in_one_exchange(case: int) -> None:
    function, spec, strategy, tiles = CASES[case]
    plan = in_clusters(function, spec, strategy, tiles)
    assert_legal(plan)
    (exchange,) = exchanges(plan) if "cluster" in tiles else [None]
    assert exchange is None or len(exchange.names) == (2 if "exp" in str(plan) else 3)
    dtype = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": bfloat16}[spec.split("[")[0]]
    shape = tuple(n.evaluate({}) for n in plan.program.arguments[0].shape)
    x = (np.random.default_rng(case).standard_normal(shape) + 1).astype(dtype)
    expected = function(x.astype(np.float64))
    tolerance = {2: 2e-2, 4: 2e-5, 8: 1e-12}[x.dtype.itemsize]
    for got in (run_plan(plan, [x], seed=1), evaluate(plan.program, [x])):
        for mine, exact in zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_allclose(mine.astype(np.float64), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("tiles", [{"threads": 128, "cluster": 4}, {}])
@pytest.mark.parametrize("function", [softmax, exponentials])
def test_infinities_and_nan_come_out_as_in_numpy(function: Callable[..., Any], tiles: dict[str, int]) -> None:
    plan = in_clusters(function, "f32[8, 500]", "held_rows" if tiles else "rows", tiles)
    assert "_terms" in plan.source()
    x = np.random.default_rng(1).standard_normal((8, 500)).astype(np.float32)
    x[0], x[1, 3], x[2, 5], x[3, :300] = -np.inf, np.inf, np.nan, -np.inf
    x[4, :300], x[4, 400], x[5], x[6, :250] = -np.inf, np.inf, x[5] + 1e4, x[6, :250] - 200
    with np.errstate(all="ignore"):
        expected = function(x.astype(np.float64))
        found = run_plan(plan, [x])
    for mine, exact in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        np.testing.assert_allclose(mine, exact, rtol=2e-5, atol=1e-30)


def test_an_element_costs_one_exponential() -> None:
    plan = in_clusters(softmax, "f32[3, 4096]", "held_rows", {"threads": 256, "cluster": 2})
    assert len(re.findall(r"\bexp\((.*)\)", plan.source())) == 3  # of elements, of two states, of the factor
    assert "subtract_ = " not in plan.source()


def test_rows_of_a_cluster_are_taken_in_one_pass() -> None:
    plan = pf.jit(softmax).plan(pf.spec("f32[512, 262144]"), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "held_rows" and not kernel.schedule.of_kind("loop")
    assert len(exchanges(plan)) == 1 and "max_sumexp" in str(plan)


@pytest.mark.ptx
@pytest.mark.parametrize("case", [1, 6, 8])
def test_one_barrier_of_the_cluster_around_the_push(case: int) -> None:
    (launch,) = in_clusters(*CASES[case]).launches
    made = compiled(launch.kernel)
    assert len(re.findall(r"barrier\.cluster\.wait\.aligned", made.ptx)) == 3  # before, around, at the end
    assert ".local" not in made.ptx
    assert not find_ptxas() or assemble(made).resources.spilled_bytes == 0


def test_an_exchange_has_a_place_for_every_block() -> None:
    (launch,) = in_clusters(*CASES[0]).launches
    kernel: Kernel = launch.kernel
    verify_kernel(kernel)
    slots = tuple(Slot(s.name, s.extent // 2) if s.name.startswith("peers") else s for s in kernel.slots)
    with pytest.raises(KernelError, match="places for the values of 4 blocks"):
        verify_kernel(replace(kernel, slots=slots))


def test_threads_of_a_block_that_disagree_exchange_nothing() -> None:
    value = np.arange(8.0).reshape(1, 8, 1)
    (found,) = collectives.exchanged([value // 4], 2, 7, 4, 8)
    assert found.shape == (1, 8, 2) and (found == [0.0, 1.0]).all()
    (dealt,) = collectives.exchanged([value // 4], None, 7, 4, 8)
    assert dealt.shape == (1, 8, 1) and (dealt.ravel() == [0, 1] * 4).all()
    for axis in (2, None):
        with pytest.raises(ValueError, match="different values"):
            collectives.exchanged([value], axis, 7, 4, 8)


def test_lanes_have_a_state_of_sixteen_blocks_each() -> None:
    """Of which none waits in a register for the others while the threads hold what the block does."""
    plan = pf.jit(batch).plan(pf.spec("f32[32, 128, 12544]"), target="h200")
    (launch,) = plan.launches
    (exchange,) = exchanges(plan)
    assert launch.kernel.cluster == 16 and exchange.slot is None and len(exchange.names) == 3
    assert re.search(r"exchange\(\(.*\), None, 8191, 512, 16\)", plan.source())
    verify_kernel(launch.kernel)

    def bits(wrong: int) -> Kernel:
        body = [replace(op, bits=wrong) if op == exchange else op for op in launch.kernel.body]
        return replace(launch.kernel, body=tuple(body))

    for wrong in (8191 & ~1, 511):  # two threads of a block have different values; one block alone
        with pytest.raises(KernelError):
            verify_kernel(bits(wrong))


@pytest.mark.ptx
def test_states_of_sixteen_blocks_leave_registers_for_what_is_held() -> None:
    (launch,) = pf.jit(batch).plan(pf.spec("f32[32, 128, 12544]"), target="h200").launches
    assert launch.kernel.minimum_blocks == 2
    assert not find_ptxas() or assemble(compiled(launch.kernel)).resources.spilled_bytes == 0
