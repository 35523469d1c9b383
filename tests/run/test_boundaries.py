"""Sorting, searching and linear algebra: one call of the caller's library between fused kernels, right on all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import DTypeError, ShapeError, UnsupportedError
from polyfuse.face.interpreted import run_plan
from polyfuse.frontends.numpy_like import specs_of_arrays, trace
from polyfuse.reference import evaluate
from polyfuse.run.dispatch import Jitted

Jit = Callable[..., Jitted]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 7))
X[2, 3] = X[2, 5]
S = X[:, :5] @ X[:, :5].T + 5 * np.eye(5)
STACK = np.stack([S, S + np.eye(5), 2 * S])
NAN = np.where(X > 1, np.nan, X)

CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "sort": (lambda x: np.sort(x * 2) + 1, (X,)),
    "sort along an axis": (lambda x: np.sort(x, axis=0), (X,)),
    "sort of everything": (lambda x: np.sort(x, axis=None), (X,)),
    "sort of NaN": (lambda x: np.sort(x), (NAN,)),
    "sort of integers": (lambda x: np.sort(x, kind="stable"), (RNG.integers(0, 9, (4, 30), np.int16),)),
    "sort of bytes": (lambda x: np.sort(x), (RNG.integers(0, 255, 90, np.uint8),)),
    "sort of nothing": (lambda x: np.sort(x) + 1, (X[:0],)),
    "argsort": (lambda x: np.argsort(x, axis=0, stable=True) + 0, (X,)),
    "argsort of equal values": (lambda x: np.argsort(x, kind="stable"), (RNG.integers(0, 3, 50),)),
    "argsort of uint32": (lambda x: np.argsort(x, stable=True), (RNG.integers(0, 2**32, 50, np.uint32),)),
    "method": (lambda x: x.argsort(axis=1), (X,)),
    "median": (lambda x: np.median(x), (X,)),
    "median of an axis": (lambda x: np.median(x, axis=1, keepdims=True), (X[:, :6],)),
    "median of NaN": (lambda x: np.median(x, axis=0), (NAN,)),
    "median of integers": (lambda x: np.median(x, axis=0), (RNG.integers(0, 99, (6, 3)),)),
    "median of float16": (lambda x: np.median(x), (X.astype(np.float16),)),
    "searchsorted": (lambda a, v: np.searchsorted(np.sort(a), v * 2), (X[0], X)),
    "searchsorted right": (lambda a, v: np.searchsorted(a, v, side="right"), (np.arange(5), np.arange(-1, 7) / 2)),
    "inv": (lambda a: np.linalg.inv(a) * 2, (STACK,)),
    "inv of integers": (lambda a: np.linalg.inv(a), (np.array([[2, 1], [1, 3]]),)),
    "inv of float32": (lambda a: np.linalg.inv(a), (S.astype(np.float32),)),
    "pinv": (lambda a: np.linalg.pinv(a), (X,)),
    "det": (lambda a: np.linalg.det(a) + 1, (STACK,)),
    "slogdet": (lambda a: tuple(np.linalg.slogdet(a)), (S,)),
    "cholesky": (lambda a: np.linalg.cholesky(a), (S,)),
    "upper cholesky": (lambda a: np.linalg.cholesky(a, upper=True), (S,)),
    "solve for a vector": (lambda a, b: np.linalg.solve(a, b + 1) + 1, (S, X[:, 0])),
    "solve for matrices": (lambda a, b: np.linalg.solve(a, b), (S, X)),
    "solve of stacks": (lambda a, b: np.linalg.solve(a, b), (STACK, X)),
    "eigvalsh": (lambda a: np.linalg.eigvalsh(a), (S,)),
    "eigh": (lambda a: (lambda r: r.eigenvectors * r.eigenvalues @ r.eigenvectors.T)(np.linalg.eigh(a)), (S,)),
    "qr": (lambda a: (lambda r: r.Q @ r.R)(np.linalg.qr(a)), (X.T,)),
    "svd": (lambda a: (lambda r: (r.S, r.U[:, :5] * r.S @ r.Vh[:5]))(np.linalg.svd(a)), (X,)),
    "thin svd": (lambda a: (lambda r: r.U * r.S @ r.Vh)(np.linalg.svd(a, full_matrices=False)), (X,)),
    "fftshift": (lambda x: np.fft.ifftshift(np.fft.fftshift(x, axes=1) * 2), (X,)),
}


def assert_close(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        for f, w in zip(found, wanted, strict=True):
            assert_close(f, w)
        return
    assert np.shape(found) == np.shape(wanted)
    assert np.asarray(found).dtype == np.asarray(wanted).dtype
    tolerance = 1e-4 if np.asarray(wanted).dtype.itemsize < 8 else 1e-9
    np.testing.assert_allclose(found, wanted, tolerance, tolerance)


@pytest.mark.parametrize("name", CASES)
def test_against_numpy(jit: Jit, name: str) -> None:
    function, arrays = CASES[name]
    wanted = function(*arrays)
    f = jit(function)
    assert_close(f(*arrays), wanted)
    traced = trace(function, specs_of_arrays(arrays))
    assert_close(traced.rebuild(evaluate(traced.program, arrays), {}), wanted)


@pytest.mark.parametrize("name", [n for n in CASES if "float16" not in n])
def test_against_numpy_on_torch(jit: Jit, name: str) -> None:
    torch = pytest.importorskip("torch")
    function, arrays = CASES[name]
    found = jit(function)(*map(torch.from_numpy, arrays))
    as_numpy = (
        tuple(f.numpy() if hasattr(f, "numpy") else f for f in found) if isinstance(found, tuple) else found.numpy()
    )
    assert_close(as_numpy, function(*arrays))


def test_the_plan_shows_the_call_between_fused_kernels(jit: Jit) -> None:
    x = RNG.standard_normal((6, 40))
    plan = jit(lambda x: np.exp(np.sort(x * 2 + 1)) - 1).plan(x)
    assert [type(step).__name__ for step in plan.steps] == ["Launch", "LibraryCall", "Launch"]
    assert "call sort = sort(add)" in str(plan)
    verdict = plan.why_not("add", "sort")
    assert verdict.sentence.endswith("is a library call, which no kernel contains") and verdict.witness is not None
    np.testing.assert_allclose(run_plan(plan, [x])[0], np.exp(np.sort(x * 2 + 1)) - 1)


def test_top_k_is_one_call_and_a_gather(jit: Jit) -> None:
    f = jit(lambda x: pf.top_k(x, 3))
    x = np.array([[1.0, 5, 5, np.nan, 2], [3, 3, 3, 3, 3]])
    x = np.concatenate([x, np.full((2, 20), -1.0)], axis=1)  # longer rows than those sorted in the program
    values, indices = f(x)
    np.testing.assert_array_equal(indices, [[3, 1, 2], [0, 1, 2]])
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, 1))
    assert len(f.plan(x).library_calls) == 1
    np.testing.assert_array_equal(jit(lambda x: pf.top_k(x, 2, axis=0)[1])(X), np.argsort(-X, axis=0)[:2])


def test_partition_puts_every_element_in_place(jit: Jit) -> None:
    np.testing.assert_array_equal(jit(lambda x: np.partition(x, 2, axis=0)[2])(X), np.partition(X, 2, axis=0)[2])
    np.testing.assert_array_equal(jit(lambda x: np.argpartition(x, 2, axis=0)[2])(X), np.argpartition(X, 2, axis=0)[2])


def test_sizes_share_a_plan(jit: Jit) -> None:
    f = jit(lambda x: np.sort(x, axis=-1) * 2)
    for n in (30, 20, 50):
        x = RNG.standard_normal((4, n))
        np.testing.assert_array_equal(f(x), np.sort(x) * 2)
    assert f.cache_info().plans == 1


def test_singular_matrices_raise_what_the_library_raises(jit: Jit) -> None:
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        jit(lambda a: np.linalg.inv(a))(np.zeros((3, 3)))


ERRORS = [
    (lambda x: np.linalg.inv(x), ShapeError, r"np.linalg.inv needs square matrices, not \("),
    (lambda x: np.linalg.det(x[0]), ShapeError, "np.linalg.det needs matrices, not an array of rank 1"),
    (lambda x: np.linalg.solve(x[:, :5], x[:4]), ShapeError, "have other numbers of rows"),
    (lambda x: np.linalg.inv(x[:, :5].astype(np.float16)), DTypeError, "np.linalg.inv does not accept float16"),
    (lambda x: np.fft.rfft(x), UnsupportedError, "np.fft.rfft has complex results, and programs are real"),
    (lambda x: np.linalg.eig(x[:, :5]), UnsupportedError, "np.linalg.eig has complex results"),
    (lambda x: np.searchsorted(x, x), ShapeError, "searchsorted needs a sorted vector, not an array of rank 2"),
    (lambda x: pf.top_k(x, 99), ShapeError, "the 99 largest of an axis of size"),
    (lambda x: np.sort(x, order="f0"), UnsupportedError, "needs structured arrays"),
]


@pytest.mark.parametrize("case", ERRORS, ids=[c[2] for c in ERRORS])
def test_errors(jit: Jit, case: tuple[Any, type[Exception], str]) -> None:
    function, kind, text = case
    with pytest.raises(kind, match=text):
        jit(function)(X)
