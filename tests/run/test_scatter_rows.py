"""Scatters of whole rows on a GPU: a table of the rows of each target, and one kernel that adds them up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import library_functions
from polyfuse.affine import Affine
from polyfuse.errors import IndexFault
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Launch, Plan
from polyfuse.scatter_rows import TABLE

RNG = np.random.default_rng(2)
UFUNCS = {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}
WIDTH = 70


def planned(function: Callable[..., Any], *specs: str, **options: Any) -> Plan:
    return pf.jit(function, **options).plan(*map(pf.spec, specs), target="h200")


def expected(how: str, x: np.ndarray, at: Any, u: np.ndarray) -> np.ndarray:
    wanted = x.copy()
    if how == "set":
        wanted[at] = u
    else:
        UFUNCS[how].at(wanted, at, u)
    return wanted


def drawn(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return RNG.integers(-2, 3, shape).astype(dtype)


@pytest.mark.parametrize(
    ("how", "dtype", "over"),
    [
        ("add", "float16", (60,)),
        ("add", "int32", (3, 20)),
        ("multiply", "int32", (60,)),
        ("max", "float32", (60,)),
        ("min", "int32", (60,)),
        ("set", "float32", (3, 20)),
    ],
)
def test_rows_against_numpy(how: str, dtype: str, over: tuple[int, ...]) -> None:
    short = {"float32": "f32", "float16": "f16", "int32": "i32"}[dtype]
    axes = "NM"[: len(over)]
    plan = planned(
        lambda x, i, u: getattr(x.at[i], how)(u),
        f"{short}[V, {WIDTH}]",
        f"i64[{','.join(axes)}]",
        f"{short}[{','.join(axes)}, {WIDTH}]",
    )
    names = [step.call.name for step in plan.library_calls]
    assert names == (["scatter_table"] if how == "set" else ["scatter_table", "scatter_folded"])
    x, u = drawn(dtype, (9, WIDTH)), drawn(dtype, (*over, WIDTH))
    for targets in (RNG.integers(-9, 9, over), np.full(over, 4), RNG.integers(0, 2, over)):
        found = run_plan(plan, [x.copy(), targets, u])[0]
        np.testing.assert_array_equal(found, expected(how, x, targets, u))


def test_two_indices_choose_rows() -> None:
    plan = planned(
        lambda x, i, j, u: x.at[i, j].add(u), f"f32[A, B, {WIDTH}]", "i64[N]", "i64[N]", f"f32[N, {WIDTH}]"
    )
    assert len(plan.library_calls) == 2
    x, u = drawn("float32", (3, 4, WIDTH)), drawn("float32", (50, WIDTH))
    i, j = RNG.integers(0, 3, 50), RNG.integers(0, 4, 50)
    np.testing.assert_array_equal(run_plan(plan, [x.copy(), i, j, u])[0], expected("add", x, (i, j), u))


def test_up_to_a_table_of_updates_has_the_bits_of_numpy() -> None:
    plan = planned(lambda x, i, u: x.at[i].add(u), f"f32[V, {WIDTH}]", "i64[N]", f"f32[N, {WIDTH}]")
    x, u = (RNG.standard_normal((n, WIDTH)).astype(np.float32) for n in (8, 8 * TABLE))
    x[0] = -0.0
    at = RNG.permutation(np.repeat(np.arange(1, 9), TABLE)) % 8
    u[at == 0] = -0.0
    found, wanted = run_plan(plan, [x.copy(), at, u])[0], expected("add", x, at, u)
    np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32))


def test_what_surrounds_the_scatter_is_one_kernel_with_it() -> None:
    def gradient(i: Any, u: Any) -> Any:
        rows = np.zeros((1000, 256), np.float32)
        np.add.at(rows, i, u)
        return rows * 0.5

    plan = planned(gradient, "i64[N]", "f32[N, 256]")
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    assert len(launches) == 2  # the other one wraps negative indices, one per row
    stored = [name for launch in launches for name in launch.kernel.parameters if name.name.endswith("_out")]
    assert [p.shape for p in stored][0] == (Affine.symbol("N"),)
    i, u = RNG.integers(-1000, 1000, 70), drawn("float32", (70, 256))
    wanted = expected("add", np.zeros((1000, 256), np.float32), i, u) * 0.5
    np.testing.assert_array_equal(run_plan(plan, [i, u])[0], wanted)


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (lambda x, i, u: x.at[i].add(u), ("f32[V, 8]", "i64[N]", "f32[N, 8]")),  # short rows
        (lambda x, i, u: x.at[i].add(u), ("i8[V, 64]", "i64[N~2000000000]", "i8[N~2000000000, 64]")),  # too many rows
        (lambda x, i, u: x.at[:, i].add(u), ("f32[V, W]", "i64[N]", "f32[V, N]")),  # no rows
        (lambda x, i, u: x.at[i].add(u), ("u32[V, 64]", "i64[N]", "u32[N, 64]")),  # no library folds them
    ],
)
def test_other_scatters_stay_with_the_library(function: Callable[..., Any], specs: tuple[str, ...]) -> None:
    assert [step.call.name for step in planned(function, *specs).library_calls] == ["scatter"]


def test_the_numbers_of_rows_fit_the_table() -> None:
    plan = planned(lambda x, i, u: x.at[i].add(u), "f32[V, 64]", "i64[N]", "f32[N, 64]")
    assert all(g.holds({"V": 9, "N": 70}) for g in plan.guards if not getattr(g, "advisory", False))
    assert not all(g.holds({"V": 9, "N": 2**30}) for g in plan.guards)


def test_out_of_range_is_an_index_error_and_clipping_moves() -> None:
    specs = (f"f32[V, {WIDTH}]", "i64[N]", f"f32[N, {WIDTH}]")
    x, u = drawn("float32", (5, WIDTH)), drawn("float32", (3, WIDTH))
    with pytest.raises(IndexFault, match="out of bounds"):
        run_plan(planned(lambda x, i, u: x.at[i].add(u), *specs), [x, np.array([0, 5, 1]), u])
    clipped = planned(lambda x, i, u: x.at[i].add(u), *specs, bounds="clip")
    at = np.array([0, 7, 1])
    np.testing.assert_array_equal(run_plan(clipped, [x.copy(), at, u])[0], expected("add", x, at.clip(0, 4), u))


def test_nothing_to_scatter_leaves_the_base() -> None:
    plan = planned(lambda x, i, u: x.at[i].add(u), f"f32[V, {WIDTH}]", "i64[N]", f"f32[N, {WIDTH}]")
    x = drawn("float32", (5, WIDTH))
    none = np.zeros(0, np.int64), np.zeros((0, WIDTH), np.float32)
    np.testing.assert_array_equal(run_plan(plan, [x.copy(), *none])[0], x)


@pytest.mark.parametrize("over", [(500,), (20, 30), (5,)])
@pytest.mark.parametrize("monoid", ["sum", "max"])
def test_torch_fills_the_same_table(over: tuple[int, ...], monoid: str) -> None:
    torch = pytest.importorskip("torch")
    from polyfuse.run.libraries.torch_functions import call

    more = {"monoid": monoid}
    at, u = RNG.integers(0, 30, over), drawn("float32", (*over, 8))
    table, folded = np.empty((TABLE, len(over), 30), np.int32), np.zeros_like(u)
    library_functions.call(np, "scatter_table", [at, table], {})
    library_functions.call(np, "scatter_folded", [u, table, at, folded], more)
    theirs, rows = torch.empty(table.shape, dtype=torch.int32), torch.zeros(u.shape)
    call("scatter_table", [torch.from_numpy(at), theirs], {})
    call("scatter_folded", [torch.from_numpy(u), theirs, torch.from_numpy(at), rows], more)
    np.testing.assert_array_equal(theirs.numpy(), table)
    np.testing.assert_array_equal(rows.numpy(), folded)
