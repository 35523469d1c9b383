"""The programs of the fuzzer as a strategy of Hypothesis, which shrinks the draws that a program is made of."""

from __future__ import annotations

from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from polyfuse.fuzz.check import check
from polyfuse.fuzz.generate import counts, drawn_program
from polyfuse.fuzz.program import RandomProgram
from polyfuse.fuzz.ways import basic_ways

PROGRAMS = st.randoms(use_true_random=False).map(drawn_program)
FEW = settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)


@FEW
@given(program=PROGRAMS, seed=st.integers(0, 1000))
def test_drawn_programs_agree(program: RandomProgram, seed: int) -> None:
    assert counts(program)
    _, fused = basic_ways(seed, "interpreter")
    report = check(program.written, seed, "interpreter", [fused])
    assert report.failure is None, report.failure


def test_draws_shrink_to_small_programs() -> None:
    """What would be a failure of all programs: one of the fewest lines that count, on one argument, remains."""
    found = find(PROGRAMS, lambda program: True, settings=FEW)
    assert len(found.lines) == 4 and len(found.arrays) == 1
