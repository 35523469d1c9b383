"""What every candidate kernel of a program costs: the answers to the grouping search."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from types import MappingProxyType

from polyfuse.affine import ZERO, Affine, dimension
from polyfuse.bindings import Layout
from polyfuse.cost.alone import BEGIN, counted
from polyfuse.cost.counts import box_of_rows
from polyfuse.cost.prices import READ, WRITTEN, price
from polyfuse.expr import DataIndex, Program
from polyfuse.options import Options
from polyfuse.places.proposal import Group
from polyfuse.planning.choose import Choice, Pricer, Wishes, choices, is_refuted, kernel_name
from polyfuse.planning.in_place import is_in_place
from polyfuse.planning.likeness import Likeness
from polyfuse.planning.outlook import Header, Outlook
from polyfuse.planning.steering import Steering, Tiles, steering
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import InputStatement, OpaqueStatement, Scop, Statement
from polyfuse.scop_builder import build_scop
from polyfuse.strategies.situation import Situation
from polyfuse.target import Target
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal

UNMET = 10**12
"""Picoseconds added to a kernel that no schedule computes as the user wishes: together with others one may."""
DEFAULT_SIZE = 8192  # of a symbol without a hint: large enough that rows and columns fill a device


def program_costs(
    program: Program, target: Target, options: Options, layouts: Sequence[Layout], pricer: Pricer = price
) -> ProgramCosts:
    """The statements of a program in canonical form, and the price of every kernel that may compute some of them."""
    scop = build_scop(program)  # views vanish into access relations
    hints = size_hints(program)
    given = array_layouts(scop, layouts)
    return ProgramCosts(scop, target, options, hints, given, steering(scop, options), pricer)


def other_form(costs: ProgramCosts, program: Program, layouts: Sequence[Layout]) -> ProgramCosts:
    """The costs of another form of a program, with the same options: groups that both forms have are priced once."""
    found = program_costs(program, costs.target, costs.options, layouts, costs.pricer)
    if found.hints == costs.hints:
        found.judged, found.kinds, found.outlook = costs.judged, costs.kinds, costs.outlook
    return found


def size_hints(program: Program) -> dict[str, int]:
    """A typical value of every size symbol."""
    hints = dict(program.hints)
    for name in program.symbols:
        hints.setdefault(name, DEFAULT_SIZE)
    return hints


def array_layouts(scop: Scop, layouts: Sequence[Layout]) -> dict[int, Layout]:
    """By value, the layouts of arguments that are not plain.  `layouts` has one entry per argument."""
    found: dict[int, Layout] = {}
    for statement in scop.statements:
        if isinstance(statement, InputStatement) and statement.position < len(layouts):
            layout = layouts[statement.position]
            if layout != Layout():
                found[statement.id] = layout
    return found


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of a group: its price, why there is no schedule if there is none, and the number of the proposal that gave it; -1
    where others were left out."""

    picoseconds: int
    verdict: Verdict | None
    number: int


@dataclass
class ProgramCosts:
    """What the grouping search asks, answered by building the best schedule of each candidate kernel."""

    scop: Scop
    target: Target
    options: Options
    hints: Mapping[str, int]
    layouts: Mapping[int, Layout]
    steering: Steering
    pricer: Pricer = price
    choices: dict[tuple[frozenset[int], frozenset[int]], Choice] = field(default_factory=dict)
    avoided: dict[tuple[frozenset[int], frozenset[int]], frozenset[Header]] = field(default_factory=dict)
    further: dict[tuple[frozenset[int], frozenset[int]], Iterator[Choice]] = field(default_factory=dict)
    judged: dict[int, Judgement] = field(default_factory=dict)
    keys: dict[tuple[frozenset[int], frozenset[int]], int] = field(default_factory=dict)
    kinds: dict[Hashable, int] = field(default_factory=dict)
    outlook: Outlook = field(default_factory=Outlook)
    proofs: dict[tuple[frozenset[int], frozenset[int]], KernelSchedule] = field(default_factory=dict)
    volumes: dict[int, int] = field(default_factory=dict)
    least: dict[int, int] = field(default_factory=dict)
    work: int = 0  # statements placed so far to learn prices: what planning time goes with

    @cached_property
    def likeness(self) -> Likeness:
        return Likeness(self.scop, self.layouts, self.kinds)

    @property
    def count(self) -> int:
        return len(self.scop.statements)

    def operands(self, value: int) -> tuple[int, ...]:
        return self.scop.operands(value)

    def is_input(self, value: int) -> bool:
        return isinstance(self.scop.statements[value], InputStatement)

    def is_output(self, value: int) -> bool:
        return value in self.scop.outputs

    def is_elementwise(self, value: int, reader: int) -> bool:
        one, other = self.scop.statements[value], self.scop.statements[reader]
        if not (isinstance(one, Statement) and isinstance(other, Statement)) or one.monoid or other.monoid:
            return False
        return all(is_in_place(one, other, read) for read in other.reads if read.source == value)

    def blocks_apart(self, one: frozenset[int], other: frozenset[int]) -> bool:
        if self.target.members < 2 or self.steering.fuse != "all":
            return False
        extents = [{self._space(v) for v in roots} for roots in (one, other)]
        return extents[0].isdisjoint(extents[1])

    def _space(self, value: int) -> tuple[Affine, ...]:
        """The extents of the domain of what makes a value."""
        statement = self.scop.statements[value]
        return statement.extents if isinstance(statement, Statement) else statement.shape

    def must_store(self, value: int) -> bool:
        return isinstance(self.scop.statements[value], OpaqueStatement) or any(
            isinstance(self.scop.statements[r], OpaqueStatement) for r in self.scop.readers.get(value, ())
        )

    def bytes(self, value: int) -> int:
        count = self.volumes.get(value)
        if count is None:
            elements = prod([max(0, extent.evaluate(self.hints)) for extent in self.scop.shape(value)])
            count = self.volumes[value] = elements * sum(d.itemsize for d in self.scop.statements[value].dtypes)
        return count

    def floor(self, roots: frozenset[int], loads: frozenset[int]) -> int:
        return self._moving(sum(map(self.least_read, loads)), roots)

    def floor_of_all(self, roots: frozenset[int], loads: frozenset[int]) -> int:
        return self._moving(sum(map(self.read_by_all, loads)), roots)

    def _moving(self, read: int, roots: frozenset[int]) -> int:
        """Picoseconds of a launch that reads so many bytes and writes these values."""
        written = sum(map(self.bytes, roots))
        if self.target.kind == "cpu":
            return int((self.target.launch + (read + written) / self.target.bandwidth) * 1e12)
        moved = (READ * read + WRITTEN * written) / self.target.bandwidth
        return int((self.target.launch + moved + counted(BEGIN, moved)) * 1e12)

    def least_read(self, value: int) -> int:
        """Bytes of a value that any reader of it reads at least; those that data lead to are not asked beside others,
        in whose kernels they mostly are."""
        count = self.least.get(value)
        if count is None:
            shape = [max(0, extent.evaluate(self.hints)) for extent in self.scop.shape(value)]
            counts, of_data = [self.bytes(value)], list[int]()
            for reader in self.scop.readers.get(value, ()):
                statement = self.scop.statements[reader]
                for read in statement.reads if isinstance(statement, Statement) else ():
                    if read.source == value and isinstance(statement, Statement):
                        extents = {f"%{d}": max(1, n.evaluate(self.hints)) for d, n in enumerate(statement.extents)}
                        itemsize = self.scop.dtype(value, read.component).itemsize
                        index = [ZERO if isinstance(e, DataIndex) else e for e in read.index]  # one of all, at least
                        named = index != list(read.index)
                        (of_data if named else counts).append(box_of_rows([index], shape, itemsize, extents))
            count = self.least[value] = min(counts if len(counts) > 1 else [*counts, *of_data])
        return count

    def read_by_all(self, value: int) -> int:
        """Bytes of a value that all its readers together read at least: rows of it that each read by its number."""
        shape, picked, rows = self.scop.shape(value), set[tuple[int, ...]](), set[tuple[int, ...]]()
        for reader in self.scop.readers.get(value, ()):
            statement = self.scop.statements[reader]
            reads = [r for r in statement.reads if r.source == value] if isinstance(statement, Statement) else []
            if not isinstance(statement, Statement) or any(read.where for read in reads):
                return self.least_read(value)
            extents = {dimension(k): extent for k, extent in enumerate(statement.extents)}
            for read in reads:
                numbers = {d: e.constant for d, e in enumerate(read.index) if isinstance(e, Affine) and e.is_constant}
                others = [(e, n) for d, (e, n) in enumerate(zip(read.index, shape, strict=True)) if d not in numbers]
                if any(not isinstance(e, Affine) or extents.get(e) != n for e, n in others):
                    return self.least_read(value)
                picked.add(tuple(numbers.values()))
                rows.add(tuple(numbers))
        if len(rows) != 1:
            return self.least_read(value)
        count = prod([max(1, shape[d].evaluate(self.hints)) for d in next(iter(rows))])
        return max(self.least_read(value), self.bytes(value) * len(picked) // count)

    def price(self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int]) -> int:
        return self._judged(body, roots, loads).picoseconds

    def whole_price(
        self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int], *, teaches: bool = False
    ) -> int:
        cost = self.choice(body, roots, loads, self.outlook if teaches else None).cost
        return cost.picoseconds if cost is not None else self.floor(roots, loads)

    def learning(self) -> Callable[[], None]:
        worth, judged = dict(self.outlook.worth), dict(self.judged)

        def forget() -> None:
            self.outlook.worth = worth
            for key, found in list(self.judged.items()):
                if found.number < 0 and judged.get(key) != found:
                    del self.judged[key]

        return forget

    def _judged(self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int]) -> Judgement:
        """What groups of equal structure share."""
        key = None if (body, roots) in self.choices else self._key(body, roots, loads)
        found = self.judged.get(key) if key is not None else None
        if found is None:
            choice = self.choice(body, roots, loads) if key is None else self._estimated(body, roots, loads)
            as_wished = body.isdisjoint(self.steering.tiles) and body.isdisjoint(self.steering.strategies)
            found = self._judgement(choice, roots, loads, 0 if as_wished else UNMET)
            if key is not None:
                self.judged[key] = _for_the_like(found, Group(self.scop, body, roots, loads))
        return found

    def _estimated(self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int]) -> Choice:
        """The best schedule of a group among those that are worth a price."""
        found = self._choose(body, roots, loads, outlook=self.outlook)
        if not found.is_partial:
            self.choices[body, roots] = found
        return found

    def _judgement(self, choice: Choice, roots: frozenset[int], loads: frozenset[int], unmet: int = 0) -> Judgement:
        picoseconds = choice.cost.picoseconds if choice.cost is not None else self.floor(roots, loads) + unmet
        return Judgement(picoseconds, choice.verdict, -1 if choice.is_partial else choice.number)

    def _key(self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int]) -> int | None:
        """Equal for groups of equal structure; None where the user's wishes, or a library call, make one special."""
        if self.steering.tiles or self.steering.strategies or self._holds_a_call(body):
            return None
        key = self.keys.get((body, roots))
        if key is None:
            key = self.keys[body, roots] = self.likeness.key(body, roots, loads)
        return key

    def structure(self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int]) -> int | None:
        return self.likeness.key(body, roots, loads)

    def _holds_a_call(self, body: frozenset[int]) -> bool:
        return any(isinstance(self.scop.statements[v], OpaqueStatement) for v in body)

    def legal(self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int]) -> Verdict:
        verdict = self._judged(body, roots, loads).verdict
        return LEGAL if verdict is None else verdict

    def choice(
        self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int], lesson: Outlook | None = None
    ) -> Choice:
        """The best schedule of a group; of one that is like another, that one's, if it costs the same here.  `lesson`:
        what learns from its prices, if they are asked for now."""
        key = (body, roots)
        found = self.choices.get(key)
        if found is None:
            like = self._key(body, roots, loads)
            alike = self.judged.get(like) if like is not None else None
            if alike is not None and alike.verdict is None and alike.number >= 0:
                found = self._choose(body, roots, loads, alike.number)
                if found.cost is None or found.cost.picoseconds != alike.picoseconds:
                    found = None
            found = self.choices[key] = found or self._first(body, roots, loads, lesson)
            if like is not None and alike is not None and alike.verdict is None and alike.number < 0:
                self.judged[like] = self._judgement(found, roots, loads)
        return found

    def _first(
        self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int], lesson: Outlook | None
    ) -> Choice:
        """The best schedule of a group, with all others at hand for where it is refuted."""
        avoided = self.avoided.get((body, roots), frozenset())
        self.further[body, roots] = self._choices(body, roots, loads, avoided=avoided, lesson=lesson)
        found = next(self.further[body, roots])
        self.work += found.work
        return found

    def avoid(self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int], refuted: Header) -> bool:
        """Go on to a schedule that was not refuted; whether there is one."""
        key = (body, roots)
        avoided = self.avoided[key] = self.avoided.get(key, frozenset()) | {refuted}
        if key not in self.further:  # estimates keep no others: prices of all are many
            self.further[key] = self._choices(body, roots, loads)
        for choice in self.further[key]:
            self.work += choice.work
            self.choices[key] = choice
            made = choice.schedule
            if made is None or not is_refuted((made.strategy, made.parameters), avoided):
                break
        return self.choices[key].schedule is not None

    def with_threads(
        self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int], threads: int
    ) -> Choice:
        """The best schedule of a group whose blocks have that many threads, if the user leaves the choice: the one that
        all of its parameters name, as a text would."""
        found = self._choose(body, roots, loads, tiles={"threads": threads})
        if found.schedule is None:
            return found
        named = {"threads": threads, **dict(found.schedule.parameters)}
        return self._choose(body, roots, loads, tiles=named, strategy=found.schedule.strategy)

    def _choose(
        self,
        body: frozenset[int],
        roots: frozenset[int],
        loads: frozenset[int],
        number: int | None = None,
        tiles: Tiles = MappingProxyType({}),
        strategy: str = "",
        outlook: Outlook | None = None,
    ) -> Choice:
        avoided = self.avoided.get((body, roots), frozenset())
        found = next(self._choices(body, roots, loads, number, tiles, strategy, outlook, avoided))
        self.work += found.work
        return found

    def _choices(
        self,
        body: frozenset[int],
        roots: frozenset[int],
        loads: frozenset[int],
        number: int | None = None,
        tiles: Tiles = MappingProxyType({}),
        strategy: str = "",
        outlook: Outlook | None = None,
        avoided: frozenset[Header] = frozenset(),
        lesson: Outlook | None = None,
    ) -> Iterator[Choice]:
        if self._holds_a_call(body):
            return iter((Choice(None, None, None if len(body) == 1 else _boundary(self.scop, body)),))
        situation = Situation(Group(self.scop, body, roots, loads), self.target, self.hints, self.layouts)
        request = self.steering.request(body)
        if isinstance(request, Verdict):
            return iter((Choice(None, None, request),))
        situation = replace(
            situation,
            tiles={**tiles, **request.tiles},
            invariant=self.options.batch_invariant,
            atomics=self.options.atomics,
        )
        wishes = Wishes(
            max_registers=self.options.max_registers, strategy=request.strategy or strategy, number=number
        )
        return choices(situation, wishes, self.pricer, avoided, outlook, lesson)


def _for_the_like(judgement: Judgement, group: Group) -> Judgement:
    """What is said of groups that are like one which was refused."""
    verdict = judgement.verdict
    if verdict is None:
        return judgement
    sentence = f"{verdict.sentence} (said of {kernel_name(group)}, which this is like)"
    return replace(judgement, verdict=replace(verdict, sentence=sentence))


def _boundary(scop: Scop, body: frozenset[int]) -> Verdict:
    name = next(scop.statements[v].name for v in body if isinstance(scop.statements[v], OpaqueStatement))
    return illegal(Hazard.SCOPE, f"{name} is a library call, which no kernel contains", rule="opaque")
