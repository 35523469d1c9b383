"""Samples of curves, histograms and covariances against NumPy, and what is refused of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyfuse.errors import DTypeError, PolyfuseError, ShapeError, UnsupportedError
from tests.frontend.ops import assert_same, run

RANDOM = np.random.default_rng(5)
ARRAYS = {
    "x": RANDOM.standard_normal(7),
    "w": RANDOM.random(7),
    "g": np.array([0.0, 0.5, 0.75, 2.0, 3.5, 4.0, 7.0]),
    "a": RANDOM.standard_normal((5, 6)),
    "b": RANDOM.standard_normal((2, 6)),
    "v": RANDOM.standard_normal(6),
    "k": RANDOM.integers(-3, 9, 7),
    "f": RANDOM.standard_normal((4, 5)).astype(np.float32),
    "e": np.array([-1.0, 0.0, 0.5, 2.0]),
    "t": np.array([[[1.0, 2.0], [3.0, 5.0]], [[0.5, 4.0], [1.0, 7.0]]]),
    "c": np.array([2.5]),
}

SAME = """
gradient: np.gradient(x) | np.gradient(k) | np.gradient(x, 0.5) | np.gradient(x, edge_order=2) | np.gradient(x, g)
gradient: np.gradient(x, g, edge_order=2) | np.gradient(a) | np.gradient(a, 2.0, 0.5) | np.gradient(a, 0.5, axis=1)
gradient: np.gradient(a, axis=(0, 1), edge_order=2) | np.gradient(a, w[:5].cumsum(), 2.0)
gradient: np.gradient(f, 0.25, axis=-1)
gradient: np.gradient(a, w[:6].cumsum(), axis=1, edge_order=2) | np.gradient(x, np.float64(0.25))
gradient: np.gradient(f, axis=()) | np.gradient(f, np.float64(0.25), w[:5].cumsum()) | np.gradient(f[0], np.arange(5))
trapezoid: np.trapezoid(x) | np.trapezoid(x, g) | np.trapezoid(a, dx=0.5) | np.trapezoid(a, axis=0)
trapezoid: np.trapezoid(a, w[:5].cumsum(), axis=0) | np.trapezoid(a, a.cumsum(1))
ediff1d: np.ediff1d(a) | np.ediff1d(x, to_begin=1.5, to_end=[2, 3]) | np.ediff1d(k, to_end=k[:2])
unwrap: np.unwrap(x * 5) | np.unwrap(a * 5, axis=0) | np.unwrap(x * 9, discont=4.0) | np.unwrap(k, period=4.0)
interp: np.interp(x, g, x) | np.interp(x, g, x, left=-9, right=9) | np.interp(a, g, w) | np.interp(k, g, x, right=w[0])
interp: np.interp(x, g, x, period=3.2) | np.interp(a * 3, g, w, period=-2.5) | np.interp(x, c, c)
interp: np.interp(1.25, g, x)
interp: np.interp(np.where(x > 0, np.nan, x), g, w) | np.interp(g, g, x)
convolve: np.convolve(x, v) | np.convolve(x, v, "same") | np.convolve(x, v, "valid") | np.convolve(v, x, "same")
convolve: np.convolve(k, [1, 2]) | np.convolve(x, 2.0) | np.convolve(e, x, "valid") | np.convolve(k, x, mode="full")
correlate: np.correlate(x, e) | np.correlate(e, x) | np.correlate(x, e, "full") | np.correlate(e, x, "same")
correlate: np.correlate(e, x, "full") | np.correlate(x, e, "same") | np.correlate(k, k, "full")
over axes: np.apply_over_axes(np.sum, t, [0, 2]) | np.apply_over_axes(np.max, t, 1)
over axes: np.apply_over_axes(np.cumsum, a, (0,))
over axes: np.apply_over_axes(lambda y, axis: y.mean(axis, keepdims=True), t, (2, 0))
vander: np.vander(x) | np.vander(x, 3) | np.vander(k, 4, increasing=True) | np.vander(x, 1) | np.vander(x, 0)
vander: np.vander(f[0])
histogram: np.histogram(x) | np.histogram(a, 4) | np.histogram(x, 3, range=(-1, 2)) | np.histogram(x, e)
histogram: np.histogram(k, 5)
histogram: np.histogram(x, [-2, 0, 1.5], density=True) | np.histogram(x, 4, weights=w) | np.histogram(x, 4, weights=k)
histogram: np.histogram(a, e, weights=a * a) | np.histogram(x, 4, weights=w, density=True) | np.histogram(f, 3)
histogram: np.histogram(x, 3, range=(1, 1)) | np.histogram(c, 2) | np.histogram(x[:0], 3)
histogram: np.histogram(k, range=(0, 5))
histogram: np.histogram(x, 4, weights=k.astype(np.int32)) | np.histogram(x, e, weights=k.astype(np.int16))
histogram: np.histogram(x, 4, weights=k > 2) | np.histogram(x, 4, weights=(k * k).astype(np.uint8), density=True)
polyfit: np.polyfit(x, k.astype(np.uint8), 1) | np.polyfit(g, x > 0, 2)
edges: np.histogram_bin_edges(x, 4) | np.histogram_bin_edges(x, e) | np.histogram_bin_edges(k, 4)
edges: np.histogram_bin_edges(x[:0])
digitize: np.digitize(x, e) | np.digitize(x, e, right=True) | np.digitize(a, [2.0, 0.5, -1.0])
digitize: np.digitize(k, [3, 0, -1], True)
digitize: np.digitize(x, np.array([1.0, -1.0])) | np.digitize(k, [0]) | np.digitize(k, [3, 0, -1]) | np.digitize(0.5, e)
digitize: np.digitize(x, [0.0, x[:3].max() + 5])
cov: np.cov(a) | np.cov(a, rowvar=False) | np.cov(a, bias=True) | np.cov(a, ddof=0) | np.cov(a, ddof=2) | np.cov(x)
cov: np.cov(f)
cov: np.cov(a, b) | np.cov(x, w) | np.cov(a, aweights=v * v) | np.cov(a, aweights=v * v, ddof=0)
cov: np.cov(x, aweights=w, bias=True)
cov: np.cov(a, dtype=np.float32) | np.cov(a.T, b.T, rowvar=False) | np.cov(k) | np.cov(a, bias=True, ddof=1)
corrcoef: np.corrcoef(a) | np.corrcoef(a, rowvar=False) | np.corrcoef(x, w) | np.corrcoef(a, b) | np.corrcoef(x)
corrcoef: np.corrcoef(f, dtype=np.float32)
bincount: np.bincount(k + 3, minlength=12) | np.bincount(k + 3, weights=w, minlength=12) | np.bincount(k[:0], w[:0], 3)
"""

REFUSED: dict[str, tuple[type[PolyfuseError], str]] = {
    "np.gradient(x, 1.0, 2.0)": (ShapeError, "np.gradient needs one spacing or 1, not 2"),
    "np.gradient(x[:2], edge_order=2)": (ShapeError, "np.gradient needs 3 samples along axis 0 of (2,)"),
    "np.gradient(x[:1])": (ShapeError, "np.gradient needs 2 samples along axis 0 of (1,)"),
    "np.ediff1d(k, to_end=0.5)": (DTypeError, "float64 cannot be cast to int64"),
    "np.interp(x, a, a)": (ShapeError, "np.interp needs vectors of equal size, not (n3, n4) and (n3, n4)"),
    "np.interp(x, x[:0], x[:0])": (ShapeError, "np.interp needs points: the array of them is empty"),
    "np.convolve(a, x)": (ShapeError, "np.convolve takes vectors, not (n3, n4) and (n0,)"),
    "np.correlate(x, x[:0])": (ShapeError, "np.correlate of an empty array"),
    "np.convolve(x, x, 'most')": (UnsupportedError, "there is no mode 'most'"),
    "np.vander(a)": (ShapeError, "np.vander takes a vector"),
    "np.histogram(x, 'auto')": (UnsupportedError, "the number of bins='auto' depends on the values"),
    "np.bincount(x, minlength=3)": (DTypeError, "np.bincount takes integers, not float64"),
    "np.bincount(k[None], minlength=3)": (ShapeError, "np.bincount takes a vector"),
    "np.bincount(k)": (UnsupportedError, "np.bincount without minlength has a shape that depends on the values"),
    "np.digitize(x, a)": (ShapeError, "np.digitize takes a vector of edges"),
    "np.cov(a, fweights=k[:6])": (UnsupportedError, "np.cov with fweights= is not supported"),
    "np.cov(t)": (ShapeError, "np.cov takes vectors and matrices"),
}


def listed() -> list[str]:
    lines = [line.partition(": ")[2] for line in SAME.strip().splitlines()]
    return [entry.strip() for line in lines for entry in line.split(" | ")]


def computed(expression: str, runner: Any) -> Any:
    code = compile(expression, "<expression>", "eval")

    def function(*arrays: Any) -> Any:
        return eval(code, {"np": np, **dict(zip(ARRAYS, arrays, strict=True))})

    return runner(function, *ARRAYS.values())


@pytest.mark.parametrize("expression", listed())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_function_of_samples(expression: str) -> None:
    assert_same(computed(expression, run), computed(expression, lambda function, *arrays: function(*arrays)))


@pytest.mark.parametrize("expression", REFUSED)
def test_refused(expression: str) -> None:
    kind, problem = REFUSED[expression]
    with pytest.raises(kind) as refusal:
        computed(expression, run)
    assert str(refusal.value).startswith(problem)
