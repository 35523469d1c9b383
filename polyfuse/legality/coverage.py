"""Roots: every element is stored, and once only."""

from __future__ import annotations

from itertools import combinations

from polyfuse import sets
from polyfuse.legality.guards import when
from polyfuse.legality.relations import Proof, coordinates, equalities, prime, primed
from polyfuse.schedule import Placed
from polyfuse.sets import Constraint, Relation
from polyfuse.verdict import LEGAL, Hazard, Verdict, illegal


def covered(proof: Proof) -> Verdict:
    """``domain subset-of image(place)`` for every component of every root; nothing else is stored."""
    for store in (p for p in proof.schedule.placed if p.role == "store"):
        if store.value not in proof.schedule.roots:
            sentence = f"{store.name} stores {proof.name(store)}, which is no result of the kernel"
            return illegal(Hazard.EFFECT, sentence, rule="coverage")
    for root in proof.schedule.roots:
        if root in proof.schedule.filled:
            continue  # whole before the kernel: what it then merges into it is for the rule on atomics
        for component in range(len(proof.scop.statements[root].dtypes)):
            verdict = _covered(proof, root, component)
            if not verdict:
                return verdict
    return LEGAL


def stored_elements(proof: Proof, root: int, component: int) -> tuple[Relation, list[Relation]]:
    """The elements of a root, and those that each of its stores writes: none where there are no blocks."""
    stores = [p for p in proof.schedule.placed if p.role == "store" and (p.value, p.component) == (root, component)]
    shape = proof.scop.shape(root)
    names = coordinates("i", len(shape))
    images = [
        proof.relation(names, (*equalities(names, proof.index(s)), *proof.box(proof.digits_of(s)), *_runs(proof, s)))
        for s in stores
    ]
    return proof.relation(names, sets.box(names, shape)), images


def _runs(proof: Proof, store: Placed) -> tuple[Constraint, ...]:
    """There are blocks, along the digits that the store does not use."""
    idle = (d for d in proof.schedule.of_kind("block") if d.name not in store.digits())
    return tuple(Constraint(d.extent - 1) for d in idle if not sets.implied(d.extent - 1, proof.sizes))


def _covered(proof: Proof, root: int, component: int) -> Verdict:
    name = proof.scop.statements[root].name
    domain, images = stored_elements(proof, root, component)
    if not images:
        return illegal(Hazard.COVERAGE, f"{name} is a result of the kernel, but nothing stores it", rule="coverage")
    names = domain.names
    point = sets.difference_point(domain, *images)
    if point is None:
        return LEGAL
    at = proof.witness(point, (name, names), (f"store of {name}", names))
    sentence = f"{at.first} is stored by no thread{when(domain, *images)}"
    return illegal(Hazard.COVERAGE, sentence, at, rule="coverage")


def stored_once(proof: Proof) -> Verdict:
    """No two executions store one element: replicated digits are pinned to 0 by the lowering."""
    stores = [p for p in proof.schedule.placed if p.role == "store"]
    for store in stores:
        used = sorted(proof.digits_of(store))
        index = proof.index(store)
        names = coordinates("i", len(index))
        digits = [f"${d}" for d in used]
        constraints = (*equalities(names, index), *proof.box(used), *proof.valid(store))
        point = sets.is_injective_in(proof.relation((*names, *digits), constraints), names)
        if point is not None:
            return _twice(proof, store, store, point, digits, digits)
    for first, second in combinations(stores, 2):
        if (first.value, first.component) == (second.value, second.component):
            verdict = _meeting(proof, first, second)
            if not verdict:
                return verdict
    return LEGAL


def _meeting(proof: Proof, first: Placed, second: Placed) -> Verdict:
    """Two stores of one value never store the same element."""
    ours, theirs = sorted(proof.digits_of(first)), sorted(proof.digits_of(second))
    names = coordinates("i", len(first.place))
    index = tuple(prime(e, ours) for e in proof.index(first))
    constraints: tuple[Constraint, ...] = (
        *equalities(names, index),
        *equalities(names, proof.index(second)),
        *primed((*proof.box(ours), *proof.valid(first)), ours),
        *proof.box(theirs),
    )
    digits = [*(f"${d}'" for d in ours), *(f"${d}" for d in theirs)]
    point = sets.sample(proof.relation((*names, *digits), constraints))
    if point is None:
        return LEGAL
    return _twice(proof, first, second, point, [f"${d}'" for d in ours], [f"${d}" for d in theirs])


def _twice(
    proof: Proof, one: Placed, other: Placed, point: dict[str, int], ours: list[str], theirs: list[str]
) -> Verdict:
    names = coordinates("i", len(one.place))
    at = proof.witness(point, (proof.name(one), names), (proof.name(other), names))
    first = ", ".join(f"{d[1:].rstrip(chr(39))}={point[d]}" for d in ours)
    second = ", ".join(f"{d[1:]}={point.get(d + chr(39), point[d]) if one is other else point[d]}" for d in theirs)
    sentence = f"{at.first} is stored twice, at ({first}) and ({second})"
    return illegal(Hazard.EFFECT, sentence, at, rule="once")
