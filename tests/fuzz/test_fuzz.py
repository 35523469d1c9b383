"""The fuzzer itself: its programs are reproducible and count, and it finds a fault that is planted."""

from __future__ import annotations

import numpy as np
import pytest

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.check import Disagreement, check, compare, expectation
from polyfuse.fuzz.generate import counts, random_program
from polyfuse.fuzz.program import WrittenProgram

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


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_programs_agree_every_way(seed: int) -> None:
    report = check(random_program(seed).written, seed, "interpreter")
    assert report.failure is None, report.failure
    assert {name for name, _ in report.plans} >= {"unfused", "fused"}
