"""Rows that data name: as many bytes as are asked for, and no more than there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.testing import assert_legal

CASES: dict[str, tuple[Any, tuple[str, ...], int]] = {
    "few rows of a table": (lambda e, t: e[t] * 2, ("bf16[50000, 4096]", "i64[32]"), 32 * 4096 * 2),
    "more than there are": (lambda e, t: e[t] * 2, ("f32[1000, 4096]", "i64[8192]"), 1000 * 4096 * 4),
    "a place of each": (
        lambda x, n: np.take_along_axis(x, n[:, None, None] - 1, 1)[:, 0],
        ("f32[64, 1024, 512]", "i64[64]"),
        64 * 512 * 4,
    ),
    "single elements, in parts of sectors": (
        lambda x, n: np.take_along_axis(x, n[:, None], 1)[:, 0],
        ("f32[8192, 50000]", "i64[8192]"),
        8192 * 16,
    ),
    "differences of rows": (lambda x, i, j: x[i] - x[j], ("f32[1000000, 64]", "i64[10000]", "i64[10000]"), 5_120_000),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_that_are_not_named_are_not_read(case: str) -> None:
    """The last of 1024 places of each of 64 sequences was to take 367 us, all of whose elements it was to read, so that
    its index was a kernel of its own."""
    function, specs, wanted = CASES[case]
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200")
    (kernel,) = plan.kernels
    assert_legal(plan)
    assert wanted <= kernel.cost.bytes_read <= 1.2 * wanted + 200_000  # and the numbers of rows
