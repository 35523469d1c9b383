"""The fuzzer itself: its programs are reproducible and count, and it finds a fault that is planted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polyfuse.expr import Reduce, Scan, topological
from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.check import Disagreement, check, compare, expectation
from polyfuse.fuzz.generate import counts, random_program
from polyfuse.fuzz.program import RandomProgram, WrittenProgram
from polyfuse.fuzz.record import Record
from polyfuse.fuzz.ways import Way
from polyfuse.lower.kernel import Lowered, lower
from polyfuse.planning import assembly

SUM = WrittenProgram("def program(x0):\n    return x0.sum(axis=1)\n", (ArrayValue((3, 50)),))


@pytest.mark.parametrize("seed", range(20))
def test_programs_are_reproducible_and_count(seed: int) -> None:
    program = random_program(seed)
    assert program == random_program(seed)
    assert counts(program)


def test_bounds_grow_with_the_length_of_a_sum() -> None:
    longer = WrittenProgram(SUM.source, (ArrayValue((3, 500)),))
    assert 0 < expectation(SUM).bounds[0].max() < expectation(longer).bounds[0].max() < 0.05


def test_an_answer_outside_its_bound_is_told() -> None:
    expected = expectation(SUM)
    value, bound = expected.values[0], expected.bounds[0]
    compare(value + bound, value, bound, "sum")
    with pytest.raises(Disagreement, match="sum: at"):
        compare(value + np.array([0, 3 * bound[1], 0]), value, bound, "sum")


def test_every_kernel_keeps_the_rules_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two parameters of one name make no difference to the interpreter, and no file that Python reads."""

    def planted(*arguments: Any, **options: Any) -> Lowered:
        found = lower(*arguments, **options)
        first, *others = found.kernel.parameters
        return replace(found, kernel=replace(found.kernel, parameters=(first, *others, first)))

    assert check(SUM, 0, "interpreter").failure is None
    monkeypatch.setattr(assembly, "lower", planted)
    failure = check(SUM, 0, "interpreter").failure
    assert failure is not None and failure.kind == "crash" and "two things are named x0_in" in failure.text


def test_some_random_prices_scan_in_runs() -> None:
    program = WrittenProgram("def program(x0):\n    return np.cumsum(x0, axis=0)\n", (ArrayValue((300, 3)),))
    common = (("backend", "interpreter"), ("target", "sm_90"))
    for seed in (3, 4):
        report = check(program, seed, "interpreter", [Way("prices", common, prices=seed)])
        assert report.failure is None
        scans = [n for _, plan in report.plans for n in topological(plan.program.outputs) if isinstance(n, Scan)]
        assert any(scan.run for scan in scans) == (seed == 3)


def test_some_random_prices_take_sums_in_one_pass() -> None:
    text = "def program(x0):\n    c = x0 - x0.mean(axis=0)\n    return c / np.sqrt((c * c).mean(axis=0) + 1)\n"
    common = (("backend", "interpreter"), ("target", "sm_90"))
    for seed in (4, 5):
        report = check(
            WrittenProgram(text, (ArrayValue((300, 40)),)), seed, "interpreter", [Way("prices", common, seed)]
        )
        assert report.failure is None
        nodes = [n for _, plan in report.plans for n in topological(plan.program.outputs)]
        assert any(isinstance(n, Reduce) and n.monoid == "moments" for n in nodes) == (seed == 5)


def test_the_fuzzer_merges_shares_in_any_order() -> None:
    program = WrittenProgram("def program(x0):\n    return x0.sum(axis=0)\n", (ArrayValue((3000, 8)),))
    options = (("backend", "interpreter"), ("target", "sm_90"), ("atomics", True))
    report = check(program, 0, "interpreter", [Way("atomics", options, prices=0)])
    assert report.failure is None and [s.filled for _, plan in report.plans for s in plan.schedules] == [(1,)]
    record = Record()
    record.add(RandomProgram(program.arrays, (), ()), report, 1.0, 0)
    assert record.scopes["combine by atomics"] == 1


SLICE = [("interpreter", seed) for seed in range(20) if seed != 6]  # which is a minute's work of products
SLICE += [("numba_cpu", seed) for seed in range(100, 110)]
"""The fixed part of the corpus that runs with every change: 15 seconds on one core."""


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "seed"), SLICE)
def test_programs_agree_every_way(backend: str, seed: int) -> None:
    report = check(random_program(seed).written, seed, backend)
    assert report.failure is None, report.failure
    assert report.refused or {name for name, _ in report.plans} >= {"unfused", "fused"}


def test_the_slice_is_of_programs_that_run() -> None:
    refused = [seed for backend, seed in SLICE[::7] if check(random_program(seed).written, seed, backend, ()).refused]
    assert len(refused) <= 2
