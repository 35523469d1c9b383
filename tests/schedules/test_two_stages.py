"""Sums of many shares in a kernel of their own, beside outputs that the first stages are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.grouping.search import of_roots
from polyfuse.testing import assert_legal
from tests.grouping.model import Model
from tests.grouping.programs import Builder


def balanced(x: Any) -> Any:
    """Probabilities, and how evenly rows choose among them: the counts of choices are sums of float64."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    chosen = np.mean((p >= p.max(axis=-1, keepdims=True)) * 1.0, axis=0)
    return p, np.sum(chosen * p.mean(axis=0)) * x.shape[1]


@pytest.mark.parametrize("rows", [1_000, 100_000, 1_000_000])
def test_what_first_stages_are_made_of_is_stored_before_they_are(rows: int) -> None:
    """Stored behind them it would be read before: kernels that wait for each other were left out, all of them."""
    plan = pf.jit(balanced).plan(pf.spec(f"f32[N~{rows}, 64]"), target="h200")
    assert_legal(plan)
    x = np.random.default_rng(0).standard_normal((90, 64)).astype(np.float32)
    for found, expected in zip(run_plan(plan, [x]), balanced(x.astype(float)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


AXES = (0, 1, 2)
CUT: dict[str, Any] = {
    "cut at the beginning": lambda x: x[:, 1:].mean(axis=AXES),
    "every second": lambda x: x[:, ::2].max(axis=AXES),
    "the other way round": lambda x: np.flip(x, 1).sum(axis=AXES),
    "differences": lambda x: ((x[:, 1:] - x[:, :-1]) ** 2).mean(axis=AXES),
    "rolled": lambda x: np.roll(x, 1, 1).sum(axis=AXES),
    "variances": lambda x: x[:, 1:].var(axis=AXES),
}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("case", CUT)
def test_axes_that_are_no_single_one_are_reduced_by_many_blocks(case: str, dtype: str) -> None:
    """The longest axis alone was dealt to blocks: six of them for columns of 64 x 55 x 56 x 192."""
    function = CUT[case]
    plan = pf.jit(function).plan(pf.spec(f"{dtype}[N~64, 56, 56, 192]"), target="h200")
    size = 64 * 56 * 56 * 192 * plan.program.arguments[0].dtype.itemsize
    assert sum(kernel.seconds for kernel in plan.kernels) < 2.5 * size / plan.target.bandwidth
    assert_legal(plan)
    x = np.random.default_rng(1).integers(-3, 4, (4, 56, 56, 192)).astype(plan.program.arguments[0].dtype.numpy)
    (found,) = run_plan(plan, [x])
    np.testing.assert_allclose(found, function(x.astype(float)), rtol=1e-5, atol=1e-5)


def test_kernels_that_wait_for_each_other_are_no_partition() -> None:
    b = Builder()
    x = b.input()
    shared = b.map("shared", x)
    rows = b.sum(shared, "j")
    model = Model(b.program(b.map("scaled", rows), shared))
    found = {op.tag or op.kind: v for v, op in enumerate(model.program.ops)}
    first, last = frozenset({found["sum"]}), frozenset({found["shared"], found["scaled"]})
    assert of_roots(model, [first, last]) is None
    assert of_roots(model, [frozenset({found["shared"]}), first, frozenset({found["scaled"]})]) is not None
