"""Trips of a loop that change nothing: all that they store is masked, and what they add is neutral.

    x = load(x, j, where j < n)
    m = max(m, where(j < n, x, -inf))        idle where j >= n
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.dtypes import bool_
from polyfuse.scalars import MONOIDS
from polyfuse.scop import neutral
from polyfuse.terms import Apply, Const, Expr, Inside, Ref


def are_idle(ops: Sequence[ir.Op], failing: Set[Affine], initial: Set[str]) -> bool:
    """Whether `ops` change nothing where none of the conditions `failing` holds in any slot.  `initial`: values that
    are bound in front of the loop, and that it hands on."""
    return bool(failing) and _Idle(failing, initial).block(ops)


class _Idle:
    """Walks through operations; of the values that are known then, `known` has which they are."""

    def __init__(self, failing: Set[Affine], initial: Set[str]) -> None:
        self.failing, self.initial = failing, initial
        self.known: dict[str, Const | None] = {}

    def block(self, ops: Sequence[ir.Op]) -> bool:
        return all(self.operation(op) for op in ops)

    def operation(self, op: ir.Op) -> bool:
        match op:
            case ir.Load(name=name, where=where, other=other, instead=instead):
                self.known[name] = other if self.fails(where) and instead is None else None
                return name not in self.initial
            case ir.Let(name, value) if name in self.initial:
                return self.keeps(name, value)
            case ir.Let(name, value):
                self.known[name] = self.value(value)
                return True
            case ir.Reduce(names=(name,), monoid=monoid, values=(value,)) if monoid in MONOIDS:
                found = self.value(value)
                self.known[name] = found if found is not None and _is_neutral(monoid, found) else None
                return name not in self.initial
            case ir.Contract(left=left, right=right):
                factors = self.value(left), self.value(right)
                return all(factor is not None and factor.value == 0 for factor in factors)
            case ir.Store(where=where, mask=mask) | ir.AtomicUpdate(where=where, mask=mask):
                return self.fails(where) or mask is not None and self.is_false(mask)
            case ir.For(body=body):
                return self.block(body)
            case _:
                return False

    def fails(self, where: Sequence[Affine]) -> bool:
        return any(condition in self.failing for condition in where)

    def is_false(self, term: Expr) -> bool:
        found = self.value(term)
        return found is not None and not found.value

    def keeps(self, name: str, value: Expr) -> bool:
        """Whether a value that is handed on stays what it is: what it meets is neutral."""
        match value:
            case Apply(function, (Ref(held), other)) if held == name:
                found = self.value(other)
                monoids = [m for m, of in MONOIDS.items() if of.state == 1 and of.function == function]
                return found is not None and any(_is_neutral(m, found) for m in monoids)
            case _:
                return False

    def value(self, term: Expr) -> Const | None:
        match term:
            case Const():
                return term
            case Ref(name):
                return self.known.get(name)
            case Inside(where):
                return Const(False, bool_) if self.fails(where) else None
            case Apply("where", (condition, yes, no)):
                chosen = self.value(condition)
                return None if chosen is None else self.value(yes if chosen.value else no)
            case Apply("bitwise_and", operands, dtype) if dtype == bool_ and any(map(self.is_false, operands)):
                return Const(False, bool_)
            case _:
                return None


def _is_neutral(monoid: str, value: Const) -> bool:
    """Whether a number changes none that it meets; of the two zeros none changes a sum that began with the other."""
    kind = value.dtype.kind
    if kind not in MONOIDS[monoid].kinds or MONOIDS[monoid].state > 1:
        return False
    return bool(neutral(monoid, (value.dtype,))[0].value == value.value)
