"""Records add up: over batches, over runs of one file, over files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from polyfuse.fuzz.crew import Crew, Limits
from polyfuse.fuzz.findings import Corpus, run_many
from polyfuse.fuzz.record import Record, from_json, merged, to_json


def fuzz(*arguments: str) -> Any:
    command = [sys.executable, "-m", "polyfuse.fuzz", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_processes_add_up_to_what_one_finds(tmp_path: Path) -> None:
    corpus = Corpus("interpreter", tmp_path)
    crewed = Record()
    for behind, record in Crew(corpus, 10, 2, 3, Limits(100.0)).records():
        crewed.absorb(record)
        assert 10 < behind <= 13
    whole = merged([run_many(corpus, [10, 11]), run_many(corpus, [12])])
    for found in (whole, crewed):
        found.seconds = 1.0
        found.slow.clear()
    assert as_counts(crewed) == as_counts(whole)
    assert whole.programs + whole.refused.total() == 3


def as_counts(record: Record) -> Any:
    """The record as data; equal counts may stand in any order."""
    return json.loads(json.dumps(to_json(record), sort_keys=True))


def test_a_record_reads_back_as_it_was_written() -> None:
    record = run_many(Corpus("interpreter", Path("unused")), [20, 21])
    written = json.loads(json.dumps(to_json(record)))
    assert to_json(from_json(written)) == written
    twice = to_json(merged([from_json(written), from_json(written)]))
    assert twice["programs"] == 2 * written["programs"]
    assert twice["ops"] == {name: 2 * n for name, n in written["ops"].items()}


def test_a_run_adds_to_its_file_and_goes_on_behind_it(tmp_path: Path) -> None:
    out = tmp_path / "record.json"
    options = ("--seconds", "100", "--programs", "1", "--out", str(out), "--save", str(tmp_path))
    assert fuzz("--seed", "30", *options).returncode == 0
    assert fuzz("--resume", *options).returncode == 0
    record = json.loads(out.read_text())
    assert [run["seeds"] for run in record["runs"]] == [[30, 31], [31, 32]]
    assert all("--seed" in run["command"] and run["versions"]["numpy"] for run in record["runs"])
    both = tmp_path / "both.json"
    record["runs"][0]["commit"], record["runs"][1]["commit"] = "", "def"
    out.write_text(json.dumps(record))
    assert fuzz("--merge", str(out), str(out), "--out", str(both), "--commit", "abc").returncode == 0
    merged_record = json.loads(both.read_text())
    assert merged_record["programs"] == 2 * record["programs"]
    assert [run["commit"] == "abc" for run in merged_record["runs"]] == [True, False, True, False]


def test_what_is_missing_is_named() -> None:
    record = run_many(Corpus("interpreter", Path("unused")), [20])
    data = to_json(record)
    few = data["reached fewer than 100 times"]
    assert few and all(0 < n < 100 for n in few.values())
    assert set(few) >= set(data["dtypes"])
    assert data["never reached"] and not set(data["never reached"]) & set(few)


def test_a_device_that_is_not_there_is_an_error_and_no_failure_of_programs() -> None:
    told = fuzz("--backend", "numba_cuda", "--seconds", "1")
    if told.returncode == 2:  # no torch, or no device
        assert "fuzzing on the device needs" in told.stderr
        assert "Traceback" not in told.stderr
