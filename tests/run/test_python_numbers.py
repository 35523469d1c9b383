"""What is made of Python numbers alone is one, as in NumPy code: what a step returns may be passed to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import polyfuse as pf


@dataclass
class State:
    buffer: Any
    count: int
    rate: float


def decayed(parameters: Any, rate: float) -> Any:
    return parameters - rate * parameters, rate * 0.5


def head(x: Any, count: int) -> Any:
    return x[:count] * 2, count + 1


def advanced(state: State) -> State:
    return State(state.buffer * state.rate, state.count + 1, state.rate)


def test_a_rate_stays_weak() -> None:
    step = pf.jit(decayed)
    parameters, rate = np.ones(3, np.float32), 0.1
    for _ in range(3):
        parameters, rate = step(parameters, rate)
        assert parameters.dtype == np.float32 and type(rate) is float
    assert rate == 0.1 * 0.5**3


def test_a_count_slices_again() -> None:
    step, count = pf.jit(head), 1
    for n in range(1, 4):
        found, count = step(np.arange(5.0), count)
        assert type(count) is int and found.shape == (n,)


def test_fields_are_what_they_were() -> None:
    step, state = pf.jit(advanced), State(np.ones(3, np.float32), 2, 0.5)
    for n in range(3):
        state = step(state)
        assert (type(state.count), type(state.rate), state.buffer.dtype) == (int, float, np.float32)
        assert (state.count, state.rate) == (3 + n, 0.5)


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (lambda a: a * 2, 3),
        (lambda a: a > 2, 3),
        (lambda a: a / 2, 3),
        (lambda a: [a, {"twice": 2 * a}], 1.5),
        (lambda a: np.float32(a), 3.0),
        (lambda a: np.sqrt(a), 3.0),
        (lambda a: a * np.float32(2), 3.0),
        (lambda a: a, True),
    ],
)
def test_types_are_those_of_numpy_code(function: Any, argument: Any) -> None:
    found, expected = pf.jit(function)(argument), function(argument)
    assert found == expected
    kinds = [type(v) for v in (found, expected)]
    assert kinds[0] is kinds[1]
    if isinstance(found, list):
        assert type(found[0]) is float and type(found[1]["twice"]) is float
