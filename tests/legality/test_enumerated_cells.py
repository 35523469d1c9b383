"""Cells of shared boxes that are gone through one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import polyfuse as pf
from polyfuse import sets
from polyfuse.affine import Affine, digit
from polyfuse.legality import enumerated_cells, prove
from polyfuse.legality.relations import Proof
from polyfuse.plan import Plan
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.verdict import Kind


def reversed_axes(x: Any) -> Any:
    return np.ascontiguousarray(x.T)


def smoothed(x: Any) -> Any:
    return (x[:-2] + x[1:-1] + x[2:]).T * 0.5


SPECS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "turned": (reversed_axes, "f32[N~8192, M~8192]"),
    "joined": (reversed_axes, "f32[11, N~269493, 17]"),
    "of five by five": (lambda x: np.ascontiguousarray(x.transpose(4, 2, 1, 3, 0)), "bf16[2659, N~1095, 5, 5, 2]"),
    "with neighbours": (smoothed, "f32[N~8192, M~8192]"),
}


def planned(case: str) -> Plan:
    function, spec = SPECS[case]
    return pf.jit(function).plan(pf.spec(spec), target="h200")


def only(schedule: KernelSchedule, role: str) -> Placed:
    return next(p for p in schedule.placed if p.role == role)


@pytest.mark.parametrize("case", [c for c in SPECS if c != "with neighbours"])
def test_a_tile_is_gone_through(case: str) -> None:
    plan = planned(case)
    (schedule,) = plan.schedules
    proof = Proof(plan.scop, schedule)
    put, get = only(schedule, "put"), only(schedule, "get")
    assert enumerated_cells.are_apart(proof, put) and enumerated_cells.are_filled(proof, put, get)
    apart = replace(get, place=(get.place[0] + Affine.of(1), *get.place[1:]))
    assert not enumerated_cells.are_filled(proof, put, apart)


@pytest.mark.parametrize("case", ["turned", "with neighbours"])
def test_reasoning_says_the_same(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(case)
    verdicts = []
    for most in (sets.POINTS, 0):
        monkeypatch.setattr(sets, "POINTS", most)
        for schedule in plan.schedules:
            puts = [p for p in schedule.placed if p.role == "put"]
            lanes = [d for d in schedule.of_kind("thread") if f"${d.name}" in str(puts[0].place)] if puts else []
            verdicts.append([prove(plan.scop, schedule).kind])
            for d in lanes:  # two lanes have one place, and another one nobody
                place = tuple([e.substitute({f"${d.name}": digit(d.name) // 2}) for e in puts[0].place])
                names = {puts[0].name, *puts[0].providers}
                moved = [replace(p, place=place) if p.name in names else p for p in schedule.placed]
                verdicts[-1].append(prove(plan.scop, replace(schedule, placed=tuple(moved))).kind)
    half = len(verdicts) // 2
    assert verdicts[:half] == verdicts[half:]
    assert all(first is Kind.LEGAL and set(others) <= {Kind.ILLEGAL} for first, *others in verdicts)
    assert any(others for _, *others in verdicts)
