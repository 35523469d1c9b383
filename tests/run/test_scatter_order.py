"""Scatters on a GPU whose updates are combined in their order: sorted by place, then walked by kernels of ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyfuse as pf
from polyfuse.affine import Affine
from polyfuse.cache.encoding import decode, encode
from polyfuse.errors import IndexFault
from polyfuse.explain.report import merges_floats
from polyfuse.face.interpreted import run_plan
from polyfuse.kernel import ArrayParameter, AtomicUpdate, Load
from polyfuse.library_calls import functions
from polyfuse.lower.inspect import flatten
from polyfuse.lower.scatters.sorted_rows import AHEAD
from polyfuse.plan import Launch, Plan
from polyfuse.scatters.rows import LENGTH, MERGED, ORDER, SORTED
from tests.schedules.programs import plan as plan_of

RNG = np.random.default_rng(2)
UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
WIDTH = 68
MANY = "N~1000000"  # rows, which are then sorted
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "i32": np.int32}
DTYPES |= {"i8": np.int8, "u16": np.uint16, "i64": np.int64, "u8": np.uint8, "bool": np.bool_}


def planned(function: Callable[..., Any], *specs: str, **options: Any) -> Plan:
    return plan_of(function, *specs, effort=0, verify=True, **options)


def expected(how: str, x: np.ndarray, at: Any, u: np.ndarray) -> np.ndarray:
    wanted = x.copy()
    if how == "set":
        wanted[at] = u
    else:
        UFUNCS[how].at(wanted, at, u)
    return wanted


def drawn(dtype: str, *shape: int, low: int = -2, high: int = 3) -> np.ndarray:
    """Small integers, whose sums are exact."""
    low = 0 if dtype in ("u8", "u16", "bool") else low
    return RNG.integers(low, high, shape).astype(DTYPES[dtype])


def updated(how: str) -> Callable[..., Any]:
    return lambda x, i, u: getattr(x.at[i], how)(u)


@pytest.mark.parametrize(
    ("how", "dtype", "index", "over"),
    [
        ("add", "i32", "i64", (3, 20)),
        ("mul", "f64", "u8", (300,)),
        ("mul", "f16", "i64", (20,)),
        ("mul", "u16", "i32", (60,)),
        ("max", "f32", "i32", (5, 70)),
        ("min", "i8", "i64", (60,)),
        ("set", "f32", "i64", (3, 20)),
        ("set", "bf16", "u8", (60,)),
        ("set", "bool", "i32", (60,)),
    ],
)
@pytest.mark.parametrize("width", [(), (3,), (WIDTH,)])
def test_against_numpy(how: str, dtype: str, index: str, over: tuple[int, ...], width: tuple[int, ...]) -> None:
    axes, row = ", ".join("NM"[: len(over)]), "".join(f", {n}" for n in width)
    plan = planned(updated(how), f"{dtype}[V{row}]", f"{index}[{axes}]", f"{dtype}[{axes}{row}]")
    assert all(step.launches for step in plan.library_calls if step.call.name != ORDER)
    assert how != "mul" or [step.call.name for step in plan.library_calls] == [ORDER, SORTED]
    x, u = drawn(dtype, 9, *width), drawn(dtype, *over, *width)
    lowest = 0 if index == "u8" else -9
    for targets in (RNG.integers(lowest, 9, over), np.full(over, 4), RNG.integers(0, 2, over)):
        targets = targets.astype(DTYPES[index])
        (found,) = run_plan(plan, [x.copy(), targets, u])
        wide = (x, u) if how == "set" or dtype not in ("f16", "bf16") else (x.astype("f4"), u.astype("f4"))
        np.testing.assert_array_equal(found, expected(how, wide[0], targets, wide[1]).astype(found.dtype))


def add(x: Any, i: Any, u: Any) -> Any:
    x = x.copy()
    np.add.at(x, i, u)
    return x


def multiply(x: Any, i: Any, u: Any) -> Any:
    x = x.copy()
    np.multiply.at(x, i, u)
    return x


def factors(*shape: int) -> np.ndarray:
    """Whose products are exact."""
    return RNG.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], shape)


@pytest.mark.parametrize("hint", [100, 5000, 100_000])
@pytest.mark.parametrize(("places", "width"), [(1, 1), (7, 1), (400, 3), (3, 40)])
def test_runs_of_every_length_are_joined(places: int, width: int, hint: int) -> None:
    """However many kernels join what threads have found, each place has each of its updates once."""
    plan = planned(multiply, f"f64[V, {width}]", f"i64[N~{hint}]", f"f64[N~{hint}, {width}]")
    joins = [launch.kernel.name for launch in plan.launches if "join" in launch.kernel.name]
    assert len(joins) == 1 + (hint > LENGTH**2) + (hint > LENGTH**3)
    for count in (1, LENGTH - 1, LENGTH, LENGTH + 1, 5 * LENGTH, 2500):
        x, u = factors(places, width), factors(count, width)
        i = RNG.integers(0, places, count) if count % 2 else np.sort(RNG.integers(0, places, count))
        np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, u])[0], multiply(x, i, u))


@pytest.mark.parametrize("hint", [100, 100_000])
def test_runs_may_end_anywhere(hint: int) -> None:
    """Next to where a thread begins, and to where the one before it stops to follow its last run."""
    plan = planned(multiply, "f64[V]", f"i64[N~{hint}]", f"f64[N~{hint}]")
    near = [n + d for n in (AHEAD, LENGTH, LENGTH + AHEAD, 2 * LENGTH) for d in (-1, 0, 1)]
    for mean in (1, AHEAD, LENGTH, 900):
        lengths = np.concatenate([RNG.choice(near, 20), 1 + RNG.poisson(mean - 1, 1 + 900 // mean)])
        i = np.repeat(np.arange(len(lengths)), RNG.permutation(lengths))
        x, u = factors(len(lengths) + 1), factors(len(i))
        np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, u])[0], multiply(x, i, u))


def test_updates_are_not_reordered() -> None:
    """Whatever is whole in one piece has the bits of NumPy, and what is cut those of its pieces in turn."""
    plan = planned(add, f"f32[V, {WIDTH}]", f"i64[{MANY}]", f"f32[{MANY}, {WIDTH}]")
    x, u = (RNG.standard_normal((n, WIDTH)).astype(np.float32) for n in (8, LENGTH))
    x[0] = -0.0
    at = RNG.permutation(np.repeat(np.arange(8), LENGTH // 8))
    u[at == 0] = -0.0
    found, wanted = run_plan(plan, [x.copy(), at, u])[0], expected("add", x, at, u)
    np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32))
    u = np.zeros((3 * LENGTH, WIDTH), np.float32)
    u[0], u[1], u[2 * LENGTH] = 1e8, 1, -1e8
    (found,) = run_plan(plan, [x.copy(), np.full(3 * LENGTH, 5), u])
    np.testing.assert_array_equal(found[5], (x[5] + np.float32(1e8) + 1) - np.float32(1e8))


def test_bits_are_the_same_in_every_order_of_blocks() -> None:
    plan = planned(multiply, "f64[V]", "i64[N~100000]", "f64[N~100000]")
    x, u = (1 + RNG.standard_normal(n) / 100 for n in (9, 3000))
    i = RNG.integers(0, 9, 3000)
    first, *others = (run_plan(plan, [x.copy(), i, u], seed=seed)[0] for seed in (None, 0, 1))
    assert all(np.array_equal(first.view(np.int64), other.view(np.int64)) for other in others)
    np.testing.assert_allclose(first, multiply(x, i, u), rtol=1e-12)


def test_sums_of_short_floats_round_once() -> None:
    plan = planned(add, "f16[3]", "i64[N~100000]", "f16[N~100000]")
    u = np.full(3000, 1, np.float16)
    (found,) = run_plan(plan, [np.zeros(3, np.float16), np.ones(3000, np.int64), u])
    np.testing.assert_array_equal(found, np.float16([0, 3000, 0]))  # NumPy, which rounds every sum, stays at 2048


def test_nan_and_infinity_stay_at_their_place() -> None:
    plan = planned(updated("max"), "f32[V, 4]", "i64[N]", "f32[N, 4]")
    x, u = drawn("f32", 5, 4), drawn("f32", 70, 4)
    u[3, 1], u[9, 2], u[60, 3] = np.nan, np.inf, -np.inf
    i = RNG.integers(0, 5, 70)
    np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, u])[0], expected("max", x, i, u))


def test_two_indices_choose_rows() -> None:
    plan = planned(
        lambda x, i, j, u: x.at[i, j].add(u),
        f"f32[A, B, {WIDTH}]", f"i64[{MANY}]", f"i64[{MANY}]", f"f32[{MANY}, {WIDTH}]",
    )  # fmt: skip
    assert [step.call.name for step in plan.library_calls] == [ORDER, SORTED]
    x, u = drawn("f32", 3, 4, WIDTH), drawn("f32", 50, WIDTH)
    i, j = RNG.integers(0, 3, 50), RNG.integers(-4, 4, 50)
    np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, j, u])[0], expected("add", x, (i, j), u))


def test_an_index_behind_other_axes() -> None:
    plan = planned(lambda x, i, u: x.at[:, i].add(u), "f32[V, W]", "i64[N]", "f32[V, N]")
    x, i, u = drawn("f32", 4, 5), RNG.integers(-5, 5, 32), drawn("f32", 4, 32)
    wanted = x.copy()
    np.add.at(wanted, (slice(None), i), u)
    np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, u])[0], wanted)


@pytest.mark.parametrize("shape", [(), (WIDTH,), (40, 1)])
def test_updates_that_broadcast(shape: tuple[int, ...]) -> None:
    text = "".join(f"{n}, " for n in shape).rstrip(", ")
    x, u, i = drawn("f32", 5, WIDTH), drawn("f32", *shape), RNG.integers(-5, 5, 40)
    for how in ("mul", "set"):
        plan = planned(updated(how), f"f32[V, {WIDTH}]", "i64[40]", f"f32[{text}]")
        np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, u])[0], expected(how, x, i, u))


def test_assigning_twice_keeps_the_last_and_buffered_updates_do_not_add_up() -> None:
    def buffered(x: Any, i: Any, u: Any) -> Any:
        x = x.copy()
        x[i] += u
        return x

    plan = planned(buffered, "f32[V, 3]", "i64[N]", "f32[N, 3]")
    x, u, i = drawn("f32", 5, 3), drawn("f32", 40, 3), RNG.integers(-5, 5, 40)
    np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, u])[0], buffered(x, i, u))
    assert [(step.call.name, len(step.launches)) for step in plan.library_calls] == [("scatter", 2)]  # no sort


def test_what_surrounds_an_assignment_is_one_kernel_with_it() -> None:
    plan = planned(lambda x, i, u: x.at[i].set(u * 2) * 0.5, "f32[V, 64]", "i64[N]", "f32[N, 64]")
    assert len([step for step in plan.steps if isinstance(step, Launch) and len(step.loads) > 1]) == 1
    x, u, i = drawn("f32", 5, 64), drawn("f32", 40, 64), RNG.integers(-5, 5, 40)
    np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, u])[0], expected("set", x, i, u * 2) * 0.5)


def test_zeros_are_no_array() -> None:
    def gradient(i: Any, u: Any) -> Any:
        rows = np.zeros((1000, 256), np.float32)
        np.add.at(rows, i, u)
        return rows

    plan = planned(gradient, f"i64[{MANY}]", f"f32[{MANY}, 256]")
    assert plan.hbm_bytes.at(N=0) < 1000 * 256 * 4 + 100  # written once, by the count that `hbm_bytes` has
    i, u = RNG.integers(-1000, 1000, 70), drawn("f32", 70, 256)
    np.testing.assert_array_equal(
        run_plan(plan, [i, u])[0], expected("add", np.zeros((1000, 256), np.float32), i, u)
    )


def test_rows_are_moved_in_wide_accesses() -> None:
    plan = planned(add, "f32[V, 256]", f"i64[{MANY}]", f"f32[{MANY}, 256]")
    walk = next(launch.kernel for launch in plan.launches if launch.kernel.name.endswith("walk"))
    wide = [op for op in flatten(walk.body) if isinstance(op, Load) and op.vector == 4]
    assert {op.array for op in wide} == {"x_base", "u_updates"}
    symbolic = planned(add, "f32[V, W]", f"i64[{MANY}]", f"f32[{MANY}, W]")
    assert any(not g.holds({"V": 9, "N": 9, "W": 255}) for g in symbolic.guards)


def test_operands_in_any_layout() -> None:
    j = pf.jit(multiply, target="h200", verify=True)
    x, u, i = factors(5, 64), factors(64, 40).T, RNG.integers(-5, 5, 40)
    plan = j.plan(x, i, u, target="h200")
    assert [step.call.name for step in plan.library_calls] == [ORDER, SORTED]
    np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, u])[0], multiply(x, i, u))


def test_keys_are_as_short_as_their_numbers() -> None:
    def key(places: str) -> str:
        plan = planned(multiply, f"f64[{places}]", "i64[N]", "f64[N]")
        walk = next(launch.kernel for launch in plan.launches if launch.kernel.name.endswith("walk"))
        arrays = [p for p in walk.parameters if isinstance(p, ArrayParameter)]
        assert all(g.holds({"N": 9, "V": 2**15 - 1}) for g in plan.guards if not getattr(g, "advisory", False))
        return arrays[2].dtype.name

    assert [key(p) for p in ("30000", "40000", "V~1000", "V~1000000")] == ["i16", "i32", "i16", "i32"]
    plan = planned(multiply, "f64[V~1000]", "i64[N]", "f64[N]")
    assert any(not g.holds({"N": 9, "V": 2**15}) for g in plan.guards if not getattr(g, "advisory", False))


def test_out_of_range_is_an_index_error_and_clipping_moves() -> None:
    specs = (f"f32[V, {WIDTH}]", "i64[N]", f"f32[N, {WIDTH}]")
    x, u, at = drawn("f32", 5, WIDTH), drawn("f32", 3, WIDTH), np.array([0, 7, 1])
    for how in ("add", "set"):
        with pytest.raises(IndexFault, match="out of bounds"):
            run_plan(planned(updated(how), *specs), [x, np.array([0, 5, 1]), u])
        clipped = planned(updated(how), *specs, bounds="clip")
        np.testing.assert_array_equal(run_plan(clipped, [x.copy(), at, u])[0], expected(how, x, at.clip(0, 4), u))


@pytest.mark.parametrize("how", ["add", "set"])
@pytest.mark.parametrize("count", ["N", "0"])
def test_nothing_to_scatter_leaves_the_base(how: str, count: str) -> None:
    plan = planned(updated(how), f"f32[V, {WIDTH}]", f"i64[{count}]", f"f32[{count}, {WIDTH}]")
    x = drawn("f32", 5, WIDTH)
    none = np.zeros(0, np.int64), np.zeros((0, WIDTH), np.float32)
    np.testing.assert_array_equal(run_plan(plan, [x.copy(), *none])[0], x)


def test_the_plan_tells_what_runs() -> None:
    plan = planned(add, "f32[50000, 256]", "i64[N~200000]", "f32[N~200000, 256]")
    text = plan.explain()
    assert "in the order of their places" in text and f"{SORTED}_walk" in text and f"call {ORDER}" in text
    assert f"{SORTED}_walk" in plan.source()
    found = decode(json.loads(json.dumps(encode(plan, plan.program))), plan.program)
    assert [launch.kernel for launch in found.launches] == [launch.kernel for launch in plan.launches]
    assert all(extent == Affine.symbol("N") for b in plan.buffers if b.name == ORDER for extent in b.shape)


def test_batch_invariance_leaves_runs_whole() -> None:
    """Where a thread begins depends on the updates of other places; a tree per place does not."""
    specs = "f64[V, 64]", "i64[N]", "f64[N, 64]"
    assert [s.call.name for s in planned(multiply, *specs, batch_invariant=True).library_calls] == ["scatter"]


@pytest.mark.parametrize("width", [1, 6, 64])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_atomics_merge_sums_of_floats_as_they_come(width: int, dtype: str) -> None:
    plan = planned(add, f"{dtype}[V, {width}]", "i64[N]", f"{dtype}[N, {width}]", atomics=True)
    assert [(s.call.name, len(s.launches)) for s in plan.library_calls] == [(MERGED, 2)]
    updates = [op for launch in plan.launches for op in flatten(launch.kernel.body) if isinstance(op, AtomicUpdate)]
    wide = {1: 1, 6: 2, 64: 16 // DTYPES[dtype]().itemsize}[width]
    assert [op.vector for op in updates if op.array.endswith("_out")] == [wide]
    assert "last bits vary" in plan.explain()
    x, u, i = drawn(dtype, 9, width), drawn(dtype, 300, width), RNG.integers(-9, 9, 300)
    for seed in (0, None):
        np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, u], seed=seed)[0], add(x, i, u))


@pytest.mark.parametrize("places", ["30", "V~100000"])
def test_atomics_merge_vectors_in_cells_where_they_fit(places: str) -> None:
    plan = planned(add, f"f32[{places}]", "i64[N~1000000]", "f32[N~1000000]", atomics=True)
    (call,) = plan.library_calls
    assert call.call.name == "scatter" and any(launch.kernel.shared for launch in call.launches) is (places == "30")
    x, u, i = drawn("f32", 30), drawn("f32", 3000), RNG.integers(-30, 30, 3000)
    np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, u])[0], add(x, i, u))


@pytest.mark.parametrize(("dtype", "how"), [("f16", "add"), ("f32", "mul")])
def test_atomics_do_not_merge_what_memory_would_get_wrong(dtype: str, how: str) -> None:
    """Memory rounds every sum of short floats, and has no products."""
    plan = planned(updated(how), f"{dtype}[V, 4]", "i64[N]", f"{dtype}[N, 4]", atomics=True)
    assert not any(map(merges_floats, plan.library_calls))


def test_short_rows_of_integers_are_merged_and_long_ones_sorted() -> None:
    names = {w: planned(add, f"i32[V, {w}]", "i64[N~1000000]", f"i32[N~1000000, {w}]").library_calls for w in (3, 512)}
    assert {w: [step.call.name for step in calls] for w, calls in names.items()} == {3: [MERGED], 512: [ORDER, SORTED]}
    plan = planned(updated("max"), "u32[V, 3]", "i64[N]", "u32[N, 3]")
    x, u, i = (RNG.integers(0, 2**32, (n, 3), dtype=np.uint32) for n in (9, 50, 1))
    i = RNG.integers(-9, 9, 50)
    np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, u])[0], expected("max", x, i, u))


@pytest.mark.parametrize("over", [(500,), (20, 30), (0,)])
def test_torch_sorts_alike(over: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    from polyfuse.run.libraries.torch_functions import call

    keys = RNG.integers(0, 30, over).astype(np.int16)
    order, theirs = np.empty(over, np.int64), torch.empty(over, dtype=torch.int64)
    functions.call(np, ORDER, [keys, order], {})
    call(ORDER, [torch.from_numpy(keys), theirs], {})
    np.testing.assert_array_equal(theirs.numpy(), order)
