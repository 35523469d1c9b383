"""Rows whose prefixes lanes hold in several pieces: all of a row is on its way at once, and threads meet once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.backends.numba_cuda.assemble import find_ptxas
from polyfuse.bindings import is_advisory
from polyfuse.face.interpreted import run_plan
from polyfuse.plan import Plan
from polyfuse.testing import assert_legal

Function = Callable[..., Any]


def deepest(x: Any) -> Any:
    so_far = np.cumsum(x, axis=1)
    return so_far.max(axis=1) - so_far[:, -1], np.abs(so_far).sum(axis=1)


def shares(x: Any) -> Any:
    return np.cumsum(x * x, axis=1) / (x * x).sum(axis=1, keepdims=True)


def variances(x: Any) -> Any:
    return np.cumsum(x * x, axis=1) - np.cumsum(x, axis=1) ** 2 / x.shape[1]


def sums(x: Any) -> Any:
    return np.cumsum(x, axis=1)


CASES: dict[str, tuple[Function, str, int, tuple[int, int]]] = {
    "reduced": (deepest, "f32", 1000, (32, 8)),
    "needed again": (shares, "f32", 4096, (256, 4)),
    "two of them": (variances, "f32", 2000, (128, 4)),
    "of a warp": (shares, "bf16", 300, (32, 3)),
    "of double precision": (deepest, "f64", 300, (32, 5)),
    "in single elements": (deepest, "f32", 777, (32, 7)),
}


def planned(function: Function, dtype: str, length: int) -> Plan:
    return pf.jit(function, verify=True).plan(pf.spec(f"{dtype}[N~{120_000_000 // length}, M~{length}]"), target="h200")


@pytest.mark.parametrize("name", CASES)
def test_lanes_hold_the_row_and_no_loop_goes_through_it(name: str) -> None:
    function, dtype, length, (lanes, chunks) = CASES[name]
    plan = planned(function, dtype, length)
    assert_legal(plan)
    (kernel,) = plan.kernels
    found = dict(kernel.schedule.parameters)
    assert (found["lanes"], found["chunks"]) == (lanes, chunks), found
    assert not kernel.schedule.of_kind("loop")


@pytest.mark.parametrize("name", CASES)
def test_every_length_of_the_class_has_the_results_of_numpy(name: str) -> None:
    function, dtype, length, (lanes, chunks) = CASES[name]
    plan, dice = planned(function, dtype, length), np.random.default_rng(1)
    served = [
        m
        for m in range(max(1, length - 600), length + 600)
        if all(g.holds({"N": 3, "M": m}) for g in plan.guards if not is_advisory(g))
    ]
    assert length in served
    for m in {served[0], length, served[-1]}:
        x = dice.integers(-3, 4, (3, m)).astype(pf.spec(f"{dtype}[]").dtype.numpy)
        exact = function(x.astype(np.float64))
        for mine, theirs in zip(run_plan(plan, [x]), exact if isinstance(exact, tuple) else (exact,), strict=True):
            tolerance = 2e-2 if dtype == "bf16" else 1e-4
            np.testing.assert_allclose(np.asarray(mine, np.float64), theirs, rtol=tolerance, atol=tolerance)


def test_trips_where_few_threads_would_hold_all_of_it() -> None:
    (kernel,) = planned(variances, "f32", 8192).kernels
    assert kernel.schedule.of_kind("loop")


@pytest.mark.parametrize("rows", [3, 120_000])
def test_pieces_are_what_the_user_asks_for(rows: int) -> None:
    asked = {"lanes": 64, "chunks": 4}
    plan = pf.jit(sums, tiles={"sum": asked}).plan(pf.spec(f"f32[{rows}, 1000]"), target="h200")
    (kernel,) = plan.kernels
    assert asked.items() <= kernel.parameters.items()
    again = pf.parse_schedule(str(plan), pf.jit(sums, target="h200"), pf.spec(f"f32[{rows}, 1000]"))
    assert str(again) == str(plan)


def test_one_meeting_for_all_pieces() -> None:
    source = planned(sums, "f32", 1000).source()
    assert source.count("scan_sum(") == 2  # of all pieces by threads, and of these one behind the other
    assert ", 127, 128, " in source


@pytest.mark.ptx
@pytest.mark.skipif(find_ptxas() is None, reason="needs an assembler")
@pytest.mark.parametrize("name", ["reduced", "needed again", "two of them"])
def test_they_compile_without_a_spill(name: str) -> None:
    from polyfuse.face.numba_cuda import CudaBackend

    function, dtype, length, _ = CASES[name]
    plan = planned(function, dtype, length)
    kernel = CudaBackend().job(plan.launches[0], plan).kernel()
    assert kernel.resources is not None and not kernel.resources.spilled_bytes
