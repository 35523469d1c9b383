"""Where an element of a flat walk lies among rows: its row, or its place in it.

    k -> (k // N, k mod N)               of rows of N elements, one behind the other
    k -> (k // N mod C, k mod N)         the same where C of them belong together: which one of them

N and C may be symbols, by which no affine expression divides, so that such an index is an entry of its own kind: proofs
know that it lies within its dimension, and no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from polyfuse.affine import ZERO, Affine, AffineLike


@dataclass(frozen=True, slots=True)
class Unravelled:
    """Of element number `flat` of rows of `extent` the place in its row, or the number of the row, which begins again
    after `rows` of them where these are not None; `step` times that, from `first` on: what is sliced or reversed."""

    flat: Affine
    extent: Affine
    in_row: bool
    rows: Affine | None = None
    step: int = 1
    first: Affine = ZERO

    @property
    def is_plain(self) -> bool:
        return self.step == 1 and self.first == ZERO

    def substitute(self, values: Mapping[str, AffineLike]) -> Unravelled:
        return replace(self, flat=self.flat.substitute(values))

    def __str__(self) -> str:
        again = f" mod ({self.rows})" if self.rows is not None else ""
        found = f"({self.flat}) {'mod' if self.in_row else '//'} ({self.extent}){again}"
        return found if self.is_plain else f"{self.step}*({found}) + {self.first}"

    def names(self) -> frozenset[str]:
        """Of what it depends on."""
        return self.flat.names()
