"""A failing program is made small, stays a program, and fails as it did."""

from __future__ import annotations

import numpy as np
import pytest

from polyfuse.fuzz.arrays import ArrayValue
from polyfuse.fuzz.check import Failure
from polyfuse.fuzz.generate import random_program
from polyfuse.fuzz.program import Line, RandomProgram
from polyfuse.fuzz.script import script
from polyfuse.fuzz.shrink import shrunk

PROGRAM = RandomProgram(
    arrays=(
        ArrayValue((37, 20), "f64", "extreme", 3, (40, 1), 5),
        ArrayValue((20,), "f16", "normal", 4),
    ),
    lines=(
        Line("add", "{0} + {1}", (0, 1), pointwise=True),
        Line("exp", "np.exp({0})", (2,), pointwise=True),
        Line("cumsum", "np.cumsum({0}, axis=1)", (3,)),
        Line("sum", "{0}.sum(axis=0)", (4,)),
        Line("multiply", "{0} * {1}", (5, 1), pointwise=True),
    ),
    outputs=(4, 6),
    donate=(1,),
)


def has_scan(program: RandomProgram) -> bool:
    return any("cumsum" in line.text for line in program.lines)


def test_what_fails_is_all_that_stays() -> None:
    small = shrunk(PROGRAM, has_scan)
    (line,) = small.lines
    (array,) = small.arrays
    assert line.op == "cumsum" and small.outputs == (1,) and not small.donate
    assert array.is_plain and array.dtype == "f32" and array.shape == (1, 1) and not array.seed
    assert small.written.function()(*small.written.arguments()).shape == (1, 1)


def test_sizes_shrink_as_far_as_the_program_fails() -> None:
    def fails(program: RandomProgram) -> bool:
        return has_scan(program) and program.arrays[0].shape[0] >= 5

    assert shrunk(PROGRAM, fails).arrays[0].shape[0] == 5


def test_what_is_no_smaller_is_left_alone() -> None:
    plain = RandomProgram((ArrayValue((1,), fill="whole"),), (Line("negative", "-{0}", (0,), pointwise=True),), (1,))
    assert shrunk(plain, lambda program: True) == plain


def test_time_ends_it() -> None:
    assert shrunk(PROGRAM, has_scan, seconds=0.0) == PROGRAM


@pytest.mark.parametrize("seed", range(40, 46))
def test_random_programs_shrink_to_programs(seed: int) -> None:
    """Whatever is cut: what is left runs, and holds what was asked for."""
    program = random_program(seed)
    wanted = program.lines[len(program.lines) // 2].op

    def fails(candidate: RandomProgram) -> bool:
        try:
            with np.errstate(all="ignore"):
                candidate.written.function()(*candidate.written.arguments())
        except Exception:
            return False
        return any(line.op == wanted for line in candidate.lines)

    if not fails(program):
        pytest.skip("the program refuses its own arguments")
    small = shrunk(program, fails, seconds=5.0)
    assert fails(small) and small.size < program.size
    assert len(small.lines) <= 3


def test_the_script_of_a_failure_names_it_and_stands_alone() -> None:
    text = script(shrunk(PROGRAM, has_scan), Failure("wrong", "y[0, 0] is 1.0 and not 2.0"))
    assert "np.cumsum" in text and "y[0, 0] is 1.0 and not 2.0" in text
    compile(text, "script", "exec")
