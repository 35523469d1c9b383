"""Arguments that NumPy raises an error for are an error of ours with the line, while tracing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import PolyfuseError
from polyfuse.frontends.numpy_like import specs_of_arrays, trace
from tests.frontend.ops import assert_same, run

REFUSED = """
np.einsum("ii", x[:1, :3]); np.einsum("ii->i", x[:3, :1]); np.einsum("iij->j", x[:1, None, :] + np.ones((3, 1, 1)))
np.take(empty, [7, -8], mode="wrap"); np.take(empty, [0], mode="clip"); np.take(empty, 0, axis=0, mode="clip")
np.choose(x, [1, 2]); x.choose([1, 2]); np.choose(np.arange(2, dtype=np.uint64), [x[0], x[1]]); empty[empty > 0].max()
np.min(empty[empty > 0]); empty[:, 0][empty[:, 0] > 0].max(axis=0); np.unravel_index(x, (2, 2))
np.ravel_multi_index((x, x), (2, 2)); np.digitize(x, [0, 2, 1]); np.digitize(x, np.array([0, 2, 1]))
np.digitize(x, EDGES); np.histogram(x, 0); np.histogram(x, -1); np.histogram(x, [3, 2, 1]); np.histogram(x, EDGES)
np.histogram(x, x); np.histogram(x, 3, (2, 1)); np.histogram(x, 3, (np.nan, 1)); np.histogram(x, 2, (0, np.inf))
np.histogram(x, 3.0); np.histogram(x, 3, (0, 1), weights=x[0]); np.histogram_bin_edges(x, 0); np.tile(x, -1)
np.repeat(x, -1); np.repeat(x, -1, axis=1); np.diff(x, -1); np.diff(x, 1.0); np.partition(x, 7)
np.partition(x[0], -8); np.argpartition(x, 4, axis=0); np.partition(x, [0, 9]); np.partition(x, 1.5)
np.average(x, axis=0, weights=[1, 2, 3]); np.average(x, weights=[1, 2, 3, 4]); np.average(x, weights=2.0)
np.average(x, axis=1, weights=x[0, :3]); np.average(x, axis=0, weights=x[:, :1]); np.average(x, axis=0, weights=2.0)
np.tensordot(x, x, 3); np.select([x > 0], [x, x]); np.select([x > 0], []); np.linalg.norm(x, "bad")
np.linalg.norm(x, 3); np.linalg.norm(x, 0); np.linalg.norm(x[0], "fro"); np.linalg.norm(x[0], "nuc")
np.linalg.norm(x, "nuc", axis=0); np.linalg.norm(x, "inf"); np.sort(x, kind="timsort"); np.sort(x, kind=3)
np.argsort(x, kind="foo"); np.sort(x, kind="stable", stable=True); np.round(x, 1.5); np.round(x, 1.0); x.round(0.5)
np.meshgrid(x[0], x[1], indexing="ab"); np.arange(-1, 3, dtype=np.uint8) + x[0, 0]
np.arange(255, 300, dtype=np.uint8) + x[0, 0]; np.arange(5, dtype=bool) ^ (x[0, :5] > 0)
np.arange(-1.5, 3, dtype=np.uint8) * x[0, 0]; np.arange(0, 1, 0) + x[0, 0]; np.geomspace(0, 1, 3) + x[0, 0]
np.rot90(x, 1, (0, -2)); np.gradient(x, [1, 2, 3], axis=0); np.gradient(x, edge_order=3); np.gradient(x, x, axis=0)
np.block([x, [x]]); np.block([[x], []]); np.einsum("i1", x); np.linalg.matrix_power(x[:, :4], 1.5)
np.pad(x, (1, 2, 3)); np.pad(x, [(1, 2, 3), (1, 2, 3)]); np.pad(x, 1, "edge", constant_values=2)
np.pad(x, 1, stat_length=2); np.pad(x, 1, "wrap", reflect_type="odd"); np.interp(x, [0, 1], [1, 2], period=0)
np.vsplit(x[0], 1); np.dsplit(x, 1); np.hsplit(x[0, 0], 1); np.take(x, [0], mode="foo"); np.take(x, [0], mode="c")
np.choose(np.arange(2), [x[0], x[1]], mode="F"); np.ravel_multi_index((x.astype(int), [1]), (2, 2), mode="foo")
np.ravel_multi_index((x.astype(int), [1]), (2, 2), order="Z"); np.sum(x, axis=0, keepdims="yes")
x.max(0, keepdims=None); np.mean(x, keepdims=1.5); x.sum(axis=True); np.concatenate([x, x], casting="foo")
np.linalg.eigvalsh(x[:, :4], UPLO="Z"); np.reshape(x, (7, 4), order="Z"); x.ravel("Q")
np.unravel_index(x.astype(int), (9, 9), order="A"); x.astype(x); np.sum(x, dtype=x); np.isin(x, [1], kind="foo")
np.polyint(x[0], m=2, k=[1, 2, 3][:0]); np.cov(x, ddof=0.5); np.polyint(x[0], m=3, k=[1, 2])
np.searchsorted(np.sort(x[0]), x, sorter=[0, 1]); np.cov(x, aweights=x**2); np.transpose(x, []); np.vander(x[0], -1)
np.polyder(x[0], -1); np.polyfit(x[0], x[1], -1); np.cov(x, dtype=int)
np.bincount(x[0].astype(int) ** 2, weights=x[0, :1], minlength=99)
np.bincount(x[0].astype(int) ** 2, 2.0, minlength=99); np.put_along_axis(x + 0, np.zeros((4, 1), int), 9, axis=2)
np.put_along_axis(x + 0, np.zeros(7, int), 9, axis=1); np.quantile(x > 0, 0.3); np.nanpercentile(x > 0, 30, axis=0)
np.gradient(x > 0); np.ix_(x, [1])[0] + x[0, 0]; written(x, 0, 0, x[0, :1]); written(x, 0, 0, [2.0])
np.sum(x, axis=0, where=x[0].astype(int)); np.mean(x, where=x); np.sum(x[0], where=x > 0)
np.max(x[:1], where=x > 0, initial=0); np.var(x[:1], axis=0, where=x > 0); np.add(x, 1, where=x, out=np.zeros((4, 7)))
np.sum(x, initial=x[0, :1]); np.add.reduce(x, 0, initial=[1]); (x + 0).fill(x[0, :1]); np.putmask(x + 0, x[0] > 0, 1)
np.putmask(x + 0, x[:, :1] > 0, 1); np.place(x + 0, x[0] > 0, 1); np.round(x, 2**31)
np.sum(x, axis=0, out=np.zeros((4, 7))); np.mean(x, axis=0, out=np.zeros((1, 7)))
np.argmax(x[0, 0], axis=1); np.argmin(x[0, 0], axis=-2); np.cumsum(x[0, 0], axis=1)
np.argmax(x, 0, out=np.zeros((2, 7), int)); np.take(x, [0], axis=0, out=np.zeros((4, 7)))
np.trace(x, out=np.zeros(3)); np.add.reduce(x, 0, out=np.zeros((4, 7))); np.cumsum(x[0], out=np.zeros((4, 7)))
np.add(x, 1, out=(np.zeros((4, 7)), np.zeros((4, 7)))); x.max(0, None, np.zeros((4, 7))); np.add(x, x, casting=None)
np.sort(x, out=np.zeros((4, 7))); np.where(x > 0, x, 0, out=np.zeros((4, 7))); x.argsort(out=np.zeros((4, 7), int))
np.arange(0, np.inf) + x[0, 0]; np.interp(x, [0, 1], [1, 2], period=x[0]); np.searchsorted(x[0], x, sorter=x[0] > 0)
"""
EDGES = np.array([0.0, 2.0, 1.0])
X, EMPTY = np.random.default_rng(0).standard_normal((4, 7)), np.zeros((0, 3))


def evaluated(expression: str, x: Any, empty: Any) -> Any:
    return eval(expression, {**NAMES, "x": x, "empty": empty})


def written(x: Any, i: int, j: int, value: Any) -> Any:
    a = x.copy()
    a[i, j] = value
    return a


def filled(x: Any, place: Any, value: Any) -> Any:
    a = x.astype(int)
    a[place] = value
    return a


def without_values(x: Any) -> Any:
    a = x.copy()
    np.put(a, [0, 1], [])
    np.putmask(a, a > 0, [])
    np.fill_diagonal(a, ())
    return a


NAMES = {"np": np, "EDGES": EDGES, "written": written, "without_values": without_values}


@pytest.mark.parametrize("expression", [e.strip() for line in REFUSED.strip().splitlines() for e in line.split(";")])
def test_what_numpy_refuses_is_refused(expression: str) -> None:
    with pytest.raises((TypeError, ValueError, IndexError, ArithmeticError, RuntimeError)):
        evaluated(expression, X, EMPTY)
    with pytest.raises(PolyfuseError) as caught:
        trace(lambda x, empty: evaluated(expression, x, empty), specs_of_arrays((X, EMPTY)))
    assert caught.value.source is not None


TAKEN = """
np.average(x, axis=0, weights=[1, 2, 3, 4]); np.average(x, axis=-1, weights=x[0] ** 2, returned=True, keepdims=True)
np.average(x, axis=(1, 0), weights=x.T**2); np.average(cube, axis=(2, 0), weights=np.ones((2, 4)))
np.average(cube, axis=(0, 2), weights=np.arange(8.0).reshape(4, 2) + 1); np.average(x, axis=0, weights=x**2)
np.sort(x, kind="heap"); np.argsort(x, kind="Mergesort", axis=0); np.sort(x, stable=False); np.partition(x, -7)[:, 0]
np.partition(x, (0, -1))[:, ::6]; np.partition(empty, 0, axis=0); np.take(empty, [], mode="clip")
np.take(empty, [1, 5], axis=1, mode="wrap"); np.einsum("ii", x[:1, :1]); np.digitize(x, np.linspace(2, -2, 5))
np.digitize(x, x[0, 0] - np.arange(3)); np.digitize(x, -np.arange(3.0), True); np.digitize(x, np.sort(x[0])[::-1])
np.digitize(x, np.sort(x[0]), True); np.digitize(x, x[0, :1]); np.digitize(x, x[0, :0])
np.digitize(x, np.arange(x.shape[1])[::-1]); np.linalg.norm(x, 1.0); np.linalg.norm(x, np.float64(2))
np.round(x, True); np.reshape(x, (7, 4), "F"); np.split(x, [-1], axis=1); np.split(x, [-3, -1], 1)
np.array_split(x, [1, -1]); np.arange(1, 3, 0.3, dtype=int) + x[0, 0]; np.arange(3, 1, -0.4, dtype="i2") * x[0, 0]
np.arange(-2.5, 3, dtype=int) - x[0, 0]; np.arange(255, 256, dtype="u1") * x
np.arange(254, 260, dtype="u1") + x[0, 0]; np.arange(2, dtype=bool) & (x[:, :2] > 0); np.geomspace(1, -1, 3) + x[0, 0]
np.geomspace(-1, -100, 3) + x[0, 0]; np.pad(x, [1], "edge"); np.pad(x, [[1], [2]])
np.pad(x, 1, "linear_ramp", end_values=2); np.pad(x, 1, "mean", stat_length=2); np.pad(x, 1, "empty")[1:-1, 1:-1]
np.var(x, axis=0, ddof=7); np.std(x, ddof=30.5); np.std(x, axis=0, ddof=7, mean=0.0); np.var(x, axis=0, ddof=4)
np.var(x, axis=1, ddof=5, where=x > 0); np.nanvar(x, axis=0, ddof=7); np.nanstd(x, axis=0, ddof=4); np.cov(x, ddof=9)
np.nanvar(np.where(x > 0, x, np.nan), axis=0, ddof=2, keepdims=True); np.nanvar(x.astype(int), axis=0, ddof=5)
np.diff(x, 0, 0, x, x); np.diff(x, n=0, prepend=0); np.polyint(x[0], m=1, k=[3, 4]); np.polyint(x[0], m=3, k=[2])
np.unravel_index(np.abs(x * 3).astype(int), (5, 6), order="f"); x.reshape((7, 4), order="f"); x.ravel("c")
np.arange(0, x.shape[0], np.int64(2)) + x[0, 0]; np.gradient(x, edge_order=np.int64(2)); np.linalg.lstsq(x, x)[2]
np.triu(x, np.int64(1)); np.isin(x, [1, 2], kind="sort"); np.lexsort(x); np.lexsort(x.T, axis=0)
np.polyder(x[0], m=9); np.linalg.svd(x, compute_uv=False, hermitian=False); np.pad(x, np.array(1))
np.pad(x, np.array([[1, 2], [0, 1]]), constant_values=np.array([3, 4])); np.roll(x, np.array(2), 1)
np.partition(x, np.array(1))[:, 1]; x[np.array(1) :]; np.median(x > 0, axis=0); np.median(x[:0], axis=0)
np.median(x[:0].astype(int), keepdims=True); np.nanmedian(x[:0].astype(np.float32)); np.nanmedian(x[:0], axis=1)
np.quantile(x > 0, 0.3, method="lower"); without_values(x); np.sum(x, axis=0, where=x[:, :1] > 0)
np.sum(x, where=1, initial=np.array(2.0)); x[np.ix_(np.arange(4) % 2 > 0, [True, False] * 3 + [True])]
written(x, 0, 0, x[0, 1] + np.array(2.0)); np.add(x[0], 1, out=np.zeros((4, 7)))
np.clip(x[0], 0, 1, out=np.zeros((4, 7))); np.sum(x, axis=0, out=np.zeros(7))
np.percentile(x, 30, axis=0, out=np.zeros((2, 7))); np.add.reduce(x, 0, out=(np.zeros(7),))
np.sum(x, out=np.zeros(())); np.histogram(x, [1, 1, 2])[0]; np.histogram(x, 1, (0, 0))
np.histogram(x, 4, (-1, 2), weights=x**2)[0]; np.repeat(x, 0); np.einsum("ij->j", x > 0, dtype=float, order="C")
np.einsum("ij,j->i", x, x[0], dtype=np.float32, casting="same_kind"); np.einsum("ij->ji", x, dtype=np.float32)
"""


@pytest.mark.parametrize("expression", [e.strip() for line in TAKEN.strip().splitlines() for e in line.split(";")])
def test_what_stands_beside_it_works(expression: str) -> None:
    def function(x: Any, empty: Any) -> Any:
        cube = np.stack([x, -x, x + 1, 2 * x])[:, :, :2]
        return eval(expression, {**NAMES, "x": x, "empty": empty, "cube": cube})

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(run(function, X, EMPTY), function(X, EMPTY))


KINDS = """
np.partition(x, 7); np.argpartition(x, [0, 9]); x[::0]; np.diff(x, n=-1); np.histogram(x, 0); x.astype(np.uint8) + 300
x.astype(int) ** -1; np.full(3, 300, dtype=np.uint8) * x[0, 0]; np.array([300], np.uint8) + x[0, 0]; 10**400 * x
x.astype(np.uint8) - (-1); x.astype(int) & 0.5; x @ x; x.sum(axis=2); x[4]; np.concatenate([x, x[0]])
filled(x, 0, np.nan); filled(x, x.astype(int) > 0, np.nan); filled(x, 0, np.inf); filled(x, ..., -1e300)
filled(x, x[:1] > 0, 1); filled(x, x[:, :1] > 0, 1); filled(x, x[:3] > 0, 1); x[x[:1] > 0].sum()
x[:, x[0, :1] > 0].max(); filled(x, x[:, 0] > 5, np.nan); np.putmask(x.astype(int), x > 0, np.nan)
np.array([np.nan, x.astype(int)[0, 0]], int)
np.einsum("ij,j->i", x, x[0], dtype=np.float32); np.einsum("ij->i", x, dtype=int, casting="same_kind")
np.polyfit(x[0, :0], x[1, :0], 1); np.einsum("ij->i", x, foo=1)
len(x) % 0 * x; len(x) / 0 * x; len(x) // 0.0 * x; divmod(len(x), 0)[0] * x
np.zeros(len(x) - 5) + x[0, 0]; np.linalg.inv(x); np.linalg.det(x[0]); np.linalg.matrix_power(x[0], 2)
"""


@pytest.mark.parametrize("expression", [e.strip() for line in KINDS.strip().splitlines() for e in line.split(";")])
def test_the_error_is_of_the_kind_that_numpy_raises(expression: str) -> None:
    def function(x: Any) -> Any:
        return eval(expression, {"np": np, "x": x, "filled": filled})

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as wanted:
            function(X)
        numpys = (TypeError if isinstance(wanted.value, TypeError) else type(wanted.value)).mro()
        kind = next(k for k in numpys if k.__module__ == "builtins")
        with pytest.raises(kind) as told:
            trace(function, specs_of_arrays((X,)))
        assert isinstance(told.value, PolyfuseError)


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (np.exceptions.AxisError, lambda x: x.sum(axis=2)),
        (np.exceptions.AxisError, lambda x: np.sort(x, axis=-3)),
        (np.linalg.LinAlgError, np.linalg.inv),
        (np.linalg.LinAlgError, lambda x: np.linalg.solve(x, x)),
    ],
)
def test_a_function_can_catch_an_error_by_numpys_name(kind: type[Exception], call: Callable[[Any], Any]) -> None:
    told = []

    def function(x: Any) -> Any:
        try:
            return call(x)
        except kind as error:
            told.append(str(error))
            return 2 * x

    assert_same(run(function, X), 2 * X)
    assert "test_refused_arguments.py" in told[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda m: 1 / (m - 4),
        lambda m: m / (m - 4),
        lambda m: 5 // (m - 4),
        lambda m: 5 % (m - 4),
        lambda m: (m - 4) * m // (m - 4),
        lambda m: (m - 4) % (m - 4),
        lambda m: m / (m * (m - 4)),
        lambda m: 1 / (m // 5),
    ],
)
def test_python_divides_by_no_size_that_is_0(call: Callable[[Any], Any]) -> None:
    """By Python itself where the size is a number of its own then."""
    jitted = pf.jit(lambda x: call(len(x)) * x, backend="interpreter")
    assert_same(jitted(X[:, :6].T), call(6) * X[:, :6].T)
    with pytest.raises(ZeroDivisionError):
        jitted(X)


def test_numbers_of_numpys_are_divided_by_a_size_of_0() -> None:
    def function(x: Any) -> Any:
        none = len(x) - 4
        return x / none, np.float64(1) / none * x, np.int64(3) % none * x, len(x) / np.float64(0) * x

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(run(function, X), function(X))


def test_edges_that_are_an_argument_may_fall() -> None:
    jitted = pf.jit(lambda x, edges: np.digitize(x, edges), backend="interpreter")
    for edges in (np.array([-1.0, 0.0, 1.0]), np.array([1.0, 0.0, -1.0]), np.array([2.0]), np.array([0.0, 0.0])):
        assert_same(jitted(X, edges), np.digitize(X, edges))


def test_edges_from_outside_are_read_at_each_call() -> None:
    edges = np.array([-1.0, 0.0, 1.0])
    jitted = pf.jit(lambda x: np.digitize(x, edges), backend="interpreter")
    assert_same(jitted(X), np.digitize(X, edges))
    edges[:] = [1.0, 0.0, -1.0]
    assert_same(jitted(X), np.digitize(X, edges))


def test_a_mesh_of_masks_that_are_data_is_refused() -> None:
    with pytest.raises(PolyfuseError, match="np.ix_ at positions that are data"):
        trace(lambda x: x[np.ix_(x[:, 0] > 0, [0])], specs_of_arrays((X,)))
