"""Where the search begins: elementwise values that only their own element needs, in the kernel that needs them.

    a = x + y;  b = a * 2;  c = a - 1;  d = b * c          one kernel {d}: a, b and c have no other reader

Such a kernel never loses: it reads and computes what its parts do, at the same points, and stores less.  Programs of
hundreds of such operations (random bits, polynomials) would otherwise be grown one operation at a time.
"""

from __future__ import annotations

from polyfuse.grouping.moves import merged
from polyfuse.grouping.queue import Queue


def join_chains(queue: Queue) -> None:
    """Make the kernels of all such groups that are legal and no dearer, in a partition of single statements."""
    state = queue.state
    for values in _groups(queue):
        move = merged(state, frozenset(state.owner[v] for v in values))
        trial = queue.trial(move)
        if trial.gain >= 0 and trial.kernels and queue.refusal(move, trial):
            state.replace(move.old, trial.kernels)


def _groups(queue: Queue) -> list[list[int]]:
    """Stored values by the last value of their group, groups of one left out."""
    state = queue.state
    last: dict[int, int] = {}
    for value in sorted(state.owner, reverse=True):  # readers before what they read
        readers = [state.kernels[k].name for k in state.readers[value]]
        ends = {last[r] for r in readers}
        inside = not state.pinned[value] and all(state.costs.is_elementwise(value, r) for r in readers)
        last[value] = ends.pop() if inside and len(ends) == 1 else value
    groups: dict[int, list[int]] = {}
    for value in sorted(last):
        groups.setdefault(last[value], []).append(value)
    return [group for group in groups.values() if len(group) > 1]
