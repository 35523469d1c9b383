"""Failures that the fuzzer found, as the scripts that it wrote: each one ran wrong once."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPTS = sorted(p for p in Path(__file__).parent.glob("*.py") if not p.name.startswith("test_"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script: Path) -> None:
    runpy.run_path(str(script))
