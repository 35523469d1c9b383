"""Kernels of a few megabytes: a launch more is cheap, rows have classes of their own, a block by itself is priced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import ScheduleError
from polyfuse.plan import Plan
from polyfuse.testing import assert_legal
from tests.schedules.normalisations import softmax


def planned(function: Callable[..., Any], *specs: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h200")


def gradients(g, x):
    return (g * x).sum(0), g.sum(0)


def bilinear(x, a, y):
    return ((a * y).sum(1) * x).sum()


def standardised(x):
    d = x - x.mean(0)
    return d / np.sqrt((d * d).mean(0))


@pytest.mark.parametrize(("dtype", "length"), [("f32", 65), ("bf16", 5), ("f16", 10)])
def test_rows_of_two_megabytes_have_classes_of_their_own(dtype: str, length: int) -> None:
    """Softmax of 4 MB on an H100 in lanes that many lengths share and in these: 11 and 5 us, 17 and 6, 9 and 5."""
    count = 4_000_000 // (length * (4 if dtype == "f32" else 2))
    (kernel,) = planned(softmax, f"{dtype}[N~{count}, M~{length}]").kernels
    held = dict(kernel.parameters)
    width = max(1, held.get("lanes", 1)) * max(1, held.get("chunks", 1)) * held.get("vector", 1)
    assert kernel.strategy == "in_thread" or length <= width <= 1.6 * length + held.get("vector", 1)


def test_gradients_of_a_few_rows_are_no_cluster() -> None:
    """One cluster of 16 blocks takes 88 us on an H100, two kernels 7."""
    plan = planned(gradients, "bf16[N~244, M~8192]", "bf16[N, M]")
    assert all(launch.schedule.cluster == 1 for launch in plan.launches)
    assert_legal(plan)


def test_clusters_that_meet_take_longer_from_the_first_wave_on() -> None:
    """A bilinear form of 4 MB: 9 us on an H100 in clusters of 8, 6 in blocks."""
    plan = planned(bilinear, "f32[N~122]", "f32[N, M~8190]", "f32[M]")
    assert all(launch.schedule.cluster == 1 for launch in plan.launches)


def test_blocks_whose_warps_meet_are_small() -> None:
    """Where the least of columns is: 15 us on an H100 in 136 blocks of 1,024 threads, 7 in smaller ones."""
    plan = planned(lambda x: x.argmin(0), "f32[N~1949, M~513]")
    assert all(kernel.threads <= 512 for kernel in plan.kernels)


def test_a_short_row_is_scanned_in_one_trip() -> None:
    (kernel,) = planned(np.cumsum, "f32[1024]").kernels
    assert dict(kernel.parameters)["lanes"] == 256 and not kernel.schedule.of_kind("loop")


def test_one_more_launch_takes_what_was_measured() -> None:
    """Of softmax of 64 x 50 on an H100, behind other work: one kernel 5.4 us, five 18.0."""
    fused, apart = planned(softmax, "f32[64, 50]"), planned(softmax, "f32[64, 50]", fuse=False)
    one, five = (sum(kernel.seconds for kernel in plan.kernels) for plan in (fused, apart))
    assert len(apart.kernels) == 5
    assert 2.5e-6 < (five - one) / 4 < 5e-6


@pytest.mark.parametrize("sizes", [(301, 67), (2051, 2053)])
def test_a_strategy_that_a_value_alone_cannot_have_is_found_with_others(sizes: tuple[int, int]) -> None:
    """Whatever it costs: the user asked for it."""
    rows, columns = sizes

    def function(x: Any) -> Any:
        y = standardised(x)
        return y

    plan = planned(function, f"f32[{rows}, {columns}]", strategies={"y": "columns"})
    assert [kernel.strategy for kernel in plan.kernels] == ["columns"]
    assert_legal(plan)


def test_a_wish_that_no_kernel_can_meet_is_refused() -> None:
    with pytest.raises(ScheduleError, match="one_pass proposes nothing"):
        planned(lambda x: np.exp(x) + 1, "f32[300, 400]", strategies={"add": "one_pass"})
