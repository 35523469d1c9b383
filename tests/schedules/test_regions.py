"""Arrays written element by element: statements of a few pieces each, however many writes there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import expr
from polyfuse.rewrites.regions import PIECES, short_regions
from polyfuse.scop import Statement
from polyfuse.testing import assert_legal

WRITES = 520  # one `where` inside the other, they were too deep for a recursive walk of a body


def written(x: Any) -> Any:
    out = np.zeros_like(x)
    for k in range(x.shape[0]):
        out[k] = x[x.shape[0] - 1 - k] * np.float32(k % 7)
    return out


def two_versions(x: Any) -> Any:
    """The second version of an array is the first with more writes in front."""
    out = np.zeros(x.shape[0], np.float32)
    for k in range(70):
        out[k] = x[-1 - k]
    first = out.copy()
    for k in range(70, 130):
        out[k] = x[k]
    return first, out


def test_no_statement_has_many_reads() -> None:
    plan = pf.jit(written, planning_seconds=0.001).plan(pf.spec(f"f32[{WRITES}]"), target="h200")
    reads = [len(s.reads) for s in plan.scop.statements if isinstance(s, Statement)]
    assert PIECES < max(reads) <= PIECES + 1
    assert sum(n > 1 for n in reads) == -(-WRITES // PIECES)


@pytest.mark.parametrize(("backend", "writes"), [("interpreter", 2 * PIECES + 7), ("numba_cpu", PIECES + 2)])
def test_results(backend: str, writes: int) -> None:
    x = np.linspace(-2, 3, writes, dtype=np.float32)
    np.testing.assert_array_equal(pf.jit(written, backend=backend, planning_seconds=0.01)(x), written(x))


def test_versions_share_their_oldest_writes() -> None:
    plan = pf.jit(two_versions, planning_seconds=0.01).plan(pf.spec("f32[130]"), target="h200")
    long = [s for s in plan.scop.statements if isinstance(s, Statement) and len(s.reads) == PIECES]
    assert len(long) == 1, "the first writes and zeros, which is no read, stand in both versions"
    assert_legal(plan)


def test_short_regions_stay_as_they_are() -> None:
    """A rewrite that is not needed is none."""
    traced = pf.jit(lambda x: np.concatenate([x] * (PIECES + 1)) + 1).plan(pf.spec("f32[3]"), target="h200").program
    assert short_regions(traced).outputs == traced.outputs
    assert any(isinstance(n, expr.Region) for n in expr.topological(traced.outputs))
