"""Reductions of what a Python number of the caller fills, which nothing loads and no statement computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf


def pushed(buffer: Any, k: int, x: Any) -> Any:
    buffer = buffer.copy()
    buffer[k] = x
    return buffer, buffer[:k].sum()


ROW = np.arange(5, dtype=np.float32)
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "alone": (lambda x: np.full(4, x).sum(), (0.5,)),
    "listed": (lambda x: np.array([x, x]).sum(), (0.5,)),
    "beside an array": (lambda s, x: s + np.full(s.shape, x).sum(), (ROW, 0.5)),
    "integers": (lambda s, x: s + np.full(s.shape, x).sum(), (ROW, 2)),
    "mean": (lambda s, x: np.full(s.shape, x).mean(), (ROW, 0.5)),
    "spread": (lambda s, x: np.full(s.shape, x).std(), (ROW, 0.5)),
    "weights": (lambda s, x: np.average(s, weights=np.full(s.shape, x)), (ROW, 0.5)),
    "chosen": (lambda s, x: np.where(s > 0, x, x).sum(), (ROW, 0.5)),
    "columns": (lambda s, x: np.full((3, *s.shape), x).sum(0) + s, (ROW, 0.5)),
    "ends": (lambda s, x: np.full(s.shape, x).max() + np.full(s.shape, x).min(), (ROW, 0.5)),
    "products": (lambda s, x: np.full(s.shape, x).prod(), (ROW, 0.5)),
    "of nothing": (lambda s, x: np.full(s.shape, x).sum(), (ROW[:0], 1.0)),
    "two results": (lambda x: (np.arange(3) * x, np.full(3, x).sum()), (2,)),
    "an empty slice": (pushed, (np.zeros(5, np.float32), 0, 1.0)),
    "a slice": (pushed, (np.zeros(5, np.float32), 3, 1.0)),
}


@pytest.mark.parametrize("options", [{}, {"backend": "interpreter", "target": "h200"}], ids=["cpu", "h200"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_that_are_passed_are_reduced(
    name: str, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    function, arguments = PROGRAMS[name]
    found, expected = pf.jit(**options)(function)(*arguments), function(*arguments)
    if not isinstance(expected, tuple):
        found, expected = (found,), (expected,)
    for mine, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-6)
    assert "polyfuse failed" not in caplog.text
