"""The search for the cheapest partition: one kernel, if no several undercut it; else those of the outputs, if they take
what their bytes take; else wishes first, then the queue, then settle, pack and shake."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from polyfuse.grouping.allowance import (
    AGAIN_IN_ALL,
    NOTHING,
    Allowance,
    allowance,
    further,
    left_for_refusals,
    left_over,
)
from polyfuse.grouping.chains import join_chains
from polyfuse.grouping.costs import Costs
from polyfuse.grouping.moves import apart as taken_apart
from polyfuse.grouping.moves import drop, merged
from polyfuse.grouping.outputs import EACH, is_apart_by_price, is_near, per_output
from polyfuse.grouping.pack import pack
from polyfuse.grouping.partition import KernelGroup, Partition, Sketch
from polyfuse.grouping.queue import Queue
from polyfuse.grouping.rules import Judge, Rules
from polyfuse.grouping.settle import WORTH, settle
from polyfuse.grouping.shake import shake
from polyfuse.grouping.stretches import join_stretches
from polyfuse.grouping.whole import is_narrow, whole
from polyfuse.grouping.why import sharing, storing
from polyfuse.verdict import LEGAL, Verdict

ROUNDS = 12  # shakes of a small program
FINE = 1000  # see `settle`: of kernels that are there, for which no other search is made
VAIN = 3  # rounds one after another that win less than one part in WON, after which no further one is shaken
WON = 1000
VAIN_WORK = 400
"""Work of such rounds after which no further one is shaken, either: 40 ms.  On random programs of 7 to 10 statements as
users write them the second and third such round win less than one part in a million."""
BUDGET = 800  # statements shaken in all: larger programs get fewer rounds, so that time stays near-linear

SHAKEN = 6_000
"""Work that shakes may do.  Of 16 kinds of programs of 30, 60 and 100 statements they win more than one part in a
thousand on none; of 6 steps of a stencil, with other prices, 2.5 parts in a hundred within 16,000 placed statements,
which take longer than such programs run for."""

Unmet = tuple[tuple[frozenset[int], Verdict], ...]


@dataclass(frozen=True, slots=True)
class Grouping:
    """A partition of the stored values into kernels, in launch order.

    log: per pair of values that stand for their kernels (their least stored values), why they were not joined; a value
    paired with itself: why it is stored and not recomputed.  unmet: groups that the user wanted together, with the
    reason why they are not.  unweighed: moves that were not priced, because the search had cost what it may.  spent:
    work of all searches so far.
    """

    kernels: tuple[KernelGroup, ...]
    log: Mapping[tuple[int, int], Verdict]
    unmet: Unmet
    unweighed: int
    _costs: Costs = field(repr=False, compare=False)
    _rules: Rules = field(repr=False, compare=False)
    _effort: int | None = field(repr=False, compare=False)
    spent: int = field(default=0, compare=False)
    _left: int = field(default=AGAIN_IN_ALL, repr=False, compare=False)  # work, of searches after refusals
    _rest: Allowance = field(default=NOTHING, repr=False, compare=False)  # what the search left over, for shakes
    _is_settled: bool = field(default=False, repr=False, compare=False)  # nothing is won by shakes

    @property
    def time(self) -> int:
        """Predicted picoseconds of the whole program."""
        return sum(kernel.time for kernel in self.kernels)

    def why_not(self, u: int, v: int) -> Verdict:
        """Why no kernel computes both `u` and `v`; legal if one does."""
        return sharing(self._queue(self._rules), u, v)

    def allows(self, body: frozenset[int], roots: frozenset[int]) -> Verdict:
        """Whether the user's wishes let one kernel compute `body`."""
        return self._rules.allows(body, roots)

    def why_stored(self, value: int) -> Verdict:
        """Why `value` is written to memory; legal if it is not."""
        return storing(self._queue(self._rules), value)

    def refute(self, refused: Mapping[KernelGroup, Verdict], alone: Set[int] = frozenset()) -> Grouping:
        """The search gone on after a later proof refused some kernels: they are marked and taken apart.

        alone: values of those kernels that become kernels of their own and stay it.  Raises ValueError for a kernel of
        one statement: there is nothing smaller to fall back to.
        """
        marks, single = dict(self._rules.refuted), dict(self._rules.alone)
        for kernel, verdict in refused.items():
            if len(kernel.body) == 1:
                raise ValueError(f"the kernel of value {kernel.name} alone was refused: {verdict}")
            marks[kernel.body, kernel.roots] = verdict
            single |= dict.fromkeys(sorted(kernel.body & alone), verdict)
        broken = _entangled(self.kernels, frozenset().union(*[kernel.body for kernel in refused]))
        lost = tuple(wish for wish in self._rules.together if not wish.isdisjoint(broken))
        kept = tuple(wish for wish in self._rules.together if wish not in lost)
        queue = self._queue(replace(self._rules, refuted=marks, together=kept, alone=single))
        move = taken_apart(queue.state, frozenset(k for value in broken for k in queue.state.users[value]))
        queue.state.replace(move.old, queue.trial(move).kernels)
        queue.log.update(self.log)
        before = queue.work
        found = _finish(queue, lost, self.unmet, self._effort, self._left)
        more = queue.work - before
        unweighed, spent = self.unweighed + found.unweighed, self.spent + more
        return replace(found, unweighed=unweighed, spent=spent, _left=self._left - more, _rest=self._rest)

    def improved(self) -> Grouping:
        """The same after moves that win, one by one; settled."""
        queue = self._queue(self._rules, allowance(len(self.kernels), self._costs.work, None))
        for number in sorted(queue.state.kernels):
            queue.offer_around(number)
        _converge(queue, set(), FINE)
        return replace(_result(queue, self.unmet, self._effort, self._left), _is_settled=True)

    def shaken(self, effort: int | None = None, granted: int | None = None) -> Grouping:
        """The same after the rounds of shake that searches with an effort of 0 left out: of a program with several
        forms, the one that is chosen needs them alone.  `granted`: what is left of the work that the user allows."""
        if self._is_settled:
            return self
        rest, done = self._rest.within(granted), self._costs.work
        queue = self._queue(self._rules, Allowance(done + rest.large, done + rest.all, done))
        queue.log.update(self.log)
        _shake_often(queue, set(queue.state.kernels), effort)
        _sweep(queue)
        found = _result(queue, self.unmet, self._effort, self._left)
        more = queue.work - done
        return replace(found, unweighed=self.unweighed + found.unweighed, spent=self.spent + more)

    def _queue(self, rules: Rules, allowed: Allowance | None = None) -> Queue:
        allowed = allowed or further(self._costs.work, self._left)
        return Queue(Partition.of(self._costs, self.kernels), Judge(self._costs, rules), allowed)


def search(
    costs: Costs,
    *,
    together: Iterable[Iterable[int]] = (),
    apart: Iterable[Iterable[int]] = (),
    max_size: int = 0,
    fusible: Callable[[frozenset[int]], bool] | None = None,
    effort: int | None = None,
    granted: int | None = None,
) -> Grouping:
    """Partition the values of a program into kernels of least predicted total time.

    together, apart: groups of values, as the user wishes.  max_size: statements per kernel, 0 for no limit.  fusible:
    values that may share a kernel (``lambda v: False`` gives one kernel per statement).  effort: rounds of shake; None
    takes what a linear budget allows.  granted: work that it and the searches after refusals may take; None: what a
    program of this size does by default.
    """
    wishes = tuple(frozenset(v for v in group if not costs.is_input(v)) for group in together)
    judge = Judge(costs, Rules((), tuple(map(frozenset, apart)), max_size, fusible))
    begun, forget = costs.work, costs.learning()
    one = whole(judge, allowance(costs.count, begun, granted).large - begun)
    other = None if one is not None or wishes else _from_outputs(judge, effort, left_over(granted, costs.work - begun))
    if other is not None:
        return other
    forget()  # what the kernels above teach is not what smaller ones need
    granted = left_over(granted, costs.work - begun)
    state = Partition.unfused(costs) if one is None else Partition.of(costs, [one])
    queue = Queue(state, judge, allowance(len(state.owner), costs.work, granted))
    if one is None:
        join_chains(queue)
    return _finish(queue, wishes, (), effort, left_for_refusals(granted))


def of_roots(costs: Costs, roots: Iterable[frozenset[int]], granted: int | None = None) -> Grouping | None:
    """The partition whose kernels store these values, in launch order, as it is; None where one of them is illegal, or
    reads what none before it stores."""
    made = list(roots)
    stored, whole, kernels = frozenset[int]().union(*made), Partition(costs), list[KernelGroup]()
    later = stored
    for each in made:
        body, loads = whole.closure(Sketch(each), (), stored)
        if not loads.isdisjoint(later) or not costs.legal(body, each, loads):
            return None
        later -= each
        kernels.append(KernelGroup(each, body, loads, costs.price(body, each, loads)))
    state = Partition.of(costs, kernels)
    queue = Queue(state, Judge(costs, Rules()), allowance(len(kernels), costs.work, granted))
    return replace(_result(queue, (), 0, left_for_refusals(granted)), _is_settled=True)


def _from_outputs(judge: Judge, effort: int | None, granted: int | None) -> Grouping | None:
    """What the kernels of all outputs become, where that takes about what its bytes take."""
    costs = judge.costs
    kernels = per_output(judge) if granted is None or granted >= EACH * costs.count else None
    if kernels is None:
        return None
    state = Partition.of(costs, kernels)
    queue = Queue(state, judge, allowance(len(kernels), costs.work, granted))
    queue.passes = True
    for number in sorted(state.kernels):
        queue.offer_around(number)
    queue.drain()
    before = -1
    while before != (before := state.total()):
        pack(queue)
    if not is_near(state) or not is_apart_by_price(queue):
        return None
    return replace(_result(queue, (), effort, left_for_refusals(granted)), _is_settled=True)


def _finish(
    queue: Queue, wishes: Iterable[frozenset[int]], unmet: Unmet, effort: int | None, left: int
) -> Grouping:
    """Grant the wishes, then improve until nothing wins."""
    state = queue.state
    join_stretches(queue)
    refused = tuple((wish, verdict) for wish in wishes if not (verdict := _grant(queue, wish)))
    for number in sorted(state.kernels):
        queue.offer_around(number)
    done = set[int]()
    _converge(queue, done)
    _shake_often(queue, done, effort)
    _sweep(queue)
    while _rejoined(queue):
        pass
    return _result(queue, unmet + refused, effort, left)


def _result(queue: Queue, unmet: Unmet, effort: int | None, left: int) -> Grouping:
    state, rules = queue.state, queue.judge.rules
    kernels = tuple([state.kernels[number] for number in state.in_launch_order()])
    log = {pair: verdict for pair, verdict in sorted(queue.log.items()) if not _decided(state, pair)}
    rest = Allowance(queue.allowance.large - queue.work, queue.allowance.all - queue.work)
    return Grouping(kernels, log, unmet, queue.unweighed, state.costs, rules, effort, queue.work, left, rest)


def _shake_often(queue: Queue, done: set[int], effort: int | None) -> None:
    """As many rounds, but that no more follow where several won nothing worth their while.  `effort`: see `search`."""
    rounds = min(ROUNDS, BUDGET // max(1, len(queue.state.owner))) if effort is None else effort
    limit = min(queue.allowance.large, math.inf if effort is not None else queue.work + SHAKEN)
    vain, start = 0, queue.work
    if _is_narrow(queue.state):
        return
    for queue.salt in range(1, rounds + 1):
        before = queue.state.total()
        shake(queue, done, limit)
        if (before - queue.state.total()) * WON >= before:
            vain, start = 0, queue.work
            continue
        vain += 1
        if vain == VAIN or queue.work - start > VAIN_WORK:
            break


def _is_narrow(state: Partition) -> bool:
    """Whether no partition could be much faster."""
    pinned = {value for value in state.owner if state.pinned[value]}
    inputs = {v for kernel in state.kernels.values() for v in kernel.loads if state.is_input[v]}
    return is_narrow(state.costs, state.total(), pinned, inputs)


def _converge(queue: Queue, done: set[int], worth: int = WORTH) -> None:
    queue.drain()
    before = -1
    while before != (before := queue.state.total()):
        settle(queue, done, worth)
        pack(queue)


def _sweep(queue: Queue) -> None:
    """Stores that lost their last reader and cost nothing beside other work: no move that must win removes them."""
    state = queue.state
    while vain := [v for v in sorted(state.owner) if not state.pinned[v] and not state.readers[v]]:
        if not any(_released(queue, value) for value in vain if value in state.owner):
            break


def _released(queue: Queue, value: int) -> bool:
    move = drop(queue.state, value)
    trial = queue.trial(move) if move else None
    if move is None or trial is None or trial.gain < 0 or not queue.refusal(move, trial):
        return False
    return bool(queue.make(move, trial))


FEW = 6
"""Kernels at the end of a search, up to which neighbours are priced as one by all schedules."""


def _rejoined(queue: Queue) -> bool:
    """Whether a kernel and one that reads it became one, which some of its schedules lost narrowly and all win."""
    state = queue.state
    if len(state.kernels) > FEW:
        return False
    for number in state.in_launch_order():
        for reader in sorted(state.successors(number)):
            move = merged(state, state.hull(number, reader))
            trial = queue.narrow(move)
            if trial is not None and trial.gain > 0 and queue.refusal(move, trial):
                state.replace(move.old, trial.kernels)
                return True
    return False


def _grant(queue: Queue, wish: frozenset[int]) -> Verdict:
    """Join what the user wants together, if it may be, and keep it so."""
    state = queue.state
    members = frozenset(k for value in wish for k in state.users[value])
    if not members:  # nothing reads what is wanted together, and nothing computes it
        return LEGAL
    move = merged(state, members.union(*[state.hull(a, b) for a in members for b in members]))
    trial = queue.trial(move)
    verdict = queue.refusal(move, trial)
    if verdict:
        state.replace(move.old, trial.kernels)
        rules = queue.judge.rules
        queue.rule(replace(rules, together=(*rules.together, wish)))
    return verdict


def _entangled(kernels: tuple[KernelGroup, ...], values: frozenset[int]) -> frozenset[int]:
    """`values` and all that is computed beside them or again elsewhere.  Taken apart into single statements, which need
    no proof, they cannot wait for each other: no kernel outside computes any of them."""
    while True:
        grown = values.union(*[kernel.body for kernel in kernels if not kernel.body.isdisjoint(values)])
        if grown == values:
            return values
        values = grown


def _decided(state: Partition, pair: tuple[int, int]) -> bool:
    """Whether the final partition made a refusal moot: the two share a kernel, or the value is not stored."""
    u, v = pair
    return not state.users[u].isdisjoint(state.users[v]) if u != v else u not in state.owner
