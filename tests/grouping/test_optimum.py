"""The gap to the exact optimum."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

import pytest

from polyfuse.grouping import search
from tests.grouping.invariants import check, unfused
from tests.grouping.model import Model
from tests.grouping.oracle import optimum
from tests.grouping.programs import adversarial, realistic

Family = Callable[[int, int], Model]


@pytest.mark.parametrize("family, mean, worst", [(realistic, 0.001, 0.02), (adversarial, 0.005, 0.2)])
def test_gap_to_the_optimum(family: Family, mean: float, worst: float) -> None:
    gaps = []
    for seed in range(1000, 1100):
        model = family(seed, 6 + seed % 3)
        grouping = search(model)
        check(model, grouping)
        exact = optimum(model, grouping.time)
        assert exact <= grouping.time <= unfused(model)
        gaps.append(grouping.time / exact - 1)
    assert fmean(gaps) <= mean
    assert max(gaps) <= worst


@pytest.mark.parametrize("family", [realistic, adversarial])
def test_a_search_may_be_shaken_later(family: Family) -> None:
    """As the form of a program is that is chosen among several: no kernel is dearer, no refusal is lost."""
    won = 0
    for seed in range(40):
        model = family(seed, 8)
        plain = search(model, effort=0)
        later, whole = plain.shaken(), search(model)
        check(model, later)
        assert later.time == whole.time <= plain.time
        assert set(plain.log) >= set(later.log)
        won += later.time < plain.time
    assert won or family is realistic


def test_shakes_stay_within_what_the_user_grants() -> None:
    model = next(m for m in (adversarial(seed, 8) for seed in range(40)) if search(m).time < search(m, effort=0).time)
    assert search(model, effort=0).shaken(granted=0).time == search(model, effort=0).time
