"""Lists, dictionaries and objects that a call passes: what a function puts into them is not put into the caller's."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import TraceError


@dataclass
class State:
    w: Any


def in_dictionary(p: Any, x: Any) -> Any:
    p["w"] = p["w"] + x
    return p["w"]


def in_list(p: Any, x: Any) -> Any:
    p.append(x * 2)
    return p[-1]


def in_object(p: Any, x: Any) -> Any:
    p.w = p.w + x
    return p.w


CASES = [(in_dictionary, {"w": np.ones(3)}, r"p['w']"), (in_list, [np.ones(3)], "p[1]"), (in_object, State(1.0), "p.w")]


@pytest.mark.parametrize(("function", "given", "place"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_what_is_put_into_the_callers_containers_is_told(
    function: Any, given: Any, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "polyfuse.trace"):
        found = pf.jit(backend="interpreter")(function)(given, np.ones(3))
    np.testing.assert_array_equal(found, np.full(3, 2.0))
    assert f"puts arrays into what the caller passed ({place})" in caplog.text


def test_it_is_an_error_where_nothing_else_comes_of_the_call() -> None:
    def step(params: Any, grads: Any) -> None:
        for k in params:
            params[k] = params[k] - 0.1 * grads[k]

    with pytest.raises(TraceError, match=r"params\['w'\].* would be lost"):
        pf.jit(step)({"w": np.ones(3)}, {"w": np.ones(3)})


def test_it_is_an_error_where_the_caller_does_not_get_them_back() -> None:
    def forward(x: Any, cache: Any) -> Any:
        cache["hidden"] = np.tanh(x)
        return 2 * cache["hidden"]

    with pytest.raises(TraceError, match=r"\(cache\['hidden'\]\), and does not return them"):
        pf.jit(forward)(np.ones(3), {})


def test_one_hot_rows_of_no_labels() -> None:
    def function(x: Any, y: Any) -> Any:
        p = np.exp(x - x.max(axis=1, keepdims=True))
        one_hot = np.eye(x.shape[1], dtype=x.dtype)[y]
        return p[np.arange(len(y)), y].sum(), p / p.sum(axis=1, keepdims=True) - one_hot

    for options in ({}, {"backend": "interpreter"}):
        total, rest = pf.jit(**options)(function)(np.ones((0, 10), np.float32), np.zeros(0, np.int64))
        assert (total, rest.shape) == (0, (0, 10))


def test_counts_of_nothing() -> None:
    def function(x: Any, n: Any) -> Any:
        return np.bincount(x, minlength=n.shape[0]), np.bincount(x, minlength=3)

    nothing = np.zeros(0, np.int64)
    for found, wanted in zip(pf.jit(function)(nothing, nothing), function(nothing, nothing), strict=True):
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype
