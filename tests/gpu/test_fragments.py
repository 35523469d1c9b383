"""The check of the CUDA fragment runtime, as a test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.gpu
@pytest.mark.slow
def test_every_operation_agrees_with_numpy_on_the_gpu() -> None:
    script = Path(__file__).with_name("fragment_check.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    failures = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]
    assert done.returncode == 0, "\n".join([*failures, done.stderr[-2000:]])
