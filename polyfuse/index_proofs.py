"""What isl proves about a statement in index notation: subscripts in bounds, and the order of updates in place.

    for i in 1 .. N-2:   A[i] = (A[i-1] + A[i+1]) / 2

Instances are points of the statement's domain, in lexicographic order.  The read ``A[i+1]`` meets old values only,
because no earlier instance writes that element; the read ``A[i-1]`` meets the value of the instance before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.sets import Constraint, Relation

Point = dict[str, int]


@dataclass(frozen=True, slots=True)
class Domain:
    """The points `names` for which all `constraints` hold; other names in them are sizes."""

    names: tuple[str, ...]
    constraints: tuple[Constraint, ...]

    @staticmethod
    def of(names: Sequence[str], conditions: Sequence[Affine]) -> Domain:
        """The points where all `conditions` are >= 0."""
        return Domain(tuple(names), sets.at_least_zero(conditions))

    def at(self, sizes: Mapping[str, int]) -> Domain:
        """The points at known sizes."""
        known = [Constraint(c.expression.substitute(sizes), c.kind, c.modulus) for c in self.constraints]
        return Domain(self.names, tuple(known))


def escape(domain: Domain, subscript: Affine, size: Affine) -> Point | None:
    """A point (with sizes) where ``0 <= subscript < size`` does not hold; None where it always does."""
    return sets.difference_point(_relation(domain), _inside(domain, subscript, size))


def admissible_sizes(domain: Domain, subscript: Affine, size: Affine) -> tuple[Affine, ...] | None:
    """The condition on sizes (all >= 0) for which no point escapes, where one conjunction says it."""
    _, legal = sets.violated_sizes(_relation(domain), _inside(domain, subscript, size))
    if legal is None or any(c.kind == "mod" for c in legal):
        return None
    both = [e for c in legal for e in ((c.expression, -c.expression) if c.kind == "=" else (c.expression,))]
    return tuple(both)


def written_before(
    reader: Domain, read: Sequence[Affine], writer: Domain, written: Sequence[Affine], order: Sequence[str]
) -> Point | None:
    """A point of `reader` and an earlier instance, with primed names, that writes what it reads."""
    return _meeting(reader, read, writer, written, order, -1)


def written_after(
    reader: Domain, read: Sequence[Affine], writer: Domain, written: Sequence[Affine], order: Sequence[str]
) -> Point | None:
    """A point of `reader` and an instance not before it that writes what it reads."""
    same = _meeting(reader, read, writer, written, order, 0)
    return same or _meeting(reader, read, writer, written, order, 1)


def _meeting(
    reader: Domain,
    read: Sequence[Affine],
    writer: Domain,
    written: Sequence[Affine],
    order: Sequence[str],
    direction: int,
) -> Point | None:
    prime = {name: Affine.symbol(f"{name}'") for name in writer.names}
    constraints = list(reader.constraints)
    constraints += [Constraint(c.expression.substitute(prime), c.kind, c.modulus) for c in writer.constraints]
    constraints += [sets.equal(r, w.substitute(prime)) for r, w in zip(read, written, strict=True)]
    names = (*reader.names, *(f"{name}'" for name in writer.names))
    levels = range(len(order)) if direction else [len(order)]
    for level in levels:
        equal = tuple(sets.equal(Affine.symbol(n), prime[n]) for n in order[:level])
        differ = [] if level == len(order) else [(prime[order[level]] - Affine.symbol(order[level])) * direction - 1]
        found = sets.sample(Relation(names, (*constraints, *equal, *sets.at_least_zero(differ))))
        if found is not None:
            return found
    return None


def _relation(domain: Domain) -> Relation:
    return Relation(domain.names, domain.constraints)


def _inside(domain: Domain, subscript: Affine, size: Affine) -> Relation:
    return Relation(domain.names, sets.at_least_zero((subscript, size - 1 - subscript)))
