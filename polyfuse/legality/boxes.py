"""Shared boxes: every access inside, every cell apart."""

from __future__ import annotations

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.legality.relations import Proof, coordinates, equalities
from polyfuse.schedule import Placed, SharedBox
from polyfuse.sets import Constraint, Relation
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def boxed(proof: Proof) -> Verdict:
    """Gets, which carry no mask, stay inside their box; no two cells of a box lie at one address."""
    for box in proof.schedule.shared:
        verdict = _addressed(box)
        if not verdict:
            return verdict
    for get in (p for p in proof.schedule.placed if p.role == "get"):
        verdict = _inside(proof, get)
        if not verdict:
            return verdict
    return LEGAL


def _addressed(box: SharedBox) -> Verdict:
    """``cell -> sum(cell * pitch)`` is injective."""
    if any(n < 1 for n in box.extents):
        return illegal(Hazard.BOUNDS, f"the shared box {box.name} has the extents {box.extents}", rule="box")
    cells = coordinates("i", len(box.extents))
    (address,) = coordinates("a", 1)
    total = Affine.of(0)
    for cell, pitch in zip(cells, box.pitch, strict=True):
        total += Affine.symbol(cell) * pitch
    inside = sets.box(cells, [Affine.of(n) for n in box.extents])
    whole = Relation((address, *cells), (sets.equal(Affine.symbol(address), total), *inside))
    point = sets.is_injective_in(whole, (address,))
    if point is None:
        return LEGAL
    first, second = ([point[c] for c in cells], [point.get(f"{c}'", point[c]) for c in cells])
    sentence = f"cells {first} and {second} of the shared box {box.name} lie at one address"
    return illegal(Hazard.WAW, sentence, rule="box")


def _inside(proof: Proof, get: Placed) -> Verdict:
    box = proof.boxes[get.value]
    names, cells = coordinates("i", len(get.place)), coordinates("j", len(get.place))
    local = proof.local(get)
    for d, extent in enumerate(box.extents):
        for wrong in (-local[d] - 1, local[d] - extent):
            digits = proof.digits_of(get) | proof.used(*local)
            constraints = (
                *equalities(names, proof.index(get)),
                *equalities(cells, local),
                *proof.box(digits),
                Constraint(wrong),
            )
            point = sets.sample(proof.relation((*names, *cells), constraints))
            if point is not None:
                witness = proof.witness(point, (get.name, names), (f"box of {box.name}", cells))
                sentence = f"{get.name} reads {witness.second}, which has {extent} cells along dimension {d}"
                return illegal(Hazard.BOUNDS, sentence, witness, rule="box")
    return LEGAL
