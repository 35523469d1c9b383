"""Kernels that may not share a launch, each refused by one rule with its witness; and each rule is needed for one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.legality import MEMBER_RULES, prove_side_by_side
from polyfuse.legality.side_by_side import MemberRule
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.verdict import LEGAL, Hazard

Case = tuple[Scop, Sequence[KernelSchedule]]


def planned(function: Callable[..., object], *specs: str) -> Case:
    plan = pf.jit(function).plan(*map(pf.spec, specs), target="h200", fuse=False)
    return plan.scop, plan.schedules


def needs_the_other() -> Case:
    """A block of the second needs what another block of the first stores."""

    def reversed_(x):  # type: ignore[no-untyped-def]
        a = np.exp(x)
        b = a[::-1] * 2
        return a, b

    return planned(reversed_, "f32[N~100000]")


def unequal_blocks() -> Case:
    scop, (first, second) = planned(lambda x, y: (np.exp(x), np.sin(y)), "f32[N~100000]", "f32[M~70000]")
    thread = next(d for d in second.digits if d.kind == "thread")
    wider = tuple(replace(d, extent=d.extent * 2) if d is thread else d for d in second.digits)
    return scop, (first, replace(second, digits=wider))


def in_clusters() -> Case:
    scop, (first, second) = planned(lambda x, y: (np.exp(x), np.sin(y)), "f32[N~100000]", "f32[M~70000]")
    return scop, (first, replace(second, cluster=2))


def in_order() -> Case:
    return planned(lambda x, y: (np.cumsum(x), np.cumsum(y)), "f32[N~100000]", "f32[M~100000]")


def stored_twice() -> Case:
    scop, (first, _) = planned(lambda x, y: (np.exp(x), np.sin(y)), "f32[N~100000]", "f32[M~70000]")
    return scop, (first, replace(first, name="again"))


def overwritten() -> Case:
    """The first stores exp(x) into x, which the second reads."""
    scop, (first, second) = planned(lambda x: (np.exp(x), np.sin(x)), "f32[N~100000]")
    (taken,), (root,) = first.loads, first.roots
    return scop, (replace(first, reuses=((taken, root),)), second)


REFUSED: list[tuple[Callable[[], Case], str, Hazard, str, str]] = [
    (needs_the_other, "independent", Hazard.RAW, "reads a, which a stores", "a[0] -> b[0] at N = 1"),
    (unequal_blocks, "alike", Hazard.CAPACITY, "blocks of 128 threads", "None"),
    (in_clusters, "alike", Hazard.CAPACITY, "clusters of 2 blocks", "None"),
    (in_order, "alike", Hazard.CAPACITY, "begin in order, which is a launch of their own", "None"),
    (stored_twice, "disjoint", Hazard.WAW, "both store exp", "None"),
    (overwritten, "undisturbed", Hazard.WAR, "overwrites with exp", "exp[0] -> sin[0] at N = 1"),
]


@pytest.mark.parametrize(("make", "rule", "hazard", "words", "witness"), REFUSED, ids=[r[0].__name__ for r in REFUSED])
def test_a_launch_is_refused(make: Callable[[], Case], rule: str, hazard: Hazard, words: str, witness: str) -> None:
    verdict = prove_side_by_side(*make())
    assert not verdict and (verdict.rule, verdict.hazard) == (rule, hazard)
    assert words in verdict.sentence and str(verdict.witness) == witness


@pytest.mark.parametrize("name", MEMBER_RULES)
def test_every_rule_is_needed(name: str) -> None:
    accepting = {**MEMBER_RULES, name: MemberRule(lambda scop, members: LEGAL, "anything goes")}
    refused = [make for make, rule, *_ in REFUSED if rule == name]
    assert refused and all(prove_side_by_side(*make(), rules=accepting) for make in refused)


def test_kernels_of_different_grids_are_accepted_and_so_is_one_alone() -> None:
    scop, members = planned(lambda x, y: (np.exp(x), np.sin(y)), "f32[N~100000]", "f32[M~70, 3]")
    assert prove_side_by_side(scop, members)
    scop, members = in_clusters()
    assert prove_side_by_side(scop, members[1:])
