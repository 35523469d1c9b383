"""A fresh process that finds its programs on disk neither plans nor compiles, and loads nothing that could."""

from __future__ import annotations

from pathlib import Path

from benchmarks.compile import CASES, child

CASES_HERE = 2


def test_a_warm_process_only_loads(tmp_path: Path) -> None:
    cold, warm = child("calls", str(tmp_path), CASES_HERE), child("calls", str(tmp_path), CASES_HERE)
    names = [case.name for case in CASES[:CASES_HERE]]
    assert [cold[f"{name} work"] for name in names] == [[1, 1, 0]] * CASES_HERE  # plans, compilations, loads
    assert [warm[f"{name} work"] for name in names] == [[0, 0, 1]] * CASES_HERE
    assert "polyfuse.planning.planner" in cold["modules"] and warm["modules"] == []
