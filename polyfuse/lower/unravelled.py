"""Places in rows, and numbers of rows, of a flat walk: one division for the neighbours of a vector.

    k = 1024*b + 8*t + v of rows of N >= 8:     f = (1024*b + 8*t) mod N,  at = f + v,  at = at - N where at >= N
"""

from __future__ import annotations

from polyfuse import kernel as ir
from polyfuse.dtypes import bool_, i32, i64, u32, u64
from polyfuse.lower.environment import Environment
from polyfuse.terms import Apply, Const, Expr, Index, Ref
from polyfuse.unravelled import Unravelled


def unravelled(env: Environment, name: str, entry: Unravelled) -> tuple[list[ir.Op], Ref]:
    """Operations that leave an index in the register `name`."""
    signed, unsigned = (i64, u64) if env.index_bits == 64 else (i32, u32)
    extent = Index(entry.extent, unsigned)

    def divided(function: str, flat: Expr) -> Expr:
        return Apply(function, (flat, extent), unsigned)

    def as_index(value: Expr) -> Expr:
        return Apply("cast", (value,), signed)

    function = "remainder" if entry.in_row else "floor_divide"
    found = Ref(name, signed)
    slot = next((s for s in reversed(env.slots) if f"${s.name}" in entry.flat.names()), None)
    step = 0 if slot is None else entry.flat.coefficient(f"${slot.name}")
    if slot is None or step != 1 or not env.context.implies(entry.extent - slot.count):
        return [ir.Let(name, as_index(divided(function, Index(entry.flat, unsigned))))], found
    digit = f"${slot.name}"
    first, place = Ref(f"{name}.first", unsigned), Ref(f"{name}.place", unsigned)
    start = Index(entry.flat.substitute({digit: 0}), unsigned)
    number = Index(entry.flat - entry.flat.substitute({digit: 0}), unsigned)
    ops: list[ir.Op] = [
        ir.Let(first.name, divided("remainder", start)),
        ir.Let(place.name, Apply("add", (first, number), unsigned)),
    ]
    beyond = Apply("greater_equal", (place, extent), bool_)
    if entry.in_row:
        value: Expr = Apply("where", (beyond, Apply("subtract", (place, extent), unsigned), place), unsigned)
    else:
        row = Ref(f"{name}.row", unsigned)
        ops.append(ir.Let(row.name, divided(function, start)))
        next_row = Apply("add", (row, Const(1, unsigned)), unsigned)
        value = Apply("where", (beyond, next_row, row), unsigned)
    return [*ops, ir.Let(name, as_index(value))], found
