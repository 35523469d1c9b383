"""Searches that begin with a kernel per output, and kernels that pass on what both compute."""

from __future__ import annotations

import pytest

from polyfuse.grouping import outputs, search
from polyfuse.grouping.allowance import allowance
from polyfuse.grouping.moves import passed
from polyfuse.grouping.outputs import is_apart_by_price, per_output
from polyfuse.grouping.partition import KernelGroup, Partition, Sketch
from polyfuse.grouping.queue import Queue
from polyfuse.grouping.rules import Judge, Rules
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal
from tests.grouping.invariants import check
from tests.grouping.model import Model, Program, Values
from tests.grouping.programs import Builder


def named(model: Model) -> dict[str, int]:
    return {op.tag or op.kind: v for v, op in enumerate(model.program.ops)}


def normalised_and_summed() -> Program:
    """Rows less their mean, and what columns of them, weighted, sum up to, on a long way: wide, and small."""
    b = Builder()
    x, g = b.input(), b.input()
    mean = b.map("mean", b.sum(x, "j"))
    y = b.map("y", x, mean)
    for k in range(5):
        y = b.map(f"y{k}", y)
    weighted = b.map("weighted", b.map("again", x, mean), g)
    total = b.sum(weighted, "i")
    for k in range(3):
        total = b.map(f"t{k}", total)
    return b.program(y, total)


class SlowTogether(Model):
    """Kernels of both outputs take `factor` times as long; `refused`: what is said of them."""

    factor, refused = 2.0, LEGAL

    def _holds_both(self, body: Values) -> bool:
        found = named(self)
        return found["y4"] in body and found["weighted"] in body

    def price(self, body: Values, roots: Values, loads: Values) -> int:
        return int(super().price(body, roots, loads) * (self.factor if self._holds_both(body) else 1))

    def legal(self, body: Values, roots: Values, loads: Values) -> Verdict:
        return self.refused if self._holds_both(body) else super().legal(body, roots, loads)


def test_what_two_kernels_compute_one_passes_on() -> None:
    model = Model(normalised_and_summed())
    found = named(model)
    kernels = [k for k in _of_outputs(model) if len(k.body) > 3]
    state = Partition.of(model, kernels)
    for giver, taker in ((0, 1), (1, 0)):
        move = passed(state, giver, taker)
        assert move is not None
        gives, takes = Queue(state, Judge(model, Rules()), allowance(2)).trial(move).kernels
        assert found["mean"] in gives.roots and found["mean"] in takes.loads
        assert found["mean"] not in takes.body


def test_what_is_as_large_as_what_it_is_made_of_is_not_passed_on() -> None:
    b = Builder()
    both = b.map("both", b.input())
    model = Model(b.program(b.map("one", both), b.map("other", both)))
    assert passed(Partition.of(model, _of_outputs(model)), 0, 1) is None


def test_what_follows_a_reduction_begins_in_a_kernel_of_its_own() -> None:
    model = SlowTogether(normalised_and_summed())
    found = named(model)
    kernels = per_output(Judge(model, Rules()))
    assert kernels is not None
    by_root = {root: kernel for kernel in kernels for root in kernel.roots}
    assert len(kernels) == 3 and {found["y4"], found["t2"]} <= by_root.keys()
    wide, small = by_root[found["y4"]], by_root[found["t2"]]
    (total,) = [kernel for kernel in kernels if kernel not in (wide, small)]
    assert small.loads == total.roots and found["weighted"] in total.body
    assert found["mean"] in wide.body & total.body


def test_kernels_of_outputs_are_found_with_fewer_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    """And are no dearer: the two share the row means, and each takes what its bytes take."""
    model = SlowTogether(normalised_and_summed())
    grouping = search(model)
    check(model, grouping)
    asked = model.asked["price"]
    monkeypatch.setattr(outputs, "MOST", 0)
    other = SlowTogether(normalised_and_summed())
    slower = search(other)
    assert grouping.time <= slower.time and len(grouping.kernels) == 2
    assert asked < other.asked["price"] / 2
    assert grouping.shaken() is grouping


@pytest.mark.parametrize("factor", [1.0, 4.0])
def test_they_are_left_alone_where_one_kernel_is_fast_or_out_of_the_question(factor: float) -> None:
    model = SlowTogether(normalised_and_summed())
    model.factor = factor
    assert per_output(Judge(model, Rules())) is None


def test_kernels_that_may_not_be_one_are_not_apart_by_price() -> None:
    """Where one kernel of what reads the same is refused, others may read it once; where it loses by far, as well."""
    for factor, refused, answer in ((1.4, LEGAL, True), (3.0, LEGAL, False), (1.4, _REFUSED, False)):
        model = SlowTogether(normalised_and_summed())
        model.factor, model.refused = factor, refused
        state = Partition.of(model, [k for k in _of_outputs(model) if len(k.body) > 3])
        assert is_apart_by_price(Queue(state, Judge(model, Rules()), allowance(2))) is answer


def test_where_little_work_is_granted_it_is_left_to_the_search() -> None:
    model = SlowTogether(normalised_and_summed())
    grouping = search(model, granted=outputs.EACH * model.count - 1)
    check(model, grouping)
    assert grouping.shaken() is not grouping


def test_wishes_of_the_user_are_kept() -> None:
    model = SlowTogether(normalised_and_summed())
    found = named(model)
    wish = {found["mean"], found["y"]}
    grouping = search(model, apart=[wish])
    check(model, grouping)
    assert not any(wish <= kernel.body for kernel in grouping.kernels)


_REFUSED = illegal(Hazard.SCOPE, "not both", rule="scope")


def _of_outputs(model: Model) -> list[KernelGroup]:
    """A kernel for each output, with all that it needs."""
    found, state = [], Partition(model)
    for output in sorted(model.program.outputs):
        alone = frozenset((output,))
        body, loads = state.closure(Sketch(alone), (), frozenset())
        found.append(KernelGroup(alone, body, loads, model.price(body, alone, loads)))
    return found
