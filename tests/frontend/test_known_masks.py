"""Masks in an index whose values are known while the function is traced: shapes follow, as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.errors import IndexingError
from tests.frontend.ops import assert_same

X = np.arange(12.0).reshape(3, 4)
ROWS, CELLS = np.array([True, False, True]), X > 5

INDICES: dict[str, Any] = {
    "True": True,
    "False": False,
    "of NumPy": np.True_,
    "array of rank 0": np.array(False),
    "None, True": (None, True),
    "True, None": (True, None),
    "0, True": (0, True),
    "True, 0": (True, 0),
    "slice, True": (slice(None), True),
    "ellipsis, True": (..., True),
    "0, slice, True": (0, slice(None), True),
    "False, 0": (False, 0),
    "True, positions": (True, [0, 2, 1, 1, 0]),
    "False, position": (False, [0]),
    "True, False": (True, False),
    "rows": ROWS,
    "list": [True, False, True],
    "no rows": np.zeros(3, bool),
    "cells": CELLS,
    "rows and a column": (ROWS, 1),
    "columns": (slice(None), np.array([True, False, True, True])),
    "rows, new axis": (ROWS, None),
}


def added(x: Any, index: Any) -> Any:
    y = x.copy()
    y[index] += 1
    return y


def written(x: Any, index: Any) -> Any:
    y = x.copy()
    y[1:][..., ::2] = 3
    y[index] = 7
    return y


def multiplied(x: Any, index: Any) -> Any:
    y = x.copy()
    y[index] = y[index] * 2
    return y


@pytest.mark.parametrize("use", [lambda x, index: x[index], lambda x, index: x.T.T[index] + 1, written, multiplied])
@pytest.mark.parametrize("name", INDICES)
def test_as_numpy(name: str, use: Any) -> None:
    index = INDICES[name]
    assert_same(pf.jit(lambda x: use(x, index), backend="interpreter")(X), use(X, index))


def test_masks_of_positions_are_known_where_sizes_are() -> None:
    def function(x: Any) -> Any:
        late = np.arange(3) > 0
        return x[late], added(x, late), x[:, :3][np.tri(3, dtype=bool)], x[np.ones(3, bool), 1], x[late].sum(axis=0)

    for found, wanted in zip(pf.jit(function)(X), function(X), strict=True):
        assert_same(found, wanted)
    assert_same(pf.jit(lambda x: x[np.arange(len(x)) > 0].sum(axis=0))(X), X[1:].sum(axis=0))


def test_a_choice_is_a_copy() -> None:
    def function(x: Any) -> Any:
        y = x.copy()
        z = y[True]
        z[0, 0] = 9.0
        return y, z

    for found, wanted in zip(pf.jit(function, backend="interpreter")(X), function(X), strict=True):
        assert_same(found, wanted)


MASK = np.zeros(10_000, bool)


@pytest.mark.parametrize("use", [lambda x: x[MASK], lambda x: np.compress(MASK, x), lambda x: np.extract(MASK, x)])
def test_a_real_mask_that_changes_is_seen(use: Any) -> None:
    """However large it is: its contents decide the shape."""
    mask, x = MASK, np.arange(10_000.0)
    mask[:] = x % 7 == 0
    f = pf.jit(use, backend="interpreter")
    assert_same(f(x), x[mask])
    assert_same(f(x), x[mask])
    assert f.cache_info().traces == 1
    mask[3] = True
    assert_same(f(x), x[mask])


POSITIONS = np.zeros(1000, int)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: np.delete(x, POSITIONS),
        lambda x: np.insert(x, POSITIONS, 0),
        lambda x: np.repeat(x[:1000], POSITIONS),
        lambda x: np.add.reduceat(x, POSITIONS),
    ],
)
def test_real_positions_that_change_are_seen(use: Any) -> None:
    positions, x = POSITIONS, np.arange(2000.0)
    positions[:] = 0
    f = pf.jit(lambda x: use(x).sum(), backend="interpreter")
    assert_same(f(x), use(x).sum())
    positions[500:] = 7
    assert_same(f(x), use(x).sum())


def test_a_mask_of_another_size_is_an_error() -> None:
    with pytest.raises(IndexingError, match=r"a mask of shape \(2,\) does not fit axes of sizes \(3\)"):
        pf.jit(lambda x: x[np.array([True, False])])(X)
