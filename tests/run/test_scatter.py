"""``np.add.at`` and ``x.at[...]`` compiled: duplicates in a fixed order, negative indices, errors, every library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyfuse.face.interpreted import run_plan
from polyfuse.frontends.numpy_like import specs_of_arrays, trace
from polyfuse.library_calls import functions
from polyfuse.library_calls.scatter import FUNCTIONS, in_order
from polyfuse.reference import evaluate
from polyfuse.run.dispatch import Jitted

Jit = Callable[..., Jitted]
RNG = np.random.default_rng(1)
X = RNG.standard_normal((6, 5)).astype(np.float32)
ROWS = RNG.integers(-6, 6, 40)
COLUMNS = RNG.integers(0, 5, 40).astype(np.int32)
U = RNG.standard_normal((40, 5)).astype(np.float32)


def copied(function: Callable[..., None]) -> Callable[..., Any]:
    """`function` changes a copy of its first argument, which is then used."""

    def program(x: Any, *rest: Any) -> Any:
        a = x.copy()
        function(a, *rest)
        return a * 2

    return program


def assign(a: Any, rows: Any, u: Any) -> None:
    a[rows] = u


def assign_columns(a: Any, columns: Any, u: Any) -> None:
    a[1:, columns] = u[:5, :1]


CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "add": (copied(lambda a, i, u: np.add.at(a, i, u)), (X, ROWS, U)),
    "subtract": (copied(lambda a, i, u: np.subtract.at(a, i, u)), (X, ROWS, U)),
    "multiply": (copied(lambda a, i, u: np.multiply.at(a, i, u)), (X, ROWS, U)),
    "maximum": (copied(lambda a, i, u: np.maximum.at(a, i, u)), (X, ROWS, U)),
    "minimum": (copied(lambda a, i, u: np.minimum.at(a, i, u)), (X, ROWS, U)),
    "one number": (copied(lambda a, i: np.add.at(a, i, 1)), (X, ROWS)),
    "two indices": (copied(lambda a, i, j, u: np.add.at(a, (i, j), u)), (X, ROWS, COLUMNS, U[:, 0])),
    "histogram": (lambda i: (h := np.zeros(9, np.int64), np.add.at(h, i, 1), h)[2], (RNG.integers(0, 9, 500),)),
    "set": (copied(assign), (X, ROWS, U)),
    "set columns": (copied(assign_columns), (X, COLUMNS, U)),
    "unsigned": (
        copied(lambda a, i, u: np.maximum.at(a, i, u)),
        tuple(
            np.asarray(v, t)
            for v, t in ((range(5), np.uint32), (ROWS[:9] % 5, np.int64), (range(2**32 - 9, 2**32), np.uint32))
        ),
    ),
    "nothing": (copied(lambda a, i, u: np.add.at(a, i, u)), (X, ROWS[:0], U[:0])),
    "bool": (copied(assign), (X[:, 0] > 0, ROWS, U[:, 0] > 0)),
}


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(jit: Jit, name: str) -> None:
    function, arrays = CASES[name]
    wanted = function(*arrays)
    f = jit(function)
    np.testing.assert_array_equal(f(*arrays), wanted)
    traced = trace(function, specs_of_arrays(arrays))
    hidden = traced.captured
    np.testing.assert_array_equal(evaluate(traced.program, [*arrays, *hidden])[0], wanted)
    plan = f.plan(*arrays)
    assert [step.call.name for step in plan.library_calls] == ["scatter"]
    np.testing.assert_array_equal(run_plan(plan, [*arrays, *hidden])[0], wanted)


@pytest.mark.parametrize("name", CASES)
def test_torch_is_deterministic_and_close(jit: Jit, name: str) -> None:
    torch = pytest.importorskip("torch")
    function, arrays = CASES[name]
    f = jit(function)
    first, second = (f(*map(torch.from_numpy, arrays)).numpy() for _ in range(2))
    np.testing.assert_array_equal(first, second)
    wanted = function(*arrays)
    assert first.dtype == wanted.dtype
    np.testing.assert_allclose(first, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", ["add", "set", "max", "min", "mul"])
def test_functional_updates(jit: Jit, how: str) -> None:
    ufunc = {"add": np.add, "max": np.maximum, "min": np.minimum, "mul": np.multiply}.get(how)
    wanted = X.copy()
    if ufunc is None:
        wanted[ROWS] = U
    else:
        ufunc.at(wanted, ROWS, U)
    np.testing.assert_array_equal(jit(lambda x, i, u: getattr(x.at[i], how)(u))(X, ROWS, U), wanted)


def test_out_of_range_is_an_index_error(jit: Jit) -> None:
    f = jit(CASES["add"][0])
    for wrong in (6, -7, 100):
        rows = np.where(np.arange(40) == 3, wrong, 0)
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for axis 0 with size 6"):
            f(X, rows, U)
        traced = trace(CASES["add"][0], specs_of_arrays([X, rows, U]))
        with pytest.raises(IndexError):
            evaluate(traced.program, [X, rows, U])
    np.testing.assert_array_equal(f(X, ROWS, U), CASES["add"][0](X, ROWS, U))


@pytest.mark.parametrize("monoid", [*FUNCTIONS, "set"])
def test_the_tree_keeps_the_order_of_duplicates(monoid: str) -> None:
    at = RNG.integers(0, 7, 300)
    truth = monoid in ("any", "all")
    values = RNG.integers(0, 2, 300).astype(bool) if truth else RNG.integers(-9, 9, 300)
    values = np.where(values % 2 == 0, 1, -1) if monoid == "prod" else values
    base = values[:7].copy()
    found, wanted = base.copy(), base.copy()
    if monoid in ("fmax", "fmin"):
        found, wanted, values = (v.astype(np.float64) for v in (found, wanted, values))
    in_order(functions.tools_of(np), found, values, at, monoid)
    if monoid == "set":
        wanted[at] = values
    else:
        getattr(np, FUNCTIONS[monoid]).at(wanted, at, values)
    np.testing.assert_array_equal(found, wanted)
