"""Tests whose outcome follows from the context decided, and what nothing reads any more left out.

x = load(image, 2 - i, where 2 - i >= 0)                  (i >= 2 is known)
y = load(image, i - 2)                          ->    y = load(image, i - 2)
z = where(i < 2, x, y)                                z = y
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Protocol

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.dtypes import bool_
from polyfuse.lower.context import NEVER, Context
from polyfuse.lower.fold import folded
from polyfuse.lower.inspect import value_references
from polyfuse.terms import Const, Expr, Index, Inside, Ref, rewrite


class Outcomes(Protocol):
    """What is known of conditions."""

    def outcome(self, condition: Affine) -> bool | None:
        """Whether ``condition >= 0`` always holds, or never does; None where neither is known."""


def decided(ops: Sequence[ir.Op], context: Context) -> tuple[ir.Op, ...]:
    """`ops` for where `context` holds: the same stores of the same values, with fewer tests and loads."""
    return needed(with_outcomes(ops, context))


def with_outcomes(ops: Sequence[ir.Op], context: Outcomes) -> tuple[ir.Op, ...]:
    """`ops` for where `context` holds, with fewer tests: a part of a kernel, of which others read what it binds."""
    return folded(_Decision(context).block(ops))


class _Decision:
    """Rewrites operations under one context."""

    def __init__(self, context: Outcomes) -> None:
        self.context = context
        self.outcomes: dict[Affine, bool | None] = {}

    def outcome(self, condition: Affine) -> bool | None:
        if condition not in self.outcomes:
            self.outcomes[condition] = self.context.outcome(condition)
        return self.outcomes[condition]

    def block(self, ops: Sequence[ir.Op]) -> tuple[ir.Op, ...]:
        return tuple(self.operation(op) for op in ops)

    def operation(self, op: ir.Op) -> ir.Op:
        match op:
            case ir.Let() | ir.Scan() | ir.Leave() | ir.Carry() | ir.Keep():
                return replace(op, value=self.term(op.value))
            case ir.Load():
                return self.load(op)
            case ir.Neighbours():
                return ir.Neighbours(tuple(map(self.load, op.loads)))
            case ir.Store() | ir.AtomicUpdate():
                return replace(op, value=self.term(op.value), where=self.where(op.where), mask=self.mask(op.mask))
            case ir.Reduce() | ir.Combine() | ir.Exchange():
                return replace(op, values=tuple(map(self.term, op.values)))
            case ir.Contract():
                return replace(op, left=self.term(op.left), right=self.term(op.right))
            case ir.For():
                return replace(op, body=self.block(op.body))
            case ir.If():
                return replace(
                    op, condition=self.term(op.condition), body=self.block(op.body), orelse=self.block(op.orelse)
                )
            case ir.AsyncCopy():
                return replace(op, where=self.where(op.where))
            case ir.Take() | ir.Kept() | ir.Elect() | ir.Barrier() | ir.CommitCopies() | ir.WaitCopies():
                return op

    def load(self, op: ir.Load) -> ir.Load:
        return replace(op, where=self.where(op.where), mask=self.mask(op.mask))

    def where(self, conditions: tuple[Affine, ...]) -> tuple[Affine, ...]:
        outcomes = [(c, self.outcome(c)) for c in conditions]
        if any(known is False for _, known in outcomes):
            return (NEVER,)
        return tuple(c for c, known in outcomes if known is None)

    def mask(self, mask: Expr | None) -> Expr | None:
        return None if mask is None else self.term(mask)

    def term(self, term: Expr) -> Expr:
        return rewrite(term, self.leaf)

    def leaf(self, leaf: Ref | Const | Index | Inside) -> Expr:
        if not isinstance(leaf, Inside):
            return leaf
        where = self.where(leaf.where)
        if where == (NEVER,):
            return Const(False, bool_)
        return Inside(where) if where else Const(True, bool_)


def needed(ops: Sequence[ir.Op], others: AbstractSet[str] = frozenset()) -> tuple[ir.Op, ...]:
    """`ops` without loads and values that nothing reads.  `others`: what is read behind them."""
    current = tuple(ops)
    while True:
        read = others | {ref.name for ref in value_references(current)}
        left = _read(current, read)
        if left == current:
            return current
        current = left


def _read(ops: Sequence[ir.Op], read: AbstractSet[str]) -> tuple[ir.Op, ...]:
    found: list[ir.Op] = []
    for op in ops:
        match op:
            case ir.Let(name=name) | ir.Load(name=name) | ir.Take(name=name) if name not in read:
                continue
            case ir.Contract(name=name) if name not in read:  # nor what it adds to
                continue
            case ir.For(body=body):
                found.append(replace(op, body=_read(body, read)))
            case ir.If(body=body, orelse=orelse):
                found.append(replace(op, body=_read(body, read), orelse=_read(orelse, read)))
            case _:
                found.append(op)
    return tuple(found)
