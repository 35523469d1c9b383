"""The README shows what ran: its output is that of its code, its tables are those of the results files."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


readme = load(ROOT / "benchmarks" / "readme.py")


def test_readme_is_up_to_date() -> None:
    text = (ROOT / "README.md").read_text()
    assert readme.filled(text) == text, "run python benchmarks/readme.py"


def test_first_screen_shows_a_kernel_its_explanation_and_a_table() -> None:
    first = "\n".join((ROOT / "README.md").read_text().splitlines()[:60])
    (code,) = re.findall(r"```python\n(.*?)```", first, re.DOTALL)[:1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12 and "@pf.jit" in code
    assert "<!-- output -->\n```text" in first
    assert "<!-- measured: " in first


def test_output_is_what_the_block_above_prints() -> None:
    text = "```python\nprint(1)\n```\n\n```python\nprint('two')\n```\n<!-- output -->\nold\n<!-- end -->"
    assert "<!-- output -->\n```text\ntwo\n```\n<!-- end -->" in readme.filled(text)


def test_tables_come_from_results_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    text = "<!-- measured: r.json -->\ninvented\n<!-- end -->"
    assert readme.filled(text) == "<!-- measured: r.json -->\n<!-- end -->"
    results = {"machine": "m", "versions": "v", "date": "d", "command": "c"}
    results |= {"columns": ["program", "ms"], "rows": [["softmax", 1.23456], ["sum", 1234.5]]}
    (tmp_path / "r.json").write_text(json.dumps(results))
    expected = "| program | ms |\n| --- | ---: |\n| softmax | 1.23 |\n| sum | 1234 |\n\nm; v; d; `c`.\n"
    assert readme.filled(text) == f"<!-- measured: r.json -->\n{expected}<!-- end -->"
