"""Partitions that need no search: one kernel of all values, or one of all but what is made of small results of it.

    m = max(x);  s = sum(exp(x - m));  l = log(s) + m - x[label];  y = mean(l)        a {l};  b {y}

Another form of a program is as good as found where these come near what its bytes take.
"""

from __future__ import annotations

from polyfuse.grouping.costs import Costs
from polyfuse.grouping.moves import SMALL
from polyfuse.grouping.outputs import is_near
from polyfuse.grouping.partition import Partition
from polyfuse.grouping.search import Grouping, of_roots
from polyfuse.grouping.whole import MOST, is_connected

FEWER = 16
"""Times as small as a value is what its elements meet in, at least: no copy of it, or of a part of a state, is."""


def at_once(costs: Costs, granted: int | None = None) -> Grouping | None:
    """The cheapest of these partitions; None where none is legal, or several outputs may lie apart otherwise."""
    state = Partition(costs)
    live = state.live()
    body = frozenset([v for v in live if not state.is_input[v]])
    if not 1 < len(body) <= MOST or any(state.once[v] for v in body) or not is_connected(state, live):
        return None
    outputs, inputs = frozenset([v for v in body if state.pinned[v]]), live - body
    if len(outputs) > 1:
        return None
    forget = costs.learning()
    costs.whole_price(body, outputs, inputs, teaches=True)  # by all schedules: what a search begins with as well
    partitions = [[outputs]]
    for passed in _passed(state, body, inputs):
        partitions += [[passed, outputs]] if passed and passed != outputs else []
    found = [grouping for roots in partitions if (grouping := of_roots(costs, roots, granted)) is not None]
    forget()  # as a search does
    return min(found, key=lambda grouping: grouping.time, default=None)


def comes_near(costs: Costs, grouping: Grouping) -> bool:
    """Whether its kernels take about what their bytes take."""
    return is_near(Partition.of(costs, grouping.kernels))


def _passed(state: Partition, body: frozenset[int], inputs: frozenset[int]) -> list[frozenset[int]]:
    """Small values that are made of large ones: those whose elements meet in a far smaller one, or what they are made
    of element by element, if that is as small; and those that far larger ones need."""
    costs, meeting, needed = state.costs, set[int](), set[int]()
    wide = max([costs.bytes(v) for v in inputs], default=0)
    large = frozenset([v for v in inputs if costs.bytes(v) * SMALL > wide])
    for value in body:
        if costs.bytes(value) * SMALL > wide or not _is_made_of(state, value, large):
            continue
        readers = [r for r in state.consumers[value] if r in body]
        smaller = [r for r in readers if costs.bytes(r) * FEWER <= costs.bytes(value)]
        if not all(costs.is_elementwise(value, r) for r in smaller):
            meeting.add(_least(state, value, inputs))
        if any(costs.bytes(r) >= costs.bytes(value) * FEWER for r in readers):
            needed.add(value)
    first = frozenset([v for v in meeting if not any(_is_made_of(state, v, frozenset((o,))) for o in meeting - {v})])
    return [first, frozenset(needed)]


def _least(state: Partition, value: int, inputs: frozenset[int]) -> int:
    """The value, or the one that it is a copy of in fewer bytes."""
    (source, *others) = state.operands[value]
    narrower = state.costs.bytes(source) < state.costs.bytes(value) and state.costs.is_elementwise(source, value)
    return source if not others and narrower and source not in inputs else value


def _is_made_of(state: Partition, value: int, sources: frozenset[int]) -> bool:
    """Whether any of the others leads to a value."""
    seen, todo = {value}, [value]
    while todo:
        more = set(state.operands[todo.pop()]) - seen
        if more & sources:
            return True
        seen |= more
        todo += more
    return False
