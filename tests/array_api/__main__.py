"""Runs the Array API test suite, from a checkout of its own, over the compiled namespace, and writes a record.

    python -m tests.array_api CHECKOUT --out benchmarks/results/array_api.json [--examples 20]

A run takes minutes, or an hour on a busy machine.  Every result is appended to the log beside the record (``--log``) at
once, and a run that finds a log goes on where it ended.  The suite needs hypothesis and ndindex besides pytest.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.array_api.record import Results, commit, record
from tests.array_api.suite import SKIPPED_DTYPES, copied


class Recorder:
    """A plugin of pytest: appends every outcome to the log, and leaves out the tests that are in it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._done = Results.read(log)
        self._commit = commit(Path(__file__).parent)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Failures are reported as they were met: to look for simpler ones would take most of the time."""
        phases = [phase for phase in settings().phases if phase is not Phase.shrink]
        settings.register_profile("recorded", settings(), phases=phases, database=None)
        settings.load_profile("recorded")

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self._done.outcomes]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            said = report.longrepr
            text = said[2] if isinstance(said, tuple) else "" if said is None else str(said)
            crash = getattr(getattr(said, "reprcrash", None), "message", text)
            seconds = round(report.duration, 2)
            line = dict(id=report.nodeid, outcome=report.outcome, message=crash[:2000], text=text, seconds=seconds)
            line["commit"] = self._commit
            with self._log.open("a") as stream:
                stream.write(json.dumps(line) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.array_api")
    parser.add_argument("suite", type=Path, help="a checkout of array-api-tests with its submodule")
    parser.add_argument("--out", type=Path, required=True, help="the record to write")
    parser.add_argument("--log", type=Path, help="one line per test; default: the record's name with .log")
    parser.add_argument("--examples", type=int, default=20, help="Hypothesis examples per test")
    parser.add_argument("--only", default="", help="a pytest -k expression")
    given = parser.parse_args()
    log, out = (p.resolve() for p in (given.log or given.out.with_suffix(".log"), given.out))
    suite = given.suite.resolve()
    os.environ["ARRAY_API_TESTS_MODULE"] = "tests.array_api.namespace"
    os.environ["ARRAY_API_TESTS_SKIP_DTYPES"] = SKIPPED_DTYPES
    options = ["-q", "--disable-deadline", "--max-examples", str(given.examples)]
    options += ["--derandomize", "-p", "no:cacheprovider", "--tb=short"]
    chosen = ["-k", given.only] if given.only else []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(copied(suite, Path(folder))):
        code = pytest.main([*options, "array_api_tests/", *chosen], [Recorder(log)])
    of_run: dict[str, Any] = dict(examples=given.examples, skipped_dtypes=SKIPPED_DTYPES, only=given.only)
    out.write_text(json.dumps(record(Results.read(log), suite, of_run), indent=1) + "\n")
    told = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)  # the log had all
    return 0 if code in told else int(code)


if __name__ == "__main__":
    sys.exit(main())
