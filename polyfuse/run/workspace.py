"""Global intermediates of a plan in one allocation per call, and counters that outlive calls.

Offsets are interval packing: buffers whose lifetimes meet get disjoint ranges; largest first, each at the lowest
offset that fits (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020: greedy by size).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyfuse.bindings import Buffer, FromArgument, FromBuffer
from polyfuse.dtypes import u8
from polyfuse.run.arrays import Device, Library

ALIGNMENT = 256  # bytes: what CUDA allocators give, and a multiple of every vector and cache line


@dataclass(frozen=True, slots=True)
class Placement:
    """Byte offsets of buffers by name, inside `total` bytes."""

    offsets: Mapping[str, int] = field(hash=False)
    total: int


def buffer_bytes(buffer: Buffer, sizes: Mapping[str, int]) -> int:
    count = buffer.dtype.itemsize
    for extent in buffer.extents(sizes):
        count *= extent
    return count


@dataclass(frozen=True, slots=True)
class Region:
    """Memory that buffers hold in turn: the first by `name`, all of them from step `first` to step `last`."""

    name: str
    first: int
    last: int
    bytes: int


def regions(buffers: Sequence[Buffer], sizes: Mapping[str, int]) -> list[Region]:
    """The memory that a plan needs for its intermediates; those in donated arguments and counters need none."""
    found: dict[str, Region] = {}
    for buffer in sorted(buffers, key=lambda b: b.first):
        if buffer.zeroed or isinstance(buffer.within, FromArgument):
            continue
        name, need = buffer.within.name if buffer.within is not None else buffer.name, buffer_bytes(buffer, sizes)
        known = found.get(name, Region(name, buffer.first, buffer.last, need))
        found[name] = Region(name, known.first, max(known.last, buffer.last), max(known.bytes, need))
    return list(found.values())


def pack(buffers: Sequence[Buffer], sizes: Mapping[str, int]) -> Placement:
    """Offsets for `buffers`; two share bytes only where their lifetimes (steps, ends included) are disjoint, or where
    the planner proved that one takes over the memory of the other."""
    needs = [(-(-r.bytes // ALIGNMENT) * ALIGNMENT, r) for r in regions(buffers, sizes)]
    placed: list[tuple[int, int, Region]] = []  # first byte, last byte + 1
    for need, region in sorted(needs, key=lambda pair: (-pair[0], pair[1].first, pair[1].name)):
        offset = 0
        for low, high, other in sorted(placed, key=lambda entry: entry[0]):
            apart = other.last < region.first or region.last < other.first
            if not apart and low < offset + need and offset < high:
                offset = high
        placed.append((offset, offset + need, region))
    at = {region.name: low for low, _, region in placed}
    inside = {b.name: at[b.within.name] for b in buffers if isinstance(b.within, FromBuffer)}
    return Placement(at | inside, max((high for _, high, _ in placed), default=0))


class Counters:
    """Zeroed memory for last-block reductions: one block per device and stream, grown on demand.

    Kernels leave every counter at zero, and launches on one stream follow each other, so that all plans may share it.
    On the host a "stream" is a thread.  While a CUDA graph is captured each call gets memory of its own, as its replays
    may run beside other launches of the same stream: from a reserve that is zero already or, once that is spent, zeroed
    inside the graph, which is one more launch in every replay (sum of a million squares on an H100: 6.0 us, 4.4).
    """

    def __init__(self) -> None:
        self._streams: dict[tuple[Device, int], Any] = {}
        self._threads = threading.local()

    def take(self, library: Library, device: Device, stream: int, size: int) -> Any:
        """At least `size` zero bytes, as an array of `library` that must stay alive until the launches are queued."""
        if library.is_capturing(device):
            reserved = _reserved(library, device, size)
            return self._fresh(library, device, size) if reserved is None else reserved
        if device.kind == "cpu":
            held = getattr(self._threads, "memory", {})
            if library.name not in held or held[library.name][0] < size:
                held = self._threads.memory = held | {library.name: (size, self._fresh(library, device, size))}
            return held[library.name][1]
        known = self._streams.get((device, stream))
        if known is None or known[0] < size:  # two threads may both come here: each then has counters of its own
            known = self._streams[device, stream] = (size, self._fresh(library, device, size))
        return known[1]

    def _fresh(self, library: Library, device: Device, size: int) -> Any:
        memory = library.allocator((size,), u8, device)()
        library.zero(memory)
        return memory


RESERVED = 1 << 16
"""Bytes of zeros per array library and device for counters of captured calls: those of 256, few of which need more."""


@dataclass(slots=True)
class _Reserve:
    memory: Any
    used: int = 0


_RESERVES: dict[tuple[str, Device], list[_Reserve]] = {}
"""For good, also what is spent: a graph that counts there may outlive the function that it captured."""
_RESERVING = threading.Lock()


def reserve(library: Library, device: Device) -> bool:
    """Have zeros for captured calls of functions that count, before anything is captured.  Whether they are new: then
    the device is to be waited for, as replays may run on any stream."""
    if device.kind == "cpu" or library.is_capturing(device):
        return False
    with _RESERVING:
        known = _RESERVES.setdefault((library.name, device), [])
        if known and known[-1].used + ALIGNMENT <= RESERVED:
            return False
        known.append(_Reserve(library.upload(np.zeros(RESERVED, np.uint8), device)))
        return True


def _reserved(library: Library, device: Device, size: int) -> Any | None:
    """So many bytes that no other call has had; None where too few are left."""
    with _RESERVING:
        known = _RESERVES.get((library.name, device))
        need = -(-size // ALIGNMENT) * ALIGNMENT
        if not known or known[-1].used + need > RESERVED:
            return None
        known[-1].used += need
        return library.view(known[-1].memory, known[-1].used - need, (size,), u8)
