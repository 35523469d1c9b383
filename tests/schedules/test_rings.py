"""Rings: what a loop loads is copied to shared memory some trips ahead, beside the threads."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.backends.interpreter import faults, run_source
from polyfuse.backends.numba_cuda.compile import compile_kernel
from polyfuse.codegen.printer import print_kernel
from polyfuse.cost.prices import price
from polyfuse.errors import ScheduleError
from polyfuse.face.interpreted import run_plan
from polyfuse.legality import prove
from polyfuse.lower.ahead import next_name
from polyfuse.lower.inspect import flatten
from polyfuse.plan import Plan
from polyfuse.planning import planner
from polyfuse.rewrites.split import Cut, in_two_stages
from polyfuse.scop import Statement
from polyfuse.testing import assert_legal
from polyfuse.text.apply import apply_text
from polyfuse.verify.kernel import verify_kernel

PLAIN = "kernel k one_pass {}\n  multiply\n  dot\n  multiply_1\n  y   global\n"


def gram_in_steps(a, x):
    dot = (a * x).sum(axis=1)
    y = (a * dot[:, None]).sum(axis=0)
    return y


def planned(specs: tuple[str, str], parameters: str) -> Plan:
    plan = pf.jit(gram_in_steps, max_fusion_size=9).plan(*map(pf.spec, specs), target="h200")  # sums stay whole
    return apply_text(PLAIN.format(parameters), plan)


CASES = (
    (("f32[64, 256]", "f32[256]"), "lanes=32 unroll=2 share=16 ring=3"),
    (("f32[61, 260]", "f32[260]"), "lanes=64 unroll=2 share=16 ring=3"),  # neither rows nor columns come out even
    (("f32[40, 250]", "f32[250]"), "lanes=128 unroll=1 share=8 ring=4"),  # pairs
    (("f32[37, 251]", "f32[251]"), "lanes=128 unroll=1 share=8 ring=2"),  # single elements
    (("f64[37, 128]", "f64[128]"), "lanes=32 unroll=1 share=8 ring=2"),
    (("f32[N~40, 256]", "f32[256]"), "lanes=64 unroll=2 share=16 ring=3"),
    (("f32[3, 512]", "f32[512]"), "lanes=32 unroll=1 share=2 ring=4"),  # fewer trips than the ring holds
)


@pytest.mark.parametrize(("specs", "parameters"), CASES)
def test_a_ring_gives_what_loads_in_place_give(specs: tuple[str, str], parameters: str) -> None:
    plan = planned(specs, parameters)
    (kernel,) = plan.kernels
    assert kernel.schedule.rings == (("r", int(parameters[-1])),)
    assert_legal(plan)
    verify_kernel(plan.launches[0].kernel)
    rows, columns = (n.evaluate({"N": 23}) for n in plan.program.arguments[0].shape)
    random = np.random.default_rng(rows)
    dtype = np.float64 if specs[0].startswith("f64") else np.float32
    a, x = random.standard_normal((rows, columns)).astype(dtype), random.standard_normal(columns).astype(dtype)
    exact = a.T.astype(np.float64) @ (a.astype(np.float64) @ x)
    for seed in (0, 1):
        (found,) = run_plan(plan, [a, x], seed=seed)
        np.testing.assert_allclose(found, exact, rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-3)


def test_the_text_says_how_long_the_ring_is_and_reads_back() -> None:
    plan = planned(*CASES[0])
    assert "ring=3" in str(plan)
    assert apply_text(str(plan), plan) == plan


def rings(kernel: ir.Kernel) -> list[ir.AsyncCopy]:
    return [op for op in flatten(kernel.body) if isinstance(op, ir.AsyncCopy)]


def in_float32(a, x, w):
    wide = a.astype(np.float32)
    dot = (wide @ x.astype(np.float32)) * w.astype(np.float32)
    y = wide.T @ dot
    return y


def of_halves(columns: int) -> Plan:
    specs = f"bf16[24, {columns}]", f"bf16[{columns}]", "bf16[24]"
    plan = pf.jit(in_float32).plan(*map(pf.spec, specs), target="h200")
    names = [s.name for s in plan.scop.statements if isinstance(s, Statement)]
    text = "kernel k one_pass lanes=32 unroll=1 share=8 ring=3\n" + "".join(f"  {n}\n" for n in names[:-1])
    return apply_text(f"{text}  {names[-1]}   global\n", plan)


def test_cells_hold_bytes_as_they_lie_in_memory() -> None:
    """Pieces of two bytes, one weight per row, no copy moves: they are loaded a trip ahead into a register."""
    plan = of_halves(256)
    assert_legal(plan)
    kernel = plan.launches[0].kernel
    (ring,) = kernel.shared
    assert (ring.name, ring.dtype.name, ring.elements) == ("a_ring", "bf16", 3 * 256)
    assert {op.vector * 2 for op in rings(kernel)} == {16}
    assert any(isinstance(op, ir.Load) and op.name == next_name("w") for op in flatten(kernel.body))
    said = str(plan.explain())
    assert "a: copied to shared memory, which holds 3 trips of it, 2 of them on their way" in said
    assert "w: loaded into registers, one trip before it is used" in said
    random = np.random.default_rng(0)
    a, x, w = (random.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((24, 256), (256,), (24,)))
    exact = in_float32(*(v.astype(np.float64) for v in (a, x, w)))
    (found,) = run_plan(plan, [a, x, w])
    np.testing.assert_allclose(found, exact, rtol=1e-3, atol=1e-3)


def test_a_matrix_of_which_no_copy_moves_a_piece_has_no_ring() -> None:
    with pytest.raises(ScheduleError, match="ring"):
        of_halves(251)


def test_a_wait_too_late_is_found_in_the_kernel_that_was_made() -> None:
    plan = planned(*CASES[0])
    kernel = plan.launches[0].kernel
    source = print_kernel(kernel)
    assert source.count("wait_copies(2)") == 1
    random = np.random.default_rng(0)
    arrays = {p.name: np.zeros([n.constant for n in p.shape], p.dtype.numpy) for p in kernel.parameters}
    arrays |= {"a_in": random.standard_normal((64, 256)).astype(np.float32)}
    run_source(source, "k", kernel, {k: v.copy() for k, v in arrays.items()}, {}, {})
    with pytest.raises(faults.UninitialisedRead):
        run_source(source.replace("wait_copies(2)", "wait_copies(3)"), "k", kernel, arrays, {}, {})


def test_what_is_on_its_way_hides_waits_and_needs_no_registers() -> None:
    plan = planned(("f32[16384, 16384]", "f32[16384]"), "lanes=512 share=128 ring=3")
    schedule, h200 = plan.kernels[0].schedule, plan.target
    assert schedule.block_threads == 512 and dict(schedule.parameters)["unroll"] == 1
    costs = [price(plan.scop, s, h200, {}) for s in (schedule, replace(schedule, rings=(), ahead=("r",)))]
    assert costs[0].shared == 3 * 64 * 1024 and costs[1].shared == 0
    assert costs[0].registers < costs[1].registers
    assert costs[0].seconds < costs[1].seconds


def test_a_ring_fits_the_shared_memory_of_a_processor() -> None:
    with pytest.raises(ScheduleError, match="shared memory 262144 > "):
        planned(("f32[16384, 16384]", "f32[16384]"), "lanes=512 share=128 ring=4")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rings": (("tx", 3),)}, "tx, which is not a loop digit"),
        ({"rings": (("r", 1),)}, "a ring of 1 trips"),
        ({"ahead": ("r",)}, "both in registers and in a ring"),
        ({"cluster": 2}, "of a cluster"),
    ],
)
def test_what_no_ring_can_be(change: dict[str, object], sentence: str) -> None:
    plan = planned(*CASES[1])
    schedule = plan.launches[0].schedule
    assert prove(plan.scop, schedule)
    verdict = prove(plan.scop, replace(schedule, **change))  # type: ignore[arg-type]
    assert not verdict and sentence in verdict.sentence


def weighted(a, x, w):
    y = a.T @ (w * (a @ x))
    return y


def logistic(a, x, z):
    y = a.T @ (1 / (1 + np.exp(-(a @ x))) - z)
    return y


def power_step(a, x, w):
    y = a.T @ (a @ x)
    return y / np.sqrt((y * y).sum()), (w * x).sum()


@pytest.mark.parametrize("program", [weighted, logistic, power_step])
def test_a_matrix_that_is_needed_twice_goes_through_a_ring_once(program) -> None:
    """And the shares of 128 blocks, 8 MB, are added up by a second kernel rather than by the last block alone."""
    vector = pf.spec("f32[16384]")
    plan = pf.jit(program).plan(pf.spec("f32[16384, 16384]"), vector, vector, target="h200")
    (kernel,) = (k for k in plan.kernels if k.schedule.rings)
    assert kernel.schedule.rings == (("r", 3),) and not kernel.schedule.grid_combine
    assert [name for k in plan.kernels for name in k.stores].count("y_part") == 1
    assert plan.hbm_bytes.at() < 1.03 * 4 * 16384**2
    assert apply_text(str(plan), plan) == plan


@pytest.mark.parametrize(
    ("specs", "parameters"),
    [
        (("bf16[16384, 16384]", "bf16[16384]", "bf16[16384]"), {"lanes": 512, "unroll": 1}),  # two rows would spill
        (("f16[32768, 8192]", "f16[8192]", "f16[32768]"), {"lanes": 256, "chunks": 4, "unroll": 2}),
        (("f32[262144, 1024]", "f32[1024]", "f32[262144]"), {"lanes": 256, "unroll": 8}),
    ],
)
def test_a_trip_has_as_many_rows_as_registers_and_shared_memory_hold(
    specs: tuple[str, ...], parameters: dict[str, int]
) -> None:
    plan = pf.jit(in_float32).plan(*map(pf.spec, specs), target="h200")
    (kernel,) = (k for k in plan.kernels if k.schedule.rings)
    assert parameters.items() <= dict(kernel.schedule.parameters).items()
    assert kernel.registers * kernel.threads <= 65536 and kernel.shared_bytes <= plan.target.shared_on_demand


@pytest.mark.parametrize("rows", [64, 61])
def test_two_stages_give_what_one_gives(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "merged_reductions", lambda program: program)  # what is staged is not to be merged
    specs = f"f32[{rows}, 260]", "f32[260]", f"f32[{rows}]"
    plan = pf.jit(logistic).plan(*map(pf.spec, specs), target="h200")
    total = next(s for s in plan.scop.statements if s.name == "y")
    staged = in_two_stages(plan.program, {total.digest: Cut(0, 16)}).program
    plan = planner.plan_program(staged, plan.target, plan.options, ())
    assert {"y_part", "y"} <= {s.name for s in plan.scop.statements}
    assert_legal(plan)
    random = np.random.default_rng(rows)
    a, x, z = (random.standard_normal(s).astype(np.float32) for s in ((rows, 260), (260,), (rows,)))
    exact = logistic(a.astype(np.float64), x.astype(np.float64), z.astype(np.float64))
    (found,) = run_plan(plan, [a, x, z])
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-3)


def test_matrices_of_a_batch_have_blocks_of_their_own() -> None:
    def several(a, x):
        dot = (a * x[:, None]).sum(axis=2)
        y = (a * dot[:, :, None]).sum(axis=1)
        return y

    plan = pf.jit(several).plan(pf.spec("f32[5, 48, 256]"), pf.spec("f32[5, 256]"), target="h200")
    plan = apply_text(PLAIN.format("lanes=64 unroll=2 share=16 ring=3"), plan)
    assert plan.kernels[0].schedule.rings
    assert_legal(plan)
    random = np.random.default_rng(3)
    a, x = random.standard_normal((5, 48, 256)).astype(np.float32), random.standard_normal((5, 256)).astype(np.float32)
    wide = a.astype(np.float64)
    exact = np.einsum("bij,bi->bj", wide, np.einsum("bij,bj->bi", wide, x.astype(np.float64)))
    (found,) = run_plan(plan, [a, x], seed=1)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-3)


@pytest.mark.ptx
@pytest.mark.parametrize(("case", "size"), [(0, 16), (1, 16), (2, 8), (3, 4), (4, 16)])
def test_copies_are_one_instruction_each(case: int, size: int) -> None:
    kernel = planned(*CASES[case]).launches[0].kernel
    ptx = compile_kernel(print_kernel(kernel), kernel.name, kernel.parameters, kernel.block_threads, (9, 0)).ptx
    assert f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global" in ptx and f"], {size}" in ptx
    assert ptx.index("cp.async.wait_group") < ptx.index("ld.shared")  # in a loop, or in what its trips are written as
