"""Shares of a reduction that blocks leave in global memory for the one that arrives last.

    partial  s_shares[b0, j]   by every block, before the election over b0
    total    s_shares[q, j]    by the elected block, for all q < number of blocks along b0
"""

from __future__ import annotations

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.relations import Proof, coordinates, equalities
from polyfuse.schedule import Placed
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def shared_out(proof: Proof) -> Verdict:
    """No two threads store one share; every share that is read was stored in front of the election, by a block that
    takes part in it."""
    for partial in (p for p in proof.schedule.placed if p.role == "partial"):
        verdict = stored_once(proof, partial, "combine")
        if not verdict:
            return verdict
    for total in (p for p in proof.schedule.placed if p.role == "total"):
        for name in total.providers:
            verdict = _stored_before(proof, proof.placed[name], total)
            if not verdict:
                return verdict
    return LEGAL


def stored_once(proof: Proof, partial: Placed, rule: str) -> Verdict:
    """A share belongs to one pass of one thread of one block: it is stored, or merged, once."""
    names, (number,) = coordinates("i", len(partial.place)), coordinates("q", 1)
    digits = sorted(proof.digits_of(partial) | proof.names("block"))
    executed = (
        *equalities((number, *names), cell(proof, partial)),
        *proof.box(digits),
        *proof.valid(partial),
        *proof.executes(partial),
    )
    every = (number, *names, *(f"${d}" for d in digits))
    point = sets.is_injective_in(proof.relation(every, executed), (number, *names))
    if point is None:
        return LEGAL
    witness = proof.witness(point, (proof.name(partial), names), (proof.name(partial), names))
    verb = "merged" if partial.role == "atomic" else "stored"
    sentence = f"the share {point[number]} of {witness.first} is {verb} more than once"
    return illegal(Hazard.WAW, sentence, witness, rule=rule)


def _stored_before(proof: Proof, partial: Placed, total: Placed) -> Verdict:
    names, (number,) = coordinates("i", len(partial.place)), coordinates("q", 1)
    along = proof.along(total)
    blocks = tuple(f"${d}" for d in sorted(proof.names("block") - {along}))
    level = frozenset(d[1:] for d in blocks)
    every = (number, *names, *blocks)
    place = [proof.affine(e) for e in total.place]
    need = proof.relation(
        every,
        (
            *equalities((number, *names), place),
            *proof.box(proof.digits_of(total) | level),
            *proof.valid(total),
        ),
    )
    early = proof.times[partial.name][0][0] < proof.times[total.name][0][0] and proof.along(partial) == along
    point = sets.sample(need) if not early else sets.difference_point(need, _left(proof, partial, every))
    if point is None:
        return LEGAL
    witness = proof.witness(point, (proof.name(partial), names), (total.name, names))
    why = "which no block of its election stores" if early else "which is not stored before the election"
    sentence = f"{total.name} reads the share {point[number]} of {witness.first}, {why}"
    return illegal(Hazard.RAW, sentence, witness, rule="combine")


def _left(proof: Proof, partial: Placed, every: tuple[str, ...]) -> sets.Relation:
    """The shares stored, by the other digits of the block that stores them."""
    executed = (
        *equalities(every[: 1 + len(partial.place)], cell(proof, partial)),
        *proof.box(proof.digits_of(partial) | proof.names("block")),
        *proof.executes(partial),
    )
    return proof.relation(every, executed)


def cell(proof: Proof, partial: Placed) -> tuple[Affine, ...]:
    """The number of the block, then the index of the result."""
    return (Affine.symbol(f"${proof.along(partial)}"), *proof.index(partial))
