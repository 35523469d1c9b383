"""Short rows between two classes: threads have whole columns of several batches; and short tiles, rows and matrices."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.plan import Plan
from polyfuse.testing import assert_equivalent, assert_legal


def summed(x: Any) -> Any:
    y = x.sum(axis=1)
    return y


def added_up(x: Any) -> Any:
    y = np.cumsum(x, axis=1)
    return y


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def moments(x: Any) -> Any:
    m = x.mean(axis=1)
    return m, np.mean((x - m[:, None]) ** 2, axis=1)


def centred_prefixes(x: Any) -> Any:
    return np.cumsum(x - x.mean(axis=1, keepdims=True), axis=1)


def planned(function: Any, *specs: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h100")


CASES = [
    (summed, "bf16[N~9412, M~166, K~64]", "batches", {"N": 19, "M": 166, "K": 64}),
    (summed, "f32[N~9412, 150, 24]", "batches", {"N": 7}),
    (added_up, "f32[N~32552, M~64, K~24]", "batches", {"N": 11, "M": 41, "K": 23}),
    (added_up, "f32[N~1092266, 6, 10]", "batches", {"N": 26}),
    (softmax, "f32[N~53418, M~52, K~18]", "panels", {"N": 9, "M": 50, "K": 18}),
    (softmax, "bf16[N~183823, 2, K~272]", "panels", {"N": 4, "K": 272}),
    (softmax, "f16[N~40000, M~9, 33]", "panels", {"N": 5, "M": 9}),
]


@pytest.mark.parametrize(("function", "spec", "strategy", "sizes"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_a_block_has_columns_of_several_batches(function: Any, spec: str, strategy: str, sizes: dict[str, int]) -> None:
    """Of those of 53418 x 52 x 18 float32 a softmax takes an H100 141 us, 269 in blocks of one batch; of 183823 x 2 x
    272 bfloat16 135 and 401."""
    plan = planned(function, spec)
    (kernel,) = plan.kernels
    tile = dict(kernel.schedule.parameters)
    assert kernel.strategy == strategy and tile["threads"] > tile["lanes"]
    assert_legal(plan)
    assert_equivalent(planned(function, spec, fuse=False), plan, seeds=(0,), sizes=[sizes])


@pytest.mark.parametrize("function", [moments, centred_prefixes, added_up, summed])
def test_every_group_that_has_batches_is_right(function: Any) -> None:
    length = 24 if function is centred_prefixes else 80  # longer ones are shared by threads
    spec = f"f32[N~20000, M~{length}, K~20]"
    plan = planned(function, spec)
    assert [k.strategy for k in plan.kernels] == ["batches"]
    assert_legal(plan)
    assert_equivalent(planned(function, spec, fuse=False), plan, seeds=(1,), sizes=[{"N": 10, "M": 77, "K": 20}])


@pytest.mark.parametrize("row", [1, 2, 3, 4])
def test_rows_of_less_than_half_a_line_have_no_such_block(row: int) -> None:
    """Lanes of many batches would touch a line of each in every step: prefixes of 89285 x 140 x 4 float32 take an H100
    512 us so, 138 in columns of a warp."""
    plan = planned(added_up, f"f32[N~89285, 140, {row}]")
    assert "batches" not in {k.strategy for k in plan.kernels}


def softmax_of_rows(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("spec", "width"), [("f32[N~25000000, 2]", 4), ("f32[N~9000000, 4]", 4), ("f64[N~9000000, 2]", 2)]
)
def test_short_rows_are_stored_in_whole_accesses_side_by_side(spec: str, width: int) -> None:
    """25 million pairs of float32 take an H100 135 us, 269 where each lane has four pairs side by side, in accesses of
    eight bytes."""
    plan = planned(softmax_of_rows, spec)
    (kernel,) = plan.kernels
    assert kernel.strategy == "in_thread" and dict(kernel.schedule.parameters)["unroll"] > 1
    accesses = re.findall(r"Tile\(.*(?:span|vector)=(\d+)\)", plan.source())
    assert accesses and max(map(int, accesses)) == width
    assert_legal(plan)
    assert_equivalent(planned(softmax_of_rows, spec, fuse=False), plan, seeds=(0,), sizes=[{"N": 1112}])


def turned(x: Any) -> Any:
    return np.swapaxes(x, 1, 2) + 1


@pytest.mark.parametrize(
    ("spec", "tile", "columns", "sizes"),
    [
        ("bf16[N~41893, J~31, K~77]", 80, 32, {"N": 3, "J": 31, "K": 77}),
        ("bf16[N~18491, J~169, K~32]", 32, 176, {"N": 2, "J": 169, "K": 32}),
        ("f32[N~60000, J~28, K~60]", 64, 32, {"N": 2, "J": 28, "K": 60}),
    ],
)
def test_tiles_are_as_short_as_what_they_turn(spec: str, tile: int, columns: int, sizes: dict[str, int]) -> None:
    """The last axes of 41893 x 31 x 77 bfloat16 take an H100 191 us so, 262 in tiles of 96 x 64."""
    plan = planned(turned, spec)
    (kernel,) = plan.kernels
    has = dict(kernel.schedule.parameters)
    assert kernel.strategy == "tiles" and (has["tile"], has.get("columns", has["tile"])) == (tile, columns)
    assert_legal(plan)
    assert_equivalent(planned(turned, spec, fuse=False), plan, seeds=(0,), sizes=[sizes, sizes | {"N": 1}])


def reversed_axes(x: Any) -> Any:
    return np.transpose(x, (2, 1, 0)) * 2


@pytest.mark.parametrize("shape", ["4, 4", "2, 6", "3, 5"])
def test_a_thread_has_all_of_a_small_matrix_that_lies_apart_in_the_result(shape: str) -> None:
    """3125000 matrices of 4 x 4 float32 take an H100 139 us, 330 where a thread has a row of each."""
    spec = f"f32[N~3125000, {shape}]"
    plan = planned(reversed_axes, spec)
    (kernel,) = plan.kernels
    rows, columns = map(int, shape.split(","))
    assert kernel.strategy == "pointwise" and dict(kernel.schedule.parameters)["columns"] == rows * columns
    assert_legal(plan)
    assert_equivalent(planned(reversed_axes, spec, fuse=False), plan, seeds=(0,), sizes=[{"N": 516}])


def planes_first(x: Any) -> Any:
    return np.swapaxes(x, 0, 1) * 2


def test_rows_of_one_and_a_half_half_sectors_are_turned_in_shared_memory() -> None:
    """192 planes of 43402 rows of six float32 take an H100 171 us so, 233 where each thread moves a row."""
    spec = "f32[A~43402, B~192, 6]"
    plan = planned(planes_first, spec)
    assert [k.strategy for k in plan.kernels] == ["pixel_tiles"]
    assert_legal(plan)
    assert_equivalent(planned(planes_first, spec, fuse=False), plan, seeds=(0,), sizes=[{"A": 70, "B": 37}])


def product(x: Any, w: Any) -> Any:
    y = x @ w
    return y


@pytest.mark.parametrize(("depth", "step"), [(264, 4), (262, 2)])
def test_a_thread_reads_of_a_row_what_one_access_takes(depth: int, step: int) -> None:
    plan = planned(product, f"f32[N~95419, K~{depth}]", "f32[K, 32]", library=False)
    (kernel,) = plan.kernels
    assert kernel.strategy == "row_tiles" and dict(kernel.schedule.parameters)["depth"] == step
    assert re.search(rf"Tile\(\(8, {step}, 1\), .*vector={step}\)", plan.source())
    sizes = {"N": 300, "K": 22 if step == 2 else 24}
    assert_legal(plan)
    apart = planned(product, f"f32[N~95419, K~{depth}]", "f32[K, 32]", library=False, fuse=False)
    assert_equivalent(apart, plan, seeds=(0,), sizes=[sizes])
