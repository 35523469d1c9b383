"""Products that sum over something long and have few results: every block has all of these, and a share of the sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.bindings import Guard
from polyfuse.plan import Plan
from polyfuse.testing import assert_equivalent, assert_legal


def product(a: Any, b: Any) -> Any:
    return a.T @ b


def rows_product(a: Any, b: Any) -> Any:
    return a @ b.T


def gram(x: Any) -> Any:
    return x.T @ x


def covariance(x: Any) -> Any:
    d = x - x.mean(axis=0)
    return d.T @ d / (x.shape[0] - 1)


def weighted(x: Any, w: Any, y: Any) -> Any:
    return (x * w[:, None]).T @ y


def normal_equations(a: Any, y: Any) -> Any:
    return a.T @ a, a.T @ y


def with_epilogue(a: Any, b: Any, c: Any) -> Any:
    return np.maximum(a.T @ b + c, 0)


def batched(a: Any, b: Any) -> Any:
    return np.einsum("bki,bkj->bij", a, b)


def planned(function: Any, *specs: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h200")


CASES = [
    (product, ("f32[K~1000000, 32]", "f32[K, 32]"), {"K": 3000}),
    (product, ("f32[K~1000001, I~31]", "f32[K, J~10]"), {"K": 2001, "I": 31, "J": 10}),
    (product, ("bf16[K~1000000, 32]", "bf16[K, 64]"), {"K": 140}),
    (product, ("f16[K~200000, I~64]", "f16[K, J~128]"), {"K": 140, "I": 64, "J": 128}),
    (product, ("f64[K~200000, 16]", "f64[K, 16]"), {"K": 800}),  # of which there are two
    (rows_product, ("f32[32, K~1000000]", "f32[32, K]"), {"K": 140}),
    (gram, ("f32[K~1000000, 48]",), {"K": 140}),
    (covariance, ("f32[K~1000000, 24]",), {"K": 140}),
    (weighted, ("f32[K~1000000, 32]", "f32[K]", "f32[K, 32]"), {"K": 140}),
    (normal_equations, ("f32[K~1000000, 32]", "f32[K]"), {"K": 140}),
    (with_epilogue, ("f32[K~1000000, 32]", "f32[K, 32]", "f32[32, 32]"), {"K": 140}),
    (batched, ("f32[B~8, K~25000, 32]", "f32[B, K, 32]"), {"B": 3, "K": 140}),
]


@pytest.mark.parametrize(("function", "specs", "sizes"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_blocks_have_shares_of_the_sum(function: Any, specs: tuple[str, ...], sizes: dict[str, int]) -> None:
    """Of a million rows of 32 and 32, where one block had the sum of an element, 831 us by the price of an H200."""
    plan = planned(function, *specs)
    (kernel,) = (k for k in plan.kernels if k.strategy == "contraction")
    assert kernel.cost.blocks >= 132
    assert_legal(plan)
    assert_equivalent(planned(function, *specs, fuse=False), plan, seeds=(0,), sizes=[sizes])


def test_many_shares_are_added_up_by_a_kernel_of_their_own() -> None:
    """A block that adds up 528 shares of 4 KB takes longer than all that they sum: of 2**20 rows, 102 us and 139."""
    plan = planned(product, "f32[K~1048576, 32]", "f32[K, 32]")
    first, second = plan.kernels
    assert first.strategy == "contraction" and second.seconds < 10e-6
    assert_legal(plan)
    assert_equivalent(
        planned(product, "f32[K~1048576, 32]", "f32[K, 32]", fuse=False), plan, seeds=(0,), sizes=[{"K": 9001}]
    )
    (alone,) = planned(product, "f32[K~1048576, 32]", "f32[K, 32]", together=[["sum"]]).kernels
    assert "share" in dict(alone.schedule.parameters) and alone.seconds > 1.3 * sum(k.seconds for k in plan.kernels)


def test_all_results_are_in_one_tile() -> None:
    """Guards say how many rows and columns there may be; the next size class has a plan of its own."""
    plan = planned(product, "f32[K~1000000, I~32]", "f32[K, J~16]")
    for sizes, holds in (({"I": 32, "J": 16}, True), ({"I": 36, "J": 16}, False), ({"I": 32, "J": 20}, False)):
        firm = [g for g in plan.guards if isinstance(g, Guard) and not g.advisory]
        assert all(g.holds({"K": 1000000, **sizes}) for g in firm) is holds


@pytest.mark.parametrize("shapes", [("f32[512, 64]", "f32[512, 64]"), ("f32[K~100000, 2048]", "f32[K, 2048]")])
def test_short_sums_and_many_results_are_not_shared(shapes: tuple[str, ...]) -> None:
    (kernel,) = planned(product, *shapes).kernels
    assert "share" not in dict(kernel.schedule.parameters) or kernel.strategy != "contraction"


def test_a_share_may_be_asked_for() -> None:
    tiles = {"y": {"rows": 32, "columns": 32, "depth": 16, "threads": 64, "ahead": 1, "share": 512}}
    plan = planned(product, "f32[K~1000000, 32]", "f32[K, 32]", tiles=tiles, strategies={"y": "contraction"})
    assert dict(plan.kernels[0].schedule.parameters) == tiles["y"]
    assert_legal(plan)


WHOLE = [
    (lambda x: np.einsum("bki,bkj->bij", x, x), ("f32[B~100000, 32, 16]",), {"B": 7}),
    (lambda x, y: x @ y, ("f32[B~50000, 16, 64]", "f32[B, 64, 16]"), {"B": 7}),
    (lambda x, y: x @ y, ("f32[B~50000, I~14, 64]", "f32[B, 64, J~10]"), {"B": 7, "I": 14, "J": 10}),
]


@pytest.mark.parametrize(("function", "specs", "sizes"), WHOLE)
def test_small_products_of_a_batch_are_a_tile_each(
    function: Any, specs: tuple[str, ...], sizes: dict[str, int]
) -> None:
    """100,000 of 32 x 16 with themselves: 142 us by the price of an H200; 588 where a warp has some columns."""
    plan = planned(function, *specs)
    (kernel,) = plan.kernels
    assert kernel.strategy == "contraction" and dict(kernel.schedule.parameters)["rows"] == 16
    assert_legal(plan)
    assert_equivalent(planned(function, *specs, fuse=False), plan, seeds=(0,), sizes=[sizes])


def scores(x: Any) -> Any:
    return np.einsum("bqd,bkd->bqk", x, x)


ITSELF = [
    (gram, ("f32[K~4096, N~1024]",), {"K": 40, "N": 200}),
    (lambda x: x @ x.T, ("f32[M~4096, 64]",), {"M": 152}),
    (lambda x: x @ x.T, ("bf16[M~4096, 64]",), {"M": 152}),
    (covariance, ("f32[K~4096, N~1024]",), {"K": 40, "N": 200}),
    (scores, ("f32[B~64, T~1024, 64]",), {"B": 2, "T": 140}),
    (lambda x: np.exp(x @ x.T * 0.1 - 1), ("f32[M~4096, 64]",), {"M": 152}),
]


@pytest.mark.parametrize(("function", "specs", "sizes"), ITSELF)
def test_products_of_an_array_with_itself_have_tiles_of_both(
    function: Any, specs: tuple[str, ...], sizes: dict[str, int]
) -> None:
    """16384 x 1024 transposed times itself: 1,224 us by the price of an H200, 8,154 where no tile could hold parts of
    one array that lie apart."""
    plan = planned(function, *specs)
    kernel = plan.kernels[-1]
    assert kernel.strategy == "contraction" and len(kernel.schedule.shared) == 2
    assert_legal(plan)
    assert_equivalent(planned(function, *specs, fuse=False), plan, seeds=(0,), sizes=[sizes])


@pytest.mark.parametrize("function", [gram, covariance])
def test_what_tiles_lack_is_put_as_zero_once(function: Any) -> None:
    """Where the depth ends is asked when a tile is put, not when it is multiplied."""
    source = planned(function, "f32[K~16384, N~1024]").source()
    inner = source[source.rindex("for kq in") :]
    assert "contract(" in inner and "where(" not in inner


def test_tiles_are_read_in_vectors() -> None:
    """Rows of a tile begin where vectors do: no access of four elements is taken apart."""
    (kernel,) = planned(gram, "f32[K~16384, N~1024]").kernels
    assert [box.pitch[-2] % 8 for box in kernel.schedule.shared] == [4, 4]
    (turned,) = planned(lambda x: x.T + 1, "f32[M~8192, N~8192]").kernels
    assert [box.pitch[-2] % 2 for box in turned.schedule.shared] == [1]
