"""What the next line of a program may use: the values so far, and the dice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from polyfuse.fuzz.arrays import Array
from polyfuse.fuzz.program import Line

Proposal = Callable[["Pool"], "Line | None"]


@dataclass(slots=True)
class Pool:
    """Values by number, floats as float64.  `private`: values whose memory a line may write.  `frozen`: arrays
    whose memory none may write any more.  `last`: lines run along the last axis, so that rows stay apart."""

    dice: Random
    values: list[Array] = field(default_factory=list)
    private: set[int] = field(default_factory=set)
    frozen: list[Array] = field(default_factory=list)
    last: bool = False

    def some(self, kinds: str = "biuf", rank: int = 0, where: Callable[[Array], Any] = lambda a: True) -> int | None:
        """A value of one of these kinds and of at least that rank; late ones are likelier."""
        return self._late(kinds, max(rank, 2) if self.last else rank, where)

    def _late(self, kinds: str, rank: int, where: Callable[[Array], Any]) -> int | None:
        found = [
            k for k, a in enumerate(self.values) if a.dtype.kind in kinds and a.ndim >= rank and a.size and where(a)
        ]
        if not found:
            return None
        return found[-1 - int(min(self.dice.expovariate(0.7), len(found) - 1))]

    def like(self, value: int, kinds: str = "biuf") -> int | None:
        """A value that broadcasts with this one, without blowing it up."""
        shape = self.values[value].shape

        def fits(other: Array) -> bool:
            try:
                together = np.broadcast_shapes(shape, other.shape)
            except ValueError:
                return False
            return int(np.prod(together)) <= 4 * max(self.values[value].size, other.size)

        return self._late(kinds, 0, fits)

    def axis(self, value: int) -> int:
        rank = self.values[value].ndim
        return self.dice.choice((-1, rank - 1)) if self.last else self.dice.randrange(-rank, rank)

    def size(self, value: int, axis: int) -> int:
        return int(self.values[value].shape[axis])

    def axes(self, value: int) -> str:
        """``axis=...`` of a reduction: one, several, or all."""
        rank = self.values[value].ndim
        if self.last and rank:
            return f"axis={self.axis(value)}"
        if rank == 0 or self.dice.random() < 0.15:
            return "axis=None"
        if self.dice.random() < 0.65 or rank == 1:
            return f"axis={self.axis(value)}"
        count = self.dice.randint(1, rank)
        return f"axis={tuple(sorted(self.dice.sample(range(rank), count)))}"

    def number(self) -> str:
        return self.dice.choice(["2", "0.5", "3", "-1", "1.5", "0.1", "-0.75", "7", "1", "0", "0.25"])


def table(*templates: str) -> tuple[str, ...]:
    return templates
