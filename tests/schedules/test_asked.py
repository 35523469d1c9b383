"""Loads that masks leave out: a padded array reads each piece where it lies, and pays for no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.cost.asked import asked_shares
from polyfuse.cost.counts import Sizes


def shares(function: Any, *specs: str) -> list[float]:
    (kernel,) = pf.jit(function).plan(*map(pf.spec, specs), target="h200").kernels
    scop, schedule = kernel.group.scop, kernel.schedule
    found = asked_shares(scop, schedule, Sizes.of(schedule, scop.program.hints))
    return sorted(found.get(p.name, 1.0) for p in schedule.placed if p.role == "load")


def test_a_piece_at_an_end_is_asked_for_there() -> None:
    first, last, middle = shares(lambda x: np.pad(x, ((4, 4), (0, 0)), mode="symmetric"), "f32[1000, 4096]")
    assert first == pytest.approx(4 / 1008, rel=0.3) and last == pytest.approx(4 / 1008, rel=0.3)
    assert middle == pytest.approx(1000 / 1008, rel=0.01)


def test_halves_are_asked_for_by_halves() -> None:
    found = shares(lambda x, y: np.concatenate((x, y), axis=0), "f32[3000, 4096]", "f32[1000, 4096]")
    assert found == pytest.approx([0.25, 0.75], rel=0.01)


def test_all_is_asked_for_without_pieces() -> None:
    assert shares(lambda x, y: np.where(x > 0, x, y) + x, "f32[1000, 4096]", "f32[1000, 4096]") == [1.0, 1.0]


def test_reflected_borders_do_not_count_as_the_middle() -> None:
    """Nine places of x make one, of which all but a few elements have one: 211 us were predicted, 106 measured."""
    for mode in ("edge", "reflect", "symmetric"):
        plan = pf.jit(lambda x, mode=mode: np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode=mode)).plan(
            pf.spec("f32[64, 56, 56, 192]"), target="h200"
        )
        (kernel,) = plan.kernels
        assert kernel.seconds < 125e-6
