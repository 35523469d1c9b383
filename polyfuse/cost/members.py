"""The price of kernels side by side in one launch, from what each of them costs alone.

    time = launch + max(the longest member, bytes / bandwidth, operations / rate, sum of time x share of the device)

The first three hold for any schedule of the blocks, and so does the last (the area bound of list scheduling: Graham,
Bounds on multiprocessing timing anomalies, 1969).  Registers and shared memory are allocated alike for all blocks of a
launch: a member that fewer blocks of fit on the device than when it is alone takes longer by as much.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyfuse.cost.counts import Cost
from polyfuse.target import Target


def price_together(costs: Sequence[Cost], threads: int, target: Target) -> Cost:
    """The predicted cost of one launch of members with `threads` threads per block; `costs`: of each alone."""
    registers, shared = max(c.registers for c in costs), sum(c.shared for c in costs)
    occupancy = target.occupancy(threads, min(registers, target.registers_per_thread), shared)
    room = max(1, occupancy) * target.processors
    works, area = [0.0], 0.0
    for cost in costs:
        alone = min(cost.blocks, max(1, cost.occupancy) * target.processors)
        work = (cost.seconds - target.launch) * max(1.0, alone / room)
        works.append(work)
        area += work * min(1.0, cost.blocks / room)
    read, written = sum(c.bytes_read for c in costs), sum(c.bytes_written for c in costs)
    flops = sum(c.flops for c in costs)
    terms = {
        "memory": (read + written) / target.bandwidth,
        "compute": flops / target.flops,
        "latency": max(*works, area),
    }
    bound = max(terms, key=lambda name: terms[name])
    seconds = target.launch + terms[bound]
    if bound == "latency":
        bound = max(costs, key=lambda c: c.seconds).bound
    return Cost(
        read, written, sum(c.cache_bytes for c in costs), flops, registers, shared, occupancy,
        sum(c.blocks for c in costs), seconds, bound if terms["latency"] >= target.launch else "launch",
    )  # fmt: skip
