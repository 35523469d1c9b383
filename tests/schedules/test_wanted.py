"""Of what a choice by indices leaves unread, nothing is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.affine import digit
from polyfuse.face.interpreted import run_plan
from polyfuse.lower.ahead import next_name
from polyfuse.lower.inspect import flatten
from polyfuse.terms import Apply, Inside
from polyfuse.testing import assert_legal
from polyfuse.wanted import wanted, wanted_share


def below(x, by=0):
    return np.arange(x.shape[-1]) <= np.arange(x.shape[-2])[:, None] + by


def causal(x):
    e = np.exp((z := np.where(below(x), x * 0.125, -np.inf)) - np.max(z, -1, keepdims=True))
    return e / np.sum(e, -1, keepdims=True)


def window(x):
    near = below(x) & (np.arange(x.shape[-1]) > np.arange(x.shape[-2])[:, None] - 8)
    return np.max(np.where(near, x, -100), -1)


def halves(x, y):
    return np.where(np.arange(x.shape[0])[:, None] < 300, x, y * 2)


def diagonal(x):
    return np.sum(np.where(np.eye(x.shape[0], x.shape[1], dtype=bool), x, 0))


def prefixes(x):
    return np.cumsum(np.triu(x), -1)


def weighted(x, w):
    return np.where(below(x), x * w, 0)


PROGRAMS = {
    "causal": (causal, 1, [0.5]),
    "window": (window, 1, [0.05]),
    "halves": (halves, 2, [0.25, 0.75]),
    "diagonal": (diagonal, 1, [0.05]),
    "triangle": (lambda x: np.tril(x) * 2, 1, [0.5]),
    "sums of a triangle": (lambda x: np.sum(np.tril(x, -1), -1), 1, [0.5]),
    "sums of columns": (lambda x: np.sum(np.tril(x), -2), 1, [0.5]),
    "prefixes": (prefixes, 1, [0.5]),
    "a vector, all of which some row wants": (weighted, -1, [0.5, 1.0]),
}


def loads_of(plan: pf.Plan) -> list[ir.Load]:
    bodies = [launch.kernel.body for launch in plan.launches]
    return [op for body in bodies for op in flatten(body) if isinstance(op, ir.Load) and op.array.endswith("_in")]


def shares_of(plan: pf.Plan) -> list[float]:
    (view,) = plan.kernels
    loads = [p for p in view.schedule.placed if p.role == "load"]
    return [wanted_share(view.group.scop, view.schedule, [p]) for p in sorted(loads, key=lambda p: p.value)]


def arrays_for(count: int, rows: int, columns: int, dtype: str) -> list[Any]:
    rng = np.random.default_rng(3)
    shapes = [(rows, columns)] * abs(count) + [(columns,)] * (count < 0)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def specs_for(count: int, dtype: str, columns: int = 1200) -> list[Any]:
    return [pf.spec(f"{dtype}[N~1200, M~{columns}]")] * abs(count) + [pf.spec(f"{dtype}[M~{columns}]")] * (count < 0)


@pytest.mark.parametrize("columns", [1200, 1203])
@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_loads_ask_for_what_is_wanted(name: str, dtype: str, columns: int) -> None:
    function, count, shares = PROGRAMS[name]
    plan = pf.jit(function).plan(*specs_for(count, dtype, columns), target="h200")
    assert_legal(plan)
    assert shares_of(plan) == pytest.approx(shares, abs=0.05)
    numpy_dtype = {"f32": "f4", "f16": "f2"}[dtype]
    arguments = arrays_for(count, 37, columns, numpy_dtype)
    (found,) = run_plan(plan, arguments)
    exact = function(*[a.astype("f8") for a in arguments])
    tolerance = 2e-5 if dtype == "f32" else 6e-3
    np.testing.assert_allclose(found, exact, atol=tolerance * max(1.0, np.abs(exact).max()))


def test_a_vector_is_read_where_any_of_its_elements_is_wanted() -> None:
    plan = pf.jit(causal).plan(pf.spec("f16[2048, 2048]"), target="h200")
    (load,) = loads_of(plan)
    (asked,) = load.where
    assert load.vector == 8 and "$v" not in asked.names()
    (view,) = plan.kernels
    (placed,) = [p for p in view.schedule.placed if p.role == "load"]
    (condition,) = wanted(view.group.scop, view.schedule, placed)
    assert condition.coefficient("$v") == -1 and asked == condition + digit("v")


def margins(x):
    inside = np.where(below(x), x, 0)
    return np.sum(inside, 0), np.sum(inside, 1)


@pytest.mark.parametrize("columns", [1200, 1203])
def test_loads_that_go_ahead_of_their_loop_ask_for_what_its_next_trip_wants(columns: int) -> None:
    plan = pf.jit(margins, tiles={"sum": {"ahead": 1}}).plan(*specs_for(1, "f32", columns), target="h200")
    assert_legal(plan)
    early, late = loads_of(plan)
    assert early.name == late.name == next_name("x")
    (view,) = plan.kernels
    (placed,) = [p for p in view.schedule.placed if p.role == "load"]
    (condition,) = wanted(view.group.scop, view.schedule, placed)
    first = condition.substitute({"$v": 0})  # of a vector any element
    assert first.substitute({"$r": 0}) in early.where
    assert first.substitute({"$r": digit("r") + 1}) in late.where
    (x,) = arrays_for(1, 301, columns, "f4")
    for found, exact in zip(run_plan(plan, [x]), margins(x.astype("f8")), strict=True):
        np.testing.assert_allclose(found, exact, atol=1e-3)


@pytest.mark.parametrize("most, is_one", [(40_000, True), (2**30 - 1, True), (2**30, False), (-40_000, True)])
def test_indices_are_compared_in_the_numbers_that_kernels_index_with(most: int, is_one: bool) -> None:
    """Where the number fits them on its side; else as NumPy does, in 64 bits."""

    def chosen(x):
        return np.where(np.arange(x.shape[0]) < most, x, 0) * 2

    plan = pf.jit(chosen).plan(pf.spec("f32[N~100000]"), target="h200")
    values = [op.value for op in flatten(plan.launches[0].kernel.body) if isinstance(op, ir.Let)]
    assert any(isinstance(value, Inside) for value in values) is is_one
    assert any(isinstance(value, Apply) and value.function == "less" for value in values) is not is_one
    asks = all(any(c.constant == most - 1 for c in load.where) for load in loads_of(plan))
    assert asks is (is_one and most < 100_000)
    x = np.arange(50_000, dtype="f4")
    (found,) = run_plan(plan, [x])
    np.testing.assert_array_equal(found, chosen(x))


def test_what_is_left_unread_is_priced_and_told() -> None:
    spec = pf.spec("f32[64, 2048, 2048]")
    all_of_it = pf.jit(lambda x: np.sum(x * 2, -1)).plan(spec, target="h200").kernels[0]
    half = pf.jit(lambda x: np.sum(np.tril(x), -1)).plan(spec, target="h200")
    assert half.kernels[0].seconds < 0.6 * all_of_it.seconds
    assert "only what is wanted, some 5" in str(half.explain())
    assert "only what is wanted" not in str(pf.jit(lambda x: np.tril(x)).plan(spec, target="cpu").explain())


ALL_WANTED = {
    "what is read beside": lambda x: np.where(below(x), x, 0) + x,
    "both ways": lambda x: np.where(below(x), x, x * 2),
    "the other way by another statement": lambda x: (np.where(below(x), x, 0), np.sum(x, -1)),
    "what decides": lambda x: np.where(x > 0, np.arange(x.shape[-1]) * 1.0, 0),
    "data beside indices": lambda x: np.where(below(x) | (x > 0), x, 0),
    "an index that wraps": lambda x: np.where((np.arange(1200) % 256).astype(np.uint8) < np.uint8(9), x, 0),
    "floats": lambda x: np.where(np.arange(x.shape[-1]) * 0.5 < 100, x, 0),
    "all but a border": lambda x: np.where(np.arange(x.shape[-1]) > 3, x, 0),
    "all but one": lambda x: np.where(np.arange(x.shape[-1]) != 3, x, 0),
    "a value that is stored": lambda x: ((y := x * 2), np.where(below(x), y, 0)),
    "two parts of which neither has the other": lambda x: np.where(below(x), x, 0) + np.where(below(x, 99), 0, x),
}


@pytest.mark.parametrize("name", ALL_WANTED)
def test_all_is_read_that_anybody_wants(name: str) -> None:
    plan = pf.jit(ALL_WANTED[name]).plan(pf.spec("f32[1200, 1200]"), target="h200")
    for view in plan.kernels:
        loads = [p for p in view.schedule.placed if p.role == "load"]
        assert wanted_share(view.group.scop, view.schedule, loads) == 1.0
        assert not any(wanted(view.group.scop, view.schedule, p) for p in loads)


def test_pieces_of_a_region_are_read_whole() -> None:
    plan = pf.jit(lambda x, y: np.concatenate([x, y], 1)).plan(*[pf.spec("f32[999, 1200]")] * 2, target="h200")
    assert set(shares_of(plan)) == {1.0}


def test_rows_that_data_choose_are_checked_all_the_same() -> None:
    """A row outside is an error though nobody wants what is in it."""
    plan = pf.jit(lambda x, i: np.where(below(x[i]), x[i], 0)).plan(
        pf.spec("f32[40, 64]"), pf.spec("i64[48]"), target="h200"
    )
    index = np.arange(48) % 40
    x = np.random.default_rng(0).standard_normal((40, 64)).astype("f4")
    (found,) = run_plan(plan, [x, index])
    np.testing.assert_array_equal(found, np.where(np.arange(64) <= np.arange(48)[:, None], x[index], 0))
    index[7] = 40
    with pytest.raises(IndexError):
        run_plan(plan, [x, index])
