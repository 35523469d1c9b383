"""The table of operations: each entry is a NumPy function and the specs of random arguments that it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyfuse.frontends.numpy_like import specs_of_arrays, trace
from polyfuse.reference import bind_sizes, evaluate


@dataclass(frozen=True)
class Case:
    """`function` of random arrays of `shapes` and `dtypes` (one for all, or one each)."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: str = "f8"
    low: float = -3.0
    high: float = 3.0

    def arguments(self, seed: int = 0) -> list[np.ndarray[Any, Any]]:
        random = np.random.default_rng(seed)
        names = self.dtypes.split() * (1 if " " in self.dtypes else len(self.shapes))
        return [self._array(random, s, np.dtype(d)) for s, d in zip(self.shapes, names, strict=True)]

    def _array(self, random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        if dtype.kind == "b":
            return random.random(shape) < 0.5
        if dtype.kind == "f":
            return random.uniform(self.low, self.high, shape).astype(dtype)
        low = max(int(self.low), 0) if dtype.kind == "u" else int(self.low)
        return random.integers(low, int(self.high) + 1, shape).astype(dtype)


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    """Trace for actual arguments, evaluate, and rebuild the nesting."""
    traced = trace(function, specs_of_arrays(arguments))
    arrays = [a for a in arguments if isinstance(a, np.ndarray)] + list(traced.captured)
    scalars = [a for a in arguments if isinstance(a, (bool, int, float)) and not isinstance(a, np.generic)]
    sizes = bind_sizes(traced.program, [a.shape for a in arrays])
    return traced.rebuild(evaluate(traced.program, arrays, scalars), sizes)


def assert_same(got: Any, wanted: Any, exact: bool = False) -> None:
    """Equal nesting, shapes, dtypes, and values within rounding."""
    if isinstance(wanted, (tuple, list)):
        assert len(got) == len(wanted)
        for g, w in zip(got, wanted, strict=True):
            assert_same(g, w, exact)
        return
    wanted = np.asarray(wanted)
    got = np.asarray(got)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if exact or wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(got, wanted)
    else:
        tolerance = {2: 2e-2, 4: 2e-5, 8: 1e-12}[wanted.dtype.itemsize]
        np.testing.assert_allclose(got.astype(np.float64), wanted.astype(np.float64), tolerance, tolerance)


def collector(cases: dict[str, Case]) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """A decorator with arguments that enters functions of arrays into `cases` by their names."""

    def case(*shapes: tuple[int, ...], dtypes: str = "f8") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            cases[function.__name__] = Case(function, shapes, dtypes)
            return function

        return add

    return case
