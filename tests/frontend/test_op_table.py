"""Every row of the operation table on random arguments, traced and evaluated, against NumPy; some of them compiled."""

from __future__ import annotations

import random
from zlib import crc32

import pytest

from tests.frontend.op_check import RUNNERS, by_reference, check
from tests.frontend.op_rows import CASES, Row

SHARE = 12  # one row in so many runs on each back end; python -m tests.frontend.op_check runs all of them


def name_of(row: Row) -> str:
    return f"{row.text} [{row.arrays}]"


def share(number: int) -> list[Row]:
    """Rows picked by their text, so that the others keep theirs when one is added."""
    return [row for row in CASES if crc32(name_of(row).encode()) % SHARE == number]


@pytest.mark.parametrize("row", CASES, ids=name_of)
def test_row(row, request: pytest.FixtureRequest) -> None:
    turns = range(min(request.config.getoption("--trials"), 6))
    outcomes = [check(row, random.Random(f"0 {turn} {row.text} {row.arrays}"), by_reference) for turn in turns]
    assert "ok" in outcomes, "NumPy refuses all that was drawn: the row tests nothing"


@pytest.mark.parametrize("row", share(0), ids=name_of)
def test_row_compiled_for_the_cpu(row: Row) -> None:
    assert check(row, random.Random(f"0 {row.text} {row.arrays}"), RUNNERS["numba_cpu"]) in ("ok", "refused")


@pytest.mark.parametrize("row", share(1), ids=name_of)
def test_row_interpreted(row: Row) -> None:
    assert check(row, random.Random(f"0 {row.text} {row.arrays}"), RUNNERS["interpreter"]) in ("ok", "refused")
