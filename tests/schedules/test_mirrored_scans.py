"""Prefixes that are read from the last element to the first, as suffix sums are: one kernel stores the mirror image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.testing import assert_legal


def suffixes(x):
    return np.cumsum(x[..., ::-1], axis=-1)[..., ::-1]


def suffixes_of_columns(x):
    return np.cumsum(x[::-1], axis=0)[::-1] * 2 + x


def forwards_and_back(x):
    return np.cumsum(x, axis=1)[:, ::-1] * 2


def backwards(x):
    return np.cumsum(x, axis=1)[:, ::-1] - x


def suffixes_in_between(x):
    return np.flip(np.maximum.accumulate(np.flip(x, 1), axis=1), 1)


def with_totals(x):
    c = np.cumsum(x[:, ::-1], axis=1)[:, ::-1]
    return c, c * c


def both_ways(x):
    c = np.cumsum(x, axis=1)
    return c + c[:, ::-1]


def tails(x):
    return np.cumsum(x[:, ::-1], axis=1)[:, ::-1][:, 3:]


CASES = (
    (suffixes, "f32[N~67000000]", ((4096,), (8192,), (10000,))),
    (suffixes, "f32[N~16384, M~4096]", ((3, 4096), (2, 3000))),
    (suffixes, "f32[N~2000000, M~37]", ((37, 37), (1, 20))),
    (suffixes, "f32[N~4096, M~20001]", ((2, 20001), (3, 18000))),
    (suffixes, "bf16[N~16384, M~4096]", ((3, 4096), (2, 2560))),
    (suffixes_of_columns, "f32[N~4096, M~16384]", ((300, 512), (65, 68))),
    (suffixes_of_columns, "f32[N~365, M~200001]", ((365, 133), (8, 300))),
    (forwards_and_back, "f32[N~16384, M~4096]", ((3, 4096), (2, 3000))),
    (suffixes_in_between, "f32[L~64, N~500, M~2048]", ((2, 37, 64), (1, 8, 132))),
    (with_totals, "f32[N~16384, M~4096]", ((3, 4096), (2, 3000))),
)


@pytest.mark.parametrize(("function", "spec", "shapes"), CASES)
def test_the_mirror_image_of_a_prefix_needs_no_other_kernel(
    function: Callable[..., Any], spec: str, shapes: tuple[tuple[int, ...], ...]
) -> None:
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    (kernel,) = plan.kernels
    loads = [p for p in kernel.schedule.placed if p.role == "load"]
    assert len({p.value for p in loads}) == 1, plan
    assert_legal(plan)
    for shape in shapes:
        x = np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(pf.spec(spec).dtype.numpy)
        expected = function(x.astype(np.float64))
        found = run_plan(plan, [x])
        for mine, exact in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            np.testing.assert_allclose(mine.astype(np.float64), exact, rtol=1e-2 if spec[0] == "b" else 0)


@pytest.mark.parametrize("function", [backwards, both_ways, tails])
@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_what_else_is_read_of_a_prefix_stays_right(function: Callable[..., Any], target: str) -> None:
    plan = pf.jit(function).plan(pf.spec("f32[N~16384, M~4096]"), target=target)
    assert_legal(plan)
    x = np.random.default_rng(2).integers(-3, 4, (3, 4096)).astype(np.float32)
    np.testing.assert_array_equal(run_plan(plan, [x])[0], function(x))
