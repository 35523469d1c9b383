"""Where the search begins: kernels of elementwise values that only their own element needs."""

from __future__ import annotations

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.grouping import chains, outputs, whole
from polyfuse.grouping.allowance import allowance
from polyfuse.grouping.partition import Partition
from polyfuse.grouping.queue import Queue
from polyfuse.grouping.rules import Judge, Rules
from polyfuse.grouping.search import search
from tests.grouping.model import Model
from tests.grouping.programs import Builder


def groups(monkeypatch: pytest.MonkeyPatch, model: Model) -> list[list[int]]:
    """What `join_chains` was offered."""
    seen: list[list[int]] = []
    found = chains._groups

    def spy(state: Partition) -> list[list[int]]:
        seen.extend(found(state))
        return found(state)

    monkeypatch.setattr(chains, "_groups", spy)
    monkeypatch.setattr(whole, "MOST_OF_MAPS", 0)
    monkeypatch.setattr(whole, "MOST", 0)  # one kernel of all would be near enough to what its bytes take
    monkeypatch.setattr(outputs, "MOST", 0)  # and so would those of the outputs
    search(model)
    return seen


def test_values_with_readers_inside_one_group_join_it(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder()
    a = b.map("a", b.input())
    left, right = b.map("left", a), b.map("right", a)
    model = Model(b.program(b.map("end", left, right)))
    (group,) = groups(monkeypatch, model)
    assert len(group) == 4


def test_outputs_and_values_that_reductions_read_end_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Builder()
    a = b.map("a", b.input())
    kept = b.map("kept", a)
    model = Model(b.program(kept, b.sum(b.map("b", kept), "j")))
    sizes = sorted(len(group) for group in groups(monkeypatch, model))
    assert sizes == [2]  # a with kept; b is read by a sum, and kept is an output


def test_hundreds_of_operations_take_little_work() -> None:
    """Random bits are a hundred operations: one kernel, well within what planning may cost."""

    def dropped(key, x):
        return np.maximum(pf.random.dropout(key, x, 0.1), 0) * 2

    plan = pf.jit(dropped).plan(pf.random.key(0), pf.spec("f32[N]"), target="h200")
    assert len(plan.kernels) == 1 and plan.unweighed == 0


def ladder(b: Builder, value: int, steps: int) -> tuple[int, int]:
    """Two values that exchange something at each of these steps, so that neither is the only reader of the other."""
    one, other = b.map("one", value), b.map("other", value)
    for step in range(steps):
        one, other = b.map(f"low{step}", one, other), b.map(f"high{step}", one, other)
    return one, other


def queue_of(state: Partition) -> Queue:
    return Queue(state, Judge(state.costs, Rules()), allowance(len(state.kernels)))


def test_stages_of_many_values_begin_as_one_kernel() -> None:
    b = Builder()
    one, other = ladder(b, b.input(), chains.MANY)
    state = Partition.unfused(Model(b.program(b.sum(one, "j"), b.sum(other, "j"))))
    (stage,) = chains._stages(state)
    assert len(stage) == 2 * chains.MANY + 2
    chains.join_chains(queue_of(state))
    assert len(state.kernels) == 3  # what both sums read, and the sums


def test_stages_of_few_values_are_left_to_the_search() -> None:
    b = Builder()
    one, other = ladder(b, b.input(), 3)
    state = Partition.unfused(Model(b.program(b.sum(one, "j"), b.sum(other, "j"))))
    before = len(state.kernels)
    chains.join_chains(queue_of(state))
    assert len(state.kernels) == before


def test_what_needs_a_value_by_way_of_a_sum_is_of_a_later_stage() -> None:
    """As one kernel they would wait for each other."""
    b = Builder()
    first = b.map("first", b.input())
    second = b.map("second", first)
    last = b.map("last", second, b.sum(first, "j"))
    state = Partition.unfused(Model(b.program(last)))
    assert [len(stage) for stage in chains._stages(state)] == [2]


NETWORKS = {
    "sums of sorted columns": (lambda x: np.sort(x, axis=1).mean(axis=0), "f32[500000, 16]"),
    "prefixes of sorted rows": (lambda x: np.cumsum(np.sort(x, axis=1), axis=1), "f32[500000, 16]"),
    "two reductions of ranks": (
        lambda x: (np.argsort(x, axis=1).sum(axis=1), np.argsort(x, axis=1).max(axis=0)),
        "f32[500000, 6]",
    ),
}


@pytest.mark.parametrize("case", NETWORKS)
def test_networks_that_are_reduced_begin_as_one_kernel(case: str) -> None:
    """Statement by statement the first took 800 units and more."""
    function, spec = NETWORKS[case]
    plan = pf.jit(function).plan(pf.spec(spec), target="h100")
    assert len(plan.kernels) == 1 and plan.unweighed == 0
    assert plan.work < 60 * len(plan.scop.statements)
