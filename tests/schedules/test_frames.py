"""Rows that begin anywhere in memory: aligned vectors, of which the ends of a row cut some."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import Affine, FloorDiv
from polyfuse.codegen.printer import print_kernel
from polyfuse.errors import KernelError
from polyfuse.face.interpreted import run_plan
from polyfuse.legality import prove
from polyfuse.lower.inspect import flatten
from polyfuse.plan import Plan
from polyfuse.schedule import KernelSchedule
from polyfuse.terms import rewrite
from polyfuse.testing import assert_legal
from polyfuse.verdict import Hazard, Kind
from polyfuse.verify.kernel import verify_kernel

ROWS = "f16[N~20001, M~8191]"


def scaled(x, s):
    return x * s[:, None]


def summed(x):
    return x.sum(axis=1, dtype=np.float32)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def cropped(x):
    return x[1:-1, 1:-1] * 2


def butterfly(x):
    half = x.shape[0] // 2
    return np.concatenate([x[:half] + x[half:], x[:half] - x[half:]])


def log_of_sums(x):
    y = x.astype(np.float32)
    m = y.max(axis=1, keepdims=True)
    return np.log(np.exp(y - m).sum(axis=1)) + m[:, 0]


CASES = {
    "pointwise": (scaled, (ROWS, "f16[N~20001]")),
    "sums": (summed, (ROWS,)),
    "sums of shorter rows": (summed, ("f16[N~60001, M~1999]",)),
    "several passes": (log_of_sums, ("f16[N~4096, M~50257]",)),
    "held nowhere": (softmax, ("f16[N~4096, M~50257]",)),
    "parts of rows": (cropped, (ROWS,)),
    "held in registers for a second pass": (softmax, ("f16[N~20001, M~3001]",)),
}


WISHES = {"pointwise": {"multiply": "pointwise"}}  # flat it is quicker, see test_flat.py
TILES = {"pointwise": {"multiply": {"threads": 128}}}  # parts of rows, see test_whole_rows.py


def planned(case: str, *specs: str) -> Plan:
    function, usual = CASES[case]
    wishes, tiles = WISHES.get(case, {}), TILES.get(case, {})
    return pf.jit(function).plan(*map(pf.spec, specs or usual), target="h200", strategies=wishes, tiles=tiles)


def frames(plan: Plan) -> bool:
    (kernel,) = plan.kernels
    return "frames" in dict(kernel.parameters)


@pytest.mark.parametrize("case", CASES)
def test_vectors_are_aligned_and_cut(case: str) -> None:
    plan = planned(case)
    assert frames(plan) and dict(plan.kernels[0].parameters)["vector"] == 8
    accesses = [op for op in flatten(plan.launches[0].kernel.body) if isinstance(op, (ir.Load, ir.Store))]
    assert any(op.cut and op.vector == 8 for op in accesses)
    assert "_cut(" in plan.source() and "M - " in plan.explain()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("remainder", [1, 3, 5, 7])
def test_results_agree_whatever_rows_begin_with(case: str, remainder: int) -> None:
    """Few rows, the last of which ends where the array does."""
    function, specs = CASES[case]
    usual = int(specs[0].partition("M~")[2][:-1])
    length = usual // 8 * 8 + remainder
    plan = planned(case, *[spec.replace(str(usual), str(length)) for spec in specs])
    rng = np.random.default_rng(remainder)
    shapes = [(5, length), (5,)][: len(specs)]
    arguments = [rng.standard_normal(shape).astype(np.float16) for shape in shapes]
    (found,) = run_plan(plan, arguments)
    exact = function(*[a.astype(np.float64) for a in arguments])
    np.testing.assert_allclose(found, exact, rtol=4e-3, atol=2e-3 * np.abs(exact).max())
    assert frames(plan)


WORDS = {
    "parts of rows": (cropped, "f32[N~8001, M~8003]", (6, 67)),
    "parts of rows in halves of vectors": (cropped, "f32[N~8192, M~8192]", (6, 64)),
    "a triangle": (lambda x: np.tril(x), "f32[N~8001, M~8001]", (7, 65)),
    "rows apart": (lambda x: x[1:] - x[:-1], "f32[N~8001, M~8001]", (7, 65)),
    "halves of all rows, added and taken away": (butterfly, "f32[8, M~8000003]", (8, 67)),
    "doubles": (cropped, "f64[N~5001, M~5001]", (6, 65)),
}


@pytest.mark.parametrize("case", WORDS)
def test_rows_of_words_are_stored_in_whole_vectors(case: str) -> None:
    """Single words tear sectors: 137 us for a triangle of 8001 x 8001 on an H200, 123 in frames."""
    function, spec, shape = WORDS[case]
    name = pf.jit(function).plan(pf.spec(spec), target="h200").kernels[0].stores[0]
    wishes = {name: "pointwise"}  # flat is as quick
    assert frames(pf.jit(function).plan(pf.spec(spec), target="h200", strategies=wishes))
    tiles = {name: {"threads": 128}}  # a block may have a row, see test_whole_rows.py: here it has a part
    plan = pf.jit(function).plan(pf.spec(spec), target="h200", strategies=wishes, tiles=tiles)
    assert frames(plan)
    stores = [op for op in flatten(plan.launches[0].kernel.body) if isinstance(op, ir.Store)]
    assert stores[-1].cut and all(op.vector * (8 if case == "doubles" else 4) == 16 for op in stores)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float64 if case == "doubles" else np.float32)
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, function(x))


def test_few_words_share_one_kernel_of_all_lengths() -> None:
    plans = [pf.jit(cropped).plan(pf.spec(f"f32[N~301, M~{m}]"), target="h200") for m in (301, 302, 303)]
    assert plans[0] == plans[2] and not any(frames(plan) for plan in plans)


PLAIN = {
    "whole vectors": (softmax, ("f16[N~4096, M~4096]",)),
    "words that all rows share": (scaled, ("f32[N~20001, M~8191]", "f32[N~20001]")),  # flat they are quicker
    "sums of words": (lambda x: x.sum(axis=1), ("f32[N~20001, M~8191]",)),
    "bytes": (scaled, ("u8[N~20001, M~8191]", "u8[N~20001]")),
    "one array in memory's order": (lambda x, y: x + y, (ROWS, ROWS)),
}


@pytest.mark.parametrize("case", PLAIN)
def test_others_have_no_frames(case: str) -> None:
    function, specs = PLAIN[case]
    assert not frames(pf.jit(function).plan(*map(pf.spec, specs), target="h200"))


# ---------------------------------------------------------------------------------------------- proof


def moved(schedule: KernelSchedule, times: int, by: int) -> KernelSchedule:
    """With the shift of rows taken `times` and moved on."""

    def place(entry: object) -> object:
        if not isinstance(entry, Affine) or entry.is_linear:
            return entry
        rest, ((atom, factor),) = entry.remainders()
        assert isinstance(atom, FloorDiv)
        return rest + (atom.numerator % atom.denominator) * (factor * times) + by

    return replace(schedule, placed=tuple(p.moved(tuple(map(place, p.place))) for p in schedule.placed))


@pytest.mark.parametrize("case", ["pointwise", "sums", "several passes"])
def test_a_wrong_shift_is_refused(case: str) -> None:
    plan = planned(case)
    (schedule,) = plan.schedules
    assert prove(plan.scop, schedule).kind is Kind.LEGAL
    hazard = Hazard.COVERAGE if case == "pointwise" else Hazard.COMBINE
    for times, by in ((2, 0), (1, 8), (-1, 0)):  # further than the frame is wide, past the first vector, backwards
        verdict = prove(plan.scop, moved(schedule, times, by))
        assert (verdict.kind, verdict.hazard) == (Kind.ILLEGAL, hazard), (times, by)
        assert verdict.witness is not None


def test_rows_without_room_for_the_shift_are_refused() -> None:
    """As many places as elements: the last ones of shifted rows have none."""
    plan = planned("pointwise")
    (schedule,) = plan.schedules
    short = tuple(
        replace(d, extent=Affine.symbol("M").ceildiv(2048)) if d.name == "b0" else d for d in schedule.digits
    )
    verdict = prove(plan.scop, replace(schedule, digits=short))
    assert (verdict.kind, verdict.hazard) == (Kind.ILLEGAL, Hazard.COVERAGE)


def test_vectors_are_not_aligned_where_nothing_says_how_long_rows_are() -> None:
    """Without its guards the kernel may run for rows of any length."""
    from polyfuse.lower.context import kernel_context
    from polyfuse.lower.vectors import vector_width

    plan = planned("pointwise")
    (schedule,) = plan.schedules
    (store,) = [p for p in schedule.placed if p.role == "store"]
    shape, slots = plan.scop.shape(store.value), [d for d in schedule.digits if d.kind == "slot"]
    for guards, width in ((schedule.guards, 8), ((), 1)):
        context = kernel_context(replace(schedule, guards=guards), plan.scop.program)
        assert vector_width(store.place, slots, shape, context)[0] == width


def test_conditions_that_cut_vectors_twice_are_no_kernel() -> None:
    plan = planned("pointwise")
    kernel = plan.launches[0].kernel
    verify_kernel(kernel)
    (load,) = [op for op in kernel.body if isinstance(op, ir.Load) and op.cut]
    twice = replace(load, where=(*load.where, Affine.symbol("$v") * 2 - 3))
    body = tuple(twice if op is load else op for op in kernel.body)
    with pytest.raises(KernelError, match="do not cut vectors of v at one place"):
        verify_kernel(replace(kernel, body=body))
    plain = tuple(replace(load, cut=False) if op is load else op for op in kernel.body)
    with pytest.raises(KernelError, match="varies over v inside a vector"):
        verify_kernel(replace(kernel, body=plain))


@pytest.mark.parametrize("factor", [1, 2])
def test_what_holds_of_every_second_element_cuts_no_vectors(factor: int) -> None:
    """A condition that steps by more than one is tested element by element: no bound says it."""
    function = pf.jit(lambda x: np.exp(x.astype(np.float32)).sum(axis=1))
    kernel = function.plan(pf.spec(ROWS), target="h200").launches[0].kernel

    def stricter(leaf: object) -> object:
        extra = Affine.symbol("$v") * factor - 3
        return ir.Inside((*leaf.where, extra)) if isinstance(leaf, ir.Inside) else leaf

    def changed(op: ir.Op) -> ir.Op:
        if isinstance(op, ir.For):
            return replace(op, body=tuple(map(changed, op.body)))
        return replace(op, values=tuple(rewrite(v, stricter) for v in op.values)) if isinstance(op, ir.Reduce) else op

    body = tuple(map(changed, kernel.body))
    assert body != kernel.body
    text = print_kernel(replace(kernel, body=body))
    assert ("where_cut(" in text) == (factor == 1) and ("where(" in text) == (factor == 2)


@pytest.mark.ptx
def test_the_end_of_a_long_array_has_more_than_32_bits() -> None:
    rows = 2**31 // 50257 + 21
    lowered = pf.jit(scaled).lower(pf.spec(f"f16[{rows}, 50257]"), pf.spec(f"f16[{rows}]"), target="h200")
    (kernel,) = lowered.compile().ready.kernels
    assert str(rows * 50257 - 7) in kernel.kernel.ptx  # from there on no whole vector begins


COLUMNS = {
    "sums": (lambda x: x.sum(axis=0, dtype=np.float32), "f16[N~16383, M~8191]"),
    "few rows": (lambda x: x.sum(axis=0, dtype=np.float32), "f16[N~1001, M~131071]"),
    "weighted sums": (
        lambda x, w: (x * w[:, None]).sum(axis=0, dtype=np.float32),
        "f16[N~16383, M~8191]; f16[N~16383]",
    ),
    "sums in shares": (lambda x: x.sum(axis=0, dtype=np.float32), "f16[N~1000003, M~131]"),
    "largest": (lambda x: x.max(axis=0), "f16[N~16383, M~8191]"),
    "sums of squares, scaled": (lambda x: (x * x).sum(axis=0, dtype=np.float32) * 0.5, "f16[N~16383, M~8191]"),
    "means": (lambda x: x.mean(axis=0, dtype=np.float32), "f16[N~16383, M~8191]"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_columns_of_rows_that_begin_alike_are_read_in_whole_vectors(case: str) -> None:
    """Single elements of 1000003 x 131 bfloat16 take an H200 152 us, whole vectors 76."""
    function, specs = COLUMNS[case][0], COLUMNS[case][1].split("; ")
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    first, second = plan.schedules
    assert first.strategy == "columns"
    assert ["frames" in dict(schedule.parameters) for schedule in (first, second)] == [len(specs) > 1, False]
    loads = [op for op in flatten(plan.launches[0].kernel.body) if isinstance(op, ir.Load) and op.array.startswith("x")]
    assert loads and all(op.vector == 8 and not op.across for op in loads)
    assert_legal(plan)
    for rows, length in ((45, 31), (9, 31), (8, 39)) if "8191" in specs[0] else ((21, 67), (19, 131)):
        random = np.random.default_rng(rows)
        arrays = [random.standard_normal((rows, length)[:rank]).astype(np.float16) for rank in (2, 1)[: len(specs)]]
        (found,) = run_plan(plan, arrays)
        wanted = function(*[a.astype(np.float64) for a in arrays])
        np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=2e-3 if len(specs) == 1 else 2e-2)


def test_columns_in_the_frame_of_another_row_are_refused() -> None:
    """Each block would add up its neighbour's columns."""
    function, spec = COLUMNS["weighted sums"]
    plan = pf.jit(function).plan(*map(pf.spec, spec.split("; ")), target="h200")
    schedule = plan.schedules[0]
    for times, by in ((2, 0), (1, 8), (-1, 0)):
        verdict = prove(plan.scop, moved(schedule, times, by))
        assert verdict.kind is Kind.ILLEGAL and verdict.witness is not None, (times, by)


ALIKE = {
    "whole vectors": "f16[N~16383, M~8192]",
    "pairs": "f16[N~16383, M~8190]",
    "words": "f32[N~16383, M~8191]",
    "little to do": "f16[N~301, M~801]",
    "few rows": "f16[N~301, M~131071]",
}


@pytest.mark.parametrize("case", ALIKE)
def test_columns_stay_in_one_kernel_where_a_second_one_gains_nothing(case: str) -> None:
    plan = pf.jit(lambda x: x.max(axis=0)).plan(pf.spec(ALIKE[case]), target="h200")
    assert len(plan.schedules) == 1 and not any("frames" in dict(s.parameters) for s in plan.schedules)


def test_columns_that_the_user_steers_stay_as_they_are() -> None:
    function, spec = COLUMNS["sums"]
    plan = pf.jit(function, batch_invariant=True).plan(pf.spec(spec), target="h200")
    assert not any("frames" in dict(schedule.parameters) for schedule in plan.schedules)
