"""The record of a run: the pass rate, what was run, and a reason for every test that did not pass."""

from __future__ import annotations

import json
import platform
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.array_api import namespace
from tests.array_api.reasons import OUTSIDE, is_name_of_an_error, reason_of
from tests.array_api.suite import REPLACED

PACKAGES = ("numpy", "numba", "llvmlite", "islpy", "hypothesis", "pytest")


@dataclass(frozen=True, slots=True)
class Results:
    """Outcomes by test id, in the order of the run; a failure in setup or teardown is the test's."""

    outcomes: Mapping[str, dict[str, Any]]

    @classmethod
    def read(cls, log: Path) -> Results:
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        found: dict[str, dict[str, Any]] = {}
        for line in lines:
            if line["id"] not in found or line["outcome"] == "failed":
                found[line["id"]] = line
        return cls(found)


def record(results: Results, suite: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What is written to ``benchmarks/results``; `commits`: of polyfuse, with the number of tests run at each, as a run
    that was interrupted goes on with what it finds."""
    outcomes = results.outcomes.values()
    counts = Counter(line["outcome"] for line in outcomes)
    passed = [line["id"] for line in outcomes if line["outcome"] == "passed"]
    rest = [line for line in outcomes if line["outcome"] != "passed"]
    reasons = Counter(map(reason_of, rest))
    applicable = len(results.outcomes) - sum(reasons[reason] for reason in OUTSIDE)
    return {
        "command": "python -m tests.array_api SUITE --out benchmarks/results/array_api.json"
        f" --examples {settings['examples']}",
        "date": date.today().isoformat(),
        "suite": commit(suite),
        "standard": namespace.__array_api_version__,
        "settings": dict(settings),
        "backend": "numba_cpu: every function of the namespace is jitted for itself and runs compiled",
        "commits": dict(Counter(line["commit"] for line in outcomes)),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
        "tests": len(results.outcomes),
        "passed": len(passed),
        "applicable": applicable,
        "passed_of_applicable": f"{100 * len(passed) / applicable:.1f} %" if applicable else "",
        "passed_for_a_name_or_signature_alone": sum(map(is_name_of_an_error, passed)),
        "failed": counts["failed"],
        "skipped": counts["skipped"],
        "reasons": dict(reasons.most_common()),
        "seconds": round(sum(line["seconds"] for line in outcomes)),
        "suite_changes": [{"file": file, "before": before, "after": after} for file, before, after in REPLACED],
        "not_passed": [
            {"test": line["id"].removeprefix("array_api_tests/"), "outcome": line["outcome"], "reason": reason_of(line)}
            for line in rest
        ],
    }


def commit(folder: Path) -> str:
    """The commit of a checkout."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
    return found.stdout.strip()
