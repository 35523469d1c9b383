"""Where a value lives, derived: the innermost level at which every place that needs it has it.

    need = D . place_consumer        have = place_producer (after combination, free in the combined threads)
    same thread: project slots out;  same block: project threads out too;  otherwise it must go through global memory
"""

from __future__ import annotations

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.relations import Proof, coordinates, equalities, relation
from polyfuse.schedule import Placed, Scope
from polyfuse.scop import Read
from polyfuse.verdict import LEGAL, Hazard, Verdict, Witness, illegal


def scoped(proof: Proof) -> Verdict:
    """Registers are read by the thread and slot that hold them; a shared box by threads of the same block."""
    for provider, consumer, read in proof.edges():
        needed = proof.needed(consumer, read)
        if needed is None:
            continue
        through_box = provider.role == "put"
        if not through_box and _same_registers(proof, provider, consumer, needed):
            continue
        scope, witness = derived_scope(proof, provider, consumer, read)
        if scope is Scope.REGISTER and not through_box:
            return _slots_differ(proof, provider, consumer)
        if scope is Scope.GLOBAL or (scope is Scope.SHARED and not through_box):
            where = "another block" if scope is Scope.GLOBAL else "another thread of its block"
            sentence = f"{proof.name(consumer)} needs {proof.name(provider)} in {where} than where it is computed"
            return illegal(Hazard.SCOPE, sentence, witness, rule="scope")
    return LEGAL


def _slots_differ(proof: Proof, provider: Placed, consumer: Placed) -> Verdict:
    sentence = (
        f"{proof.name(consumer)} reads {proof.name(provider)} from another register slot than the one of the same name"
    )
    return illegal(Hazard.SCOPE, sentence, rule="scope")


def common_loops(proof: Proof, provider: Placed, consumer: Placed) -> frozenset[str]:
    """Loops that enclose both, in the same nest."""
    found = set()
    for (p, loop), (q, other) in zip(proof.times[provider.name], proof.times[consumer.name], strict=False):
        if p != q or loop != other or not loop:
            break
        found.add(loop)
    return frozenset(found)


def _same_registers(proof: Proof, provider: Placed, consumer: Placed, needed: tuple[Affine, ...]) -> bool:
    """The provider's index equals the needed one at equal digits, wherever the consumer's instance exists."""
    held = proof.index(provider)
    if len(held) != len(needed):
        return False
    inside = common_loops(proof, provider, consumer)
    for have, want in zip(held, needed, strict=True):
        loops = {n[1:] for n in have.names() if n[0] == "$" and proof.kind(n[1:]) == "loop"}
        if not loops <= inside:
            return False
        if have == want:
            continue
        used = {n[1:] for n in have.names() | want.names() if n[0] == "$"} | set(consumer.digits())
        context = (*proof.box(used), *proof.valid(consumer), *proof.sizes)
        if not (sets.implied(have - want, context) and sets.implied(want - have, context)):
            return False
    return True


def derived_scope(
    proof: Proof, provider: Placed, consumer: Placed, read: Read | None
) -> tuple[Scope, Witness | None]:
    """The innermost scope at which the value is where it is needed, and a witness against the next inner one."""
    needed = proof.needed(consumer, read)
    assert needed is not None
    loops = common_loops(proof, provider, consumer)
    blocks = {d.name for d in proof.schedule.of_kind("block")}
    threads = {d.name for d in proof.schedule.of_kind("thread")}
    witness: Witness | None = None
    for scope, level in ((Scope.REGISTER, blocks | threads | loops), (Scope.SHARED, blocks | loops)):
        point = _missing(proof, provider, consumer, needed, frozenset(level))
        if point is None:
            return scope, witness
        names = coordinates("i", len(needed))
        dims = coordinates("j", len(consumer.place))
        witness = proof.witness(point, (proof.name(provider), names), (proof.name(consumer), dims))
    return Scope.GLOBAL, witness


def _missing(
    proof: Proof, provider: Placed, consumer: Placed, needed: tuple[Affine, ...], level: frozenset[str]
) -> dict[str, int] | None:
    """A producer instance and place at which the consumer needs it but the producer does not have it."""
    symbols = proof.scop.program.symbols
    names = coordinates("i", len(needed))
    places = tuple(f"${d}" for d in sorted(level))
    every = proof.digits_of(consumer) | level
    need = (*equalities(names, needed), *proof.box(every), *proof.valid(consumer), *proof.sizes)
    held = proof.digits_of(provider) - proof.over(provider) | level
    have = (*equalities(names, proof.index(provider)), *proof.box(held), *proof.sizes)
    return _with_consumer(
        proof,
        consumer,
        sets.difference_point(relation((*names, *places), need, symbols), relation((*names, *places), have, symbols)),
        names,
        needed,
    )


def _with_consumer(
    proof: Proof,
    consumer: Placed,
    point: dict[str, int] | None,
    names: tuple[str, ...],
    needed: tuple[Affine, ...],
) -> dict[str, int] | None:
    """Add the consumer's instance (``j0, j1, ...``) to a point that names only the producer's."""
    if point is None:
        return None
    dims = coordinates("j", len(consumer.place))
    place = [proof.affine(e) for e in consumer.place]
    fixed = [sets.equal(Affine.symbol(n), Affine.of(v)) for n, v in point.items()]
    constraints = (
        *fixed,
        *equalities(names, needed),
        *equalities(dims, place),
        *proof.box(proof.digits_of(consumer)),
        *proof.valid(consumer),
    )
    found = sets.sample(relation(dims, constraints))
    return {**point, **(found or {})}
