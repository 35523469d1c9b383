"""Pixels of a few colours, of which planes are made, and planes of which pixels are: a thread has all colours, or lanes
as many as there are have one each."""

from __future__ import annotations

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.testing import assert_legal


def turned(x):
    return x.transpose(0, 2, 1) * 2


@pytest.mark.parametrize("dtype", ["f32", "u8"])
@pytest.mark.parametrize("count", [2, 3, 5, 7, 8, 9, 12])
@pytest.mark.parametrize("order", ["pixels", "planes"])
def test_a_thread_or_as_many_lanes_have_all_colours_of_much(dtype: str, count: int, order: str) -> None:
    """By the price, planes of 64 million float32 in pixels of 5 take 127 us on an H200, where every element is read by
    itself 270; of bytes a ninth."""
    shape = f"B~256, N~50176, C~{count}" if order == "pixels" else f"B~256, C~{count}, N~50176"
    walked = order == "planes" and dtype == "f32"  # odd pixels are walked flat where that takes as long
    wishes = {"multiply": "pointwise"} if walked and count in (5, 7, 9) else {}
    plan = pf.jit(turned).plan(pf.spec(f"{dtype}[{shape}]"), target="h200", strategies=wishes)
    (kernel,) = plan.kernels
    lanes = [d.count for d in kernel.schedule.of_kind("thread")]
    if count < 12 or order == "pixels":
        assert count in dict(kernel.schedule.parameters).values() or count in lanes
    else:  # three vectors of results, or four words of bytes, in one access each
        assert dict(kernel.schedule.parameters)["vector"] > 1
    assert_legal(plan)
    sizes = (3, 1024, count) if order == "pixels" else (3, count, 1024)
    x = np.random.default_rng(count).integers(0, 99, sizes).astype({"f32": np.float32, "u8": np.uint8}[dtype])
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, turned(x))


def test_lanes_are_as_many_as_colours_that_are_written() -> None:
    """Stores of neighbours lie side by side: 86 million float32 take 164 us on an H200, 235 where a thread has five."""
    plan = pf.jit(turned).plan(pf.spec("f32[B~20, C~5, N~432000]"), target="h200")
    (kernel,) = plan.kernels
    assert {d.count for d in kernel.schedule.of_kind("thread")} == {5, 32}
    assert "thread() % 5" in plan.source() and "thread() // 5" in plan.source()


def test_a_size_that_guards_fix_is_known_to_addresses() -> None:
    """Colours of a symbolic number lie at distances known to the compiler, which makes wide accesses of them."""
    source = pf.jit(turned).plan(pf.spec("f32[B~20, N~720000, C~3]"), target="h200").source()
    assert "span=4" in source and "Size(\"C\")" not in source
