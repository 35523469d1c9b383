"""The benchmarks of calls and compilation run, and their committed records are of the form that they write."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import benchmarks
import polyfuse as pf
from benchmarks import calls, compile, compile_programs, seeds, shapes
from benchmarks.__main__ import SETS
from benchmarks.peers import polyfuse_function

RESULTS = Path(calls.RESULTS).parent


def test_calls_are_measured() -> None:
    found = calls.microseconds({"nothing": lambda: None}, 1)
    assert 0 <= found["nothing"] < 1000
    assert set(calls.calls_of("numpy")) == {row[0] for row in json.loads(calls.RESULTS.read_text())["rows"]}


@pytest.mark.parametrize("record", ["calls.json", "compile.json", "compile_programs.json"])
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


def test_every_benchmark_program_is_compiled_within_a_limit_that_its_plan_sets() -> None:
    chain, steps = [p for _, p in compile_programs.programs("^(chain|two Jacobi steps)$")]
    shapes = ["f32[8192, 8192]"] * len(chain.inputs)
    plans = [
        polyfuse_function(program).plan(*map(pf.spec, specs), target="h200")
        for program, specs in ((chain, shapes), (steps, shapes[:1]))
    ]
    assert [compile_programs.limit(plan) for plan in plans] == [0.3, 0.8]
    assert {kernel.schedule.strategy for kernel in plans[1].kernels} <= compile_programs.TILES
    assert {program.name for _, program in compile_programs.programs()} == {
        program.name for programs in SETS.values() for program in programs
    }


@pytest.mark.ptx
def test_cold_compilations_of_benchmark_programs_are_recorded() -> None:
    found = compile_programs.record(compile_programs.cold("^chain$"), "^chain$")
    ((name, program, plan, compiled, cold, waited, most),) = found["rows"]
    assert (name, program, most) == ("table", "chain", 300.0)
    assert min(plan, compiled, waited) > 0 and cold == pytest.approx(plan + compiled, abs=0.2)


def test_the_record_of_cold_compilations_has_every_program() -> None:
    found = json.loads(compile_programs.RESULTS.read_text())
    assert found["columns"] == compile_programs.COLUMNS
    assert [tuple(row[:2]) for row in found["rows"]] == [(s, p.name) for s, p in compile_programs.programs()]
    assert {row[-1] for row in found["rows"]} == {300.0, 800.0}


def test_no_record_names_a_folder_of_a_machine() -> None:
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *(root / "docs").glob("*.md"), *(root / "benchmarks" / "results").glob("*.json")]
    assert len(pages) > 20
    found = {p.name: re.findall(r"[ `\"=](/(?:root|home|tmp|work|mnt)/\S*)", p.read_text("utf-8")) for p in pages}
    assert not {name: paths for name, paths in found.items() if paths}


def test_a_seed_that_fails_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    nothing = SimpleNamespace(device_name=lambda: "d", versions=lambda: "v")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(empty_cache=lambda: None)))
    monkeypatch.setitem(sys.modules, "benchmarks.gpu", nothing)
    monkeypatch.setattr(benchmarks, "gpu", nothing, raising=False)
    saved = tmp_path / "r.json"
    monkeypatch.setattr(sys, "argv", ["x", "3", "6", "--save", str(saved)])

    def measured(seed: int) -> list[int]:
        assert seed != 4, "wrong"
        return [seed, 10 * seed]

    failed = seeds.run("drawn", None, ["seed", "us"], measured, lambda rows: f"{len(rows)} rows", lambda row: "LOOK")
    record, printed = json.loads(saved.read_text()), capsys.readouterr().out
    assert failed == 1 and "4 FAILED AssertionError wrong" in printed and "5 50 LOOK" in printed
    assert record["rows"] == [[3, 30], [5, 50]] and record["summary"] == "2 rows"
    assert record["command"] == "python -m benchmarks.drawn 3 6"
