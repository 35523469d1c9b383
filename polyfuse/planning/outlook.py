"""Which proposals of a group are priced while kernels are looked for: those that served another of its family well.

    s = sum(x, axis=0)                alone: columns lanes=8 123 us, lanes=32 249 us, rows 646 us, shares 126 us ...
    s = sum((x - m) ** 2, axis=0)     the same proposals: of these only the first and the last are priced

What tells proposals of one family apart, the shape of blocks over the same classes, costs about as much with whatever
else is computed on the way.  Once a few groups have agreed, the next are priced with those few proposals of which one
served each of them.  Kernels that are chosen are priced with all of their proposals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from polyfuse.affine import ONE
from polyfuse.cost.alone import BEGIN, counted
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


CLOSE = 1.02
"""Times the best price of a group, up to which a proposal serves it as well: prices are not finer than that."""

AGREED = 1
"""Groups of several statements, one behind the other, that were served by what had served others, after which a family
has only these proposals priced.  A backward layernorm has 40 groups over the same two classes, with 12 proposals
within BESIDE_OTHERS: one or two serve them all."""


@dataclass(frozen=True, slots=True)
class Worth:
    """Of a family: the proposals that were ever compared, those of them that came near the best, and one that served
    each group of several statements; how many of these groups, the last ones, needed no further such proposal; how
    the best of all compares at most with moving the bytes alone, and the best of those near; and whether a lone
    statement was among its groups: without one, what they taught is not what lone ones need."""

    compared: frozenset[Header] = frozenset()
    near: frozenset[Header] = frozenset()
    served: frozenset[Header] = frozenset()
    agreed: int = 0
    slowness: float = 0.0
    usual: float = 0.0
    has_lone: bool = False

    def rank(self, header: Header) -> int:
        """In which part of the proposals of a group one is priced."""
        if header not in self.compared or (self.agreed >= AGREED and header in self.served):
            return 0
        return 1 if header in self.near else 2

    def is_first(self, compared: Iterable[Proposal]) -> bool:
        """Whether these are but the first part."""
        return self.agreed >= AGREED and all(self.rank((p.strategy, p.parameters)) == 0 for p in compared)


@dataclass(slots=True)
class Outlook:
    """Per family of groups, the proposals that come near the best for a lone statement, or else for the first group.
    Lone statements are priced before any other group; what follows does in an order that the program alone decides."""

    worth: dict[Hashable, Worth] = field(default_factory=dict)

    def parts(self, situation: Situation, proposals: Numbered) -> list[Numbered]:
        """All proposals in the order in which they are priced: those that were never compared and those that served
        others, those that came near the best, the rest.  Each part is for where those before it will not do."""
        known = self._known(situation)
        if known is None:
            return [proposals]
        found: list[list[tuple[int, Proposal]]] = [[], [], []]
        for k, p in proposals:
            found[known.rank((p.strategy, p.parameters))].append((k, p))
        return [part for part in found if part]

    def suffices(self, situation: Situation, others: Numbered, seconds: Iterable[float]) -> bool:
        """Whether the best price so far is about what it is elsewhere, so that `others` are not worth one."""
        known = self._known(situation)
        if known is None:
            return True
        likely = any(known.rank((p.strategy, p.parameters)) == 1 for _, p in others)
        most = MARGIN * known.usual if likely else DEARER * known.slowness
        return _slowness(situation, min(seconds, default=inf)) <= most

    def learn(
        self,
        situation: Situation,
        compared: Iterable[Proposal],
        seconds: Sequence[tuple[Proposal, float]],
        *,
        is_all: bool,
    ) -> None:
        """`compared`: the proposals that were built, `is_all`: and no others are left.  `seconds`: of those that have a
        price, the best first."""
        if not seconds:
            return
        family, best = _family(situation), seconds[0][1]
        slowness = _slowness(situation, best)
        is_alone = len(situation.group.body) == 1
        known = self.worth.get(family, Worth(slowness=slowness))
        near = _headers(seconds, best * (MARGIN if is_alone else BESIDE_OTHERS))
        served = _headers(seconds[:1], best)
        if is_alone or not known.served.isdisjoint(_headers(seconds, best * CLOSE)):
            served = frozenset()
        self.worth[family] = Worth(
            known.compared | {(p.strategy, p.parameters) for p in compared},
            known.near | near,
            known.served | served,
            0 if served else known.agreed + (not is_alone),
            max(known.slowness, slowness) if is_all else known.slowness,
            known.usual if known.is_first(compared) else max(known.usual, slowness),
            known.has_lone or is_alone,
        )

    def _known(self, situation: Situation) -> Worth | None:
        known = self.worth.get(_family(situation))
        return known if known is not None and (known.has_lone or len(situation.group.body) > 1) else None


def _headers(seconds: Sequence[tuple[Proposal, float]], most: float) -> frozenset[Header]:
    return frozenset([(p.strategy, p.parameters) for p, s in seconds if s <= most])


def _slowness(situation: Situation, seconds: float) -> float:
    """Times what a launch and the bytes that a group reads and writes take."""
    group, target = situation.group, situation.target
    moved = sum([volume(group, value, situation.hints) for value in group.loads | group.roots])
    return seconds / (target.launch + counted(BEGIN, moved / target.bandwidth) + moved / target.bandwidth)


def _family(situation: Situation) -> Hashable:
    """Equal for groups over equal classes, in any order, where nothing runs a second time over what is reduced (which
    favours blocks that hold it).  Classes of one element, as of each ``keepdims=True``, have no shape of blocks."""
    long = [a for a in situation.axes if a.extent != ONE]
    classes = Counter([(a.extent, bool(a.reduced_by), bool(a.scanned_by)) for a in long])
    again = len(long) < len(situation.axes), comes_back(situation, [a for a in situation.axes if a.reduced_by])
    return again, frozenset(classes.items())
