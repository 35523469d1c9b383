"""Random programs of several results, planned for sizes where sums go in two stages and scans in parts, at small ones.

The programs of `polyfuse.fuzz` are planned for the arrays that they run on, which are small.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.bindings import is_advisory
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.testing import assert_legal
from tests.fuzz.several_results import SIZES, drawn

SHAPES = [(5, 37), (67, 130), (131, 64), (40, 513), (3, 1100)]
FIXED = 300  # columns up to which their number may be known
PROGRAMS = 12  # of one test


def holds(plan: Plan, sizes: dict[str, int]) -> bool:
    return all(guard.holds(sizes) for guard in plan.guards if not is_advisory(guard))


def run(program: Callable[..., Any], plan: Plan, rows: int, columns: int) -> None:
    dice = np.random.default_rng(rows)
    arrays = [dice.integers(-3, 4, shape).astype(np.float32) for shape in ((rows, columns), columns, rows)]
    with np.errstate(all="ignore"):
        wanted = program(*[a.astype(np.float64) for a in arrays])
        found = run_plan(plan, arrays)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float64), other, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_results_are_those_of_numpy(seed: int) -> None:
    dice, times = Random(seed), 0
    for _ in range(PROGRAMS):
        text = drawn(dice)
        if not text:
            continue
        scope: dict[str, Any] = {"np": np}
        exec(text, scope)
        rows, columns = dice.choice(SIZES)
        known = columns if columns <= FIXED and dice.random() < 0.7 else 0
        width = str(columns) if known else f"M~{columns}"
        specs = [pf.spec(f"f32[{shape}]") for shape in (f"N~{rows}, {width}", width, f"N~{rows}")]
        plan = pf.jit(scope["program"], verify=True).plan(*specs, target="h200")
        assert_legal(plan)
        shapes = [(n, known or m) for n, m in SHAPES if holds(plan, {"N": n, "M": known or m})]
        for shape in shapes[:2]:
            run(scope["program"], plan, *shape)
            times += 1
    assert times > PROGRAMS // 2
