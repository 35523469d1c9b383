"""Tiles that are transposed: what a warp writes has no gaps, and its lanes meet different banks of shared memory."""

from __future__ import annotations

from collections import Counter

import pytest

import polyfuse as pf
from polyfuse.affine import Affine
from polyfuse.plan import Plan
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.testing import assert_equivalent

WARP, SECTOR, BANKS = 32, 32, 32


def scaled(x, s):
    return x.swapaxes(0, 2) * s


def doubled(x):
    return x.T * 2


def added(x, y):
    return x + y.T


CASES = {
    "odd rows": (doubled, ("f32[N~8191, M~8193]",), 1, 1),
    "odd rows of halves": (doubled, ("bf16[N~8191, M~8193]",), 1, 1),
    "odd rows are written": (scaled, ("f32[A~287, B~604, C~548]", "f32[A]"), 1, 1),
    "odd rows are read": (doubled, ("f32[N~8192, M~8193]",), 4, 1),
    "pairs": (doubled, ("f32[N~8190, M~8190]",), 2, 2),
    "vectors": (doubled, ("f32[N~8192, M~8192]",), 4, 4),
    "vectors of halves": (doubled, ("bf16[N~8192, M~8192]",), 8, 8),
    "beside rows": (added, ("f32[N~8191, M~8191]", "f32[M, N]"), 1, 1),
}


SIZES = {"N": 8192, "M": 8192, "A": 287, "B": 604, "C": 548}


def planned(case: str) -> Plan:
    function, specs, *_ = CASES[case]
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    assert [kernel.strategy for kernel in plan.kernels] == ["tiles"]
    return plan


def lanes(schedule: KernelSchedule, at: Affine) -> list[int]:
    """What `at` is in the threads of the first warp, in the first of all slots and blocks."""
    zero = {f"${d.name}": 0 for d in schedule.digits}
    threads = schedule.of_kind("thread")
    return [
        at.evaluate(SIZES | zero | {f"${d.name}": thread // d.stride % d.count for d in threads})
        for thread in range(WARP)
    ]


def moves(schedule: KernelSchedule, *roles: str) -> list[Placed]:
    return [placed for placed in schedule.placed if placed.role in roles]


@pytest.mark.parametrize("case", CASES)
def test_a_warp_writes_and_reads_whole_sectors(case: str) -> None:
    """Of what one instruction touches nothing is left to another one: stores 16 bytes apart took 452 us for 95 million
    elements of rows of 287 on an H200."""
    plan = planned(case)
    (launch,) = plan.launches
    *_, written, read = CASES[case]
    (box,) = launch.schedule.shared
    staged = [(read, m) for m in moves(launch.schedule, "load") if m.value == box.value]
    for width, move in (*staged, *[(written, m) for m in moves(launch.schedule, "store")]):
        last = move.place[-1]
        assert isinstance(last, Affine)
        firsts = sorted(set(lanes(launch.schedule, last)))
        assert firsts == list(range(0, width * len(firsts), width)), move.name
        assert width * len(firsts) * plan.scop.dtype(move.value).itemsize >= SECTOR


@pytest.mark.parametrize("case", [case for case, (*_, written, read) in CASES.items() if written == read == 1])
def test_lanes_of_single_elements_meet_different_banks(case: str) -> None:
    (launch,) = planned(case).launches
    (box,) = launch.schedule.shared
    for move in moves(launch.schedule, "put", "get"):
        place = [entry for entry in move.place if isinstance(entry, Affine)]
        at = sum([(e - o) * p for e, o, p in zip(place, box.origin, box.pitch, strict=True)], Affine.of(0))
        banks = Counter(word % BANKS for word in set(lanes(launch.schedule, at)))
        assert max(banks.values()) == 1, (move.name, banks)


def test_stores_of_parts_of_sectors_are_dear() -> None:
    """Two results of a thread side by side, one store each: a blur of 12001 x 9999 takes 267 us on an H200, where its
    bytes take 248."""

    def blurred(a):
        rows = (a[:-2] + 2 * a[1:-1] + a[2:]) * 0.25
        return (rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]) * 0.25

    specs = [pf.spec(f"f32[12001, {m}]") for m in (9999, 10002)]
    odd, even = (pf.jit(blurred).plan(spec, target="h200").cost_analysis() for spec in specs)
    assert odd.seconds > 1.05 * even.seconds


@pytest.mark.parametrize(
    ("spec", "tile", "columns"),
    [
        ("f32[N~287, M~100001]", 32, 96),
        ("f32[N~1003, M~100001]", 32, 128),
        ("bf16[N~1003, M~100001]", 64, 128),
        ("f32[N~61, M~1000001]", 64, 64),
    ],
)
def test_tiles_of_single_elements_are_long_where_rows_are(spec: str, tile: int, columns: int) -> None:
    (kernel,) = pf.jit(doubled).plan(pf.spec(spec), target="h200").kernels
    assert kernel.strategy == "tiles"
    found = dict(kernel.parameters)
    assert (found["tile"], found.get("columns", found["tile"])) == (tile, columns)


def test_tiles_take_what_is_asked_for() -> None:
    asked = {"tile": 16, "columns": 32, "threads": 64}
    (kernel,) = pf.jit(doubled, tiles={"multiply": asked}).plan(pf.spec("f32[N~8191, M~8193]"), target="h200").kernels
    assert kernel.strategy == "tiles" and asked.items() <= dict(kernel.parameters).items()


@pytest.mark.parametrize("case", CASES)
def test_every_element_is_computed(case: str) -> None:
    function, specs, *_ = CASES[case]
    loose = pf.jit(function).plan(*map(pf.spec, specs), target="h200", fuse=False)
    plan = planned(case)
    *_, written, read = CASES[case]
    small = {"N": 72 + written % 8, "M": 136 + read % 8, "A": 67, "B": 3, "C": 76}
    assert_equivalent(loose, plan, seeds=(0,), sizes=[{n: small[n] for n in plan.program.symbols}])
