"""Output arrays from a pool of large, aligned regions.

The first touch of fresh memory costs more than most kernels: 24 ms for 64 MB in pages of 4 KB, 2.6 ms in huge pages,
nothing when a region is used again.  An array holds a lease on its region; views, buffers and tensors made from it keep
the lease alive, and only when the last of them is gone does the region return to the pool.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

ALIGNMENT = 64
# Below this NumPy's own allocator is as fast, as its memory is already mapped.
SMALLEST = 64 * 1024
HUGE_PAGE = 2 * 1024 * 1024


class _Region:
    """Anonymous memory of one size class, in huge pages where the system has them."""

    __slots__ = ("address", "memory", "size")

    def __init__(self, size: int) -> None:
        slack = HUGE_PAGE if size >= HUGE_PAGE else 0
        if hasattr(mmap, "MAP_PRIVATE"):  # shared memory, the default, would be written by forked children too
            self.memory = mmap.mmap(-1, size + slack, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        else:
            self.memory = mmap.mmap(-1, size + slack)
        if slack and hasattr(mmap, "MADV_HUGEPAGE"):
            self.memory.madvise(mmap.MADV_HUGEPAGE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.address = -(-start // HUGE_PAGE) * HUGE_PAGE if slack else start
        self.size = size


class _Lease:
    """What an array's memory belongs to: gives the region back when nothing refers to it any more."""

    __slots__ = ("__array_interface__", "__weakref__", "pool", "region")

    def __init__(self, pool: Pool, region: _Region, nbytes: int) -> None:
        self.pool, self.region = pool, region
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (region.address, False),
        }

    def __del__(self) -> None:
        self.pool.give_back(self.region)


class Pool:
    """Regions by size class.  `limit`: bytes that may lie unused; a region given back beyond it is unmapped.

    All methods may run in any thread, and `give_back` also inside the garbage collector: it takes no lock.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._free: dict[int, deque[_Region]] = {}

    def take(self, nbytes: int) -> _Region:
        """A region of at least `nbytes`; its contents are arbitrary."""
        size = size_class(nbytes)
        try:
            return self._free[size].pop()
        except (KeyError, IndexError):
            pass
        try:
            return _Region(size)
        except OSError as error:
            self.clear()
            try:
                return _Region(size)
            except OSError:
                raise MemoryError(f"no memory for an array of {nbytes} bytes") from error

    def give_back(self, region: _Region) -> None:
        """Keep `region` for the next `take`, or unmap it."""
        if self.unused_bytes() + region.size <= self.limit:
            free = self._free.get(region.size)
            if free is None:
                free = self._free.setdefault(region.size, deque())
            free.append(region)

    def unused_bytes(self) -> int:
        """Bytes of regions that wait to be used again."""
        return sum(size * len(free) for size, free in list(self._free.items()))

    def clear(self) -> None:
        """Unmap every unused region."""
        for free in list(self._free.values()):
            free.clear()

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """An uninitialised C-ordered array on a lease."""
        nbytes = math.prod(shape) * dtype.itemsize
        lease = _Lease(self, self.take(nbytes), nbytes)
        return np.ndarray(shape, dtype, buffer=np.asarray(lease).data)


def size_class(nbytes: int) -> int:
    """`nbytes` rounded up to four steps per power of two: at most a quarter of a region is wasted."""
    step = max(1 << max(nbytes.bit_length() - 3, 0), 4096)
    return -(-nbytes // step) * step


def _usual_limit() -> int:
    """A sixteenth of the machine's memory, at most 2 GB."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 512 << 20
    return min(total // 16, 2 << 30)


POOL = Pool(_usual_limit())


def empty(shape: int | Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An uninitialised C-ordered array, as `np.empty`; from `SMALLEST` bytes on aligned to `ALIGNMENT` and pooled."""
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    element = np.dtype(dtype)
    if math.prod(extents) * element.itemsize < SMALLEST:
        return np.empty(extents, element)
    return POOL.array(extents, element)
