"""The code of the pages runs and prints what they show; the helper notices when it does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.project import functions
from tests.project.pages import executed

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("array-api.md", "index-notation.md", "limits.md", "what-blocks-fusion.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_page_shows_what_its_code_prints(page: str) -> None:
    path = DOCS / page
    assert executed(path) == path.read_text(), f"run python -m tests.project.pages docs/{page}"


def test_the_page_of_functions_says_what_tracing_them_does() -> None:
    text = (DOCS / "functions.md").read_text()
    if f"NumPy {np.__version__.rpartition('.')[0]}" not in text:
        pytest.skip("the page was written with another NumPy")
    assert functions.page() == text, "run python -m tests.project.functions docs/functions.md"


def test_a_function_without_advice_or_call_is_noticed() -> None:
    with pytest.raises(AssertionError, match="no call of it can be traced"):
        functions.judged("nothing", [(lambda x: x.nothing, [np.zeros(3)])])
    assert functions.entry("unique", np.unique).state == functions.REFUSED
    assert functions.entry("bincount", np.bincount) == functions.Entry("bincount", functions.CALL, "scatter")
    assert functions.entry("fft.fft", np.fft.fft).state == functions.REFUSED
    assert functions.entry("sort", np.sort) == functions.Entry("sort", functions.CALL, "sort")


def test_a_stale_output_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\nBetween.\n\n```python\nprint(x + 1)\n```\n\n```text\n3\n```\n\nAfter.\n")
    assert executed(page) == page.read_text().replace("3", "2")


def test_a_print_without_its_output_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Above.\n\n```python\nprint(1)\n```\n")
    with pytest.raises(AssertionError, match="line 4: prints, but no"):
        executed(page)
