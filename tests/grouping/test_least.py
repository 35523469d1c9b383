"""What a kernel takes at least, by the prices of what it contains."""

from __future__ import annotations

import pytest

from polyfuse.grouping.allowance import allowance
from polyfuse.grouping.least import FASTER, SLOWER, SLOWEST, Least
from polyfuse.grouping.moves import drop, join
from polyfuse.grouping.partition import KernelGroup, Partition
from polyfuse.grouping.queue import Queue
from polyfuse.grouping.rules import Judge, Rules
from polyfuse.grouping.search import search
from polyfuse.verdict import Hazard
from polyfuse.verdict import Kind as Answer
from tests.grouping.invariants import check
from tests.grouping.model import Model, Op, Program, Values


def rows_and_columns(maps: int) -> Program:
    """Sums of rows and of columns of one array, and arrays that read the sums of the rows, each the one before."""
    ops = [Op("input", (), "ij"), Op("sum", (0,), "i", over="j"), Op("sum", (0,), "j", over="i")]
    for k in range(maps):
        ops.append(Op("map", (0 if k == 0 else len(ops) - 1, 1), "ij", tag=f"m{k}"))
    return Program(tuple(ops), frozenset((2, *range(3, len(ops)))))


class Crowded(Model):
    """Rows and columns of one array in a kernel take `factor` times what its bytes do."""

    factor = 1.9

    def price(self, body: Values, roots: Values, loads: Values) -> int:
        plain = super().price(body, roots, loads)
        kinds = {self.program.ops[v].axes for v in body if self.program.ops[v].kind == "sum"}
        return int(self.factor * plain) if len(kinds) == 2 else plain


def kernel(model: Model, body: set[int], roots: set[int], loads: set[int], slowness: float) -> KernelGroup:
    sets = frozenset(roots), frozenset(body), frozenset(loads)
    return KernelGroup(*sets, int(slowness * model.floor(sets[0], sets[2])))


def learned(model: Model, known: KernelGroup) -> Least:
    least = Least(model)
    least.learn(known)
    return least


def test_what_contains_a_slow_kernel_is_as_slow_for_the_bytes_that_are_left() -> None:
    model = Model(rows_and_columns(2))
    body, roots, loads = frozenset({1, 2, 3, 4}), frozenset({2, 3, 4}), frozenset({0})
    least = learned(model, kernel(model, {1, 3}, {1, 3}, {0}, 1.8))
    kept = model.floor(frozenset({3}), loads)  # what the slow one moved, but for the sums, which stay inside
    assert 1.8 * kept > model.floor(roots, loads)
    assert least.time(roots, body, loads) == pytest.approx(1.8 * kept, rel=1e-6)
    assert least.time(roots, body - {3}, loads) == model.floor(roots, loads)  # it does not contain the slow one


def test_kernels_at_the_speed_of_memory_and_far_slower_ones_teach_nothing() -> None:
    model = Model(rows_and_columns(2))
    sets = frozenset({2, 3}), frozenset({1, 2, 3, 4}), frozenset({0})
    for slowness in (0.9 * FASTER, 1.1 * SLOWEST):
        assert learned(model, kernel(model, {1, 3}, {1, 3}, {0}, slowness)).time(*sets) == model.floor(sets[0], sets[2])


def test_slow_kernels_teach_what_moves_as_much() -> None:
    model, slowness = Model(rows_and_columns(2)), 1.1 * SLOWER
    least = learned(model, kernel(model, {1, 3}, {1, 3}, {0}, slowness))
    body, loads = frozenset({1, 2, 3, 4}), frozenset({0})
    kept = model.floor(frozenset({3}), loads)
    assert least.time(frozenset({2, 3}), body, loads) == pytest.approx(slowness * kept, rel=1e-6)
    other = frozenset({2, 4})  # and does not store what the slow one stores
    assert least.time(other, body, loads) == model.floor(other, loads)


def test_what_a_faster_kernel_refutes_is_forgotten() -> None:
    """Else nothing larger that contains both would be priced, either."""
    model = Model(rows_and_columns(2))
    whole, loads = (frozenset({2, 3, 4}), frozenset({1, 2, 3, 4}), frozenset({0})), frozenset({0})
    least = learned(model, kernel(model, {1, 3}, {1, 3}, {0}, 1.8))
    assert least.time(*whole) > model.floor(whole[0], loads)
    least.learn(kernel(model, {1, 2, 3}, {2, 3}, {0}, 1.0))
    assert least.time(*whole) == model.floor(whole[0], loads)


def test_kernels_that_contain_a_slow_one_are_not_priced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is the same, and a refusal has its reason."""
    program = rows_and_columns(6).canonical()
    model, unlearned = Crowded(program), Crowded(program)
    grouping = search(model)
    asked = model.asked["price"]
    check(model, grouping)
    monkeypatch.setattr(Least, "learn", lambda least, kernel: None)
    assert {k.body for k in grouping.kernels} == {k.body for k in search(unlearned).kernels}
    assert asked < unlearned.asked["price"]
    sums = [v for v, op in enumerate(program.ops) if op.kind == "sum"]
    verdict = grouping.why_not(*sums)
    assert not verdict and verdict.kind is Answer.UNPROFITABLE and verdict.numbers["loss_us"] > 0


def test_what_the_user_wants_apart_is_the_reason_given() -> None:
    """A move that cannot win is refused for the wish where there is one."""
    program = rows_and_columns(3).canonical()
    model = Crowded(program)
    sums = [v for v, op in enumerate(program.ops) if op.kind == "sum"]
    grouping = search(model, apart=[sums])
    verdict = grouping.why_not(*sums)
    assert not verdict and verdict.hazard is Hazard.STEERING


class Slowed(Model):
    """Kernels of several statements take ten times what they otherwise would."""

    def price(self, body: Values, roots: Values, loads: Values) -> int:
        return (10 if len(body) > 1 else 1) * super().price(body, roots, loads)


def test_a_move_that_cannot_win_any_more_is_not_priced_to_its_end() -> None:
    """Where nobody stores a value, three kernels compute it: the first takes as much as all did before."""
    ops = (Op("input", (), "ij"), Op("map", (0,), "ij"), *[Op("map", (1,), "ij", tag=f"m{k}") for k in range(3)])
    model = Slowed(Program(ops, frozenset({2, 3, 4})))
    state = Partition.unfused(model)
    queue = Queue(state, Judge(model, Rules()), allowance(len(state.kernels)))
    move = drop(state, 1)
    assert move is not None
    asked = model.asked["price"]
    short = queue.weighed(move, queue.bound(move))
    assert model.asked["price"] == asked + 1
    assert short.gain <= 0 and not short.is_whole and len(short.kernels) == 1
    whole = queue.trial(move)  # as who wants its kernels asks
    assert whole.is_whole and len(whole.kernels) == 3
    assert whole.gain <= short.gain


def test_a_queue_hopes_for_no_more_than_its_bound() -> None:
    model = Crowded(rows_and_columns(3).canonical())
    state = Partition.unfused(model)
    queue = Queue(state, Judge(model, Rules()), allowance(len(state.kernels)))
    numbers = sorted(state.kernels)
    pairs = [join(state, a, b) for k, a in enumerate(numbers) for b in numbers[k + 1 :]]
    for move in filter(None, pairs):
        assert queue.hoped(move) <= queue.bound(move)
        queue.trial(move)
    for move in filter(None, pairs):
        assert queue.hoped(move) == queue.trial(move).gain
