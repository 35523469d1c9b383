"""Scatters of integers on a GPU: kernels merge the updates as they come, and every bit is NumPy's."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.backends.interpreter import run_kernel
from polyfuse.backends.interpreter.faults import WriteConflict
from polyfuse.cache.encoding import decode, encode
from polyfuse.dtypes import f32, i32, i64, u32
from polyfuse.errors import IndexFault
from polyfuse.explain.report import merges_floats
from polyfuse.face.interpreted import run_plan
from polyfuse.kernel import ArrayParameter, AtomicUpdate, Kernel, Store
from polyfuse.legality.atomic import merged_in_any_order
from polyfuse.lower.inspect import flatten
from polyfuse.plan import Plan
from polyfuse.scalars import in_any_order

Case = tuple[Callable[..., Any], tuple[str, ...], tuple[np.ndarray, ...]]
RNG = np.random.default_rng(3)


def at(ufunc: np.ufunc) -> Callable[..., Any]:
    def merged(h: Any, *rest: Any) -> Any:
        *index, u = rest
        h = h.copy()
        ufunc.at(h, tuple(index) if len(index) > 1 else index[0], u)
        return h

    return merged


def count(h: Any, i: Any) -> Any:
    h = h.copy()
    np.add.at(h, i, 3)
    return h


def histogram(i: Any) -> Any:
    return np.bincount(i, minlength=30)


def drawn(dtype: str, *shape: int, low: int = -1000, high: int = 1000) -> np.ndarray:
    return RNG.integers(low, high, shape).astype(dtype)


CASES: dict[str, Case] = {
    "counts": (count, ("i64[30]", "i64[N~100000]"), (drawn("i8", 30), drawn("i8", 9000, low=-30, high=30))),
    "counts of u32": (
        count, ("u32[30]", "i32[N~100000]"), (drawn("u4", 30, low=0), drawn("i4", 9000, low=-30, high=30)),
    ),
    "one number per call": (
        at(np.add), ("i64[30]", "i64[N~100000]", "i64"), (drawn("i8", 30), drawn("i8", 5000, low=0, high=30), -7),
    ),
    "bincount": (histogram, ("i64[N~100000]",), (drawn("i8", 7000, low=0, high=30),)),
    "two axes": (
        at(np.add), ("i32[5, 6]", "i64[N~100000]", "i32[N~100000]", "i32[N~100000]"),
        (drawn("i4", 5, 6), drawn("i8", 6000, low=-5, high=5), drawn("i4", 6000, low=0, high=6), drawn("i4", 6000)),
    ),
    "sums of i64": (
        at(np.add), ("i64[30]", "i64[N~100000]", "i64[N~100000]"),
        (drawn("i8", 30), drawn("i8", 4000, low=-30, high=30), drawn("i8", 4000) << 52),
    ),
    "largest": (
        at(np.maximum), ("i32[30]", "i64[N~100000]", "i32[N~100000]"),
        (drawn("i4", 30), drawn("i8", 4000, low=0, high=30), drawn("i4", 4000)),
    ),
    "least of u32": (
        at(np.minimum), ("u32[30]", "i64[N~100000]", "u32[N~100000]"),
        (drawn("u4", 30, low=0), drawn("i8", 4000, low=0, high=30), drawn("u4", 4000, low=0)),
    ),
    "many places": (
        at(np.add), ("i32[V~100000]", "i64[N~100000]", "i32[N~100000]"),
        (drawn("i4", 70), drawn("i8", 4000, low=-70, high=70), drawn("i4", 4000)),
    ),
    "rows of places": (
        at(np.add), ("i32[V~100000, 3]", "i64[N~100000]", "i64[N~100000]", "i32[N~100000]"),
        (drawn("i4", 70, 3), drawn("i8", 900, low=0, high=70), drawn("i8", 900, low=-3, high=3), drawn("i4", 900)),
    ),
    "updates of two axes": (
        at(np.add), ("i32[30]", "i64[N~10000, 4]", "i32[N~10000, 4]"),
        (drawn("i4", 30), drawn("i8", 700, 4, low=0, high=30), drawn("i4", 700, 4)),
    ),
    "counts in f32": (count, ("f32[30]", "i64[N~100000]"), (drawn("f4", 30), drawn("i8", 9000, low=-30, high=30))),
    "counts in f16": (
        count, ("f16[30]", "i64[N~100000]"), (drawn("f2", 30, low=-9, high=9), drawn("i8", 900, low=-30, high=30)),
    ),
    "counts in i8": (
        count, ("i8[V~100000]", "i32[N~100000]"), (drawn("i1", 70), drawn("i4", 900, low=-70, high=70)),
    ),
    "few places, of a number that the call tells": (
        count, ("i64[V~200]", "i64[N~100000]"), (drawn("i8", 130), drawn("i8", 5000, low=-130, high=130)),
    ),
    "a table of sizes of the call": (
        at(np.add), ("i32[3, V~20]", "i64[N~100000]", "i64[N~100000]", "i32[N~100000]"),
        (drawn("i4", 3, 17), drawn("i8", 900, low=0, high=3), drawn("i8", 900, low=-17, high=17), drawn("i4", 900)),
    ),
    "counts at bytes": (count, ("i64[256]", "u8[N~100000]"), (drawn("i8", 256), drawn("u1", 9000, low=0, high=256))),
    "bytes of a picture": (
        lambda h, x: count(h, x.ravel()), ("i32[256]", "u8[N~1000, 128]"),
        (drawn("i4", 256), drawn("u1", 70, 128, low=0, high=256)),
    ),
    "nothing": (count, ("i64[30]", "i64[N~100000]"), (drawn("i8", 30), drawn("i8", 0))),
}  # fmt: skip
COUNTED_APART = ("counts in f32", "counts in f16", "counts in i8")
IN_MEMORY = ("many places", "rows of places", "counts in i8")


def planned(name: str, **options: Any) -> Plan:
    function, specs, _ = CASES[name]
    plain = [int if s == "i64" else pf.spec(s) for s in specs]
    return pf.jit(function, verify=True, **options).plan(*[3 if s is int else s for s in plain], target="h200")


def kernels(plan: Plan) -> list[Kernel]:
    return [launch.kernel for call in plan.library_calls for launch in call.launches]


@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_numpy(name: str) -> None:
    function, _, arrays = CASES[name]
    plan = planned(name)
    assert len(kernels(plan)) == 2 + (name in COUNTED_APART), plan
    assert any(k.shared for k in kernels(plan)) is (name not in IN_MEMORY)
    wanted = function(*arrays)
    for seed in (0, 1, None):
        (found,) = run_plan(plan, list(arrays), seed=seed)
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype


def test_counting_reads_the_indices_and_nothing_else_of_their_length() -> None:
    plan = planned("counts")
    assert plan.hbm_bytes.at(N=100_000) < 8 * 100_000 + 1000
    assert "blocks merge the updates as they come" in plan.explain()
    assert "scatter_merge" in plan.source()
    assert plan.cost_analysis().contractions.keys() == {"scatter"}


@pytest.mark.parametrize(("dtype", "itemsize"), [("u8", 1), ("i8", 1), ("u16", 2), ("i32", 4), ("i64", 8)])
def test_short_indices_are_read_as_they_are_stored(dtype: str, itemsize: int) -> None:
    """Who reads them widens them: no array of i64 is written for that."""
    plan = pf.jit(count, target="h200").plan(pf.spec("i64[200]"), pf.spec(f"{dtype}[N~100000]"))
    assert plan.hbm_bytes.at(N=100_000) < itemsize * 100_000 + 5000
    assert len(plan.library_calls) == 1


def predicted(function: Callable[..., Any], *specs: str) -> float:
    """Microseconds of the scatter."""
    return 1e6 * pf.jit(function).plan(*map(pf.spec, specs), target="h200").cost_analysis().contractions["scatter"]


def test_the_price_is_near_what_was_measured() -> None:
    """On an H200, 10 million updates and the launch before them."""
    weights = "i64[N~10000000]", "i64[N~10000000]"
    assert 25 < predicted(count, "i64[V~256]", "i64[N~10000000]") < 45  # 54 with a call's host time
    assert 100 < predicted(at(np.add), "i64[V~30000]", *weights) < 160  # 143
    assert 100 < predicted(count, "i64[V~1048576]", "i64[N~10000000]") < 140  # 108


@pytest.mark.parametrize("name", ["counts", "many places"])
def test_an_index_out_of_bounds_is_told(name: str) -> None:
    function, _, arrays = CASES[name]
    wrong = [arrays[0], arrays[1].copy(), *arrays[2:]]
    wrong[1][77] = len(arrays[0])
    with pytest.raises(IndexFault, match="an index into h"):
        run_plan(planned(name), wrong)


def test_the_plan_holds_for_no_more_updates_than_a_cell_counts() -> None:
    blocks = kernels(planned("counts"))[1].grid[0].constant
    guards = [g for g in planned("counts").guards if not getattr(g, "advisory", False)]
    assert any(not g.holds({"N": blocks * 2**30 + 1}) for g in guards)
    assert all(g.holds({"N": 2**30}) for g in guards)


def test_the_plan_holds_for_no_more_places_than_a_block_has_cells() -> None:
    guards = planned("few places, of a number that the call tells").guards
    assert all(g.holds({"N": 100_000, "V": 256}) for g in guards)
    assert any(not g.holds({"N": 100_000, "V": 257}) for g in guards if not getattr(g, "advisory", False))


def test_no_update_is_not_zero_times_infinity() -> None:
    plan = pf.jit(at(np.add)).plan(*map(pf.spec, ("f32[30]", "i64[N~100000]", "f32[]")), target="h200")
    base, index = np.arange(30, dtype=np.float32), np.array([3, 7, 7])
    for update in (np.float32(np.inf), np.float32(-0.5)):
        (found,) = run_plan(plan, [base, index, np.asarray(update)])
        np.testing.assert_array_equal(found, at(np.add)(base, index, update))


def test_a_store_in_place_of_the_update_is_a_race() -> None:
    """The interpreter tells updates that are atomic from those that are not."""
    kernel = kernels(planned("many places"))[1]
    plain = tuple(
        Store(op.array, op.index, op.value, op.where, op.mask) if isinstance(op, AtomicUpdate) else op
        for op in kernel.body
        if not (isinstance(op, AtomicUpdate) and op.monoid == "max")
    )
    kernel = replace(kernel, body=plain)
    assert not any(isinstance(op, AtomicUpdate) for op in flatten(kernel.body))
    updates, index, result, fault = (p.name for p in kernel.parameters if isinstance(p, ArrayParameter))
    arrays = {updates: drawn("i4", 100), index: drawn("i8", 100, low=0, high=3), result: drawn("i4", 70)}
    with pytest.raises(WriteConflict):
        run_kernel(kernel, arrays | {fault: np.zeros(1, np.int32)}, {"N": 100, "V": 70}, {})


def test_floats_are_not_merged_as_they_come() -> None:
    plan = pf.jit(at(np.add)).plan(*map(pf.spec, ("f32[30]", "i64[N]", "f32[N]")), target="h200")
    assert not any(map(merges_floats, plan.library_calls))
    allowed = pf.jit(at(np.add), atomics=True).plan(*map(pf.spec, ("f32[30]", "i64[N]", "f32[N]")), target="h200")
    assert all(map(merges_floats, allowed.library_calls))
    verdict = merged_in_any_order("h", "sum", f32, atomics=False)
    assert not verdict and "an order that varies" in verdict.sentence


@pytest.mark.parametrize("dtype", [i32, i64, u32])
def test_integers_come_in_any_order(dtype: Any) -> None:
    assert all(in_any_order(monoid, dtype) for monoid in ("sum", "prod", "max", "min", "bitor", "bitxor"))
    assert not in_any_order("argmax", dtype) and not in_any_order("sum", f32) and not in_any_order("max", f32)


def test_the_cpu_leaves_it_to_the_library() -> None:
    function, specs, _ = CASES["counts"]
    assert not any(c.launches for c in pf.jit(function).plan(*map(pf.spec, specs), target="cpu").library_calls)


@pytest.mark.parametrize("name", ["counts", "counts in f32"])
def test_the_disk_cache_keeps_the_kernels(name: str) -> None:
    function, _, arrays = CASES[name]
    plan = planned(name)
    found = decode(json.loads(json.dumps(encode(plan, plan.program))), plan.program)
    assert kernels(found) == kernels(plan)
    np.testing.assert_array_equal(run_plan(found, list(arrays))[0], function(*arrays))


def onto_itself(x: Any) -> Any:
    h = x.copy()
    np.add.at(h, x % x.shape[0], np.broadcast_to(x, x.shape))
    return h


@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("donated", [(), ("x",)])
@pytest.mark.parametrize(("dtype", "shape"), [("u16", 1), ("u16", 7), ("i32", 7), ("f16", 1)])
def test_one_array_may_be_the_base_and_the_updates(
    dtype: str, shape: int, donated: tuple[str, ...], fuse: bool
) -> None:
    """Names of a kernel's parameters are its own: each array comes in once in every role."""
    x = np.arange(3, 3 + shape).astype(dtype[0] + str(int(dtype[1:]) // 8))
    function = onto_itself if dtype != "f16" else lambda x: at(np.add)(x, np.zeros(x.shape, np.int64), x)
    plan = pf.jit(function, fuse=fuse, donate=donated).plan(pf.spec(f"{dtype}[{shape}]"), target="h200")
    assert kernels(plan)
    for kernel in kernels(plan):
        names = [p.name for p in kernel.parameters]
        assert len(set(names)) == len(names), kernel.name
    (found,) = run_plan(plan, [x.copy()])
    np.testing.assert_array_equal(found, function(x))
