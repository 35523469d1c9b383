"""Values handed from one placed statement to another through registers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.expr import DataIndex
from polyfuse.legality.relations import Proof, coordinates, equalities
from polyfuse.schedule import Placed
from polyfuse.scop import Read, ReadEntry
from polyfuse.sets import Constraint
from polyfuse.verdict import Witness


@dataclass(frozen=True)
class Handover:
    """`consumer` uses what `provider` holds.  `held` and `needed`: the element that it holds and the one that is meant,
    at the same digits; coordinates that are data are left out, they agree when the handovers of their indices do."""

    proof: Proof
    provider: Placed
    consumer: Placed
    held: tuple[Affine, ...] = ()
    needed: tuple[Affine, ...] = ()
    read: Read | None = None

    @property
    def guards(self) -> tuple[Constraint, ...]:
        """The executions of the consumer that have an instance and an effect.  A put writes padding too: what lies
        outside a loaded array arrives as zero, on which masks of later sums rely."""
        valid = () if self.consumer.role == "put" else self.proof.valid(self.consumer, self.read)
        return (*valid, *self.proof.executes(self.consumer))

    @property
    def elements(self) -> tuple[str, ...]:
        """Coordinates of the element that is needed."""
        return coordinates("i", len(self.needed))

    @property
    def instances(self) -> tuple[str, ...]:
        """Coordinates of the consumer's instance."""
        return coordinates("j", sum(isinstance(e, Affine) for e in self.consumer.place))

    def demand(self, *others: Affine) -> tuple[Constraint, ...]:
        """``@j`` needs ``@i``, at digits in their boxes; `others` are expressions that may hold more digits."""
        place = [e for e in self.consumer.place if isinstance(e, Affine)]
        digits = self.proof.used(*self.needed, *self.guards, *others) | self.proof.digits_of(self.consumer)
        return (
            *equalities(self.elements, self.needed),
            *equalities(self.instances, place),
            *self.proof.box(digits),
            *self.guards,
        )

    def witness(self, point: dict[str, int]) -> Witness:
        names = (self.proof.name(self.provider), self.proof.name(self.consumer))
        return self.proof.witness(point, (names[0], self.elements), (names[1], self.instances))

    def some(self, *constraints: Constraint, others: tuple[Affine, ...] = ()) -> dict[str, int] | None:
        """A point of the demand."""
        every = (*self.elements, *self.instances)
        return sets.sample(self.proof.relation(every, (*self.demand(*others), *constraints)))


def handovers(proof: Proof) -> Iterator[Handover]:
    """All of them, in the order of the placed statements; what comes out of shared boxes, or from other blocks, is no
    handover."""
    for provider, consumer, read in proof.edges():
        if provider.role not in ("put", "partial"):
            yield from _handovers(proof, provider, consumer, read)
    for load in proof.schedule.placed:
        for entry in load.place:
            if isinstance(entry, str):
                yield Handover(proof, proof.placed[entry], load)


def _handovers(proof: Proof, provider: Placed, consumer: Placed, read: Read | None) -> Iterator[Handover]:
    if read is None or read.affine:
        needed = proof.index(consumer) if read is None else tuple(proof.at(consumer, e) for e in _affine(read.index))
        yield Handover(proof, provider, consumer, proof.index(provider), needed, read)
        return
    pairs = [(at, e) for at, e in zip(provider.place, read.index, strict=True) if isinstance(at, Affine)]
    needed = tuple(proof.at(consumer, e) for e in _affine([e for _, e in pairs]))
    yield Handover(proof, provider, consumer, tuple(at for at, _ in pairs), needed, read)
    statement = proof.statement(consumer)
    for at, entry in zip(provider.place, read.index, strict=True):
        if isinstance(at, str) and isinstance(entry, DataIndex) and statement is not None:
            yield from _handovers(proof, proof.placed[at], consumer, statement.reads[entry.operand])


def _affine(entries: Iterable[ReadEntry]) -> list[Affine]:
    return [e for e in entries if isinstance(e, Affine)]
