"""Spellings that NumPy takes beside the usual ones: results by position, casts of results, shapes and elements set."""

from __future__ import annotations

import collections.abc
import importlib
import math
import numbers
import pathlib
from collections.abc import Callable
from math import sqrt as root
from typing import Any

import numpy as np
import pytest
from numpy import full, isscalar, linspace, ones, tile

import polyfuse as pf
from polyfuse.errors import DTypeError, IndexingError, ShapeError, TraceError, UnsupportedError
from tests.frontend.ops import assert_same, run

X = np.random.default_rng(0).standard_normal((4, 6))
BYTES = np.arange(-6, 6, dtype=np.int8)


def written(call: Callable[[Any, Any], Any], *shape: int, dtype: Any = float) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        out = np.zeros(shape, dtype)
        result = call(x, out)
        return result, out + 1

    return function


@pytest.mark.parametrize(
    "function",
    [
        written(lambda x, o: np.multiply(x, 2, o), 4, 6),
        written(lambda x, o: np.multiply(x, 2, None), 4, 6),
        written(lambda x, o: np.add(x, x, order="F", out=(o,)), 4, 6),
        written(lambda x, o: np.sum(x, 1, None, o), 4),
        written(lambda x, o: np.std(x, 1, None, o, 1), 4),
        written(lambda x, o: np.argmax(x, 1, o), 4, dtype=int),
        written(lambda x, o: np.clip(x, -1, 1, o), 4, 6),
        written(lambda x, o: x.sum(axis=1, out=o), 4),
        written(lambda x, o: x.mean(0, None, o), 6),
        written(lambda x, o: x.round(1, o), 4, 6),
        written(lambda x, o: np.add(x, 1, out=o), 4, 6, dtype=np.float32),
        written(lambda x, o: np.add(x, 1, out=o, casting="unsafe"), 4, 6, dtype=np.int32),
        written(lambda x, o: np.maximum.reduce(x, 0, None, o), 6),
        written(lambda x, o: np.divmod(x, 0.5, out=(o, None))[1], 4, 6),
        lambda x: np.maximum.reduce([x, 2 * x, x - 1]),
        lambda x: np.piecewise(x[0], x[0] > 0, [1, 0]),
        lambda x: np.piecewise(x[0], [x[0] > 0], [lambda v: v - v.mean(), np.exp]),
        lambda x: (np.piecewise(x[0, 0], x[0, 0] > 0, [2.5, 1]), np.piecewise(x, [x < 0, x > 1], [np.negative, 3])),
        lambda x: np.piecewise(x, [x < 0], [lambda v, a: np.where(v < -1, a, v), lambda v, a: a * v], 0.5),
        lambda x: np.logical_and.reduce([x > 0, x < 1]),
        lambda x: np.add.accumulate([x[0], x[1]]),
        lambda x: np.add.outer([x[0, 0], 1.0], x[1]),
        lambda x: x[range(2)],
        lambda x: (x[:, ()], x[[]], x == None, x != "a"),  # noqa: E711
        lambda x: (math.hypot(*x[0]), math.hypot(x[0, 0]), math.hypot(x[0, 0], 3, 4) * x),
        lambda x: (x * math.sqrt(x[0, 1] ** 2 + 1), math.atan2(x[0, 0], 2), math.floor(x[1, 1] * 9), math.log(3.0)),
        lambda x: (math.log(abs(x[0, 0]), 2), math.pow(2, x[0, 1]), math.isnan(x[0, 0]), math.pi, root(x[2, 2] ** 2)),
        lambda x: np.array(x, ndmin=3),
        lambda x: (max(x[0, 0], x[0, 1], 0.1), min(x.sum(), 0.0), max([x[1, 1], 0]), min(2, 1), max(x.shape)),
        lambda x: (min(x[0] - x[0] + k for k in range(3))[0] if x.ndim == 1 else max(k * 2 for k in x.shape)),
        lambda x: max([(1, 2), (3, 1)], key=lambda p: p[1])[0] * x,
        lambda x: (max(x[0, 0], np.nan), max(np.nan, x[0, 0]), min(x[0])),
        lambda x: (sorted(x[0]), sorted(x[1], reverse=True)[0], sorted([x[0, 0], x.sum(), x[1, 1]])[1]),
        lambda x: (sorted(x.shape), sorted([3, 1, 2]) * x[0, :3], sorted(x[:1, 0], key=abs)),
        lambda x: np.array([x[0], x[1]], dtype=np.float32, ndmin=4),
        lambda x: np.linalg.lstsq(x, x[:, 0])[1],
        lambda x: np.linalg.lstsq(x.T, x[0])[1],
        lambda x: round(x[0, 0]),
        lambda x: round(x[0, 0], 1),
        lambda x: (isinstance(x, np.ndarray), isinstance(x[0, 0], np.ndarray), isinstance(x.sum(), (np.ndarray, list))),
        lambda x: (np.isscalar(x.sum()), np.isscalar(x), np.isscalar(2.0)),
    ],
)
def test_against_numpy(function: Callable[..., Any]) -> None:
    got, wanted = run(function, X), function(X)
    assert_same(got, wanted)


def shape_set(x: Any) -> Any:
    a = x.copy()
    a.shape = (6, 4)
    a[0] = 7
    a.shape = -1
    return a


def flat_set(x: Any) -> Any:
    a, b = x.copy(), x.copy()
    a.flat = 3
    b.flat = [1, 2, 3, 4, 5]
    return a, b


def cast_without_copy(x: Any) -> Any:
    a = x.copy()
    same, other = a.astype(float, copy=False), a.astype(np.float32, copy=False)
    same[0], other[1] = 1, 2
    return a, same, other


def memory_filled(x: Any) -> Any:
    a = np.ndarray((x.shape[0], 3), dtype=np.float32)
    a[:, 0] = x[:, 0]
    a[:, 1:] = 1
    return a


def bits_written(x: Any) -> Any:
    """The sign bit cleared through a view of the bits, rows of a view of a view."""
    a = x.copy()
    bits = a.view(np.int64)
    bits &= 0x7FFFFFFFFFFFFFFF
    a[1:].view(np.int64)[0] = 0
    return a, bits


def ufunc_at(x: Any) -> Any:
    a = x.copy()
    np.negative.at(a, (slice(None), 1))
    np.power.at(a, 2, 2)
    np.subtract.at(a, [0, 0], 1.0)
    np.minimum.at(a, ([3, 3], [2, 2]), [5.0, -5.0])
    return a


@pytest.mark.parametrize("function", [shape_set, flat_set, cast_without_copy, memory_filled, bits_written, ufunc_at])
def test_what_is_written_is_seen_as_in_numpy(function: Callable[..., Any]) -> None:
    assert_same(run(function, X), function(X), exact=function is not ufunc_at)


@pytest.mark.parametrize("number", [300, -300, 128, -129, 127, -128, 5])
def test_comparisons_with_integers_of_any_size(number: int) -> None:
    def compared(x: Any) -> Any:
        return x < number, x <= number, x > number, x >= number, x == number, x != number, number < x, number == x

    assert_same(run(compared, BYTES), compared(BYTES))


def test_truth_values_where_numpy_counts_in_small_numbers() -> None:
    def function(b: Any) -> Any:
        return np.square(b), b**2, np.round(b), np.reciprocal(b | True)

    mask = X > 0
    assert_same(run(function, mask), function(mask))


def test_isinstance_decides_as_outside() -> None:
    kinds: list[Any] = [int, float, bool, tuple, np.ndarray, np.generic, np.floating, np.integer, numbers.Number]
    kinds += [(int, float), (list, np.ndarray), collections.abc.Iterable]

    def checked(x: Any, k: Any, s: Any) -> Any:
        total = x.sum() if isinstance(x, np.ndarray) else x
        values = (x, k, s, x.shape, x.shape[0], total, total.astype(np.int64), x[0], x[0, 0], x > 0, "a", [x], len(x))
        return [[isinstance(value, kind) for kind in kinds] for value in values]

    assert pf.jit(checked)(X, 2, 0.5) == checked(X, 2, 0.5)


def test_numbers_of_pythons_math_take_the_dtype_of_arrays() -> None:
    def function(x: Any) -> Any:
        return x / math.exp(x[0, 0]), x * math.ceil(x[0, 0]), x // math.floor(x[0, 1] * 8 + 20)

    narrow = X.astype(np.float32)
    assert_same(run(function, narrow), function(narrow))


def test_defaults_that_say_how_are_known_while_tracing() -> None:
    def normalized(x: Any, axis: int = -1, order: int = 2, mode: Any = "full", k: int = 3) -> Any:
        if k == None or k == "same" or mode in ("same", k):  # noqa: E711
            return x
        return x / np.linalg.norm(x, order, axis)[:, None]

    np.testing.assert_allclose(pf.jit(normalized)(X), normalized(X))
    np.testing.assert_allclose(pf.jit(normalized)(X, order=1, k=4), normalized(X, order=1))


def test_functions_of_numpy_by_their_own_names() -> None:
    def function(x: Any) -> Any:
        return ones(x.shape) + x, full((2, x.shape[1]), 3.0), tile(linspace(0, 1, 3), 2), isscalar(x.sum())

    assert_same(run(function, X), function(X))


def test_functions_of_numpy_are_arguments() -> None:
    def applied(x: Any, f: Any, g: Any) -> Any:
        return g(f(x))

    jitted = pf.jit(applied)
    for f, g in ((np.sin, np.sum), (np.cos, np.max), (np.exp, np.median)):
        np.testing.assert_allclose(jitted(X, f, g), applied(X, f, g))


def recurrence(n: int) -> Callable[[Any], Any]:
    def steps(x: Any) -> Any:
        for _ in range(n):
            x = np.sin(x)
        return x

    return steps


def test_a_loop_that_unrolls_into_many_statements_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    run(recurrence(255), X)
    assert not caplog.records
    run(recurrence(300), X)
    (record,) = caplog.records
    first, where, code, marks, advice = record.getMessage().splitlines()
    assert first == "a line of steps has run 256 times while it is traced, because Python loops unroll"
    assert where.endswith(f'test_idioms.py", line {recurrence.__code__.co_firstlineno + 3}')
    assert code.strip() == "x = np.sin(x)" and marks.strip() == "^" * len("np.sin(x)") and "jit one step" in advice


def assert_refused(function: Callable[..., Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        run(function, X)


def test_what_numpy_refuses_or_cannot_be_known_is_an_error() -> None:
    assert_refused(
        written(lambda x, o: np.add(x, 1, out=o), 4, 6, dtype=int), DTypeError, "not cast by the rule 'same_kind'"
    )
    assert_refused(
        written(lambda x, o: np.sum(x, 1, None, o), 4, dtype=int), DTypeError, "a result of float64 is not cast"
    )
    assert_refused(lambda x: np.ediff1d(x > 0), DTypeError, "does not accept bool")
    assert_refused(lambda x: np.negative.at(x.copy(), [0, 0]), UnsupportedError, "indices may repeat")
    assert_refused(lambda x: np.divide.at(x.copy(), [0, 0], 2.0), UnsupportedError, "indices may repeat")

    assert_refused(lambda x: np.piecewise(x, [x > 0], [1, 2, 3]), ShapeError, "takes 1 functions, or one more, not 3")
    assert_refused(lambda x: np.piecewise(x, [x > 0], [np.cumsum]), IndexingError, "depends on the values of the mask")
    assert_refused(lambda x: np.select([x > 0, x], [1, 2]), DTypeError, "takes conditions, not float64")
    assert_refused(lambda x: np.ndarray((2,), float, x), UnsupportedError, "over memory that exists")

    def transposed(x: Any) -> Any:
        a = x.copy().T
        a.shape = (24,)
        return a

    assert_refused(transposed, TraceError, "needs a copy")


def test_a_module_of_the_users_may_have_numpy_in_its_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["import numpy as np", "def grown(x):", "    return np.zeros(x.shape) + x"]
    (tmp_path / "numpy_of_mine.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    mine = importlib.import_module("numpy_of_mine")
    wrapped = pf.jit(lambda x: mine.grown(x) * 2)
    np.testing.assert_allclose(wrapped(X), X * 2)
    assert "captured" not in str(wrapped.plan(X).program)
