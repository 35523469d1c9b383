"""Scatters of floats on a GPU as scatters of integers: whatever comes first, the bits are the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polyfuse.errors import IndexFault
from polyfuse.face.interpreted import run_plan
from polyfuse.options import Options
from polyfuse.plan import Plan
from polyfuse.planning.planner import plan_program
from polyfuse.target import named
from tests.schedules.programs import plan as plan_of
from tests.schedules.programs import program

RNG = np.random.default_rng(4)
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
COUNT = "N~1000000"


def planned(function: Callable[..., Any], *specs: str, **options: Any) -> Plan:
    return plan_of(function, *specs, effort=0, verify=True, **options)


def updated(how: str) -> Callable[..., Any]:
    return lambda x, i, u: getattr(x.at[i], how)(u)


@cache
def vectors(how: str, dtype: str, places: str = "V~1000000", **options: Any) -> Plan:
    plan = planned(updated(how), f"{dtype}[{places}]", f"i64[{COUNT}]", f"{dtype}[{COUNT}]", **options)
    assert {step.call.name for step in plan.library_calls} == {"scatter"}
    assert all(step.launches for step in plan.library_calls)  # no library has a part in it
    return plan


def drawn(dtype: str, count: int, magnitudes: float) -> np.ndarray:
    """Of magnitudes that far apart, in powers of two."""
    exponents = RNG.uniform(-magnitudes, magnitudes, count)
    return (RNG.standard_normal(count) * 2**exponents).astype(DTYPES[dtype])


def exact(x: np.ndarray, i: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(sums in extended precision, the sizes of what is summed)"""
    wanted, sizes = x.astype(np.longdouble), np.abs(x.astype(np.float64))
    np.add.at(wanted, i, u.astype(np.longdouble))
    np.add.at(sizes, i, np.abs(u.astype(np.float64)))
    return wanted, sizes


@pytest.mark.parametrize(("dtype", "digits"), [("f64", 52), ("f32", 24), ("f16", 11), ("bf16", 8)])
@pytest.mark.parametrize("places", ["40", "V~1000000"])
def test_sums_are_as_good_as_one_rounding(dtype: str, digits: int, places: str) -> None:
    plan = vectors("add", dtype, places)
    for magnitudes in (0, 4, 12 if dtype == "f16" else 60):
        x, u, i = drawn(dtype, 40, 1), drawn(dtype, 3000, magnitudes), RNG.integers(-40, 40, 3000)
        if dtype == "f16":
            u = np.clip(u, -100, 100)
        (found,) = run_plan(plan, [x.copy(), i, u])
        wanted, sizes = exact(x, i, u)
        error = np.abs(found.astype(np.longdouble) - wanted)
        kept = 2.0**-59 if dtype == "f64" else 2.0**-29
        assert (error <= np.abs(wanted) * 2.0**-digits * 1.01 + sizes * kept).all()


def test_the_order_of_the_updates_and_of_the_blocks_has_no_part_in_it() -> None:
    plan = vectors("add", "f32")
    x, u, i = drawn("f32", 9, 1), drawn("f32", 3000, 20), RNG.integers(0, 9, 3000)
    (first,) = run_plan(plan, [x.copy(), i, u])
    for seed in (0, None):
        order = RNG.permutation(3000)
        (again,) = run_plan(plan, [x.copy(), i[order], u[order]], seed=seed)
        np.testing.assert_array_equal(again.view(np.int32), first.view(np.int32))


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(("dtype", "word"), [("f32", "u4"), ("f64", "u8")])
def test_single_updates_and_exact_sums_have_the_bits_of_numpy(dtype: str, word: str) -> None:
    plan, kind = vectors("add", dtype), DTYPES[dtype]
    x, i = drawn(dtype, 3000, 1), RNG.permutation(3000)[:2000]
    u = np.frombuffer(RNG.bytes(2000 * kind().itemsize), kind).copy()  # subnormal numbers and all others
    u[np.isnan(u)] = np.finfo(kind).smallest_subnormal
    x[0], x[1], x[2], u[i == 0], u[i == 1] = -0.0, -0.0, -0.0, -0.0, 0.0
    wanted = x.copy()
    np.add.at(wanted, i, u)
    (found,) = run_plan(plan, [x.copy(), i, u])
    np.testing.assert_array_equal(found.view(word), wanted.view(word))
    whole = RNG.integers(-(2**14), 2**14, 2000).astype(kind)
    wanted = np.zeros(40, kind)
    np.add.at(wanted, i % 40, whole)
    np.testing.assert_array_equal(run_plan(plan, [np.zeros(40, kind), i % 40, whole])[0], wanted)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16"])
def test_infinities_and_nan(dtype: str) -> None:
    plan = vectors("add", dtype)
    inf, nan = np.inf, np.nan
    rows = [(1, inf), (-inf, 2), (inf, -inf), (nan, 3), (inf, nan), (inf, inf), (-inf, -inf), (3e38, 3e38), (1, 2)]
    u, i = np.array(rows).astype(DTYPES[dtype]).ravel(), np.repeat(np.arange(9), 2)
    base = np.zeros(12, DTYPES[dtype])
    base[8], base[9], base[10] = inf, nan, -inf
    wanted = base.astype(np.float64)
    np.add.at(wanted, i, u.astype(np.float64))
    (found,) = run_plan(plan, [base.copy(), i, u])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(base.dtype).astype(np.float64))


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("how", ["max", "min"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes(how: str, dtype: str) -> None:
    plan = vectors(how, dtype)
    x, u, i = drawn(dtype, 50, 4), drawn(dtype, 3000, 8), RNG.integers(-40, 40, 3000)
    u[:6] = [np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0]
    x[45], x[46], x[47] = np.nan, np.inf, -np.inf
    wanted = x.copy()
    {"max": np.maximum, "min": np.minimum}[how].at(wanted, i, u)
    np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, u])[0].astype("f8"), wanted.astype("f8"))


@pytest.mark.parametrize("how", ["add", "max"])
def test_an_index_out_of_bounds_is_told_and_reaches_no_memory(how: str) -> None:
    x, u, i = drawn("f32", 9, 1), drawn("f32", 300, 1), RNG.integers(-9, 9, 300)
    for wrong in (9, -10, 2**40):
        i[77] = wrong
        with pytest.raises(IndexFault, match="an index into the result"):
            run_plan(vectors(how, "f32"), [x.copy(), i, u])
    i[77] = 12
    wanted = x.copy()
    (np.add if how == "add" else np.maximum).at(wanted, np.where(i < 0, i + 9, i).clip(0, 8), u)
    clipped = run_plan(vectors(how, "f32", bounds="clip"), [x.copy(), i, u])[0]
    np.testing.assert_allclose(clipped, wanted, rtol=1e-5, atol=1e-5)


def test_two_axes_and_short_rows() -> None:
    def add(x: Any, i: Any, j: Any, u: Any) -> Any:
        x = x.copy()
        np.add.at(x, (i, j), u)
        return x

    for row, width in (("", ()), (", 2", (2,))):
        specs = f"f32[A~90, B~90{row}]", f"i64[{COUNT}]", f"i32[{COUNT}]", f"f32[{COUNT}{row}]"
        plan = planned(add, *specs)
        assert not [step.call.name for step in plan.library_calls if not step.launches]
        i, j = RNG.integers(-5, 5, 300), RNG.integers(0, 6, 300).astype(np.int32)
        x, u = RNG.integers(-9, 9, (5, 6, *width)).astype("f4"), RNG.integers(-9, 9, (300, *width)).astype("f4")
        np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, j, u])[0], add(x, i, j, u))


def test_batch_invariance_asks_for_no_library() -> None:
    plan = planned(updated("add"), "f32[V, 64]", "i64[N]", "f32[N, 64]", batch_invariant=True)
    assert all(step.launches or step.call.name == "stable_order" for step in plan.library_calls)
    x, u, i = (drawn("f32", n * 64, 9).reshape(n, 64) for n in (9, 100, 1))
    i = RNG.integers(0, 9, 100)
    (found,) = run_plan(plan, [x.copy(), i, u])
    (alone,) = run_plan(plan, [x.copy(), i[i == 4], u[i == 4]])
    np.testing.assert_array_equal(alone[4], found[4])


def test_unfused_a_scatter_is_a_few_kernels() -> None:
    """Not one per operation: before, between and behind its scatters of integers, and what these begin as."""
    plan = planned(updated("add"), "f32[V]", f"i64[{COUNT}]", f"f32[{COUNT}]", fuse=False)
    assert len(plan.launches) <= 9


def test_arrays_of_a_library_without_a_sort() -> None:
    traced = program(updated("add"), "f32[V, 256]", f"i64[{COUNT}]", f"f32[{COUNT}, 256]")
    plans = {name: plan_program(traced, named("h200"), Options(library=name), ()) for name in ("numba", "torch")}
    names = {name: {call.call.name for call in plan.library_calls} for name, plan in plans.items()}
    assert names == {"numba": {"scatter_merged"}, "torch": {"stable_order", "scatter_sorted"}}


def test_long_rows_are_sorted_and_vectors_are_not() -> None:
    specs = [(f"f32[V~50000, {w}]", f"i64[{COUNT}]", f"f32[{COUNT}, {w}]") for w in (1, 256)]
    names = [[step.call.name for step in planned(updated("add"), *s).library_calls] for s in specs]
    assert "stable_order" not in names[0] and names[1] == ["stable_order", "scatter_sorted"]
