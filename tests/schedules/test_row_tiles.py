"""Reductions along the rows of a product: what a thread loads serves several rows and several columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.plan import Plan
from polyfuse.testing import assert_equivalent, assert_legal
from tests.schedules.strategies import quadratic_forms


def bilinear(x: Any, y: Any, a: Any) -> Any:
    return ((x @ a) * y).sum(axis=-1)


def distances(x: Any, m: Any, a: Any) -> Any:
    d = x - m
    return ((d @ a) * d).sum(axis=-1)


def farthest(x: Any, a: Any) -> Any:
    return (x @ a).max(axis=-1)


def product(x: Any, w: Any) -> Any:
    """Plain products with few columns: tiles of a contraction would have idle threads."""
    return x @ w


def planned(function: Any, *specs: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h200")


POINTS = "f32[N~1000000, 16]"
CASES = [
    (quadratic_forms, ("f32[N~1000000, K~32]", "f32[K, K]"), {"N": 150, "K": 32}),
    (quadratic_forms, ("f32[N~1000000, K~31]", "f32[K, K]"), {"N": 65, "K": 31}),
    (bilinear, (POINTS, POINTS, "f32[16, 16]"), {"N": 300}),
    (distances, (POINTS, "f32[16]", "f32[16, 16]"), {"N": 300}),
    (farthest, ("f32[N~1000000, 32]", "f32[32, 64]"), {"N": 70}),
    (product, ("f32[N~1000000, 64]", "f32[64, 16]"), {"N": 513}),
    (product, ("f32[N~1000001, K~50]", "f32[K, J~10]"), {"N": 65, "K": 50, "J": 10}),
]


@pytest.mark.parametrize(("function", "specs", "sizes"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_threads_have_rows_and_columns(function: Any, specs: tuple[str, ...], sizes: dict[str, int]) -> None:
    plan = planned(function, *specs)
    (kernel,) = plan.kernels
    assert kernel.strategy == "row_tiles"
    loads = [p.digits() & {"q", "v"} for p in kernel.schedule.placed if p.role == "load" and p.path]
    width = dict(kernel.schedule.parameters)["vector"]
    assert {"q"} in loads and ({"v"} if width > 1 else set()) in loads  # a row for all columns, columns for all rows
    assert_legal(plan)
    assert_equivalent(planned(function, *specs, fuse=False), plan, seeds=(0,), sizes=[sizes])


def test_results_along_the_columns_may_be_stored() -> None:
    plan = planned(lambda x, y, a: np.maximum(x @ a + y, 0), "f32[N~1000000, 48]", "f32[N, 32]", "f32[48, 32]")
    assert [kernel.strategy for kernel in plan.kernels] == ["row_tiles"]
    assert_legal(plan)


def test_long_rows_are_left_to_other_schedules() -> None:
    plan = planned(quadratic_forms, "f32[20000, 1024]", "f32[1024, 1024]")
    assert all(kernel.strategy != "row_tiles" for kernel in plan.kernels)


@pytest.mark.parametrize(("depth", "columns"), [(16, 15), (16, 9), (20, 11), (32, 13)])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_odd_columns_are_dealt_by_fours(dtype: str, depth: int, columns: int) -> None:
    """What a thread loads of a row serves four columns: 3125000 rows of 16 bfloat16 with 15 columns take an H100 112
    us, one column of a thread 381."""
    specs = f"{dtype}[N~3000000, {depth}]", f"{dtype}[{depth}, {columns}]", f"{dtype}[{columns}]"
    plan = planned(lambda x, w, b: np.maximum(x @ w + b, 0), *specs, library=False)
    (kernel,) = plan.kernels
    assert kernel.strategy == "row_tiles" and dict(kernel.parameters)["vector"] == 4
    assert_legal(plan)
    other = planned(lambda x, w, b: np.maximum(x @ w + b, 0), *specs, library=False, fuse=False)
    assert_equivalent(other, plan, seeds=(0,), sizes=[{"N": 301}])


def test_whole_vectors_of_columns_have_a_kernel_of_their_own() -> None:
    """2083333 rows of 4 bfloat16 with 24 columns take an H100 100 us by the kernel of 21 columns, 68 by theirs."""
    specs = [pf.spec(s) for s in ("bf16[N~3000000, K~20]", "bf16[K, J~21]", "bf16[J]")]
    plan = pf.jit(lambda x, w, b: np.maximum(x @ w + b, 0), library=False).plan(*specs, target="h100")
    assert dict(plan.kernels[0].parameters)["vector"] == 4
    odd, whole = (all(g.holds({"N": 3_000_000, "K": 20, "J": j}) for g in plan.guards) for j in (23, 24))
    assert odd and not whole
