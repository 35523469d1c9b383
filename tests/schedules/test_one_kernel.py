"""What fuses into one kernel, however it is spelled."""

from __future__ import annotations

from dataclasses import replace

import pytest

import polyfuse as pf
from polyfuse.plan import Plan
from tests.schedules.more_spellings import MORE
from tests.schedules.spellings import CASES, Case


def plans(case: Case, specs: tuple[str, ...]) -> list[Plan]:
    return [pf.jit(f).plan(*map(pf.spec, specs), target="h200") for f in case.spellings]


@pytest.mark.parametrize("sizes", [0, 1], ids=["symbolic", "constant"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_spelling_is_the_same_few_kernels(case: Case, sizes: int) -> None:
    first, *others = plans(case, case.specs[sizes])
    assert len(first.launches) <= case.kernels, str(first)
    assert not first.library_calls
    for spelling, other in zip(case.spellings[1:], others, strict=True):
        assert other == first, f"{spelling.__name__}:\n{other}\n\n{case.spellings[0].__name__}:\n{first}"


@pytest.mark.parametrize("case", [c for c in CASES if c.name in MORE], ids=lambda case: case.name)
def test_other_spellings_at_other_sizes_and_dtypes(case: Case) -> None:
    more, specs = MORE[case.name]
    first, *others = plans(replace(case, spellings=(*case.spellings, *more)), specs)
    assert len(first.launches) <= case.kernels and not first.library_calls, str(first)
    for number, other in enumerate(others, 1):
        assert other == first, f"spelling {number}:\n{other}\n\n{first}"


def test_every_program_has_other_spellings() -> None:
    summed = {case.name for case in CASES if case.name.startswith("pointwise, sum")}
    assert {case.name for case in CASES} - summed == set(MORE)
