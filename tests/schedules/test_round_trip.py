"""Texts and plans agree over many programs: text -> plan -> text, and plans under other names."""

from __future__ import annotations

import re
from typing import Any

import pytest

import polyfuse as pf
from polyfuse.text.apply import apply_text
from polyfuse.verdict import Verdict
from tests.schedules.spellings import CASES, Case

NAMES = [case.name for case in CASES]


def planned(case: Case, specs: tuple[str, ...], **options: Any) -> pf.Plan:
    return pf.jit(case.spellings[0]).plan(*map(pf.spec, specs), library=False, **options)


@pytest.mark.parametrize("target", ["h200", "cpu"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_text_of_a_plan_gives_the_plan_back(case: Case, target: str) -> None:
    for fuse in (True, False, "pointwise"):
        plan = planned(case, case.specs[0], target=target, fuse=fuse)
        again = apply_text(str(plan), plan)
        assert again == plan and hash(again) == hash(plan)
        assert str(again) == str(plan)
        assert pf.compare(plan, again).fused == []


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_size_symbols_have_no_meaning_of_their_own(case: Case) -> None:
    renamed = tuple(re.sub(r"(?<![a-z\d])([A-Z])(?=[\]~,*+ -])", r"Q\1x", spec) for spec in case.specs[0])
    assert planned(case, renamed) == planned(case, case.specs[0])


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_every_plan_explains_itself(case: Case) -> None:
    plan = planned(case, case.specs[0])
    text = plan.explain()
    assert all(f"kernel {kernel.name} " in text for kernel in plan.kernels)
    assert text.count("predicted") > len(plan.kernels)
    stored = [kernel.stores[0] for kernel in plan.kernels]
    for first, second in zip(stored, stored[1:], strict=False):
        verdict = plan.why_not(first, second)
        assert isinstance(verdict, Verdict) and not verdict, "they are in different kernels"
