"""What fuses into one kernel, however it is spelled."""

from __future__ import annotations

import pytest

import polyfuse as pf
from polyfuse.plan import Plan
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
