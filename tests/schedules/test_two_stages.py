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
