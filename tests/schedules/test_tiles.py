"""Tiles that are transposed: what a warp writes has no gaps, and its lanes meet different banks of shared memory."""

from __future__ import annotations

import itertools
from collections import Counter
from math import prod

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine, FloorDiv
from polyfuse.face.interpreted import run_plan
from polyfuse.places.boxes import Unbounded, enclosing_box
from polyfuse.plan import Plan
from polyfuse.schedule import Digit, KernelSchedule, Placed
from polyfuse.strategies.situation import slot, thread
from polyfuse.testing import assert_equivalent, assert_legal

WARP, SECTOR, BANKS = 32, 32, 32


def scaled(x, s):
    return x.swapaxes(0, 2) * s


def doubled(x):
    return x.T * 2


def added(x, y):
    return x + y.T


CASES = {
    "odd rows": (doubled, ("f32[N~8191, M~8193]",), 1, 1),
    "odd rows of halves": (doubled, ("bf16[N~8191, M~8192]",), 1, 8),
    "odd rows are written": (scaled, ("f32[A~287, B~604, C~548]", "f32[A]"), 1, 4),
    "bytes in odd rows": (doubled, ("u8[N~8191, M~16384]",), 1, 8),
    "odd rows are read": (doubled, ("f32[N~8192, M~8193]",), 4, 1),
    "pairs": (doubled, ("f32[N~8190, M~8190]",), 2, 2),
    "pairs of halves": (doubled, ("bf16[N~8190, M~8188]",), 2, 4),
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
        assert firsts == list(range(firsts[0], firsts[0] + width * len(firsts), width)), move.name
        assert width * len(firsts) * plan.scop.dtype(move.value).itemsize >= SECTOR


FRAMED = ["odd rows", "odd rows are written", "pairs", "beside rows"]


@pytest.mark.parametrize("case", FRAMED)
def test_pieces_of_odd_rows_of_words_are_whole_sectors(case: str) -> None:
    """The rest of a sector is another block's, long before or after: without frames 162 us for the reversed axes of 401
    x 403 x 405 on an H200, 144 with them."""
    plan = planned(case)
    (launch,) = plan.launches
    assert dict(launch.schedule.parameters)["frames"] == 8
    (store,) = moves(launch.schedule, "store")
    shape = [extent.evaluate(SIZES | dict(plan.program.hints)) for extent in plan.scop.shape(store.value)]
    steps = [prod(shape[d + 1 :]) for d in range(len(shape))]
    digits = {f"${d.name}": d for d in launch.schedule.digits}
    zero = dict.fromkeys(digits, 0)
    rows = {name for entry in store.place[:-1] for name in entry.names() if name in digits}
    for name, value in itertools.product(sorted(rows), range(7)):
        at = [entry.evaluate(dict(plan.program.hints) | zero | {name: value}) for entry in store.place]
        assert sum([a * step for a, step in zip(at, steps, strict=True)]) * 4 % SECTOR == 0, (name, value)


@pytest.mark.parametrize("case", ["odd rows of halves", "vectors of halves", "odd rows"])
def test_lanes_meet_different_banks(case: str) -> None:
    """What they put and what they get, word by word: eight words of vectors apart, lanes would meet in four banks."""
    (launch,) = planned(case).launches
    (box,) = launch.schedule.shared
    itemsize = 4 if case == "odd rows" else 2
    for move in moves(launch.schedule, "put", "get"):
        place = [entry for entry in move.place if isinstance(entry, Affine)]
        at = sum([(e - o) * p for e, o, p in zip(place, box.origin, box.pitch, strict=True)], Affine.of(0))
        banks = Counter(word % BANKS for word in {itemsize * n // 4 for n in lanes(launch.schedule, at)})
        assert max(banks.values()) == 1, (move.name, banks)


def test_a_box_holds_every_place_of_a_frame() -> None:
    """The places of a row move with where it begins, by less than a frame."""
    digits = {d.name: d for d in (Digit("b", "block", Affine.symbol("N")), thread("t", 1, 8), slot("v", 4))}
    b, t, v = (Affine.symbol(f"${name}") for name in digits)
    for factor, frame in [(7, 8), (3, 8), (5, 4), (-3, 16)]:
        place = 32 * b + 4 * v - ((factor * t + 2 * b) % frame)
        box = enclosing_box([(place,)], digits, ())
        for at in itertools.product(range(5), range(8), range(4)):
            values = dict(zip(("$b", "$t", "$v"), at, strict=True))
            local = place.evaluate(values) - box.origin[0].evaluate(values)
            assert 0 <= local < box.extents[0]
        assert box.extents[0] <= 4 * 3 + 1 + frame - 1


def test_floors_that_no_box_of_one_size_holds_are_refused() -> None:
    digits = {d.name: d for d in (Digit("b", "block", Affine.symbol("N")), thread("t", 1, 8))}
    floor = Affine(((FloorDiv(Affine.symbol("$t") + Affine.symbol("$b"), 3), 2),))
    with pytest.raises(Unbounded):
        enclosing_box([(floor,)], digits, ())


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
        ("f32[N~287, M~100001]", 64, 64),
        ("f32[N~1003, M~100001]", 64, 64),
        ("f32[N~275, M~100001]", 64, 96),
        ("bf16[N~1003, M~100004]", 64, 128),
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
    least = {"N": 72, "M": 136, "A": 64, "B": 0, "C": 72}
    small = {n: least[n] + size % 8 for n, size in plan.program.hints.items()}  # of the same class
    assert_equivalent(loose, plan, seeds=(0,), sizes=[{n: small[n] for n in plan.program.symbols}])


def less_a_row(x, m):
    """Beside what is turned, something runs along its rows: most arrays, by number and by bytes, do."""
    return np.swapaxes(np.exp(x - m[:, None, :]), 1, 2) / m[:, :, None]


@pytest.mark.parametrize("sizes", ["256, 512, 511", "256, 512, 512"])
def test_what_is_written_runs_along_the_tile_whatever_most_arrays_do(sizes: str) -> None:
    """Softmax of x.T along its rows: in a thread for each element, whose stores lie rows apart, 1170 us on an H100."""
    n, _, k = sizes.split(", ")
    plan = pf.jit(less_a_row).plan(pf.spec(f"f32[{sizes}]"), pf.spec(f"f32[{n}, {k}]"), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "tiles" and "a0         = load" not in str(plan)
    assert str(plan).count("shared") == 1  # what is turned


def test_such_tiles_give_what_numpy_gives() -> None:
    draw = np.random.default_rng(2)
    x, m = draw.standard_normal((3, 72, 41)).astype(np.float32), draw.random((3, 41)).astype(np.float32) + 1
    plan = pf.jit(less_a_row).plan(pf.spec("f32[N~256, M~512, K~511]"), pf.spec("f32[N~256, K~511]"), target="h200")
    assert plan.kernels[0].strategy == "tiles"
    assert_legal(plan)
    (found,) = run_plan(plan, [x, m])
    np.testing.assert_allclose(found, less_a_row(x.astype(np.float64), m), rtol=1e-5)


def test_a_softmax_of_turned_rows_is_two_kernels_of_whole_lines() -> None:
    def turned(x):
        z = np.swapaxes(x, 1, 2)
        e = np.exp(z - z.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    plan = pf.jit(turned).plan(pf.spec("f32[N~256, M~512, K~511]"), target="h200")
    assert [kernel.strategy for kernel in plan.kernels] == ["columns", "tiles"]
    x = np.random.default_rng(3).standard_normal((2, 36, 65)).astype(np.float32)
    (found,) = run_plan(plan, [x])
    np.testing.assert_allclose(found, turned(x.astype(np.float64)), rtol=1e-5)


def sum_turned(*arrays):
    return sum(arrays).T


@pytest.mark.parametrize("dtype", ["bf16", "f32", "f64", "u8"])
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("size", [8192, 8191])
def test_tiles_of_several_arrays_fit_in_shared_memory_together(size: int, count: int, dtype: str) -> None:
    """Two tiles of bfloat16 that were as large as a single one were refused: without tiles a sum of two of 8192 x 3 x
    8192, with their last axis in front, took an H200 2969 us, 291 so."""
    specs = [pf.spec(f"{dtype}[N~{size}, M~{size}]")] * count
    plan = pf.jit(sum_turned).plan(*specs, target="h200")
    assert {kernel.strategy for kernel in plan.kernels} == {"tiles"}
    moved = (count + 1) * size**2 * specs[0].dtype.itemsize
    assert sum(kernel.seconds for kernel in plan.kernels) < 3 * moved / plan.target.bandwidth
    assert_legal(plan)
    draw = np.random.default_rng(count)
    shape = (70, 133) if size % 2 else (80, 144)
    arrays = [draw.integers(0, 9, shape).astype(specs[0].dtype.numpy) for _ in range(count)]
    (found,) = run_plan(plan, arrays)
    np.testing.assert_array_equal(found, sum_turned(*arrays), strict=True)


STRIDED = {
    "every second row": lambda x: x.T[::2],
    "every second column": lambda x: x.T[:, ::2] * 2,
    "every third, backwards": lambda x: x[::-3].T + 1,
    "both": lambda x: x[::2, 1::2].T * 2,
}


@pytest.mark.parametrize("dtype", ["bf16", "f32", "u8"])
@pytest.mark.parametrize("case", STRIDED)
def test_elements_that_are_left_out_take_no_shared_memory(case: str, dtype: str) -> None:
    """Every second row of 8192 x 8192 bfloat16 turned was left to threads that read single elements of columns: 302 us
    by price, where its bytes take 50."""
    function, dtype_ = STRIDED[case], pf.spec(f"{dtype}[1]").dtype.numpy
    plan = pf.jit(function).plan(pf.spec(f"{dtype}[N~8192, M~8192]"), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "tiles"
    assert {box.value for box in kernel.schedule.shared} == kernel.group.roots
    assert_legal(plan)
    for shape in ((128, 192), (96, 64)):
        x = np.random.default_rng(3).integers(0, 9, shape).astype(dtype_)
        (found,) = run_plan(plan, [x])
        np.testing.assert_array_equal(found, function(x), strict=True)
