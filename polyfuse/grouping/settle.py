"""Single roots move over to a neighbouring kernel where that is cheaper."""

from __future__ import annotations

from collections.abc import Iterator

from polyfuse.grouping.moves import Move, cut, shifts
from polyfuse.grouping.partition import Partition
from polyfuse.grouping.queue import NEAR, Queue, Trial

MOST = 2 * NEAR  # roots of a kernel, and neighbours of it, that are tried


def settle(queue: Queue, done: set[int]) -> None:
    """Try the kernels that are not in `done` (numbers are never reused) until no root wants to move."""
    state = queue.state
    while todo := (set(state.kernels) if queue.window is None else queue.window) - done:
        for number in sorted(todo, key=state.names.__getitem__):
            if number in state.kernels:
                done.add(number)
                best = _best(queue, number)
                if best is not None:
                    queue.make(*best)
                    queue.drain()


def neighbours(state: Partition, number: int) -> set[int]:
    """Producers, consumers and siblings of a kernel."""
    found = state.successors(number) | state.predecessors(number)
    found.update(*[state.readers[value] for value in state.kernels[number].loads])
    found.discard(number)
    return found


def _best(queue: Queue, number: int) -> tuple[Move, Trial] | None:
    best: tuple[Move, Trial] | None = None
    for move in _shifts(queue, number):
        least = best[1].gain if best else 0
        if queue.bound(move) > least and (hoped := queue.hoped(move)) > least:
            trial = queue.weighed(move, hoped)
            if trial.gain > least and queue.refusal(move, trial):
                best = move, trial
    return best


def _shifts(queue: Queue, number: int) -> Iterator[Move]:
    state = queue.state
    roots = state.kernels[number].roots
    if not 1 < len(roots) <= MOST:
        return
    near = neighbours(state, number)
    if queue.window is not None:
        near &= queue.window
    for root in sorted(roots):
        for target in sorted(near, key=state.names.__getitem__)[:MOST]:
            yield from shifts(state, root, target)
            move = cut(state, root, target)
            if move is not None and (queue.window is None or move.old <= queue.window):
                yield move
