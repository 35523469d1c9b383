"""The best schedule of one group: every strategy proposes, the builder places, the price decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain, count
from operator import attrgetter

from polyfuse.cost.counts import Cost, Sizes, box_bytes
from polyfuse.cost.prices import price
from polyfuse.cost.residency import registers_of_thread, resident_blocks, settled_blocks
from polyfuse.places.builder import Refused, draft_schedule, in_order
from polyfuse.places.proposal import Group, Proposal
from polyfuse.planning.block_bounds import block_bounds
from polyfuse.planning.collapse import collapse, sums_apart
from polyfuse.planning.flattening import FLAT, flattened
from polyfuse.planning.outlook import Header, Numbered, Outlook
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Scop
from polyfuse.strategies.catalogue import propose
from polyfuse.strategies.flat import flat as walked_flat
from polyfuse.strategies.situation import Situation
from polyfuse.target import Target
from polyfuse.verdict import Hazard, Verdict, illegal, unprofitable

Pricer = Callable[[Scop, KernelSchedule, Target, Mapping[str, int]], Cost]


@dataclass(frozen=True, slots=True)
class Choice:
    """A schedule with its cost, or the reason why there is none."""

    schedule: KernelSchedule | None
    cost: Cost | None
    verdict: Verdict | None = None
    group: Group | None = None  # the group as scheduled, over a SCoP with collapsed dimensions
    number: int = -1  # of the proposal, among all that the catalogue made for this group
    work: int = 0  # statements that were placed, over all proposals that were built
    is_partial: bool = False  # whether proposals of little promise were left out


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a proposal must be, see `choose`."""

    name: str = ""
    max_registers: int = 0
    strategy: str = ""
    flat: bool = True
    number: int | None = None
    stated: Header | None = None


MOST_REFUTED = 4
"""Schedules of one strategy refuted for a group, after which its others are not tried: a proof costs 10 to 100 ms."""


def kernel_name(group: Group, limit: int = 4) -> str:
    """Names list what the kernel holds: ``max_exp_sum_divide``."""
    names = [s.name for s in group.statements()]
    shown = names if len(names) <= limit else [*names[: limit - 2], *names[-2:]]
    text = "_".join(shown)
    return text if not text[0].isdigit() else f"k_{text}"


def choose(
    situation: Situation,
    *,
    name: str = "",
    max_registers: int = 0,
    strategy: str = "",
    flat: bool = True,
    number: int | None = None,
    stated: Header | None = None,
) -> Choice:
    """The cheapest placed proposal that fits the target; ties go to the first strategy in the catalogue.

    The parameters of a proposal must be those of ``situation.tiles``, its strategy the one named, if any.  `flat`:
    contiguous dimensions are collapsed first.  `number`: of the only proposal that counts.  `stated`: strategy and
    parameters that a proposal must have, no more and no less.
    """
    return next(choices(situation, Wishes(name, max_registers, strategy, flat, number, stated)))


def choices(
    situation: Situation,
    wishes: Wishes,
    pricer: Pricer = price,
    avoided: frozenset[Header] = frozenset(),
    outlook: Outlook | None = None,
    lesson: Outlook | None = None,
) -> Iterator[Choice]:
    """What `choose` takes, then what it would take if all before were refuted; at last why there is none.

    `pricer` says what a schedule costs; the fuzzer has one that makes the planner choose any legal plan.  `avoided`:
    schedules of this group that were refuted.  `outlook`: says which proposals are worth a price, and learns from them;
    without one all are priced, and `lesson` learns.
    """
    if (too_small := _too_small(situation)) is not None:
        yield Choice(None, None, too_small)
        return
    if wishes.flat:
        collapsed = collapse(situation.group, situation.layouts, alike=situation.invariant)
        if situation.invariant and (name_of := sums_apart(situation.group, collapsed, situation.layouts)):
            sentence = f"{name_of} sums over dimensions that are one where it is alone: its bits would differ"
            yield Choice(None, None, illegal(Hazard.COMBINE, sentence, rule="combine"))
            return
        situation = replace(situation, group=collapsed)
    situation = _with_hints(situation)
    walked = _flattened(situation) if wishes.flat else None
    refusals: list[Verdict] = []  # of what the user asked for: they say more than the others
    unasked: list[Verdict] = []
    others: dict[str, None] = {}
    numbers, work = count(), 0
    name = wishes.name or kernel_name(situation.group)
    more = iter(walked_flat(walked)) if walked is not None else iter(())
    for tier in propose(situation):
        numbered = _numbered(chain(tier, more), numbers, wishes.number)
        usable = _usable(numbered, wishes, avoided)
        wanted = _different([(k, p) for k, p in usable if _is_wanted(situation, p, wishes.strategy, unasked, others)])
        parts = [wanted] if outlook is None else outlook.parts(situation, wanted)
        priced: list[tuple[Proposal, Choice]] = []
        compared: list[Proposal] = []
        for number, part in enumerate(parts, 1):
            before, rest, last = len(refusals), [p for later in parts[number:] for p in later], number == len(parts)
            made = _all_priced(situation, walked, part, name, wishes.max_registers, refusals, pricer)
            work += sum([c.work for _, c in made])
            work += sum([_placed(v, len(situation.group.body)) for v in refusals[before:]])
            priced = sorted([*priced, *made], key=_seconds)
            compared += [p for _, p in part]
            if outlook is not None and not last and not outlook.suffices(situation, rest, map(_seconds, priced)):
                continue
            if (learner := lesson if outlook is None else outlook) is not None:
                learner.learn(situation, compared, [(p, _seconds((p, draft))) for p, draft in priced], is_all=last)
            for proposal, draft in priced:  # an order costs as much as a price: for the best
                if (choice := _ordered(draft, proposal, situation.target, refusals)) is not None:
                    yield replace(choice, work=work, is_partial=not last)
                    work = 0
            priced = []
    refusals += unasked
    verdict = refusals[0] if refusals else _no_strategy(situation, wishes.strategy, tuple(others))
    yield Choice(None, None, verdict, work=work)


def _usable(numbered: Numbered, wishes: Wishes, avoided: frozenset[Header]) -> list[tuple[int, Proposal]]:
    usable = [(k, p) for k, p in numbered if wishes.number in (None, k)]
    if avoided:
        usable = [(k, p) for k, p in usable if not is_refuted((p.strategy, p.parameters), avoided)]
    return [(k, p) for k, p in usable if wishes.stated in (None, (p.strategy, tuple(sorted(p.parameters))))]


def is_refuted(header: Header, avoided: frozenset[Header]) -> bool:
    """Whether a schedule was refuted, or so many of its strategy that it is not tried."""
    return header in avoided or sum(strategy == header[0] for strategy, _ in avoided) >= MOST_REFUTED


def _with_hints(situation: Situation) -> Situation:
    """With those of the sizes that joined dimensions have."""
    return replace(situation, hints={**situation.scop.program.hints, **situation.hints})


def _flattened(situation: Situation) -> Situation | None:
    """Over one dimension, where there is much to do and rows are no whole vectors."""
    inner = situation.inner
    if inner is None or not situation.has_much:
        return None
    if situation.vector(inner.extent, flat=False) == situation.vector(inner.extent, flat=True):
        return None
    group = flattened(situation.group, situation.layouts)
    return None if group is None else _with_hints(replace(situation, group=group))


def _numbered(tier: Iterator[Proposal], numbers: Iterator[int], last: int | None) -> list[tuple[int, Proposal]]:
    """The proposals of a tier, none after the `last`."""
    found: list[tuple[int, Proposal]] = []
    for proposal in tier:
        found.append((next(numbers), proposal))
        if found[-1][0] == last:
            break
    return found


def _too_small(situation: Situation) -> Verdict | None:
    """Why nothing has the parameters asked for: strategies divide by sizes, and leave out a parameter that is off."""
    wrong = [f"{name} = {size}" for name, size in situation.tiles.items() if size < 1]
    if not wrong:
        return None
    return illegal(Hazard.STEERING, f"{wrong[0]} is no size: parameters are 1 or more", rule="steering")


def _shares_nothing(proposal: Proposal) -> bool:
    """Whether a proposal places a value once for each element that a thread needs of it, as any other that does: it is
    refused with that one where these are too many."""
    return not proposal.staging and not proposal.windows.vectors


def _placed(refusal: Verdict, statements: int) -> int:
    """Statements that were placed before a proposal was refused: as many as the group has; where they became too many,
    how many there may be."""
    return int(refusal.numbers["limit"]) if "placed" in refusal.numbers else statements


def rejected(situation: Situation) -> Mapping[str, Verdict]:
    """Per strategy of the first tier that proposes something, all of which is refused: the first reason."""
    collapsed = collapse(situation.group, situation.layouts, alike=situation.invariant)
    situation = _with_hints(replace(situation, group=collapsed))
    found: dict[str, Verdict] = {}
    name = kernel_name(situation.group)
    for proposal in next(iter(propose(situation))):
        refusals: list[Verdict] = []
        draft = _priced(situation, proposal, 0, name, 0, refusals, price)
        if draft is None or _ordered(draft, proposal, situation.target, refusals) is None:
            found.setdefault(proposal.strategy, refusals[0])
    return found


def _is_wanted(
    situation: Situation, proposal: Proposal, strategy: str, refusals: list[Verdict], others: dict[str, None]
) -> bool:
    """Whether a proposal is what the user asked for.  If not, its strategy is added to `others`, or the reason against
    its parameters to `refusals`."""
    if strategy and proposal.strategy != strategy:
        others[proposal.strategy] = None
        return False
    has = dict(proposal.parameters)
    wrong = [name for name, size in situation.tiles.items() if has.get(name) != size]
    if not wrong:
        return True
    sentence = f"{proposal.strategy} has no parameter {wrong[0]}; it has {', '.join(has) or 'none'}"
    if wrong[0] in has:
        sentence = f"{proposal.strategy} has {wrong[0]} = {has[wrong[0]]} here, not {situation.tiles[wrong[0]]}"
    refusals.append(illegal(Hazard.STEERING, sentence, rule="steering"))
    return False


def _different(proposals: Numbered) -> list[tuple[int, Proposal]]:
    """Without those that place everything like an earlier one, which wins ties: where sizes are small, different
    parameters often do."""
    found: list[tuple[int, Proposal]] = []
    places: list[tuple[object, ...]] = []
    for number, proposal in proposals:
        nameless = _PLACES(proposal)
        if nameless not in places:
            places.append(nameless)
            found.append((number, proposal))
    return found


_PLACES = attrgetter(*[f.name for f in fields(Proposal) if f.name not in ("strategy", "parameters")])


def _seconds(candidate: tuple[Proposal, Choice]) -> float:
    cost = candidate[1].cost
    return cost.seconds if cost else 0.0


def _ordered(draft: Choice, proposal: Proposal, target: Target, refusals: list[Verdict]) -> Choice | None:
    """The schedule with its order, or None with the reason why there is none added to `refusals`."""
    assert draft.schedule is not None and draft.group is not None
    try:
        schedule = in_order(draft.schedule, draft.group, proposal)
        if draft.cost is not None:
            guards = (*schedule.guards, *block_bounds(schedule, draft.cost, target))
            schedule = replace(schedule, evict_last=draft.cost.evict_last, guards=guards)
        return replace(draft, schedule=schedule)
    except Refused as reason:
        refusals.append(reason.verdict)
        return None


def _all_priced(
    situation: Situation,
    walked: Situation | None,
    proposals: Numbered,
    name: str,
    max_registers: int,
    refusals: list[Verdict],
    pricer: Pricer,
) -> list[tuple[Proposal, Choice]]:
    """Those that can be placed and fit, as priced drafts.  `walked`: the situation that flat proposals are for."""
    found: list[tuple[Proposal, Choice]] = []
    for k, proposal in proposals:
        if any("placed" in v.numbers for v in refusals) and _shares_nothing(proposal):
            continue
        scheduled = walked if walked is not None and proposal.strategy == FLAT else situation
        draft = _priced(scheduled, proposal, k, name, max_registers, refusals, pricer)
        found += [(proposal, draft)] if draft is not None else []
    return found


def _priced(
    situation: Situation,
    proposal: Proposal,
    number: int,
    name: str,
    max_registers: int,
    refusals: list[Verdict],
    pricer: Pricer,
) -> Choice | None:
    """The proposal as a priced draft, or None with the reason added to `refusals`."""
    try:
        schedule = draft_schedule(name, situation.group, proposal)
    except Refused as reason:
        refusals.append(reason.verdict)
        return None
    resident = resident_blocks(situation.scop, schedule, situation.target, situation.hints)
    if resident != schedule.minimum_blocks:
        schedule = schedule.with_room(resident)
    misfit = _misfit(situation, schedule, max_registers)
    if misfit is not None:
        refusals.append(misfit)
        return None
    cost = pricer(situation.scop, schedule, situation.target, situation.hints)
    settled = settled_blocks(situation.scop, schedule, cost, situation.target, situation.hints)
    if settled != schedule.minimum_blocks:
        schedule = schedule.with_room(settled)
    return Choice(schedule, cost, None, situation.group, number, len(schedule.placed))


def _no_strategy(situation: Situation, strategy: str, others: tuple[str, ...]) -> Verdict:
    names = ", ".join(s.name for s in situation.group.statements())
    if others:
        sentence = f"{strategy} proposes nothing for {names}; {', '.join(others)} would"
        return illegal(Hazard.STEERING, sentence, rule="steering")
    sentence = f"{names} share no parallel dimensions along which every value stays inside a block"
    return illegal(Hazard.SCOPE, sentence, rule="scope")


def _misfit(situation: Situation, schedule: KernelSchedule, max_registers: int) -> Verdict | None:
    """Why the target cannot run a schedule, or should not; known for less than a price."""
    scop, target = situation.scop, situation.target
    broken = next((g for g in schedule.guards if not g.holds(situation.hints)), None)
    if broken is not None:  # of what the user asked for: the plan would exclude the call that it is made for
        return illegal(Hazard.CAPACITY, f"{schedule.strategy} is for sizes with {broken}", rule="capacity")
    asks = schedule.rings or schedule.cells is not None
    most, shared = target.shared_on_demand if asks else target.shared_per_block, box_bytes(scop, schedule)
    if shared > most:
        return illegal(Hazard.CAPACITY, f"shared memory {shared} > {most} bytes", rule="capacity")
    if schedule.block_threads > target.threads_per_block:
        sentence = f"{schedule.block_threads} threads > {target.threads_per_block}"
        return illegal(Hazard.CAPACITY, sentence, rule="capacity")
    if schedule.cluster > target.cluster:
        return illegal(Hazard.CAPACITY, f"clusters of {schedule.cluster} > {target.cluster} blocks", rule="capacity")
    if target.kind != "cuda":
        return None
    limit = max_registers or 2 * target.registers_per_thread
    need, _ = registers_of_thread(scop, schedule, target, Sizes.of(schedule, situation.hints))
    if need > limit:
        occupancy = target.occupancy(schedule.block_threads, min(need, target.registers_per_thread), shared)
        return unprofitable(f"registers {need} > {limit}", registers=need, limit=limit, occupancy=occupancy)
    return None
