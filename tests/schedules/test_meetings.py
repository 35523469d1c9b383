"""Sums of one block that do not wait for each other meet at once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import kernel as ir
from polyfuse.backends.numba_cuda.assemble import find_ptxas
from polyfuse.dtypes import f32
from polyfuse.face.interpreted import run_plan
from polyfuse.lower.meetings import with_meetings_together
from polyfuse.terms import Apply, Ref

Function = Callable[..., Any]


def entropy(x: Any) -> Any:
    z = x - x.max(axis=1, keepdims=True)
    e = np.exp(z)
    total = e.sum(axis=1)
    return np.log(total) - (e * z).sum(axis=1) / total


def statistics(x: Any) -> Any:
    return x.sum(axis=1), (x * x).sum(axis=1), x.max(axis=1), np.abs(x).sum(axis=1), x.min(axis=1)


def columns(x: Any) -> Any:
    return x.sum(axis=0), (x * x).sum(axis=0)


def one_after_the_other(x: Any) -> Any:
    d = x - x.mean(axis=1, keepdims=True)
    return (d * d).sum(axis=1)


def behind_the_largest(x: Any) -> Any:
    d = x - x.max(axis=1, keepdims=True)
    return d / (np.abs(d).sum(axis=1, keepdims=True) + 1) * (d * d).sum(axis=1, keepdims=True)


CASES: dict[str, tuple[Function, str, list[str]]] = {
    "beside each other": (entropy, "f32[300, 4096]", ["max 1", "sum 2"]),
    "of several kinds": (statistics, "f32[300, 4096]", ["max 1", "min 1", "sum 3"]),
    "in double precision": (statistics, "f64[300, 2048]", ["max 1", "min 1", "sum 3"]),
    "of columns": (columns, "f32[4096, 4096]", ["sum 2"]),
    "of clusters": (behind_the_largest, "f32[64, 262144]", ["max 1", "sum 2"]),
    "that wait": (one_after_the_other, "f32[300, 4096]", ["sum 1", "sum 1"]),
}


def meetings(plan: pf.Plan) -> list[str]:
    calls = re.findall(r"threads_(\w+)\((\([^)]*\)|\w+),", plan.source())
    return sorted(f"{monoid} {values.count(',') + 1}" for monoid, values in calls)


@pytest.mark.parametrize("name", CASES)
def test_threads_wait_once_for_all_that_are_ready(name: str) -> None:
    function, spec, expected = CASES[name]
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    assert meetings(plan) == expected, plan.source()


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", [(5, 2049), (3, 4096)])
def test_results_are_those_of_numpy(name: str, shape: tuple[int, int]) -> None:
    function, spec, _ = CASES[name]
    x = np.random.default_rng(1).standard_normal(shape).astype(pf.spec(spec).dtype.numpy)
    found, exact = run_plan(pf.jit(function).plan(x, target="h200"), [x]), function(x.astype(np.float64))
    for mine, theirs in zip(found, exact if isinstance(exact, tuple) else (exact,), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-3)


@pytest.mark.ptx
@pytest.mark.skipif(find_ptxas() is None, reason="needs an assembler")
@pytest.mark.parametrize("name", CASES)
def test_they_compile_and_wait_less(name: str) -> None:
    from polyfuse.face.numba_cuda import CudaBackend

    function, spec, expected = CASES[name]
    plan = pf.jit(function).plan(pf.spec(spec), target="h200")
    kernel = CudaBackend().job(plan.launches[0], plan).kernel()
    assert kernel.resources is not None and not kernel.resources.spilled_bytes
    assert kernel.ptx.count("bar.sync") <= 2 * len(expected) + 2


def combination(name: str, of: str, bits: int = 255, monoid: str = "sum") -> ir.Combine:
    return ir.Combine((name,), monoid, (Ref(of, f32),), bits)


def let(name: str, *of: str) -> ir.Let:
    return ir.Let(name, Apply("add", tuple(Ref(o, f32) for o in of), f32))


def test_nothing_passes_what_needs_it() -> None:
    first, last = combination("a", "x"), combination("b", "y")
    for between in (let("y", "a", "x"), ir.Barrier(), let("x", "y", "y"), let("a", "y", "y")):
        assert with_meetings_together([first, between, last]) == (first, between, last)
    free = let("y", "z", "z")
    assert with_meetings_together([first, free, last]) == (free, first, last)
    other = combination("c", "z", monoid="max")
    assert with_meetings_together([first, other, free, last]) == (other, free, first, last)
    for apart in (combination("b", "y", bits=31), combination("b", "y", monoid="max"), combination("b", "a")):
        assert with_meetings_together([first, free, apart]) == (first, free, apart)
