"""Kernels that need share no value: as one body over the same blocks they save a launch."""

from __future__ import annotations

from polyfuse.grouping.queue import NEAR, Queue


def pack(queue: Queue) -> None:
    """Offer neighbours among the kernels of equal depth in the kernel graph."""
    state = queue.state
    depth: dict[int, int] = {}
    for number in sorted(state.kernels, key=state.order.position.__getitem__):
        depth[number] = 1 + max((depth[k] for k in state.predecessors(number)), default=-1)
    inside = state.kernels if queue.window is None else queue.window
    sequence = sorted(inside, key=lambda k: (depth[k], state.names[k]))
    for index, number in enumerate(sequence):
        for other in sequence[index + 1 : index + 1 + NEAR]:
            if not _apart(queue, number, other):
                queue.offer_join(number, other)
    queue.drain()


def _apart(queue: Queue, number: int, other: int) -> bool:
    """Whether two kernels share nothing, not even a size, so that blocks of their own are better than one body."""
    one, two = (queue.state.kernels[k] for k in (number, other))
    shares = not one.body.isdisjoint(two.body) or not one.loads.isdisjoint(two.loads)
    return not shares and queue.state.costs.blocks_apart(one.roots, two.roots)
