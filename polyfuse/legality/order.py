"""Time: every instance after all it depends on, ``D subset-of lex_lt(time_producer, time_consumer)``."""

from __future__ import annotations

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.cells import always_before, unwritten
from polyfuse.legality.handover import Handover, handovers
from polyfuse.legality.lifetime import early
from polyfuse.legality.relations import Proof, coordinates, equalities, prime, primed, same
from polyfuse.schedule import Placed
from polyfuse.sets import Constraint
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def ordered(proof: Proof) -> Verdict:
    """A register is computed, a reduction complete, a cell of a box put before it is read."""
    for handover in handovers(proof):
        if early(proof, handover.provider, handover.consumer):
            verdict = _too_early(handover)
            if not verdict:
                return verdict
    for provider, consumer, _ in proof.edges():
        if provider.role == "put":
            verdict = _after_put(proof, provider, consumer)
            if not verdict:
                return verdict
    return LEGAL


def _too_early(handover: Handover) -> Verdict:
    """Refused with a pair of dependent instances, where there is one; a reduction's from a later pass if possible."""
    point = handover.some()
    if point is None:
        return LEGAL
    proof, provider = handover.proof, handover.provider
    witness = handover.witness(point)
    pair = _dependent_pair(handover)
    if pair is not None:
        shown = coordinates("p", sum(isinstance(e, Affine) for e in provider.place))
        names = (proof.name(provider), proof.name(handover.consumer))
        witness = proof.witness(pair, (names[0], shown), (names[1], handover.instances))
    sentence = f"{witness.second} runs before {witness.first}, on which it depends"
    return illegal(Hazard.RAW, sentence, witness, rule="order")


def _dependent_pair(handover: Handover) -> dict[str, int] | None:
    """An instance of the provider (``@p``) and one of the consumer that needs its result."""
    proof, provider, consumer = handover.proof, handover.provider, handover.consumer
    ours, theirs = proof.digits_of(provider), proof.digits_of(consumer)
    place = [prime(e, ours) for e in provider.place if isinstance(e, Affine)]
    shown = coordinates("p", len(place))
    held = [prime(e, ours) for e in handover.held]
    base = (
        *handover.demand(),
        *equalities(shown, place),
        *equalities(handover.elements, held),
        *primed((*proof.box(ours), *proof.valid(provider)), ours),
        *same((ours & theirs & (proof.names("block") | proof.names("thread"))) - proof.over(provider)),
    )
    later = [
        (Constraint(Affine.symbol(f"${loop}'") - Affine.symbol(f"${loop}") - 1),)
        for loop in proof.loops(provider)
        if loop in proof.loops(consumer)
    ]
    for late in (*later, ()):
        point = sets.sample(proof.relation((*shown, *handover.instances), (*base, *late)))
        if point is not None:
            return point
    return None


def _after_put(proof: Proof, put: Placed, get: Placed) -> Verdict:
    """Whatever is put into the box at all is put before it is read."""
    if always_before(proof, put, get) or unwritten(proof, put, get) is not None:
        return LEGAL  # what is not put at all is refused by the rules on scope and boxes
    point = unwritten(proof, put, get, before=True)
    if point is None:
        return LEGAL
    names = coordinates("i", len(get.place))
    witness = proof.witness(point, (proof.name(put), names), (get.name, names))
    sentence = f"{get.name} reads {witness.first} from its shared box before {put.name} writes it there"
    return illegal(Hazard.RAW, sentence, witness, rule="order")
