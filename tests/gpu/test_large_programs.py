"""Random programs of several results at the sizes that they are planned for, against CuPy in float64."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from tests.fuzz.several_results import SIZES, drawn

pytestmark = pytest.mark.gpu

PROGRAMS = 6  # of one test
CLOSE = 2e-5
"""Of the largest magnitude, and of ten: values are small whole numbers, or means of many."""


def program(text: str, namespace: Any) -> Any:
    scope: dict[str, Any] = {"np": namespace}
    exec(text, scope)
    return scope["program"]


@pytest.mark.parametrize("seed", range(100, 106))
def test_results_are_those_of_cupy(seed: int) -> None:
    cupy = pytest.importorskip("cupy")
    dice = Random(seed)
    for number in range(PROGRAMS):
        text = drawn(dice)
        if not text:
            continue
        rows, columns = dice.choice(SIZES)
        draw = cupy.random.default_rng(number)
        arrays = [draw.integers(-3, 4, s).astype(cupy.float32) for s in ((rows, columns), (columns,), (rows,))]
        fused = pf.jit(program(text, np))
        for result in fused(*arrays):
            result.fill(cupy.nan)  # what the allocator hands out next
        del result
        found = fused(*arrays)
        wanted = program(text, cupy)(*[a.astype(cupy.float64) for a in arrays])
        for one, other in zip(found, wanted, strict=True):
            most = float(cupy.abs(other).max())
            wrong = int((~(cupy.abs(one.astype(cupy.float64) - other) <= CLOSE * (10 + most))).sum())
            assert not wrong, f"{wrong} of {other.size} elements are off, {rows} x {columns}:\n{text}"
        del found, wanted, one, other
        cupy.get_default_memory_pool().free_all_blocks()
