"""Reductions over the contiguous axis and an outer one: rows side by side in a block, their class dealt to blocks."""

from __future__ import annotations

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
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


def test_small_ones_keep_one_row_after_the_other() -> None:
    (kernel,) = pf.jit(sums).plan(pf.spec("f32[B~20, N~30, C~40]"), target="h200").kernels
    assert kernel.strategy != "planes"
