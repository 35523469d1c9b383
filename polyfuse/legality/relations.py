"""Relations between instances and digits, as every rule writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.lower.context import size_constraints
from polyfuse.schedule import KernelSchedule, LoopNest, Placed, TreeItem
from polyfuse.scop import Read, Scop, Statement
from polyfuse.sets import Constraint, Relation
from polyfuse.verdict import Instance, Witness


@dataclass(frozen=True)
class Proof:
    """One schedule under proof: look-ups that the rules share."""

    scop: Scop
    schedule: KernelSchedule
    placed: Mapping[str, Placed] = field(init=False)
    sizes: tuple[Constraint, ...] = field(init=False)
    times: Mapping[str, tuple[tuple[int, str], ...]] = field(init=False)

    def __post_init__(self) -> None:
        program = self.scop.program
        object.__setattr__(self, "placed", self.schedule.by_name())
        sizes = size_constraints(program.symbols, program.facts, self.schedule.guards)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "times", dict(positions(self.schedule.order)))

    # ---------------------------------------------------------------- digits
    def kind(self, name: str) -> str:
        return self.schedule.digit(name).kind

    def box(self, names: Iterable[str]) -> tuple[Constraint, ...]:
        """``0 <= digit < extent`` for digits by name."""
        chosen = [self.schedule.digit(n) for n in sorted(set(names))]
        return sets.box([f"${d.name}" for d in chosen], [d.extent for d in chosen])

    def statement(self, placed: Placed) -> Statement | None:
        found = self.scop.statements[placed.value]
        return found if placed.role == "compute" and isinstance(found, Statement) else None

    def index(self, placed: Placed) -> tuple[Affine, ...]:
        """Where the value that `placed` holds or moves lies in its tensor, in digits."""
        statement = self.statement(placed)
        dims = statement.kept if statement is not None else range(len(placed.place))
        return tuple(self.affine(placed.place[d]) for d in dims)

    @staticmethod
    def affine(entry: Affine | str) -> Affine:
        assert isinstance(entry, Affine)
        return entry

    def needed(self, consumer: Placed, read: Read | None) -> tuple[Affine, ...] | None:
        """The index at which `consumer` reads, in its digits; None when it is data (a gather)."""
        if read is None:
            return self.index(consumer)
        if not read.affine:
            return None
        at = {f"%{d}": self.affine(p) for d, p in enumerate(consumer.place)}
        return tuple(e.substitute(at) for e in read.index if isinstance(e, Affine))

    def valid(self, placed: Placed) -> tuple[Constraint, ...]:
        """The instances of `placed` that exist: its place lies in the domain."""
        statement = self.scop.statements[placed.value]
        extents = statement.extents if placed.role == "compute" and isinstance(statement, Statement) else statement.shape
        found: list[Constraint] = []
        for entry, extent in zip(placed.place, extents, strict=True):
            if isinstance(entry, Affine):
                found += [Constraint(entry), Constraint(extent - entry - 1)]
        return tuple(found)

    def over(self, placed: Placed) -> frozenset[str]:
        """Digits along which a reduction sums."""
        statement = self.statement(placed)
        if statement is None or not statement.is_reduction:
            return frozenset()
        return frozenset(n[1:] for d in statement.reduced for n in self.affine(placed.place[d]).names() if n[0] == "$")

    def digits_of(self, placed: Placed) -> frozenset[str]:
        """Digits that a placed statement runs over: those of its place and of its loops."""
        return placed.digits() | {loop for loop, _ in placed.path}

    def edges(self) -> Iterable[tuple[Placed, Placed, Read | None]]:
        """(provider, consumer, read) of every value handed on inside the kernel; moves have no read."""
        for consumer in self.schedule.placed:
            statement = self.statement(consumer)
            if statement is None:
                for provider in consumer.providers:
                    yield self.placed[provider], consumer, None
                continue
            for read, provider in zip(statement.reads, consumer.providers, strict=True):
                yield self.placed[provider], consumer, read

    def name(self, placed: Placed) -> str:
        return self.scop.statements[placed.value].name

    def witness(self, point: Mapping[str, int], first: tuple[str, Sequence[str]], second: tuple[str, Sequence[str]]) -> Witness:
        """Two instances read off a point; each given by a name and the names of its coordinates."""
        def instance(name: str, coordinates: Sequence[str]) -> Instance:
            return Instance(name, tuple(point.get(c, 0) for c in coordinates))

        symbols = tuple((s, point[s]) for s in self.scop.program.symbols if s in point)
        return Witness(instance(*first), instance(*second), symbols)


def coordinates(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{k}" for k in range(count))


def equalities(names: Sequence[str], values: Sequence[Affine]) -> tuple[Constraint, ...]:
    return tuple(sets.equal(Affine.symbol(n), v) for n, v in zip(names, values, strict=True))


def primed(constraints: Iterable[Constraint], digits: Iterable[str]) -> tuple[Constraint, ...]:
    """The constraints about a second execution: each digit replaced by its primed copy."""
    values = {f"${d}": Affine.symbol(f"${d}'") for d in digits}
    return tuple(Constraint(c.expression.substitute(values), c.kind, c.modulus) for c in constraints)


def prime(expression: Affine, digits: Iterable[str]) -> Affine:
    return expression.substitute({f"${d}": Affine.symbol(f"${d}'") for d in digits})


def relation(
    names: Sequence[str], constraints: Iterable[Constraint], sizes: Sequence[str] = ()
) -> Relation:
    """A relation over `names`; every other name but the size symbols is existential."""
    every = tuple(constraints)
    used = sets.names_of(c.expression for c in every)
    exists = tuple(sorted(used - set(names) - set(sizes)))
    return Relation(tuple(names), every, exists)


def positions(
    order: tuple[TreeItem, ...], prefix: tuple[tuple[int, str], ...] = ()
) -> Iterable[tuple[str, tuple[tuple[int, str], ...]]]:
    """Per leaf its time vector: (position, loop digit entered there or ``""``) at each depth."""
    for k, item in enumerate(order):
        if isinstance(item, LoopNest):
            yield from positions(item.items, (*prefix, (k, item.digit)))
        else:
            yield item if item != "barrier" else f"barrier@{(*prefix, (k, ''))}", (*prefix, (k, ""))
