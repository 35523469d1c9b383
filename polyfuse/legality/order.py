"""Time: every instance after all it depends on, ``D subset-of lex_lt(time_producer, time_consumer)``."""

from __future__ import annotations

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.relations import Proof, coordinates, equalities, prime, primed, relation
from polyfuse.schedule import Placed
from polyfuse.scop import Read
from polyfuse.sets import Constraint
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def ordered(proof: Proof) -> Verdict:
    """For each edge no producer instance that is needed runs at or after its consumer, in the same block."""
    for provider, consumer, read in proof.edges():
        verdict = _edge(proof, provider, consumer, read)
        if not verdict:
            return verdict
    for consumer in proof.schedule.placed:
        for entry in consumer.place:
            if isinstance(entry, str) and not _before(proof, proof.placed[entry], consumer):
                sentence = f"{proof.name(consumer)} is gathered before its index {entry} is known"
                return illegal(Hazard.RAW, sentence, rule="order")
    return LEGAL


def _before(proof: Proof, provider: Placed, consumer: Placed) -> bool:
    return [p for p, _ in proof.times[provider.name]] < [p for p, _ in proof.times[consumer.name]]


def _edge(proof: Proof, provider: Placed, consumer: Placed, read: Read | None) -> Verdict:
    missing = [p.name for p in (provider, consumer) if p.name not in proof.times]
    if missing:
        return illegal(Hazard.COVERAGE, f"{missing[0]} is placed but never executed", rule="order")
    needed = proof.needed(consumer, read)
    if needed is None:
        return LEGAL
    ours = proof.digits_of(provider)
    theirs = proof.digits_of(consumer)
    index = tuple(prime(e, ours) for e in proof.index(provider))
    same = tuple(sets.equal(a, b) for a, b in zip(index, needed, strict=True))
    blocks = [d.name for d in proof.schedule.of_kind("block") if d.name in ours and d.name in theirs]
    same_block = tuple(sets.equal(Affine.symbol(f"${b}'"), Affine.symbol(f"${b}")) for b in blocks)
    if provider.role != "put":  # a register is read by its own thread and slot
        shared = [d.name for d in proof.schedule.digits if d.kind in ("thread", "slot") and d.name in ours & theirs]
        shared = [d for d in shared if d not in proof.over(provider)]
        same_block += tuple(sets.equal(Affine.symbol(f"${d}'"), Affine.symbol(f"${d}")) for d in shared)
    base = (
        *same,
        *same_block,
        *proof.box(theirs),
        *proof.valid(consumer),
        *primed((*proof.box(ours), *proof.valid(provider)), ours),
        *proof.sizes,
    )
    dims = coordinates("j", len(consumer.place))
    names = coordinates("i", len(provider.place))
    points = (
        *equalities(dims, [proof.affine(e) for e in consumer.place]),
        *(
            sets.equal(Affine.symbol(n), prime(proof.affine(e), ours))
            for n, e in zip(names, provider.place, strict=True)
            if isinstance(e, Affine)
        ),
    )
    for late in _not_before(proof, provider, consumer):
        whole = relation((*names, *dims), (*base, *points, *late), proof.scop.program.symbols)
        point = sets.sample(whole)
        if point is not None:
            witness = proof.witness(point, (proof.name(provider), names), (proof.name(consumer), dims))
            sentence = f"{witness.second} runs before {witness.first}, on which it depends"
            return illegal(Hazard.RAW, sentence, witness, rule="order")
    return LEGAL


def _not_before(proof: Proof, provider: Placed, consumer: Placed) -> list[tuple[Constraint, ...]]:
    """The disjuncts of ``time(provider) >=lex time(consumer)``: after at some depth, or equal throughout.

    The provider is kept by its loops that are not summed: an iteration overwrites the registers of the one before, so a
    *different* iteration of a common loop is no provider at all unless the value is summed or shared over that loop.
    """
    late: list[tuple[Constraint, ...]] = []
    equal: list[Constraint] = []
    pairs = list(zip(proof.times[provider.name], proof.times[consumer.name], strict=False))
    for (p, loop), (q, other) in pairs:
        if p > q:
            late.append(tuple(equal))
        if p != q:
            return late
        if not loop or not other:
            late.append(tuple(equal))
            return late
        ours, theirs = Affine.symbol(f"${loop}'"), Affine.symbol(f"${loop}")
        late.append((*equal, Constraint(ours - theirs - 1)))
        equal.append(sets.equal(ours, theirs))
    return late
