"""What a flat walk touches of arrays that it goes through along every dimension by itself: sliced, reversed or in
another order than what it writes.

Where it is in such an array is no affine expression of its place, so a few warps and a block are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
import numpy.typing as npt

from polyfuse.affine import Affine
from polyfuse.banks import BANKS, WORD
from polyfuse.cost.counts import Sizes
from polyfuse.schedule import KernelSchedule, Placed, PlaceEntry
from polyfuse.scop import Scop
from polyfuse.unravelled import Unravelled

Places = npt.NDArray[np.int64]

LINE, SECTOR = 128, 32  # bytes
TAGS = 4  # lines that an access finds in one cycle
WARPS = 5  # that are looked at


def goes_apart(place: Sequence[PlaceEntry]) -> bool:
    """Whether a walk goes through an array along dimensions by themselves, and not along a row of it that lie apart."""
    walked = [entry for entry in place if isinstance(entry, Unravelled)]
    data = any(isinstance(entry, str) for entry in place)
    return bool(walked) and not data and (len(place) > 1 or not walked[0].is_plain)


def passes(scop: Scop, load: Placed, schedule: KernelSchedule, sizes: Sizes, warp: int) -> float:
    """Of the first-level cache for one access of a warp, on average."""
    flat, itemsize = _flat(load), scop.dtype(load.value, load.component).itemsize
    apart = np.zeros(1, np.int64)
    for d in (d for d in schedule.of_kind("thread") if d.stride < warp):
        lanes = np.arange(min(d.count, warp // d.stride), dtype=np.int64)
        apart = (apart[:, None] + flat.coefficient(f"${d.name}") * lanes).ravel()
    last = max(0, _length(flat, sizes) - int(apart.max()) - 1)
    found = []
    for first in np.linspace(0, last, WARPS).astype(np.int64):
        touched = itemsize * _positions(scop, load, sizes, first + apart)
        words = np.unique(touched // WORD)
        fullest = int(np.bincount(words % BANKS).max())
        found.append(max(fullest, ceil(len(np.unique(touched // LINE)) / TAGS)))
    return sum(found) / len(found)


def block_sectors(scop: Scop, loads: Sequence[Placed], sizes: Sizes) -> int:
    """Bytes of the sectors of an array that one block reads in any of `loads`."""
    flat, itemsize = _flat(loads[0]), scop.dtype(loads[0].value, loads[0].component).itemsize
    count = min(sizes.product(loads[0].digits(), ("thread", "slot")), _length(flat, sizes))
    walked = (_length(flat, sizes) - count) // 2 + np.arange(count, dtype=np.int64)
    sectors = [itemsize * _positions(scop, load, sizes, walked) // SECTOR for load in loads]
    return SECTOR * len(np.unique(np.concatenate(sectors)))


def sectors_used(scop: Scop, load: Placed, sizes: Sizes) -> float:
    """Bytes of the sectors of a block over those that it uses of them."""
    used = sizes.product(load.digits(), ("thread", "slot")) * scop.dtype(load.value, load.component).itemsize
    return max(1.0, block_sectors(scop, [load], sizes) / used)


def _flat(load: Placed) -> Affine:
    return next(entry.flat for entry in load.place if isinstance(entry, Unravelled))


def _length(flat: Affine, sizes: Sizes) -> int:
    """Places of the walk, those of the last block that are none among them."""
    return 1 + sum([abs(factor) * (sizes.atoms.get(str(atom), 1) - 1) for atom, factor in flat.terms])


def _positions(scop: Scop, load: Placed, sizes: Sizes, walked: Places) -> Places:
    """In its array, of places of the walk."""
    found, stride = np.zeros_like(walked), 1
    for entry, extent in zip(reversed(load.place), reversed(scop.shape(load.value)), strict=True):
        if isinstance(entry, Unravelled):
            rows, length = entry.rows, max(1, entry.extent.evaluate(sizes.hints))
            at = walked % length if entry.in_row else walked // length
            at = at % max(1, rows.evaluate(sizes.hints)) if rows is not None else at
            found += stride * (entry.step * at + entry.first.evaluate(sizes.hints))
        stride *= max(1, extent.evaluate(sizes.hints))
    return found
