"""Columns of planes whose rows are no whole number of blocks: those of the next plane follow in the same block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine, digit
from polyfuse.backends.interpreter import run_kernel, run_source
from polyfuse.codegen.names import function_name
from polyfuse.codegen.printer import print_kernel
from polyfuse.errors import KernelError
from polyfuse.face.interpreted import run_plan
from polyfuse.kernel import Barrier
from polyfuse.legality import prove
from polyfuse.legality.side_by_side import alike
from polyfuse.plan import Plan
from polyfuse.schedule import KernelSchedule
from polyfuse.testing import assert_legal, assert_refused
from polyfuse.text.apply import apply_text
from polyfuse.verdict import Hazard
from polyfuse.verify.kernel import verify_kernel

Function = Callable[..., Any]


def prefixes(x: Any) -> Any:
    y = np.cumsum(x, axis=1)
    return y


def scaled(x: Any, rows: Any, planes: Any) -> Any:
    y = np.cumsum(x * rows, axis=1) * planes[:, None, None] + rows
    return y


def largest_so_far(x: Any) -> Any:
    y = np.maximum.accumulate(x[:, ::-1], axis=1) - x
    return y


def sums(x: Any) -> Any:
    y = x.sum(axis=1)
    return y


def means_and_largest(x: Any) -> Any:
    m = x.mean(axis=1)
    y = x.max(axis=1)
    return m, y


def of_four(x: Any) -> Any:
    y = np.cumsum(x, axis=2)
    return y


def of_two(x: Any) -> Any:
    y = x.sum(axis=(1, 2))
    return y


BIG = "f32[L~512, N~512, M~513]"
SUMMED = "f32[L~4000, N~50, M~671]"
FOUR = "f32[K~16, L~32, N~512, M~513]"


def plan_of(function: Function, *specs: str, **options: Any) -> Plan:
    return pf.jit(function).plan(*map(pf.spec, specs), target="h200", **options)


def packed(plan: Plan) -> KernelSchedule:
    """The one kernel of a plan, whose threads are blocks."""
    (schedule,) = plan.schedules
    assert schedule.packed > 1 and schedule.threads == 1
    return schedule


def floats(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)


# ---------------------------------------------------------------------------------------------- plans


def test_no_third_of_the_lanes_is_idle() -> None:
    """Blocks of 256 columns of one plane have 256, 256 and 1 of them: 466 us on an H200, where memory needs 251."""
    plan = plan_of(prefixes, BIG)
    schedule, (launch,) = packed(plan), plan.launches
    sizes = {"L": 512, "N": 512, "M": 513}
    grid = [extent.evaluate(sizes) for extent in launch.kernel.grid]
    threads = launch.kernel.launched(grid) * launch.kernel.block_threads
    assert prod(grid) == 512 * 513 and threads - prod(grid) < launch.kernel.block_threads
    assert schedule.block_threads == launch.kernel.block_threads == 256
    assert plan.cost_analysis().seconds < 300e-6
    assert_legal(plan)


def test_the_price_knows_what_idle_lanes_cost() -> None:
    """The same with columns of one plane in a block, which was measured."""
    plan = plan_of(prefixes, BIG, tiles={"y": {"lanes": 256}})
    assert dict(plan.kernels[0].schedule.parameters)["lanes"] == 256
    assert 400e-6 < plan.cost_analysis().seconds < 500e-6
    whole = plan_of(prefixes, "f32[L~396, N~512, M~511]", tiles={"y": {"lanes": 256}})  # all blocks at once
    part = 396 * 511 / (512 * 513)
    assert whole.cost_analysis().seconds < 0.75 * part * plan.cost_analysis().seconds


@pytest.mark.parametrize("spec", ["f32[512, 512, 512]", "f32[4096, 256, 64]", "f32[L~300, N~50, M~1024]"])
def test_columns_that_fill_blocks_are_of_one_plane(spec: str) -> None:
    for function in (prefixes, sums):
        assert all(schedule.packed == 1 for schedule in plan_of(function, spec).schedules)


def test_small_programs_and_lone_planes_are_left_alone() -> None:
    assert all(s.packed == 1 for s in plan_of(prefixes, "f32[8, 20, 33]").schedules)
    assert all(s.packed == 1 for s in plan_of(lambda x: np.cumsum(x, axis=0), "f32[512, 262657]").schedules)


def test_the_text_says_how_many_threads_are_a_block() -> None:
    for function, specs in ((prefixes, (BIG,)), (sums, (SUMMED,)), (scaled, (BIG, "f32[M]", "f32[L]"))):
        plan = plan_of(function, *specs)
        text = str(plan)
        assert "packed=256" in text and "grid ceil(M x L / 256)   block 256" in text
        again = apply_text(text, plan)
        assert again == plan and str(again) == text


def test_vectors_never_cross_the_end_of_a_row() -> None:
    plan = plan_of(prefixes, "f32[L~512, N~512, M~516]")
    (load,) = [p for p in packed(plan).placed if p.role == "load"]
    assert dict(packed(plan).parameters)["vector"] == 4
    assert load.place[2] == digit("b0") * 4 + digit("v")
    assert_legal(plan)


# ---------------------------------------------------------------------------------------------- numbers

CASES: dict[str, tuple[Function, tuple[str, ...]]] = {
    "prefixes": (prefixes, (BIG,)),
    "prefixes in vectors": (prefixes, ("f32[L~512, N~512, M~516]",)),
    "fused with what is beside": (scaled, (BIG, "f32[M]", "f32[L]")),
    "largest so far, from the end": (largest_so_far, (BIG,)),
    "sums": (sums, (SUMMED,)),
    "sums in vectors": (sums, ("f32[L~20000, N~50, M~100]",)),
    "mean and largest": (means_and_largest, (SUMMED,)),
    "behind two dimensions": (of_four, (FOUR,)),
    "over two dimensions": (of_two, ("f32[K~4000, L~5, N~10, M~671]",)),
}
SHAPES = {"L": (1, 3, 37, 1), "N": (1, 21, 8, 5), "M": (1, 671, 40, 513), "K": (3, 1, 2, 4)}


def sizes_of(spec: str, k: int, vector: int) -> tuple[int, ...]:
    """The `k`-th of some shapes for a spec, with rows of whole vectors."""
    names = [part.split("~")[0].strip() for part in spec[spec.index("[") + 1 : -1].split(",")]
    return tuple([-(-SHAPES[n][k] // vector) * vector if n == "M" else SHAPES[n][k] for n in names])


@pytest.mark.parametrize("k", range(4))
@pytest.mark.parametrize("case", CASES)
def test_results(case: str, k: int) -> None:
    function, specs = CASES[case]
    plan = plan_of(function, *specs)
    vector = dict(packed(plan).parameters)["vector"]
    arrays = [floats(*sizes_of(spec, k, vector), seed=n) for n, spec in enumerate(specs)]
    found = run_plan(plan, arrays)
    wide = function(*[a.astype(np.float64) for a in arrays])
    for got, wanted in zip(found, wide if isinstance(wide, tuple) else (wide,), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    assert_legal(plan)


@pytest.mark.parametrize("case", CASES)
def test_no_elements_of_a_column(case: str) -> None:
    function, specs = CASES[case]
    plan = plan_of(function, *specs)
    shapes = [sizes_of(spec, 1, dict(packed(plan).parameters)["vector"]) for spec in specs]
    if function is means_and_largest:
        return  # NumPy has none either
    axis = 2 if function is of_four else 1
    arrays = [floats(*(0 if d == axis else n for d, n in enumerate(shape))) for shape in shapes[:1]]
    arrays += [floats(*shape) for shape in shapes[1:]]
    (found,) = run_plan(plan, arrays)
    np.testing.assert_array_equal(found, function(*arrays))


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("planes", "rows", "columns"), [(3, 21, 513), (2, 8, 1), (1, 1, 256), (5, 7, 99)])
def test_the_text_of_a_kernel_does_what_the_kernel_does(bits: int, planes: int, rows: int, columns: int) -> None:
    """Threads beyond the last column touch nothing: the interpreter of the text launches whole blocks."""
    (launch,) = plan_of(prefixes, BIG).launches
    kernel = replace(launch.kernel, index_bits=bits)
    verify_kernel(kernel)
    names = [p.name for p in kernel.parameters]
    x = floats(planes, rows, columns)
    sizes = dict(zip(("L", "N", "M"), x.shape, strict=True))
    assert set(sizes) <= set(names)
    for run in (run_kernel, lambda *a: run_source(print_kernel(kernel), function_name(kernel.name), *a)):
        arrays = {"x_in": x.copy(), "y_out": np.full_like(x, np.nan)}
        run(kernel, arrays, sizes, {})
        np.testing.assert_array_equal(arrays["y_out"], np.cumsum(x, axis=1))


# ---------------------------------------------------------------------------------------------- proofs


def with_thread(schedule: KernelSchedule) -> KernelSchedule:
    extra = replace(schedule.digits[0], name="t", kind="thread", extent=Affine.of(2), stride=1)
    return replace(schedule, digits=(*schedule.digits, extra))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_thread, "a block of 2 threads is no thread"),
        (lambda s: replace(s, cluster=2), "is no thread"),
        (lambda s: replace(s, packed=0), "0 blocks are no threads"),
        (lambda s: replace(s, order=(*s.order, "barrier")), "a barrier would meet other blocks"),
        (lambda s: replace(s, rings=(("r", 2),)), "keeps values in shared memory"),
    ],
)
def test_blocks_that_are_threads_have_nothing_in_common(change: Function, words: str) -> None:
    (kernel,) = plan_of(prefixes, BIG).kernels
    assert prove(kernel.scop, kernel.schedule)
    verdict = assert_refused(prove(kernel.scop, change(kernel.schedule)))
    assert words in verdict.sentence or verdict.hazard in (Hazard.EFFECT, Hazard.CAPACITY), verdict.sentence


def test_a_column_that_is_left_out_or_stored_twice_is_refused() -> None:
    (kernel,) = plan_of(prefixes, BIG).kernels
    schedule = kernel.schedule
    for name, more in (("b0", -1), ("b1", -1)):
        short = [replace(d, extent=d.extent + more) if d.name == name else d for d in schedule.digits]
        assert_refused(prove(kernel.scop, replace(schedule, digits=tuple(short))))
    twice = [p.moved((digit("b1") * 0, *p.place[1:])) for p in schedule.placed]
    assert_refused(prove(kernel.scop, replace(schedule, placed=tuple(twice))))


def test_they_are_a_launch_of_their_own() -> None:
    (kernel,) = plan_of(prefixes, BIG).kernels
    verdict = assert_refused(alike(kernel.scop, (kernel.schedule, replace(kernel.schedule, name="z"))))
    assert "a launch of their own" in verdict.sentence


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda k: replace(k, threads=2), "a block of 2 threads is no thread"),
        (lambda k: replace(k, body=(*k.body, Barrier())), "do not meet"),
        (lambda k: replace(k, turns="x_in"), "nor an order"),
    ],
)
def test_kernels_are_checked(change: Function, words: str) -> None:
    (launch,) = plan_of(prefixes, BIG).launches
    with pytest.raises(KernelError, match=words):
        verify_kernel(change(launch.kernel))


# ---------------------------------------------------------------------------------------------- a GPU's assembly


@pytest.mark.ptx
@pytest.mark.parametrize("case", CASES)
def test_ptx(case: str) -> None:
    from polyfuse.backends.numba_cuda.assemble import assemble, find_ptxas
    from polyfuse.backends.numba_cuda.compile import compile_kernel

    function, specs = CASES[case]
    (launch,) = plan_of(function, *specs).launches
    k, name = launch.kernel, function_name(launch.kernel.name)
    for bits in (32, 64):
        made = compile_kernel(
            print_kernel(k), name, k.parameters, k.block_threads, (9, 0), k.minimum_blocks, index_bits=bits
        )
        assert f".maxntid {k.block_threads}" in made.ptx
        assert ".local" not in made.ptx
    if find_ptxas() and case == "prefixes":
        assert assemble(made).resources.spilled_bytes == 0
