"""Blocks that read the same follow each other, where that is more than the last-level cache holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.cost.counts import Cost
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.schedule import Digit, KernelSchedule
from polyfuse.strategies.situation import Situation
from polyfuse.testing import assert_legal

Function = Callable[..., Any]


def planes(a):
    r, g, b = a[0], a[1], a[2]
    return np.stack([0.3 * r + 0.6 * g + 0.1 * b, b - r, r - g])


def scaled(x, w):
    return x[None] * w[:, None, None]


def planned(function: Function, *specs: str) -> Plan:
    return pf.jit(function).plan(*map(pf.spec, specs), target="h200")


def grid(schedule: KernelSchedule) -> Sequence[Digit]:
    """The digits of blocks, those first in which neighbours differ."""
    return sorted(schedule.of_kind("block"), key=lambda d: d.number)


def gained(x, g, b):
    m = x.mean(axis=(1, 2), keepdims=True)
    v = ((x - m) ** 2).mean(axis=(1, 2), keepdims=True)
    return (x - m) / np.sqrt(v + 1e-5) * g + b


def test_gains_of_long_rows_are_read_by_all_rows_side_by_side() -> None:
    """16 rows of 16 MB with gains and biases of as many: one row after the other, 67 MB go by before a gain is read
    again; an H200 takes 346 us so, 208 where the rows take turns."""
    plan = planned(gained, "f32[B~16, N~1024, M~4096]", "f32[N~1024, M~4096]", "f32[N~1024, M~4096]")
    assert str(grid(plan.kernels[-1].schedule)[0].extent) == "B"
    assert plan.kernels[-1].cost.hbm_bytes < 2.2 * 16 * 4096 * 4096
    assert_legal(plan)


def turned(x, c, s):
    return x[:, ::2] * c - x[:, 1::2] * s


def test_what_is_little_of_all_bytes_turns_no_grid() -> None:
    """Tables of one MB, which 64 batches of as many MB share."""
    plan = planned(turned, "f32[B~64, 2048, 4096]", "f32[4096]", "f32[4096]")
    assert str(grid(plan.kernels[0].schedule)[-1].extent) == "B"


CASES: dict[str, tuple[Function, tuple[str, ...], str]] = {
    "odd planes": (planes, ("f32[3, 6001, 8001]",), "3"),
    "an even image times numbers": (scaled, ("f32[8000, 8000]", "f32[37]"), "37"),
    "an image times numbers": (scaled, ("f32[8191, 8191]", "f32[11]"), "11"),
    "halves": (scaled, ("bf16[8191, 16381]", "bf16[11]"), "11"),
}


@pytest.mark.parametrize("case", CASES)
def test_planes_of_the_same_follow_each_other(case: str) -> None:
    function, specs, first = CASES[case]
    (kernel,) = planned(function, *specs).kernels
    assert str(grid(kernel.schedule)[0].extent) == first


def test_of_few_even_planes_a_thread_has_all() -> None:
    (kernel,) = planned(planes, "f32[3, 6000, 8000]").kernels
    assert dict(kernel.schedule.parameters)["columns"] == 3


def test_copies_of_what_the_cache_forgets_follow_each_other() -> None:
    """Between two copies of a place it would see 32 MB of reads and as many of writes: 480 MB came from memory and went
    there, 152 us on an H100 where 85 are possible.  Walked flat they would come as often."""
    plan = planned(lambda x: np.broadcast_to(x[None], (7, 4001, 2003)) * 1, "f32[4001, 2003]")
    (kernel,) = plan.kernels
    assert str(grid(kernel.schedule)[0].extent) == "7"
    (cost,) = plan.cost_analysis().kernels.values()
    assert cost.bytes_read == 4001 * 2003 * 4


def test_what_the_cache_holds_goes_by_as_it_lies_in_memory() -> None:
    (kernel,) = planned(scaled, "f32[1001, 2001]", "f32[37]").kernels
    assert str(grid(kernel.schedule)[-1].extent) == "37"


@pytest.mark.parametrize("case", CASES)
def test_results_are_the_same(case: str) -> None:
    function, specs, _ = CASES[case]
    short = {"8191": "9", "16381": "21", "6001": "7", "8001": "9", "8000": "8"}
    plan = planned(function, *[re.sub(r"\d{4,}", lambda n: short[n[0]], spec) for spec in specs])
    assert_legal(plan)
    draw = np.random.default_rng(0)
    arguments = plan.program.arguments
    arrays = [draw.standard_normal([n.evaluate({}) for n in a.shape]).astype(a.dtype.numpy) for a in arguments]
    (found,) = run_plan(plan, arrays)
    wanted = function(*[a.astype(np.float64) for a in arrays])
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2e-2, atol=2e-2)


def test_a_plane_after_the_other_is_dearer(monkeypatch: pytest.MonkeyPatch) -> None:
    """624 us on an H100 where the bytes take 380, in this order 386.  Otherwise threads have all three instead."""

    def cost() -> tuple[bool, Cost]:
        plan = planned(planes, "f32[3, 6001, 8001]")
        (found,) = plan.cost_analysis().kernels.values()
        return "columns" in dict(plan.schedules[0].parameters), found

    (whole, here), _ = cost(), monkeypatch.setattr(Situation, "_read_again", {})
    other, there = cost()
    assert not whole and other and there.seconds > 1.05 * here.seconds


def between(x):
    return x[:, 2:] - x[:, :-2]


def test_short_rows_between_are_neighbours_in_a_block_or_in_the_grid() -> None:
    """Blocks that went through all of 480,769 places of a row of 48 bytes before the next row moved every sector again
    and again: three of such rows added take an H100 976 us so, 295 where blocks of the same place follow each other,
    195 where a block has eight of them."""
    wishes = {"strategies": {"subtract": "pointwise"}, "tiles": {"subtract": {"rows": 4, "vector": 1, "threads": 192}}}
    plan = pf.jit(between).plan(pf.spec("f64[N~480769, 13, 6]"), target="h100", **wishes)
    schedule = plan.kernels[0].schedule
    assert str(grid(schedule)[0].extent) == "2" and len(grid(schedule)) == 2
    assert 8 in [d.count for d in schedule.of_kind("thread")]
    x = np.random.default_rng(0).standard_normal((70, 13, 6))
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, between(x))


def test_sums_between_short_rows_go_by_as_they_lie() -> None:
    """Of sums in threads, too, blocks of the nearer dimension follow each other."""
    wish = {"sum": "in_thread"}
    plan = pf.jit(lambda x: x[:, 1:].sum(2)).plan(pf.spec("f32[300001, 10, 3, 6]"), target="h100", strategies=wish)
    (kernel,) = plan.kernels
    assert [d.extent.evaluate({}) for d in grid(kernel.schedule)] == [9, -(-300_001 // 32)]


def test_blocks_of_the_same_place_follow_each_other() -> None:
    """Threads have rows far apart where those between are fewer than a block has; its neighbours are the blocks of the
    rows between: differences of 520833 x 8 x 24 bfloat16 take an H100 550 us in the other order, 188 in this one."""
    wish = {"subtract": "pointwise"}
    plan = pf.jit(between).plan(pf.spec("f64[N~200000, 9, 20]"), target="h100", strategies=wish)
    near, far = grid(plan.kernels[0].schedule)
    assert str(near.extent) == "7" and "N" in str(far.extent)
    x = np.random.default_rng(0).standard_normal((70, 9, 20))
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, between(x))
