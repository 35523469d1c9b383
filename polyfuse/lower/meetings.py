"""Sums that do not wait for each other meet at once: threads wait once for all of them.

    a = reduce x over c                           a = reduce x over c
    a = combine a over bits                       p = x * y
    p = x * y                             ->      b = reduce p over c
    b = reduce p over c                           a = combine a over bits      printed as one call
    b = combine b over bits                       b = combine b over bits
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polyfuse import kernel as ir
from polyfuse.lower.inspect import bound, value_references

PASSED = (ir.Let, ir.Reduce, ir.Contract, ir.Take, ir.Keep, ir.Kept, ir.Combine)
"""What a thread does by itself in registers, or in cells of its own, and other combinations."""


def with_meetings_together(body: Sequence[ir.Op]) -> tuple[ir.Op, ...]:
    """The body whose combinations stand in front of the next ones over the same threads that they may wait for."""
    ops = [_inside(op) for op in body]
    for k in range(len(ops) - 1, -1, -1):  # the last first: others join what has joined
        op = ops[k]
        if isinstance(op, ir.Combine) and (place := _next(ops, k)) is not None:
            ops.insert(place, op)
            del ops[k]
    return tuple(ops)


def _inside(op: ir.Op) -> ir.Op:
    match op:
        case ir.For():
            return replace(op, body=with_meetings_together(op.body))
        case ir.If():
            return replace(op, body=with_meetings_together(op.body), orelse=with_meetings_together(op.orelse))
        case _:
            return op


def _next(ops: Sequence[ir.Op], k: int) -> int | None:
    """The place of the combination that number `k` may be moved to."""
    mine = ops[k]
    assert isinstance(mine, ir.Combine)
    made, read = {*mine.names}, {r.name for r in value_references([mine])}
    for place in range(k + 1, len(ops)):
        op = ops[place]
        if not isinstance(op, PASSED):
            return None
        if not made.isdisjoint(r.name for r in value_references([op])) or not (made | read).isdisjoint(bound(op)):
            return None
        if isinstance(op, ir.Combine) and ir.meets(mine, op):
            return place
    return None
