"""Where the search begins in programs whose kernels take little more than their launches: at the longest stretches of
them that one kernel computes in less than two launches, or in a small part of what they take apart.

    k0 4.2 us -> k1 4.3 us -> ... -> k99 4.2 us          s0 {k0 .. k63} 15 us -> s1 {k64 .. k99} 8 us

Two kernels take two launches, whatever they compute.  Grown by one statement after another the kernel of a stretch
would be priced at every size, and loops that were unrolled (factorisations, substitutions) have hundreds of statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from polyfuse.grouping.moves import Move, merged
from polyfuse.grouping.queue import Queue, Trial

LIGHT, PART = 2.0, 0.1
"""Launches that a light kernel takes at most, and the part of what kernels take that one of all of them may.  With
0.06 a substitution of 64 columns takes five times the work; with 0.25 an elimination of 64 is 122 us long, not 103."""

SHARE = 0.25
"""Of what the search may cost, what stretches may: long ones that are refused cost as much as those that are made."""

REST = 0.5
"""Of what the search may cost, what it may where it begins at stretches: 10 of an elimination of 64 columns took 35,000
units, and 69,000 more changed nothing."""

EXPECTED = 15
"""Work of pricing a stretch per statement, so that what is left is not spent on one: 5 to 10 where each statement is
placed about once, 43 for an elimination whose readers compute everything again."""

CLOSE = 4
"""The longest stretch is looked for to one part in so many, from the length of the one before: what is refused costs
more than what is made, and of 63 steps of an elimination stretches of 11 to 14 are made."""


def join_stretches(queue: Queue) -> None:
    """Make the kernels of all such stretches that are legal.  Where they hold most of a program less is left."""
    before = len(queue.state.kernels)
    _join_all(queue)
    if 2 * len(queue.state.kernels) < before:
        queue.allowance = queue.allowance.part(REST)


def _join_all(queue: Queue) -> None:
    none = frozenset[int]()
    launch = queue.state.costs.floor(none, none)
    limit = queue.work + SHARE * (queue.allowance.large - queue.work)
    for light in _light(queue, LIGHT * launch):
        for run in _connected(queue, light):
            hoped = len(run)
            while len(run) > 1 and queue.work + 2 * EXPECTED <= limit:
                taken = _join_longest(queue, run, min(hoped, int(limit - queue.work) // EXPECTED), 2 * launch)
                run, hoped = run[taken:], taken


def _light(queue: Queue, most: float) -> Iterator[list[int]]:
    """Kernels that follow each other in the launch order, cut where one takes longer than `most`."""
    run = list[int]()
    for number in queue.state.in_launch_order():
        if queue.state.kernels[number].time <= most:
            run.append(number)
        else:
            yield run
            run = []
    yield run


def _connected(queue: Queue, run: Sequence[int]) -> Iterator[list[int]]:
    """The parts of a run that read nothing of each other, each in launch order and, as the run, closed under paths."""
    state, place = queue.state, {number: k for k, number in enumerate(run)}
    left = dict(place)
    while left:
        found, todo = set[int](), [next(iter(left))]
        while todo:
            number = todo.pop()
            if number in left:
                found.add(number)
                del left[number]
                todo += [*state.predecessors(number), *state.successors(number)]
        yield sorted(found, key=place.__getitem__)


def _join_longest(queue: Queue, run: Sequence[int], hoped: int, most: int) -> int:
    """Make one kernel of the longest beginning of `run` that may be one and takes no longer than `most`; how many
    kernels that was.  Halves of what is `hoped` for are tried until one may be, then more, then what is between."""
    best: tuple[Move, Trial] | None = None
    taken, refused, size = 1, len(run) + 1, min(hoped, len(run))
    while taken < size < refused:
        found = _stretch(queue, run[:size], most)
        if found is None:
            refused = size
        else:
            best, taken = found, size
        if best is None:
            size //= 2
        elif refused > len(run):
            size = min(taken + 1 + taken // CLOSE, len(run))
        else:
            size = (taken + refused) // 2 if refused - taken > 1 + taken // CLOSE else taken
    if best is not None:
        queue.state.replace(best[0].old, best[1].kernels)
    return taken


def _stretch(queue: Queue, kernels: Sequence[int], most: int) -> tuple[Move, Trial] | None:
    """These kernels as one, unless it takes longer than `most` and than a part of what they take, or may not be."""
    move = merged(queue.state, frozenset(kernels))
    most = max(most, int(PART * sum(queue.state.kernels[k].time for k in kernels)))
    trial = queue.weighed(move, queue.bound(move))
    fits = trial.gain > 0 and trial.kernels and trial.kernels[0].time <= most
    return (move, trial) if fits and queue.refusal(move, trial) else None
