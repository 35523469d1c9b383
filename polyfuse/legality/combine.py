"""Reductions: each contribution once, inside one block.

Executions that differ only in slots, thread bits and loops that the sum runs over meet in one result; `together` names
those digits.  The reduced digits of a block never meet.
"""

from __future__ import annotations

from polyfuse import sets
from polyfuse.legality.guards import when
from polyfuse.legality.relations import Proof, coordinates, equalities, prime, primed
from polyfuse.schedule import Placed
from polyfuse.scop import Statement
from polyfuse.sets import Constraint
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def combined(proof: Proof) -> Verdict:
    """Bits: threads meet by bits of the thread index.  Apart: what meets belongs to one element.  Complete: every
    contribution is among it.  Once: no contribution is among it twice."""
    for placed in proof.schedule.placed:
        statement = proof.statement(placed)
        if statement is None or not statement.is_reduction:
            continue
        together = meeting(proof, placed, proof.over(placed))
        for verdict in (
            _bits(proof, placed, together),
            apart(proof, placed, statement.kept, together, "combine"),
            _complete(proof, placed, statement, together),
            _once(proof, placed, statement, together),
        ):
            if not verdict:
                return verdict
    return LEGAL


def meeting(proof: Proof, placed: Placed, over: frozenset[str]) -> frozenset[str]:
    """The digits whose executions meet in one state: those in `over` but for blocks, and every loop from the outermost
    reduced one inwards, because the state is set up in front of that one."""
    loops = proof.loops(placed)
    first = next((k for k, loop in enumerate(loops) if loop in over), len(loops))
    return (over - proof.names("block")) | set(loops[first:])


def _bits(proof: Proof, placed: Placed, together: frozenset[str]) -> Verdict:
    for d in proof.schedule.of_kind("thread"):
        if d.name in together and not (_power_of_two(d.count) and _power_of_two(d.stride)):
            name = proof.name(placed)
            sentence = f"{name} combines {d.count} threads {d.stride} apart, which are no bits of the thread index"
            return illegal(Hazard.COMBINE, sentence, rule="combine")
    return LEGAL


def _power_of_two(n: int) -> bool:
    return n & (n - 1) == 0


def apart(proof: Proof, placed: Placed, dims: tuple[int, ...], together: frozenset[str], rule: str) -> Verdict:
    """No two executions that meet belong to different elements along `dims`."""
    place = {d: proof.affine(placed.place[d]) for d in dims}
    if not proof.used(*place.values()) & together:
        return LEGAL
    digits = proof.digits_of(placed)
    moving = digits & together
    names, others = coordinates("i", len(placed.place)), coordinates("j", len(placed.place))
    every = [proof.affine(e) for e in placed.place]
    summed = [d for d in range(len(every)) if d not in dims]
    second = [
        c
        for d in summed
        for c in (Constraint(every[d]), Constraint(proof.extents(placed)[d] - every[d] - 1))
    ]
    base = (
        *equalities(names, every),
        *equalities(others, [prime(e, moving) for e in every]),
        *proof.box(digits),
        *proof.valid(placed),
        *primed((*proof.box(moving), *second), moving),
    )
    for d in dims:
        for differ in (prime(place[d], moving) - place[d] - 1, place[d] - prime(place[d], moving) - 1):
            point = sets.sample(proof.relation((*names, *others), (*base, Constraint(differ))))
            if point is not None:
                name = proof.name(placed)
                witness = proof.witness(point, (name, names), (name, others))
                sentence = f"{witness.first} and {witness.second} belong to different elements but meet in one result"
                return illegal(Hazard.COMBINE, sentence, witness, rule=rule)
    return LEGAL


def _complete(proof: Proof, placed: Placed, statement: Statement, together: frozenset[str]) -> Verdict:
    """``{kept element at its block} x reduced range  subset-of  executed by the block``."""
    place = [proof.affine(e) for e in placed.place]
    every = coordinates("i", len(place))
    names = [every[d] for d in statement.reduced]
    reduced = [place[d] for d in statement.reduced]
    blocks = proof.used(*reduced) - together
    fixed = [f"${d}" for d in sorted(blocks)]
    wanted = sets.box(names, [statement.extents[d] for d in statement.reduced])
    executed = (*equalities(names, reduced), *proof.box(together | blocks))
    need, have = (proof.relation((*names, *fixed), c) for c in ((*wanted, *proof.box(blocks)), executed))
    if sets.is_subset(need, have):
        return LEGAL
    whole = proof.relation((*every, *fixed), (*wanted, *_element(proof, placed, statement, every, blocks)))
    point = sets.difference_point(whole, proof.relation((*every, *fixed), executed))
    if point is None:
        return LEGAL
    kept = [every[d] for d in statement.kept]
    witness = proof.witness(point, (statement.name, every), (statement.name, kept))
    sentence = f"{witness.first} never enters the result {witness.second}{when(need, have)}"
    if blocks:
        sentence = (
            f"contributions to one element of {statement.name} are computed by different blocks, which this kernel "
            f"never combines: {witness.first} does not enter {witness.second}"
        )
    return illegal(Hazard.COMBINE, sentence, witness, rule="combine")


def _element(
    proof: Proof, placed: Placed, statement: Statement, names: tuple[str, ...], blocks: frozenset[str]
) -> tuple[Constraint, ...]:
    """The kept coordinates are those of an element that the block holds."""
    kept = [proof.affine(placed.place[d]) for d in statement.kept]
    inside = sets.box([names[d] for d in statement.kept], [statement.extents[d] for d in statement.kept])
    return (*equalities([names[d] for d in statement.kept], kept), *inside, *proof.box(proof.used(*kept) | blocks))


def _once(proof: Proof, placed: Placed, statement: Statement, together: frozenset[str]) -> Verdict:
    """Distinct executions that meet make distinct contributions."""
    place = [proof.affine(e) for e in placed.place]
    every = coordinates("i", len(place))
    names = [every[d] for d in statement.reduced]
    reduced = [place[d] for d in statement.reduced]
    blocks = proof.used(*reduced) - together
    fixed, digits = [f"${d}" for d in sorted(blocks)], [f"${d}" for d in sorted(together)]
    extents = [statement.extents[d] for d in statement.reduced]
    executed = (*equalities(names, reduced), *sets.box(names, extents), *proof.box(together | blocks))
    if sets.is_injective_in(proof.relation((*names, *fixed, *digits), executed), (*names, *fixed)) is None:
        return LEGAL
    element = _element(proof, placed, statement, every, blocks)
    whole = proof.relation((*every, *fixed, *digits), (*executed, *element))
    point = sets.is_injective_in(whole, (*every, *fixed))
    if point is None:
        return LEGAL
    witness = proof.witness(point, (statement.name, every), (statement.name, every))
    sentence = f"contribution {witness.first} to {statement.name} is counted twice"
    return illegal(Hazard.COMBINE, sentence, witness, rule="combine")
