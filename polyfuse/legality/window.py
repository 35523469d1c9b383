"""Windows of registers: what a thread takes from another of its slots is there, at a register known beforehand."""

from __future__ import annotations

from math import prod

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.handover import Handover
from polyfuse.schedule import PlaceEntry, window_index
from polyfuse.sets import Constraint
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def in_window(handover: Handover) -> Verdict:
    """``need - first element of the window`` is a number of registers: equal in all threads, and inside the window, for
    padding too, because it becomes the number of a register."""
    proof, holder, taker = handover.proof, handover.provider, handover.consumer
    slots = proof.names("slot")
    if len(holder.place) != len(taker.place) or not all(isinstance(e, Affine) for e in (*holder.place, *taker.place)):
        return _refused(handover, f"from {holder.name}, which is no window of registers")
    found = window_index(holder, taker, slots)
    counted = [name for along, _ in found for name in along]
    for (along, at), entry in zip(found, holder.place, strict=True):
        if len(set(counted)) < len(counted) or not _counts(handover, along, entry):
            return _refused(handover, f"from {holder.name} at {entry}, whose slots do not count elements one by one")
        if not at.names() <= {f"${s}" for s in slots}:
            return _refused(handover, f"from register {at}, which is not the same in all threads")
        count = prod([proof.digits[s].count for s in along])
        box = proof.box(proof.used(at))
        for wrong in (-at - 1, at - count):
            if sets.sample(proof.relation(tuple(sorted(at.names())), (Constraint(wrong), *box))) is not None:
                return _refused(handover, f"from register {at} of a window of {count}", Constraint(wrong))
    return LEGAL


def _counts(handover: Handover, along: tuple[str, ...], entry: PlaceEntry) -> bool:
    """Slots enumerate the elements along a dimension without gap or overlap, as registers are numbered."""
    weight = 1
    for name in reversed(along):
        if not isinstance(entry, Affine) or entry.coefficient(f"${name}") != weight:
            return False
        weight *= handover.proof.digits[name].count
    return True


def _refused(handover: Handover, why: str, *wrong: Constraint) -> Verdict:
    point = handover.some(*wrong, others=tuple(c.expression for c in wrong))
    held = (handover.proof.name(handover.provider), handover.elements)
    taken = (handover.consumer.name, handover.instances)
    witness = None if point is None else handover.proof.witness(point, held, taken)
    needed = "padding" if witness is None else str(witness.first)
    sentence = f"{handover.consumer.name} takes {needed} {why}"
    return illegal(Hazard.SCOPE, sentence, witness, rule="scope")
