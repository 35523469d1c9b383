"""Which proposals of a group are priced while kernels are looked for: those that served a lone statement well.

    s = sum(x, axis=0)                alone: columns lanes=8 123 us, lanes=32 249 us, rows 646 us, shares 126 us ...
    s = sum((x - m) ** 2, axis=0)     the same proposals: of these only the first and the last are priced

What tells proposals of one family apart, the shape of blocks over the same classes, costs about as much with whatever
else is computed on the way.  Kernels that are chosen are priced with all of their proposals.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from polyfuse.places.proposal import Proposal
from polyfuse.strategies.held import comes_back
from polyfuse.strategies.situation import Situation

Header = tuple[str, tuple[tuple[str, int], ...]]
"""Strategy and parameters of a proposal."""

Numbered = Sequence[tuple[int, Proposal]]

MARGIN = 1.1
"""Times the best price of a lone statement, above which a proposal is left out for others of its family.  The benchmark
programs, and 64 others of their sizes, have the same plans with it as with all proposals."""


@dataclass(slots=True)
class Outlook:
    """Per family of groups, the proposals that come near the best for a lone statement.  Those are priced before any
    other group, whatever the order of the search, so that prices depend on the program alone."""

    worth: dict[Hashable, frozenset[Header]] = field(default_factory=dict)

    def parts(self, situation: Situation, proposals: Numbered) -> list[Numbered]:
        """All proposals, or those worth a price and, for where none of these can be had, the others."""
        known = None if len(situation.group.body) == 1 else self.worth.get(_family(situation, proposals))
        if known is None:
            return [proposals]
        likely = [(k, p) for k, p in proposals if (p.strategy, p.parameters) in known]
        rest = [(k, p) for k, p in proposals if (p.strategy, p.parameters) not in known]
        return [likely, rest] if likely and rest else [proposals]

    def learn(self, situation: Situation, proposals: Numbered, seconds: Sequence[tuple[Proposal, float]]) -> None:
        """`seconds`: of the proposals that have a price."""
        if len(situation.group.body) == 1 and seconds:
            most = MARGIN * min([s for _, s in seconds])
            near = frozenset([(p.strategy, p.parameters) for p, s in seconds if s <= most])
            family = _family(situation, proposals)
            self.worth[family] = self.worth.get(family, frozenset()) | near


def _family(situation: Situation, proposals: Numbered) -> Hashable:
    """Equal for groups over equal classes with equal proposals, where nothing runs a second time over what is reduced
    (which favours blocks that hold it)."""
    classes = tuple([(a.extent, bool(a.reduced_by), bool(a.scanned_by)) for a in situation.axes])
    again = comes_back(situation, [a for a in situation.axes if a.reduced_by])
    return again, classes, tuple([(p.strategy, p.parameters) for _, p in proposals])
