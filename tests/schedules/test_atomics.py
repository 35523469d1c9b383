"""`atomics=True`: blocks merge their shares of a reduction into the result as they come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from benchmarks.peers import polyfuse_function
from benchmarks.programs import ATOMICS, HELD_OUT, PROGRAMS, Program
from polyfuse.backends.interpreter import run_kernel
from polyfuse.backends.interpreter.faults import KernelFault, WriteConflict
from polyfuse.errors import OptionError, ScheduleError
from polyfuse.explain.compare import compare
from polyfuse.face.interpreted import run_plan
from polyfuse.kernel import AtomicUpdate, Store
from polyfuse.lower.inspect import flatten
from polyfuse.plan import Launch, Plan
from polyfuse.testing import assert_legal
from polyfuse.text.apply import apply_text
from polyfuse.verdict import Hazard

FORCED = {"s": {"atomic": 1}}
LONG = "f32[M~100000, N~64]"


def columns(x):
    s = x.sum(axis=0)
    return s


def rows(x):
    s = x.sum(axis=1)
    return s


def total(x):
    s = x.sum()
    return s


def largest(x):
    s = x.max(axis=0)
    return s


def both(x):
    s = x.sum(axis=0)
    q = (x * x).sum(axis=0)
    return s, q


def centred(x):
    s = x.sum(axis=0)
    y = x - s / 1000
    return y


def plan_of(function: Callable[..., Any], *specs: str, **options: Any) -> Plan:
    chosen = {"atomics": True, "tiles": FORCED, "verify": True, **options}
    return pf.jit(function, **chosen).plan(*map(pf.spec, specs), target="h200")


def merged(plan: Plan) -> list[str]:
    return [plan.scop.statements[value].name for schedule in plan.schedules for value in schedule.filled]


CASES = {
    "columns f32": (columns, LONG, "s"),
    "columns f64": (columns, "f64[M~100000, N~64]", "s"),
    "columns i64": (columns, "i64[M~100000, N~64]", "s"),
    "largest i32": (largest, "i32[M~100000, N~64]", "s"),
    "total": (total, LONG, "s"),
    "both": (both, LONG, "s q"),
    "long rows": (rows, "f32[M~4, N~3000000]", "s"),
    "read later": (centred, LONG, "s"),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_right_in_any_order_of_blocks(name: str) -> None:
    function, spec, values = CASES[name]
    plan = plan_of(function, spec)
    assert merged(plan) == values.split(), str(plan)
    assert_legal(plan)
    assert apply_text(str(plan), plan) == plan
    dtype = plan.program.arguments[0].dtype.numpy
    shapes = [(4, 8), (3, 40000) if function is rows else (3100, 64)]
    shapes += [(0, 64)] if function in (columns, total) else []  # of nothing: what fills the result
    for shape in shapes:
        x = (100 * np.random.default_rng(0).standard_normal(shape)).astype(dtype)
        expected = function(x.astype(np.float64) if x.dtype.kind == "f" else x)
        for seed in (0, 1):
            found = run_plan(plan, [x], seed=seed)
            for one, other in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
                tolerance = 1e-5 * float(np.max(np.abs(other), initial=1.0))
                np.testing.assert_allclose(one, other, rtol=0, atol=tolerance if x.dtype.kind == "f" else 0)


@pytest.mark.parametrize(("spec", "same"), [(LONG, False), ("i64[M~100000, N~64]", True)])
def test_two_orders_of_blocks_give_other_bits_of_sums_of_floats(spec: str, same: bool) -> None:
    plan = plan_of(columns, spec)
    x = (100 * np.random.default_rng(0).standard_normal((20000, 64))).astype(plan.program.arguments[0].dtype.numpy)
    runs = [run_plan(plan, [x], seed=seed)[0].tobytes() for seed in (0, 1, 0)]
    assert runs[0] == runs[2] and (runs[0] == runs[1]) == same


def test_a_launch_before_fills_the_result() -> None:
    plan = plan_of(columns, LONG)
    fill, kernel = plan.launches
    assert len(plan.kernels) == 1 and not fill.schedules and fill.filled == kernel.roots
    assert plan.source().startswith("COLUMN4") and "def fill_s(s_out, N):" in plan.source()
    assert str(plan.hbm_bytes) == "4*M*N + 8*N"
    lines = plan.explain()
    assert "1 operation in 1 kernel in 2 launches" in lines
    assert "atomics: blocks merge their shares of s as they come" in lines
    assert "in an order that varies from run to run" in lines
    assert "every element of s is stored" not in lines
    assert "s = sum(x, axis=0)   global, combine atomic" in str(plan)


def test_one_launch_fills_all_results_of_a_kernel() -> None:
    plan = plan_of(both, LONG)
    assert [len(launch.filled) for launch in plan.launches] == [2, 0]
    assert plan.launches[0].kernel.name == "fill_s_and_1"


def test_the_fill_is_counted_as_a_launch() -> None:
    usual, atomic = plan_of(columns, LONG, atomics=False, tiles={}), plan_of(columns, LONG)
    found = compare(usual, atomic)
    assert found.launches == (1, 2)
    assert [step.predicted is None for step in found.after.steps] == [True, False]  # the price of the kernel has it
    assert found.predicted[1] == pytest.approx(atomic.cost_analysis().seconds)
    kernel = atomic.kernels[0]
    assert kernel.seconds > usual.target.launch * 2


def test_the_price_decides() -> None:
    """Where the host is what a short kernel waits for, an election costs less than a launch more; in front of a long
    kernel the fill is hidden, and saves what reading the shares takes.  The option permits, and forces nothing."""
    long, usual = (plan_of(columns, "f32[200000, 1024]", tiles={}, atomics=a) for a in (True, False))
    assert merged(long) == ["s"] and not merged(usual) and long != usual
    assert long.cost_analysis().seconds < usual.cost_analysis().seconds
    usual, allowed = plan_of(columns, LONG, atomics=False, tiles={}), plan_of(columns, LONG, tiles={})
    assert str(usual) == str(allowed) and not merged(allowed)
    assert "atomics: allowed, and no kernel gains by them" in allowed.explain()
    assert apply_text(str(usual), allowed) == usual  # the text names an election, which the option leaves there
    assert merged(apply_text(str(plan_of(columns, LONG)), allowed)) == ["s"]


def test_updates_of_one_sector_in_turn_have_their_price() -> None:
    """Warps of 32 blocks that update neighbouring rows one by one, in every trip: an election is faster."""

    def products(a, p, r):
        s = a @ p
        return s, a.T @ r

    specs = ("f32[16384, 16384]", "f32[16384]", "f32[16384]")
    usual = plan_of(products, *specs, atomics=False, tiles={})
    wanted = {**usual.kernels[0].parameters, "atomic": 1}
    forced = plan_of(products, *specs, tiles={"s": wanted})
    assert forced.kernels[0].parameters == wanted
    assert forced.cost_analysis().seconds > usual.cost_analysis().seconds
    assert plan_of(products, *specs, tiles={}).cost_analysis().seconds <= usual.cost_analysis().seconds


def test_a_text_with_atomics_needs_the_option() -> None:
    text, usual = str(plan_of(columns, LONG)), plan_of(columns, LONG, atomics=False, tiles={})
    with pytest.raises(ScheduleError, match="which atomics=True allows") as refused:
        apply_text(text, usual)
    verdict = refused.value.verdict
    assert verdict is not None and (verdict.rule, verdict.hazard) == ("atomic", Hazard.COMBINE)


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (largest, LONG),  # the instruction drops a NaN
        (columns, "f16[M~100000, N~64]"),  # memory would round every share
        (lambda x: x.argmax(axis=0), LONG),  # a pair
        (lambda x: x.prod(axis=0), LONG),  # no instruction
        (lambda x: x.sum(axis=0) * 2, LONG),  # the whole is needed
    ],
    ids=["max f32", "sum f16", "argmax", "product", "epilogue"],
)
def test_other_reductions_are_elected(function: Callable[..., Any], spec: str) -> None:
    plan = pf.jit(function, atomics=True).plan(pf.spec(spec), target="h200")
    assert not merged(plan)
    name = plan.kernels[0].stores[0]
    with pytest.raises(ScheduleError, match="no parameter atomic"):
        pf.jit(function, atomics=True, tiles={name: {"atomic": 1}}).plan(pf.spec(spec), target="h200")


def test_a_later_kernel_reads_the_whole() -> None:
    plan = plan_of(centred, LONG)
    fill, sums, rest = plan.launches
    (buffer,) = (b for b in plan.buffers if b.name == "s")
    assert (buffer.first, buffer.last) == (0, 2) and buffer.within is None
    assert [set(launch.roots) for launch in (fill, sums)] == [set(), set(fill.filled)]
    assert set(fill.filled) <= set(rest.loads)


def test_what_is_filled_takes_no_memory_of_what_is_read() -> None:
    def shifted(x, y):
        s = (x + y).sum(axis=0)
        return s

    plan = plan_of(shifted, LONG, "f32[N]", donate="y")
    assert plan.reuses == ()
    assert "s is filled before the kernel reads y" in plan.why_not("y", "y").sentence


# ---------------------------------------------------------------------------------------------- planted faults


def _run(launch: Launch, arrays: dict[str, Any]) -> None:
    run_kernel(launch.kernel, arrays, {"M": 3100, "N": 64}, {}, seed=0)


def _tampered(launch: Launch, change: Callable[[AtomicUpdate], Any]) -> Launch:
    body = tuple(change(op) if isinstance(op, AtomicUpdate) else op for op in launch.kernel.body)
    return replace(launch, kernel=replace(launch.kernel, body=body))


def test_a_plain_store_in_place_of_an_update_is_a_race() -> None:
    _, launch = plan_of(columns, LONG).launches
    arrays = {"x_in": np.ones((3100, 64), np.float32), "s_out": np.zeros(64, np.float32)}
    _run(launch, {k: v.copy() for k, v in arrays.items()})
    plain = _tampered(launch, lambda op: Store(op.array, op.index, op.value, op.where, op.mask, op.vector))
    with pytest.raises(WriteConflict, match="neither ordered nor atomic"):
        _run(plain, arrays)


def test_a_plain_store_beside_the_updates_is_a_race() -> None:
    _, launch = plan_of(columns, LONG).launches
    arrays = {"x_in": np.ones((3100, 64), np.float32), "s_out": np.zeros(64, np.float32)}
    (update,) = (op for op in flatten(launch.kernel.body) if isinstance(op, AtomicUpdate))
    store = Store(update.array, update.index, update.value, update.where, update.mask, update.vector)
    both_ways = replace(launch, kernel=replace(launch.kernel, body=(*launch.kernel.body, store)))
    with pytest.raises(KernelFault):
        _run(both_ways, arrays)


def test_without_the_fill_the_result_is_wrong() -> None:
    """What the interpreter hands out as memory of intermediates is no zero."""
    plan = plan_of(centred, LONG)
    x = np.ones((3100, 64), np.float32)
    assert np.isfinite(run_plan(plan, [x])[0]).all()
    assert not np.isfinite(run_plan(replace(plan, steps=plan.steps[1:]), [x])[0]).any()


# ---------------------------------------------------------------------------------------------- where it means nothing


def test_a_cpu_has_no_use_for_the_option(caplog: pytest.LogCaptureFixture) -> None:
    function = pf.jit(columns, atomics=True)
    x = np.random.default_rng(0).standard_normal((1000, 16)).astype(np.float32)
    with caplog.at_level("INFO", logger="polyfuse.fusion"):
        plan = function.plan(x)
    assert "atomics: not used on a CPU" in caplog.text
    assert "atomics: not used on a CPU" in plan.explain()
    assert plan == pf.jit(columns).plan(x)
    np.testing.assert_array_equal(function(x), pf.jit(columns)(x))


def test_batch_invariance_excludes_it() -> None:
    with pytest.raises(OptionError, match="exclude each other"):
        pf.jit(columns, atomics=True, batch_invariant=True).plan(pf.spec(LONG), target="h200")


@pytest.mark.parametrize("program", ATOMICS, ids=lambda p: p.name)
def test_the_benchmark_of_atomics_has_them_where_it_says_so(program: Program) -> None:
    function = polyfuse_function(program)
    plan = function.plan(*map(pf.spec, program.specs), target="h200")
    assert merged(plan) == (["sum"] if program.name.endswith("(atomics)") else [])


def test_other_benchmarks_have_the_same_bits_twice() -> None:
    assert not any(program.options for program in (*PROGRAMS, *HELD_OUT))
