"""Sums over many short rows of short elements: threads have whole rows, which move in wide accesses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.plan import Plan
from polyfuse.testing import assert_equivalent, assert_legal


def mean_colour(x: Any) -> Any:
    return x.mean(axis=(0, 1))


def mean_colours(x: Any) -> Any:
    return x.mean(axis=(1, 2))


def column_sum(x: Any) -> Any:
    return x.sum(axis=0)


def largest(x: Any) -> Any:
    return x.max(axis=0)


def where_largest(x: Any) -> Any:
    return x.argmax(axis=0)


def statistics(x: Any) -> Any:
    return x.min(axis=(0, 1)), x.max(axis=(0, 1)), x.mean(axis=(0, 1), dtype=np.float32)


def weighted(x: Any, w: Any) -> Any:
    return (x * w[:, None]).sum(axis=0)


def planned(function: Any, *specs: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h200")


IMAGE = "u8[H~8000, W~9000, 3]"
CASES = [
    (mean_colour, (IMAGE,), {"H": 50, "W": 333}),
    (mean_colour, ("u8[H~8000, W~9000, C~3]",), {"H": 50, "W": 333, "C": 3}),
    (mean_colours, ("u8[B~64, H~1000, W~2000, 3]",), {"B": 3, "H": 50, "W": 332}),
    (statistics, (IMAGE,), {"H": 50, "W": 333}),
    (column_sum, ("bf16[N~30000000, 5]",), {"N": 9001}),
    (largest, ("f16[N~30000000, 7]",), {"N": 9001}),
    (where_largest, ("u8[N~100000000, 3]",), {"N": 70001}),
    (column_sum, ("i8[N~30000000, 10]",), {"N": 9001}),
    (weighted, ("bf16[N~30000001, 3]", "bf16[N]"), {"N": 9001}),
]


@pytest.mark.parametrize(("function", "specs", "sizes"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_threads_have_whole_rows(function: Any, specs: tuple[str, ...], sizes: dict[str, int]) -> None:
    """Means of three colours of 268 MB take 73 us on an H200 by the price, 199 where threads read single bytes."""
    plan = planned(function, *specs)
    kernel = plan.kernels[0]
    assert kernel.strategy == "pixels"
    assert_legal(plan)
    assert_equivalent(planned(function, *specs, fuse=False), plan, seeds=(0,), sizes=[sizes])


@pytest.mark.parametrize("spec", ["f32[N~30000000, 3]", "u8[N~30000000, 4]", "bf16[N~1000, 3]", "u8[3, N~30000000]"])
def test_words_few_rows_and_planes_have_other_schedules(spec: str) -> None:
    assert "pixels" not in {kernel.strategy for kernel in planned(column_sum, spec).kernels}


def test_wide_accesses_stay_inside_where_rows_end() -> None:
    """The blocks whose share ends within read element by element, masked; the others whole vectors without a mask."""
    source = planned(mean_colour, IMAGE).source()
    inside, behind = source.split("    else:\n")
    assert "mask" not in next(line for line in inside.splitlines() if "load(x_in" in line)
    assert "mask" in next(line for line in behind.splitlines() if "load(x_in" in line)
