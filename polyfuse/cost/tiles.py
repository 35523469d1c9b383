"""What contractions take that multiply tiles of shared memory: trips in each of which a block loads tiles, puts them
where all its threads read them, and multiplies."""

from __future__ import annotations

from collections.abc import Callable

from polyfuse.cost.counts import Sizes, placed_operations
from polyfuse.cost.phases import SCHEDULERS
from polyfuse.cost.traffic import Traffic
from polyfuse.places.products import folded_products
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.target import Target
from polyfuse.terms import Expr

TILED = (1.3, 0.4)
"""How much longer operations take between barriers and masks than at their rate, and the part of the passes of shared
memory that nothing hides.  On an H200, of float32: products of 4096 x 4096 in tiles of 128 x 128 4411 us, 128 x 64
4924, 64 x 64 5114, where operations alone take 2290; x.T @ x of 16384 x 1024, whose tiles are read as they lie, 1811,
1086 and 1237, where they take 1185, 591 and 591."""
NEAR = 0.3e-6
"""Seconds of a round trip to the last-level cache."""


def trips_of_tiles(scop: Scop, schedule: KernelSchedule, sizes: Sizes) -> int:
    """Trips of a block that put tiles into shared memory to multiply them; 0 for other kernels."""
    puts = [p for p in schedule.placed if p.role == "put"]
    loops = {loop for p in puts for loop, _ in p.path if sizes.kind[loop] == "loop"}
    return sizes.product(loops) if loops and folded_products(scop, schedule) else 0


def multiplying(
    scop: Scop,
    schedule: KernelSchedule,
    target: Target,
    sizes: Sizes,
    blocks: int,
    compute: float,
    lines: float,
    body: Callable[[Expr], Expr],
) -> float:
    """Seconds of the operations of all blocks, which take `compute` at their rate, and of the passes of shared memory,
    which take `lines`: between barriers there is time for what else is computed."""
    folded = folded_products(scop, schedule)
    products = [p for p in schedule.placed if p.name in folded or p.name in folded.values()]
    alone = sum([placed_operations(scop, p, sizes, schedule.threads, body) for p in products]) / target.flops
    return max(TILED[0] * alone * max(1.0, target.processors / blocks), compute) + TILED[1] * lines


def in_trips(
    schedule: KernelSchedule, target: Target, moved: Traffic, trips: int, compute: float, blocks: int, resident: int
) -> float:
    """Seconds of a wave of blocks, each of which loads, puts and computes in so many `trips` one behind the other, then
    stores, while those `resident` beside it compute in turn; `compute`: of all blocks.  On an H200, tiles of 32 x 32 x
    32 of two arrays of 2**20 x 32: 1.25 us a trip in 132 and in 264 blocks of 64 threads, 0.8 where each loads a trip
    ahead."""
    beside = max(1.0, resident / target.processors)
    alone = min(blocks, target.processors) / blocks  # the part of all that a block has on a processor of its own
    far = min(1.0, moved.read / max(1, moved.cache_read))
    load = NEAR + (target.latency - NEAR) * far
    work = compute * alone / trips
    each = work * max(1.0, SCHEDULERS * target.warp / schedule.block_threads)
    trip = max(load, each) if schedule.ahead or schedule.rings else load + each
    return target.latency + trips * max(trip, beside * work) + beside * moved.written * alone / target.bandwidth
