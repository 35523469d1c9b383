"""Why two values of a plan are not computed by one kernel: the search's own questions, asked of the finished plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polyfuse.errors import OptionError
from polyfuse.explain.kernels import KernelView, by_step
from polyfuse.grouping.partition import KernelGroup
from polyfuse.grouping.rules import Rules
from polyfuse.grouping.search import Grouping
from polyfuse.grouping.why import BESIDE, TOGETHER
from polyfuse.legality import prove
from polyfuse.plan import LibraryCall
from polyfuse.planning.choose import Choice
from polyfuse.planning.program_costs import ProgramCosts, program_costs
from polyfuse.planning.residence import Residence
from polyfuse.planning.steering import value_ids
from polyfuse.planning.witness import with_witness
from polyfuse.scop import InputStatement
from polyfuse.verdict import Kind, Verdict

if TYPE_CHECKING:
    from polyfuse.plan import Plan


@dataclass
class ProvedCosts(ProgramCosts):
    """Answers on legality that isl has confirmed."""

    def legal(self, body: frozenset[int], roots: frozenset[int], loads: frozenset[int]) -> Verdict:
        verdict = super().legal(body, roots, loads)
        choice = self.choice(body, roots, loads)
        if not verdict or choice.schedule is None or choice.group is None:
            return verdict
        return prove(choice.group.scop, choice.schedule, atomics=self.options.atomics)


def why_not(plan: Plan, first: str, second: str) -> Verdict:
    """Why no kernel computes both values; of one value: why it is written to memory; of one argument: why its buffer
    may not take a result.

    Legal where the plan does what is asked.  Raises OptionError for names that the program does not have.
    """
    costs, grouping = regrouped(plan)
    u, v = (_value(costs, name) for name in (first, second))
    if u == v and isinstance(costs.scop.statements[u], InputStatement):
        return why_not_in_place(plan, u)
    if u != v and any({u, v} <= {value for s in launch.schedules for value in s.body} for launch in plan.launches):
        shared = any({u, v} <= set(schedule.body) for schedule in plan.schedules)
        return TOGETHER if shared else BESIDE
    verdict = grouping.why_stored(u) if u == v else grouping.why_not(u, v)
    touched = {u, v}
    near = [k for k in grouping.kernels if touched & k.body or (u == v and u in k.loads)]
    return with_witness(costs, frozenset[int]().union(*[k.body for k in near]), verdict)


def why_not_in_place(plan: Plan, argument: int) -> Verdict:
    """Whether a kernel may store a result over an argument: the result that the program writes back into it, else the
    first one that fits."""
    scop = plan.scop
    source = scop.statements[argument]
    assert isinstance(source, InputStatement)
    wanted = plan.program.writes.get(source.position)
    roots = [r for kernel in plan.kernels for r in kernel.schedule.roots]
    if wanted is not None:
        roots = [r for r in roots if r == scop.outputs[wanted]]
    fitting = [r for r in roots if scop.shape(r) == source.shape and scop.dtype(r) == scop.dtype(argument)]
    if not fitting:
        return Verdict(Kind.ILLEGAL, f"no kernel stores a result of the shape and dtype of {source.name}")
    return Residence(plan).follows(argument, fitting[0])


def regrouped(plan: Plan) -> tuple[ProgramCosts, Grouping]:
    """The grouping that a plan came from, or could have come from."""
    plain = program_costs(plan.program, plan.target, plan.options, plan.layouts)
    costs = ProvedCosts(plain.scop, plain.target, plain.options, plain.hints, plain.layouts, plain.steering)
    kernels: list[KernelGroup] = []
    for step, views in by_step(plan):
        kernels += [_computed(costs, view) for view in views]
        kernels += [_called(plan, step)] if isinstance(step, LibraryCall) else []
    steering, limit = costs.steering, plan.options.max_fusion_size
    rules = Rules((), steering.apart, limit, steering.fusible)
    return costs, Grouping(tuple(kernels), {}, (), 0, costs, rules, None)


def _computed(costs: ProgramCosts, kernel: KernelView) -> KernelGroup:
    group, cost = kernel.group, kernel.cost
    costs.choices[(group.body, group.roots)] = Choice(kernel.schedule, cost, None, group)
    return KernelGroup(group.roots, group.body, group.loads, cost.picoseconds)


def _called(plan: Plan, step: LibraryCall) -> KernelGroup:
    value = plan.called(step)
    one, loads = frozenset((value,)), frozenset(plan.scop.operands(value))
    return KernelGroup(one, one, loads, 0)


def _value(costs: ProgramCosts, name: object) -> int:
    ids = value_ids(costs.scop)
    if not isinstance(name, str) or name not in ids:
        raise OptionError(f"no value is called {name!r}", advice=f"values: {', '.join(sorted(ids))}")
    return ids[name]
