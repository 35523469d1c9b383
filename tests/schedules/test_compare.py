"""Exact counts of what fusing removes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.algebra import Formula, size
from polyfuse.errors import ArgumentError, OptionError, PolyfuseError, StalePlanError
from polyfuse.explain.compare import compare
from polyfuse.plan import Plan
from tests.schedules import programs
from tests.schedules.programs import both

N = Formula(size("N"))


def test_scaled_biased_relu_moves_28_n_then_12_n_bytes() -> None:
    loose, fused = both(programs.biased, "f32[N]", "f32[N]")
    difference = compare(loose, fused)
    assert difference.launches == (3, 1)
    assert difference.hbm_bytes == (28 * N, 12 * N)
    assert fused.hbm_bytes < loose.hbm_bytes
    assert fused.hbm_bytes.at(N=1000) == 12_000
    assert difference.fused == [("t", "u", "y")]


def test_measured_times_stand_beside_predicted_ones() -> None:
    def measure(plan: Plan) -> list[float]:
        return [1e-3] * len(plan.steps)

    difference = compare(*both(programs.biased, "f32[N]", "f32[N]"), measure=measure)
    assert difference.measured == pytest.approx((3e-3, 1e-3))
    assert ["measured", "time", "3", "ms", "1", "ms"] in [line.split() for line in str(difference).splitlines()]


def test_the_steps_of_both_plans_are_measured_on_the_arrays_of_a_call() -> None:
    x, bias = np.ones((40, 60), np.float32), np.ones(60, np.float32)
    specs = "f32[M, N]", "f32[N]"
    loose, fused = (programs.plan(rows_over_sums, *specs, target="cpu", fuse=fuse) for fuse in (False, True))
    difference = compare(loose, fused, measure=(x, bias))
    assert dict(difference.sizes) == {"M": 40, "N": 60}
    before, after = difference.before.steps, difference.after.steps
    assert [len(before), len(after)] == [4, 1] and all(s.measured and s.measured > 0 for s in (*before, *after))
    assert difference.measured[0] == pytest.approx(sum(s.measured or 0 for s in before))


def rows_over_sums(x: Any, bias: Any) -> Any:
    y = np.exp(x) + bias
    return y / y.sum(axis=1, keepdims=True)


def test_what_cannot_be_measured_is_an_error_that_says_why() -> None:
    x = np.ones(8, np.float32)
    writing = pf.jit(lambda x: np.exp(x), donate="x").plan(x)
    with pytest.raises(OptionError, match="writes its arguments"):
        compare(writing, writing, measure=(x,))
    rest = pf.jit(lambda x: np.exp(x)).plan(pf.spec("f32[N-1]"), target="cpu")
    with pytest.raises(OptionError, match="nothing to do at these sizes"):
        compare(rest, rest, measure=(x[:0],))
    plan = pf.jit(lambda x: np.exp(x)).plan(pf.spec("f32[N]"), target="cpu")
    with pytest.raises(StalePlanError, match="holds only where N >= 1"):
        compare(plan, plan, measure=(x[:0],))
    with pytest.raises(StalePlanError, match="does not fit these arguments"):
        compare(plan, plan, measure=(x.astype(np.float64),))
    with pytest.raises(ArgumentError, match="takes 1 arguments, and measure= holds 2"):
        compare(plan, plan, measure=(x, x))
    elsewhere = pf.jit(lambda x: np.exp(x)).plan(pf.spec("f32[N]"), target="h200")
    with pytest.raises(PolyfuseError):
        compare(elsewhere, elsewhere, measure=(x,))


def test_the_table() -> None:
    text = str(compare(*both(programs.biased, "f32[N]", "f32[N]"), sizes={"N": 1000}))
    assert text.split("\n\n")[0].splitlines()[:7] == [
        "                  before   after",
        "launches               3       1",
        "intermediates          2       0",
        "tensor accesses        7       3",
        "HBM bytes           28*N    12*N",
        "  at N = 1000      28 kB   12 kB",
        "peak memory        16 kB   12 kB",
    ]
    assert text.endswith("fused   t + u + y")


def test_gated_sigmoid_touches_eight_tensors_then_four() -> None:
    difference = compare(*both(programs.gate, "f32[N]", "f32[N]", "f32[N]"))
    assert difference.accesses == (8, 4)
    assert difference.intermediates_removed == 2
    assert difference.launches == (3, 1)


def test_five_operations_read_each_input_once_and_write_once() -> None:
    difference = compare(*both(programs.chain, "f32[M, N]", "f32[M, N]"))
    assert difference.launches == (5, 1)
    assert [t.name for t in difference.after.steps[0].traffic.reads] == ["x", "y"]
    assert len(difference.after.steps[0].traffic.writes) == 1
    assert difference.intermediates_removed == 4


def test_without_fusion_every_value_of_the_users_is_stored_and_no_other() -> None:
    loose, _ = both(programs.rows_then_columns, "f32[M, N]")
    assert [k.stores for k in loose.kernels] == [("sum",), ("r",), ("c",)]
    product = programs.plan(lambda x, w: x @ w, "f32[64, 32]", "f32[32, 16]", fuse=False, library=False)
    assert len(product.kernels) == 1, "the products of a matrix product are not a value of the user's"
