"""Relations between instances and digits, as every rule writes them.

Names in these relations: ``$t`` a digit of an execution, ``$t'`` the same digit of a second execution, ``@i0`` and
``@j0`` coordinates of two instances, everything else a size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from polyfuse import sets
from polyfuse.affine import Affine, names_of
from polyfuse.bindings import Guard
from polyfuse.dependences import known_sizes
from polyfuse.schedule import Digit, Finish, KernelSchedule, LoopNest, Placed, PlaceEntry, SharedBox, TreeItem
from polyfuse.scop import Read, Scop, Statement
from polyfuse.sets import Constraint, Relation
from polyfuse.verdict import Instance, Witness

Time = tuple[tuple[int, str], ...]
"""The way down the order tree to a leaf: at each depth a position and the loop entered there, ``""`` at the leaf; for
what an elected block finishes `ELECTED` and the block digit."""

BARRIER = "barrier"
SHARES = ("partial", "atomic")
"""Roles of what a block does with its share of a reduction over blocks."""
ELECTED = "last "


@dataclass(frozen=True)
class Proof:
    """One schedule under proof: look-ups that the rules share.  `atomics`: results may depend on the order of blocks.
    """

    scop: Scop
    schedule: KernelSchedule
    atomics: bool = False
    placed: Mapping[str, Placed] = field(init=False)
    digits: Mapping[str, Digit] = field(init=False)
    boxes: Mapping[int, SharedBox] = field(init=False)
    sizes: tuple[Constraint, ...] = field(init=False)
    stated: frozenset[str] = field(init=False)
    times: Mapping[str, Time] = field(init=False)

    def __post_init__(self) -> None:
        program, schedule = self.scop.program, self.schedule
        sizes = known_sizes(program, schedule.guards)
        object.__setattr__(self, "placed", schedule.by_name())
        object.__setattr__(self, "digits", {d.name: d for d in schedule.digits})
        object.__setattr__(self, "boxes", {b.value: b for b in schedule.shared})
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "stated", self._stated())
        object.__setattr__(self, "times", dict(positions(schedule.order)))

    def _stated(self) -> frozenset[str]:
        """The sizes in facts that bear on those which the kernel mentions.  A program over many arrays has hundreds of
        others, and isl's cost grows with the square of their number."""
        scop, schedule = self.scop, self.schedule
        if not scop.program.facts:
            return frozenset()
        values = {*schedule.roots, *schedule.loads, *(p.value for p in schedule.placed)}
        found: list[Affine] = [d.extent for d in schedule.digits]
        found += [e for p in schedule.placed for e in p.place if isinstance(e, Affine)]
        found += [guard.expression for guard in schedule.guards if isinstance(guard, Guard)]
        for value in values:
            found += scop.shape(value)
            statement = scop.statements[value]
            if isinstance(statement, Statement):
                found += statement.extents
                for read in statement.reads:
                    found += [*read.where, *(e for e in read.index if isinstance(e, Affine))]
        near = names_of(c.expression for c in sets.connected(names_of(found), self.sizes))
        return names_of(scop.program.facts) & near

    # ---------------------------------------------------------------- digits
    def kind(self, name: str) -> str:
        return self.digits[name].kind

    def names(self, kind: str) -> frozenset[str]:
        return frozenset(d.name for d in self.schedule.digits if d.kind == kind)

    def box(self, names: Iterable[str]) -> tuple[Constraint, ...]:
        """``0 <= digit < extent`` for digits by name."""
        chosen = [self.digits[n] for n in sorted(set(names))]
        return sets.box([f"${d.name}" for d in chosen], [d.extent for d in chosen])

    def used(self, *expressions: Affine | Constraint) -> frozenset[str]:
        """Names of the digits that occur."""
        plain = names_of(e.expression if isinstance(e, Constraint) else e for e in expressions)
        return frozenset(n[1:].rstrip("'") for n in plain if n.startswith("$"))

    def loops(self, placed: Placed) -> tuple[str, ...]:
        """The loops around a placed statement, outermost first."""
        return tuple(loop for _, loop in self.times[placed.name] if loop and not loop.startswith(ELECTED))

    def along(self, placed: Placed) -> str:
        """The block digit over which a total sums, or along which what a reduction holds is a share, also for the
        partial or atomic that hands it on; else empty."""
        if placed.role == "total":
            return self.schedule.finish_of(placed)
        reduction = placed.providers[0] if placed.role in SHARES else placed.name
        return next((g.digit for g in self.schedule.grid_combine if g.reduction == reduction), "")

    def digits_of(self, placed: Placed) -> frozenset[str]:
        """Digits that an execution is told apart by: those of its place, of its loops and of its gathered indices."""
        found = placed.digits() | set(self.loops(placed))
        for entry in placed.place:
            if isinstance(entry, str):
                found |= self.digits_of(self.placed[entry])
        return frozenset(found)

    # ---------------------------------------------------------------- statements
    def statement(self, placed: Placed) -> Statement | None:
        found = self.scop.statements[placed.value]
        return found if placed.role == "compute" and isinstance(found, Statement) else None

    def extents(self, placed: Placed) -> tuple[Affine, ...]:
        """Of the domain that a place runs over."""
        statement = self.statement(placed)
        if placed.role == "total":
            return (self.digits[self.along(placed)].extent, *self.scop.shape(placed.value))
        return statement.extents if statement is not None else self.scop.shape(placed.value)

    def index(self, placed: Placed) -> tuple[Affine, ...]:
        """Where the value that `placed` holds or moves lies in its tensor, in digits."""
        statement = self.statement(placed)
        dims = statement.kept if statement is not None else range(placed.role == "total", len(placed.place))
        return tuple(self.affine(placed.place[d]) for d in dims)

    @staticmethod
    def affine(entry: PlaceEntry) -> Affine:
        assert isinstance(entry, Affine)
        return entry

    def at(self, consumer: Placed, expression: Affine) -> Affine:
        """An expression over the dimensions of a statement, in the digits of its place."""
        return expression.substitute({f"%{d}": p for d, p in enumerate(consumer.place) if isinstance(p, Affine)})

    def valid(self, placed: Placed, read: Read | None = None) -> tuple[Constraint, ...]:
        """The instances of `placed` that exist, its place in the domain, and that make `read`."""
        pairs = [(e, n) for e, n in zip(placed.place, self.extents(placed), strict=True) if isinstance(e, Affine)]
        where = () if read is None else tuple(Constraint(self.at(placed, condition)) for condition in read.where)
        return (*within([e for e, _ in pairs], [n for _, n in pairs]), *where)

    def executes(self, placed: Placed) -> tuple[Constraint, ...]:
        """What else holds wherever `placed` has an effect: a replicated store or put is made by the first thread (and
        block, but for what any block may be elected to finish), a put stays inside its box."""
        if placed.role not in ("store", "put", *SHARES):
            return ()
        kinds = ("block", "thread") if placed.role == "store" else ("thread",)
        known = placed.digits() | {self.schedule.finish_of(placed)}
        idle = [d.name for d in self.schedule.digits if d.kind in kinds and d.name not in known]
        pinned = tuple(sets.equal(Affine.symbol(f"${d}"), Affine.of(0)) for d in idle)
        if placed.role != "put":
            return pinned
        return (*pinned, *within(self.local(placed), [Affine.of(n) for n in self.boxes[placed.value].extents]))

    def local(self, move: Placed) -> tuple[Affine, ...]:
        """The cell of its box that a put or get touches."""
        return tuple(a - o for a, o in zip(self.index(move), self.boxes[move.value].origin, strict=True))

    def over(self, placed: Placed) -> frozenset[str]:
        """Digits along which a reduction or a total sums."""
        if placed.role == "total":
            return self.used(self.affine(placed.place[0]))
        statement = self.statement(placed)
        if statement is None or not statement.is_reduction:
            return frozenset()
        return self.used(*(self.affine(placed.place[d]).remainders()[0] for d in statement.reduced))

    def edges(self) -> Iterable[tuple[Placed, Placed, Read | None]]:
        """(provider, consumer, read) of every value handed on inside the kernel; moves have no read."""
        for consumer in self.schedule.placed:
            statement = self.statement(consumer)
            reads = statement.reads if statement is not None else (None,) * len(consumer.providers)
            for read, provider in zip(reads, consumer.providers, strict=True):
                yield self.placed[provider], consumer, read

    # ---------------------------------------------------------------- answers
    def name(self, placed: Placed) -> str:
        return self.scop.statements[placed.value].name

    def relation(self, names: Sequence[str], constraints: Iterable[Constraint]) -> Relation:
        """A relation over `names`, at the sizes that the kernel is made for; every other digit and coordinate is
        existential, sizes are parameters.

        Facts about sizes of the kernel stand in every relation: a need that does not mention n is still one at sizes
        n >= 5, where the loop of n - 4 trips that meets it runs.
        """
        found = dict.fromkeys(c for c in constraints if c.truth is not True)
        used = names_of(c.expression for c in found)
        every = (*found, *sets.connected(used | self.stated, self.sizes))
        exists = tuple(sorted(n for n in used - set(names) if n[0] in "$@"))
        return Relation(tuple(names), every, exists)

    def witness(
        self, point: Mapping[str, int], first: tuple[str, Sequence[str]], second: tuple[str, Sequence[str]]
    ) -> Witness:
        """Two instances read off a point; each given by a name and the names of its coordinates."""

        def instance(name: str, coordinates: Sequence[str]) -> Instance:
            return Instance(name, tuple(point[c] for c in coordinates))

        sizes = tuple((n, v) for n, v in point.items() if n[0] not in "$@")
        return Witness(instance(*first), instance(*second), sizes)


# ---------------------------------------------------------------------------------------------- time


def positions(order: tuple[TreeItem, ...], prefix: Time = ()) -> Iterable[tuple[str, Time]]:
    """The leaves of an order tree but for barriers, each with its time."""
    for k, item in enumerate(order):
        if isinstance(item, LoopNest):
            yield from positions(item.items, (*prefix, (k, item.digit)))
        elif isinstance(item, Finish):
            yield from positions(item.items, (*prefix, (k, f"{ELECTED}{item.digit}")))
        elif item != BARRIER:
            yield item, (*prefix, (k, ""))


# ---------------------------------------------------------------------------------------------- constraints


def coordinates(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"@{prefix}{k}" for k in range(count))


def equalities(names: Sequence[str], values: Sequence[Affine]) -> tuple[Constraint, ...]:
    return tuple(sets.equal(Affine.symbol(n), v) for n, v in zip(names, values, strict=True))


def within(index: Sequence[Affine], extents: Sequence[Affine]) -> tuple[Constraint, ...]:
    """``0 <= index < extents``."""
    pairs = zip(index, extents, strict=True)
    return tuple(c for at, extent in pairs for c in (Constraint(at), Constraint(extent - at - 1)))


def prime(expression: Affine, digits: Iterable[str]) -> Affine:
    """The expression in a second execution: each of `digits` replaced by its primed copy."""
    return expression.substitute({f"${d}": Affine.symbol(f"${d}'") for d in digits})


def primed(constraints: Iterable[Constraint], digits: Iterable[str]) -> tuple[Constraint, ...]:
    values = {f"${d}": Affine.symbol(f"${d}'") for d in digits}
    return tuple(Constraint(c.expression.substitute(values), c.kind, c.modulus) for c in constraints)


def same(digits: Iterable[str]) -> tuple[Constraint, ...]:
    """The two executions agree in these digits."""
    return tuple(sets.equal(Affine.symbol(f"${d}'"), Affine.symbol(f"${d}")) for d in sorted(digits))
