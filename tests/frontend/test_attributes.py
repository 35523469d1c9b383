"""Attributes of arrays and what Python itself asks of them, against NumPy, and what it cannot be told."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from polyfuse.errors import TraceError
from polyfuse.frontends.numpy_like import specs_of_arrays, trace
from tests.frontend.ops import assert_same, run

X = np.random.default_rng(6).standard_normal((3, 4)).astype(np.float32)
T = np.random.default_rng(7).standard_normal((2, 3, 4))
K = np.array([2, 0, 1])

VALUES = """
x.T; t.mT; x.mT; x.real; x.imag; k.imag; x * x.itemsize; x * x.nbytes; k * k.itemsize; x * t.nbytes
x.dtype == "f4" and x
x * x.ndim; x * x.size; x * len(x); x * len(t[0]); [r * 2 for r in x]; sum(r.sum() for r in x); [*k]; tuple(x.T)
copy.copy(x); copy.deepcopy(x)[0]; x if "cpu" in x.device else -x; x.compress([True, False, True], 0)
"""

OTHERWISE: dict[str, Any] = {
    "x.flat": X.ravel(),
    "t.flat[5]": T.ravel()[5],
    "x == None": np.zeros(X.shape, bool),
    "x != None": np.ones(X.shape, bool),
    "x == 'a'": np.zeros(X.shape, bool),
    "x.at[1].get()": X[1],
}
"""What NumPy spells differently."""

UPDATES: dict[str, Any] = {
    "x.at[1].set(5)": ("set", 1, 5),
    "x.at[:, 0].add(1)": ("add", (slice(None), 0), 1),
    "x.at[0].subtract(x[1])": ("subtract", 0, X[1]),
    "x.at[1, 2].multiply(3)": ("multiply", (1, 2), 3),
    "x.at[1].mul(2)": ("multiply", 1, 2),
    "x.at[0].divide(2)": ("divide", 0, 2),
    "x.at[2].min(0)": ("minimum", 2, 0),
    "x.at[2].max(0)": ("maximum", 2, 0),
    "x.at[k].add(1)": ("add", K, 1),
}


def listed() -> list[str]:
    return [entry.strip() for line in VALUES.strip().splitlines() for entry in line.split("; ")]


def computed(expression: str, runner: Any) -> Any:
    code = compile(expression, "<expression>", "eval")
    return runner(lambda x, t, k: eval(code, {"np": np, "copy": copy, "x": x, "t": t, "k": k}), X, T, K)


def changed(name: str, index: Any, value: Any) -> Any:
    result = X.copy()
    result[index] = value if name == "set" else getattr(np, name)(result[index], value)
    return result


@pytest.mark.parametrize("expression", listed())
def test_as_numpy(expression: str) -> None:
    assert_same(computed(expression, run), computed(expression, lambda function, *arrays: function(*arrays)))


@pytest.mark.parametrize("expression", OTHERWISE)
def test_what_numpy_spells_differently(expression: str) -> None:
    assert_same(computed(expression, run), OTHERWISE[expression])


@pytest.mark.parametrize("expression", UPDATES)
def test_changed_copies(expression: str) -> None:
    assert_same(computed(expression, run), changed(*UPDATES[expression]))


def test_in_place_methods() -> None:
    def function(x: Any) -> Any:
        a, b = x.copy(), x.copy()
        rows = b[1:]
        a.sort(axis=0)
        rows.sort()
        return a, b, rows

    assert_same(run(function, X), function(X))


def test_memory_that_is_shared_and_memory_that_is_not() -> None:
    def function(x: Any) -> Any:
        a = x.copy()
        apart, same = copy.copy(a), a
        a += 1
        shaped = a
        shaped.shape = (4, 3)
        return apart, same, shaped

    assert_same(run(function, X), function(X))


def test_the_real_part_is_all_of_an_array() -> None:
    def function(x: Any) -> Any:
        a, b = x.copy(), x.copy()
        a.real = 3
        b.real[0] = 7
        b.T.real = b.T.real * 2
        return a, b

    assert_same(run(function, X), function(X))


REFUSED = {
    "bool(x > 0)": "Python control flow needs the value of an array",
    "int(x[0, 0])": "int() needs the value of an array",
    "float(x.sum())": "float() needs the value of an array",
    "complex(x.sum())": "complex() needs the value of an array",
    "range(k[0])": "an index or range() needs the value of an array",
    "0.5 in x": "Python control flow needs the value of an array",
    "np.array(x.tolist())": "x.tolist() needs the values of an array",
    "x.item()": "x.item() needs the values of an array",
    "x.ctypes": "arrays in a jitted function have no attribute 'ctypes'",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_what_needs_values_is_refused(expression: str) -> None:
    with pytest.raises((TraceError, AttributeError)) as refusal:
        computed(expression, run)
    assert str(refusal.value).startswith(REFUSED[expression])


def test_errors_of_pythons_own() -> None:
    for expression, problem in {
        "len(x[0, 0])": "len() of an array of rank 0",
        "range(x[0, 0])": "an array of float32 is no index",
        "x.wings": "arrays in a jitted function have no attribute 'wings'",
    }.items():
        with pytest.raises((TypeError, AttributeError)) as refusal:
            computed(expression, run)
        assert str(refusal.value).startswith(problem)


def test_what_a_tracer_looks_like() -> None:
    seen: list[str] = []

    def function(x: Any) -> Any:
        seen.extend([repr(x), f"{x!s:>25}", str(x[0]), repr("sum" in dir(x) and "T" in dir(x))])
        return x

    trace(function, specs_of_arrays([X]))
    assert seen == ["Tracer(f32[n0, n1])", "      Tracer(f32[n0, n1])", "Tracer(f32[n1])", "True"]
