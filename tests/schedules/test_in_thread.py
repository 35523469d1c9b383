"""Reductions over a few elements: a thread makes whole results, neighbouring threads neighbouring ones."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import nn
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.testing import assert_equivalent, assert_legal


def halved(x: Any) -> Any:
    return nn.max_pool(x, 2)


def pooled(x: Any) -> Any:
    return nn.avg_pool(x, 3, 2, 1)


def depthwise(x: Any, w: Any) -> Any:
    return np.maximum(nn.conv(x, w, padding=1, groups=6), 0)


def windowed(x: Any, w: Any) -> Any:
    return nn.conv(x, w, groups=6)


def turned(p: Any, r: Any) -> Any:
    return p @ r


def lengths(p: Any) -> Any:
    return np.sqrt((p * p).sum(axis=-1))


IMAGES, KERNELS = "f32[N~32, 6, 112, 112]", "f32[6, 1, 3, 3]"
CASES = [
    (halved, [IMAGES], {"N": 2}),
    (pooled, [IMAGES], {"N": 1}),
    (depthwise, [IMAGES, KERNELS], {"N": 1}),
    (turned, ["f32[N~10000000, 3]", "f32[3, 3]"], {"N": 300}),
    (lengths, ["f32[N~10000000, 3]"], {"N": 517}),
    (lengths, ["f32[N~10000000, M~3]"], {"N": 300, "M": 3}),
    (windowed, ["f32[N~32, 6, 112, 112]", "f32[6, 1, P~3, Q~3]"], {"N": 1, "P": 3, "Q": 3}),
    (turned, ["f32[N~10000000, M~3]", "f32[M, 4]"], {"N": 100, "M": 3}),
]


def planned(function: Any, specs: list[str], **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h200")


@pytest.mark.parametrize(("function", "specs", "sizes"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_a_thread_reduces_alone(function: Any, specs: list[str], sizes: dict[str, int]) -> None:
    plan = planned(function, specs)
    (kernel,) = plan.kernels
    assert kernel.strategy in ("in_thread", "windows")
    assert "threads_" not in plan.source() and "barrier" not in plan.source()
    assert_legal(plan)
    assert_equivalent(planned(function, specs, fuse=False, strategies=_rows(plan)), plan, seeds=(0,), sizes=[sizes])


def _rows(plan: Plan) -> dict[str, str]:
    """A strategy of its own for the plan to compare with."""
    reduced = [s.name for s in plan.scop.statements if getattr(s, "is_reduction", False)]
    return dict.fromkeys(reduced, "rows")


def test_windows_that_lie_side_by_side_are_read_as_vectors() -> None:
    source = planned(halved, [IMAGES], strategies={"max": "in_thread"}).source()
    assert re.search(r"Tile\(\(4, 2, 2\), \(2, 112, 1\), vector=2\)", source)
    many = planned(halved, ["f32[N~512, 6, 112, 112]"]).source()
    assert re.search(r"Tile\(.*8, 2, 4\), .*112, 4, 1\), vector=4\)", many)


def pulled(p, v):
    v = v - 0.01 * p / np.sqrt((p * p).sum(axis=-1, keepdims=True) + 0.01)
    return p + v, v


@pytest.mark.parametrize("spec", ["f32[N~20000000, 3]", "f32[N~20000001, 3]"])
def test_points_are_read_in_wide_accesses_whatever_their_number(spec: str) -> None:
    """Coordinates one by one lie 48 bytes from thread to thread: every access of a warp touches 12 lines."""
    plan = planned(lengths, [spec])
    (kernel,) = plan.kernels
    assert kernel.strategy == "in_thread" and dict(kernel.parameters)["vector"] == 4
    inside = plan.source().partition("    else:")[0]
    (load,) = [line for line in inside.splitlines() if "load(" in line]
    tile = load.split(", ")[2].rstrip(")")
    assert re.search(rf"{tile} = Tile\(.*span=4\)", inside) and "mask=" not in load


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_neighbours_have_the_points_that_are_written(dtype: str) -> None:
    """Four points a thread leave gaps in what a warp writes at once: 277 us of 20 million on an H200, one 233."""
    specs = [f"{dtype}[N~20000000, 3]"] * 2
    plan = planned(pulled, specs)
    (kernel,) = plan.kernels
    assert kernel.strategy == "in_thread" and dict(kernel.parameters)["vector"] == 1
    assert_equivalent(planned(pulled, specs, fuse=False), plan, seeds=(0,), sizes=[{"N": 1030}])


def test_long_or_symbolic_reductions_are_dealt_to_threads() -> None:
    for spec in ("f32[N~100000, 33]", "f32[N~100000, M~5]"):
        (kernel,) = planned(lengths, [spec]).kernels
        assert kernel.strategy != "in_thread"


def test_short_sums_down_columns_are_read_as_vectors_and_not_combined() -> None:
    """Three channels of an image: with the number of channels a size of the call."""
    plan = planned(lambda x: x.mean(axis=1), ["f32[B~64, C~3, 512, 512]"])
    (kernel,) = plan.kernels
    assert kernel.strategy == "in_thread"
    assert re.search(r"load\(x_in, .*, TILE3X4", plan.source()) and "vector=4" in plan.source()


def test_a_library_is_not_called_for_products_of_a_few_elements() -> None:
    plan = planned(turned, ["f32[N~10000000, M~3]", "f32[M, 3]"])
    assert not plan.library_calls and [kernel.strategy for kernel in plan.kernels] == ["in_thread"]


def test_points_are_read_once_for_all_their_results() -> None:
    plan = planned(turned, ["f32[N~10000000, M~3]", "f32[M, K~3]"])
    (kernel,) = plan.kernels
    assert dict(kernel.schedule.parameters)["columns"] == 3
    loads = [p for p in kernel.schedule.placed if p.role == "load"]
    assert sorted(len(p.digits() & {"s0", "o0"}) for p in loads) == [1, 2]  # of a point its elements, of the matrix all
    assert_legal(plan)
    loose = planned(turned, ["f32[N~10000000, M~3]", "f32[M, K~3]"], strategies={"sum": "rows"})
    assert_equivalent(loose, plan, seeds=(0,), sizes=[{"N": 200, "M": 3, "K": 3}])


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("row", [7, 13, 23])
def test_threads_have_whole_rows_of_much_where_lanes_would_read_them_for_little(dtype: str, row: int) -> None:
    """3571428 rows of 7 float32 times 7 x 4: an H100 takes 130 us where lanes share a row, 54 so.  Of 23, where each of
    eight lanes has three elements and all four results, 85, 102 so; of float16 143, and 207 so."""

    def product(x: Any, w: Any, b: Any) -> Any:
        return np.maximum(x @ w + b, 0)

    specs = f"{dtype}[N~{100_000_000 // row}, K~{row}]", f"{dtype}[K, 4]", f"{dtype}[4]"
    plan = pf.jit(product, library=False).plan(*map(pf.spec, specs), target="h100")
    (kernel,) = plan.kernels
    assert kernel.strategy == ("in_thread" if row < 23 else "rows")
    assert_legal(plan)
    rng = np.random.default_rng(row)
    x, w, b = (rng.integers(-3, 4, shape).astype(pf.spec(specs[0]).dtype.numpy) for shape in ((70, row), (row, 4), 4))
    (found,) = run_plan(plan, [x, w, b])
    np.testing.assert_array_equal(found, product(*[a.astype(np.float64) for a in (x, w, b)]))


def test_columns_between_odd_rows_are_whole_in_a_thread() -> None:
    """Softmax along the middle of 21404 x 32 x 73 float32 takes an H100 209 us in panels, 153 so."""

    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    odd, even = (
        pf.jit(softmax).plan(pf.spec(f"f32[N~21404, K~32, M~{m}]"), target="h100").kernels[0].strategy for m in (73, 76)
    )
    assert (odd, even) == ("in_thread", "panels")
