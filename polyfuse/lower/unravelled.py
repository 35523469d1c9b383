"""Places in rows, and numbers of rows, of a flat walk: one division for the neighbours of a vector.

    k = 1024*b + 8*t + v of rows of N >= 8:     f = (1024*b + 8*t) mod N,  at = f + v,  at = at - N where at >= N
    number of the row, of C that lie together:  r = (1024*b + 8*t) // N mod C,  r = (r + 1) mod C where at >= N
"""

from __future__ import annotations

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.dtypes import bool_, i32, i64, u32, u64
from polyfuse.lower.environment import Environment
from polyfuse.schedule import Digit
from polyfuse.terms import Apply, Const, Expr, Index, Ref
from polyfuse.unravelled import Unravelled


def neighbours(env: Environment, entry: Unravelled) -> Digit | None:
    """The slot along which a thread has neighbours of the walk, which lie in two rows at most; None where none does."""
    slot = next((s for s in reversed(env.slots) if f"${s.name}" in entry.flat.names()), None)
    step = 0 if slot is None else entry.flat.coefficient(f"${slot.name}")
    return slot if slot is not None and step == 1 and env.context.implies(entry.extent - slot.count) else None


def two_rows(
    env: Environment, name: str, entry: Unravelled, rows: Affine
) -> tuple[list[ir.Op], tuple[Ref, Ref], Expr]:
    """Operations that leave the number of the row of the first of some neighbours, and that of the next row, of `rows`;
    behind the last one comes the first.  And whether a neighbour lies in the next one."""
    signed, unsigned = (i64, u64) if env.index_bits == 64 else (i32, u32)
    slot = neighbours(env, entry)
    assert slot is not None and not entry.in_row
    digit, extent, count = f"${slot.name}", Index(entry.extent, unsigned), Index(rows, unsigned)
    start = Index(entry.flat.substitute({digit: 0}), unsigned)
    number = Index(entry.flat - entry.flat.substitute({digit: 0}), unsigned)
    place, row, after = (Ref(f"{name}.{k}", unsigned) for k in ("first", "row", "after"))
    this, following = Ref(f"{name}.this", signed), Ref(f"{name}.next", signed)
    found: Expr = Apply("floor_divide", (start, extent), unsigned)
    if entry.rows is not None:
        found = Apply("remainder", (found, count), unsigned)
    again = Apply("greater_equal", (after, count), bool_)
    wrapped = Apply("where", (again, Const(0, unsigned), after), unsigned)
    ops: list[ir.Op] = [
        ir.Let(place.name, Apply("remainder", (start, extent), unsigned)),
        ir.Let(row.name, found),
        ir.Let(after.name, Apply("add", (row, Const(1, unsigned)), unsigned)),
        ir.Let(this.name, Apply("cast", (row,), signed)),
        ir.Let(following.name, Apply("cast", (wrapped,), signed)),
    ]
    beyond = Apply("greater_equal", (Apply("add", (place, number), unsigned), extent), bool_)
    return ops, (this, following), beyond


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
    slot = neighbours(env, entry)
    count = None if entry.rows is None else Index(entry.rows, unsigned)
    if slot is None:
        alone = divided(function, Index(entry.flat, unsigned))
        alone = alone if count is None else Apply("remainder", (alone, count), unsigned)
        return [ir.Let(name, as_index(alone))], found
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
        number_of = divided(function, start)
        next_row: Expr = Apply("add", (row, Const(1, unsigned)), unsigned)
        if count is not None:
            number_of = Apply("remainder", (number_of, count), unsigned)
            again = Apply("equal", (next_row, count), bool_)
            next_row = Apply("where", (again, Const(0, unsigned), next_row), unsigned)
        ops.append(ir.Let(row.name, number_of))
        value = Apply("where", (beyond, next_row, row), unsigned)
    return [*ops, ir.Let(name, as_index(value))], found
