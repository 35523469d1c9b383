"""What is known of the tools without a GPU: what they run, what counts as clean, how figures are read."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import polyfuse as pf
from benchmarks import counters
from benchmarks.programs import PROGRAMS
from tests.gpu import listed, planted
from tests.gpu.corpus import CORPUS, Sample
from tests.gpu.sanitizer import Run, verdict

STRATEGIES = {
    *("pointwise", "windows", "tiles", "stencil", "rows", "columns", "in_thread"),
    *("held_rows", "planes", "panels", "one_pass", "contraction", "serial", "pairs", "row_tiles"),
}


def test_the_corpus_has_every_strategy() -> None:
    assert {sample.strategy for sample in CORPUS} == STRATEGIES


@pytest.mark.parametrize("sample", CORPUS, ids=lambda sample: sample.name)
def test_its_programs_take_the_strategies_they_name(sample: Sample) -> None:
    plan = sample.jitted(target="h200").plan(*map(pf.spec, sample.specs()))
    assert sample.strategy in {launch.schedule.strategy for launch in plan.launches}
    assert all(dict(plan.launches[-1].schedule.parameters)[name] == size for name, size in sample.tiles.items())


def test_faults_are_planted_in_lines_that_the_kernel_has() -> None:
    from polyfuse.codegen.printer import print_kernel

    text = print_kernel(planted.emitted())
    assert all(text.count(right) == 1 for right, _ in planted.FAULTS.values())


CLEAN = Run("", 0, True, "ERROR SUMMARY: 0 errors", "")
FOUND = Run("", 9, True, "ERROR SUMMARY: 3 errors", "")


def test_clean_is_a_run_without_reports_of_a_tool_that_finds_its_fault() -> None:
    assert verdict(CLEAN, FOUND) == "clean"
    assert verdict(replace(CLEAN, summary="RACECHECK SUMMARY: 0 hazards displayed (0 errors)"), FOUND) == "clean"
    assert verdict(FOUND, FOUND) == "faults found"
    assert "nothing is known" in verdict(CLEAN, CLEAN)
    assert "nothing is known" in verdict(CLEAN, replace(FOUND, summary=""))
    for refused in (replace(CLEAN, ran=False), replace(CLEAN, summary=""), replace(CLEAN, summary="", status=255)):
        assert "nothing is known" in verdict(refused, FOUND)
    assert verdict(replace(CLEAN, status=1), FOUND) == "faults found"


def test_counters_are_read_per_kernel() -> None:
    head = ",".join(f'"{name}"' for name in ("ID", "Kernel Name", *counters.METRICS))
    units = '"","","byte","byte","ns","","","sector","sector"'
    row = '"0","softmax","268,435,456","134217728","100000","0","0","16.00","15.50"'
    (found,) = counters.read_csv(f"==PROF== Connected to process 1\n{head}\n{units}\n{row}\n")
    kernel = counters.joined({"program": "softmax", "kernel": "softmax", "predicted_bytes": 402653184}, found)
    assert kernel["measured_over_predicted"] == 1
    assert kernel["us"] == pytest.approx(100)
    assert kernel["bytes_per_second"] == pytest.approx(402653184e4)
    assert kernel["sectors_per_store"] == 15.5
    assert "1.000 of predicted" in counters.line(kernel)
    others = [{"Kernel Name": name} for name in ("fill", "a", "fill", "b", "a")]
    assert counters.of_plans(others, ["a", "b", "a"]) == [others[1], others[3], others[4]]
    assert len(counters.of_plans(others, ["a", "b", "b"])) == 2


def test_counted_programs_exist() -> None:
    assert set(counters.PROGRAMS) <= {program.name for program in PROGRAMS}


def test_a_check_that_fails_is_said_and_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(torch: Any) -> None:
        assert torch is None, "differs in slice(0, 2000)"

    torch = SimpleNamespace(cuda=SimpleNamespace(empty_cache=lambda: None))
    monkeypatch.setattr(listed, "device_name", lambda: "a device")
    outcomes = {"right": listed.outcome(torch, "right", lambda torch: None), "wrong": listed.outcome(torch, "w", wrong)}
    assert outcomes["right"]["outcome"] == "ok"
    assert outcomes["wrong"]["outcome"].startswith("FAIL AssertionError: differs in slice(0, 2000)")
    found = listed.record("tests.gpu.large", "large arrays", "abc", outcomes)
    assert found["command"] == "python -m tests.gpu.large" and found["commit"] == "abc"
    assert found["checks"] == outcomes and found["machine"] == "a device"
