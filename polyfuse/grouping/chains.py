"""Where the search begins: elementwise values that only their own element needs, in the kernel that needs them, then
all elementwise values that lead to each other by nothing else.

    a = x + y;  b = a * 2;  c = a - 1;  d = b * c          one kernel {d}: a, b and c have no other reader
    l = min(a, b);  h = max(a, b);  s = stack(l, h)        one kernel {s}, and {l, s} where a sum reads l as well

Such a kernel seldom loses: it reads and computes what its parts do, at the same points, and stores less.  Programs of
hundreds of such operations (random bits, polynomials, sorting networks) would otherwise be grown one operation at a
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from polyfuse.grouping.moves import merged
from polyfuse.grouping.partition import Partition
from polyfuse.grouping.queue import Queue

MANY = 24
"""Kernels that a stage takes the place of at least.  Where stages of 6 begin as one, what a search finds for 8 programs
of 150 statements takes 2 % more: a map then no longer goes with the sum before it or behind it.  From 24 on nothing
changes, and ranks of 6 columns that are reduced twice are planned in a sixth of the time."""


def join_chains(queue: Queue) -> None:
    """Make the kernels of all such groups that are legal and no dearer, in a partition of single statements."""
    groups, stages = _groups(queue.state), _stages(queue.state)
    together = frozenset[int]().union(*groups)
    queue.state.settle_prices(v for v in queue.state.owner if v not in together)
    for values in groups:
        if not _join(queue, values, 2):
            queue.state.settle_prices(v for v in values if v in queue.state.owner)
            queue.forget()
            _join(queue, values, 2)
    for values in stages:
        _join(queue, values, MANY)


def _join(queue: Queue, values: Iterable[int], least: int) -> bool:
    """Make one kernel of those that store these values, of which there are so many at least; whether it is made."""
    move = merged(queue.state, frozenset([queue.state.owner[v] for v in values if v in queue.state.owner]))
    if len(move.old) >= least:
        trial = queue.trial(move)
        if trial.gain >= 0 and trial.kernels and queue.refusal(move, trial):
            return queue.state.replace(move.old, trial.kernels) is not None
    return False


def _groups(state: Partition) -> list[list[int]]:
    """Stored values by the last value of their group, groups of one left out."""
    last: dict[int, int] = {}
    for value in sorted(state.owner, reverse=True):  # readers before what they read
        readers = [state.kernels[k].name for k in state.readers[value]]
        ends = {last[r] for r in readers}
        inside = not state.pinned[value] and all(state.costs.is_elementwise(value, r) for r in readers)
        last[value] = ends.pop() if inside and len(ends) == 1 else value
    return _gathered(last)


def _stages(state: Partition) -> list[list[int]]:
    """Stored values that elementwise reads connect.  Every other read begins a stage, so that no value of one needs
    another by way of a third that is outside."""
    stage: dict[int, int] = {}
    links: dict[int, int] = {}
    for value in sorted(state.owner):
        reads = [(v, state.costs.is_elementwise(v, value)) for v in state.operands[value] if v in state.owner]
        stage[value] = max([stage[v] + (not beside) for v, beside in reads], default=0)
        links[value] = value
        for v, beside in reads:
            if beside and stage[v] == stage[value]:
                links[_end(links, v)] = value
    return _gathered({value: _end(links, value) for value in links})


def _end(links: dict[int, int], value: int) -> int:
    """Where links end that lead from a value to another; they are shortened on the way."""
    while links[value] != value:
        links[value] = value = links[links[value]]
    return value


def _gathered(names: Mapping[int, int]) -> list[list[int]]:
    """The values of each name, names of one value left out."""
    groups: dict[int, list[int]] = {}
    for value in sorted(names):
        groups.setdefault(names[value], []).append(value)
    return [group for group in groups.values() if len(group) > 1]
