"""Too many recomputed placements are a matter of price: such values get kernels of their own, never no kernel."""

from __future__ import annotations

from typing import Any

import pytest

import polyfuse as pf
from polyfuse.places import builder
from polyfuse.verdict import Kind


def steps(x: Any) -> Any:
    for _ in range(3):
        x = x[:-8192] + x[4096:-4096] + x[8192:]  # too far apart for one window of registers
    return x


@pytest.mark.parametrize("target", ["h200", "cpu"])
def test_a_group_over_the_cap_is_unprofitable_and_falls_apart(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    assert len(pf.jit(steps).plan(pf.spec("f32[1048576]"), target=target).launches) == 1
    monkeypatch.setattr(builder, "COPIES", 1)
    monkeypatch.setattr(builder, "ALWAYS", 0)  # no value may be computed twice
    plan = pf.jit(steps).plan(pf.spec("f32[1048576]"), target=target)
    names = [s.name for s in plan.scop.statements]
    verdict = plan.why_not(names[1], names[-1])
    assert verdict.kind is Kind.UNPROFITABLE
    assert "recomputation places more than" in verdict.sentence
    assert len(plan.launches) > 1
    assert {v for launch in plan.launches for v in launch.schedule.roots} >= set(plan.scop.outputs)
