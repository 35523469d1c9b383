"""Arrays written element by element: statements of a few pieces each, however many writes there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import expr
from polyfuse.face.interpreted import run_plan
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


def every_third_column(x: Any) -> Any:
    half = x * 0.5
    some = half.copy()
    some[:, 2::3] += 1
    return half[:, :-2] + half[:, 2:], some


def every_third_row(x: Any) -> Any:
    half = x[1:, 1:] * 0.5 + x[:-1, :-1]
    some = half.copy()
    some[2::3] += 1
    return half[:-2] + half[2:], some


def a_lattice(x: Any) -> Any:
    half = x[1:, 1:] * 0.5 + x[:-1, :-1]
    some = half.copy()
    some[1::2, 1::5] += 1
    return half[:-2, 1:-1] + half[2:, 1:-1] + half[1:-1, :-2] + half[1:-1, 2:] - 4 * half[1:-1, 1:-1], some


@pytest.mark.parametrize("function", [every_third_column, every_third_row, a_lattice])
@pytest.mark.parametrize("spec", ["f32[N~64, M~64]", "f32[64, 64]", "f32[70, 131]"])
def test_strided_updates_read_shared_tiles_inside(function: Any, spec: str) -> None:
    """An element between the steps reads the step before it, which lies in the tile that its block has; the blocks'
    extents are no multiples of the step."""
    plan = pf.jit(function, verify=True).plan(pf.spec(spec), target="h200")
    assert [kernel.strategy for kernel in plan.kernels] == ["stencil"]
    assert any(buffer.name == "half_tile" for launch in plan.launches for buffer in launch.kernel.shared)
    assert_legal(plan)
    for shape in [(64, 64), (70, 131), (9, 5)] if "~" in spec else [plan.program.arguments[0].shape]:
        x = np.random.default_rng(0).standard_normal([int(str(n)) for n in shape]).astype(np.float32)
        for found, expected in zip(run_plan(plan, [x]), function(x), strict=True):
            np.testing.assert_array_equal(found, expected)
