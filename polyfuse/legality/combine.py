"""Reductions: each contribution once.

Executions that differ only in slots, thread bits and loops that the sum runs over meet in one result; `together` names
those digits.  Those that differ in a block digit meet where the schedule says so and all that reads the result is the
store of the block's share, or its merging into the result; the total of the shares is itself a sum, over the number of
the block.
"""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.grid import shared_out
from polyfuse.legality.guards import when
from polyfuse.legality.relations import SHARES, Proof, coordinates, equalities, prime, primed, within
from polyfuse.schedule import Placed
from polyfuse.sets import Constraint
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def combined(proof: Proof) -> Verdict:
    """Bits: threads meet by bits of the thread index.  Apart: what meets belongs to one element.  Complete: every
    contribution is among it.  Once: no contribution is among it twice.  What blocks leave for the last one is there."""
    for placed in proof.schedule.placed:
        statement = _sum(proof, placed)
        if statement is None:
            continue
        together = meeting(proof, placed, proof.over(placed)) | _across(proof, placed)
        for verdict in (
            _bits(proof, placed, together),
            _apart(proof, placed, statement, together),
            _complete(proof, placed, statement, together),
            _once(proof, placed, statement, together),
        ):
            if not verdict:
                return verdict
    return shared_out(proof)


@dataclass(frozen=True, slots=True)
class Sum:
    """What a placed statement adds up: the contribution at every point of `extents`, over the dimensions `reduced`."""

    name: str
    extents: tuple[Affine, ...]
    kept: tuple[int, ...]
    reduced: tuple[int, ...]


def _sum(proof: Proof, placed: Placed) -> Sum | None:
    """Of a reduction, or of a total: over the shares of the blocks."""
    if placed.role == "total":
        extents = proof.extents(placed)
        return Sum(f"shares of {proof.name(placed)}", extents, tuple(range(1, len(extents))), (0,))
    statement = proof.statement(placed)
    if statement is None or not statement.is_reduction:
        return None
    return Sum(statement.name, statement.extents, statement.kept, statement.reduced)


def _across(proof: Proof, placed: Placed) -> frozenset[str]:
    """The block digit along which results meet, in a total or in memory; none where something reads a block's share as
    the whole."""
    along = "" if placed.role == "total" else proof.along(placed)
    readers = [p for p in proof.schedule.placed if placed.name in (*p.providers, *p.place)]
    return frozenset([along]) if along and all(p.role in SHARES for p in readers) else frozenset()


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


def _apart(proof: Proof, placed: Placed, statement: Sum, together: frozenset[str]) -> Verdict:
    """What meets at an element belongs to it: no contribution (primed) to another one."""
    kept = [proof.affine(placed.place[d]) for d in statement.kept]
    if not proof.used(*kept) & together:
        return LEGAL
    digits = proof.digits_of(placed)
    moving = digits & together
    names, element = coordinates("i", len(placed.place)), coordinates("j", len(kept))
    reduced = [proof.affine(placed.place[d]) for d in statement.reduced]
    ranges = [statement.extents[d] for d in statement.reduced]
    base = (
        *equalities(names, [prime(proof.affine(e), moving) for e in placed.place]),
        *equalities(element, kept),
        *proof.box(digits),
        *within(kept, [statement.extents[d] for d in statement.kept]),
        *primed((*proof.box(moving), *within(reduced, ranges)), moving),
    )
    for entry in kept:
        distance = prime(entry, moving) - entry
        for differ in (distance - 1, -distance - 1):
            point = sets.sample(proof.relation((*names, *element), (*base, Constraint(differ))))
            if point is not None:
                witness = proof.witness(point, (statement.name, names), (statement.name, element))
                sentence = f"{witness.first} enters the result {witness.second}, to which it does not belong"
                return illegal(Hazard.COMBINE, sentence, witness, rule="combine")
    return LEGAL


def _complete(proof: Proof, placed: Placed, statement: Sum, together: frozenset[str]) -> Verdict:
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
    proof: Proof, placed: Placed, statement: Sum, names: tuple[str, ...], blocks: frozenset[str]
) -> tuple[Constraint, ...]:
    """The kept coordinates are those of an element that the block holds."""
    kept = [proof.affine(placed.place[d]) for d in statement.kept]
    inside = sets.box([names[d] for d in statement.kept], [statement.extents[d] for d in statement.kept])
    return (*equalities([names[d] for d in statement.kept], kept), *inside, *proof.box(proof.used(*kept) | blocks))


def _once(proof: Proof, placed: Placed, statement: Sum, together: frozenset[str]) -> Verdict:
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
