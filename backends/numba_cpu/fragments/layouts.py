"""How the slots of a fragment lie in LLVM vectors, and the compile-time layouts of tiles in memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from llvmlite import binding

Shape = tuple[int, ...]


def _lanes_per_vector() -> int:
    """Slots of one LLVM vector: two registers of float32 where registers are plenty, as both loads and arithmetic
    then overlap (32 lanes on AVX-512, measured 1.2 times faster than 16), one SSE or NEON pair elsewhere."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 32
    return 16 if features.get("avx2") else 8


LANES = _lanes_per_vector()


@dataclass(frozen=True, slots=True)
class VectorLayout:
    """`rows` rows over the leading axes, each cut along `axis` (the last one of extent > 1) into `chunks` of lanes."""

    axis: int | None
    rows: int
    chunks: tuple[int, ...]

    @property
    def vectors(self) -> int:
        return self.rows * len(self.chunks)

    @property
    def extent(self) -> int:
        return sum(self.chunks)

    def locate(self, slot: int) -> tuple[int, int]:
        """(vector, lane) of a slot numbered in C order."""
        row, position = divmod(slot, self.extent)
        chunk, lane = divmod(position, LANES)
        return row * len(self.chunks) + chunk, lane


@lru_cache(maxsize=4096)
def vector_layout(shape: Shape) -> VectorLayout:
    """The layout of a fragment of this shape: vectors of `LANES` lanes and one shorter vector for the rest."""
    wide = [axis for axis, extent in enumerate(shape) if extent > 1]
    if not wide:
        return VectorLayout(None, 1, (1,))
    axis = wide[-1]
    whole, rest = divmod(shape[axis], LANES)
    return VectorLayout(axis, math.prod(shape[:axis]), (LANES,) * whole + ((rest,) if rest else ()))


@dataclass(frozen=True, slots=True)
class Size:
    """A stride known at launch: ``Size("N")``, or ``3 * Size("N")``."""

    name: str
    factor: int = 1

    def __mul__(self, factor: int) -> Size:
        return Size(self.name, self.factor * factor)

    __rmul__ = __mul__


@dataclass(frozen=True, slots=True)
class Offset:
    """An element offset: a constant plus launch-time sizes times integers, ``((name, factor), ...)``."""

    constant: int
    terms: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Tile:
    """A fragment's layout in memory: slot ``(i, j, ...)`` lies at element offset ``i*strides[0] + j*strides[1] + ...``.

    `vector` consecutive slots of the last axis of extent > 1 are one access with unit stride; a CPU needs no alignment
    and reads whole rows wherever the stride allows, so there it is only checked.  Raises ValueError for a bad layout.
    """

    shape: Shape
    strides: tuple[int | Size, ...]
    vector: int = 1
    sizes: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        shape, strides = tuple(self.shape), tuple(self.strides)
        if len(shape) != len(strides):
            raise ValueError(f"a tile of shape {shape} needs {len(shape)} strides, {len(strides)} given")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "strides", strides)
        names = tuple(dict.fromkeys(stride.name for stride in strides if isinstance(stride, Size)))
        object.__setattr__(self, "sizes", names)
        axis = self.axis
        if self.vector > 1 and (axis is None or strides[axis] != 1 or shape[axis] % self.vector):
            raise ValueError(f"{self}: vector={self.vector} needs a last axis of unit stride that it divides")

    @property
    def axis(self) -> int | None:
        return vector_layout(self.shape).axis

    def offset(self, slot: Shape) -> Offset:
        """The element offset of one slot."""
        constant, terms = 0, dict[str, int]()
        for position, stride in zip(slot, self.strides, strict=True):
            if isinstance(stride, Size):
                terms[stride.name] = terms.get(stride.name, 0) + position * stride.factor
            else:
                constant += position * stride
        return Offset(constant, tuple((name, factor) for name, factor in terms.items() if factor))

    def row_offsets(self) -> Iterator[Offset]:
        """The offset of the first slot of every row of the vector layout, in C order."""
        axis = self.axis if self.axis is not None else len(self.shape)
        tail = (0,) * (len(self.shape) - axis)
        for leading in itertools.product(*map(range, self.shape[:axis])):
            yield self.offset(leading + tail)
