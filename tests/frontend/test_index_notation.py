"""Index notation against NumPy's own loops and functions, and the same plans as the NumPy spelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import IndexingError, OutOfRangeError, TraceError
from polyfuse.frontends.numpy_like import specs_of_arrays, trace
from polyfuse.reference import evaluate

i, j, k = pf.indices("i j k")
RNG = np.random.default_rng(0)
A, S, X, W = (RNG.random(shape) for shape in ((6, 7), (7, 7), (12,), (3,)))


def run(function: Callable[..., Any], *arrays: Any) -> Any:
    """The result by the reference evaluator."""
    traced = trace(function, specs_of_arrays(list(arrays)))
    return traced.rebuild(evaluate(traced.program, [*arrays, *traced.captured]), {})


def matmul(a, b):
    c = pf.empty()
    c[i, j] = pf.sum(k, a[i, k] * b[k, j])
    return c


def stencil(a):
    b = pf.zeros(a.shape, a.dtype)
    b[i, j] = (a[i - 1, j] + a[i + 1, j]) / 2
    return b


def stencil_by_slices(a):
    b = np.zeros(a.shape, a.dtype)
    b[1:-1] = (a[:-2] + a[2:]) / 2
    return b


def prefix(x):
    s = pf.zeros(x.shape, x.dtype)
    s[0] = x[0]
    s[i] = s[i - 1] + x[i]
    return s


def gauss_seidel(x):
    y = x.copy()
    y[i] = y[i - 1] + y[i + 1]
    return y


def gauss_seidel_by_loop(x):
    y = x.copy()
    for q in range(1, len(x) - 1):
        y[q] = y[q - 1] + y[q + 1]
    return y


def convolved(x, w):
    y = pf.empty()
    y[i] = pf.sum(k, x[i + k] * w[k])
    return y


def lower_triangle(s):
    y = pf.empty()
    y[i, j] = pf.where(j <= i, s[i, j], 0)
    return y


def shifted(x):
    y = pf.zeros(x.shape, x.dtype)
    y[i] = pf.where(pf.inside(x[i - 1]), x[i - 1], 0)
    return y


def updated(a):
    y = pf.zeros(a.shape[0], a.dtype)
    y[i] += a[i, k] * 2
    return y


def moved_in_place(x):
    y = x.copy()
    y[i] = y[i + 1] + 1
    return y


def chosen_before(x, at):
    y = pf.zeros(x.shape, x.dtype)
    y[i] = pf.where(i > 0, x[at[i - 1]], 0)
    return y


def running_maximum_of_rows(a):
    y = a.copy()
    y[i, j] = pf.maximum(y[i, j - 1], y[i, j])
    return y


def backwards(x):
    n = x.shape[0]
    s = x.copy()
    s[n - 1 - i] = s[n - i] + s[n - 1 - i]
    return s


def histogram(at, w):
    h = pf.zeros(5, w.dtype)
    h[at[i]] += w[i]
    return h


def every_other(x):
    y = x.copy()
    y[2 * i] = -x[2 * i + 1]
    return y


AT = RNG.integers(0, 12, 12)

CASES = [
    (chosen_before, (X, AT), np.append(0, X[AT[:-1]])),
    (running_maximum_of_rows, (A,), np.maximum.accumulate(A, axis=1)),
    (backwards, (X,), np.cumsum(X[::-1])[::-1]),
    (histogram, (AT % 5, X), np.bincount(AT % 5, X, 5)),
    (every_other, (X,), np.where(np.arange(12) % 2, X, -np.roll(X, -1))),
    (matmul, (A, A.T.copy()), A @ A.T),
    (stencil, (A,), stencil_by_slices(A)),
    (prefix, (X,), np.cumsum(X)),
    (gauss_seidel, (X,), gauss_seidel_by_loop(X)),
    (convolved, (X, W), np.convolve(X, W[::-1], "valid")),
    (lower_triangle, (S,), np.tril(S)),
    (shifted, (X,), np.append(0, X[:-1])),
    (updated, (A,), 2 * A.sum(1)),
    (moved_in_place, (X,), np.append(X[1:] + 1, X[-1])),
]


@pytest.mark.parametrize(("function", "arrays", "wanted"), CASES, ids=[c[0].__name__ for c in CASES])
def test_equals_numpy(function: Callable[..., Any], arrays: tuple[Any, ...], wanted: Any) -> None:
    np.testing.assert_allclose(run(function, *arrays), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("written", "usual", "specs"),
    [
        (matmul, lambda a, b: a @ b, ("f32[M, K]", "f32[K, N]")),
        (stencil, stencil_by_slices, ("f32[N, M]",)),
        (prefix, lambda x: np.cumsum(x), ("f32[N]",)),
    ],
    ids=["matmul", "stencil", "prefix sum"],
)
def test_plans_equal_those_of_the_numpy_spelling(written: Any, usual: Any, specs: tuple[str, ...]) -> None:
    given = [pf.spec(s) for s in specs]
    assert pf.jit(written).plan(*given) == pf.jit(usual).plan(*given)


def test_an_access_out_of_bounds_has_a_witness() -> None:
    def beyond(x):
        q = pf.indices("q", within=x.shape[0])
        y = pf.zeros(x.shape, x.dtype)
        y[q] = x[q + 1]
        return y

    with pytest.raises(IndexingError, match=r"x\[q \+ 1\] is out of bounds: at q = 11 it is element 12"):
        run(beyond, X)


def test_a_free_index_and_a_condition_are_errors() -> None:
    def free(a):
        y = pf.empty()
        y[i] = a[i, k]
        return y

    def branch(x):
        return x if i > 0 else -x

    with pytest.raises(IndexingError, match="index k is not among the subscripts of y"):
        run(free, A)
    with pytest.raises(TraceError, match=r"pf\.where"):
        run(branch, X)


def added(value: Callable[[Any], Any]) -> Any:
    def function(x: Any) -> Any:
        i, y = pf.indices("i"), pf.empty()
        y[i] = x[i] + value(i)
        return y

    return pf.jit(function)


@pytest.mark.parametrize(
    ("value", "fitting", "beyond"),
    [
        (lambda i: i, 128, r"an index up to n0 - 1 is out of bounds for integers of -128 to 127"),
        (lambda i: i * i, 12, r"an index up to \(n0 - 1\)\*\(n0 - 1\) is out of bounds"),
        (lambda i: i * i - 3 * i, 13, "an integer computed of an index is out of bounds"),
    ],
    ids=["an index", "a product", "a polynomial"],
)
def test_indices_are_integers_of_the_width_that_they_meet(value: Any, fitting: int, beyond: str) -> None:
    function = added(value)
    for size in (3, fitting):
        found = function(np.zeros(size, np.int8))
        expected = [value(i) for i in range(size)]
        assert found.dtype == np.int8
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(OutOfRangeError, match=beyond):
        function(np.zeros(fitting + 60, np.int8))


@pytest.mark.parametrize("arguments", [(), (3,), (None,)])
def test_indices_have_names(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(IndexingError, match="pf.indices takes"):
        pf.indices(*arguments)
    np.testing.assert_array_equal(pf.indices((2, 3)), np.indices((2, 3)))
