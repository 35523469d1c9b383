"""Sums that are cut in a form of their own are cut along an axis that they sum over, whatever dimensions are joined."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.rewrites.split import Cut, in_two_stages, outer_first
from polyfuse.testing import assert_legal

CASES: dict[str, tuple[Callable[[Any], Any], str, dict[str, int]]] = {
    "behind two that are kept": (
        lambda x: np.transpose(x, (2, 3, 0, 1)).sum(axis=-1),
        "u8[A~100, 16, C~7, N~5357]",
        {"A": 100, "C": 7, "N": 3},
    ),
    "between": (
        lambda x: np.transpose(x, (2, 3, 1, 0)).sum(axis=2),
        "u8[A~100, B~160, C~7, N~535]",
        {"A": 5, "B": 160, "C": 7, "N": 3},
    ),
    "two of them": (
        lambda x: np.transpose(x, (2, 3, 0, 1)).sum(axis=(2, 3)),
        "u8[A~100, B~160, C~7, N~535]",
        {"A": 100, "B": 160, "C": 7, "N": 3},
    ),
    "of halves": (
        lambda x: np.transpose(x, (3, 2, 0, 1)).max(axis=-1),
        "f16[A~300, 40, C~11, N~455]",
        {"A": 9, "C": 11, "N": 3},
    ),
}


@pytest.mark.parametrize("target", ["h200", "a100"])
@pytest.mark.parametrize("case", CASES)
def test_sums_of_turned_arrays_are_cut_along_what_they_sum(case: str, target: str) -> None:
    """Bytes of 100 x 16 x 7 x 5357 summed over 16, turned to the end: their statement has three dimensions where two
    are joined, and the third of the program's was cut, which it keeps: half of the results were missing."""
    function, spec, sizes = CASES[case]
    plan = pf.jit(function).plan(pf.spec(spec), target=target)
    assert_legal(plan)
    shape = [sizes.get(e.partition("~")[0], 0) or int(e) for e in spec.partition("[")[2].rstrip("]").split(", ")]
    dtype = {"u8": np.uint8, "f16": np.float16}[spec.partition("[")[0]]
    x = np.random.default_rng(0).integers(0, 30, shape).astype(dtype)
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, function(x))


def test_what_is_kept_is_not_cut() -> None:
    plan = pf.jit(lambda x: x.var(axis=(0, 2))).plan(pf.spec("f32[B~1024, N~512, C~49]"), target="h200")
    (moments,) = [s for s in plan.scop.statements if getattr(s, "monoid", None) == "moments"]
    kept = next(axis for axis in range(3) if axis not in moments.reduced)
    with pytest.raises(AssertionError, match="kept"):
        in_two_stages(plan.program, {moments.digest: Cut(kept, 64)})
    with pytest.raises(AssertionError, match="kept"):
        outer_first(plan.program, {moments.digest: (kept,)})
