"""What a kernel may assume about digits and sizes, and the conditions that remain to be tested at run time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from polyfuse import sets
from polyfuse.affine import Affine, digit
from polyfuse.dependences import known_sizes
from polyfuse.expr import Program
from polyfuse.schedule import Digit, KernelSchedule
from polyfuse.sets import Constraint

NEVER = -digit("b0") - 1
"""A condition that fails everywhere, with an atom so that it prints as an ordinary test."""

START, END = digit("start"), digit("end")
"""Where a part of a row begins and where it ends, of operations that are lowered once for all parts."""


@dataclass(frozen=True, slots=True)
class Context:
    """Constraints on ``$digits`` and sizes that hold wherever the kernel runs.

    `loops`: constraints that hold inside a loop only.  An expression that mentions a loop's digit is evaluated inside
    it; for any other the loop may not run at all, and assuming ``0 <= r < trips`` would assume that it does.
    `element`: the element of a row, in operations for any part of it: ``START + 16*c + v``.  It exists before `END`.
    """

    constraints: tuple[Constraint, ...]
    digits: dict[str, Digit]
    loops: dict[str, tuple[Constraint, ...]] = field(default_factory=dict)
    element: Affine | None = None

    def varies(self, name: str) -> bool:
        """Whether ``$name`` is a digit of more than one place."""
        digit = self.digits.get(name[1:]) if name.startswith("$") else None
        return digit is not None and digit.extent != Affine.of(1)

    def around(self, expression: Affine) -> tuple[Constraint, ...]:
        """What holds wherever `expression` is evaluated."""
        inside = [c for name in sorted(expression.names()) for c in self.loops.get(name, ())]
        return (*self.constraints, *inside) if inside else self.constraints

    def with_trips(self, loop: str, trips: Affine) -> Context:
        """The context of the first `trips` trips of a loop."""
        return replace(self, loops={**self.loops, f"${loop}": sets.box([f"${loop}"], [trips])})

    def between(self, loop: str, first: Affine, end: Affine) -> Context:
        """The context of the trips of a loop from `first` on and before `end`."""
        trip = digit(loop)
        inside = sets.at_least_zero((trip - first, end - 1 - trip))
        return replace(self, loops={**self.loops, f"${loop}": inside})

    def of_any_part(self, loop: str, element: Affine) -> Context:
        """The context of some trip of a loop over a part of a row, of which nothing is known."""
        begins = sets.at_least_zero((digit(loop), START))
        return replace(self, loops={**self.loops, f"${loop}": begins}, element=element)

    def is_of_any_part(self, expression: Affine) -> bool:
        """Whether an expression depends on where a part begins, which may be anywhere."""
        return self.element is not None and START.names() <= expression.names()

    def assuming(self, constraints: Sequence[Constraint]) -> Context:
        """The context where these hold as well."""
        return replace(self, constraints=(*self.constraints, *constraints))

    def implies(self, condition: Affine) -> bool:
        """True when ``condition >= 0`` always holds.  A query out of budget answers False: the test is then emitted."""
        if condition.is_constant:
            return condition.constant >= 0
        known = self.around(condition)
        if self._follows(condition, known):
            return True
        if self.is_of_any_part(condition):
            return False
        try:
            return sets.implied(condition, known)
        except sets.BudgetExceeded:
            return False

    def outcome(self, condition: Affine) -> bool | None:
        """Whether ``condition >= 0`` always holds, or never does; None where neither is known."""
        known = self.around(condition)
        if not condition.is_constant and self._follows(-condition - 1, known):
            return False
        return True if self.implies(condition) else False if self.implies(-condition - 1) else None

    def _follows(self, condition: Affine, known: Sequence[Constraint]) -> bool:
        """Whether the least value of ``condition`` in a block is at least something known, by its coefficients alone:
        what isl takes milliseconds for, where sizes are many."""
        least, constant = dict[Any, int](), condition.constant
        for atom, factor in condition.terms:
            one = self.digits.get(atom[1:]) if isinstance(atom, str) and atom.startswith("$") else None
            if one is not None and one.kind in ("slot", "thread") and one.extent.is_constant:
                constant += min(0, factor * (one.extent.constant - 1))
            else:
                least[atom] = factor
        if _is_positive(least, constant):
            return True
        for constraint in known:
            if constraint.kind == ">=" and len(constraint.expression.terms) > 1:
                rest = dict(least)
                for atom, factor in constraint.expression.terms:
                    rest[atom] = rest.get(atom, 0) - factor
                if _is_positive(rest, constant - constraint.expression.constant):
                    return True
        return False

    def remaining(self, conditions: Sequence[Affine]) -> tuple[Affine, ...]:
        """The conditions that do not follow from the context, each once."""
        kept = dict.fromkeys(c for c in conditions if not self.implies(c))
        return tuple(NEVER if c.is_constant else c for c in kept)

    def inside(self, index: Sequence[Affine], extents: Sequence[Affine]) -> tuple[Affine, ...]:
        """What must be tested for ``0 <= index < extents`` to hold."""
        wanted: list[Affine] = []
        for at, extent in zip(index, extents, strict=True):
            wanted += [at, extent - at - 1]
        found = self.remaining(wanted)
        if self.element is None or not any(map(self.is_of_any_part, index)):
            return found
        return (*found, END - 1 - self.element)


def _is_positive(terms: Mapping[Any, int], constant: int) -> bool:
    """Whether a sum of digits and sizes, none of which is negative, is not negative either."""
    return constant >= 0 and all(not factor or factor > 0 and isinstance(atom, str) for atom, factor in terms.items())


def kernel_context(schedule: KernelSchedule, program: Program) -> Context:
    sizes = known_sizes(program, schedule.guards)
    boxes = {d.name: _box(d, sizes) for d in schedule.digits}
    steady = [c for d in schedule.digits if d.kind != "loop" for c in boxes[d.name]]
    loops = {f"${d.name}": boxes[d.name] for d in schedule.of_kind("loop")}
    return Context((*steady, *sizes), {d.name: d for d in schedule.digits}, loops)


def _box(digit: Digit, sizes: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """Where a digit is; nothing of one that has no place at any size, from which everything would follow."""
    extent = digit.extent
    may_be_none = extent.evaluate(dict.fromkeys(extent.names(), 1)) < 1
    if may_be_none and Context(tuple(sizes), {}).implies(-extent):
        return ()
    return sets.box([f"${digit.name}"], [extent])
