"""A fresh process that finds its programs on disk neither plans nor compiles, and loads nothing that could."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.compile import CASES, child

CASES_HERE = 2


def test_a_warm_process_only_loads(tmp_path: Path) -> None:
    cold, warm = child("calls", str(tmp_path), CASES_HERE), child("calls", str(tmp_path), CASES_HERE)
    names = [case.name for case in CASES[:CASES_HERE]]
    assert [cold[f"{name} work"] for name in names] == [[1, 1, 0]] * CASES_HERE  # plans, compilations, loads
    assert [warm[f"{name} work"] for name in names] == [[0, 0, 1]] * CASES_HERE
    assert "polyfuse.planning.planner" in cold["modules"] and warm["modules"] == []


SMALL_CALL = """
import sys
import numpy as np
import polyfuse as pf
assert pf.jit(lambda x: np.exp(x) + 1)(np.zeros((4, 5), np.float32)).sum() == 40
print("numba" in sys.modules)
"""


def test_a_kernel_from_the_disk_that_one_thread_runs_needs_no_numba(tmp_path: Path) -> None:
    environment = os.environ | {"POLYFUSE_CACHE": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", SMALL_CALL]
    runs = [
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=100).stdout.strip()
        for _ in range(2)
    ]
    assert runs == ["True", "False"]
