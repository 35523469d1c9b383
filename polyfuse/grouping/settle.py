"""Single values move over to a neighbouring kernel where that is cheaper."""

from __future__ import annotations

from collections.abc import Iterator

from polyfuse.grouping.moves import Move, advanced, cut, shifts
from polyfuse.grouping.partition import Partition
from polyfuse.grouping.queue import NEAR, Queue, Trial

MOST = 2 * NEAR  # roots of a kernel, and neighbours of it, that are tried
INNER = 32  # values on the way of a kernel that are tried
WORTH = 100  # see `settle`
TRIED = 4
"""Moves of a kernel that are priced before the best of them is made: of ten of a cross-entropy of rows of 50257 the
first won 4.5 us, the next two 4.3 and 4.2, and the others nothing."""


def settle(queue: Queue, done: set[int], worth: int = WORTH) -> None:
    """Try the kernels that are not in `done` (numbers are never reused) until no root wants to move.  `worth`: parts
    of what the kernels of a move take, of which it is to win one at least."""
    state = queue.state
    while todo := (set(state.kernels) if queue.window is None else queue.window) - done:
        for number in sorted(todo, key=state.names.__getitem__):
            if number in state.kernels:
                done.add(number)
                best = _best(queue, number, worth)
                if best is not None:
                    queue.make(*best)
                    queue.drain()


def neighbours(state: Partition, number: int) -> set[int]:
    """Producers, consumers and siblings of a kernel."""
    found = state.successors(number) | state.predecessors(number)
    found.update(*[state.readers[value] for value in state.kernels[number].loads])
    found.discard(number)
    return found


def _best(queue: Queue, number: int, worth: int) -> tuple[Move, Trial] | None:
    """The move that wins most; those that are hoped to win most are priced first."""
    best: tuple[Move, Trial] | None = None
    promising = [move for move in _moves(queue, number) if queue.bound(move) > 0]
    hopes = [(-queue.hoped(move), index, move) for index, move in enumerate(promising)]
    for hope, _, move in sorted(hopes, key=lambda found: found[:2])[:TRIED]:
        least = best[1].gain if best else _worthless(queue, move, worth)
        if -hope <= least:
            continue
        trial = queue.weighed(move, -hope)
        if trial.gain > least and queue.refusal(move, trial):
            best = move, trial
    return best


def _worthless(queue: Queue, move: Move, worth: int) -> int:
    """What a move may win and not be made."""
    return sum([queue.state.kernels[k].time for k in move.old]) // worth


def _moves(queue: Queue, number: int) -> Iterator[Move]:
    for move in (*_shifts(queue.state, number), *_advances(queue.state, number)):
        if queue.window is None or move.old <= queue.window:
            yield move


def _shifts(state: Partition, number: int) -> Iterator[Move]:
    roots = state.kernels[number].roots
    if not 1 < len(roots) <= MOST:
        return
    near = sorted(neighbours(state, number), key=state.names.__getitem__)
    for root in sorted(roots):
        for target in near[:MOST]:
            yield from shifts(state, root, target)
            move = cut(state, root, target)
            if move is not None:
                yield move


def _advances(state: Partition, number: int) -> Iterator[Move]:
    """Of values that a kernel computes on the way, those that one before it could compute as well."""
    kernel = state.kernels[number]
    inner = [value for value in sorted(kernel.body - kernel.roots) if value not in state.owner]
    if len(inner) <= INNER and state.predecessors(number):
        for value in inner:
            move = advanced(state, value, number)
            if move is not None:
                yield move
