"""Loads one trip ahead of a loop: what a trip uses was on its way while the last one combined."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.backends.numba_cuda.compile import compile_kernel
from polyfuse.codegen.printer import print_kernel
from polyfuse.cost.prices import price
from polyfuse.face.interpreted import run_plan
from polyfuse.legality import prove
from polyfuse.lower.inspect import flatten
from polyfuse.plan import Plan
from polyfuse.testing import assert_legal
from polyfuse.text.apply import apply_text


def gram(a, x):
    y = a.T @ (a @ x)
    return y


WHOLE = "kernel k one_pass {}\n  multiply\n  dot\n  multiply_1\n  y   global\n"


def planned(specs: tuple[str, str], parameters: str) -> Plan:
    def gram_in_steps(a, x):
        dot = (a * x).sum(axis=1)
        y = (a * dot[:, None]).sum(axis=0)
        return y

    plan = pf.jit(gram_in_steps, max_fusion_size=9).plan(*map(pf.spec, specs), target="h200")  # sums stay whole
    return apply_text(WHOLE.format(parameters), plan)


CASES = (
    (("f32[64, 256]", "f32[256]"), "lanes=64 cluster=2 unroll=2 share=16 ahead=1"),
    (("f32[61, 260]", "f32[260]"), "lanes=64 cluster=2 unroll=2 share=16 ahead=1"),
    (("f64[37, 128]", "f64[128]"), "lanes=64 cluster=2 unroll=1 share=8 ahead=1"),
    (("f32[40, 250]", "f32[250]"), "lanes=128 threads=128 unroll=1 share=8 ahead=1"),
    (("f32[N~40, 256]", "f32[256]"), "lanes=64 threads=64 unroll=2 share=16 ahead=1"),
)


@pytest.mark.parametrize(("specs", "parameters"), CASES)
def test_loads_ahead_give_what_loads_in_place_give(specs: tuple[str, str], parameters: str) -> None:
    plan = planned(specs, parameters)
    (kernel,) = plan.kernels
    assert kernel.schedule.ahead == ("r",)
    assert_legal(plan)
    rows, columns = (n.evaluate({"N": 23}) for n in plan.program.arguments[0].shape)
    random = np.random.default_rng(rows)
    dtype = np.float64 if specs[0].startswith("f64") else np.float32
    a, x = random.standard_normal((rows, columns)).astype(dtype), random.standard_normal(columns).astype(dtype)
    exact = gram(a.astype(np.float64), x.astype(np.float64))
    for seed in (0, 1):
        (found,) = run_plan(plan, [a, x], seed=seed)
        np.testing.assert_allclose(found, exact, rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-3)


def test_the_next_trip_is_loaded_in_front_of_the_combination() -> None:
    plan = planned(*CASES[0])
    (loop,) = (op for op in flatten(plan.launches[0].kernel.body) if isinstance(op, ir.For) and op.digit == "r")
    kinds = [type(op) for op in loop.body]
    assert ir.Load not in kinds and kinds.index(ir.If) < kinds.index(ir.Combine)
    (following,) = (op for op in loop.body if isinstance(op, ir.If))
    assert [type(op) for op in following.body] == [ir.Load]


def test_what_is_loaded_ahead_needs_registers_and_hides_waits() -> None:
    plan = planned(("f32[16384, 16384]", "f32[16384]"), "lanes=1024 cluster=2 unroll=2 share=256 ahead=1")
    (kernel,) = plan.kernels
    schedule, h200 = kernel.schedule, plan.target
    plain = replace(schedule, ahead=())
    costs = [price(plan.scop, s, h200, {}) for s in (schedule, plain)]
    assert costs[0].registers > costs[1].registers
    assert costs[0].seconds < costs[1].seconds


def test_rows_are_not_loaded_ahead_into_registers_that_spill() -> None:
    """Rows of 128 KB, of which shared memory holds one and not two: with two more on their way, ptxas spills 1,008
    bytes of each thread, and one row at a time is as fast as its price says (680 us on an H200)."""
    plan = pf.jit(gram).plan(pf.spec("f64[16384, 16384]"), pf.spec("f64[16384]"), target="h200")
    kernel, _ = plan.kernels
    parameters = dict(kernel.parameters)
    assert (kernel.strategy, parameters["unroll"], kernel.schedule.ahead) == ("one_pass", 1, ())
    assert plan.cost_analysis().seconds == pytest.approx(680e-6, rel=0.2)


def test_only_loops_have_a_trip_ahead() -> None:
    plan = planned(*CASES[0])
    schedule = plan.launches[0].schedule
    assert prove(plan.scop, schedule)
    for digit in ("tx", "b1", "q"):
        verdict = prove(plan.scop, replace(schedule, ahead=(digit,)))
        assert not verdict and verdict.rule == "executed" and digit in verdict.sentence


@pytest.mark.ptx
@pytest.mark.parametrize("case", [0, 1])
def test_loads_stay_in_front_of_the_wait(case: int) -> None:
    kernel = planned(*CASES[case]).launches[0].kernel
    options: dict[str, Any] = {"cluster": kernel.cluster}
    ptx = compile_kernel(
        print_kernel(kernel), kernel.name, kernel.parameters, kernel.block_threads, (9, 0), **options
    ).ptx
    body = ptx[ptx.index("$L__BB0_1:") :]
    assert body.index("ld.global") < body.index("barrier.cluster.wait")
