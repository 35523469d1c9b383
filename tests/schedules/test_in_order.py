"""Long prefixes of few rows in one kernel, whose blocks begin in order: what is planned, printed, explained, and the
right numbers, the same ones in whatever order blocks run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import digit
from polyfuse.backends.interpreter import run_kernel, run_source
from polyfuse.codegen.names import function_name
from polyfuse.codegen.printer import print_kernel
from polyfuse.face import interpreted
from polyfuse.kernel import Carry, For, If, Kernel, Leave, Op
from polyfuse.legality import may_reuse, prove
from polyfuse.plan import Plan
from polyfuse.testing import assert_equivalent, assert_legal, assert_refused, assert_schedule
from polyfuse.verdict import Hazard
from polyfuse.verify.kernel import verify_kernel

BANDWIDTH = 4.28e12


def running(x: Any) -> Any:
    y = np.cumsum(x, axis=-1)
    return y


def down(x: Any) -> Any:
    y = np.cumsum(x, axis=0)
    return y


def between(x: Any) -> Any:
    y = np.cumsum(x, axis=1)
    return y


def largest(x: Any) -> Any:
    y = np.maximum.accumulate(x)
    return y


def decayed(x: Any, z: Any) -> Any:
    y = np.exp(-np.cumsum(x * x) / 1000) * z
    return y


def both(x: Any, z: Any) -> Any:
    y = np.cumsum(x) + np.cumsum(z)
    return y


def twice(x: Any) -> Any:
    y = np.cumsum(np.cumsum(x) / 100)
    return y


def in_front(x: Any) -> Any:
    y = np.cumsum(x) - x
    return y


def from_the_end(x: Any) -> Any:
    y = np.cumsum(x[::-1])
    return y


def plan_of(function: Any, *specs: str, **options: Any) -> Plan:
    return pf.jit(function).plan(*map(pf.spec, specs), target="h200", **options)


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return random.standard_normal(shape).astype(dtype)
    return random.integers(-100, 100, shape).astype(dtype)


# ---------------------------------------------------------------------------------------------- plans


@pytest.mark.parametrize("spec", ["f32[67108864]", "f32[N~67000003]"])
def test_a_long_row_is_read_once_and_written_once(spec: str) -> None:
    plan = plan_of(running, spec)
    (kernel,) = plan.kernels
    bytes_ = 2 * 4 * 67e6
    assert bytes_ / BANDWIDTH < plan.cost_analysis().seconds < 1.6 * bytes_ / BANDWIDTH
    assert kernel.launch.kernel.turns and len(kernel.schedule.grid_scans) == 1
    assert_legal(plan)


@pytest.mark.parametrize("target", ["h100", "h200"])
@pytest.mark.parametrize(
    "spec",
    [
        "f32[500000, 100]",
        "f32[2000000, 24]",
        "f32[300000, 257]",
        "bf16[200000, 130]",
        "f64[123457, 40]",
        "f32[100000, 513]",
    ],
)
def test_long_columns_are_read_once_and_written_once(spec: str, target: str) -> None:
    plan = pf.jit(down).plan(pf.spec(spec), target=target)
    assert len(plan.kernels) == 1 and len(plan.kernels[0].schedule.grid_scans) == 1
    assert_legal(plan)


def test_what_is_beside_a_prefix_shares_its_kernel() -> None:
    assert_schedule(
        plan_of(decayed, "f32[67108864]", "f32[67108864]"),
        """
        kernel multiply_sum_exp_y   rows lanes=256 chunks=4 vector=4 group=64 lead=264   grid 16384   block 256
          multiply = x * x                        register
          sum      = scan_sum(multiply, axis=0)   register, combine grid
          negative = negative(sum)                register
          divide   = negative / 1000.0            register
          exp      = exp(divide)                  register
          y        = z * exp                      global
        """,
    )


@pytest.mark.parametrize("spec", ["f32[4, 16777216]", "i32[16, N~4000000]", "bf16[2, 5000011]", "f32[3, 1000001]"])
def test_a_few_rows_are_shared_by_the_device(spec: str) -> None:
    plan = plan_of(running, spec)
    assert len(plan.kernels) == 1 and plan.kernels[0].schedule.grid_scans
    assert_legal(plan)


@pytest.mark.parametrize("spec", ["f32[1048576, 16]", "f32[16384, N~4096]", "f64[16384, 2048]"])
def test_columns_are_read_once(spec: str) -> None:
    plan = plan_of(down, spec)
    (kernel,) = plan.kernels
    assert kernel.schedule.strategy == "columns" and kernel.schedule.grid_scans
    assert_legal(plan)


def least_and_sum(x: Any) -> Any:
    y = np.minimum.accumulate(x, 0) + np.cumsum(x, 0)
    return y


@pytest.mark.ptx
@pytest.mark.parametrize(
    ("function", "spec"), [(down, "f32[1048576, 16]"), (least_and_sum, "bf16[N~513, M~20]"), (running, "f32[N~900001]")]
)
def test_the_lanes_of_a_warp_wait_together(function: Any, spec: str) -> None:
    """Those that spin yield to those that are done, which by ptxas went on to shuffles and a barrier without them: on
    an H100 totals were read before they were there, others in 47 of 50 runs.  A vote of all lanes ends a wait."""
    from polyfuse.backends.numba_cuda.compile import compile_kernel

    k = next(x.kernel for x in plan_of(function, spec).launches if any(s.grid_scans for s in x.schedules))
    ptx = compile_kernel(print_kernel(k), function_name(k.name), k.parameters, k.threads, (9, 0)).ptx
    waits = [m.end() for m in re.finditer(r"ld\.(?:relaxed|acquire)\.gpu\.global", ptx)]
    assert len(waits) >= 3
    for wait in waits:
        branch = re.search(r"@!?%p\d+ bra", ptx[wait:])
        assert branch is not None and "vote.sync.all" in ptx[wait : wait + branch.end()]


def test_a_prefix_of_a_prefix_leaves_no_total_ahead() -> None:
    """The total of the second one is known when the first has been handed on."""
    plan = plan_of(twice, "f32[67108864]")
    assert len(plan.kernels) == 1
    assert [scan.lead for scan in plan.kernels[0].schedule.grid_scans] == [0, 0]


def test_what_is_summed_ahead_is_not_overwritten() -> None:
    """Another block reads it, which may not have done so; nobody else reads what lies beside it, or is not ahead."""
    for function, specs, kept in ((running, ("f32[67108864]",), 1), (decayed, ("f32[67108864]",) * 2, 1)):
        (kernel,) = plan_of(function, *specs).kernels
        (root,) = kernel.schedule.roots
        verdicts = [may_reuse(kernel.scop, kernel.schedule, value, root) for value in kernel.schedule.loads]
        refused = [verdict for verdict in verdicts if not verdict]
        assert len(refused) == kept and all(v.hazard is Hazard.WAR and "ahead" in v.sentence for v in refused)
    (kernel,) = plan_of(running, "f32[100000]").kernels
    assert may_reuse(kernel.scop, kernel.schedule, kernel.schedule.loads[0], kernel.schedule.roots[0])


def test_a_total_that_needs_what_is_handed_on_is_not_left_ahead() -> None:
    (kernel,) = plan_of(twice, "f32[67108864]").kernels
    ahead = tuple(replace(scan, lead=5) for scan in kernel.schedule.grid_scans)
    for scans in (ahead, (kernel.schedule.grid_scans[0], ahead[1])):
        verdict = assert_refused(prove(kernel.scop, replace(kernel.schedule, grid_scans=scans)))
        assert verdict.rule == "executed" and "ahead" in verdict.sentence


def test_short_rows_and_many_rows_wait_for_nobody() -> None:
    for spec in ("f32[1000]", "f32[4096, 65536]"):
        assert not any(kernel.schedule.grid_scans for kernel in plan_of(running, spec).kernels)


def test_the_text_builds_the_same_kernel_again() -> None:
    rows, function = pf.spec("f32[N~67000000]"), pf.jit(running, target="h200")
    plan = function.plan(rows)
    again = pf.parse_schedule(str(plan), function, rows)
    assert again == plan
    other = pf.parse_schedule(str(plan).replace("lead=264", "lead=100"), function, rows)
    assert [scan.lead for scan in other.kernels[0].schedule.grid_scans] == [100]


def test_explain_says_what_blocks_take() -> None:
    text = plan_of(running, "f32[67108864]").explain()
    assert "blocks begin in order, and take the totals of y from all in front" in text


def test_kernels_whose_blocks_begin_in_order_are_launches_of_their_own() -> None:
    def two(x: Any, z: Any) -> Any:
        first = np.cumsum(x)
        second = np.cumsum(z)
        return first, second

    plan = plan_of(two, "f32[N~100000]", "f32[M~90000]")
    ordered = [launch for launch in plan.launches if any(s.grid_scans for s in launch.schedules)]
    assert ordered and all(len(launch.schedules) == 1 for launch in ordered)


def test_later_blocks_cannot_be_waited_for() -> None:
    """Blocks of the first elements last: the proof finds two elements."""
    plan = plan_of(running, "f32[N~1000000]")
    (kernel,) = plan.kernels
    schedule = kernel.schedule
    (scan,) = schedule.grid_scans
    turned = {f"${scan.digit}": schedule.digit(scan.digit).extent - 1 - digit(scan.digit)}
    places = [tuple(e if isinstance(e, str) else e.substitute(turned) for e in p.place) for p in schedule.placed]
    placed = tuple(p.moved(place) for p, place in zip(schedule.placed, places, strict=True))
    verdict = assert_refused(prove(kernel.scop, replace(schedule, placed=placed)), hazard=Hazard.RAW)
    assert verdict.rule == "scan" and verdict.witness is not None


# ---------------------------------------------------------------------------------------------- numbers


def both_ways(kernel: Kernel, arrays: dict[str, Any], sizes: Any, scalars: Any, *, seed: int | None = 0) -> None:
    """The kernel, and its text, which leave the same bits."""
    verify_kernel(kernel)
    copies = {name: array.copy() for name, array in arrays.items()}
    name, text = function_name(kernel.name), print_kernel(kernel)
    run_source(text, name, kernel, copies, sizes, scalars, seed=seed)
    run_kernel(kernel, arrays, sizes, scalars, seed=seed)
    for parameter, array in arrays.items():
        np.testing.assert_array_equal(copies[parameter], array)


CASES: dict[str, tuple[Any, tuple[tuple[int, ...], ...], str, dict[str, int]]] = {
    "one block more": (running, ((4097,),), "f4", {"chunks": 4}),
    "whole blocks": (running, ((8 * 4096,),), "f4", {"chunks": 4}),
    "groups of four": (running, ((50003,),), "f4", {"chunks": 4, "group": 4}),
    "groups of groups": (running, ((100001,),), "f4", {"chunks": 4, "group": 2}),
    "two words": (running, ((9001,),), "f8", {"chunks": 4, "group": 2}),
    "integers": (running, ((20000,),), "i8", {"chunks": 4, "group": 2}),
    "halves": (running, ((30000,),), "f2", {"chunks": 4}),
    "largest": (largest, ((30000,),), "f4", {"chunks": 4, "group": 1}),
    "from the end": (from_the_end, ((30000,),), "f4", {"chunks": 4}),
    "in front": (in_front, ((30000,),), "f4", {"chunks": 4}),
    "fused": (decayed, ((30000,), (30000,)), "f4", {"chunks": 4}),
    "both": (both, ((20000,), (20000,)), "f4", {"chunks": 4}),
    "few rows": (running, ((3, 9000),), "f4", {"chunks": 4}),
    "odd rows": (running, ((3, 5001),), "f4", {"chunks": 4}),
    "columns": (down, ((500, 256),), "f4", {"group": 2}),
    "columns of groups of groups": (down, ((3000, 30),), "f4", {"group": 2}),
    "odd columns": (down, ((301, 131),), "f4", {"group": 4}),
    "columns of planes": (down, ((200, 2, 70),), "f8", {"group": 4}),
    "lines of a warp": (down, ((700, 32),), "f4", {"group": 2}),
    "a few columns": (down, ((1100, 12),), "f4", {"group": 1}),
}


@pytest.mark.parametrize("lead", [{}, {"lead": 3}], ids=["", "ahead"])
@pytest.mark.parametrize("name", CASES)
def test_numbers_do_not_depend_on_the_order_of_blocks(
    name: str, lead: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    function, shapes, dtype, tiles = CASES[name]
    arguments = [values(shape, dtype, k) for k, shape in enumerate(shapes)]
    plan = pf.jit(function).plan(*arguments, target="h200", tiles={"y": {**tiles, **lead}})
    assert len(plan.kernels) == 1 and plan.kernels[0].schedule.grid_scans
    monkeypatch.setattr(interpreted, "run_kernel", both_ways)
    found = [interpreted.run_plan(plan, arguments, seed=seed)[0] for seed in (None, 0, 1)]
    exact = function(*(a.astype("f8") if dtype[0] == "f" else a for a in arguments))
    tolerance = {"f2": 2e-3, "f4": 1e-5}.get(dtype, 1e-12)
    np.testing.assert_allclose(found[0], exact, rtol=tolerance, atol=tolerance * 300)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("spec", ["bf16[30000, 130]", "f32[65536, 1023]", "f32[262144, 16]"])
def test_groups_are_as_asked_for(spec: str) -> None:
    (kernel,) = plan_of(down, spec, tiles={"y": {"group": 64}}).kernels
    assert kernel.schedule.grid_scans[0].group == 64 == kernel.parameters["group"]


def test_a_prefix_of_a_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    x = values((20000,), "f8")
    plan = pf.jit(twice).plan(x, target="h200", tiles={"y": {"chunks": 4, "group": 2}})
    assert len(plan.kernels[0].schedule.grid_scans) == 2
    monkeypatch.setattr(interpreted, "run_kernel", both_ways)
    np.testing.assert_allclose(interpreted.run_plan(plan, [x], seed=1)[0], twice(x), rtol=1e-10, atol=1e-8)


def test_one_kernel_and_three_agree() -> None:
    spec = pf.spec("f32[N~100000]")
    whole = pf.jit(running).plan(spec, target="h200")
    parts = pf.jit(running).plan(spec, target="h200", strategies={"y": "rows"}, tiles={"y": {"chunks": 1}})
    assert_equivalent(whole, parts, seeds=(0,), sizes=[{"N": 100}, {"N": 40000}])


# ---------------------------------------------------------------------------------------------- the kernel


def operations(body: tuple[Op, ...]) -> list[Op]:
    found: list[Op] = []
    for op in body:
        found.append(op)
        found += operations(op.body) if isinstance(op, (For, If)) else []
        found += operations(op.orelse) if isinstance(op, If) else []
    return found


def test_totals_ahead_are_left_by_a_body_of_their_own() -> None:
    kernel = plan_of(running, "f32[67108864]").launches[0].kernel
    leaving, taking = kernel.body
    assert isinstance(leaving, If) and isinstance(taking, If)
    assert any(isinstance(op, Leave) for op in operations(leaving.body))
    assert any(isinstance(op, Carry) for op in operations(taking.body))
    assert kernel.grid[0].constant == 16384 + 264


@pytest.mark.ptx
@pytest.mark.parametrize(
    ("function", "specs", "tiles"),
    [
        (running, ["f32[67108864]"], {}),
        (running, ["f32[N~900001]"], {}),
        (running, ["f64[3000001]"], {}),
        (running, ["i64[3, 1000001]"], {}),
        (largest, ["f32[3000001]"], {}),
        (decayed, ["f32[3000001]"] * 2, {}),
        (twice, ["f32[3000001]"], {}),
        (down, ["f32[1048576, 16]"], {}),
        (down, ["f32[16384, 4096]"], {}),
        (down, ["f64[16384, N~2048]"], {}),
    ],
)
def test_ptx(function: Any, specs: list[str], tiles: dict[str, int]) -> None:
    from polyfuse.backends.numba_cuda.compile import compile_kernel

    (launch,) = plan_of(function, *specs, tiles={"y": tiles} if tiles else {}).launches
    k = launch.kernel
    for bits in (32, 64):
        ptx = compile_kernel(print_kernel(k), function_name(k.name), k.parameters, k.threads, (9, 0), 1, bits).ptx
        assert "atom.relaxed.gpu.global.inc.u32" in ptx
        in_stretches = specs == ["f32[1048576, 16]"]  # many blocks in a line, and several values in each thread
        assert ("red.release.gpu.global.add.u32" in ptx) != in_stretches
        assert "ld.relaxed.gpu.global" in ptx and "st.relaxed.gpu.global" in ptx
        assert ".local" not in ptx


def test_lines_of_blocks_differ_along_two_axes_of_any_size() -> None:
    """Of which neither number of blocks is known before the launch: counters and totals have an axis for each."""
    plan = pf.jit(between).plan(pf.spec("f32[L~2, N~16384, M~2048]"), target="h200")
    (kernel,) = plan.kernels
    assert dict(kernel.parameters)["group"] == 4
    assert_legal(plan)
    x = np.random.default_rng(5).integers(-9, 9, (3, 300, 260)).astype(np.float32)
    for seed in (None, 0, 1):
        (found,) = interpreted.run_plan(plan, [x], seed=seed)
        np.testing.assert_array_equal(found, np.cumsum(x, axis=1))
    module = plan.source()
    assert "leave(" in module and "carry_sum(" in module


@pytest.mark.parametrize("program", [lambda x: x.sum(axis=1), lambda x: x.max(axis=1) - 1])
def test_shares_meet_where_blocks_differ_along_two_axes_of_any_size(program: Any) -> None:
    plan = pf.jit(program).plan(pf.spec("f32[L~2, N~500000, M~100]"), target="h200")
    (kernel,) = plan.kernels
    assert "share" in dict(kernel.parameters)
    assert_legal(plan)
    x = np.random.default_rng(5).integers(-9, 9, (3, 4001, 268)).astype(np.float32)
    for seed in (None, 0, 1):
        (found,) = interpreted.run_plan(plan, [x], seed=seed)
        np.testing.assert_array_equal(found, program(x))
