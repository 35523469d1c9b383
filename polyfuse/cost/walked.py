"""What a flat walk touches of arrays that it goes through along every dimension by itself: sliced, reversed or in
another order than what it writes.

Where it is in such an array is no affine expression of its place, so a few warps and a block are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil

import numpy as np
import numpy.typing as npt

from polyfuse.affine import Affine
from polyfuse.banks import WORD, fullest
from polyfuse.cost.counts import Sizes
from polyfuse.cost.lines import LINE, SECTOR, TAGS
from polyfuse.schedule import KernelSchedule, Placed, PlaceEntry
from polyfuse.scop import Scop
from polyfuse.unravelled import Unravelled

Places = npt.NDArray[np.int64]

WARPS = 5  # that are looked at


def goes_apart(place: Sequence[PlaceEntry]) -> bool:
    """Whether a walk is somewhere else along each dimension of an array, rather than at one place of a row."""
    if Unravelled not in map(type, place):
        return False
    walked = [entry for entry in place if isinstance(entry, Unravelled)]
    data = any(isinstance(entry, str) for entry in place)
    return bool(walked) and not data and (len(place) > 1 or not walked[0].is_plain)


def passes(scop: Scop, load: Placed, schedule: KernelSchedule, sizes: Sizes, warp: int) -> float:
    """Of the first-level cache for one access of a warp, on average."""
    flat, itemsize = _flat(load), scop.dtype(load.value, load.component).itemsize
    threads = [d for d in schedule.of_kind("thread") if d.stride < warp]
    lanes = tuple([(flat.coefficient(f"${d.name}"), min(d.count, warp // d.stride)) for d in threads])
    return _passes(_way(scop, load, sizes)[0], lanes, _length(flat, sizes), itemsize)


def block_sectors(scop: Scop, loads: Sequence[Placed], sizes: Sizes) -> int:
    """Bytes of the sectors of an array that one block reads in any of `loads`."""
    flat, itemsize = _flat(loads[0]), scop.dtype(loads[0].value, loads[0].component).itemsize
    ways = tuple(dict.fromkeys([_way(scop, load, sizes) for load in loads]))
    return _sectors(ways, sizes.product(loads[0].digits(), ("thread", "slot")), _length(flat, sizes), itemsize)


def sectors_used(scop: Scop, load: Placed, sizes: Sizes) -> float:
    """Bytes of the sectors of a block over those that it uses of them, wherever it begins."""
    itemsize, count = scop.dtype(load.value, load.component).itemsize, sizes.product(load.digits(), ("thread", "slot"))
    way = (_way(scop, load, sizes)[0], 0)
    return max(1.0, _sectors((way,), count, _length(_flat(load), sizes), itemsize) / (count * itemsize))


Steps = tuple[tuple[int, int, int, bool], ...]
"""Per dimension that is walked along: elements of memory from one place to the next, elements of the walk in a row,
rows that belong together (0: all), and whether the place is that in the row."""


def _flat(load: Placed) -> Affine:
    return next(entry.flat for entry in load.place if isinstance(entry, Unravelled))


def _length(flat: Affine, sizes: Sizes) -> int:
    """Places of the walk, those of the last block that are none among them."""
    return 1 + sum([abs(factor) * (sizes.atoms.get(str(atom), 1) - 1) for atom, factor in flat.terms])


def _way(scop: Scop, load: Placed, sizes: Sizes) -> tuple[Steps, int]:
    """How a walk goes through an array, and the element that it begins with."""
    steps, first, stride = list[tuple[int, int, int, bool]](), 0, 1
    for entry, extent in zip(reversed(load.place), reversed(scop.shape(load.value)), strict=True):
        if isinstance(entry, Unravelled):
            rows = 0 if entry.rows is None else max(1, entry.rows.evaluate(sizes.hints))
            length = max(1, entry.extent.evaluate(sizes.hints))
            steps.append((stride * entry.step, length, rows, entry.in_row))
            first += stride * entry.first.evaluate(sizes.hints)
        stride *= max(1, extent.evaluate(sizes.hints))
    return tuple(steps), first


def _positions(steps: Steps, walked: Places) -> Places:
    """Elements of memory behind the first, of places of the walk."""
    found = np.zeros_like(walked)
    for stride, length, rows, in_row in steps:
        at = walked % length if in_row else walked // length
        found += stride * (at % rows if rows else at)
    return found


@lru_cache(maxsize=4096)
def _passes(steps: Steps, lanes: tuple[tuple[int, int], ...], length: int, itemsize: int) -> float:
    apart = np.zeros(1, np.int64)
    for step, count in lanes:
        apart = (apart[:, None] + step * np.arange(count, dtype=np.int64)).ravel()
    found = []
    for first in np.linspace(0, max(0, length - int(apart.max()) - 1), WARPS).astype(np.int64):
        touched = itemsize * _positions(steps, first + apart)
        words = np.unique(touched // WORD).tolist()
        found.append(max(fullest(words), ceil(len(np.unique(touched // LINE)) / TAGS)))
    return sum(found) / len(found)


@lru_cache(maxsize=4096)
def _sectors(ways: tuple[tuple[Steps, int], ...], count: int, length: int, itemsize: int) -> int:
    count = min(count, length)
    walked = (length - count) // 2 + np.arange(count, dtype=np.int64)
    known: dict[Steps, Places] = {}
    touched = []
    for steps, first in ways:
        if steps not in known:
            known[steps] = _positions(steps, walked)
        touched.append(itemsize * (known[steps] + first) // SECTOR)
    return SECTOR * len(np.unique(np.concatenate(touched)))
