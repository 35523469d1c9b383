"""What the search asks of a program: it knows neither isl, nor targets, nor what a value means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from polyfuse.verdict import Verdict


class Costs(Protocol):
    """Values are numbered ``0 .. count-1`` by canonical topological rank: operands before users, and the same numbers
    however the user spelled or ordered the program.  Rank breaks ties, so the plan is canonical if the ranks are.

    A kernel is three sets of values: `roots` (those it stores), `body` (all that it computes, roots included) and
    `loads` (those it reads from memory).  Times are integer picoseconds: no tie depends on rounding.  Answers must be
    functions of the sets alone, never of their iteration order.
    """

    @property
    def count(self) -> int: ...

    @property
    def work(self) -> int:
        """What the answers so far took, in units of about a tenth of a millisecond: counted, never measured, so that a
        plan does not depend on the machine that makes it."""
        ...

    def operands(self, value: int) -> tuple[int, ...]:
        """The values that `value` reads; empty for inputs."""
        ...

    def is_input(self, value: int) -> bool: ...

    def is_output(self, value: int) -> bool: ...

    def is_elementwise(self, value: int, reader: int) -> bool:
        """Whether neither combines elements, and each of `value` is needed by one element of `reader` at most: at the
        same place, but for dimensions along which one of the two stands still."""
        ...

    def blocks_apart(self, one: frozenset[int], other: frozenset[int]) -> bool:
        """Whether kernels that store these, and share no value, save a launch side by side, each in blocks of its own,
        and would fill no blocks together."""
        ...

    def must_store(self, value: int) -> bool:
        """True for values that may be computed only once: effects, results of opaque calls."""
        ...

    def bytes(self, value: int) -> int:
        """Bytes of the whole value in memory."""
        ...

    def floor(self, roots: frozenset[int], loads: frozenset[int]) -> int:
        """A lower bound of `price` for any body with this boundary, cheap to compute."""
        ...

    def floor_of_all(self, roots: frozenset[int], loads: frozenset[int]) -> int:
        """A lower bound of what all kernels of a program with these inputs and outputs take together."""
        ...

    def price(self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int]) -> int:
        """The predicted time of the kernel by the schedules that are worth a price, defined for illegal kernels too."""
        ...

    def whole_price(
        self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int], *, teaches: bool = False
    ) -> int:
        """The same by all of its schedules: never more.  `teaches`: which are worth a price for others."""
        ...

    def learning(self) -> Callable[[], None]:
        """What forgets which schedules are worth a price, as far as it is learned from now on."""
        ...

    def structure(self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int]) -> int | None:
        """Equal for groups of statements that differ in nothing but which values they hold; None where that is not
        known."""
        ...

    def legal(self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int]) -> Verdict:
        """Whether one kernel may compute `body`.  Expensive: asked for the best move at hand and for final kernels.
        Never asked of a single statement, which is always a legal kernel."""
        ...
