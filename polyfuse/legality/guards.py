"""For which sizes a candidate is illegal: the sizes of ``need - place``.  This is how kernels are specialised.

    need 0 <= i < N,  place i = t with 0 <= t < 1024   ->   violated iff N >= 1025; legal under the guard N <= 1024
"""

from __future__ import annotations

from dataclasses import dataclass

from polyfuse import sets
from polyfuse.affine import Affine
from polyfuse.bindings import Guard
from polyfuse.sets import Constraint, Relation


@dataclass(frozen=True, slots=True)
class SizeCondition:
    """`violated`: conjunctions of which one holds exactly at the sizes where a need is not met.  `guards`: conditions
    under which it always is, None where they are not one conjunction."""

    violated: tuple[tuple[Constraint, ...], ...]
    guards: tuple[Guard, ...] | None

    @property
    def never(self) -> bool:
        return not self.violated

    @property
    def depends(self) -> bool:
        """True when some sizes violate and others do not."""
        return bool(self.violated) and all(self.violated)

    def __str__(self) -> str:
        if self.never:
            return "never violated"
        if not self.depends:
            return "violated for all sizes"
        return "violated iff " + " or ".join(" and ".join(map(condition_text, c)) for c in self.violated)


def guard_of(need: Relation, *places: Relation) -> SizeCondition | None:
    """When some point of `need` lies in none of `places`; None where isl's budget does not suffice to say."""
    try:
        violated, legal = sets.violated_sizes(need, *places)
    except sets.BudgetExceeded:
        return None
    return SizeCondition(violated, None if legal is None else tuple(g for c in legal for g in _guards(c)))


def when(need: Relation, *places: Relation) -> str:
    """`` (violated iff N >= 1025)`` for the end of a sentence; nothing where that is not a matter of size."""
    condition = guard_of(need, *places)
    return f" ({condition})" if condition is not None and condition.depends else ""


def _guards(constraint: Constraint) -> tuple[Guard, ...]:
    match constraint.kind:
        case ">=":
            return (Guard(constraint.expression),)
        case "=":
            return (Guard(constraint.expression), Guard(-constraint.expression))
        case "mod":
            return (Guard(constraint.expression, constraint.modulus),)


def condition_text(constraint: Constraint) -> str:
    """``N >= 1025`` for ``N - 1025 >= 0``, with negative terms on the right."""
    if constraint.kind == "mod":
        return f"({constraint.expression}) mod {constraint.modulus} = 0"
    left = Affine(tuple((a, f) for a, f in constraint.expression.terms if f > 0))
    right = Affine(tuple((a, -f) for a, f in constraint.expression.terms if f < 0))
    relation: str = constraint.kind
    constant = constraint.expression.constant
    if not left.terms:
        left, right, constant = right, left, -constant
        relation = "<=" if relation == ">=" else relation
    return f"{left} {relation} {right - constant}"
