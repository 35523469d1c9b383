"""Flow dependences as exact relations, and what they leave to be shared.

Tensors are in SSA form, so a dependence is ``write . read^-1`` per read: from the elements of the value that is read to
the instances that read them.  A consumer of a reduction depends on an element, hence on all that was summed into it::

    s[i] = sum_j x[i, j];  y[i, j] = x[i, j] - s[i]        s -> y:  { [i] -> [i', j'] : i = i' }
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.bindings import Guard
from polyfuse.expr import Program
from polyfuse.scop import Read, Scop, Statement
from polyfuse.sets import Constraint, Map, Relation


@dataclass(frozen=True, slots=True)
class Dependence:
    """Read number `read` of statement `consumer` takes a value of `producer`: a set over `elements`, the coordinates of
    the value, and `instances`, those of the consumer's domain."""

    producer: int
    consumer: int
    read: int
    elements: tuple[str, ...]
    instances: tuple[str, ...]
    relation: Relation


def flow(scop: Scop) -> tuple[Dependence, ...]:
    """Every dependence of the program, by consumer and then by read.  Library calls read whole values and have none."""
    found = []
    for statement in scop.statements:
        if isinstance(statement, Statement):
            for number, read in enumerate(statement.reads):
                found.append(_dependence(scop, statement, number, read))
    return tuple(found)


def flow_into(scop: Scop, body: Collection[int], value: int) -> Iterator[Dependence]:
    """The dependences of the statements `body` on `value`, as they are asked for: a program has thousands of others."""
    for consumer in sorted(body):
        statement = scop.statements[consumer]
        if isinstance(statement, Statement):
            for number, read in enumerate(statement.reads):
                if read.source == value:
                    yield _dependence(scop, statement, number, read)


def _dependence(scop: Scop, consumer: Statement, number: int, read: Read) -> Dependence:
    shape = scop.shape(read.source)
    elements, instances = _names("i", len(shape)), _names("j", len(consumer.extents))
    at = {f"%{d}": Affine.symbol(n) for d, n in enumerate(instances)}
    constraints = [*sets.box(instances, consumer.extents), *known_sizes(scop.program)]
    constraints += [Constraint(condition.substitute(at)) for condition in read.where]
    for name, entry, extent in zip(elements, read.index, shape, strict=True):
        if isinstance(entry, Affine):
            constraints.append(sets.equal(Affine.symbol(name), entry.substitute(at)))
        else:  # data: any position
            constraints += sets.box([name], [extent])
    relation = Relation((*elements, *instances), tuple(constraints))
    return Dependence(read.source, consumer.id, number, elements, instances, relation)


def _names(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"@{prefix}{k}" for k in range(count))


def known_sizes(program: Program, guards: Sequence[object] = ()) -> tuple[Constraint, ...]:
    """Sizes are positive (0 and 1 are specialised before), facts hold, and so do the guards of a plan but for those
    without which it is slower only: it may run for the most similar sizes then.  Symbols that stand for products are
    positive where every factor is: of the rows that a slice leaves there may be none."""
    products = dict(program.derived)
    sizes = [Constraint(Affine.symbol(s) - 1) for s in program.symbols if s not in products]
    sizes += map(Constraint, program.facts)
    for name, factors in products.items():
        least = all(sets.implied(factor - 1, sizes) for factor in factors)
        sizes.append(Constraint(Affine.symbol(name) - int(least)))
    for guard in guards:
        if isinstance(guard, Guard) and not guard.negated and not guard.advisory:
            sizes.append(Constraint(guard.expression, "mod" if guard.modulus else ">=", guard.modulus))
    return tuple(sizes)


def between_values(scop: Scop, dependence: Dependence) -> Map:
    """From elements of the producer's value to the elements of the consumer's value that depend on them: all that the
    instances are summed into, or that lie behind them in the order of a scan, in its run."""
    consumer = scop.statements[dependence.consumer]
    assert isinstance(consumer, Statement)
    results = _names("k", len(consumer.kept))
    constraints = list(dependence.relation.constraints)
    for name, dim in zip(results, consumer.kept, strict=True):
        result, instance = Affine.symbol(name), Affine.symbol(dependence.instances[dim])
        if dim != consumer.scanned:
            constraints.append(sets.equal(result, instance))
            continue
        constraints.append(Constraint(instance - result if consumer.reverse else result - instance))
        if consumer.run:
            constraints.append(sets.equal(result // consumer.run, instance // consumer.run))
        constraints += sets.box([name], [consumer.extents[dim]])
    relation = Relation((*dependence.elements, *results), tuple(constraints), dependence.instances)
    return Map.of(relation, results, scop.program.symbols)


def halo_extents(scop: Scop, root: int) -> Mapping[int, tuple[int | None, ...]]:
    """For each dimension of the value `root`, and each value that it depends on: how far apart the elements of the root
    are that need one element of that value.

    0: the dimension can be shared by both as it is (a parallel prefix of the fusion).  A number: with a halo of that
    width, recomputed or exchanged.  None: not at all, the distance grows with the sizes.  Raises BudgetExceeded.
    """
    places: dict[int, Map] = {root: _identity(scop, root)}
    incoming: dict[int, list[Dependence]] = {}
    for dependence in flow(scop):
        incoming.setdefault(dependence.consumer, []).append(dependence)
    for consumer in range(root, -1, -1):  # statements are numbered in topological order
        for dependence in incoming.get(consumer, ()) if consumer in places else ():
            step = between_values(scop, dependence).then(places[consumer])
            known = places.get(dependence.producer)
            places[dependence.producer] = step if known is None else known.union(step)
    return {value: places[value].spread() for value in sorted(places) if value != root}


def _identity(scop: Scop, value: int) -> Map:
    shape = scop.shape(value)
    elements, results = _names("i", len(shape)), _names("k", len(shape))
    same = [sets.equal(Affine.symbol(a), Affine.symbol(b)) for a, b in zip(elements, results, strict=True)]
    constraints = (*same, *sets.box(elements, shape), *known_sizes(scop.program))
    return Map.of(Relation((*elements, *results), constraints), results, scop.program.symbols)
