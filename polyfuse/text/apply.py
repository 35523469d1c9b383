"""A text applied to a program: the kernels, strategies and parameters that it names, built and proved anew.

The text decides grouping, what is stored, strategies and their parameters.  Places, scopes, combine levels and the grid
follow; what the text says of scopes and notes is checked against what follows.  Nothing is believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from polyfuse.errors import ArgumentError, ScheduleError
from polyfuse.explain.kernels import KernelView
from polyfuse.grouping.partition import KernelGroup
from polyfuse.grouping.rules import Rules
from polyfuse.grouping.search import Grouping
from polyfuse.grouping.side_by_side import Launched
from polyfuse.legality import prove, prove_side_by_side
from polyfuse.places.proposal import Group
from polyfuse.planning.assembly import assemble
from polyfuse.planning.choose import Choice, choose
from polyfuse.planning.members import Packing
from polyfuse.planning.program_costs import ProgramCosts, program_costs
from polyfuse.strategies.atomics import ATOMIC
from polyfuse.strategies.situation import Situation
from polyfuse.text.grouping import Sets, grouped
from polyfuse.text.parser import CallText, KernelText, StepText, parse_text
from polyfuse.text.printer import home_text
from polyfuse.verdict import Hazard, Verdict, illegal

if TYPE_CHECKING:
    from polyfuse.plan import Plan


class Planned(Protocol):
    """A jitted function."""

    def plan(self, /, *args: Any, **kwargs: Any) -> Plan: ...


def parse_schedule(text: str, function: Planned, *specs: Any, **options: Any) -> Plan:
    """The plan that `text` describes, for a jitted function and arguments or shape specs as `Jitted.plan` takes them.

    `specs` may also be one list of them.  Raises ScheduleError, with the verdict, for a text that is malformed or asks
    for what is illegal, ArgumentError for a function that is not jitted.
    """
    if not hasattr(function, "plan"):
        name = getattr(function, "__name__", type(function).__name__)
        raise ArgumentError(f"{name} is not jitted", advice="Pass what pf.jit returns.")
    arguments = specs[0] if len(specs) == 1 and isinstance(specs[0], list) else specs
    return apply_text(text, function.plan(*arguments, **options))


def apply_text(text: str, plan: Plan) -> Plan:
    """The plan for the program, target and layouts of `plan` that the text describes.

    Raises ScheduleError where the text is malformed, where it leaves a value without a home, or where a kernel that it
    asks for is refused; the error carries the verdict.
    """
    steps = parse_text(text)
    costs = program_costs(plan.program, plan.target, plan.options, plan.layouts)
    sets = grouped(costs.scop, steps)
    kernels = [_kernel(costs, step, group) for step, group in zip(steps, sets, strict=True)]
    grouping = Grouping(tuple(kernels), {}, (), 0, costs, Rules(), None)
    packing = Packing(grouping, tuple(_launches(costs, steps, kernels)), {})
    built = assemble(costs, packing, plan.layouts)
    guards = tuple(dict.fromkeys((*built.guards, *plan.guards)))
    built = replace(built, guards=guards)
    texts = [step for step in steps if isinstance(step, KernelText)]
    for step, view in zip(texts, built.kernels, strict=True):
        _check_homes(step, view)
    return built


def _launches(costs: ProgramCosts, steps: Sequence[StepText], kernels: Sequence[KernelGroup]) -> list[Launched]:
    """The kernels of each launch, in order.  Raises ScheduleError for those that may not run side by side."""
    found: list[Launched] = []
    for step, kernel in zip(steps, kernels, strict=True):
        if not isinstance(step, KernelText) or not step.beside:
            found.append((kernel,))
            continue
        found[-1] = (*found[-1], kernel)
        schedules = [s for k in found[-1] if (s := costs.choice(k.body, k.roots, k.loads).schedule) is not None]
        verdict = prove_side_by_side(costs.scop, schedules)
        if not verdict:
            raise refused(step, verdict)
    return found


def _kernel(costs: ProgramCosts, step: StepText, sets: Sets) -> KernelGroup:
    """The kernel of one step, built, proved, and kept in `costs` as the choice for its group."""
    if isinstance(step, CallText):
        return KernelGroup(sets.roots, sets.body, sets.loads, 0)
    choice = _choice(costs, step, sets)
    if choice.schedule is None or choice.group is None or choice.cost is None:
        raise refused(step, choice.verdict)
    verdict = prove(choice.group.scop, choice.schedule, atomics=costs.options.atomics)
    if not verdict:
        raise refused(step, verdict)
    if step.threads and choice.schedule.threads != step.threads:
        sentence = f"the block has {choice.schedule.threads} threads, not {step.threads}"
        raise refused(step, illegal(Hazard.STEERING, sentence, rule="steering"))
    costs.choices[(sets.body, sets.roots)] = choice
    return KernelGroup(sets.roots, sets.body, sets.loads, choice.cost.picoseconds)


def _choice(costs: ProgramCosts, step: KernelText, sets: Sets) -> Choice:
    tiles = dict(step.parameters)
    if step.threads:
        tiles.setdefault("threads", step.threads)
    group = Group(costs.scop, sets.body, sets.roots, sets.loads)
    situation = Situation(
        group,
        costs.target,
        costs.hints,
        costs.layouts,
        tiles,
        invariant=costs.options.batch_invariant,
        atomics=ATOMIC in tiles,  # whether that is allowed is for the proof to say
    )
    most, unasked = costs.options.max_registers, replace(situation, tiles={})
    for parameters in (tiles, dict(step.parameters)):  # unasked first: what is asked for may change others
        stated = (step.strategy, tuple(sorted(parameters.items())))
        found = choose(unasked, name=step.name, max_registers=most, stated=stated)
        if found.schedule is not None and step.threads in (0, found.schedule.threads):
            return found
    return choose(situation, name=step.name, max_registers=most, strategy=step.strategy)


def refused(step: KernelText, verdict: Verdict | None) -> ScheduleError:
    """The error for a kernel that the text asks for and that may not be."""
    return ScheduleError(f"line {step.line}: kernel {step.name} is refused: {verdict}", verdict=verdict)


def _check_homes(step: KernelText, kernel: KernelView) -> None:
    """Scopes and notes that the text states are those that follow from the schedule."""
    views = {v.name: v for v in (*kernel.loads, *kernel.statements)}
    for statement in step.statements:
        if statement.scope is None:
            continue
        view = views.get(statement.name)
        if view is None:
            raise ScheduleError(f"line {statement.line}: {step.name} reads no {statement.name}")
        derived = view.scope.value if view.is_load else home_text(kernel, view)
        stated = ", ".join([statement.scope.value, *statement.notes])
        agrees = derived == stated if statement.notes else derived.split(", ")[0] == stated
        if not agrees:
            sentence = f"{statement.name} lives elsewhere: the text says {stated}, the schedule gives {derived}"
            verdict = illegal(Hazard.SCOPE, sentence, rule="scope")
            raise ScheduleError(f"line {statement.line}: {sentence}", verdict=verdict)
