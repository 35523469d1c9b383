"""Which data indices are proved to be in bounds, and that a proof is never wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.plan import Plan

Function = Callable[..., Any]

PROVED: dict[str, tuple[Function, str]] = {
    "remainder by the extent": (lambda x, i: x[i % x.shape[0]], "i64[K]"),
    "remainder by less": (lambda x, i: x[i % 7], "i64[K]"),
    "clipped": (lambda x, i: x[np.clip(i, 0, x.shape[0] - 1)], "i64[K]"),
    "clipped below zero too": (lambda x, i: x[np.clip(i, -x.shape[0], x.shape[0] - 1)], "i64[K]"),
    "low bits": (lambda x, i: x[i & 15], "i64[K]"),
    "the sum of two parts": (lambda x, i: x[(i & 3) + (i % 5)], "i64[K]"),
    "a byte": (lambda x, i: x[i], "u8[K]"),
    "a signed byte": (lambda x, i: x[i.astype(np.int16) + 128], "i8[K]"),
    "half of a byte": (lambda x, i: x[i.astype(np.int64) // 2], "u8[K]"),
    "one of two": (lambda x, i: x[np.where(i > 0, 3, i % 4)], "i64[K]"),
    "where the largest is": (lambda x, i: x[i.reshape(-1, 4).argmax(axis=1)], "i64[256]"),
}
UNPROVED: dict[str, tuple[Function, str]] = {
    "anything": (lambda x, i: x[i], "i64[K]"),
    "remainder by more": (lambda x, i: x[i % 300], "i64[K]"),
    "one too far": (lambda x, i: x[np.clip(i, 0, x.shape[0])], "i64[K]"),
    "clipped on one side": (lambda x, i: x[np.minimum(i, 5)], "i64[K]"),
    "wraps in its dtype": (lambda x, i: x[np.minimum(np.maximum(i, 0) + np.maximum(i, 0), 255)], "i16[K]"),
    "wraps, then looks small": (lambda x, i: x[np.maximum(i * i, 0)], "i64[K]"),
    "two bytes": (lambda x, i: x[i], "u16[K]"),
    "shifted by an unknown": (lambda x, i: x[(i & 7) + i], "i64[K]"),
}


def plan_of(function: Function, index: str, **options: Any) -> Plan:
    return pf.jit(function).plan(pf.spec("f32[256]"), pf.spec(index), target="h200", **options)


@pytest.mark.parametrize("case", PROVED)
def test_a_proved_index_is_not_checked(case: str) -> None:
    plan = plan_of(*PROVED[case])
    assert plan.sites == () and "index_fault" not in plan.source() and "checked while running" not in plan.explain()


@pytest.mark.parametrize("case", UNPROVED)
def test_any_other_index_is_checked(case: str) -> None:
    plan = plan_of(*UNPROVED[case])
    assert len(plan.sites) == 1 and "index_fault" in plan.source()
    assert "checked while running, not proved to be in bounds\n  an index into x" in plan.explain()


@pytest.mark.parametrize("case", PROVED)
def test_proofs_agree_with_numpy(case: str) -> None:
    """Extreme and random values: an index that left its array would raise in NumPy."""
    function, index = PROVED[case]
    dtype = {"i": np.int64, "u": np.uint8}[index[0]] if index[1] != "8" or index[0] == "u" else np.int8
    limits = np.iinfo(dtype)
    values = np.random.default_rng(0).integers(limits.min, limits.max, 256, dtype=dtype, endpoint=True)
    values[:6] = np.array([limits.min, limits.max, 0, 1, limits.max - 1, limits.min + 1], dtype)
    x = np.arange(256, dtype=np.float32)
    assert np.array_equal(pf.jit(function)(x, values), function(x, values))


def test_elements_that_do_not_exist_read_nothing() -> None:
    """The proof speaks of the elements of the result; padded lanes of its kernel compute other indices."""

    def function(x, i):
        return x[np.where(i >= 0, np.arange(i.shape[0]), 0)]

    plan = pf.jit(function).plan(pf.spec("f32[K]"), pf.spec("i64[K]"), target="h200")
    loads = [line.strip() for line in plan.source().splitlines() if "= load(x_in" in line]
    assert plan.sites == () and len(loads) == 2
    assert ["mask=" in line for line in loads] == [False, True]  # the whole tile, the border
    x, i = np.arange(37, dtype=np.float32), np.zeros(37, np.int64)
    checked = pf.jit(function, backend="interpreter", target="h200")  # raises for reads outside of x
    assert np.array_equal(checked(x, i), x)


def test_an_option_settles_what_is_not_proved() -> None:
    function, index = UNPROVED["anything"]
    assert plan_of(function, index, bounds="clip").sites == ()
    assert "maximum(" in plan_of(function, index, bounds="clip").source()
    assert "maximum(" not in plan_of(function, index, bounds="assume").source()
