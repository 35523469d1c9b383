"""A concrete pair of instances for a refusal that has none: which element is needed where it is not computed.

A group is refused when no strategy can place it, which names no instance.  The witness comes from what would have to be
true: the kernels that compute the group apart, run as one launch without the boundary between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from polyfuse.choose import choose
from polyfuse.legality.launches import boundary_witness
from polyfuse.places.proposal import Group
from polyfuse.program_costs import ProgramCosts
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import Statement
from polyfuse.strategies.situation import Situation
from polyfuse.verdict import Hazard, Kind, Verdict, Witness


def with_witness(costs: ProgramCosts, body: frozenset[int], verdict: Verdict) -> Verdict:
    """The verdict on a kernel that computes `body`, with a witness if one can be found.

    The user's own wishes and prices have none; library calls, which no kernel contains, neither.
    """
    wants = verdict.kind is Kind.ILLEGAL and verdict.witness is None
    if not wants or verdict.hazard in (Hazard.STEERING, Hazard.CAPACITY) or verdict.rule == "opaque":
        return verdict
    found = next((w for w in _witnesses(costs, body) if w is not None), None)
    return replace(verdict, witness=found) if found is not None else verdict


def _witnesses(costs: ProgramCosts, body: frozenset[int]) -> Iterable[Witness | None]:
    """Of the edges that may not share a kernel even alone; where it is the whole that may not, of what leaves
    reductions and scans."""
    edges = [(p, c) for c in sorted(body) for p in costs.scop.operands(c) if p in body]
    alone = [e for e in edges if not _legal_pair(costs, *e)]
    for producer, consumer in alone or [e for e in edges if _accumulates(costs, e[0])]:
        first, second = _alone(costs, producer), _alone(costs, consumer)
        if first is not None and second is not None:
            yield boundary_witness(costs.scop, first, second)


def _accumulates(costs: ProgramCosts, value: int) -> bool:
    statement = costs.scop.statements[value]
    return isinstance(statement, Statement) and statement.monoid is not None


def _legal_pair(costs: ProgramCosts, producer: int, consumer: int) -> bool:
    body = frozenset((producer, consumer))
    operands = frozenset(o for v in body for o in costs.scop.operands(v))
    return bool(costs.legal(body, frozenset((consumer,)), operands - body))


def _alone(costs: ProgramCosts, value: int) -> KernelSchedule | None:
    """The schedule of one statement over all its dimensions."""
    if not isinstance(costs.scop.statements[value], Statement):
        return None
    one = frozenset((value,))
    group = Group(costs.scop, one, one, frozenset(costs.scop.operands(value)))
    invariant = costs.options.batch_invariant
    situation = Situation(group, costs.target, costs.hints, costs.layouts, invariant=invariant)
    return choose(situation, flat=False).schedule
