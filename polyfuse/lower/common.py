"""What two branches of a kernel end with written once behind them, and the values that this needs begun in front.

if inside:                                        s = zeros
    s = zeros                                     if inside:
    for r: s += load(r) * load(r)                     for r: s += load(r) * load(r)
    store(shares, combine(s)); ...           ->   else:
else:                                                 for r: s += load(r, mask) * load(r, mask)
    s = zeros                                     store(shares, combine(s)); ...
    for r: s += load(r, mask) * load(r, mask)
    store(shares, combine(s)); ...

What threads combine is most of a kernel with many results in each, and compiled once for the blocks inside and once for
those at the border.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyfuse import kernel as ir
from polyfuse.kernel_types import bound_names
from polyfuse.lower.inspect import flatten, value_references
from polyfuse.terms import Expr

_IN_FRONT = (ir.Let, ir.Load)  # what a block does in either branch before anything else, and as well in front of both


def branches(condition: Expr, body: Sequence[ir.Op], orelse: Sequence[ir.Op]) -> tuple[ir.Op, ...]:
    """``if condition: body; else: orelse``, with what both begin and end with outside, where threads combine
    in that."""
    first = 0
    while first < min(len(body), len(orelse)) and body[first] == orelse[first] and isinstance(body[first], _IN_FRONT):
        first += 1
    last = 0
    while last < min(len(body), len(orelse)) - first and body[-last - 1] == orelse[-last - 1]:
        last += 1
    begun = set(bound_names(body[:first]))
    while last:
        needed = {reference.name for reference in value_references(body[len(body) - last :])}
        if needed.isdisjoint(set(bound_names(body[first : len(body) - last])) - begun):
            break
        last -= 1
    behind = tuple(body[len(body) - last :])
    if not any(isinstance(op, ir.Combine | ir.Elect) for op in flatten(behind)):
        return (ir.If(condition, tuple(body), tuple(orelse)),)
    middle = ir.If(condition, tuple(body[first : len(body) - last]), tuple(orelse[first : len(orelse) - last]))
    return (*body[:first], middle, *behind)
