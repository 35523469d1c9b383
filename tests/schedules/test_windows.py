"""Stencils and shifted reads in windows of registers: every element loaded once per thread, in aligned vectors."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.cost.counts import Sizes
from polyfuse.cost.l1 import l1_accesses
from polyfuse.explain.kernels import KernelView
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.target import H200
from polyfuse.testing import assert_legal
from tests.run.conftest import Jit
from tests.schedules.strategies import differences, heat, mirrored, pairs, two_relaxations


def relax(a: Any) -> Any:
    return 0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])


def relax_twice(a: Any) -> Any:
    return relax(relax(a))


def blur(a: Any) -> Any:
    rows = (a[:-2] + 2 * a[1:-1] + a[2:]) * 0.25
    return (rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]) * 0.25


def pooled(a: Any) -> Any:
    padded = np.pad(a, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2].max((-1, -2))


def box(a: Any) -> Any:
    return np.lib.stride_tricks.sliding_window_view(a, (3, 5)).mean((-1, -2))


def filtered(a: Any) -> Any:
    taps = np.array([1, 4, 6, 4, 1], np.float32)
    return (np.lib.stride_tricks.sliding_window_view(a, 5, axis=0) * taps).sum(-1)


def edges(a: Any) -> Any:
    w = np.lib.stride_tricks.sliding_window_view(np.pad(a, 1, mode="edge"), (3, 3))
    return w.max((-1, -2)) - w.min((-1, -2))


def doubled(a: Any) -> Any:
    """Twice as many rows and columns, halfway between neighbours."""
    h, w = a.shape
    p = np.pad(a, ((0, 1), (0, 1)), mode="edge")
    rows = np.stack([p[:-1], (p[:-1] + p[1:]) * 0.5], 1).reshape(2 * h, w + 1)
    return np.stack([rows[:, :-1], (rows[:, :-1] + rows[:, 1:]) * 0.5], 2).reshape(2 * h, 2 * w)


def planned(function: Any, spec: str, **options: Any) -> Plan:
    return pf.jit(function).plan(pf.spec(spec), target="h200", **options)


def only(plan: Plan) -> KernelView:
    (kernel,) = plan.kernels
    return kernel


def interior(plan: Plan) -> str:
    """The printed branch of blocks that touch no border."""
    found = re.search(r"\n    if .*?\n(.*?)\n    else:", plan.source(), re.S)
    assert found is not None
    return found[1]


def test_two_steps_load_each_element_once_and_keep_the_first_step_in_registers() -> None:
    kernel = only(planned(relax_twice, "f32[8192, 8192]"))
    assert (kernel.strategy, kernel.shared_bytes, len(kernel.statement("multiply").places)) == ("windows", 0, 1)
    (load,) = (p for p in kernel.schedule.placed if p.role == "load")
    extents = sorted(d.count for d in kernel.schedule.of_kind("slot") if d.name in load.digits())
    assert extents == sorted([dict(kernel.schedule.parameters)["rows"] + 4, 2, 4])  # columns 0 .. 7 of 4 + 2 * 2


def _loaded(source: str) -> list[str]:
    """Names of the tiles that are loaded."""
    return re.findall(r"load\(.*, (\w+)\)$", source, re.M)


def test_blocks_inside_need_no_masks() -> None:
    plan = planned(relax_twice, "f32[8192, 8192]")
    assert "mask" not in interior(plan)
    assert "mask" in plan.source()


@pytest.mark.parametrize(
    ("function", "spec", "columns", "loaded"),
    [
        (relax, "f32[4096, 4096]", 2, 2),  # rows of 4096 elements are read, of 4094 written
        (relax, "f32[4095, 4095]", 2, 1),  # two columns per thread, loaded one by one
        (relax_twice, "f32[4096, 4096]", 4, 4),
        (mirrored, "f16[2048, 4096]", 8, 8),
        (pairs, "f32[2048, 4096]", 4, 4),
        (heat, "f32[64, 256, 510]", 4, {2, 4}),  # rows of 510 elements are read, of 508 written
        (pooled, "f32[2, 56, 110]", 1, 2),  # rows of 55 elements are written
        (pooled, "f16[2, 56, 112]", 8, 8),
    ],
)
def test_vectors_divide_the_rows_of_each_array(function: Any, spec: str, columns: int, loaded: int | set[int]) -> None:
    """Or spans do, of elements in front of a vector and behind it that are not needed."""
    root = only(planned(function, spec)).stores[0]
    options: dict[str, Any] = {"strategies": {root: "windows"}, "tiles": {root: {"rows": 4, "columns": columns}}}
    plan = planned(function, spec, **options)
    assert_legal(plan)
    tiles = set(re.findall(r"= load\(.*, ([A-Z]\w+)(?:, mask=.*)?\)$", plan.source(), re.M))
    found = {tuple(re.findall(rf"^{tile} = .*(?:vector|span)=(\d+)", plan.source(), re.M)) for tile in tiles}
    assert found == ({(str(n),) for n in ({loaded} if isinstance(loaded, int) else loaded)} if loaded != 1 else {()})


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (relax, "f32[4096, 4096]"),
        (relax_twice, "f32[4096, 4096]"),
        (heat, "f32[64, 256, 510]"),
        (pooled, "f16[2, 56, 112]"),
    ],
)
def test_results_of_a_thread_in_a_row_are_one_store(function: Any, spec: str) -> None:
    root = only(planned(function, spec)).stores[0]
    plan = planned(function, spec, strategies={root: "windows"})
    columns = dict(only(plan).schedule.parameters)["columns"]
    row = plan.program.outputs[0].shape[-1].constant
    width = columns if row % columns == 0 else 2  # of rows that are aligned for two, threads may have four columns
    tiles = set(re.findall(r"store\(\w+, .*?, ([A-Z]\w+), ", plan.source()))
    whole = [t for t in tiles if re.search(rf"^{t} = .*(?:vector|span)={width}\)$", plan.source(), re.M)]
    assert columns > 1 and whole and (len(whole) == len(tiles) or width < columns)  # single elements at a border


def test_bytes_that_become_floats_are_loaded_in_vectors(jit: Jit) -> None:
    """The window is of floats; what is loaded are the bytes of its pairs of columns."""

    def steep(a: Any) -> Any:
        f = a.astype(np.float32)
        return np.abs(f[1:-1, 2:] - f[1:-1, :-2]) + np.abs(f[2:, 1:-1] - f[:-2, 1:-1])

    plan = planned(steep, "u8[4096, 4096]")
    tiles = set(re.findall(r"= load\(.*, ([A-Z]\w+)(?:, mask=.*)?\)$", plan.source(), re.M))
    assert tiles and all(re.search(rf"^{tile} = .*vector=2\)$", plan.source(), re.M) for tile in tiles)
    x = np.random.default_rng(0).integers(0, 255, (19, 36)).astype(np.uint8)
    options: dict[str, Any] = {"strategies": {only(plan).stores[0]: "windows"}}
    np.testing.assert_array_equal(jit(steep, backend="interpreter", target="h200", **options)(x), steep(x))


def test_reversed_rows_are_loaded_as_vectors_and_turned_in_registers() -> None:
    options = {"strategies": {"add": "windows"}, "tiles": {"add": {"columns": 4}}}
    plan = planned(mirrored, "f32[64, 4096]", **options)
    assert [p.role for p in only(plan).schedule.placed].count("take") == 1
    backwards = re.findall(r"^(\w+) = Tile\(.*-1.*\)$", plan.source(), re.M)
    assert [f"take(x, 3, {tile})" in plan.source() for tile in backwards] == [True]
    assert all("vector=4" in plan.source().split(f"{tile} = ")[1].split("\n")[0] for tile in _loaded(plan.source()))


@pytest.mark.parametrize("rows", [8, 2])
@pytest.mark.parametrize(
    ("function", "shape", "dtype"),
    [
        (relax, (70, 138), "f4"),
        (relax, (19, 67), "f2"),
        (relax, (35, 66), "f8"),
        (relax, (35, 66), "i4"),
        (relax_twice, (40, 132), "f4"),
        (relax_twice, (23, 45), "f4"),
        (blur, (34, 77), "f4"),
        (heat, (5, 20, 70), "f4"),
        (differences, (2049,), "f2"),
        (pooled, (2, 18, 70), "f4"),
        (pooled, (3, 17, 35), "f2"),
        (pooled, (1, 3, 6), "f4"),
        (box, (21, 76), "f4"),
        (box, (9, 37), "f2"),
        (filtered, (29, 132), "f4"),
        (filtered, (11, 33), "f8"),
        (edges, (19, 68), "u1"),
        (edges, (14, 41), "f4"),
        (doubled, (9, 34), "f4"),
        (doubled, (12, 7), "f2"),
    ],
)
def test_results(jit: Jit, function: Any, shape: tuple[int, ...], dtype: str, rows: int) -> None:
    x = (np.random.default_rng(rows).standard_normal(shape) * 8).astype(dtype)
    spec = f"{np.dtype(dtype).kind}{8 * np.dtype(dtype).itemsize}{list(shape)}"
    root = planned(function, spec).kernels[-1].stores[0]
    options: dict[str, Any] = {"strategies": {root: "windows"}, "tiles": {root: {"rows": rows}}}
    fused = planned(function, spec, **options)
    assert [k.strategy for k in fused.kernels] == ["windows"]
    assert_legal(fused)
    got = jit(function, backend="interpreter", target="h200", **options)(x)
    expected = function(x.astype("f8")).astype(got.dtype)
    np.testing.assert_allclose(got.astype("f8"), expected.astype("f8"), rtol=4e-3 if dtype == "f2" else 1e-5, atol=1e-2)


def test_interleaved_results_are_made_by_the_threads_that_have_both() -> None:
    plan = planned(doubled, "f32[4096, 4096]")
    assert only(plan).strategy == "windows" and interior(plan).count("load(") == 1
    assert_legal(plan)


def test_blocks_side_by_side_take_rows_side_by_side() -> None:
    """Planes are farther apart than rows: what a block loads of its neighbours' rows is still in the cache."""
    source = planned(heat, "f32[512, 512, 512]").source()
    (rows, planes) = (re.search(rf"{name} = block\(0\) // (.*)", source) for name in ("b1", "b2"))
    assert rows is not None and planes is not None and " % " in rows[1] and planes[1].count("//") == 1


def test_few_blocks_at_the_border_do_not_count() -> None:
    """Of nine reads of an image that is padded by its edges almost all blocks make one; of two halves each has half."""

    def padded(a: Any) -> Any:
        p = np.pad(a, ((1, 1), (1, 1)), mode="edge")
        return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]

    def inner(a: Any) -> Any:
        return a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]

    def halves(a: Any) -> Any:
        return np.concatenate([relax(a), -a[1:-1, 1:-1]])

    seconds = [planned(f, f"f32[{n}, {n}]").cost_analysis().seconds for f, n in ((padded, 8192), (inner, 8194))]
    assert seconds[0] == pytest.approx(seconds[1], rel=0.05)
    (both,) = planned(halves, "f32[8192, 8192]").cost_analysis().kernels.values()
    assert both.seconds > 2.5 * 4 * 8192 * 8192 / H200.bandwidth


def test_registers_of_blocks_at_the_border_do_not_keep_others_out() -> None:
    """Where few blocks need many registers, the compiler is told how many of the others are to fit."""

    def taps(p: Any) -> Any:
        n = p.shape[0] - 4
        return sum(p[a : a + n, b : b + n] for a in range(5) for b in range(5))

    padded = only(planned(lambda a: taps(np.pad(a, 2, mode="edge")), "f32[8192, 8192]"))
    whole = only(planned(taps, "f32[8196, 8196]"))
    assert (whole.schedule.minimum_blocks, padded.schedule.minimum_blocks) == (1, 6)
    assert padded.registers <= 65536 // (6 * 128) and padded.occupancy == 6
    assert_legal(planned(lambda a: taps(np.pad(a, 2, mode="edge")), "f32[8192, 8192]"))


def test_sizes_unknown_when_planned_are_guarded() -> None:
    kernel = only(planned(relax_twice, "f32[N~8192, M~8192]"))
    assert dict(kernel.schedule.parameters)["columns"] == 4
    assert {str(g) for g in kernel.guards} >= {"M mod 4 = 0"}


def test_explain_says_what_a_thread_keeps() -> None:
    text = planned(relax_twice, "f32[8192, 8192]").explain()
    assert "each thread loads a window of 8 x 8 of a and takes from it what add, add_1, add_2 and add_3 need" in text
    assert "each thread computes a window of 6 x 6 of multiply and takes from it what add_4" in text


def test_lines_of_the_first_level_cache_are_counted() -> None:
    """A warp's 128 elements: a reversed row, in accesses of whole vectors or in windows of them, is 4 lines, and so are
    a row and the results."""
    for strategy, width, lines in (("pointwise", "vector", 12), ("windows", "columns", 12)):
        options = {"strategies": {"add": strategy}, "tiles": {"add": {width: 4}}}
        kernel = only(planned(mirrored, "f32[4096, 4096]", **options))
        seconds, _ = l1_accesses(kernel.group.scop, kernel.schedule, H200, Sizes(kernel.schedule, {}))
        assert seconds == pytest.approx(4096 * 4096 / 128 * lines / (H200.processors * H200.clock))


def test_one_step_in_place_is_no_window_of_what_others_wrote(jit: Jit) -> None:
    x = np.random.default_rng(0).standard_normal((33, 40)).astype("f4")
    got = jit(two_relaxations, backend="interpreter", target="h200")(x)
    np.testing.assert_allclose(got, two_relaxations(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("spec", ["u8[N~8192, M~8192]", "f16[N~8192, M~8192]", "f32[N~8192, M~8192]"])
def test_a_thread_takes_as_many_results_of_narrow_elements_as_of_others(spec: str) -> None:
    def largest(x):
        p, (n, m) = np.pad(x, 1), x.shape
        return functools.reduce(np.maximum, [p[i : i + n, j : j + m] for i in range(3) for j in range(3)])

    (kernel,) = pf.jit(largest).plan(pf.spec(spec), target="h200").kernels
    taken = dict(kernel.parameters)
    assert kernel.strategy == "windows" and taken["rows"] * taken["columns"] == 16


def gradient(a: Any) -> tuple[Any, Any]:
    return (a[2:, 1:-1] - a[:-2, 1:-1]) * 0.5, (a[1:-1, 2:] - a[1:-1, :-2]) * 0.5


def test_threads_lie_along_rows_whose_pieces_would_tear_sectors() -> None:
    """Results of 8192 columns less two: 271 us on an H200 where a warp has a piece of a row, 218 where a block has.
    Frames have their price as well, see test_neighbours.py."""
    torn = only(planned(gradient, "f32[N~8192, M~8192]", strategies={"multiply_1": "windows"}))
    whole = only(planned(gradient, "f32[N~8194, M~8194]"))
    assert torn.strategy == whole.strategy == "windows"
    assert dict(torn.parameters)["lanes"] == torn.threads and "lanes" not in dict(whole.parameters)
    narrow = only(planned(gradient, "f32[N~8192, M~8192]", tiles={"multiply_1": {"lanes": 32, "rows": 8}}))
    assert narrow.seconds > 1.1 * torn.seconds > 1.1 * whole.seconds


def test_wide_windows_are_read_from_their_text_and_run() -> None:
    spec = "f32[N~8192, M~8192]"
    plan = planned(gradient, spec, strategies={"multiply_1": "windows"})
    assert pf.parse_schedule(str(plan), pf.jit(gradient), pf.spec(spec)).schedules == plan.schedules
    x = np.random.default_rng(1).standard_normal((21, 282)).astype(np.float32)
    for found, expected in zip(run_plan(plan, [x]), gradient(x), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_what_is_written_over_some_columns_is_planned(dtype: str) -> None:
    """Elements of x and of its third columns lie apart by more than a window."""

    def tripled(x):
        y = x.copy()
        y[..., 2:-3:3] *= 2
        return y

    plan = pf.jit(tripled).plan(pf.spec(f"{dtype}[256, 15]"), target="h200")
    assert len(plan.launches) == 1
    x = np.random.default_rng(0).standard_normal((256, 15)).astype({"f64": np.float64, "f32": np.float32}[dtype])
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, tripled(x))

def means_of_twenty(a: Any) -> Any:
    n = a.shape[1]
    return sum(a[:, i : n - 19 + i] for i in range(20)) / 20


def test_a_thread_that_would_hold_much_has_a_single_row() -> None:
    """By ptxas 178 registers for 16 results, of which two blocks have room: 249 us on an H100, 161 in 2 results."""
    plan = pf.jit(means_of_twenty).plan(pf.spec("f32[N~20000, M~2520]"), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "windows" and dict(kernel.parameters)["rows"] == 1
    x = np.random.default_rng(3).uniform(0.5, 2, (5, 340)).astype(np.float32)
    (found,) = run_plan(plan, (x,))
    np.testing.assert_allclose(found, means_of_twenty(x.astype(np.float64)), rtol=1e-5)


def test_few_words_stay_in_many_rows() -> None:
    def smooth(x: Any) -> Any:
        return (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * 0.25

    (kernel,) = pf.jit(smooth).plan(pf.spec("f32[N~8194, M~8194]"), target="h200").kernels
    tile = dict(kernel.parameters)
    assert tile["rows"] * tile["columns"] == 16


def boxes(x: Any) -> Any:
    p = np.pad(x, ((0, 0), (1, 1), (1, 1), (1, 1)))
    return np.lib.stride_tricks.sliding_window_view(p, (3, 3, 3), (1, 2, 3))[:, ::2, ::2, ::2].mean(axis=(-1, -2, -3))


def weno(f: Any) -> Any:
    """Fifth-order reconstruction (Jiang and Shu, Efficient implementation of weighted ENO schemes, 1996)."""
    n = f.shape[1] - 4
    a, b, c, d, e = (f[:, k : k + n] for k in range(5))
    w = [
        0.1 / (1e-6 + (a - 2 * b + c) ** 2 + (a - 4 * b + 3 * c) ** 2) ** 2,
        0.6 / (1e-6 + (b - 2 * c + d) ** 2 + (b - d) ** 2) ** 2,
        0.3 / (1e-6 + (c - 2 * d + e) ** 2 + (3 * c - 4 * d + e) ** 2) ** 2,
    ]
    q = [2 * a - 7 * b + 11 * c, -b + 5 * c + 2 * d, 2 * c + 5 * d - e]
    return (w[0] * q[0] + w[1] * q[1] + w[2] * q[2]) / (w[0] + w[1] + w[2])


def test_quotients_that_wait_for_each_other_leave_room_for_other_threads() -> None:
    """On an H200 403 us in four rows of a thread, 140 registers, and 328 in one; edges with one root keep four."""
    (kernel,) = pf.jit(weno).plan(pf.spec("f32[8192, 8196]"), target="h200").kernels
    assert (kernel.strategy, dict(kernel.schedule.parameters)["rows"]) == ("windows", 1)

    def edges(x: Any) -> Any:
        across, along = x[1:-1, 2:] - x[1:-1, :-2], x[2:, 1:-1] - x[:-2, 1:-1]
        return np.sqrt(across * across + along * along)

    (kernel,) = pf.jit(edges).plan(pf.spec("f32[8194, 8194]"), target="h200").kernels
    assert (kernel.strategy, dict(kernel.schedule.parameters)["rows"] > 1) == ("windows", True)


def test_half_as_many_rows_are_weighed_where_functions_wait_for_each_other() -> None:
    def response(x: Any) -> Any:
        z = np.concatenate((x[:, :2] * 0, x * x, x[:, :2] * 0), axis=1)
        return x / (2 + sum(z[:, k : k + x.shape[1]] for k in range(5))) ** 0.75

    plan = pf.jit(response).plan(pf.spec("f32[256, 96, 55, 55]"), target="h200")
    assert {dict(k.schedule.parameters)["rows"] for k in plan.kernels if k.strategy == "windows"} == {4}


def composed(a: Any, b: Any) -> Any:
    over = a[..., 3:] * np.float32(1 / 255)
    return a[..., :3] * over + b[..., :3] * (1 - over)


def test_channels_beside_one_of_them_are_loaded_whole() -> None:
    """Byte by byte compositing of 8000 x 8000 pixels took an H200 583 us, and 310 so; 299 by its bytes."""
    plan = pf.jit(composed).plan(*[pf.spec("u8[8000, 8000, 4]")] * 2, target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "windows" and dict(kernel.schedule.parameters)["columns"] == 1
    loads = re.findall(r"load\(\w+, \w+, TILE8X4\)", plan.source())
    assert len(loads) == 2 and "TILE8X4 = Tile((8, 1, 4), (512, 0, 1), vector=4)" in plan.source()
    rng = np.random.default_rng(8)
    images = [rng.integers(0, 256, (9, 131, 4), np.uint8) for _ in range(2)]
    (found,) = run_plan(pf.jit(composed).plan(*images, target="h200"), images)
    np.testing.assert_allclose(found, composed(*images), rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize(("parts", "dtype", "columns"), [(4, "f32", 1), (2, "f32", 2), (4, "i16", 2), (2, "bf16", 2)])
def test_a_thread_has_a_vector_of_short_rows(parts: int, dtype: str, columns: int) -> None:
    """Two rows of four would leave every access half of a sector."""

    def turned(x: Any) -> Any:
        y = np.stack([x[:, k - 1] + x[:, k] for k in range(parts)], -1)
        return y

    function = pf.jit(turned, strategies={"y": "windows"})
    (kernel,) = function.plan(pf.spec(f"{dtype}[50000000, {parts}]"), target="h200").kernels
    assert kernel.strategy == "windows" and dict(kernel.schedule.parameters)["columns"] == columns


def test_boxes_take_as_many_words_as_a_thread_has() -> None:
    """Means of 3 x 3 x 3 of every second element of 512 x 128 x 128 x 128 float32: 1,238 us on an H200 with windows of
    225 words, 6,618 with 405, 1,881 to 2,494 in single elements."""
    (kernel,) = pf.jit(boxes).plan(pf.spec("f32[B~512, L~128, N~128, M~128]"), target="h200").kernels
    assert kernel.strategy == "windows" and dict(kernel.parameters) == {
        "threads": 128, "planes": 4, "rows": 2, "columns": 2,
    }  # fmt: skip
    x = np.random.default_rng(5).standard_normal((2, 9, 10, 12)).astype(np.float32)
    plan = pf.jit(boxes).plan(pf.spec("f32[B~512, L~128, N~128, M~128]"), target="h200")
    np.testing.assert_allclose(run_plan(plan, (x,))[0], boxes(x.astype(np.float64)), rtol=1e-4, atol=1e-5)


def far(x: Any) -> Any:
    n = x.shape[1] - 21
    return np.maximum.reduce([x[:, 3 * k : 3 * k + n] for k in range(8)])


def test_far_neighbours_of_odd_rows_are_loaded_by_four() -> None:
    """Of 12,288 rows of 16384 float32, to 16363: 432 us on an H200 by four of one row, 613 by two of eight."""
    plan = pf.jit(far).plan(pf.spec("f32[N~12288, M~16384]"), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "windows" and dict(kernel.parameters) == {"threads": 128, "rows": 1, "columns": 4}
    x = np.random.default_rng(5).standard_normal((5, 340)).astype(np.float32)
    np.testing.assert_array_equal(run_plan(plan, (x,))[0], far(x))
    result, tile = "maximum_6", {"threads": 64, "rows": 4, "columns": 4}
    wished = pf.jit(far, strategies={result: "windows"}, tiles={result: tile})
    assert dict(wished.plan(pf.spec("f32[N~12288, M~16384]"), target="h200").kernels[0].parameters) == tile


def five_rows(x: Any) -> Any:
    return x[:-4] + 2 * x[1:-3] + 4 * x[2:-2] + 2 * x[3:-1] + x[4:]


def test_halves_of_odd_rows_are_stored_side_by_side() -> None:
    """Of 16388 x 8191 float16: 206 us on an H200 where a thread has two columns of eight rows, 176 where it has one."""
    plan = pf.jit(five_rows).plan(pf.spec("f16[N~16388, M~8191]"), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "windows" and dict(kernel.parameters)["columns"] == 1
    x = np.random.default_rng(5).integers(-9, 9, (20, 77)).astype(np.float16)
    np.testing.assert_array_equal(run_plan(plan, (x,))[0], five_rows(x))
