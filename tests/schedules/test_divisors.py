"""What idle lanes divide by is one: a divisor of zero sends their whole warp the long way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.face.interpreted import run_plan
from polyfuse.kernel import If, Load
from polyfuse.lower.inspect import flatten

Array = Any


def scaled(x: Array, q: Array) -> Array:
    return np.exp(x) / q


def by_root(x: Array, q: Array) -> Array:
    return x / np.sqrt(q * q)


def by_root_of_a_quotient(x: Array, q: Array) -> Array:
    return x / np.sqrt(q / 3)


def by_the_less(x: Array, q: Array) -> Array:
    return x / -np.minimum(q, q * q)


def standardised(x: Array) -> Array:
    return np.clip((x - x.mean(0)) / x.std(0), -3, 3)


def by_what_is_kept_from_zero(x: Array, q: Array) -> Array:
    return x / (q + 1e-5)


def by_a_difference(x: Array, q: Array) -> Array:
    return x / (1 - q)


def summed(x: Array, q: Array) -> Array:
    return (x / q).sum(axis=1)


def numerator(x: Array, q: Array) -> Array:
    return (x * q) / 3


def others(program: Any, *specs: str) -> dict[str, set[float | None]]:
    plan = pf.jit(program).plan(*map(pf.spec, specs), target="h200")
    found: dict[str, set[float | None]] = {}
    for launch in plan.launches:
        for op in flatten(launch.kernel.body):
            if isinstance(op, Load):
                found.setdefault(op.array, set()).add(None if op.other is None else float(op.other.value))
    return found


@pytest.mark.parametrize("width", [36, 100])
@pytest.mark.parametrize("program", [scaled, by_root, by_root_of_a_quotient, by_the_less])
def test_idle_lanes_divide_by_one(program: Any, width: int) -> None:
    found = others(program, f"f32[N~1000000, M~{width}]", f"f32[M~{width}]")
    assert 1.0 in found["q_in"] and 1.0 not in found["x_in"], found


def test_idle_lanes_have_a_deviation() -> None:
    """A million rows of 40 took an H200 253 us, 193 of them for the quotients of lanes that have nothing: such lanes
    divide by one, or pass the kernel by."""
    found = others(standardised, "f32[N~1000003, M~500]")
    assert any(1.0 in values for values in found.values()), found
    plan = pf.jit(standardised).plan(pf.spec("f32[N~1000003, M~40]"), target="h200")
    (passed_by,) = plan.launches[-1].kernel.body
    assert isinstance(passed_by, If) and not passed_by.uniform


@pytest.mark.parametrize("program", [by_what_is_kept_from_zero, by_a_difference, numerator])
def test_what_is_no_divisor_by_itself_stays_as_it_is(program: Any) -> None:
    found = others(program, "f32[N~1000000, M~100]", "f32[M~100]")
    assert not any(1.0 in values for values in found.values()), found


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
@pytest.mark.parametrize("width", [100, 301, 33])
@pytest.mark.parametrize("program", [scaled, by_root, by_root_of_a_quotient, by_the_less, summed])
def test_results_are_those_of_numpy(program: Any, width: int, dtype: str) -> None:
    specs = f"{dtype}[N~1000000, M~{width}]", f"{dtype}[M~{width}]"
    plan = pf.jit(program).plan(*map(pf.spec, specs), target="h200")
    random = np.random.default_rng(7)
    x, q = random.standard_normal((29, width)), random.uniform(1, 2, width)
    arrays = [a.astype(pf.spec(f"{dtype}[]").dtype.numpy) for a in (x, q)]
    (found,) = run_plan(plan, arrays)
    wanted = program(*[a.astype(np.float64) for a in arrays])
    error = {"f16": 2e-2, "f32": 2e-5, "f64": 1e-12}[dtype]
    np.testing.assert_allclose(found, wanted, rtol=error, atol=error * np.abs(wanted).max())
