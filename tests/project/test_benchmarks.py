"""The benchmarks of calls and compilation run, and their committed records are of the form that they write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import calls, compile, shapes

RESULTS = Path(calls.RESULTS).parent


def test_calls_are_measured() -> None:
    found = calls.microseconds({"nothing": lambda: None}, 1)
    assert 0 <= found["nothing"] < 1000
    assert set(calls.calls_of("numpy")) == {row[0] for row in json.loads(calls.RESULTS.read_text())["rows"]}


@pytest.mark.parametrize("record", ["calls.json", "compile.json"])
def test_records_say_where_they_come_from(record: str) -> None:
    found = json.loads((RESULTS / record).read_text())
    assert found["command"].startswith("python -m benchmarks.") and found["machine"] and found["versions"]
    assert all(len(row) == len(found["columns"]) for row in found["rows"])


def test_the_record_of_compilation_keeps_its_limits() -> None:
    found = json.loads(compile.RESULTS.read_text())
    assert found["import ms"] <= 150 and [row[0] for row in found["rows"]] == [case.name for case in compile.CASES]
    for _, cold, ahead, limit, warm, warm_limit in found["rows"]:
        assert cold <= limit and ahead <= limit and warm <= warm_limit


def test_new_shapes_of_known_classes_are_told_from_those_that_compile() -> None:
    found = shapes.record(shapes.Host(), 6)
    rows = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
    assert [row["program"] for row in rows[::2]] == list(shapes.NAMES)
    assert all(row["plans"] <= 6 for row in rows) and sum(row["kernels"] for row in rows) < 6 * len(rows)
    assert len(set(shapes.random_shapes(100, 12, seed=4))) == 100
