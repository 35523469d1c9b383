"""How a plan meets a call: layouts of arguments, guards on sizes, and what each kernel parameter is bound to.

Everything here is data: the dispatcher evaluates it, the disk cache stores it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Union

from polyfuse.affine import Affine
from polyfuse.dtypes import DType

# ---------------------------------------------------------------------------------------------- classes of calls


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout class of one array argument.

    `strides`: None for C order (also of size-0 and size-1 arrays); else per axis the stride in elements where it is 0
    or 1 at compile time and None where it is known at launch only.  `alignment`: bytes by which the base address is
    known to divide, 16 or the itemsize.
    """

    strides: tuple[int | None, ...] | None = None
    alignment: int = 16


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on sizes under which a plan holds: ``expression >= 0``, or ``expression % modulus == 0`` (with
    `negated`: ``!= 0``, which keeps a slower plan from sizes that deserve the faster one)."""

    expression: Affine
    modulus: int = 0
    negated: bool = False
    advisory: bool = False  # the plan is right without it, but another would be faster

    def holds(self, sizes: Mapping[str, int]) -> bool:
        value = self.expression.evaluate(sizes)
        return (value % self.modulus == 0) != self.negated if self.modulus else value >= 0

    def __str__(self) -> str:
        relation = "!=" if self.negated else "="
        return f"{self.expression} mod {self.modulus} {relation} 0" if self.modulus else f"{self.expression} >= 0"


@dataclass(frozen=True, slots=True)
class VolumeGuard:
    """The product of `shape` is at most `limit` (32-bit offsets, blocks that run at once), or more than it when
    `exceeds`."""

    shape: tuple[Affine, ...]
    limit: int
    exceeds: bool = False
    advisory: bool = False  # the plan is right without it, but another would be faster: of blocks, not of elements

    def holds(self, sizes: Mapping[str, int]) -> bool:
        volume = 1
        for n in self.shape:
            volume *= n.evaluate(sizes)
        return (volume > self.limit) == self.exceeds

    def __str__(self) -> str:
        return f"{'*'.join(f'({n})' for n in self.shape) or '1'} {'>' if self.exceeds else '<='} {self.limit}"


def with_products(
    sizes: Mapping[str, int], derived: tuple[tuple[str, tuple[Affine, ...]], ...]
) -> Mapping[str, int]:
    """The sizes, and the symbols that stand for products of them."""
    return {**sizes, **{name: prod(f.evaluate(sizes) for f in factors) for name, factors in derived}}


@dataclass(frozen=True, slots=True)
class DerivedGuard:
    """A guard on symbols of which some stand for products of sizes."""

    guard: Guard | VolumeGuard
    derived: tuple[tuple[str, tuple[Affine, ...]], ...]

    def holds(self, sizes: Mapping[str, int]) -> bool:
        return self.guard.holds(with_products(sizes, self.derived))

    def __str__(self) -> str:
        meaning = ", ".join(f"{name} = {'*'.join(f'({f})' for f in factors)}" for name, factors in self.derived)
        return f"{self.guard} where {meaning}"


AnyGuard = Union[Guard, VolumeGuard, DerivedGuard]


def is_advisory(guard: AnyGuard) -> bool:
    """Whether the plan is right without it, though another would be faster."""
    plain = guard.guard if isinstance(guard, DerivedGuard) else guard
    return plain.advisory

# ---------------------------------------------------------------------------------------------- parameters


@dataclass(frozen=True, slots=True)
class FromArgument:
    """The base address of array argument `position`, or the value of scalar argument `position`."""

    position: int


@dataclass(frozen=True, slots=True)
class FromOutput:
    """The base address of output `position`."""

    position: int


@dataclass(frozen=True, slots=True)
class FromBuffer:
    name: str


@dataclass(frozen=True, slots=True)
class FromSize:
    """The value of an affine expression of size symbols."""

    expression: Affine


@dataclass(frozen=True, slots=True)
class FromProduct:
    """The product of affine expressions of size symbols: the extent of a collapsed contiguous run."""

    factors: tuple[Affine, ...]


@dataclass(frozen=True, slots=True)
class FromStride:
    """The stride of argument `position` along `axis`, in elements."""

    position: int
    axis: int


@dataclass(frozen=True, slots=True)
class FromBlocks:
    """The blocks of some grids together, none of an empty one: where a member of a launch begins, or where it ends.
    `derived`: per grid the symbols in it that stand for products of sizes."""

    grids: tuple[tuple[Affine, ...], ...]
    derived: tuple[tuple[tuple[str, tuple[Affine, ...]], ...], ...]

    def value(self, sizes: Mapping[str, int]) -> int:
        """At the sizes of a call."""
        total = 0
        for grid, derived in zip(self.grids, self.derived, strict=True):
            values = with_products(sizes, derived)
            total += prod(max(0, extent.evaluate(values)) for extent in grid)
        return total


Binding = Union[FromArgument, FromOutput, FromBuffer, FromSize, FromProduct, FromStride, FromBlocks]

LAUNCHED = (FromSize, FromProduct, FromStride, FromBlocks)
"""Bindings whose value is a number that sizes and strides give."""

FAULT = "index_fault"
"""The status word of a plan, an i32 buffer: 0, or the number (from 1) of a check that met an index out of bounds."""

# ---------------------------------------------------------------------------------------------- buffers


@dataclass(frozen=True, slots=True)
class Buffer:
    """A global intermediate of a plan, contiguous, in the per-call workspace.

    `zeroed`: counters that must be zero before the first launch and that kernels reset themselves; they live in a
    persistent allocation per stream, never in the workspace.  `first`, `last`: indices of the first and last step that
    touch it (its lifetime).  `within`: the donated argument, or the earlier buffer, in whose memory it lives; never
    for counters and for what blocks leave each other.  `derived`: symbols of `shape` that stand for products of sizes.
    """

    name: str
    dtype: DType
    shape: tuple[Affine, ...]
    first: int
    last: int
    zeroed: bool = False
    within: Union[FromArgument, FromBuffer, None] = None
    derived: tuple[tuple[str, tuple[Affine, ...]], ...] = ()

    def extents(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape at the sizes of a call."""
        values = with_products(sizes, self.derived)
        return tuple(extent.evaluate(values) for extent in self.shape)
