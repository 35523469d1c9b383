"""Where the search begins: kernels of elementwise values that only their own element needs."""

from __future__ import annotations

import numpy as np
import pytest

import polyfuse as pf
from polyfuse.grouping import chains, outputs, whole
from polyfuse.grouping.queue import Queue
from polyfuse.grouping.search import search
from tests.grouping.model import Model
from tests.grouping.programs import Builder


def groups(monkeypatch: pytest.MonkeyPatch, model: Model) -> list[list[int]]:
    """What `join_chains` was offered."""
    seen: list[list[int]] = []
    found = chains._groups

    def spy(queue: Queue) -> list[list[int]]:
        seen.extend(found(queue))
        return found(queue)

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
