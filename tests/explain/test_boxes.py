"""What a plan says it moves of an array of which a kernel reads a part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.plan import Plan


def planned(function: Callable[..., Any], spec: str, **options: Any) -> Plan:
    return pf.jit(function).plan(pf.spec(spec), target="h200", **options)


BOXES: dict[str, tuple[Callable[..., Any], str, int]] = {
    "a slice": (lambda x: x[:100_000] * 2, "f32[10000000]", 800_000),
    "rows": (lambda x: x[:1000] * 2, "f32[10000, 1000]", 8_000_000),
    "columns": (lambda x: x[:, 5:1005] * 2, "f32[1000, 10000]", 8_000_000),
    "a diagonal": (lambda x: np.diagonal(x) * 2, "f32[4000, 4000]", 32_000),
    "every second": (lambda x: x[::2] * 2, "f32[10000000]", 40_000_000),
    "one row": (lambda x: x[7] * 2, "f32[1000, 1000]", 8_000),
    "neighbours": (lambda x: x[1:500] - x[:499], "f32[1000]", 4 * 500 + 4 * 499),
    "wrapped": (lambda x: np.roll(x, 3) * 2, "f32[1000]", 8_000),
    "turned": (lambda x: x + x.T, "f32[500, 500]", 2_000_000),
}


@pytest.mark.parametrize(("function", "spec", "moved"), BOXES.values(), ids=BOXES)
def test_parts_are_counted_as_parts(function: Callable[..., Any], spec: str, moved: int) -> None:
    for options in ({}, {"fuse": False}):
        plan = planned(function, spec, **options)
        assert plan.hbm_bytes.at() == moved or (options and len(plan.kernels) > 1)
    assert f"HBM bytes {moved}" in planned(function, spec).explain()


def test_sizes_that_vary() -> None:
    plan = planned(lambda x: x[:1000] * 2, "f32[N~10000, M~1000]")
    assert plan.hbm_bytes.at(N=10000, M=7) == 2 * 4 * 1000 * 7


def test_what_is_read_under_conditions_is_the_whole() -> None:
    """A piece of what is joined is read by part of the points."""
    joined = pf.jit(lambda x, y: np.concatenate([x, y]) * 2)
    plan = joined.plan(pf.spec("f32[N~1000]"), pf.spec("f32[M~500]"), target="h200")
    assert plan.hbm_bytes.at(N=1000, M=500) == 2 * 4 * 1500


def test_a_diagonal_is_no_box() -> None:
    """Priced as the box that it lies in, 4000 elements took 1.4 ms."""
    (kernel,) = planned(lambda x: np.diagonal(x) * 2, "f32[4000, 4000]").kernels
    assert kernel.cost.bytes_read <= 4000 * 64 * 1.1 and kernel.seconds < 20e-6
