"""Pairs of elements of two classes, each with a short sum: what a thread holds, what it reads, what threads combine."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.plan import Plan
from polyfuse.testing import assert_equivalent, assert_legal
from tests.schedules.strategies import densities, distances, forces, nearest

POINTS, OTHERS = "f32[N~8192, K~8]", "f32[M~8192, K~8]"


def planned(function: Any, *specs: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h200")


def test_a_thread_holds_points_and_reads_the_others_in_a_loop() -> None:
    plan = planned(distances, "f32[8192, 8]", "f32[8192, 8]")
    (kernel,) = plan.kernels
    loads = {p.name: [loop for loop, _ in p.path] for p in kernel.schedule.placed if p.role == "load"}
    assert kernel.strategy == "pairs"
    assert sorted(loads.values()) == [[], ["r"]]
    source = plan.source()
    assert "threads_" not in source and "barrier" not in source
    assert len(re.findall(r"Tile\(\(.*, 8\), \(.*, 1\), vector=8\)", source)) == 2  # of points all, at once
    assert "contract(sum_, subtract_, subtract_" in source and "multiply_ =" not in source
    assert plan.cost_analysis().seconds < 2 * (1 << 28) / 4.28e12


COMBINED = [
    (densities, ("f32[8192, 3]", "f32[8192, 3]")),
    (forces, ("f32[8192, 3]",)),
    (nearest, ("f32[1048576, 16]", "f32[64, 16]")),
]


@pytest.mark.parametrize(("function", "specs"), COMBINED, ids=lambda c: getattr(c, "__name__", ""))
def test_threads_combine_the_long_reduction_alone(function: Any, specs: tuple[str, ...]) -> None:
    (kernel,) = planned(function, *specs).kernels
    assert kernel.strategy == "pairs"
    slots = {d.name for d in kernel.schedule.digits if d.kind == "slot"}
    sums = [s for s in kernel.group.statements() if s.monoid == "sum" and len(s.extents) == 3]
    short = [p for p in kernel.schedule.placed if p.role == "compute" and p.value == sums[0].id]
    assert len(short) == 1 and short[0].place[2].names() <= {f"${name}" for name in slots}


SYMBOLIC = [
    (distances, (POINTS, OTHERS), {"N": 37, "M": 300, "K": 8}),
    (distances, ("f16[B~64, N~1024, K~4]", "f16[B, M~1024, K]"), {}),
    (densities, ("f32[N~16384, K~3]", "f32[M~16384, K]"), {"N": 132, "M": 20, "K": 3}),
    (nearest, ("f32[N~1000000, K~16]", "f32[M~64, K]"), {"N": 304, "M": 8, "K": 16}),
    (forces, ("f32[N~8191, K~3]",), {"N": 77, "K": 3}),
]


@pytest.mark.parametrize(("function", "specs", "sizes"), SYMBOLIC, ids=lambda c: getattr(c, "__name__", ""))
def test_sizes_may_be_symbols_and_ragged(function: Any, specs: tuple[str, ...], sizes: dict[str, int]) -> None:
    if not sizes:
        function, sizes = _batched, {"B": 2, "N": 33, "M": 40, "K": 4}
    plan = planned(function, *specs)
    (kernel,) = plan.kernels
    assert kernel.strategy == "pairs"
    assert_legal(plan)
    assert_equivalent(planned(function, *specs, fuse=False), plan, seeds=(0,), sizes=[sizes])


def _batched(a: Any, b: Any) -> Any:
    return ((a[:, :, None] - b[:, None]) ** 2).sum(axis=-1)


def test_a_long_class_dealt_to_blocks_is_added_up_by_the_last() -> None:
    plan = planned(forces, "f32[N~4000, 3]", tiles={"sum_1": {"share": 128, "lanes": 32, "threads": 128}})
    (kernel,) = plan.kernels
    assert kernel.strategy == "pairs" and kernel.schedule.grid_combine
    assert_legal(plan)
    assert_equivalent(planned(forces, "f32[N~4000, 3]", fuse=False), plan, seeds=(0,), sizes=[{"N": 300}])


def test_the_width_of_a_tile_follows_the_registers_that_an_element_takes() -> None:
    for count, most in ((8, 4), (16, 4), (32, 2)):
        widths = {1, 2, 4}
        for width in sorted(widths):
            specs = [f"f32[8192, {count}]"] * 2
            plan = planned(distances, *specs, tiles={"sum": {"vector": width}}, strategies={"sum": "pairs"})
            assert dict(plan.kernels[-1].schedule.parameters)["vector"] == width
        assert dict(planned(distances, *specs).kernels[0].schedule.parameters)["vector"] <= most


def test_longer_sums_are_no_pairs() -> None:
    (kernel,) = planned(distances, "f32[1024, 33]", "f32[1024, 33]").kernels
    assert kernel.strategy != "pairs"


def test_blocks_inside_read_the_others_without_masks() -> None:
    """In vectors of all coordinates of several points: 195 us of 16384 bodies on an H200, 220 with masks."""

    def lennard_jones(p):
        s = 1 / (((p[:, None, :] - p[None, :, :]) ** 2).sum(axis=2) + 0.5) ** 3
        return (4 * s * (s - 1)).sum(axis=1)

    plan = planned(lennard_jones, "f32[N~16384, 3]")
    (kernel,) = plan.kernels
    assert kernel.strategy == "pairs" and "share" in kernel.parameters and kernel.parameters["vector"] == 4
    inside = plan.source().split("    else:")[0]
    loop = inside[inside.index("for r in range") :]
    assert "mask" not in loop.split("store(")[0] and "where(" not in loop
    assert re.search(r"x_2 = load|p_2 = load", loop) and "span=" in plan.source()
    other = pf.jit(lennard_jones, fuse=False).plan(pf.spec("f32[N~16384, 3]"), target="h200")
    assert_equivalent(plan, other, sizes=[{"N": 44}])


def test_what_an_elected_block_stores_is_not_stored_in_a_loop() -> None:
    """Forces of shares were priced 2.2 times what they take: 530 us instead of 429."""

    def attraction(p, mass):
        d = p[:, None, :] - p[None, :, :]
        r = (d * d).sum(axis=2) + 0.01
        return (d * (mass / (r * np.sqrt(r)))[:, :, None]).sum(axis=0)

    (kernel,) = planned(attraction, "f32[16384, 3]", "f32[16384, 1]").kernels
    assert "share" in kernel.parameters and kernel.parameters["vector"] == 4
