"""Random programs of views, elementwise functions, reductions and writes against NumPy, at two sets of sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polyfuse.frontends.numpy_like import specs_of_arrays, trace
from polyfuse.reference import evaluate
from tests.frontend.ops import assert_same


def half_written(x: Any) -> Any:
    a = np.zeros(x.shape)
    a[1:] = x[:-1]
    a[:, ::2] += 1
    a.T[0] *= 2
    return a


def centred(x: Any) -> Any:
    return x - x.mean(axis=0)


# Each step takes and returns an array of rank 2.
STEPS: list[Callable[[Any], Any]] = [
    lambda x: x.T,
    lambda x: x[::-1],
    lambda x: x[:, ::-1] * 2,
    lambda x: x[1:],
    lambda x: x[:, :-1] + x[:, 1:],
    lambda x: x[::2],
    lambda x: np.maximum(x, 0.5) - np.tanh(x),
    lambda x: np.where(x > 0, x, -x / 3),
    lambda x: x / (1 + np.abs(x).sum(axis=1, keepdims=True)),
    centred,
    lambda x: x - x.max(axis=1)[:, None],
    lambda x: np.concatenate([x, x[:1] * 0]),
    lambda x: np.pad(x, ((1, 0), (0, 2)), mode="edge"),
    lambda x: np.roll(x, 1, axis=1),
    lambda x: np.cumsum(x, axis=0) / 4,
    lambda x: x @ x.T / x.shape[1],
    lambda x: x[np.arange(len(x)) // 2],
    lambda x: np.take_along_axis(x, x.argmax(1)[:, None], 1) + x,
    lambda x: x[[0, -1]],
    half_written,
    lambda x: np.tril(x) + np.arange(x.shape[1]),
    lambda x: x.reshape(-1, x.shape[1], 1)[:, :, 0],
    lambda x: np.stack([x, x + 1], axis=1)[:, 1],
    lambda x: x.reshape(-1)[::-1].reshape(x.shape),
]


def applied(steps: list[int]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        for step in steps:
            x = STEPS[step](x)
        return x

    return function


@given(st.lists(st.integers(0, len(STEPS) - 1), min_size=1, max_size=7), st.integers(8, 12), st.integers(9, 14))
@settings(max_examples=300)
def test_random_programs(steps: list[int], rows: int, columns: int) -> None:
    function = applied(steps)
    arrays = [np.random.default_rng(0).standard_normal(s) for s in ((rows, columns), (rows + 2, columns + 4))]
    given_specs = specs_of_arrays(arrays[:1])
    try:
        wanted = [function(x) for x in arrays]
    except (IndexError, ValueError):
        return  # too much was sliced away
    traced = trace(function, given_specs)
    for x, expected in zip(arrays, wanted, strict=True):
        if all(g.holds({"n0": x.shape[0], "n1": x.shape[1]}) for g in traced.guards):
            assert_same(evaluate(traced.program, [x, *traced.captured])[0], expected)
