"""Sequences of random calls of one function: what an earlier call left behind never changes a later answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyfuse.face.joined import backend, target_of
from polyfuse.face.numpy_like import NumPyFrontend
from polyfuse.options import Options
from polyfuse.planning.planner import plan_program
from polyfuse.run.dispatch import Jitted
from polyfuse.run.services import Services

FUNCTIONS = {
    "chain": lambda x, y: np.maximum(x * 2 - y, 0) + 1,
    "normalised": lambda x, y: (x - x.mean(axis=-1, keepdims=True)) * y,
    "two results": lambda x, y: (x.sum(axis=0) - y.max(axis=0), x[::-1] + y),
}
SERVICES = Services(NumPyFrontend(), plan_program, backend, target_of)
JITTED = {name: Jitted(f, Options(), SERVICES) for name, f in FUNCTIONS.items()}


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, int], dtype: str) -> np.ndarray:
    """An array of that shape in a random memory order, with random contents (small integers: sums are exact)."""
    steps = [draw(st.sampled_from([1, 1, 1, 2, -1, -3])) for _ in shape]
    starts = [draw(st.integers(0, 2)) for _ in shape]
    extents = [n * abs(s) + o for n, s, o in zip(shape, steps, starts, strict=True)]
    transposed = draw(st.booleans())
    memory = np.zeros(extents[::-1] if transposed else extents, dtype)
    memory = memory.T if transposed else memory
    index = tuple(slice(o, o + n * abs(s)) for n, s, o in zip(shape, steps, starts, strict=True))
    array = memory[index][tuple(slice(None, None, s) for s in steps)]
    assert array.shape == shape
    array[...] = np.random.default_rng(draw(st.integers(0, 9))).integers(-8, 9, shape)
    return np.broadcast_to(array[:1], shape) if draw(st.integers(0, 9)) == 0 and shape[0] else array


@st.composite
def calls(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, str]:
    sizes = st.sampled_from([1, 2, 3, 8, 33, 64, 100])
    shape = draw(sizes), draw(sizes)
    other = tuple(1 if draw(st.integers(0, 4)) == 0 else n for n in shape)
    dtype = draw(st.sampled_from(["float32", "float64"]))
    x = draw(views(shape, dtype))
    return x, draw(views(other, dtype)), draw(st.sampled_from(["new", "new", "out", "onto x", "shifted"]))


def results(value: Any) -> list[np.ndarray]:
    return list(value) if isinstance(value, tuple) else [value]


def target(x: np.ndarray, expected: np.ndarray, mode: str) -> np.ndarray | None:
    """Where a result goes: new memory of the caller's, the memory of x, or memory that x overlaps; None if unfit."""
    if mode == "out":
        return np.full(expected.shape, np.nan, expected.dtype)
    if mode == "onto x":
        return x if x.shape == expected.shape and x.flags.writeable else None
    base = x.base if isinstance(x.base, np.ndarray) and x.base.flags.writeable else None
    flat = base.reshape(-1, order="A") if base is not None and base.flags.forc else None
    if flat is None or not np.shares_memory(flat, x) or flat.size < expected.size:
        return None
    return flat[flat.size - expected.size :].reshape(expected.shape)


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=10)
@given(sequence=st.lists(calls(), min_size=2, max_size=4))
def test_every_call_is_right(name: str, sequence: list[tuple[np.ndarray, np.ndarray, str]]) -> None:
    function, jitted = FUNCTIONS[name], JITTED[name]
    for x, y, mode in sequence:
        expected = results(function(x.copy(), y.copy()))
        out = target(x, expected[0], mode) if mode != "new" and len(expected) == 1 else None
        found = results(jitted(x, y) if out is None else jitted(x, y, out=out))
        for actual, wanted in zip(found, expected, strict=True):
            assert actual.dtype == wanted.dtype
            np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-5)
