"""Constraints on named integers and the relations that they define, as plain values; `sets` asks isl about them.

Relations fall apart into independent parts: what constrains disjoint names is a product.  Questions are asked about
parts, because isl's cost grows steeply with the number of dimensions, and because parts recur.

    0 <= i < M and 0 <= j < N and i = 8*b + t and j = 4*u + v      ->      {i, b, t}  and  {j, u, v}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from polyfuse.affine import Affine, names_of


@dataclass(frozen=True, slots=True)
class Constraint:
    """``expression >= 0``, ``expression = 0``, or ``expression mod modulus = 0``."""

    expression: Affine
    kind: Literal[">=", "=", "mod"] = ">="
    modulus: int = 0

    def text(self, rename: Mapping[str, str]) -> str:
        body = self.expression.text(rename)
        return f"({body}) mod {self.modulus} = 0" if self.kind == "mod" else f"{body} {self.kind} 0"


    @property
    def truth(self) -> bool | None:
        """Whether a constraint without names holds; None for one with names."""
        value = self.expression.constant
        if self.expression.terms:
            return None
        return value >= 0 if self.kind == ">=" else value == 0 if self.kind == "=" else value % self.modulus == 0


def at_least_zero(expressions: Iterable[Affine]) -> tuple[Constraint, ...]:
    return tuple(Constraint(e) for e in expressions)


def box(names: Sequence[str], extents: Sequence[Affine]) -> tuple[Constraint, ...]:
    """``0 <= name < extent`` for each pair."""
    found = []
    for name, extent in zip(names, extents, strict=True):
        point = Affine.symbol(name)
        found += [Constraint(point), Constraint(extent - point - 1)]
    return tuple(found)


def equal(a: Affine, b: Affine) -> Constraint:
    return Constraint(a - b, "=")


@dataclass(frozen=True, slots=True)
class Relation:
    """Points over `names` for which some values of `exists` satisfy the constraints; all other names are parameters.

    A relation between instances and places is a set over the names of both sides.
    """

    names: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    exists: tuple[str, ...] = ()

    def parameters(self) -> frozenset[str]:
        used = names_of(c.expression for c in self.constraints)
        return used - set(self.names) - set(self.exists)


def connected(names: frozenset[str], constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """The constraints that share names with `names`, transitively: the rest cannot matter unless infeasible."""
    known, chosen, rest = set(names), [], list(constraints)
    grown = True
    while grown:
        grown = False
        for constraint in list(rest):
            if constraint.expression.names() & known:
                known |= constraint.expression.names()
                chosen.append(constraint)
                rest.remove(constraint)
                grown = True
    return tuple(chosen)


def parts(constraints: Sequence[Constraint], linking: frozenset[str]) -> list[tuple[Constraint, ...]]:
    """Groups of constraints that share no name of `linking`; those without such a name form the last group."""
    groups: list[tuple[set[str], list[Constraint]]] = []
    loose: list[Constraint] = []
    for constraint in constraints:
        names = set(constraint.expression.names() & linking)
        if not names:
            loose.append(constraint)
            continue
        met = [g for g in groups if g[0] & names]
        merged = (names.union(*(g[0] for g in met)), [c for g in met for c in g[1]] + [constraint])
        groups = [*(g for g in groups if g not in met), merged]
    return [*(tuple(c) for _, c in groups), *((tuple(loose),) if loose else ())]


def factors(relation: Relation) -> Iterator[Relation]:
    """Relations over fewer names whose conjunction is `relation`: one per group of existential names."""
    for group in parts(relation.constraints, frozenset(relation.exists)):
        used = names_of(c.expression for c in group)
        names = tuple(n for n in relation.names if n in used)
        yield Relation(names, group, tuple(n for n in relation.exists if n in used))


def shadow(relation: Relation, names: Sequence[str]) -> Relation:
    """What `relation` says about `names`, or less: the constraints that reach them, everything else existential."""
    inner = frozenset((*relation.names, *relation.exists))
    known, chosen, sizes = set(names), list[Constraint](), list[Constraint]()
    for group in parts(relation.constraints, inner):
        used = names_of(c.expression for c in group)
        if used & known:
            chosen += group
        elif not used & inner:
            sizes += group
    used = names_of(c.expression for c in chosen)
    chosen += connected(used - inner, sizes)
    return Relation(tuple(names), tuple(chosen), tuple(sorted(used & inner - known)))


def pieces(relation: Relation) -> list[Relation]:
    """Relations over disjoint names that all have points where `relation` has one; sizes belong to each."""
    inner = frozenset((*relation.names, *relation.exists))
    groups = parts(relation.constraints, inner)
    sizes = [c for c in relation.constraints if not c.expression.names() & inner]
    found = []
    for group in groups:
        used = names_of(c.expression for c in group)
        if used & inner:
            related = connected(used - inner, sizes)
            names = tuple(n for n in relation.names if n in used)
            found.append(Relation(names, (*group, *related), tuple(n for n in relation.exists if n in used)))
    return found
