"""Reductions and scans: each contribution once, inside one block, in the right order."""

from __future__ import annotations

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.relations import Proof, coordinates, equalities, prime, primed, relation
from polyfuse.schedule import Placed
from polyfuse.scop import Statement
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def combined(proof: Proof) -> Verdict:
    """Complete: at each place that holds a result, its block has run every contribution.  Once: no contribution is run
    by two executions that are combined."""
    for placed in proof.schedule.placed:
        statement = proof.statement(placed)
        if statement is None or not statement.is_reduction:
            continue
        for check in (_inside_block, _complete, _counted_once):
            verdict = check(proof, placed, statement)
            if not verdict:
                return verdict
    return LEGAL


def _inside_block(proof: Proof, placed: Placed, statement: Statement) -> Verdict:
    """Partial results of two blocks never meet in this kernel."""
    blocks = sorted(d for d in proof.over(placed) if proof.kind(d) == "block")
    if not blocks:
        return LEGAL
    dims = coordinates("i", len(placed.place))
    others = coordinates("j", len(placed.place))
    digits = proof.digits_of(placed)
    place = [proof.affine(e) for e in placed.place]
    kept = [sets.equal(place[d], prime(place[d], digits)) for d in statement.kept]
    first = (*equalities(dims, place), *proof.box(digits), *proof.valid(placed))
    second = primed((*equalities(others, place), *proof.box(digits), *proof.valid(placed)), digits)
    differ = sets.Constraint(Affine.symbol(f"${blocks[0]}'") - Affine.symbol(f"${blocks[0]}") - 1)
    constraints = (*first, *second, *kept, differ, *proof.sizes)
    point = sets.sample(relation((*dims, *others), constraints, proof.scop.program.symbols))
    if point is None:
        return LEGAL
    name = statement.name
    witness = proof.witness(point, (name, dims), (name, others))
    sentence = f"contributions to one element of {name} are computed by different blocks, which this kernel never combines"
    return illegal(Hazard.COMBINE, sentence, witness, rule="combine")


def _complete(proof: Proof, placed: Placed, statement: Statement) -> Verdict:
    """``{kept present in the block} x reduced range  subset-of  executed`` at fixed block and outer loops."""
    symbols = proof.scop.program.symbols
    names = coordinates("i", len(placed.place))
    over = proof.over(placed)
    outside = [d for d in sorted(proof.digits_of(placed) - over) if proof.kind(d) in ("block", "loop", "thread")]
    fixed = tuple(f"${d}" for d in outside)
    place = [proof.affine(e) for e in placed.place]
    kept = [(names[d], place[d]) for d in statement.kept]
    present = equalities([n for n, _ in kept], [p for _, p in kept])
    wanted = (
        *present,
        *sets.box(names, statement.extents),
        *proof.box(proof.digits_of(placed) - over),
        *proof.sizes,
    )
    executed = (*equalities(names, place), *proof.box(proof.digits_of(placed)), *proof.sizes)
    point = sets.difference_point(
        relation((*names, *fixed), wanted, symbols), relation((*names, *fixed), executed, symbols)
    )
    if point is None:
        return LEGAL
    kept_names = [names[d] for d in statement.kept]
    witness = proof.witness(point, (statement.name, names), (statement.name, kept_names))
    return illegal(
        Hazard.COMBINE, f"{witness.first} never enters the result {witness.second}", witness, rule="combine"
    )


def _counted_once(proof: Proof, placed: Placed, statement: Statement) -> Verdict:
    over = sorted(proof.over(placed))
    names = coordinates("i", len(statement.reduced))
    place = [proof.affine(placed.place[d]) for d in statement.reduced]
    digits = [f"${d}" for d in over]
    valid = [
        c
        for p, extent in zip(place, (statement.extents[d] for d in statement.reduced), strict=True)
        for c in (sets.Constraint(p), sets.Constraint(extent - p - 1))
    ]
    whole = sets.Relation(
        (*names, *digits), (*equalities(names, place), *proof.box(over), *valid, *proof.sizes)
    )
    point = sets.is_injective_in(whole, names)
    if point is None:
        return LEGAL
    witness = proof.witness(point, (statement.name, names), (statement.name, names))
    sentence = f"contribution {list(witness.first.point)} to {statement.name} is counted twice"
    return illegal(Hazard.COMBINE, sentence, witness, rule="combine")


def scanned(proof: Proof) -> Verdict:
    """No later (loop, thread, slot) holds an earlier element of the scanned dimension."""
    for placed in proof.schedule.placed:
        statement = proof.statement(placed)
        if statement is None or statement.scanned is None:
            continue
        place = proof.affine(placed.place[statement.scanned])
        ranks = {"block": 0, "loop": 1, "thread": 2, "slot": 3}
        used = [d for d in proof.schedule.digits if f"${d.name}" in place.names()]
        ordered = sorted(used, key=lambda d: (ranks[d.kind], -d.stride))
        names = [d.name for d in ordered]
        box = (*proof.box(names), *primed(proof.box(names), names))
        later = place - prime(place, names) - 1  # the first execution's element lies after the second's
        for k, d in enumerate(names):
            equals = [sets.equal(Affine.symbol(f"${n}"), Affine.symbol(f"${n}'")) for n in names[:k]]
            before = sets.Constraint(Affine.symbol(f"${d}'") - Affine.symbol(f"${d}") - 1)
            constraints = (*box, *equals, before, sets.Constraint(later), *proof.sizes)
            first, second = ("i",), ("j",)
            where = (*equalities(first, [place]), *equalities(second, [prime(place, names)]))
            point = sets.sample(relation(("i", "j"), (*constraints, *where), proof.scop.program.symbols))
            if point is not None:
                witness = proof.witness(point, (statement.name, first), (statement.name, second))
                sentence = f"{statement.name} would run element {point['i']} before element {point['j']}"
                return illegal(Hazard.RAW, sentence, witness, rule="scan")
        if any(d.kind == "block" for d in used):
            return illegal(Hazard.COMBINE, f"the prefix {statement.name} crosses blocks", rule="scan")
    return LEGAL
