"""What the user asks of the grouping and of the strategies, by value ids.

Nothing here is taken on trust: whatever a user asks for goes through the same proof as what the planner proposes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from polyfuse.errors import OptionError
from polyfuse.library_calls.contraction import NAME as CONTRACTION
from polyfuse.options import Fuse, Options
from polyfuse.scop import InputStatement, OpaqueStatement, Scop, Statement
from polyfuse.verdict import Hazard, Verdict, illegal

Tiles = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Request:
    """How one kernel is to be scheduled: the strategy by name (empty: any) and parameters that it must have."""

    strategy: str = ""
    tiles: Tiles = field(default_factory=dict)


@dataclass(frozen=True)
class Steering:
    """`together`, `apart`: groups of values.  `tiles`, `strategies`: by value, for the kernel that computes it."""

    scop: Scop
    fuse: Fuse = "all"
    together: tuple[frozenset[int], ...] = ()
    apart: tuple[frozenset[int], ...] = ()
    tiles: Mapping[int, Tiles] = field(default_factory=dict)
    strategies: Mapping[int, str] = field(default_factory=dict)

    # ---------------------------------------------------------------- grouping
    @cached_property
    def units(self) -> Mapping[int, int]:
        """Per value the value of the user's code that it is a part of: without fusion a kernel is one such unit, as a
        library would run it, so that the exponential inside a sigmoid is not written to memory."""
        unit: dict[int, int] = {}
        inner = self.scop.program.inner
        for statement in reversed(self.scop.statements):
            found = {unit[r] for r in self.scop.readers.get(statement.id, ())}
            is_part = isinstance(statement, Statement) and statement.digest in inner and len(found) == 1
            unit[statement.id] = found.pop() if is_part and statement.id not in self.scop.outputs else statement.id
        return unit

    def wishes(self) -> tuple[frozenset[int], ...]:
        """Groups to be kept in one kernel where that is legal."""
        if self.fuse == "all":
            return self.together
        members: dict[int, set[int]] = {}
        for value, unit in self.units.items():
            if not isinstance(self.scop.statements[value], InputStatement):
                members.setdefault(unit, set()).add(value)
        units = sorted((frozenset(m) for m in members.values() if len(m) > 1), key=min)
        return (*self.together, *(u for u in units if all(u.isdisjoint(t) for t in self.together)))

    def fusible(self, body: frozenset[int]) -> bool:
        """Whether the fuse option lets one kernel compute these values."""
        if self.fuse == "all" or any(body <= group for group in self.together):
            return True
        if len({self.units[v] for v in body}) == 1:
            return True
        return self.fuse == "pointwise" and all(self._is_elementwise(v) for v in body)

    def _is_elementwise(self, value: int) -> bool:
        statement = self.scop.statements[value]
        return isinstance(statement, Statement) and statement.monoid is None

    # ---------------------------------------------------------------- one kernel
    def request(self, body: frozenset[int]) -> Request | Verdict:
        """What the kernel that computes `body` must look like, or why two wishes contradict each other."""
        tiles: dict[str, int] = {}
        for value in sorted(body & self.tiles.keys()):
            for name, size in self.tiles[value].items():
                if tiles.setdefault(name, size) != size:
                    return self._conflict(f"{name} = {tiles[name]}", f"{name} = {size}")
        wanted = sorted({self.strategies[v] for v in body & self.strategies.keys()})
        if len(wanted) > 1:
            return self._conflict(f"strategy {wanted[0]}", f"strategy {wanted[1]}")
        return Request(wanted[0] if wanted else "", tiles)

    @staticmethod
    def _conflict(one: str, other: str) -> Verdict:
        return illegal(Hazard.STEERING, f"one kernel cannot have both {one} and {other}", rule="steering")


def steering(scop: Scop, options: Options) -> Steering:
    """The options of a program by value ids.  Raises OptionError for names that it does not have."""
    ids = value_ids(scop)
    return Steering(
        scop,
        options.fuse,
        tuple(frozenset(_computed(scop, ids, name) for name in group) for group in options.together),
        tuple(frozenset(_computed(scop, ids, name) for name in group) for group in options.apart),
        {_scheduled(scop, ids, name): dict(sizes) for name, sizes in options.tiles},
        {_scheduled(scop, ids, name): strategy for name, strategy in options.strategies},
    )


def value_ids(scop: Scop) -> dict[str, int]:
    """Values by the names of statements, arguments and outputs."""
    ids = {s.name: s.id for s in scop.statements}
    for output, name in zip(scop.outputs, scop.program.output_names, strict=True):
        ids.setdefault(name, output)
    return ids


def _computed(scop: Scop, ids: Mapping[str, int], name: str) -> int:
    """A value of that name which the program computes.  Raises OptionError."""
    value = _id(ids, name)
    if isinstance(scop.statements[value], InputStatement):
        computed = sorted(n for n, v in ids.items() if not isinstance(scop.statements[v], InputStatement))
        problem = f"{name!r} is an argument, which no kernel computes"
        raise OptionError(problem, advice=f"values: {', '.join(computed)}")
    return value


def _scheduled(scop: Scop, ids: Mapping[str, int], name: str) -> int:
    """A value of that name which a kernel may compute.  Raises OptionError."""
    statement = scop.statements[_computed(scop, ids, name)]
    if isinstance(statement, OpaqueStatement) and statement.call.name != CONTRACTION:
        kernels = sorted(n for n, v in ids.items() if isinstance(scop.statements[v], Statement))
        problem = f"{name!r} is a library call, which has no strategy and no parameters"
        raise OptionError(problem, advice=f"values of kernels: {', '.join(kernels)}")
    return statement.id


def _id(ids: Mapping[str, int], name: str) -> int:
    if name not in ids:
        raise OptionError(f"no value is called {name!r}", advice=f"values: {', '.join(sorted(ids))}")
    return ids[name]
