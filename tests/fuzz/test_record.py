"""Records add up: over batches, over runs of one file, over files."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyfuse.fuzz.__main__ import main
from polyfuse.fuzz.check import Failure
from polyfuse.fuzz.crew import Crew, Limits
from polyfuse.fuzz.findings import Corpus, run_many, written_down
from polyfuse.fuzz.generate import random_program
from polyfuse.fuzz.record import Record, from_json, merged, to_json


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """``python -m polyfuse.fuzz`` with these arguments, in this process: its exit status."""

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["polyfuse.fuzz", *arguments])
        return main()

    return run


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


def test_a_run_adds_to_its_file_and_goes_on_behind_it(fuzz: Callable[..., int], tmp_path: Path) -> None:
    out = tmp_path / "record.json"
    options = ("--seconds", "100", "--programs", "1", "--out", str(out), "--save", str(tmp_path))
    assert fuzz("--seed", "30", *options) == 0
    assert fuzz("--resume", *options) == 0
    record = json.loads(out.read_text())
    assert [run["seeds"] for run in record["runs"]] == [[30, 31], [31, 32]]
    assert all("--seed" in run["command"] and run["versions"]["numpy"] for run in record["runs"])
    both = tmp_path / "both.json"
    record["runs"][0]["commit"], record["runs"][1]["commit"] = "", "def"
    out.write_text(json.dumps(record))
    assert fuzz("--merge", str(out), str(out), "--out", str(both), "--commit", "abc") == 0
    merged_record = json.loads(both.read_text())
    assert merged_record["programs"] == 2 * record["programs"]
    assert [run["commit"] == "abc" for run in merged_record["runs"]] == [True, False, True, False]


def test_failures_are_run_again_and_those_of_today_stay(
    fuzz: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first program is right now; of the second the oracle itself fails, which is a failure for good."""
    program = random_program(5)
    right = written_down(program, program, Failure("wrong", "told"), 5, Corpus("interpreter", tmp_path))
    broken = {**right, "seed": 6, "program": {**right["program"], "source": "def program(x0):\n    return nothing\n"}}
    source, out = tmp_path / "old.json", tmp_path / "new.json"
    source.write_text(json.dumps(to_json(Record(failures=[right, broken]))))
    assert fuzz("--replay", str(source), "--out", str(out), "--commit", "abc") == 1
    again = json.loads(out.read_text())
    assert [entry["seed"] for entry in again["failures"]] == [6]
    assert [(entry["seed"], entry["mended at"]) for entry in again["mended"]] == [(5, "abc")]
    assert "1 failures are mended at abc, 1 are not" in capsys.readouterr().err


def test_what_is_missing_is_named() -> None:
    record = run_many(Corpus("interpreter", Path("unused")), [20])
    data = to_json(record)
    few = data["reached fewer than 100 times"]
    assert few and all(0 < n < 100 for n in few.values())
    assert set(few) >= set(data["dtypes"])
    assert data["never reached"] and not set(data["never reached"]) & set(few)


def test_a_device_that_is_not_there_is_an_error_and_no_failure_of_programs(
    fuzz: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    if fuzz("--backend", "numba_cuda", "--seconds", "1", "--programs", "1") == 2:  # no torch, or no device
        assert "fuzzing on the device needs" in capsys.readouterr().err
