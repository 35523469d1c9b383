"""A concrete pair of instances for a refusal that has none: which element is needed where it is not computed.

A group is refused when no strategy can place it, which names no instance.  The witness comes from what would have to be
true: the kernels that compute the group apart, run as one launch without the boundary between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from polyfuse.expr import DataIndex
from polyfuse.legality.launches import boundary_witness
from polyfuse.places.proposal import Group
from polyfuse.planning.choose import choose
from polyfuse.planning.program_costs import ProgramCosts
from polyfuse.schedule import KernelSchedule
from polyfuse.scop import InputStatement, OpaqueStatement, Statement
from polyfuse.strategies.situation import Situation
from polyfuse.verdict import Hazard, Instance, Kind, Verdict, Witness


def with_witness(costs: ProgramCosts, body: frozenset[int], verdict: Verdict) -> Verdict:
    """The verdict on a kernel that computes `body`, with a witness if one can be found.

    The user's own wishes and prices have none, nor has what no order of instances would allow.
    """
    wants = verdict.kind is Kind.ILLEGAL and verdict.witness is None
    if not wants or verdict.hazard in (None, Hazard.STEERING, Hazard.CAPACITY):
        return verdict
    boundaries = () if verdict.rule == "opaque" else _witnesses(costs, body)
    found = next((w for w in boundaries if w is not None), None) or _first_elements(costs, body)
    return replace(verdict, witness=found) if found is not None else verdict


def _first_elements(costs: ProgramCosts, body: frozenset[int]) -> Witness | None:
    """The first element of a value that is read as a whole or at positions that are data: by a library call, or by a
    gather, whose first element may need it.  Every thread may be the one that needs it."""
    scop = costs.scop
    edges = ((p, c) for c in sorted(body | _readers(costs, body)) for p in scop.operands(c) if {p, c} & body)
    for producer, consumer in edges:
        if _takes_any(costs, producer, consumer) and all(_sizes(costs, v) > 0 for v in (producer, consumer)):
            first, second = (
                Instance(scop.statements[v].name, (0,) * len(scop.shape(v))) for v in (producer, consumer)
            )
            return Witness(first, second, tuple(sorted(costs.hints.items())))
    return None


def _readers(costs: ProgramCosts, body: frozenset[int]) -> frozenset[int]:
    return frozenset(reader for value in body for reader in costs.scop.readers.get(value, ()))


def _takes_any(costs: ProgramCosts, producer: int, consumer: int) -> bool:
    """Whether one of the two is a library call, or the second reads the first, which is computed, as data says."""
    statements = costs.scop.statements
    pair = (statements[producer], statements[consumer])
    if any(isinstance(s, OpaqueStatement) for s in pair):
        return not isinstance(pair[0], InputStatement)
    first, second = pair
    if not isinstance(first, Statement) or not isinstance(second, Statement):
        return False
    return any(r.source == producer and any(isinstance(e, DataIndex) for e in r.index) for r in second.reads)


def _sizes(costs: ProgramCosts, value: int) -> int:
    return prod(extent.evaluate(costs.hints) for extent in costs.scop.shape(value))


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
