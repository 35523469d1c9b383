"""Long rows that meet the same factors, as a matrix a few vectors: lanes have several of them, and all results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.testing import assert_legal


def product(w, x):
    return w @ x


def transposed(w, x):
    return w @ x.T


def in_float32(w, x):
    return w.astype(np.float32) @ x.astype(np.float32)


def activated(w, x):
    h = w @ x
    return h / (1 + np.exp(-1.702 * h))


def nearest(w, x):
    return np.min(np.abs(w[:, None, :] - x[None, :, :]), axis=-1)


def bytes_times(w, x):
    return w.astype(np.float32) @ x * np.float32(0.01)


def nibbles_times(w, x):
    low, high = (w & 15).astype(np.float32) - 8, (w >> 4).astype(np.float32) - 8
    return np.stack([low, high], axis=-1).reshape(w.shape[0], -1) @ x


CASES = [
    (product, ("f32[N~16384, 4096]", "f32[4096, 2]")),
    (product, ("f32[N~16384, 4096]", "f32[4096, 3]")),
    (product, ("f32[N~16384, K~4096]", "f32[K, 4]")),
    (product, ("f32[N~16384, 4096]", "f32[4096, 8]")),
    (product, ("f32[N~16384, 4096]", "f32[4096, 13]")),
    (product, ("f32[N~8191, 8191]", "f32[8191, 3]")),
    (product, ("f32[N~30000, 2003]", "f32[2003, 5]")),
    (transposed, ("f32[N~16384, 4096]", "f32[4, 4096]")),
    (transposed, ("f32[N~16384, 4096]", "f32[16, 4096]")),
    (transposed, ("f32[N~1000, 100000]", "f32[4, 100000]")),
    (in_float32, ("f16[N~16384, 8192]", "f16[8192, 4]")),
    (in_float32, ("bf16[N~16384, 8192]", "bf16[8192, 8]")),
    (in_float32, ("bf16[N~20001, 4099]", "bf16[4099, 2]")),
    (activated, ("f32[N~16384, 4096]", "f32[4096, 2]")),
    (nearest, ("f32[N~16384, 4096]", "f32[3, 4096]")),
    (bytes_times, ("i8[N~11008, 8192]", "f32[8192]")),
    (nibbles_times, ("u8[N~11008, 4096]", "f32[8192]")),
    (nibbles_times, ("u8[N~11008, 5001]", "f32[10002]")),
]


def planned(function: Any, *specs: str, **options: Any) -> pf.Plan:
    return pf.jit(function, library=False, **options).plan(*map(pf.spec, specs), target="h200")


def drawn(spec: str, rows: int, chance: np.random.Generator) -> np.ndarray[Any, Any]:
    """As a spec says, but `rows` of N; K where it is 4096."""
    extents = [e.strip().partition("~") for e in spec[spec.index("[") + 1 : -1].split(",")]
    shape = [rows if name == "N" else 4096 if name == "K" else int(name) for name, _, _ in extents]
    values = chance.integers(-100, 100, shape) if spec[0] in "iu" else chance.standard_normal(shape)
    return values.astype({"i8": "i1", "u8": "u1", "f16": "f2"}.get(spec[: spec.index("[")], "f4"))


@pytest.mark.parametrize(("function", "specs"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_lanes_have_several_rows_and_their_results(function: Any, specs: tuple[str, ...]) -> None:
    """Four results of 16384 rows of 4096 float32 take an H200 66 us, so, 269 in tiles of a contraction."""
    plan = planned(function, *specs)
    (kernel,) = plan.kernels
    assert kernel.strategy == "shared_factors"
    assert_legal(plan)
    chance = np.random.default_rng(len(specs[0]))
    given = [drawn(spec, 19, chance) for spec in specs]
    if specs[0].startswith("bf16"):
        import ml_dtypes

        given = [g.astype(ml_dtypes.bfloat16) for g in given]
    (found,) = run_plan(plan, given)
    wide = [g.astype("f8") if function is not nibbles_times or g.dtype.kind == "f" else g for g in given]
    exact = function(*wide)
    np.testing.assert_allclose(found, exact, atol=1e-5 * np.abs(exact).max())


OTHERS = [
    (product, ("f32[N~16384, 8192]", "f32[8192]")),  # as many factors as elements of a row: blocks of rows share enough
    (product, ("f32[N~1600000, 64]", "f32[64, 4]")),  # short rows
    (product, ("f32[N~16384, 1024]", "f32[1024, 64]")),  # tiles of a contraction use each element of a row more often
    (product, ("f32[100, 300]", "f32[300, 4]")),  # little to do
]


@pytest.mark.parametrize(("function", "specs"), OTHERS, ids=["vector", "short", "many", "little"])
def test_others_have_what_they_had(function: Any, specs: tuple[str, ...]) -> None:
    assert "shared_factors" not in [kernel.strategy for kernel in planned(function, *specs).kernels]


def test_lanes_beside_each_other_have_neighbouring_results() -> None:
    """Where the factors lie along the results: lanes that read far from each other take several times as long."""
    (kernel,) = planned(product, "f32[N~16384, 4096]", "f32[4096, 8]").kernels
    assert {d.name: d.count for d in kernel.schedule.of_kind("thread")} == {"tj": 2, "tx": 128}
    (kernel,) = planned(transposed, "f32[N~16384, 4096]", "f32[8, 4096]").kernels
    assert {d.name: d.count for d in kernel.schedule.of_kind("thread")} == {"tx": 32, "ty": 8}


def test_lanes_share_all_results_evenly() -> None:
    """13 results are four of each of four lanes, 10 are three: one lane had none, 1233 us of 400000 rows on an H200."""
    for count, columns in ((13, 16), (10, 12), (12, 12), (5, 6)):
        plan = pf.jit(product).plan(pf.spec("f32[N~16384, 4096]"), pf.spec(f"f32[4096, {count}]"), target="h200")
        assert dict(plan.kernels[0].schedule.parameters)["columns"] == columns


@pytest.mark.parametrize(("length", "unroll"), [(4096, 4), (3136, 4), (1152, 2)])
def test_the_last_trip_of_a_row_is_nearly_full(length: int, unroll: int) -> None:
    plan = pf.jit(product).plan(pf.spec(f"f32[N~16384, {length}]"), pf.spec(f"f32[{length}, 10]"), target="h200")
    assert dict(plan.kernels[0].schedule.parameters)["unroll"] == unroll


def test_many_results_of_rows_that_end_soon_are_another_kernel() -> None:
    """Sums of all lanes meet once a row: of 784 float32 with 10 results 788 us of 400000, in tiles of rows 594."""
    plan = pf.jit(product, library=False).plan(pf.spec("f32[N~400000, 784]"), pf.spec("f32[784, 10]"), target="h200")
    assert plan.kernels[0].strategy == "row_tiles"
    x, w = (np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((37, 784), (784, 10)))
    np.testing.assert_allclose(run_plan(plan, (x, w))[0], x @ w, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(("rows", "columns"), [(784, 10), (1024, 16), (900, 3)])
def test_tiles_of_few_columns_are_as_long_as_shared_memory_has_room(rows: int, columns: int) -> None:
    """Transposed products of 400000 rows: no tile of 1024 rows and 16 columns fitted with a depth of 16, 984 us on an
    H200 where each column read all rows by itself; 521 with eight."""
    specs = f"f32[N~400000, {rows}]", f"f32[N, {columns}]"
    plan = pf.jit(lambda x, g: x.T @ g, library=False).plan(*map(pf.spec, specs), target="h200")
    assert plan.kernels[0].strategy == "contraction" and plan.kernels[0].schedule.parameters[2] == ("depth", 8)
    x, g = (np.random.default_rng(1).standard_normal((41, n)).astype(np.float32) for n in (rows, columns))
    np.testing.assert_allclose(run_plan(plan, (x, g))[0], x.T @ g, rtol=2e-4, atol=2e-4)
