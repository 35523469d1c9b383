"""Places in rows, and numbers of rows, of a flat walk: one division for the neighbours of a vector.

    k = 1024*b + 8*t + v of rows of N >= 8:     f = (1024*b + 8*t) mod N,  at = f + v,  at = at - N where at >= N
    number of the row, of C that lie together:  r = (1024*b + 8*t) // N mod C,  r = (r + 1) mod C where at >= N
"""

from __future__ import annotations

from polyfuse import kernel as ir
from polyfuse.affine import ZERO, Affine
from polyfuse.dtypes import DType, bool_, i32, i64, u32, u64
from polyfuse.lower.environment import Environment
from polyfuse.schedule import Digit
from polyfuse.terms import Apply, Const, Expr, Index, Ref
from polyfuse.unravelled import Unravelled


def neighbours(env: Environment, entry: Unravelled) -> Digit | None:
    """The slot along which a thread has neighbours of the walk, which lie in two rows at most; None where none does."""
    slot = next((s for s in reversed(env.slots) if f"${s.name}" in entry.flat.names()), None)
    step = 0 if slot is None else entry.flat.coefficient(f"${slot.name}")
    return slot if slot is not None and step == 1 and env.context.implies(entry.extent - slot.count) else None


def _along(entry: Unravelled, slot: Digit, unsigned: DType) -> tuple[Expr, Expr]:
    """(where the first of the neighbours lies in the walk, which of them this is)."""
    first = entry.flat.substitute({f"${slot.name}": 0})
    return Index(first, unsigned), Index(entry.flat - first, unsigned)


def _row(entry: Unravelled, place: Expr, unsigned: DType) -> Expr:
    """The number of the row in which a place of the walk lies."""
    number = Apply("floor_divide", (place, Index(entry.extent, unsigned)), unsigned)
    if entry.rows is None:
        return number
    return Apply("remainder", (number, Index(entry.rows, unsigned)), unsigned)


def two_rows(
    env: Environment, name: str, entry: Unravelled, rows: Affine
) -> tuple[list[ir.Op], tuple[Ref, Ref], Expr]:
    """Operations that leave the number of the row of the first of some neighbours, and that of the next row, of `rows`;
    behind the last one comes the first.  And whether a neighbour lies in the next one."""
    signed, unsigned = (i64, u64) if env.index_bits == 64 else (i32, u32)
    slot = neighbours(env, entry)
    assert slot is not None and not entry.in_row
    extent, count = Index(entry.extent, unsigned), Index(rows, unsigned)
    start, number = _along(entry, slot, unsigned)
    place, row, after = (Ref(f"{name}.{k}", unsigned) for k in ("first", "row", "after"))
    this, following = Ref(f"{name}.this", signed), Ref(f"{name}.next", signed)
    again = Apply("greater_equal", (after, count), bool_)
    wrapped = Apply("where", (again, Const(0, unsigned), after), unsigned)
    ops: list[ir.Op] = [
        ir.Let(place.name, Apply("remainder", (start, extent), unsigned)),
        ir.Let(row.name, _row(entry, start, unsigned)),
        ir.Let(after.name, Apply("add", (row, Const(1, unsigned)), unsigned)),
        ir.Let(this.name, Apply("cast", (row,), signed)),
        ir.Let(following.name, Apply("cast", (wrapped,), signed)),
    ]
    beyond = Apply("greater_equal", (Apply("add", (place, number), unsigned), extent), bool_)
    return ops, (this, following), beyond


def unravelled(env: Environment, name: str, entry: Unravelled) -> tuple[list[ir.Op], Ref]:
    """Operations that leave an index in the register `name`."""
    signed, unsigned = (i64, u64) if env.index_bits == 64 else (i32, u32)
    extent, slot = Index(entry.extent, unsigned), neighbours(env, entry)

    def index(value: Expr) -> ir.Op:
        found: Expr = Apply("cast", (value,), signed)
        if entry.step != 1:
            found = Apply("multiply", (found, Const(entry.step, signed)), signed)
        if entry.first != ZERO:
            found = Apply("add", (found, Index(entry.first, signed)), signed)
        return ir.Let(name, found)

    def in_row(place: Expr) -> Expr:
        return Apply("remainder", (place, extent), unsigned)

    if slot is None:
        place = Index(entry.flat, unsigned)
        return [index(in_row(place) if entry.in_row else _row(entry, place, unsigned))], Ref(name, signed)
    start, number = _along(entry, slot, unsigned)
    first, at, row = (Ref(f"{name}.{k}", unsigned) for k in ("first", "place", "row"))
    ops: list[ir.Op] = [ir.Let(first.name, in_row(start)), ir.Let(at.name, Apply("add", (first, number), unsigned))]
    this: Expr = at
    following: Expr = Apply("subtract", (at, extent), unsigned)
    if not entry.in_row:
        ops.append(ir.Let(row.name, _row(entry, start, unsigned)))
        this, following = row, Apply("add", (row, Const(1, unsigned)), unsigned)
        if entry.rows is not None:
            again = Apply("equal", (following, Index(entry.rows, unsigned)), bool_)
            following = Apply("where", (again, Const(0, unsigned), following), unsigned)
    beyond = Apply("greater_equal", (at, extent), bool_)
    return [*ops, index(Apply("where", (beyond, following, this), unsigned))], Ref(name, signed)
