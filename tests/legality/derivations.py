"""What isl derives, dependences, halos, scopes and guards, against enumeration at small sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np

from polyfuse.affine import Affine
from polyfuse.dependences import flow, halo_extents
from polyfuse.legality.coverage import stored_elements
from polyfuse.legality.guards import guard_of
from polyfuse.legality.handover import Handover, handovers
from polyfuse.legality.lifetime import common_loops, completion, early
from polyfuse.legality.relations import Proof
from polyfuse.legality.scope import derived_scope
from polyfuse.schedule import Scope
from polyfuse.scop import Read, Scop, Statement
from polyfuse.sets import Constraint
from tests.legality.cases import Case
from tests.legality.machine import Element, points

Found = tuple[str, str]
"""What was checked, and where enumeration differs; ``""`` where it does not."""


def checks(case: Case) -> list[Found]:
    """Everything that can be checked about one case."""
    found = [(kind, text) for sizes in case.sizes for kind, text in _program(case.scop, sizes)]
    proof = Proof(case.scop, case.schedule)
    if not case.scop.program.symbols:
        found += _scopes(proof)
    elif len(case.scop.program.symbols) == 1:
        found += _guards(proof, case.scop.program.symbols[0])
    return found


# ---------------------------------------------------------------------------------------------- programs


def _program(scop: Scop, sizes: Mapping[str, int]) -> Iterable[Found]:
    shown = {d: _holds_points(d.relation.names, d.relation.constraints, scop, sizes) for d in flow(scop)}
    needs: dict[int, dict[Element, set[tuple[int, Element]]]] = defaultdict(lambda: defaultdict(set))
    for dependence, pairs in shown.items():
        consumer = scop.statements[dependence.consumer]
        assert isinstance(consumer, Statement)
        read = consumer.reads[dependence.read]
        rank = len(dependence.elements)
        expected = set(_reads(scop, consumer, read, sizes))
        wrong = {(p[:rank], p[rank:]) for p in pairs} ^ expected
        yield "dependence", f"{dependence.producer} -> {dependence.consumer}: {sorted(wrong)[:3]}" if wrong else ""
        for element, instance in expected:
            for result in _results(scop, consumer, instance, sizes):
                needs[dependence.producer][element].add((dependence.consumer, result))
    if not scop.program.symbols:
        for root in scop.outputs:
            yield from _halos(scop, root, needs)


def _holds_points(
    names: tuple[str, ...], constraints: tuple[Constraint, ...], scop: Scop, sizes: Mapping[str, int]
) -> set[Element]:
    """The points of a relation in a box that holds everything these programs have."""
    reach = 1 + max((n for s in scop.statements for n in _shape(s, sizes)), default=0)
    grids = np.meshgrid(*(np.arange(-1, reach + 1) for _ in names), indexing="ij")
    values = {**sizes, **{n: g.ravel() for n, g in zip(names, grids, strict=True)}}
    inside = np.ones((reach + 2) ** len(names), np.bool_)
    for c in constraints:
        value = c.expression.evaluate(values)
        inside = inside & {">=": value >= 0, "=": value == 0, "mod": np.mod(value, c.modulus or 1) == 0}[c.kind]
    columns = [values[n][inside].tolist() for n in names]
    return set(zip(*columns, strict=True)) if names else {()}


def _shape(statement: Any, sizes: Mapping[str, int]) -> tuple[int, ...]:
    extents = statement.extents if isinstance(statement, Statement) else statement.shape
    return tuple(max(0, e.evaluate(sizes)) for e in extents)


def _reads(scop: Scop, consumer: Statement, read: Read, sizes: Mapping[str, int]) -> Iterable[tuple[Element, Element]]:
    """(element, instance) of one read."""
    limits = _extents(scop.shape(read.source), sizes)
    for instance in points(_shape(consumer, sizes)):
        at = {**sizes, **{f"%{d}": v for d, v in enumerate(instance)}}
        if all(w.evaluate(at) >= 0 for w in read.where):
            entries = zip(read.index, limits, strict=True)
            spans = [[e.evaluate(at)] if isinstance(e, Affine) else range(n) for e, n in entries]
            for element in product(*spans):
                yield element, instance


def _extents(shape: tuple[Affine, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(max(0, e.evaluate(sizes)) for e in shape)


def _results(scop: Scop, consumer: Statement, instance: Element, sizes: Mapping[str, int]) -> Iterable[Element]:
    """The elements of the consumer's value that an instance takes part in."""
    spans = []
    for d in consumer.kept:
        at, extent = instance[d], consumer.extents[d].evaluate(sizes)
        if d != consumer.scanned:
            spans.append(range(at, at + 1))
        else:
            end = min(extent, at - at % consumer.run + consumer.run) if consumer.run else extent
            spans.append(range(at + 1) if consumer.reverse else range(at, end))
    return product(*spans)


def _halos(scop: Scop, root: int, needs: Mapping[int, Mapping[Element, set[tuple[int, Element]]]]) -> Iterable[Found]:
    """Push every element of every value to the elements of the root that depend on it."""
    reach: dict[tuple[int, Element], set[Element]] = {}
    for element in points(_extents(scop.shape(root), {})):
        reach[root, element] = {element}
    for value in range(root - 1, -1, -1):
        for element, users in needs.get(value, {}).items():
            reach[value, element] = set().union(*(reach.get(user, set()) for user in users))
    rank = len(scop.shape(root))
    for value, spread in halo_extents(scop, root).items():
        images = [images for (v, _), images in reach.items() if v == value and images]
        expected = tuple(max((_width(i, d) for i in images), default=0) for d in range(rank))
        yield "halo", "" if spread == expected else f"{value}: {spread}, not {expected}"


def _width(elements: set[Element], dim: int) -> int:
    along = [e[dim] for e in elements]
    return max(along) - min(along)


# ---------------------------------------------------------------------------------------------- schedules


def _scopes(proof: Proof) -> Iterable[Found]:
    digits = proof.schedule.digits
    grids = np.meshgrid(*(np.arange(max(0, d.extent.constant)) for d in digits), indexing="ij")
    every = {f"${d.name}": g.ravel() for d, g in zip(digits, grids, strict=True)}
    count = int(np.prod([max(0, d.extent.constant) for d in digits], dtype=np.int64))
    for handover in handovers(proof):
        if len(handover.held) == len(handover.provider.place) and not early(
            proof, handover.provider, handover.consumer
        ):
            scope, expected = derived_scope(handover)[0], _scope(handover, every, count)
            yield "scope", "" if scope is expected else f"{handover.consumer.name}: {scope}, not {expected}"


def _scope(handover: Handover, every: Mapping[str, Any], count: int) -> Scope:
    proof = handover.proof
    loops = common_loops(completion(proof, handover.provider), proof.times[handover.consumer.name])
    active = np.ones(count, np.bool_)
    for guard in handover.guards:
        value = guard.expression.evaluate(every)
        active = active & (value >= 0 if guard.kind == ">=" else value == 0)
    blocks, threads = proof.names("block"), proof.names("thread")
    for scope, level in ((Scope.REGISTER, blocks | threads | set(loops)), (Scope.SHARED, blocks | set(loops))):
        at = [every[f"${d}"] for d in sorted(level)]
        needed = _rows([*(e.evaluate(every) for e in handover.needed), *at], count)[active]
        held = _rows([*(e.evaluate(every) for e in handover.held), *at], count)
        if set(map(tuple, needed.tolist())) <= set(map(tuple, held.tolist())):
            return scope
    return Scope.GLOBAL


def _rows(columns: list[Any], count: int) -> np.ndarray[Any, Any]:
    out = np.empty((count, len(columns)), np.int64)
    for k, column in enumerate(columns):
        out[:, k] = column
    return out


def _guards(proof: Proof, symbol: str) -> Iterable[Found]:
    """The sizes at which elements of a root are not stored."""
    for root in proof.schedule.roots:
        domain, images = stored_elements(proof, root, 0)
        condition = guard_of(domain, *images)
        if condition is None:
            continue  # a question that is too long: no guard is claimed
        for n in range(1, 9):
            sizes = {symbol: n}
            wanted = set(points(_extents(proof.scop.shape(root), sizes)))
            stored = _stored(proof, root, sizes)
            violated = any(all(_holds(c, sizes) for c in conjunction) for conjunction in condition.violated)
            legal = condition.guards is None or all(g.holds(sizes) for g in condition.guards) is not violated
            right = violated == bool(wanted - stored) and legal
            yield "guard", "" if right or not wanted else f"{root} at {sizes}: {condition} {condition.guards}"


def _holds(constraint: Constraint, sizes: Mapping[str, int]) -> bool:
    value = constraint.expression.evaluate(sizes)
    return value >= 0 if constraint.kind == ">=" else value == 0


def _stored(proof: Proof, root: int, sizes: Mapping[str, int]) -> set[Element]:
    found: set[Element] = set()
    if any(d.extent.evaluate(sizes) < 1 for d in proof.schedule.of_kind("block")):
        return found  # no blocks
    for store in (p for p in proof.schedule.placed if p.role == "store" and (p.value, p.component) == (root, 0)):
        digits = [proof.digits[d] for d in sorted(proof.digits_of(store))]
        for values in product(*(range(max(0, d.extent.evaluate(sizes))) for d in digits)):
            at = {**sizes, **{f"${d.name}": v for d, v in zip(digits, values, strict=True)}}
            found.add(tuple(e.evaluate(at) for e in proof.index(store)))
    return found
