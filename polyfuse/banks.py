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


def lane_turns(positions: np.ndarray, itemsize: int) -> float:
    """Turns that a warp takes on average for single elements at these positions, one per lane."""
    warps = [positions[k : k + WARP] * itemsize // WORD for k in range(0, len(positions), WARP)]
    return sum([fullest(set(words.tolist())) for words in warps]) / len(warps)
