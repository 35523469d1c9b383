"""Where the search begins in long programs of light kernels: at stretches that take less than two launches."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from polyfuse.grouping import Grouping, stretches
from polyfuse.grouping.queue import Queue
from polyfuse.grouping.search import search
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal
from tests.grouping.invariants import check
from tests.grouping.model import Model, Op, Program, Values
from tests.grouping.programs import blocks


def recurrence(steps: int, axes: str = "i") -> Program:
    """Two statements per step: a sum over what was there, and an array that reads both."""
    ops, value = [Op("input", (), axes)], 0
    for k in range(steps):
        ops.append(Op("sum", (value,), axes[:-1], over=axes[-1], tag=f"s{k}"))
        ops.append(Op("map", (value, len(ops) - 1), axes, tag=f"m{k}"))
        value = len(ops) - 1
    return Program(tuple(ops), frozenset((value,))).canonical()


def planned(program: Program, most: int = 10**9) -> tuple[Grouping, int]:
    """The plan where a kernel may have so many statements, and how many prices of several statements it took."""

    def limited(body: Values, roots: Values, loads: Values) -> Verdict:
        return LEGAL if len(body) <= most else illegal(Hazard.CAPACITY, "too many statements")

    model = Model(program, limited)
    grouping = search(model)
    asked = model.asked["price"] - (model.count - 1)
    check(model, grouping)
    return grouping, asked


def test_what_takes_less_than_two_launches_is_priced_as_a_whole() -> None:
    grouping, asked = planned(recurrence(300))  # more statements than are priced as one before the search
    assert len(grouping.kernels) == 1
    assert asked == 1


@pytest.mark.parametrize(("most", "kernels"), [(150, 3), (100, 4), (64, 7)])
def test_stretches_are_as_long_as_they_may_be(most: int, kernels: int) -> None:
    grouping, asked = planned(recurrence(200), most)
    assert len(grouping.kernels) <= kernels + kernels // 8  # 400 statements; the longest to one part in eight
    assert max(len(kernel.body) for kernel in grouping.kernels) <= most
    assert asked < 25 * kernels


@pytest.mark.parametrize("steps", [200, 800])
def test_prices_grow_with_the_kernels_and_not_with_the_statements(steps: int) -> None:
    grouping, asked = planned(recurrence(steps), 100)
    assert asked < 20 * len(grouping.kernels)


def test_independent_programs_stay_apart() -> None:
    one, other = recurrence(20), recurrence(30)
    shifted = [
        Op(op.kind, tuple(v + len(one.ops) for v in op.operands), op.axes, op.over, op.flops, 2, op.tag + "'")
        for op in other.ops
    ]
    (first,), (second,) = one.outputs, other.outputs
    both = Program((*one.ops, *shifted), frozenset((first, second + len(one.ops)))).canonical()

    class Apart(Model):
        def blocks_apart(self, one: Values, other: Values) -> bool:
            return True

    model = Apart(both)
    grouping = search(model)
    found = sorted(len(kernel.body) for kernel in grouping.kernels)
    assert found == [40, 60]


@pytest.mark.parametrize("program", [recurrence(20, "ij"), blocks(80)], ids=["rows", "blocks"])
def test_kernels_that_take_long_are_left_to_the_search(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    stretch = stretches._stretch

    def spy(queue: Queue, kernels: Sequence[int], most: int) -> object:
        tried.append(len(kernels))
        return stretch(queue, kernels, most)

    monkeypatch.setattr(stretches, "_stretch", spy)
    search(Model(program))
    assert tried == []


def test_wishes_are_respected() -> None:
    program = recurrence(50)
    model = Model(program)
    assert len(search(model, fusible=lambda body: len(body) == 1).kernels) == 100
    kept = search(model, apart=[(10, 60)])
    assert not any({10, 60} <= kernel.body for kernel in kept.kernels)
    assert len(kept.kernels) <= 3
    small = search(model, max_size=30)
    assert max(len(kernel.body) for kernel in small.kernels) <= 30
    assert len(small.kernels) <= 5


def test_a_stretch_that_a_proof_refused_becomes_shorter_ones() -> None:
    program = recurrence(60)
    grouping = search(Model(program))
    (whole,) = grouping.kernels
    again = grouping.refute({whole: illegal(Hazard.SCOPE, "refused")})
    assert 2 <= len(again.kernels) <= 3
    assert all((kernel.body, kernel.roots) != (whole.body, whole.roots) for kernel in again.kernels)
