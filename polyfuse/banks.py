"""The banks of shared memory: which words the lanes of a warp take together, and how many turns that takes.

32 banks have words of four bytes in turn; each serves one word at a time, however many lanes want it (CUDA C++
Programming Guide, shared memory).  Lanes that lie 32 words apart wait for each other, and those that lie 33 apart do
not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache

import numpy as np

from polyfuse.affine import Affine
from polyfuse.schedule import Digit

WARP, WARPS = 32, 4  # threads; of which the turns tell those of all
BANKS, WORD = 32, 4  # of words of so many bytes


def words(steps: tuple[tuple[int, int], ...], size: int) -> set[int]:
    """That an access takes whose lanes lie (distance in bytes, count) apart, for `size` bytes each."""
    starts = [0]
    for step, count in steps:
        starts = [start + step * k for start in starts for k in range(count)]
    return {(start + byte) // WORD for start in starts for byte in range(0, size, min(WORD, size))}


@lru_cache(maxsize=10_000)
def turns(steps: tuple[tuple[int, int], ...], size: int) -> int:
    """Words of its fullest bank."""
    return fullest(words(steps, size))


def fullest(taken: Collection[int]) -> int:
    """Of so many words, those in the bank that has the most."""
    return max(Counter([word % BANKS for word in taken]).values())


def at_lanes(index: Affine, digits: Iterable[Digit], threads: int) -> np.ndarray:
    """An index in the lanes of the first warps of a block, of so many threads, with all but the digits of threads at
    their first."""
    lanes = np.arange(min(threads, WARP * WARPS))
    values: dict[str, np.ndarray] = dict.fromkeys(index.names(), 0 * lanes)
    for digit in digits:
        if digit.kind == "thread":
            values[f"${digit.name}"] = lanes // digit.stride % digit.count
    found: np.ndarray = 0 * lanes + index.on_arrays(values)
    return found


def lane_turns(positions: np.ndarray, itemsize: int, width: int = 1) -> np.ndarray:
    """Turns that a warp takes on average for `width` elements at these positions, one per lane; or for several rows of
    positions, of which each is looked at by itself."""
    lanes = positions.shape[-1]
    rows, warps = positions.reshape(-1, lanes), -(-lanes // WARP)
    taken = [(rows * itemsize + byte) // WORD for byte in range(0, width * itemsize, min(WORD, width * itemsize))]
    words = np.stack(taken, axis=-1)
    words = words - words.min(initial=0) // BANKS * BANKS
    reach = int(words.max(initial=0)) + 1
    warp = np.arange(len(rows))[:, None] * warps + np.arange(lanes) // WARP
    met = np.unique(warp[..., None] * reach + words)
    counts = np.bincount(met // reach * BANKS + met % reach % BANKS, minlength=len(rows) * warps * BANKS)
    found: np.ndarray = counts.reshape(*positions.shape[:-1], warps, BANKS).max(axis=-1).mean(axis=-1)
    return found
