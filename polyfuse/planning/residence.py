"""Values that live in each other's memory: a result in an argument's, an intermediate in one that nothing reads again.

    f(x, out=x)                        y in x    every read of x[i] is made by the thread that stores y[i], before it
    a = k0(x); b = k1(a); y = k2(b)    b in a    k1 reads a[i] before it stores b[i], and no later kernel reads a

Kernels of a plan run in order, so only a kernel that both reads the first value and stores the second needs the rule
of `polyfuse.legality.reuse`; what an earlier kernel has read is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from polyfuse import sets
from polyfuse.dependences import flow_into
from polyfuse.legality.reuse import may_reuse
from polyfuse.legality.side_by_side import prove_side_by_side
from polyfuse.places.proposal import Group
from polyfuse.plan import Launch, Plan, Step
from polyfuse.planning.flattening import group_of
from polyfuse.planning.program_costs import array_layouts
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import InputStatement, Scop
from polyfuse.sets import BudgetExceeded
from polyfuse.verdict import LEGAL, Hazard, Instance, Verdict, Witness, illegal

_RULE = "reuse"


@dataclass(frozen=True)
class Residence:
    """When the values of a plan are written and read, and which of them may follow which in one memory."""

    plan: Plan
    verdicts: dict[tuple[int, int], Verdict] = field(default_factory=dict)
    scops: dict[tuple[int, ...], Scop] = field(default_factory=dict)  # of kernels, by what they store

    @property
    def scop(self) -> Scop:
        return self.plan.scop

    @cached_property
    def written(self) -> Mapping[int, int]:
        """The step that stores a value; arguments are there before the first."""
        found = {s.id: -1 for s in self.scop.statements if isinstance(s, InputStatement)}
        for number, step in enumerate(self.plan.steps):
            found |= dict.fromkeys(self._stored(step), number)
        return found

    @cached_property
    def read(self) -> Mapping[int, tuple[int, ...]]:
        """The steps that read a value; of a result one more, after the last: it is handed over, or copied, then."""
        found: dict[int, list[int]] = {}
        for number, step in enumerate(self.plan.steps):
            for value in self._loaded(step):
                found.setdefault(value, []).append(number)
        for value in set(self.scop.outputs):
            found.setdefault(value, []).append(len(self.plan.steps))
        return {value: tuple(numbers) for value, numbers in found.items()}

    def argument(self, position: int) -> int | None:
        """The value of an array argument; None where the program does not read it."""
        inputs = (s for s in self.scop.statements if isinstance(s, InputStatement))
        return next((s.id for s in inputs if s.position == position), None)

    def follows(self, first: int, second: int) -> Verdict:
        """Whether `second` may be stored into the memory that holds `first`."""
        if (first, second) not in self.verdicts:
            self.verdicts[first, second] = self._follows(first, second)
        return self.verdicts[first, second]

    def _follows(self, first: int, second: int) -> Verdict:
        scop = self.scop
        source, result = scop.statements[first], scop.statements[second]
        at = self.written.get(second, -1)
        if source.shape != result.shape or source.dtypes != result.dtypes or len(result.dtypes) != 1:
            sentence = f"{result.name} does not fit into {source.name}: shape or dtype differ"
            return illegal(Hazard.BOUNDS, sentence, rule=_RULE)
        if at < 0 or self.written[first] >= at:
            sentence = f"{result.name} is not stored after {source.name} is"
            return illegal(Hazard.WAW, sentence, rule=_RULE)
        for number in self.read.get(first, ()):
            if number > at:
                return self._read_later(first, second, number)
            if number == at:
                verdict = self._in_step(first, second, self.plan.steps[at])
                if not verdict:
                    return verdict
        return LEGAL

    def _in_step(self, first: int, second: int, step: Step) -> Verdict:
        if not isinstance(step, Launch):
            result, source = (self.scop.statements[v].name for v in (second, first))
            sentence = f"the library that makes {result} reads {source} in an order of its own"
            return illegal(Hazard.WAR, sentence, rule=_RULE)
        writer = next(s for s in step.schedules if second in s.roots)
        others = [s for s in step.schedules if s is not writer]
        beside = prove_side_by_side(self.scop, [replace(writer, reuses=((first, second),)), *others])
        if not beside or first not in writer.loads:
            return beside
        return may_reuse(self.kernel_scop(writer), writer, first, second)

    def kernel_scop(self, s: KernelSchedule) -> Scop:
        """The statements as a kernel was scheduled, contiguous dimensions collapsed."""
        if s.roots not in self.scops:
            group = Group(self.scop, frozenset(s.body), frozenset(s.roots), frozenset(s.loads))
            self.scops[s.roots] = group_of(s, group, array_layouts(self.scop, self.plan.layouts)).scop
        return self.scops[s.roots]

    def _read_later(self, first: int, second: int, number: int) -> Verdict:
        """Some element that a step after the one that stores `second` reads of `first`."""
        names = [self.scop.statements[v].name for v in (first, second)]
        if number == len(self.plan.steps):
            sentence = f"{names[0]} is itself a result, handed over after {names[1]} would have overwritten it"
            return illegal(Hazard.WAR, sentence, rule=_RULE)
        step = self.plan.steps[number]
        where = f"kernel {self._reading(step, first).name}" if isinstance(step, Launch) else "a library call"
        sentence = f"{names[0]} is read by {where}, after {names[1]} would have overwritten it"
        try:
            return illegal(Hazard.WAR, sentence, self._reader(first, second, step), rule=_RULE)
        except BudgetExceeded:
            return illegal(Hazard.WAR, sentence, rule=_RULE)

    def _reader(self, first: int, second: int, step: Step) -> Witness | None:
        """An element of `first`, which `second` would overwrite, and the instance of a later step that reads it."""
        if not isinstance(step, Launch):
            return None
        for dependence in flow_into(self.scop, self._reading(step, first).body, first):
            point = sets.sample(dependence.relation)
            if point is not None:
                element = tuple(point[n] for n in dependence.elements)
                instance = tuple(point[n] for n in dependence.instances)
                sizes = tuple((n, v) for n, v in point.items() if n[0] not in "$@")
                reader = Instance(self.scop.statements[dependence.consumer].name, instance)
                return Witness(Instance(self.scop.statements[second].name, element), reader, sizes)
        return None

    def _reading(self, launch: Launch, value: int) -> KernelSchedule:
        return next(s for s in launch.schedules if value in s.loads)

    def joins(self, held: Collection[int], value: int) -> bool:
        """Whether `value` may share the memory of all of `held`, each in its time."""
        at = self.written[value]
        return all(
            self.follows(other, value) if self.written[other] < at else self.follows(value, other) for other in held
        )

    def _stored(self, step: Step) -> Iterable[int]:
        return step.roots if isinstance(step, Launch) else (self.plan.called(step),)

    def _loaded(self, step: Step) -> Iterable[int]:
        return step.loads if isinstance(step, Launch) else self.scop.operands(self.plan.called(step))
