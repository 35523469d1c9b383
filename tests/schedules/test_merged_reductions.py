"""Reductions of reductions become one, where nothing else reads what the first leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.testing import assert_equivalent

Function = Callable[..., Any]

MERGED: dict[str, tuple[Function, str]] = {
    "largest of largest": (lambda x: np.abs(x).max(axis=1).max(), "f32[70, 90]"),
    "sum of sums": (lambda x: x.sum(axis=0).sum(), "f32[70, 90]"),
    "three": (lambda x: x.min(axis=2).min(axis=1).min(), "i32[5, 7, 9]"),
    "inner dimensions": (lambda x: x.sum(axis=2).sum(axis=1), "f32[8, 30, 40]"),
    "largest bfloat16": (lambda x: x.max(axis=1).max(axis=0), "bf16[40, 50]"),
    "all of any": (lambda x: (x > 3).all(axis=1).all(), "f32[40, 50]"),
}
APART: dict[str, tuple[Function, str]] = {
    "of another kind": (lambda x: x.sum(axis=1).max(), "f32[70, 90]"),
    "read besides": (lambda x: (x.max(axis=1).max(), x.max(axis=1) + 1), "f32[70, 90]"),
    "an output": (lambda x: (x.sum(axis=1).sum(), x.sum(axis=1)), "f32[70, 90]"),
    "around what is kept": (lambda x: x.max(axis=2).max(axis=0), "f32[8, 30, 40]"),
    "of rows over their sums": (lambda x: (x / np.abs(x).sum(axis=1, keepdims=True)).sum(axis=1).sum(), "f32[70, 90]"),
    "rounded between": (lambda x: x.sum(axis=1).sum(), "bf16[40, 50]"),
}


def checked(function: Function, spec: str) -> None:
    merged, plain = (pf.jit(function, fuse=fuse).plan(pf.spec(spec), target="h200") for fuse in (True, False))
    assert_equivalent(plain, merged)


def reductions(function: Function, spec: str, **options: Any) -> int:
    plan = pf.jit(function, **options).plan(pf.spec(spec), target="h200")
    return sum(getattr(s, "is_reduction", False) for s in plan.scop.statements)


@pytest.mark.parametrize("name", MERGED)
def test_they_are_one(name: str) -> None:
    function, spec = MERGED[name]
    assert reductions(function, spec) == 1
    checked(function, spec)


@pytest.mark.parametrize("name", APART)
def test_they_stay_two(name: str) -> None:
    function, spec = APART[name]
    assert reductions(function, spec) == 2 + ("their sums" in name)
    checked(function, spec)


@pytest.mark.parametrize("options", [{"fuse": False}, {"round": "every-op"}, {"max_fusion_size": 3}])
def test_what_the_user_wants_as_it_is_written_stays(options: dict[str, Any]) -> None:
    assert reductions(lambda x: x.sum(axis=1).sum(), "f32[70, 90]", **options) == 2
