"""Roots: every element is stored, and by one thread only."""

from __future__ import annotations

from polyfuse import sets
from polyfuse.legality.relations import Proof, coordinates, equalities, relation
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def covered(proof: Proof) -> Verdict:
    """``domain subset-of image(place)`` for every root."""
    symbols = proof.scop.program.symbols
    for root in proof.schedule.roots:
        stores = [p for p in proof.schedule.placed if p.role == "store" and p.value == root]
        shape = proof.scop.shape(root)
        name = proof.scop.statements[root].name
        if not stores:
            return illegal(Hazard.COVERAGE, f"{name} is a result of the kernel, but nothing stores it", rule="coverage")
        names = coordinates("i", len(shape))
        domain = relation(names, (*sets.box(names, shape), *proof.sizes), symbols)
        for store in stores:
            digits = proof.box(store.digits())
            image = relation(names, (*equalities(names, proof.index(store)), *digits, *proof.sizes), symbols)
            point = sets.difference_point(domain, image)
            if point is not None:
                at = proof.witness(point, (name, names), (store.name, names))
                return illegal(Hazard.COVERAGE, f"{at.first} is stored by no thread", at, rule="coverage")
    return LEGAL


def stored_once(proof: Proof) -> Verdict:
    """Two digit tuples never store the same element: replicated digits are pinned to 0 by the lowering."""
    for store in (p for p in proof.schedule.placed if p.role == "store"):
        used = sorted(store.digits())
        index = proof.index(store)
        names = coordinates("i", len(index))
        digits = [f"${d}" for d in used]
        whole = sets.Relation(
            (*names, *digits), (*equalities(names, index), *proof.box(used), *proof.valid(store), *proof.sizes)
        )
        point = sets.is_injective_in(whole, names)
        if point is not None:
            name = proof.name(store)
            at = proof.witness(point, (name, names), (name, names))
            return illegal(
                Hazard.EFFECT, f"{at.first} is stored by two threads, at {_at(point, digits)}", at, rule="once"
            )
    return LEGAL


def _at(point: dict[str, int], digits: list[str]) -> str:
    first = ", ".join(f"{d[1:]}={point[d]}" for d in digits)
    second = ", ".join(f"{d[1:]}={point.get(d + chr(39), point[d])}" for d in digits)
    return f"({first}) and ({second})"


