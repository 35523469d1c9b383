"""Where an element of a flat walk lies among rows: its row, or its place in it.

    k -> (k // N, k mod N)     of rows of N elements, one behind the other

N may be a symbol, by which no affine expression divides, so that such an index is an entry of its own kind: proofs know
that it lies within its dimension, and no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from polyfuse.affine import Affine, AffineLike


@dataclass(frozen=True, slots=True)
class Unravelled:
    """Of element number `flat` of rows of `extent` the place in its row, or the number of the row."""

    flat: Affine
    extent: Affine
    in_row: bool

    def substitute(self, values: Mapping[str, AffineLike]) -> Unravelled:
        return Unravelled(self.flat.substitute(values), self.extent, self.in_row)

    def __str__(self) -> str:
        return f"({self.flat}) {'mod' if self.in_row else '//'} ({self.extent})"

    def names(self) -> frozenset[str]:
        """Of what it depends on."""
        return self.flat.names()
