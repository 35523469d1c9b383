"""In what ways updates of one place may be combined, and the volume of a scatter, from which a price follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from polyfuse.dtypes import DType

WORDS = frozenset("i32 i64 u32 u64".split())
"""Integers that atomic instructions take."""
FLOATS = frozenset("f32 f64".split())
"""Floats that they add."""
MERGED = frozenset("sum max min bitor bitand bitxor".split())
"""Monoids that they combine by."""

Way = Literal["sorted", "merged", "scaled", "keyed"]
"""How updates are combined: in their order; as they come; as integers, scaled to the largest of their place, or in the
order of floats."""


def is_mergeable(monoid: str, dtype: DType, atomics: bool) -> bool:
    """Whether memory has an instruction that combines updates, and the order in which it does may vary."""
    return monoid in MERGED and (dtype.name in WORDS or (atomics and monoid == "sum" and dtype.name in FLOATS))


@dataclass(frozen=True, slots=True)
class Volume:
    """Of a scatter: rows of updates, elements of a row, places, bytes of an element and of the number of a place."""

    rows: int
    width: int
    places: int
    itemsize: int
    key: int

    @property
    def read(self) -> int:
        """Bytes of all updates, with the number of the place of each."""
        return self.rows * (self.width * self.itemsize + self.key)

    @property
    def result(self) -> int:
        """Bytes."""
        return self.places * self.width * self.itemsize
