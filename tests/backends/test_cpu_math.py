"""Accuracy of the CPU runtime's mathematical functions, in units in the last place, and their special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import polyfuse as pf
from tests.backends.cpu_kernels import evaluate

Array = np.ndarray[Any, Any]

# name: (reference, domain, bound for float32, bound for float64), bounds in units in the last place
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], tuple[float, float], float, float]] = {
    "exp": (mpmath.exp, (-110, 95), 1.0, 1.0),
    "exp2": (lambda x: mpmath.mpf(2) ** x, (-155, 130), 1.0, 1.0),
    "expm1": (mpmath.expm1, (-30, 95), 1.5, 2.0),
    "log": (mpmath.log, (1e-30, 1e30), 1.0, 1.0),
    "log2": (lambda x: mpmath.log(x, 2), (1e-30, 1e30), 0.6, 0.6),
    "log10": (mpmath.log10, (1e-30, 1e30), 0.6, 0.6),
    "log1p": (mpmath.log1p, (-0.999999, 1e6), 1.5, 1.0),
    "sin": (mpmath.sin, (-1e5, 1e5), 1.6, 1.0),
    "cos": (mpmath.cos, (-1e5, 1e5), 1.6, 1.0),
    "tan": (mpmath.tan, (-1e5, 1e5), 1.2, 3.0),
    "arcsin": (mpmath.asin, (-1, 1), 0.6, 2.0),
    "arccos": (mpmath.acos, (-1, 1), 0.6, 2.0),
    "arctan": (mpmath.atan, (-1e3, 1e3), 0.6, 2.0),
    "sinh": (mpmath.sinh, (-90, 90), 0.6, 2.0),
    "cosh": (mpmath.cosh, (-90, 90), 0.6, 2.0),
    "tanh": (mpmath.tanh, (-20, 20), 1.5, 2.0),
    "arcsinh": (mpmath.asinh, (-1e5, 1e5), 0.6, 2.0),
    "arccosh": (mpmath.acosh, (1, 1e5), 0.6, 2.0),
    "arctanh": (mpmath.atanh, (-0.9999999, 0.9999999), 0.6, 2.0),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), (-1e30, 1e30), 0.6, 0.6),
    "erf": (mpmath.erf, (-6, 6), 1.2, 1.5),
    "erfc": (mpmath.erfc, (-6, 9), 0.6, 4.0),
    "lgamma": (lambda x: mpmath.log(abs(mpmath.gamma(x))), (0.1, 30), 0.6, 4.0),
    "tgamma": (mpmath.gamma, (0.1, 30), 0.6, 6.0),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), (1e-20, 1e20), 1.6, 1.6),
}


def points(low: float, high: float, dtype: np.dtype[Any]) -> Array:
    """Uniform and logarithmic points of a domain, and points around 1."""
    rng = np.random.default_rng(11)
    size = np.exp(rng.uniform(np.log(1e-8), np.log(max(abs(low), abs(high))), 120))
    signs = 1 if low >= 0 else rng.choice([-1, 1], 120)
    spread = np.concatenate([rng.uniform(low, high, 120), size * signs, 1 + rng.uniform(-0.01, 0.01, 60)])
    return np.clip(spread, low, high).astype(dtype)


def errors(got: Array, x: Array, reference: Callable[[Any], Any]) -> Array:
    """|got - exact| in units in the last place of the exact value; overflow must give the infinity."""
    largest = mpmath.mpf(float(np.finfo(got.dtype).max))
    result = []
    for value, argument in zip(got, x, strict=True):
        exact = reference(mpmath.mpf(float(argument)))
        if abs(exact) > largest:
            top = np.finfo(got.dtype).max
            unit = largest - float(np.nextafter(top, got.dtype.type(0)))
            over = math.isinf(value) or abs(exact) < largest + unit
            result.append(0.0 if over else math.inf)
            continue
        unit = mpmath.mpf(float(np.spacing(np.abs(got.dtype.type(float(exact))))))
        result.append(float(abs(mpmath.mpf(float(value)) - exact) / unit))
    return np.array(result)


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8")], ids=str)
def test_functions_stay_within_their_bounds(dtype: np.dtype[Any]) -> None:
    mpmath.mp.dps = 30
    inputs = {f"x_{name}": points(*domain, dtype) for name, (_, domain, *_) in FUNCTIONS.items()}
    outputs = evaluate([f"{name}(x_{name})" for name in FUNCTIONS], inputs, [dtype] * len(FUNCTIONS))
    worst = {}
    for got, (name, (reference, _, *bounds)) in zip(outputs, FUNCTIONS.items(), strict=True):
        found = errors(got, inputs[f"x_{name}"], reference)
        worst[name] = (float(found.max()), float(inputs[f"x_{name}"][found.argmax()]), bounds[dtype == "f8"])
    assert not {name: entry for name, entry in worst.items() if entry[0] > entry[2]}


SPECIAL = np.array(
    [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-40, 3.4e38, -3.4e38, 1e30, -1e30, 2.0, -2.0, 0.5, 1e9]
)


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8")], ids=str)
def test_special_values_follow_numpy(dtype: np.dtype[Any]) -> None:
    """Zeros keep their sign, infinities, NaN, subnormal and huge arguments come out as NumPy has them."""
    known = [name for name in FUNCTIONS if hasattr(np, name)]
    with np.errstate(all="ignore"):
        extra = [np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal, 1e300, 1e22]
        x = np.concatenate([SPECIAL, extra]).astype(dtype)
    outputs = evaluate([f"{name}(x)" for name in known], {"x": x}, [dtype] * len(known))
    for name, got in zip(known, outputs, strict=True):
        with np.errstate(all="ignore"):
            exact = getattr(np, name)(x.astype(np.longdouble)).astype(dtype)
        np.testing.assert_allclose(got, exact, rtol=4 * np.finfo(dtype).eps, atol=0, err_msg=name)
        zero = (exact == 0) & (x == 0)
        np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(exact[zero]), err_msg=name)


def test_special_values_of_what_numpy_lacks() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-300, 30.0, -30.0])
    erf, erfc, tgamma, lgamma = evaluate(["erf(x)", "erfc(x)", "tgamma(x)", "lgamma(x)"], {"x": x}, ["f8"] * 4)
    np.testing.assert_array_equal(erf, [0, -0.0, 1, -1, np.nan, math.erf(1e-300), 1, -1])
    assert np.signbit(erf[1])
    np.testing.assert_allclose(erfc, [1, 1, 0, 2, np.nan, 1, 0, 2], atol=1e-300)
    assert tgamma[2] == math.inf and np.isnan(tgamma[3]) and tgamma[0] == math.inf and tgamma[1] == -math.inf
    np.testing.assert_allclose(lgamma[5:7], [math.lgamma(1e-300), math.lgamma(30.0)], rtol=1e-15)


@pytest.mark.parametrize("dtype", [np.dtype("f4"), np.dtype("f8")], ids=str)
def test_functions_of_two_arguments(dtype: np.dtype[Any]) -> None:
    rng = np.random.default_rng(12)
    edges = np.array([0.0, -0.0, 1, -1, 2, 3, -3, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e30, 1e-30, -2.5])
    pairs = zip(np.meshgrid(edges, edges), rng.normal(0, 5, (2, 200)), strict=True)
    x, y = (np.concatenate([grid.ravel(), more]).astype(dtype) for grid, more in pairs)
    expressions = ["power(x, y)", "arctan2(x, y)", "hypot(x, y)", "power(abs_x, y)"]
    outputs = evaluate(expressions, {"x": x, "y": y, "abs_x": np.abs(x)}, [dtype] * 4)
    with np.errstate(all="ignore"):
        wide = x.astype(np.longdouble), y.astype(np.longdouble)
        wanted = [np.power(*wide), np.arctan2(*wide), np.hypot(*wide), np.power(np.abs(wide[0]), wide[1])]
        wanted = [want.astype(dtype) for want in wanted]
    info = np.finfo(dtype)
    for name, got, want in zip(expressions, outputs, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=3 * info.eps, atol=info.smallest_subnormal, err_msg=name)
        known = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]), err_msg=name)


@pytest.mark.parametrize("shape", [(), (1,), (2,), (7,), (3, 40)], ids=str)
def test_half_precision_needs_no_run_time_library(shape: tuple[int, ...]) -> None:
    """float64 inside, float32 between, float16 outside: LLVM must not round once from float64, which is a call."""
    x, y = np.full(shape, 0.5, np.float16), np.full(shape, 1.5, np.float16)
    found = pf.jit(lambda x, y: np.arctan2(x, y), backend="numba_cpu")(x, y)
    np.testing.assert_array_equal(found, np.arctan2(x, y))


def test_hypot_neither_over_nor_underflows() -> None:
    x = np.array([1e200, 3e-200, 1e308, 5e-324, 1e-310] * 9)
    (got,) = evaluate(["hypot(x, y)"], {"x": x, "y": x * 0.75}, ["f8"])
    np.testing.assert_allclose(got, x * 1.25, rtol=1e-15, atol=5e-324)


def test_trigonometric_reduction_of_huge_arguments() -> None:
    x = np.array([1e5, 2.0**22 + 0.5, 1e10, 1e15, 1e22, 1.7e308, 0.5, 711.0])
    sin, cos = evaluate(["sin(x)", "cos(x)"], {"x": x}, ["f8", "f8"])
    mpmath.mp.dps = 400
    np.testing.assert_allclose(sin, [float(mpmath.sin(mpmath.mpf(float(v)))) for v in x], rtol=3e-16)
    np.testing.assert_allclose(cos, [float(mpmath.cos(mpmath.mpf(float(v)))) for v in x], rtol=3e-16)
