"""What no partition can undercut, and the programs that need no search because their one kernel comes near it.

    x --> m = max(x) --> e = exp(x - m) --> s = sum(e) --> y = e / s

    one kernel reads x and writes y                                           two arrays
    several pass something on, the least of which is m; but y needs x then    three arrays and m
        by another way as well

Each partition reads the inputs and writes the outputs.  One of several kernels moves besides what a kernel stores for
another, and what leads to the same output around it: the input that both read, or another value that is passed on.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import inf

from polyfuse.grouping.costs import Costs
from polyfuse.grouping.partition import KernelGroup, Partition
from polyfuse.grouping.rules import Judge

NARROW = 8
"""Programs that take less than one part in so many beyond what their inputs and outputs do are not shaken: of 1,290
programs 4 won more than one part in a thousand by it, each of which took more than a quarter beyond."""

NEAR, NEAR_OF_MAPS = 24, 3
"""Programs whose one kernel takes less than one part in so many beyond what any several do are not searched: 191 of 322
searches for the benchmark programs, none of which finds anything faster.  And those whose statements need each other
element by element, of which several kernels compute no less."""

MOST, MOST_OF_MAPS = 400, 1000
"""Statements of a program that is priced as one kernel before any other: in vain, that takes a part of the search (of
100 rounds of ``y - y.max(axis=-1, keepdims=True) / 2``, 300 statements, 0.1 s; their search took half a minute).  And
where they need each other element by element, so that one kernel computes nothing twice: 16 columns sorted by a network
of 127 of them take the search 21 s and more."""

MANY, SHORT = 50, 20
"""Statements from which on a program is not searched whose one kernel takes less than one launch for so many of them:
some microseconds are all that there is to win.  68 products in a row of their own each took the search two minutes."""

EACH = 50
"""Work of that price, per statement, about as much as strategies propose schedules at most: it is left to the search
where not as much is allowed."""

_NONE = frozenset[int]()


def is_narrow(costs: Costs, time: int, outputs: Set[int], inputs: Set[int]) -> bool:
    """Whether no partition could be much faster than one that takes `time` and reads and writes these values."""
    return (time - costs.floor_of_all(frozenset(outputs), frozenset(inputs))) * NARROW < time


def whole(judge: Judge, work: float) -> KernelGroup | None:
    """One kernel of all statements, if it is allowed, legal, and no several could be much faster.  Programs that share
    no value are none: they may be faster side by side, each in blocks of its own.  `work`: what this may cost."""
    costs = judge.costs
    state = Partition(costs)
    live = state.live()
    inputs = frozenset([v for v in live if state.is_input[v]])
    body, roots = live - inputs, frozenset([v for v in live - inputs if state.pinned[v]])
    is_map = _is_map(state, body, roots)
    most = MOST_OF_MAPS if is_map else MOST
    if not 1 < len(body) <= most or any(state.once[v] for v in body) or not is_connected(state, live):
        return None
    if EACH * len(body) > work or not judge.rules.allows(body, roots):
        return None
    kernel = KernelGroup(roots, body, inputs, costs.whole_price(body, roots, inputs, teaches=True))
    near = NEAR_OF_MAPS if is_map else NEAR
    is_short = len(body) > MANY and kernel.time * SHORT < costs.floor(_NONE, _NONE) * len(body)
    return None if not is_short and could_win(state, kernel, near) or not judge.verdict(kernel) else kernel


def _is_map(state: Partition, body: Set[int], roots: Set[int]) -> bool:
    """Whether there is one output, and all else is read at the elements of what reads it, so that none is needed twice.
    """
    if len(roots) > 1:
        return False
    inside = [(v, reader) for v in body - roots for reader in state.consumers[v]]
    return all(reader in roots or state.costs.is_elementwise(v, reader) for v, reader in inside)


def is_connected(state: Partition, live: frozenset[int]) -> bool:
    """Whether each of these values leads to every other by values that read each other."""
    todo = [min(live)]
    found = set(todo)
    while todo:
        value = todo.pop()
        near = live.intersection([*state.operands[value], *state.consumers[value]]) - found
        found |= near
        todo += near
    return len(found) == len(live)


def could_win(state: Partition, kernel: KernelGroup, near: float) -> bool:
    """Whether several kernels might take less than the one that computes everything, by one part in `near`."""
    costs, most = state.costs, kernel.time * (1 - 1 / near)
    launch = costs.floor(_NONE, _NONE)
    spare = most - costs.floor_of_all(kernel.roots, kernel.loads) - launch
    if spare <= 0:
        return False
    moved = {v: costs.floor(_NONE, frozenset((v,))) - launch for v in kernel.body | kernel.loads}
    for v in kernel.body - kernel.roots:  # an output is written in any case
        moved[v] += costs.floor(frozenset((v,)), _NONE) - launch
    needs = _needs(state, kernel)
    if any(moved[v] < spare and sum([v in needs[root] for root in kernel.roots]) > 1 for v in kernel.loads):
        return True
    return any(moved[v] < spare and moved[v] + _around(state, kernel, v, moved, needs) < spare for v in kernel.body)


def _needs(state: Partition, kernel: KernelGroup) -> dict[int, frozenset[int]]:
    """Per value of a kernel, what it is computed of: itself as well."""
    needs: dict[int, frozenset[int]] = {}
    for value in sorted(kernel.body | kernel.loads):
        operands = state.operands[value] if value in kernel.body else ()
        needs[value] = frozenset((value,)).union(*[needs[v] for v in operands])
    return needs


def _around(
    state: Partition,
    kernel: KernelGroup,
    passed: int,
    moved: Mapping[int, int],
    needs: Mapping[int, frozenset[int]],
) -> float:
    """What is moved besides a value that one kernel passes on to another: one value of each path from an input of it to
    an output that needs it, around it.  Of the path that has the dearest of such values, and the output where it is
    cheapest."""
    widest: dict[int, float] = {}
    for value in sorted(needs):
        if value in kernel.loads:
            widest[value] = moved[value] if value in needs[passed] else 0
        elif value == passed:
            widest[value] = 0
        else:
            before = max([widest[v] for v in state.operands[value]], default=0)
            widest[value] = before if value in kernel.roots else min(before, moved[value])
    return min([widest[root] for root in kernel.roots if passed in needs[root] and root != passed], default=inf)
