"""The examples of docs/schedules.md, as they stand there."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "schedules.md"


def test_the_examples_of_the_page() -> None:
    flags = doctest.NORMALIZE_WHITESPACE
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert result.attempted > 15 and result.failed == 0
