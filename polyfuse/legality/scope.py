"""Where a value lives, derived: the innermost level at which every place that needs it has it.

    need = D . place_consumer        have = place_producer (after combination, free in the combined threads)
    same thread: project slots out;  same block: project threads out too;  otherwise it must go through global memory
"""

from __future__ import annotations

from polyfuse import sets
from polyfuse.affine import digit
from polyfuse.legality.cells import same_pass, unwritten
from polyfuse.legality.handover import Handover, handovers
from polyfuse.legality.lifetime import common_loops, completion, early, gone
from polyfuse.legality.relations import ELECTED, Proof, coordinates, equalities, prime, primed
from polyfuse.legality.window import in_window
from polyfuse.schedule import Placed, Scope
from polyfuse.sets import Constraint
from polyfuse.verdict import LEGAL, Hazard, Verdict, Witness, illegal


def scoped(proof: Proof) -> Verdict:
    """Registers are read by the thread and slot that hold them, in the pass that computed them; shared boxes by threads
    of the block that filled them, in the pass that they are pinned to."""
    for handover in handovers(proof):
        if early(proof, handover.provider, handover.consumer):
            continue  # refused by the rule on order
        lost = gone(proof, handover.provider, handover.consumer)
        verdict = _overwritten(handover) if lost else _elsewhere(handover)
        if not verdict:
            return verdict
    for provider, consumer, _ in proof.edges():
        if provider.role == "put":
            verdict = _not_in_box(proof, provider, consumer)
            if not verdict:
                return verdict
    return LEGAL


def _overwritten(handover: Handover) -> Verdict:
    """Read after the loop that computed it, whose every pass overwrote the registers of the one before."""
    proof, provider, consumer = handover.proof, handover.provider, handover.consumer
    if proof.schedule.finish_of(provider) not in ("", proof.schedule.finish_of(consumer)):
        return _only_elected(handover)
    depth = len(common_loops(completion(proof, provider), proof.times[consumer.name]))
    loop = [at for at in completion(proof, provider) if not at[1].startswith(ELECTED)][depth][1]
    point = _pass_before_the_last(handover, loop) or handover.some()
    if point is None:
        return LEGAL
    witness = handover.witness(point)
    sentence = (
        f"{consumer.name} needs {witness.first} after the loop over {loop} that computes it in {provider.name}: "
        "later passes overwrote its registers"
    )
    return illegal(Hazard.SCOPE, sentence, witness, rule="scope")


def _only_elected(handover: Handover) -> Verdict:
    """Read by every block, or by another elected one, than the one that finished it."""
    point = handover.some()
    if point is None:
        return LEGAL
    along, witness = handover.proof.schedule.finish_of(handover.provider), handover.witness(point)
    sentence = f"{handover.consumer.name} needs {witness.first} outside of what the last block along {along} finishes"
    return illegal(Hazard.SCOPE, sentence, witness, rule="scope")


def _pass_before_the_last(handover: Handover, loop: str) -> dict[str, int] | None:
    """An element that is needed and that a pass of `loop` computes which another one follows."""
    proof, provider = handover.proof, handover.provider
    ours = proof.digits_of(provider)
    computed = equalities(handover.elements, [prime(e, ours) for e in handover.held])
    another = Constraint(proof.digits[loop].extent - prime(digit(loop), ours) - 2)
    return handover.some(*computed, *primed(proof.box(ours), ours), another)


def mismatch(handover: Handover) -> dict[str, int] | None:
    """An execution at whose digits the consumer needs another element than the provider holds."""
    if handover.held == handover.needed:
        return None
    for have, want in zip(handover.held, handover.needed, strict=True):
        for differ in (have - want - 1, want - have - 1):
            if differ.is_constant and differ.constant < 0:
                continue
            point = handover.some(Constraint(differ), others=handover.held)
            if point is not None:
                return point
    return None


def _elsewhere(handover: Handover) -> Verdict:
    """Name the level at which the value would be found."""
    if handover.consumer.role == "take":
        return in_window(handover)
    point = mismatch(handover)
    if point is None:
        return LEGAL
    scope, missing = derived_scope(handover)
    witness = missing or handover.witness(point)
    where = {
        Scope.REGISTER: "from another register slot or pass of a loop than the one it is in",
        Scope.SHARED: "in another thread of its block than the one that has it",
        Scope.GLOBAL: "in another block than the one that has it",
    }[scope]
    sentence = f"{handover.consumer.name} needs {witness.first} {where}"
    return illegal(Hazard.SCOPE, sentence, witness, rule="scope")


def _not_in_box(proof: Proof, put: Placed, get: Placed) -> Verdict:
    """Every element that is read, also as padding, is put by the same block, in the same pass of the loops that the box
    moves with; and by every block that reads it."""
    along = proof.schedule.finish_of(put)
    if along not in ("", proof.schedule.finish_of(get)):
        return _put_by_the_elected(proof, put, get, along)
    padding = unwritten(proof, put, get)
    if padding is None:
        return LEGAL
    point = unwritten(proof, put, get, proof.valid(get))
    names = coordinates("i", len(get.place))
    witness = proof.witness(point or padding, (proof.name(put), names), (get.name, names))
    if point is None:
        sentence = f"{get.name} reads the cell of {witness.first}, which is padding, but its block never writes it"
        return illegal(Hazard.SCOPE, sentence, witness, rule="scope")
    where = "which its block does not put there"
    if not same_pass(proof, put, get):
        where = "which belongs to another pass of the loop that the box moves with"
    sentence = f"{get.name} reads {witness.first} from its shared box, {where}"
    return illegal(Hazard.SCOPE, sentence, witness, rule="scope")


def _put_by_the_elected(proof: Proof, put: Placed, get: Placed, along: str) -> Verdict:
    names = coordinates("i", len(get.place))
    point = sets.sample(
        proof.relation(names, (*equalities(names, proof.index(get)), *proof.box(proof.digits_of(get))))
    )
    if point is None:
        return LEGAL
    witness = proof.witness(point, (proof.name(put), names), (get.name, names))
    sentence = f"{get.name} reads {witness.first} from a box that only the last block along {along} fills"
    return illegal(Hazard.SCOPE, sentence, witness, rule="scope")


# ---------------------------------------------------------------------------------------------- derivation


def derived_scope(handover: Handover) -> tuple[Scope, Witness | None]:
    """The innermost scope at which the value is where it is needed, and a witness against the next inner one."""
    proof = handover.proof
    loops = frozenset(common_loops(completion(proof, handover.provider), proof.times[handover.consumer.name]))
    blocks, threads = proof.names("block"), proof.names("thread")
    witness: Witness | None = None
    for scope, level in ((Scope.REGISTER, blocks | threads | loops), (Scope.SHARED, blocks | loops)):
        point = missing(handover, level)
        if point is None:
            return scope, witness
        witness = handover.witness(point)
    return Scope.GLOBAL, witness


def missing(handover: Handover, level: frozenset[str]) -> dict[str, int] | None:
    """An element and a place at which the consumer needs it but the provider does not have it."""
    proof, provider = handover.proof, handover.provider
    places = tuple(f"${d}" for d in sorted(level))
    every = (*handover.elements, *handover.instances, *places)
    need = (*handover.demand(), *proof.box(level))
    held = (proof.digits_of(provider) - proof.over(provider)) | level | proof.used(*handover.held)
    have = (*equalities(handover.elements, handover.held), *proof.box(held))
    return sets.difference_point(proof.relation(every, need), proof.relation(every, have))
