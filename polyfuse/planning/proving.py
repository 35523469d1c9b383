"""Every kernel of a grouping through isl; a refuted one is placed otherwise or taken apart."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from polyfuse.errors import ScheduleError
from polyfuse.grouping.partition import KernelGroup
from polyfuse.grouping.search import Grouping
from polyfuse.legality import prove, prove_at_length
from polyfuse.planning.choose import Choice
from polyfuse.planning.program_costs import ProgramCosts
from polyfuse.planning.wishes import granted
from polyfuse.verdict import LEGAL, Kind, Verdict

fusion_log = logging.getLogger("polyfuse.fusion")

PATIENCE = 6
"""Rounds of proof after which the values that most refused kernels had become kernels of their own.  What is refused
because of them would else be tried with ever other statements, for as many rounds as those have subsets."""


def proved(costs: ProgramCosts, grouping: Grouping) -> Grouping:
    """Every final kernel through isl, once; a refuted one is marked and the search goes on without it.

    No plan leaves with a kernel that was not proved: raises ScheduleError instead.
    """
    refused: dict[KernelGroup, Verdict] = {}
    often: Counter[int] = Counter()  # how often each value was in a kernel that was refused
    for number in range(PATIENCE + 2 + costs.count):  # each round marks kernels that the next one cannot form again
        refused = {}
        for kernel in grouping.kernels:
            promised = costs.choice(kernel.body, kernel.roots, kernel.loads)
            if promised.schedule is None or promised.group is None:
                if promised.verdict is not None and len(kernel.body) > 1:  # alike ones have a schedule: of other sizes
                    refused[kernel] = promised.verdict
                    continue
                _check_single(costs, kernel, promised)
                continue
            verdict, is_proved = _proved_kernel(costs, kernel, promised)
            if not is_proved and len(kernel.body) == 1:
                raise ScheduleError(f"no schedule of {promised.schedule.name} was proved: {verdict}", verdict=verdict)
            if not is_proved or not verdict and _is_better_apart(costs, grouping, kernel, promised, verdict):
                refused[kernel] = verdict
        if not refused:
            return grouping
        often.update(value for kernel in refused for value in kernel.body)
        worst = {v for k in refused for v in k.body if often[v] == max(often[u] for u in k.body)}
        grouping = grouping.refute(refused, worst if number >= PATIENCE else frozenset())
    verdict = next(iter(refused.values()))
    raise ScheduleError(f"no schedule of {costs.scop.program.name} was proved: {verdict}", verdict=verdict)


def shaken(costs: ProgramCosts, grouping: Grouping, effort: int | None) -> Grouping:
    """A proved grouping after rounds of shake, proved again where they changed it.  On cards they are for those who
    grant planning its time: of the benchmark programs they change three, for a twelfth of all planning, and win two
    parts in 100,000 of the predicted times (benchmarks/results/rounds.json).  On CPUs ``x / x.sum()`` needs them."""
    allowed = granted(costs.options, grouping.spent)
    if effort is None and allowed is None and costs.target.kind == "cuda":
        return grouping
    other = grouping.shaken(effort, allowed)
    return other if other.kernels == grouping.kernels else proved(costs, other)


def _proved_kernel(costs: ProgramCosts, kernel: KernelGroup, choice: Choice) -> tuple[Verdict, bool]:
    """The first refutation of a schedule of a kernel, if there was one, and whether it is left with a proved one."""
    first: Verdict | None = None
    undecided: list[Choice] = []
    while True:
        schedule, group = choice.schedule, choice.group
        assert schedule is not None and group is not None
        if costs.proofs.get((kernel.body, kernel.roots)) is schedule:
            return LEGAL, True
        verdict = prove(group.scop, schedule, atomics=costs.options.atomics)
        if verdict:
            costs.proofs[kernel.body, kernel.roots] = schedule
            return verdict if first is None else first, True
        first = verdict if first is None else first
        fusion_log.info("refuted %s by %s: %s", schedule.name, schedule.strategy, verdict)
        undecided += [choice] if verdict.kind is Kind.UNKNOWN else []
        if not costs.avoid(kernel.body, kernel.roots, kernel.loads, (schedule.strategy, schedule.parameters)):
            return first, len(kernel.body) == 1 and _proved_at_length(costs, kernel, undecided)
        choice = costs.choice(kernel.body, kernel.roots, kernel.loads)


def _proved_at_length(costs: ProgramCosts, kernel: KernelGroup, undecided: Sequence[Choice]) -> bool:
    """Whether a lone statement, which cannot be taken apart, has a schedule that a larger budget proves."""
    for choice in undecided:
        assert choice.schedule is not None and choice.group is not None
        if prove_at_length(choice.group.scop, choice.schedule, atomics=costs.options.atomics):
            costs.choices[kernel.body, kernel.roots] = choice
            return True
    return False


def _is_better_apart(
    costs: ProgramCosts, grouping: Grouping, kernel: KernelGroup, promised: Choice, verdict: Verdict
) -> bool:
    """Whether a kernel that the search joined for a price that no proved schedule has is dearer than its parts."""
    choice = costs.choice(kernel.body, kernel.roots, kernel.loads)
    assert choice.cost is not None and promised.cost is not None
    risen = choice.cost.seconds - promised.cost.seconds
    if risen <= 0 or len(kernel.body) == 1:
        return False
    return grouping.refute({kernel: verdict}).time < grouping.time + risen * 1e12


def _check_single(costs: ProgramCosts, kernel: KernelGroup, choice: Choice) -> None:
    """Only a library call has no schedule of its own.  Raises ScheduleError where the user's options left none."""
    if choice.verdict is not None:
        names = ", ".join(costs.scop.statements[v].name for v in sorted(kernel.body))
        raise ScheduleError(f"no schedule for {names}: {choice.verdict}", verdict=choice.verdict)
