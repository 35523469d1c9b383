"""What nobody sees of a load is one where it divides: a warp with a divisor of zero takes the long way of a division.

    q = load q[4*tx + v] where 4*tx + v < n, else 0           q = load ..., else 1
    y = x / sqrt(q)                                     ->    y = x / sqrt(q)
    store y[i, 4*tx + v] = y where 4*tx + v < n               store ...

Of rows of 100 float32 a quarter of a warp finds nothing: exp(x - m) / q of a million of them took an H200 348 us, where
half as many of 257, none of whose lanes are idle, take 241.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from polyfuse import kernel as ir
from polyfuse.lower.inspect import flatten
from polyfuse.lower.open_ends import is_load_seen, with_others
from polyfuse.schedule import Digit
from polyfuse.terms import Apply, Const, Expr, Ref

DIVIDING = ("divide", "divide_short")
POSITIVE = ("sqrt", "multiply", "divide", "add", "absolute", "negative", "maximum", "minimum", "power", "hypot", "cast")
"""Functions of which ones make something that is not zero."""


def with_divisors(body: tuple[ir.Op, ...], threads: Sequence[Digit]) -> tuple[ir.Op, ...]:
    """The body whose loads of divisors get one, not zero, where their conditions do not hold and only what is dropped
    again depends on it.  `threads`: the digits of the thread index."""
    last = body[-1] if body else None
    if isinstance(last, ir.If):  # nothing behind reads what a branch binds, which the other one may bind as well
        branches = [with_divisors(part, threads) for part in (last.body, last.orelse)]
        body = (*body[:-1], replace(last, body=branches[0], orelse=branches[1]))
    divisors = _divisors(list(flatten(body)))
    ones: dict[int, Const | None] = {}
    for op in flatten(body[:-1] if isinstance(last, ir.If) else body):
        if isinstance(op, ir.Load) and op.name in divisors and op.where and op.mask is None and _is_zero(op.other):
            ones |= {} if is_load_seen(body, op, threads) else {id(op): replace(op.other, value=1.0)}
    return with_others(body, ones) if ones else body


def _is_zero(other: Const | None) -> TypeGuard[Const]:
    return other is not None and other.dtype.is_float and other.value == 0


def _divisors(ops: Sequence[ir.Op]) -> set[str]:
    """The names of what is divided by, and of what makes it, as far as it is one where these are."""
    values: dict[str, list[Expr]] = {}
    for op in ops:
        if isinstance(op, ir.Let):
            values.setdefault(op.name, []).append(op.value)
    found = set[str]()
    todo = [d for terms in values.values() for term in terms for d in _divided_by(term)]
    while todo:
        term = todo.pop()
        if isinstance(term, Ref) and term.name not in found:
            found.add(term.name)
            todo += values.get(term.name, ())
        elif isinstance(term, Apply) and term.function in POSITIVE and not _is_moved(term):
            todo += term.operands
    return found


def _divided_by(term: Expr) -> Iterator[Expr]:
    if isinstance(term, Apply):
        if term.function in DIVIDING:
            yield term.operands[-1]
        for operand in term.operands:
            yield from _divided_by(operand)


def _is_moved(term: Apply) -> bool:
    """Whether something keeps it from zero as it is."""
    return term.function in ("add", "maximum") and any(isinstance(o, Const) and o.value for o in term.operands)
