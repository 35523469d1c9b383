"""The plans of all benchmark programs on the H200, as one text: `python -m tests.schedules.benchmark_plans FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import polyfuse as pf
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
from polyfuse.run.sizes import hold

GOLDEN = Path(__file__).with_name("benchmark_plans.txt")


def plan_of(program: Program) -> str:
    """Decisions of one plan (strategy, tiles, scopes, combine levels) and its predicted microseconds.

    Sizes are symbols with the benchmark's sizes as hints, as in a call: arrays as large, of which nothing is touched.
    """
    names = [f"a{k}" for k in range(len(program.inputs))]
    scope = {"code": program.code, "np": np}
    function = eval(f"lambda {', '.join(names)}: code(np, {', '.join(names)})", scope)  # parameters with names
    arrays = [np.empty(i.shape, pf.spec(f"{i.dtype}[]").dtype.numpy) for i in program.inputs]  # never touched
    plan = pf.jit(function).plan(*arrays, target="h200")
    assert hold(plan.guards, plan.program.hints), f"{program.name}: the plan excludes the call that it is made for"
    seconds = plan.cost_analysis().seconds
    return f"== {program.name} == predicted {1e6 * seconds:.0f} us\n\n{plan}\n"


def text() -> str:
    programs = (*PROGRAMS, *HELD_OUT, *DRAWN, *MORE, *WIDE, *ONE_READ, *EVERYDAY, *SURVEYED, *LAYERS)
    return "\n".join(map(plan_of, (*programs, *FIELDS, *PRACTICE, *RECORDS)))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text())
