"""Compile-time layouts and pointers of the NumPy runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

from polyfuse.backends.interpreter.fragment import FragmentError
from polyfuse.backends.interpreter.memory import Memory
from polyfuse.backends.interpreter.special import Array
from polyfuse.backends.interpreter.tracker import Ints


@dataclass(frozen=True, slots=True)
class Size:
    """A launch-time size in a `Tile`: ``3 * Size("N")``."""

    name: str
    factor: int = 1

    def __rmul__(self, factor: int) -> Size:
        return Size(self.name, self.factor * factor)


@dataclass(frozen=True, slots=True)
class Tile:
    """A compile-time layout: the element offset of each slot, and how many slots, or elements of memory, are one
    access."""

    shape: tuple[int, ...]
    strides: tuple[Union[int, Size], ...]
    vector: int = 1
    span: int = 1
    first: int = 0

    def offsets(self, sizes: Sequence[int]) -> Ints:
        """Offsets of all slots, of the tile's shape."""
        names = list(dict.fromkeys(s.name for s in self.strides if isinstance(s, Size)))
        if len(names) != len(sizes):
            raise FragmentError(f"a tile with the sizes {names} got {len(sizes)} values")
        values = dict(zip(names, sizes, strict=True))
        total = np.full(self.shape, self.first, np.int64)
        for axis, (extent, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            step = stride.factor * values[stride.name] if isinstance(stride, Size) else stride
            lead = [1] * len(self.shape)
            lead[axis] = extent
            total = total + step * np.arange(extent, dtype=np.int64).reshape(lead)
        return total


@dataclass(frozen=True, slots=True)
class Pointer:
    """A place in a memory: `origin` elements from its start; `copies` elements per block in shared memory."""

    memory: Memory
    origin: Array | int
    copies: int = 0
