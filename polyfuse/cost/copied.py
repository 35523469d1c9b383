"""What tiles take that asynchronous copies bring: see `polyfuse.places.copied`."""

from __future__ import annotations

from math import ceil

from polyfuse.affine import ZERO, Affine
from polyfuse.cost.counts import Sizes
from polyfuse.schedule import KernelSchedule, Placed
from polyfuse.scop import Scop
from polyfuse.target import Target

LINE = 128  # bytes that the banks of shared memory take in one pass
ENDING = 12
"""Instructions beside an asynchronous copy of a vector that ends of rows cut."""
COPIED_END = 96
"""Bytes that are as good as read beside a piece of a row that asynchronous copies bring: its ends lie in sectors, and
lines, of which other blocks copy the rest.  On an H200, in pieces of 480, 405, 262, 240 and 202 bytes, 149, 84, 158, 83
and 49 us, where 134, 72, 134, 72 and 40 were predicted without (`polyfuse/strategies/copied_tiles.py`)."""


def copies(
    scop: Scop, schedule: KernelSchedule, target: Target, load: Placed, elements: int
) -> tuple[float, float]:
    """(passes of the banks, instructions) of the copies of all blocks, of which a thread makes those of `elements`:
    what they bring goes by registers and lines."""
    width = next(box.copied for box in schedule.shared if box.value == load.value)
    made = elements * ceil(schedule.threads / target.warp) / width
    moved = width * scop.dtype(load.value, load.component).itemsize
    return made * ceil(target.warp * moved / LINE), made * (1 + ENDING)


def copied_ends(scop: Scop, load: Placed, schedule: KernelSchedule, sizes: Sizes) -> float:
    """What the ends of pieces add to the reads of copies, in proportion; 0 for other loads."""
    last, extent = load.place[-1] if load.place else ZERO, scop.shape(load.value)[-1:]
    if load.name not in schedule.copied_loads() or not isinstance(last, Affine):
        return 0.0
    steps = [abs(last.coefficient(f"${d.name}")) for d in schedule.of_kind("block")]
    length, step = max(1, extent[0].evaluate(sizes.hints)), max(steps, default=0)
    piece = length / -(-length // step) if step else length
    return COPIED_END / (piece * scop.dtype(load.value, load.component).itemsize)
