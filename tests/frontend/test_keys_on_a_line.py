"""Keys that are known while tracing, and lie about evenly, are guessed by a line and two comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import expr
from polyfuse.dtypes import DType, f32, f64
from polyfuse.frontends.numpy_like import bisection

RNG = np.random.default_rng(11)
DTYPES = (np.float16, np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.uint64)
EVEN: dict[str, Sequence[float]] = {
    "unit": [k / 40 for k in range(41)],
    "shifted": [0.1 + k * 0.3 for k in range(100)],
    "whole": list(range(-3, 60)),
    "large": [1e6 + k for k in range(300)],
    "jittered": sorted((np.arange(64) + RNG.uniform(-0.2, 0.2, 64)).tolist()),
}
UNEVEN: dict[str, Sequence[float]] = {
    "powers": [2.0**k for k in range(40)],
    "gap": [*range(30), 40, 41, 42],
    "doubled": [float(k // 2) for k in range(50)],
    "fourfold": [float(k // 4) for k in range(60)],
    "flat": [1.0] * 20,
    "endless": [*map(float, range(20)), float("inf")],
    "closer than their rounding": [1e8 + k / 100 for k in range(100)],
}


def around(keys: Sequence[float], dtype: Any) -> np.ndarray:
    """The keys, their neighbours in the dtype, numbers between and beyond, and those that are none."""
    exact = np.asarray(keys)
    if np.dtype(dtype).kind != "f":
        info = np.iinfo(dtype)
        at = np.clip(exact[np.isfinite(exact)], float(info.min) / 2, float(info.max) / 2).astype(dtype)
        return np.concatenate([at, at + dtype(1), at[at > info.min] - dtype(1), np.array([info.min, info.max], dtype)])
    with np.errstate(over="ignore"):
        at = exact.astype(dtype)
    between = RNG.uniform(exact[0] - 1, min(exact[-1], 1e9) + 1, 300)
    info = np.finfo(dtype)
    odd = [np.nan, np.inf, -np.inf, 0.0, -0.0, info.max, -info.max, info.tiny, -info.tiny]
    with np.errstate(over="ignore"):
        neighbours = [np.nextafter(at, dtype(-np.inf)), np.nextafter(at, dtype(np.inf))]
        return np.concatenate([at, *neighbours, between.astype(dtype), np.array(odd, dtype)]).astype(dtype)


def reads(keys: Sequence[float], x: np.ndarray) -> int:
    """How often a program looks into its keys."""
    program = pf.jit(lambda x: np.digitize(x, list(keys))).plan(x, backend="interpreter").program
    return sum(isinstance(n, expr.Map) and n.function == "less_equal" for n in expr.topological(program.outputs))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("keys", [*EVEN.values(), *UNEVEN.values()], ids=[*EVEN, *UNEVEN])
def test_places_are_numpys(keys: Sequence[float], dtype: Any, right: bool) -> None:
    x = around(keys, dtype)
    found = pf.jit(lambda x: np.digitize(x, list(keys), right=right), backend="interpreter")(x)
    np.testing.assert_array_equal(found, np.digitize(x, np.asarray(keys), right=right))


@pytest.mark.parametrize("keys", EVEN.values(), ids=EVEN)
def test_two_comparisons_follow_a_line(keys: Sequence[float]) -> None:
    assert reads(keys, np.zeros(5)) == 2


@pytest.mark.parametrize("keys", UNEVEN.values(), ids=UNEVEN)
def test_a_line_that_may_be_a_key_off_is_refused(keys: Sequence[float]) -> None:
    assert bisection._line(np.asarray(keys, np.float32), f32) is None
    assert reads(keys, np.zeros(5, np.float32)) > 2 or keys == UNEVEN["closer than their rounding"]


@pytest.mark.parametrize("kind", [f32, f64])
def test_a_line_is_tried_at_every_key_and_below(kind: DType) -> None:
    """One gap is enough to refuse it, which the keys on one side of it are far from the line for."""
    keys = np.arange(200, dtype=kind.numpy)
    assert bisection._line(keys, kind) is not None
    for position in (1, 77, 198):
        parted = keys.copy()
        parted[position:] += 3
        assert bisection._line(parted, kind) is None


@pytest.mark.parametrize("bins", [5, 64, 100, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int32])
@pytest.mark.parametrize("span", [(0.0, 1.0), (-3.7, 251.3), (0, 256)])
def test_histograms_of_a_range(bins: int, dtype: Any, span: tuple[float, float]) -> None:
    x = around(np.linspace(*span, bins + 1).tolist(), dtype)
    x = x[np.isfinite(x)] if x.dtype.kind == "f" else x
    counts, edges = pf.jit(lambda x: np.histogram(x, bins=bins, range=span), backend="interpreter")(x)
    with np.errstate(over="ignore"):
        want, wanted_edges = np.histogram(x, bins=bins, range=span)
    np.testing.assert_array_equal(counts, want)
    np.testing.assert_array_equal(edges, wanted_edges)


def test_edges_that_a_call_changes_are_seen() -> None:
    """A captured array that was read: other contents are another line, or none."""
    edges = np.linspace(0.0, 1.0, 30)
    f = pf.jit(lambda x: np.digitize(x, edges))
    x = RNG.random(1000)
    np.testing.assert_array_equal(f(x), np.digitize(x, edges))
    edges[5:] += 3.0
    np.testing.assert_array_equal(f(x), np.digitize(x, edges))
    edges[:] = np.geomspace(1e-3, 1.0, 30)
    np.testing.assert_array_equal(f(x), np.digitize(x, edges))


def test_interpolation_between_even_points_fuses() -> None:
    table = RNG.random(256)
    f = pf.jit(lambda x, y: np.interp(x, np.linspace(0.0, 1.0, 256), y))
    x = RNG.uniform(-0.2, 1.2, 1000)
    np.testing.assert_allclose(f(x, table), np.interp(x, np.linspace(0.0, 1.0, 256), table), rtol=1e-12)
