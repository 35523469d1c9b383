"""Reductions over the contiguous axis and an outer one: rows side by side in a block, their class dealt to blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.expr import Reduce, topological
from polyfuse.face.interpreted import run_plan
from polyfuse.rewrites.split import Cut, in_two_stages, outer_first
from polyfuse.testing import assert_legal


def sums(x):
    return x.sum(axis=(0, 2))


def means(x):
    return x.mean(axis=(0, 2))


def maxima(x):
    return (x * 2).max(axis=(0, 2))


def variances(x):
    return x.var(axis=(0, 2))


def scaled(x, w):
    return (x * w[None, :, None]).sum(axis=(0, 2)) * 2


def last_two(x):
    return x.sum(axis=(1, 3))


CASES = [
    (sums, ("f32[B~256, N~2048, C~49]",), {"lanes": 64, "chunks": 1, "unroll": 8, "vector": 1}),
    (sums, ("f32[B~256, N~64, C~3136]",), {"lanes": 256, "chunks": 4, "unroll": 1, "vector": 4, "share": 32}),
    (maxima, ("f32[B~290000, N~33, C~7]",), {"lanes": 8, "beside": 4}),
    (means, ("f16[B~4096, N~100, C~150]",), {"lanes": 128, "vector": 2}),
    (variances, ("f32[B~1024, N~512, C~49]",), {"lanes": 64}),
    (scaled, ("f32[B~1259, N~13, C~4099]", "f32[N]"), {"lanes": 256, "chunks": 4, "share": 32}),
    (means, ("f16[B~14749, N~565, C~12]",), {"lanes": 4, "beside": 8}),
    (sums, ("f16[B~781250, N~16, C~8]",), {"lanes": 1, "beside": 16, "vector": 8}),
    (variances, ("f16[B~20358, N~307, C~16]",), {"beside": 8}),
    (last_two, ("f32[A~64, B~1000, N~33, C~21]",), {"lanes": 32}),
]


@pytest.mark.parametrize(("function", "specs", "tile"), CASES)
def test_short_rows_are_added_up_side_by_side(function, specs, tile) -> None:
    """By the price, means of 2048 channels of 256 planes of 7 x 7 take 30 us on an H200, where rows one behind another
    take 81; sums of 64 channels of 56 x 56 55 and 101."""
    plan = pf.jit(function).plan(*[pf.spec(s) for s in specs], target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "planes"
    assert tile.items() <= dict(kernel.schedule.parameters).items(), kernel.schedule.parameters
    assert_legal(plan)


@pytest.mark.parametrize(("function", "specs", "tile"), CASES)
def test_results_are_those_of_numpy(function, specs, tile) -> None:
    """At sizes beside those that the plan was made for: a last share, row and vector that are not whole."""
    plan = pf.jit(function).plan(*[pf.spec(s) for s in specs], target="h200")
    sizes = {"A": 3, "B": 611, "N": 3, "C": int(specs[0].split("C~")[1].rstrip("]"))}
    names = [part.split("~")[0].strip() for part in specs[0].split("[")[1].rstrip("]").split(",")]
    sizes |= {"B": 67} if sizes["C"] > 1000 or "A" in names else {}
    dtype = np.dtype(specs[0][: specs[0].index("[")].replace("f", "float"))
    x = np.random.default_rng(0).integers(-4, 5, [sizes[n] for n in names]).astype(dtype)
    arguments = [x] + ([np.arange(3, dtype=np.float32)] if function is scaled else [])
    (found,) = run_plan(plan, arguments)
    exact = function(*[a.astype(np.float64) for a in arguments])
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=2e-3 if dtype == np.float16 else 1e-5, atol=1e-3)


def test_rows_of_several_results_lie_beside_each_other_where_each_alone_is_short() -> None:
    """Blocks of single results would share sectors and come to them at different times."""

    def parameters(rows: str, beside: int = 0) -> dict[str, int]:
        tiles = {"sum": {"beside": beside}} if beside else {}
        (kernel,) = pf.jit(sums, tiles=tiles).plan(pf.spec(rows), target="h200").kernels
        return dict(kernel.schedule.parameters)

    assert "beside" not in parameters("f32[B~156250, N~8, C~400]")
    assert "beside" not in parameters("f16[B~1818181, N~5, C~11]"), "threads without a result"
    assert parameters("f32[B~156250, N~64, C~20]", beside=4)["beside"] == 4


def margins(x):
    return x.sum(axis=0), x.sum(axis=-1), (x * x).sum()


MARGINS = (
    "f32[A~819200, B~16, C~4]",
    "f32[A~2184533, B~2, C~12]",
    "f32[A~500000, B~7, C~15]",
    "f16[A~400000, B~16, C~16]",
)


@pytest.mark.parametrize("spec", MARGINS)
def test_a_short_class_that_some_sums_keep_has_threads_and_no_loop(spec: str) -> None:
    """Sums of rows, columns and squares of 819200 x 16 x 4 float32 took an H100 823 us with a loop around reads of 16
    bytes that lie 256 apart, 98 so."""
    plan = pf.jit(margins).plan(pf.spec(spec), target="h100")
    (kernel,) = plan.kernels
    short = int(spec.split("B~")[1].split(",")[0])
    assert kernel.strategy == "planes" and short <= dict(kernel.schedule.parameters)["beside"] < 2 * short
    assert_legal(plan)
    shape = 41 if spec[:3] == "f16" else 1237, short, int(spec.split("C~")[1][:-1])
    x = np.random.default_rng(5).integers(-3, 4, shape).astype(spec[:3].replace("f", "float"))
    for found, exact in zip(run_plan(plan, [x]), margins(x.astype(np.float64)), strict=True):
        np.testing.assert_allclose(found.astype(np.float64), exact, rtol=2e-3 if x.itemsize == 2 else 1e-5, atol=1e-3)


def normalised(x):
    m = x.mean(axis=(0, 2), keepdims=True)
    return (x - m) / np.sqrt(((x - m) ** 2).mean(axis=(0, 2), keepdims=True) * 2 + 1e-3)


SHORT = [
    (sums, "f16[B~1818181, N~5, C~11]", (77, 13, 11)),
    (variances, "f16[B~39062, N~512, C~5]", (77, 16, 5)),
    (maxima, "f16[B~39062, N~512, C~5]", (77, 16, 5)),
    (sums, "u8[B~346020, N~288, C~2]", (77, 16, 2)),
]


@pytest.mark.parametrize(("function", "spec", "shape"), SHORT)
def test_outer_axes_of_planes_whose_rows_are_read_in_parts_are_reduced_first(function, spec, shape) -> None:
    """In columns of memory, whose sums a second kernel adds up; of states of several values each component.  Planes of
    `shape` begin as those of the plan do, in vectors of memory."""
    plan = pf.jit(function).plan(pf.spec(spec), target="h100")
    first, *_, last = plan.kernels  # short rows of columns may be read several at a time
    assert first.strategy == "columns" and last.group.roots >= set(plan.scop.outputs)
    assert_legal(plan)
    dtype = plan.program.arguments[0].dtype.numpy
    x = np.random.default_rng(1).integers(0, 9, shape).astype(dtype)
    (found,) = run_plan(plan, [x])
    np.testing.assert_allclose(found.astype(float), function(x.astype(float)), rtol=2e-3, atol=1e-3)


def first_of_planes(x):
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1).argmax(axis=1)


def test_positions_are_of_the_first_of_equal_elements_of_planes() -> None:
    """Whatever comes first: positions are compared, also those of what is no number."""
    plan = pf.jit(first_of_planes).plan(pf.spec("f16[1000, N~3030, 33]"), target="h100")
    assert [kernel.strategy for kernel in plan.kernels] == ["columns", "rows"]
    x = np.random.default_rng(3).integers(0, 2, (1000, 3, 33)).astype(np.float16)
    x[5, 1, 20] = x[9, 1, 3] = np.nan
    x[0, 2, :4] = x[1:, 2, 3] = 3
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, first_of_planes(x))


def test_statistics_that_all_elements_are_measured_by_are_taken_so_as_well() -> None:
    plan = pf.jit(normalised).plan(pf.spec("f16[B~39062, N~512, C~5]"), target="h100")
    assert [kernel.strategy for kernel in plan.kernels][0] == "columns" and len(plan.kernels) == 3
    assert_legal(plan)
    x = np.random.default_rng(2).integers(-4, 5, (77, 16, 5)).astype(np.float16)
    (found,) = run_plan(plan, [x])
    np.testing.assert_allclose(found.astype(float), normalised(x.astype(float)), rtol=1e-2, atol=1e-2)


STAGES = [lambda p, d: outer_first(p, {d: (1,)}), lambda p, d: in_two_stages(p, {d: Cut(1, 64)}).program]


@pytest.mark.parametrize("stages", STAGES)
def test_states_are_reduced_in_stages_with_all_of_their_components(stages) -> None:
    """One left behind would be a second reduction of the same array."""
    plan = pf.jit(variances).plan(pf.spec("f32[B~1024, N~512, C~49]"), target="h200")
    (moments,) = [s for s in plan.scop.statements if getattr(s, "monoid", None) == "moments"]
    before = [n for n in topological(plan.program.outputs) if isinstance(n, Reduce)]
    assert {n.component for n in before} == {0, 1, 2}
    after = [n for n in topological(stages(plan.program, moments.digest).outputs) if isinstance(n, Reduce)]
    assert len(after) == 6 and not set(before) & set(after)


def test_small_ones_keep_one_row_after_the_other() -> None:
    (kernel,) = pf.jit(sums).plan(pf.spec("f32[B~20, N~30, C~40]"), target="h200").kernels
    assert kernel.strategy != "planes"


def groups_behind_channels(x: Any, gain: Any) -> Any:
    """Group normalisation of channels that lie behind each other: the rows of a group are parts of a sector."""
    n, h, w, c = x.shape
    y = x.reshape(n, h * w, -1, c // 32)
    centred = y - y.mean(axis=(1, 3), keepdims=True)
    variance = (centred * centred).mean(axis=(1, 3), keepdims=True)
    return (centred / np.sqrt(variance + 1e-5)).reshape(x.shape) * gain


@pytest.mark.parametrize(
    ("spec", "beside"), [("f32[N~64, 56, 56, 128]", 2), ("bf16[N~64, 32, 32, 256]", 2), ("f16[N~64, 28, 28, 64]", 8)]
)
def test_rows_that_fill_a_sector_together_have_one_block(spec: str, beside: int) -> None:
    """Groups of 4 of 128 float32, 103 MB: 140 us on an H200 where each has a block, 86 where two have one."""
    dtype, channels = spec.partition("[")[0], spec.rpartition(" ")[2]
    plan = pf.jit(groups_behind_channels).plan(pf.spec(spec), pf.spec(f"{dtype}[{channels}"), target="h200")
    (kernel,) = plan.kernels
    assert kernel.strategy == "planes" and dict(kernel.schedule.parameters)["beside"] == beside


def test_rows_of_whole_sectors_have_blocks_of_their_own() -> None:
    plan = pf.jit(groups_behind_channels).plan(pf.spec("f32[N~64, 28, 28, 512]"), pf.spec("f32[512]"), target="h200")
    tiles = [dict(kernel.schedule.parameters) for kernel in plan.kernels]
    assert all("beside" not in tile for tile in tiles if "cluster" in tile)


@pytest.mark.parametrize("spec", ["f32[N~64, 9, 7, 128]", "f32[N~64, 56, 56, 128]", "f32[N~64, 5, 5, 96]"])
def test_rows_side_by_side_have_the_results_of_numpy(spec: str) -> None:
    _, h, w, c = (int(s) if s.isdigit() else 2 for s in spec[spec.index("[") + 1 : -1].split(", "))
    rng = np.random.default_rng(0)
    x, gain = rng.standard_normal((2, h, w, c)).astype(np.float32), rng.standard_normal(c).astype(np.float32)
    tiles = {"multiply_1": {"beside": 2}}
    for options in ({}, {"strategies": {"multiply_1": "planes"}, "tiles": tiles}):
        plan = pf.jit(groups_behind_channels, **options).plan(pf.spec(spec), pf.spec(f"f32[{c}]"), target="h200")
        (found,) = run_plan(plan, (x, gain))
        exact = groups_behind_channels(x.astype(np.float64), gain.astype(np.float64))
        np.testing.assert_allclose(found, exact, rtol=2e-4, atol=2e-4)
