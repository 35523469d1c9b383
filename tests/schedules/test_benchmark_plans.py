"""Plans of the benchmark programs stay what was measured: a regression shows on a machine without a GPU."""

from __future__ import annotations

import pytest

from benchmarks.everyday import EVERYDAY
from benchmarks.fields import FIELDS
from benchmarks.layers import LAYERS
from benchmarks.more import MORE
from benchmarks.one_read import ONE_READ
from benchmarks.practice import PRACTICE
from benchmarks.programs import DRAWN, HELD_OUT, PROGRAMS, Program
from benchmarks.records import RECORDS
from benchmarks.surveyed import SURVEYED
from benchmarks.wide import WIDE
from tests.schedules.benchmark_plans import GOLDEN, plan_of

ALL = (
    *(*PROGRAMS, *HELD_OUT, *DRAWN, *MORE, *WIDE, *ONE_READ, *EVERYDAY, *SURVEYED, *LAYERS, *FIELDS),
    *(*PRACTICE, *RECORDS),
)
KNOWN = dict(part.split(" == ", 1) for part in ("\n" + GOLDEN.read_text()).split("\n== ")[1:])


@pytest.mark.parametrize("program", ALL, ids=lambda p: p.name)
def test_a_benchmark_keeps_its_plan(program: Program) -> None:
    """Regenerate with `python -m tests.schedules.benchmark_plans tests/schedules/benchmark_plans.txt`, look at the
    difference, and measure it."""
    name, plan = plan_of(program).removeprefix("== ").split(" == ", 1)
    assert plan.strip() == KNOWN[name].strip()


def test_every_plan_has_a_program() -> None:
    assert set(KNOWN) == {p.name for p in ALL}
