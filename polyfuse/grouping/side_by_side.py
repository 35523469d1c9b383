"""Independent kernels in one launch, each in blocks of its own: the last move, made on the kernels that stand.

    k0 {w}   k1 {b}   k2 {s}, which loads w        one launch of k0 and k1, then k2

Kernels of equal depth in the kernel graph depend on each other neither directly nor through others, and launches of
such kernels have an order.  From the longest to the shortest each kernel goes to the launch of its depth where it gains
most.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from polyfuse.grouping.partition import KernelGroup
from polyfuse.verdict import Verdict, unprofitable

Launched = tuple[KernelGroup, ...]
"""The kernels of one launch, longest first."""


@dataclass(frozen=True, slots=True)
class Beside:
    """`fits`: whether these kernels may run side by side.  `price`: picoseconds of their launch."""

    fits: Callable[[Launched], Verdict]
    price: Callable[[Launched], int]


def side_by_side(
    kernels: Sequence[KernelGroup], beside: Beside, wanted: Sequence[Launched] = ()
) -> tuple[tuple[Launched, ...], Mapping[tuple[int, int], Verdict]]:
    """The launches in order, and per pair of kernel names why the second did not join the launch of the first: the last
    reason where there are several launches of its depth, none where it joined one.  `wanted`: kernels of equal depth
    that fit and share a launch whatever they cost."""
    open_: dict[int, list[Launched]] = {}
    log: dict[tuple[int, int], Verdict] = {}
    deep = depths(kernels)
    for launch in wanted:
        open_.setdefault(deep[launch[0].name], []).append(launch)
    kept = {kernel.name for launch in wanted for kernel in launch}
    for kernel in sorted((k for k in kernels if k.name not in kept), key=lambda k: (-k.time, k.name)):
        others = open_.setdefault(deep[kernel.name], [])
        found = _best(kernel, others, beside, log)
        if found is None:
            others.append((kernel,))
        else:
            others[found] = (*others[found], kernel)
            log = {pair: verdict for pair, verdict in log.items() if pair[1] != kernel.name}
    return _in_order([launch for others in open_.values() for launch in others], kernels), log


def _best(
    kernel: KernelGroup, others: Sequence[Launched], beside: Beside, log: dict[tuple[int, int], Verdict]
) -> int | None:
    """The number of the launch where the kernel wins most."""
    best, most = None, 0
    for number, launch in enumerate(others):
        verdict = beside.fits((*launch, kernel))
        if verdict:
            gain = beside.price(launch) + kernel.time - beside.price((*launch, kernel))
            if gain > most:
                best, most = number, gain
            verdict = unprofitable(f"side by side they are {-gain / 1e6:g} us slower")
        log[launch[0].name, kernel.name] = verdict
    return best


def depths(kernels: Sequence[KernelGroup]) -> Mapping[int, int]:
    """Per value that one of `kernels`, which are in launch order, stores: how many launches come before at least."""
    found: dict[int, int] = {}
    for kernel in kernels:
        found |= dict.fromkeys(kernel.roots, depth(kernel, found))
    return found


def depth(kernel: KernelGroup, stored: Mapping[int, int]) -> int:
    """One more than the deepest value that the kernel loads, by the depths of stored values."""
    return 1 + max((stored[value] for value in kernel.loads if value in stored), default=-1)


def _in_order(launches: Sequence[Launched], kernels: Sequence[KernelGroup]) -> tuple[Launched, ...]:
    """The topological order that always takes the launch of the least name next."""
    owner = {root: number for number, launch in enumerate(launches) for kernel in launch for root in kernel.roots}
    before = [{owner[v] for k in launch for v in k.loads if v in owner} for launch in launches]
    after: dict[int, list[int]] = {}
    for number, earlier in enumerate(before):
        for other in earlier:
            after.setdefault(other, []).append(number)
    waiting = [len(earlier) for earlier in before]
    names = [min(kernel.name for kernel in launch) for launch in launches]
    ready = [(names[n], n) for n, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    order = list[Launched]()
    while ready:
        number = heapq.heappop(ready)[1]
        order.append(launches[number])
        for other in after.get(number, ()):
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, (names[other], other))
    assert sum(map(len, order)) == len(kernels), "launches that wait for each other"
    return tuple(order)
