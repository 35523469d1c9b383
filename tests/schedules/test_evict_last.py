"""What a kernel reads stays in the last-level cache, and what it writes leaves it first: which kernels ask for that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.bindings import Layout
from polyfuse.cost import prices
from polyfuse.cost.counts import Cost
from polyfuse.explain.identity import plan_key
from polyfuse.face.interpreted import run_plan
from polyfuse.options import Options
from polyfuse.plan import Plan
from polyfuse.planning.planner import plan_program
from polyfuse.target import BUILT_IN, H200

LARGE = "f32[16384, 4096]"


def scaled(x):
    return x * 2.0 + 1.0


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def added(x, y):
    return x + y


def three(x, y, z):
    return x * y + z


def four(x, y, z, w):
    return x * y + z * w


def squares(x):
    return (x * x).sum()


def column(x):
    return x.sum(axis=0)


def planned(function, *specs: str, target: str = "h200", **options: object) -> Plan:
    return pf.jit(function, **options).plan(*[pf.spec(s) for s in specs], target=target)


def policies(plan: Plan) -> int:
    """Arrays of the plan's kernels whose loads have the policy."""
    return plan.source().count("= evict_last(")


@pytest.mark.parametrize(
    ("function", "specs", "arrays"),
    [
        (scaled, [LARGE], 1),
        (softmax, [LARGE], 1),
        (added, [LARGE, LARGE], 2),
        (added, [LARGE, "f32[4096]"], 2),
        (three, [LARGE] * 3, 3),
        (scaled, ["bf16[16384, 8191]"], 1),
        (np.transpose, [LARGE], 1),
        (four, [LARGE] * 4, 0),  # four arrays read for one written
        (squares, [LARGE], 0),  # nothing is written
        (column, [LARGE], 0),
        (scaled, ["f32[2048, 4096]"], 0),  # the cache holds it all
        (softmax, ["f32[2097152, 37]"], 0),  # a few lanes to a row: the first-level caches are busy
    ],
)
def test_kernels_that_stream_in_and_out_keep_what_they_read(function, specs, arrays) -> None:
    plan = planned(function, *specs)
    assert policies(plan) == arrays
    assert plan.explain().count("what it reads is evicted last") == (1 if arrays else 0)


def test_size_decides_by_what_the_cache_holds() -> None:
    """Copies on both sides of twice the cache, a row apart."""
    rows = prices.STREAMED * H200.l2_bytes // (2 * 4 * 4096)
    assert policies(planned(scaled, f"f32[{rows}, 4096]")) == 1
    assert policies(planned(scaled, f"f32[{rows - 1}, 4096]")) == 0


@pytest.mark.parametrize("target", ["sm_80", "generic"])
def test_targets_where_it_was_not_measured_have_no_policy(target: str) -> None:
    assert not BUILT_IN[target].evict_last
    assert policies(planned(scaled, LARGE, target=target)) == 0


def test_each_kernel_of_a_plan_decides_for_itself() -> None:
    plan = planned(lambda x: (x - x.mean(axis=0)) / x.std(axis=0), "f32[65536, 8192]")
    flags = [kernel.schedule.evict_last for kernel in plan.kernels]
    written = [kernel.stores for kernel in plan.kernels]
    assert len(flags) == 2 and flags == [False, True], written


def test_plans_that_differ_in_it_are_different() -> None:
    """As they are to whoever asks whether two plans are the same decisions."""
    plan = planned(scaled, LARGE)
    without = plan_program(plan.scop.program, replace(H200, evict_last=False), Options(), [Layout()])
    assert (policies(plan), policies(without)) == (1, 0)
    assert plan.cost_analysis().seconds == without.cost_analysis().seconds
    assert plan_key(plan) != plan_key(without)


def test_an_array_that_a_result_is_stored_over_is_loaded_as_any_other() -> None:
    """It is no read-only memory to the kernel, which the policy is for."""
    plan = planned(added, LARGE, LARGE, donate=("x",))
    (kernel,) = [launch.kernel for launch in plan.launches]
    marked = [p for p in kernel.parameters if isinstance(p, ir.ArrayParameter) and p.evicted_last]
    assert [p.overwritten for p in marked] == [True, False] and policies(plan) == 1


def test_results_are_those_of_numpy() -> None:
    def keeps(*situation: Any) -> Cost:
        return replace(prices.price(*situation), evict_last=True)

    plan = planned(softmax, "f32[37, 513]")
    kept = plan_program(plan.scop.program, H200, Options(), [Layout()], keeps)
    assert (policies(plan), policies(kept)) == (0, 1)
    x = np.random.default_rng(0).standard_normal((37, 513)).astype(np.float32)
    (found,) = run_plan(kept, [x])
    np.testing.assert_allclose(found, softmax(x.astype(np.float64)), rtol=2e-6)


@pytest.mark.ptx
@pytest.mark.parametrize("kept", ["all", "every second"])
def test_kernels_that_share_a_launch_and_an_array_decide_for_themselves(kept: str) -> None:
    """In a branch an array that is kept has a name of its own: in the others it is plain memory."""
    from polyfuse.backends.numba_cuda.compile import compile_kernel
    from polyfuse.face.numba_cuda import CudaBackend

    def keeps(scop: Any, schedule: Any, *rest: Any) -> Cost:
        last = kept == "all" or len(schedule.body) % 2 == 1
        return replace(prices.price(scop, schedule, *rest), evict_last=last)

    def apart(x: Any, y: Any, w: Any) -> Any:
        return (x * w[0]).sum(axis=0), np.exp(y) * w[1], w * w

    program = planned(apart, "f32[60, 40]", "f32[700]", "f32[33]").scop.program
    plan = plan_program(program, H200, Options(), [Layout(), Layout(), Layout()], keeps)
    assert len(plan.launches) == 1 < len(plan.kernels) and policies(plan) >= 1
    (job,) = [CudaBackend().job(launch, plan) for launch in plan.launches]
    assert compile_kernel(job.source, job.name, job.parameters, **job.settings).ptx
    x, y, w = (np.random.default_rng(0).random(shape, np.float32) for shape in ((60, 40), 700, 33))
    for found, exact in zip(run_plan(plan, [x, y, w]), apart(x, y, w), strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-5)
