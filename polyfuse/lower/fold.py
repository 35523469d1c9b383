"""Evaluate what is constant once places and trips are known: tests of constants, choices between them, single trips.

for r < 1:  z = where(-r >= 0, x, y)
z = where(-1 >= 0, x, y)
becomes
z = x
z = y
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.dtypes import bool_
from polyfuse.lower.peel import at_trip
from polyfuse.terms import Apply, Const, Expr, Inside


def folded(ops: Sequence[ir.Op]) -> tuple[ir.Op, ...]:
    """`ops` without tests whose outcome is known, and without loops of no trip or one."""
    return tuple(new for op in ops for new in _operation(op))


def _operation(op: ir.Op) -> tuple[ir.Op, ...]:
    match op:
        case ir.For(digit=digit, extent=extent, body=body, until=until) if extent.is_constant and extent.constant <= 1:
            once = folded(at_trip(body, digit, Affine.of(0))) if extent.constant == 1 else ()
            return once if until is None or not once else folded((ir.If(Inside((until - 1,)), once),))
        case ir.For(body=body):
            return (replace(op, body=folded(body)),)
        case ir.If(condition=condition, body=body, orelse=orelse):
            test = folded_term(condition)
            if isinstance(test, Const):
                return folded(body if test.value else orelse)
            return (replace(op, condition=test, body=folded(body), orelse=folded(orelse)),)
        case ir.Let() | ir.Scan() | ir.Leave() | ir.Carry() | ir.Keep():
            return (replace(op, value=folded_term(op.value)),)
        case ir.Reduce() | ir.Combine() | ir.Exchange():
            return (replace(op, values=tuple(map(folded_term, op.values))),)
        case ir.Contract():
            return (replace(op, left=folded_term(op.left), right=folded_term(op.right)),)
        case ir.Store() | ir.AtomicUpdate():
            return (replace(op, value=folded_term(op.value), mask=_mask(op.mask)),)
        case ir.Load():
            return (replace(op, mask=_mask(op.mask)),)
        case ir.Take() | ir.Kept() | ir.Elect() | ir.Barrier() | ir.AsyncCopy() | ir.CommitCopies() | ir.WaitCopies():
            return (op,)
        case ir.Neighbours():  # their loads have no masks
            return (op,)


def _mask(mask: Expr | None) -> Expr | None:
    """The condition of an access; None where it always holds."""
    found = None if mask is None else folded_term(mask)
    return None if isinstance(found, Const) and found.value else found


def folded_term(term: Expr) -> Expr:
    """`term` with conditions on constants decided and what follows from them."""
    match term:
        case Inside(where=where):
            if any(w.is_constant and w.constant < 0 for w in where):
                return Const(False, bool_)
            open_ = tuple(w for w in where if not w.is_constant)
            return Inside(open_) if open_ else Const(True, bool_)
        case Apply(function=function, operands=operands, dtype=dtype):
            return _applied(Apply(function, tuple(map(folded_term, operands)), dtype))
        case _:
            return term


def _applied(term: Apply) -> Expr:
    """Choices by a known condition, and the logic of known truth values."""
    first, *rest = term.operands
    if term.function == "where" and isinstance(first, Const):
        return rest[0] if first.value else rest[1]
    if term.dtype != bool_ or not any(isinstance(o, Const) for o in term.operands):
        return term
    if term.function == "invert" and isinstance(first, Const):
        return Const(not first.value, bool_)
    if term.function in ("bitwise_and", "bitwise_or") and _is_logical(term):
        known, other = (first, rest[0]) if isinstance(first, Const) else (rest[0], first)
        assert isinstance(known, Const)
        return other if bool(known.value) == (term.function == "bitwise_and") else known
    return term


def _is_logical(term: Apply) -> bool:
    return all(isinstance(o, Inside) or o.dtype == bool_ for o in term.operands)
