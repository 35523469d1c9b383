"""Transposes of rows that begin anywhere: boxes that asynchronous copies fill as memory lies, results in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.backends.interpreter import faults, run_kernel, run_source
from polyfuse.bindings import Layout
from polyfuse.codegen.printer import print_kernel
from polyfuse.errors import KernelError
from polyfuse.face.interpreted import run_plan
from polyfuse.legality import prove
from polyfuse.lower.inspect import flatten
from polyfuse.options import Options
from polyfuse.places.copied import least_pitch
from polyfuse.plan import Plan
from polyfuse.planning.planner import plan_program
from polyfuse.schedule import KernelSchedule
from polyfuse.target import H200
from polyfuse.verdict import Hazard, Kind
from polyfuse.verify.intervals import Interval, interval
from polyfuse.verify.kernel import verify_kernel

CASES = {
    "halves": (lambda x: x.T + 1, ("bf16[N~8193, M~8191]",), ((65, 255),)),
    "halves beside rows": (
        lambda x, y: x.T * 2 + y,
        ("f16[N~8193, M~8191]", "f16[M~8191, N~8193]"),
        ((65, 23), (23, 65)),
    ),
    "halves, every second row at a word": (lambda x: x.T + 1, ("bf16[N~8193, M~8190]",), ((65, 254),)),
    "whole sectors of odd rows": (lambda x: x.T + 1, ("bf16[N~8192, M~8191]",), ((32, 263),)),
    "bytes": (lambda x: x.T + 1, ("u8[N~16381, M~16383]",), ((157, 47),)),
    "bytes to words": (lambda x: x.T * np.float32(0.5), ("u8[N~8193, M~8191]",), ((41, 47),)),
    "truths": (lambda x: ~x.T, ("bool[N~16381, M~16383]",), ((157, 47),)),
    "the last axis in front": (lambda x: x.transpose(2, 0, 1) + 1, ("bf16[N~301, M~403, K~405]",), ((5, 11, 61),)),
    "axes reversed": (lambda x: x.transpose(2, 1, 0) + 1, ("bf16[N~301, M~403, K~405]",), ((61, 11, 61),)),
    "the last axes of planes": (lambda x: x.transpose(0, 2, 1) + 1, ("f16[N~301, M~403, K~405]",), ((3, 67, 61),)),
    "short rows": (lambda x: x.T + 1, ("bf16[N~1000003, M~131]",), ((67, 131),)),
    "read both ways": (lambda x: x + x.T, ("bf16[N~8191, N]",), ((135, 135),)),
    "read backwards": (lambda x: x.T[::-1] * 2, ("bf16[N~8193, M~8191]",), ((65, 143),)),
    "written backwards": (lambda x: x.T[:, ::-1] * 2, ("bf16[N~8193, M~8191]",), ((65, 143),)),
    "with a border": (lambda x: np.pad(x.T, ((1, 1), (2, 2))), ("bf16[N~8193, M~8191]",), ((65, 143),)),
    "beside rows and columns": (
        lambda x, b, c: x.T + b[:, None] - c,
        ("bf16[N~8193, M~8191]", "bf16[M]", "bf16[N]"),
        ((65, 143), (143,), (65,)),
    ),
    "four dimensions": (
        lambda x: x.transpose(0, 3, 2, 1) * 2,
        ("bf16[B~16, N~101, M~103, K~107]",),
        ((2, 21, 7, 27),),
    ),
}
TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "u8": np.uint8, "bool": np.bool_}


def planned(case: str) -> Plan:
    function, specs, _ = CASES[case]
    return pf.jit(function).plan(*map(pf.spec, specs), target="h200")


def arrays(case: str) -> list[np.ndarray]:
    rng, (_, specs, sizes) = np.random.default_rng(0), CASES[case]
    types = [TYPES[spec.partition("[")[0]] for spec in specs]
    return [rng.integers(0, 2 if t is np.bool_ else 100, n).astype(t) for t, n in zip(types, sizes, strict=True)]


def expected(case: str, arguments: list[np.ndarray]) -> np.ndarray:
    exact = [a if a.dtype == np.bool_ else a.astype(np.float64) for a in arguments]
    return CASES[case][0](*exact)


def copies(kernel: ir.Kernel) -> list[ir.AsyncCopy]:
    return [op for op in flatten(kernel.body) if isinstance(op, ir.AsyncCopy)]


@pytest.mark.parametrize("case", CASES)
def test_tiles_are_copied_as_they_lie(case: str) -> None:
    plan = planned(case)
    (launch,) = plan.launches
    assert dict(plan.kernels[0].parameters).get("copied") == 1
    found = copies(launch.kernel)
    itemsize = CASES[case][1][0].startswith(("bf16", "f16")) + 1
    assert found and all(op.cut and op.vector * itemsize == 16 for op in found)
    assert "copy_cut(" in plan.source() and "copied to shared memory" in plan.explain()
    verify_kernel(launch.kernel)


@pytest.mark.parametrize("case", CASES)
def test_results_agree(case: str) -> None:
    plan, arguments = planned(case), arrays(case)
    (found,) = run_plan(plan, arguments)
    np.testing.assert_array_equal(found.astype(np.float64), expected(case, arguments))


def test_what_is_printed_agrees() -> None:
    plan, (x,) = planned("halves"), arrays("halves")
    kernel, found = plan.launches[0].kernel, np.zeros((255, 65), ml_dtypes.bfloat16)
    (source, result) = [p.name for p in kernel.parameters if isinstance(p, ir.ArrayParameter)]
    memory = {source: x, result: found}
    run_source(print_kernel(kernel), kernel.name, kernel, memory, {"N": 65, "M": 255}, {})
    np.testing.assert_array_equal(found.astype(np.float64), expected("halves", [x]))


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (lambda x: x.T + 1, "f32[N~8193, M~8191]"),  # words are as fast in single elements
        (lambda x: x.T + 1, "bf16[N~8191, M~8192]"),  # lanes would meet in few banks
        (lambda x: x.T + 1, "bf16[N~8192, M~8196]"),
        (lambda x: x.T + 1, "bf16[N~8194, M~8190]"),  # pairs of sectors: 230 x 6 x 327 x 209 111 us so on an H200, 121
        (lambda x: x.T + 1, "bf16[N~33, M~35]"),
    ],
)
def test_others_are_put_by_threads(function: object, spec: str) -> None:
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    assert not any("copied" in dict(kernel.parameters) for kernel in plan.kernels)


def test_arrays_of_two_dtypes_have_boxes_of_their_own() -> None:
    def joined(x: Any, y: Any, z: Any, w: Any) -> Any:
        return x.T * 2 + y.T + z + w

    specs = ("bf16[N~8193, M~8191]", "u8[N, M]", "bf16[M, N]", "bf16[M, N]")
    plan = pf.jit(joined).plan(*map(pf.spec, specs), target="h200")
    assert sorted(op.vector for op in copies(plan.launches[0].kernel)) == [8, 16]
    rng = np.random.default_rng(0)
    drawn = [rng.integers(0, 9, shape) for shape in ((65, 143), (65, 143), (143, 65), (143, 65))]
    arguments = [d.astype(TYPES[spec.partition("[")[0]]) for d, spec in zip(drawn, specs, strict=True)]
    (found,) = run_plan(plan, arguments)
    np.testing.assert_array_equal(found.astype(np.int64), joined(*drawn))


def test_what_is_not_aligned_is_loaded_and_put() -> None:
    """A plan whose array begins elsewhere than vectors do has the same boxes."""
    program = planned("bytes to words").scop.program
    plan = plan_program(program, H200, Options(), [Layout(alignment=8)])
    assert dict(plan.kernels[0].parameters).get("copied") == 1 and "copy_cut(" not in plan.source()
    (x,) = arrays("bytes to words")
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, expected("bytes to words", [x]))


# ---------------------------------------------------------------------------------------------- what is refused


def changed(schedule: KernelSchedule, role: str, by: Affine) -> KernelSchedule:
    """The places of what has the role moved along rows."""
    moved = [replace(p, place=(*p.place[:-1], p.place[-1] + by)) if p.role == role else p for p in schedule.placed]
    return replace(schedule, placed=tuple(moved))


@pytest.mark.parametrize("by", [8, -8, digit("w8")])
def test_cells_that_nobody_copies_are_not_read(by: Affine | int) -> None:
    plan = planned("axes reversed")
    (schedule,) = plan.schedules
    assert prove(plan.scop, schedule)
    verdict = prove(plan.scop, changed(schedule, "put", Affine.of(by) if isinstance(by, int) else by))
    assert (verdict.kind, verdict.hazard) == (Kind.ILLEGAL, Hazard.SCOPE)


def test_a_tile_without_room_for_what_begins_it_is_refused() -> None:
    plan = planned("halves")
    (schedule,) = plan.schedules
    (box,) = schedule.shared
    narrow = replace(box, extents=(box.extents[0], box.extents[1] - 64))
    verdict = prove(plan.scop, replace(schedule, shared=(narrow,)))
    assert verdict.kind is Kind.ILLEGAL


@pytest.mark.parametrize("pitch", [-1, 1, 4])
def test_rows_that_lie_apart_otherwise_than_in_memory_are_no_vectors(pitch: int) -> None:
    kernel = planned("halves").launches[0].kernel
    (buffer,) = kernel.shared
    wrong = replace(buffer, pitch=(buffer.pitch[0] + pitch, 1))
    with pytest.raises(KernelError, match="a vector of 8 is not aligned"):
        verify_kernel(replace(kernel, shared=(wrong,)))


def test_what_is_copied_has_a_cell() -> None:
    kernel = planned("halves").launches[0].kernel
    (buffer,) = kernel.shared
    short = replace(buffer, shape=(buffer.shape[0] - 1, buffer.shape[1]))
    with pytest.raises(KernelError, match="may exceed"):
        verify_kernel(replace(kernel, shared=(short,)))


def test_copies_are_waited_for() -> None:
    kernel = planned("halves").launches[0].kernel
    body = tuple(op for op in kernel.body if not isinstance(op, ir.WaitCopies))
    with pytest.raises(KernelError, match="no wait for its copies"):
        verify_kernel(replace(kernel, body=body))


@pytest.mark.parametrize("printed", [False, True])
def test_rows_of_another_length_are_found(printed: bool) -> None:
    """The plan's guards keep such a call away."""
    kernel, x = planned("halves").launches[0].kernel, np.zeros((65, 254), ml_dtypes.bfloat16)
    (source, result) = [p.name for p in kernel.parameters if isinstance(p, ir.ArrayParameter)]
    memory, sizes = {source: x, result: np.zeros((254, 65), ml_dtypes.bfloat16)}, {"N": 65, "M": 254}
    text = print_kernel(kernel)
    with pytest.raises(faults.MisalignedVector):
        if printed:
            run_source(text, kernel.name, kernel, memory, sizes, {})
        else:
            run_kernel(kernel, memory, sizes, {})


@pytest.mark.parametrize("printed", [False, True])
def test_vectors_that_begin_behind_the_array_are_found(printed: bool) -> None:
    """Without the mask of the rows that exist."""
    kernel, (x,) = planned("halves").launches[0].kernel, arrays("halves")
    body = tuple(replace(op, where=()) if isinstance(op, ir.AsyncCopy) else op for op in kernel.body)
    kernel = replace(kernel, body=body)
    (source, result) = [p.name for p in kernel.parameters if isinstance(p, ir.ArrayParameter)]
    memory, sizes = {source: x, result: np.zeros((255, 65), ml_dtypes.bfloat16)}, {"N": 65, "M": 255}
    with pytest.raises(faults.OutOfBounds):
        if printed:
            run_source(print_kernel(kernel), kernel.name, kernel, memory, sizes, {})
        else:
            run_kernel(kernel, memory, sizes, {})


@pytest.mark.parametrize(("factor", "end"), [(1, (-7, 7 + 5)), (3, (-21, 3 * (7 + 5)))])
def test_quotients_that_differ_by_little_are_near_each_other(factor: int, end: tuple[int, int]) -> None:
    b, t = digit("b"), digit("t")
    both = ((7 * b + t) // 8 - (7 * b) // 8) * (8 * factor)
    assert interval(both, {"$t": Interval(0, 5)}) == Interval(*end)
    assert interval(both + b, {"$t": Interval(0, 5)}) == Interval(None, None)


def test_what_lies_between_the_classes_of_a_tile_moves_its_rows_apart() -> None:
    """27 x 125 x 39 x 2 x 725 bytes, pieces of 256 along the last axis: those of the second one lie 310 apart, as 6 of
    16 in memory, so that 160 of them are more than 48 KB."""
    assert least_pitch(256, (6, 10, 5, 1), 16) == 310
    assert least_pitch(256, (5, 1), 16) == 293


@pytest.mark.ptx
def test_an_array_of_more_than_32_bits_is_copied_to_its_end() -> None:
    rows = 2**31 // 8191 + 21
    lowered = pf.jit(lambda x: x.T + 1).lower(pf.spec(f"bf16[{rows}, 8191]"), target="h200")
    (kernel,) = lowered.compile().ready.kernels
    assert "cp.async.cg.shared.global" in kernel.kernel.ptx
