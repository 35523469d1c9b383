"""Indices that several loads compute alike are computed once.

    x.at = k mod N                            x.at = k mod N
    x = load x[x.at]                   ->     x = load x[x.at]
    y.at = k mod N                            y = load y[x.at]
    y = load y[y.at]
"""

from __future__ import annotations

from dataclasses import replace

from polyfuse import kernel as ir
from polyfuse.lower.inspect import bound, flatten
from polyfuse.lower.masked import renamed
from polyfuse.terms import Apply, Expr, Ref, references

INDEX = ".at"


def without_repeated_indices(body: tuple[ir.Op, ...]) -> tuple[ir.Op, ...]:
    """The body with one `Let` for indices (``name.at...``) of one value in one straight line of operations."""
    assigned: dict[str, int] = {}
    for op in flatten(body):
        for name in bound(op):
            assigned[name] = assigned.get(name, 0) + 1
    return _shared(body) if any(INDEX in name for name in assigned) else body


def _shared(ops: tuple[ir.Op, ...]) -> tuple[ir.Op, ...]:
    known: dict[Expr, Ref] = {}
    found: list[ir.Op] = []
    left = list(ops)
    while left:
        op = left.pop(0)
        match op:
            case ir.For():
                op, known = replace(op, body=_shared(op.body)), {}
            case ir.If():
                op, known = replace(op, body=_shared(op.body), orelse=_shared(op.orelse)), {}
            case ir.Let(name, Apply() as value) if INDEX in name:
                if value in known:
                    left = [renamed(later, {name: known[value]}) for later in left]
                    continue
                known[value] = Ref(name, value.dtype)
            case _:
                names = set(bound(op))  # of what is assigned again nothing is known
                known = {v: ref for v, ref in known.items() if names.isdisjoint(r.name for r in references(v))}
        found.append(op)
    return tuple(found)
