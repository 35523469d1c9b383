"""Ruin and recreate: what a greedy queue cannot undo.

A window of neighbouring kernels is taken apart into statements and rebuilt with perturbed scores; the result stays only
if it is cheaper (Schrimpf et al., "Record breaking optimization results using the ruin and recreate principle", 2000).
The perturbation is a hash of the round and of canonical names, so the search stays deterministic.
"""

from __future__ import annotations

from collections.abc import Hashable

from polyfuse.grouping.moves import apart
from polyfuse.grouping.pack import pack
from polyfuse.grouping.queue import Queue
from polyfuse.grouping.settle import neighbours, settle

WINDOW = 48  # statements taken apart at once


def shake(queue: Queue, done: set[int], limit: float) -> None:
    """One round: every kernel is in a window once.  `queue.salt` names the round.  `limit`: of work; over it no window
    is taken apart any more."""
    state, tried, vain = queue.state, set[int](), set[Hashable]()
    for name in sorted(state.names.values()):
        number = state.owner.get(name)
        if queue.work > limit:
            return
        if number is None or number in tried:
            continue
        window = _window(queue, number)
        if len(window) > 1 and not window <= tried:
            tried |= window
            like = _structure(queue, window)
            if like not in vain:
                rebuilt = _rebuild(queue, window, done)
                tried |= rebuilt
                if not rebuilt:
                    vain.add(like)


def _structure(queue: Queue, window: frozenset[int]) -> Hashable:
    """Equal for windows that are alike: in repeated layers what was vain in one is vain in the next."""
    state = queue.state
    kernels = [state.kernels[k] for k in sorted(window, key=state.names.__getitem__)]
    body = frozenset[int]().union(*[k.body for k in kernels])
    roots = state.needed(frozenset[int]().union(*[k.roots for k in kernels]), window)
    whole = state.costs.structure(body, roots, frozenset[int]().union(*[k.loads for k in kernels]) - body)
    parts = tuple([state.costs.structure(k.body, k.roots, k.loads) for k in kernels])
    return (whole, parts) if whole is not None else window


def _window(queue: Queue, number: int) -> frozenset[int]:
    """The kernel and its neighbours, nearest names first, as far as the statements allow.  What the user wants together
    stays as it is."""
    state = queue.state
    fixed = frozenset().union(*queue.judge.rules.together)
    window, size = set[int](), 0
    others = neighbours(state, number)
    for candidate in (number, *queue.nearest(number, others, WINDOW)):
        body = state.kernels[candidate].body
        if size + len(body) <= WINDOW and fixed.isdisjoint(body):
            window.add(candidate)
            size += len(body)
    return frozenset(window)


def _rebuild(queue: Queue, window: frozenset[int], done: set[int]) -> frozenset[int]:
    """Rebuild the kernels `window`; the kernels that stand there afterwards if that was cheaper, else none."""
    state = queue.state
    saved = {k: state.kernels[k] for k in sorted(window)}
    order, move = state.order.snapshot(), apart(state, window)
    fresh = state.replace(window, queue.trial(move).kernels)
    if fresh is None:  # a value was computed again because its owner waits for this kernel
        return frozenset()
    heap = queue.swap_heap([])
    queue.window = set(fresh)
    queue.origin = min([state.names[k] for k in fresh])
    for number in fresh:
        queue.offer_around(number)
    queue.drain()
    settle(queue, done)
    pack(queue)
    rebuilt, queue.window = frozenset(queue.window), None
    queue.swap_heap(heap)
    if sum(state.kernels[k].time for k in rebuilt) < sum(k.time for k in saved.values()):
        for number in sorted(rebuilt):
            queue.offer_around(number)
        queue.drain()
        settle(queue, done)
        return frozenset(k for k in rebuilt if k in state.kernels)
    for number in rebuilt:
        state.remove(number)
    for number, kernel in saved.items():
        state.add(kernel, order[0][number], number)
    state.order.restore(order)
    return frozenset()
