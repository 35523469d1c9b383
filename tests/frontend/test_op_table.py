"""Every row of the operation table on random arguments, traced and evaluated, against NumPy."""

from __future__ import annotations

import random

import pytest

from tests.frontend.op_check import by_reference, check
from tests.frontend.op_rows import CASES


@pytest.mark.parametrize("row", CASES, ids=lambda row: f"{row.text} [{row.arrays}]")
def test_row(row, request: pytest.FixtureRequest) -> None:
    for turn in range(min(request.config.getoption("--trials"), 6)):
        check(row, random.Random(f"0 {turn} {row.text} {row.arrays}"), by_reference)
