"""What a kernel takes at least, learned from the prices of kernels that it contains.

    rows and columns of one array in one pass     s times what its bytes take
    the same, and a value more of every row       s times what is left of those bytes, at least: not priced for less

Where a body makes a kernel slow (values held of whole rows, shares of columns, recomputation), so does a larger body:
only the bytes that it does not move any more are saved.  Prices know exceptions, a product that its sum folds being
one, so of a slow kernel learns only what moves most of its bytes as well, and of a far slower one nothing.  This
decides what is worth a price, never what is legal.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from polyfuse.grouping.costs import Costs
from polyfuse.grouping.partition import KernelGroup

FASTER, SLOWER = 1.1, 2.0
"""Times what its bytes take, between which a kernel teaches what those take that contain it.  Of the benchmark programs
and 17 kinds of programs of 100 statements, 1,519 kernels contain such a one, and 1,323 of them take as much or more;
where kernels of any slowness teach, 2,345 of 3,216."""

SLOWEST, NEARLY = 4.0, 0.8
"""And up to which it does where the other kernel moves at least so much of its bytes: all 421 pairs in the benchmark
programs take as much or more; of 1,137 of any slowness 66 take less than half.  A backward layernorm asked
after the same slow sums beside a dozen other values."""


@dataclass(frozen=True, slots=True)
class _Known:
    kernel: KernelGroup
    slowness: float
    least: int  # picoseconds of what it moves that a kernel must move as well to learn from it


@dataclass(frozen=True, slots=True)
class Least:
    """Kernels that were priced, by the least value that they compute."""

    costs: Costs
    known: dict[int, list[_Known]] = field(default_factory=dict)

    def learn(self, kernel: KernelGroup) -> None:
        self._forget(kernel)
        launch, floor = self.costs.floor(frozenset(), frozenset()), self.costs.floor(kernel.roots, kernel.loads)
        slowness = kernel.time / max(1, floor)
        if len(kernel.body) > 1 and FASTER <= slowness <= SLOWEST:
            least = launch + int(NEARLY * (floor - launch)) if slowness > SLOWER else 0
            self.known.setdefault(min(kernel.body), []).append(_Known(kernel, slowness, least))

    def _forget(self, kernel: KernelGroup) -> None:
        """Drop what taught that this kernel takes longer than it does: larger ones contain it as well."""
        for value in kernel.body:
            if parts := self.known.get(value):
                sets = kernel.roots, kernel.body, kernel.loads
                self.known[value] = [part for part in parts if self._by(part, *sets) <= kernel.time]

    def time(self, roots: frozenset[int], body: frozenset[int], loads: frozenset[int]) -> int:
        """Picoseconds that a kernel takes at least, by the price of what it contains."""
        least = self.costs.floor(roots, loads)
        for value in body:
            for part in self.known.get(value, ()):
                least = max(least, self._by(part, roots, body, loads))
        return least

    def _by(self, part: _Known, roots: frozenset[int], body: frozenset[int], loads: frozenset[int]) -> int:
        """The same by one of them."""
        if not part.kernel.body <= body:
            return 0
        kept = self.costs.floor(part.kernel.roots & roots, part.kernel.loads & loads)
        return int(part.slowness * kept) if kept >= part.least else 0
