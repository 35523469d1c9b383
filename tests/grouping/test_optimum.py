"""The gap to the exact optimum."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

import pytest

from polyfuse.grouping import search
from tests.grouping.invariants import check
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
        assert exact <= grouping.time <= grouping.unfused
        gaps.append(grouping.time / exact - 1)
    assert fmean(gaps) <= mean
    assert max(gaps) <= worst
