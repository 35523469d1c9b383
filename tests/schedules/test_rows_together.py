"""Arrays of few columns, or of columns that are no whole vectors: several rows are read as one, and summed apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16

import polyfuse as pf
from polyfuse.explain.traffic import step_traffic
from polyfuse.expr import Reduce, topological
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.planning.forms import _rows_of
from polyfuse.reference import evaluate
from polyfuse.rewrites.split import Cut, in_two_stages
from polyfuse.run.sizes import hold
from polyfuse.testing import assert_legal


def planned(function: Callable[..., Any], *specs: str) -> Plan:
    return pf.jit(function).plan(*map(pf.spec, specs), target="h200")


FIRST = """\
kernel moments   columns lanes=32 unroll=8 vector=4 share=832   grid ceil(7*C/32) x ceil(floor(N/28)/832)   block 256
  moments = moments(1.0, x[28*i + j, k], 0.0, axis=0)   global, combine grid

kernel region_region_1_divide_1_sqrt   rows lanes=8 chunks=2 vector=4   grid ceil(C/32)   block 256
"""


def test_rows_that_fill_vectors_and_lanes_are_one_row() -> None:
    plan = planned(lambda x: x.std(axis=0), "f32[N~1515151, C~33]")
    assert str(plan).startswith(FIRST)
    assert_legal(plan)
    assert "N - 28 >= 0" in map(str, plan.guards) and hold(plan.guards, {"N": 1515151, "C": 33})
    reads = [transfer for transfer in step_traffic(plan, plan.steps[1]).reads if transfer.name == "x"]
    assert [t.bytes({"N": 1515151, "C": 33}) for t in reads] == [56 * 33 * 4]  # of the rest, not of all


def extremes(x):
    return x.min(axis=0), x.max(axis=0)


def products(x, y):
    return (x * y).sum(axis=0)


def centred(x, y):
    return ((x - x.mean(axis=0)) * (y - y.mean(axis=0))).mean(axis=0)


def logsumexp(x):
    m = x.max(axis=0)
    return np.log(np.exp(x - m).sum(axis=0)) + m


CASES: dict[str, tuple[Callable[..., Any], int, str, int, float]] = {
    "sum": (lambda x: x.sum(axis=0), 1, "f32", 33, 1e-5),
    "standard deviation": (lambda x: x.std(axis=0), 1, "f32", 17, 1e-5),
    "f16": (lambda x: x.var(axis=0), 1, "f16", 37, 2e-3),
    "f64": (lambda x: x.std(axis=0), 1, "f64", 19, 1e-12),
    "bytes": (lambda x: x.mean(axis=0), 1, "u8", 37, 1e-12),
    "bf16": (lambda x: x.mean(axis=0), 1, "bf16", 10, 1e-2),
    "extremes": (extremes, 1, "f32", 45, 0.0),
    "products": (products, 2, "f32", 33, 1e-5),
    "comoments": (centred, 2, "f32", 33, 1e-4),
    "states of exponentials": (logsumexp, 1, "f32", 33, 1e-5),
}
ROWS = {"f32": 50_000_003, "f16": 100_000_003, "bf16": 100_000_003, "f64": 25_000_001, "u8": 100_000_003}


@pytest.mark.parametrize("case", CASES)
def test_all_rows_are_reduced_whatever_is_left_over(case: str) -> None:
    function, count, dtype, columns, error = CASES[case]
    plan = planned(function, *[f"{dtype}[N~{ROWS[dtype] // columns}, C~{columns}]"] * count)
    assert len(plan.kernels) == 2 and [k.strategy for k in plan.kernels][0] == "columns"
    assert_legal(plan)
    least = max(g.expression.constant for g in plan.guards if str(g).startswith("N - ") and g.expression.constant > -64)
    kind = bfloat16 if dtype == "bf16" else plan.program.arguments[0].dtype.numpy
    rng = np.random.default_rng(3)
    for rows in (-least, 67, 100, 128, 131):
        arrays = [rng.integers(0, 7, (rows, columns)).astype(kind) for _ in range(count)]
        found = run_plan(plan, arrays)
        wanted = function(*[a.astype(float) for a in arrays])
        for f, w in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            np.testing.assert_allclose(f.astype(float), w, rtol=error, atol=error)


def test_other_numbers_of_columns_are_read_right_by_the_same_kernels() -> None:
    """How many rows make one is a matter of speed: any columns are read whole."""
    plan = planned(lambda x: x.sum(axis=0), "f32[N~1515151, C~33]")
    for shape in ((61, 33), (300, 1), (57, 64), (29, 5), (1000, 3)):
        x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
        np.testing.assert_array_equal(run_plan(plan, [x])[0], x.sum(axis=0))


@pytest.mark.parametrize("shape", [(3, 61, 33), (5, 64, 7), (2, 7, 33)])
def test_planes_that_are_no_whole_parts_are_not_taken_for_such(shape: tuple[int, int, int]) -> None:
    """Each plane begins where the one before ends, not behind its last whole part."""
    plan = planned(lambda x: x.var(axis=1), "f32[B~61, N~24001, C~33]")
    assert_legal(plan)
    x = np.random.default_rng(0).random(shape).astype(np.float32)
    np.testing.assert_allclose(run_plan(plan, [x])[0], x.astype(float).var(axis=1), rtol=1e-5)


def test_planes_of_whole_parts_are_read_in_them() -> None:
    def parts(x):
        return x.reshape(x.shape[0], -1, 8, x.shape[2]).sum(axis=1)

    plan = planned(parts, "f32[31, 8000, 33]")
    (kernel,) = plan.kernels
    assert kernel.strategy == "columns" and dict(kernel.schedule.parameters)["vector"] == 4
    assert_legal(plan)
    x = np.random.default_rng(1).integers(-9, 9, (31, 8000, 33)).astype(np.float32)
    np.testing.assert_array_equal(run_plan(plan, [x])[0], parts(x))


def test_what_one_reads_in_parts_another_does_not_is_not_merged() -> None:
    """The whole array and its parts have different rows: one of both would read the wrong elements."""

    def both(x):
        return x.reshape(-1, 8, x.shape[1]).sum(axis=0), x.max(axis=0)

    plan = planned(both, "f32[80000, 33]")
    assert_legal(plan)
    x = np.random.default_rng(1).integers(-9, 9, (80000, 33)).astype(np.float32)
    for found, wanted in zip(run_plan(plan, [x]), both(x), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("rows", [12, 13, 16, 19, 23])
@pytest.mark.parametrize("turned", [False, True])
def test_rounds_and_what_is_left_over_are_the_whole(rows: int, turned: bool) -> None:
    def function(x):
        z = x.T * 2 if turned else x * 2
        return z.sum(axis=1 if turned else 0)

    program = planned(function, f"f32[{rows}, 5]").program
    (total,) = [n for n in topological(program.outputs) if isinstance(n, Reduce)]
    staged = in_two_stages(program, {total.digest: Cut(total.axes[0], 4, dealt=True)})
    (first,) = staged.first.values()
    (stage,) = [n for n in topological(staged.program.outputs) if n.digest == first]
    assert [str(n) for n in stage.shape] == ["4", "5"]  # parts in front of the rows that they are of
    x = np.random.default_rng(2).integers(-9, 9, (rows, 5)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(staged.program, [x])[0], function(x))
    assert staged.became[total.digest] != total.digest


def test_parts_are_whole_vectors_that_keep_lanes_busy() -> None:
    for length in (1, 3, 5, 10, 33, 37, 64, 77, 129, 8191):
        for width in (2, 4, 8):
            rows = _rows_of(length, width, 32)
            assert rows * length % width == 0 and rows <= max(64, width)
    assert _rows_of(33, 4, 32) == 28  # 924 of 1024 elements
    assert _rows_of(8191, 8, 32) == 8
    assert _rows_of(64, 4, 32) == 2
