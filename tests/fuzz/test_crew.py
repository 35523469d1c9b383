"""Processes that die or hang lose their program only, runs end in time, and no failure is forgotten."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

import polyfuse
from polyfuse.fuzz import crew
from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.check import Failure
from polyfuse.fuzz.crew import Crew, Limits
from polyfuse.fuzz.findings import Corpus, as_data, from_data, group_of, replayed, ways_of, written_down
from polyfuse.fuzz.generate import random_program
from polyfuse.fuzz.program import WrittenProgram
from polyfuse.fuzz.record import Record, from_json, to_json
from polyfuse.fuzz.ways import Way

CORPUS = Corpus("interpreter", Path("unused"))


def trouble(corpus: Corpus, seed: int) -> tuple[Record, Failure | None]:
    """Seed 2 kills its process, seed 4 hangs."""
    if seed == 2:
        os._exit(7)
    if seed == 4:
        time.sleep(1000)
    return Record(programs=1), None


def hang(corpus: Corpus, seed: int) -> tuple[Record, Failure | None]:
    time.sleep(1000)
    return Record(), None


def test_a_process_that_dies_or_hangs_loses_only_its_program() -> None:
    total = Record()
    for _, record in Crew(CORPUS, 0, 2, 8, Limits(200.0, program=6.0), trouble).records():
        total.absorb(record)
    assert total.programs == 6
    assert [(e["seed"], e["kind"]) for e in total.failures] == [(2, "death")]
    assert "ended with 7" in total.failures[0]["text"]
    assert [e["seed"] for e in total.unfinished] == [4]


def test_a_run_ends_in_time_whatever_its_programs_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "GRACE", 1.0)
    started, total = time.monotonic(), Record()
    before = dict(os.environ)
    for _, record in Crew(CORPUS, 5, 2, 0, Limits(5.0), hang).records():
        total.absorb(record)
    assert time.monotonic() - started < 60
    assert dict(os.environ) == before, "other numbers of threads are for the processes alone"
    assert {e["seed"] for e in total.unfinished} <= {5, 6}  # none where the machine had not even started them


def test_the_way_of_a_failure_survives_the_record(tmp_path: Path) -> None:
    options = (("backend", "interpreter"), ("together", (("v1", "v2"),)), ("tiles", {"v1": {"vector": 2}}))
    failure = Failure("wrong", "told", Way("tiles", options, prices=3, out="onto", effort=0))
    program = random_program(5)
    found = written_down(program, program, failure, 5, Corpus("interpreter", tmp_path))
    assert ways_of(json.loads(json.dumps(found))) == [failure.way]


def test_a_record_names_files_and_no_machine(tmp_path: Path) -> None:
    program, text = random_program(5), f'File "{Path(polyfuse.__file__).with_name("expr.py")}", line 3'
    found = written_down(program, program, Failure("internal", text), 5, Corpus("interpreter", tmp_path))
    assert found["text"] == 'File "polyfuse/expr.py", line 3'


def entry(source: str) -> dict[str, object]:
    program = as_data(WrittenProgram(source, (ArrayValue((3, 4), "f32", "normal", 1, (-4, 1), 2),)))
    return {"seed": 7, "kind": "wrong", "backend": "interpreter", "script": "", "text": "told", "program": program}


def test_failures_that_a_commit_mended_are_told_from_those_that_it_has() -> None:
    right, refused = entry("def program(x0):\n    return x0 + 1\n"), entry("def program(x0):\n    return x0.shap\n")
    record = from_json(json.loads(json.dumps(to_json(Record(programs=2, failures=[right, refused])))))
    written = from_data(record.failures[0]["program"])
    assert written.arrays == (ArrayValue((3, 4), "f32", "normal", 1, (-4, 1), 2),)
    failing, mended = replayed(record.failures)
    assert [from_data(e["program"]).source for e in mended] == ["def program(x0):\n    return x0 + 1\n"]
    assert len(failing) == 1 and "shap" in failing[0]["text"]


def test_a_failure_without_its_program_is_never_called_mended() -> None:
    old = {"seed": 7, "kind": "death", "text": "the process ended"}
    assert replayed([old]) == ([old], [])


def test_failures_that_differ_in_numbers_only_are_one_group() -> None:
    texts = ["at (0, 12) found np.float32(1.5e-3)", "at (3, 4) found np.float32(-7.0)", "at (3, 4) found None"]
    groups = [group_of({"kind": "wrong", "text": text}) for text in texts]
    assert groups[0] == groups[1] != groups[2]


def test_a_smaller_failure_takes_the_place_of_the_one_that_was_found() -> None:
    record = Record(failures=[{"seed": 3, "text": "long"}, {"seed": 4, "text": "other"}])
    record.absorb(Record(failures=[{"seed": 3, "text": "short", "replaces": 3}]))
    assert record.failures == [{"seed": 4, "text": "other"}, {"seed": 3, "text": "short"}]
