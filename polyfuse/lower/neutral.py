"""Masks that change nothing: what they would replace is the neutral element already.

    x is -inf where j >= n                           x is -inf where j >= n
    m = max over j of x                              m = max over j of x
    e = exp(x - m)                            ->     e = exp(x - m)
    s = sum over j of where(j < n, e, 0)             s = sum over j of e

``-inf - m`` is -inf, of which the exponential is 0, but for two cases: m is no number, or it is -inf as all elements
are.  Then every term of the row is no number, whatever padding adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.lower.inspect import bound
from polyfuse.lower.masked import renamed
from polyfuse.terms import Apply, Const, Expr, Inside, Ref

EXPONENTIALS = ("exp", "exp_short", "exp2")


def without_idle_masks(body: tuple[ir.Op, ...]) -> tuple[ir.Op, ...]:
    """The body whose sums mask no terms that are 0 where they would."""
    return _walked(body)


Where = frozenset[Affine]


@dataclass(frozen=True, slots=True)
class _Maximum:
    """Of a value, over slots and over bits of the thread index."""

    of: str
    slots: tuple[str, ...]
    bits: int = 0


@dataclass(slots=True)
class _Known:
    """Of values what they are where one of some conditions does not hold, -inf or 0, the name of what they copy, and
    over what the maximum was taken that an exponential is relative to; and maxima of such values."""

    outside: dict[str, tuple[float, Where]] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    relative: dict[str, _Maximum] = field(default_factory=dict)
    maxima: dict[str, _Maximum] = field(default_factory=dict)

    def bind(self, name: str, value: Expr) -> None:
        """``name = value``."""
        outside, copied, top = self.outside_of(value), self._copied(value), self._top(value)
        self.forget(name)
        if outside is not None:
            self.outside[name] = outside
        if copied:
            self.copies[name] = copied
        if top is not None:
            self.relative[name] = top

    def forget(self, name: str) -> None:
        for known in (self.outside, self.copies, self.relative, self.maxima):
            known.pop(name, None)

    def original(self, name: str) -> str:
        return self.copies.get(name, name)

    def outside_of(self, term: Expr) -> tuple[float, Where] | None:
        match term:
            case Ref(name):
                return self.outside.get(name)
            case Apply("where", (Inside(where), _, Const(value))) if value == -inf:
                return -inf, frozenset(where)
            case Apply("subtract", (Ref(name), Ref())) if self._top(term) is not None:
                return self.outside[name]
            case Apply(function, (Ref(name),)) if function in EXPONENTIALS and self.is_outside(name, -inf):
                return 0.0, self.outside[name][1]
            case _:
                return None

    def _copied(self, term: Expr) -> str:
        return self.original(term.name) if isinstance(term, Ref) else ""

    def _top(self, term: Expr) -> _Maximum | None:
        match term:
            case Ref(name):
                return self.relative.get(name)
            case Apply("subtract", (Ref(name), Ref(top))) if top in self.maxima and self.is_outside(name, -inf):
                return self.maxima[top] if self.original(name) == self.maxima[top].of else None
            case Apply(function, (Ref(name),)) if function in EXPONENTIALS:
                return self.relative.get(name)
            case _:
                return None

    def is_outside(self, name: str, value: float) -> bool:
        return name in self.outside and self.outside[name][0] == value

    def unmasked(self, term: Expr, slots: tuple[str, ...], bits: int) -> Ref | None:
        """What a masked term is without its mask, where a sum over these slots and bits needs none."""
        match term:
            case Apply("where", (Inside(where), Ref(name) as held, Const(value))) if value == 0:
                top = self.relative.get(name)
                fits = top is not None and (top.slots, top.bits) == (slots, bits)
                zero = self.is_outside(name, 0.0) and frozenset(where) <= self.outside[name][1]
                return held if fits and zero else None
            case _:
                return None


def _walked(ops: tuple[ir.Op, ...]) -> tuple[ir.Op, ...]:
    known, found, left = _Known(), list[ir.Op](), list(ops)
    while left:
        op = left.pop(0)
        match op:
            case ir.Let(name, value):
                known.bind(name, value)
            case ir.Load(name=name, where=where, other=Const(value)) if value == -inf and not (op.cut or op.mask):
                known.forget(name)
                known.outside[name] = -inf, frozenset(where)
            case ir.Reduce(names=(name,), monoid="sum", values=(value,), slots=slots):
                plain = known.unmasked(_masked(found, value), slots, _bits(left, name))
                if plain is not None and isinstance(value, Ref):
                    found.pop()
                    left = [renamed(later, {value.name: plain}) for later in left]
                op = op if plain is None else replace(op, values=(plain,))
                known.forget(name)
            case ir.Reduce(names=(name,), monoid="max", values=(Ref(source),), slots=slots):
                top = _Maximum(known.original(source), slots, _bits(left, name))
                known.forget(name)
                if known.is_outside(source, -inf):
                    known.maxima[name] = top
            case ir.Combine(names=(name,), monoid="max", values=(Ref(source),), bits=bits) if name == source:
                if name in known.maxima and known.maxima[name].bits != bits:
                    known.forget(name)
            case ir.For():
                op, known = replace(op, body=_walked(op.body)), _Known()
            case ir.If():
                op, known = replace(op, body=_walked(op.body), orelse=_walked(op.orelse)), _Known()
            case _:
                for name in bound(op):
                    known.forget(name)
        found.append(op)
    return tuple(found)


def _masked(before: list[ir.Op], value: Expr) -> Expr:
    """A value, or the term that it is a name of since the operation in front."""
    last = before[-1] if before else None
    return last.value if isinstance(value, Ref) and isinstance(last, ir.Let) and last.name == value.name else value


def _bits(behind: Sequence[ir.Op], name: str) -> int:
    """Of the thread index over which a partial result is combined next."""
    combined = (op for op in behind if isinstance(op, ir.Combine) and name in op.names)
    return next((op.bits for op in combined), 0)
