"""Every example runs as a user would run it, and leaves nothing behind; the demo with `--quick`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SECONDS = 240  # several times what the longest example takes on two slow cores, compilation included


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    settings = {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "POLYFUSE_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, str(example), *["--quick"] * (example.stem == "demo")]
    run = subprocess.run(
        command, cwd=tmp_path, env=os.environ | settings, capture_output=True, text=True, timeout=SECONDS
    )
    assert run.returncode == 0, f"{example.name} failed:\n{run.stdout[-4000:]}\n{run.stderr[-4000:]}"
    assert run.stdout.strip(), f"{example.name} prints nothing: what does it show?"
