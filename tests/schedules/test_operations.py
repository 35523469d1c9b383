"""What kernels compute has the price that was measured, and decides where memory does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.plan import Plan

RECORD = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "functions_h100.json").read_text())
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "arctan": np.arctan,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "power": lambda v: v**1.7,
    "divide": lambda v: 1.5 / v,
    "arctan2": lambda v: np.arctan2(v, np.float32(1.5)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_sums_of_functions_are_predicted(name: str) -> None:
    """Within a quarter of what an H100 takes, where logarithms had 173 us of 590 and powers 387 of 1570."""
    (elements, measured) = next((r[3], r[4]) for r in RECORD["rows"] if r[:3] == [name, "f32", 16])

    def summed(a: Any) -> Any:
        return sum(FUNCTIONS[name](a * np.float32(1 + j / 64) + np.float32(j / 32)) for j in range(16))

    plan = pf.jit(summed).plan(pf.spec(f"f32[N~{elements}]"), target="h100")
    assert 0.75 < 1e6 * plan.cost_analysis().seconds / measured < 1.25


def planned(function: Any, *specs: str) -> Plan:
    return pf.jit(function).plan(*map(pf.spec, specs), target="h100")


def test_cosines_that_neighbours_share_are_computed_once() -> None:
    """Of 4001 x 4003 angles 161 us on an H100 in windows, 276 where a thread computes all four of each of eight."""

    def energies(a: Any) -> Any:
        return sum(np.cos(a - np.roll(a, step, axis)) for step in (1, -1) for axis in (0, 1))

    (kernel,) = planned(energies, "f32[4001, 4003]").kernels
    assert kernel.strategy == "windows"


def test_truths_cost_nothing_where_a_row_is_one_access() -> None:
    """Numbers of eight digits each, 480 MB: 163 us on an H100 in a thread each, 298 where four share a row."""

    def numbers(a: Any, tens: Any) -> Any:
        digits = a - 48
        valid = digits <= 9
        return np.sum(np.where(valid, digits, 0) * tens, axis=1), np.sum(valid, axis=1)

    (kernel,) = planned(numbers, "u8[N~20000001, K~8]", "i64[K]").kernels
    assert kernel.strategy == "in_thread"


def test_columns_of_short_arrays_are_not_stored_by_a_block_each() -> None:
    """Of 3333 rows of 300: 27 us on an H100 in one kernel whose blocks write the sectors of a line together, 16 in two.
    """

    def whitened(a: Any) -> Any:
        d = a - np.mean(a, axis=0)
        return d / np.sqrt(np.mean(d * d, axis=0) + 1e-5)

    assert len(planned(whitened, "f32[N~3333, M~300]").kernels) == 2
