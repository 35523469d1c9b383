"""Which proposals of a group are priced while kernels are looked for: those that served another of its family well.

    s = sum(x, axis=0)                alone: columns lanes=8 123 us, lanes=32 249 us, rows 646 us, shares 126 us ...
    s = sum((x - m) ** 2, axis=0)     the same proposals: of these only the first and the last are priced

What tells proposals of one family apart, the shape of blocks over the same classes, costs about as much with whatever
else is computed on the way.  Kernels that are chosen are priced with all of their proposals.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from polyfuse.places.proposal import Proposal
from polyfuse.strategies.classes import volume
from polyfuse.strategies.held import comes_back
from polyfuse.strategies.situation import Situation

Header = tuple[str, tuple[tuple[str, int], ...]]
"""Strategy and parameters of a proposal."""

Numbered = Sequence[tuple[int, Proposal]]

MARGIN = 1.1
"""Times the best price of a lone statement, above which a proposal is left out for others of its family.  The benchmark
programs, and 64 others of their sizes, have the same plans with it as with all proposals."""

BESIDE_OTHERS = 1.3
"""The same of the first group of a family in which no statement is alone: what they compute on the way differs more."""

DEARER = 1.5
"""Times that best price, for the bytes that a group reads and writes, above which it is taken for unlike those that a
family was learned from: it is priced with all proposals, and learned from as well.  Of layers of ``relu(x @ w + b)``
two groups would have cost ten times what they need by the proposals that the first of their family left."""


@dataclass(frozen=True, slots=True)
class Worth:
    """Of a family: the proposals that came near the best, and how that compares with moving the bytes alone."""

    headers: frozenset[Header]
    slowness: float


@dataclass(slots=True)
class Outlook:
    """Per family of groups, the proposals that come near the best for a lone statement, or else for the first group.
    Lone statements are priced before any other group; what follows does in an order that the program alone decides."""

    worth: dict[Hashable, Worth] = field(default_factory=dict)

    def parts(self, situation: Situation, proposals: Numbered) -> list[Numbered]:
        """All proposals, or those worth a price and, for where these will not do, the others."""
        known = None if len(situation.group.body) == 1 else self.worth.get(_family(situation, proposals))
        if known is None:
            return [proposals]
        likely = [(k, p) for k, p in proposals if (p.strategy, p.parameters) in known.headers]
        rest = [(k, p) for k, p in proposals if (p.strategy, p.parameters) not in known.headers]
        return [likely, rest] if likely and rest else [proposals]

    def suffices(self, situation: Situation, proposals: Numbered, seconds: Iterable[float]) -> bool:
        """Whether the best of those worth a price costs about what it does elsewhere.  `proposals`: all."""
        known = self.worth.get(_family(situation, proposals))
        return known is None or _slowness(situation, min(seconds, default=inf)) <= DEARER * known.slowness

    def learn(self, situation: Situation, proposals: Numbered, seconds: Sequence[tuple[Proposal, float]]) -> None:
        """`seconds`: of all that have a price."""
        if not seconds:
            return
        family, best = _family(situation, proposals), min([s for _, s in seconds])
        most = best * (MARGIN if len(situation.group.body) == 1 else BESIDE_OTHERS)
        near = frozenset([(p.strategy, p.parameters) for p, s in seconds if s <= most])
        slowness = _slowness(situation, best)
        known = self.worth.get(family, Worth(frozenset(), slowness))
        self.worth[family] = Worth(known.headers | near, max(known.slowness, slowness))


def _slowness(situation: Situation, seconds: float) -> float:
    """Times what a launch and the bytes that a group reads and writes take."""
    group, target = situation.group, situation.target
    moved = sum([volume(group, value, situation.hints) for value in group.loads | group.roots])
    return seconds / (target.launch + moved / target.bandwidth)


def _family(situation: Situation, proposals: Numbered) -> Hashable:
    """Equal for groups over equal classes with equal proposals, where nothing runs a second time over what is reduced
    (which favours blocks that hold it)."""
    classes = tuple([(a.extent, bool(a.reduced_by), bool(a.scanned_by)) for a in situation.axes])
    again = comes_back(situation, [a for a in situation.axes if a.reduced_by])
    return again, classes, tuple([(p.strategy, p.parameters) for _, p in proposals])
