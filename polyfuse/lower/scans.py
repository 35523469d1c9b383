"""Scans: running sums along the slots, threads and loops of one dimension; recurrences, along a loop alone."""

from __future__ import annotations

from polyfuse import kernel as ir
from polyfuse.lower.bodies import body_term, carries, carry_name, rounded
from polyfuse.lower.environment import Environment, affine_entry, reduced_loops, result_names, summed_over
from polyfuse.scalars import MONOIDS
from polyfuse.schedule import Placed
from polyfuse.scop import Statement, neutral
from polyfuse.terms import Apply, Inside, Ref


def scan(env: Environment, placed: Placed, statement: Statement) -> list[ir.Op]:
    assert statement.monoid is not None and statement.scanned is not None
    over = summed_over(env, placed)
    slots = [s.name for s in env.slots if s.name in over]
    bits = sum((d.count - 1) * d.stride for d in env.schedule.of_kind("thread") if d.name in over)
    index = affine_entry(placed.place[statement.scanned])
    where = env.context.inside([index], [statement.extents[statement.scanned]])
    value = body_term(env, placed, statement, 0)
    fill = neutral(statement.monoid, statement.dtypes)[0]
    if where:
        value = Apply("where", (Inside(where), value, fill), fill.dtype)
    total = f"{placed.name}.total"
    carried = bool(reduced_loops(env, placed))
    name = f"{placed.name}.part" if carried else placed.name
    scan = ir.Scan(
        name,
        total,
        statement.monoid,
        value,
        slots[-1] if slots else None,
        bits,
        statement.exclusive,
    )
    if not carried:
        held = Ref(placed.name, fill.dtype)
        value = rounded(env, statement, held)
        return [scan] if value is held else [scan, ir.Let(placed.name, value)]
    function = MONOIDS[statement.monoid].function
    dtype = fill.dtype
    carry = Ref(f"{placed.name}.carry", dtype)
    return [
        scan,
        ir.Let(placed.name, rounded(env, statement, Apply(function, (carry, Ref(name, dtype)), dtype))),
        ir.Let(carry.name, Apply(function, (carry, Ref(total, dtype)), dtype)),
    ]


def recurrence(env: Environment, placed: Placed, statement: Statement) -> list[ir.Op]:
    """The steps of one trip, then every value moves one trip further back.

    h = f(h_carry, h_carry2, x);   h_carry2 = h_carry;   h_carry = h
    """
    names = result_names(env, placed)
    now: list[ir.Op] = [
        ir.Let(name, rounded(env, statement, body_term(env, placed, statement, k), k)) for k, name in enumerate(names)
    ]
    if not reduced_loops(env, placed):
        return now
    for lag, c in sorted(carries(statement), reverse=True):
        source = names[c] if lag == 1 else carry_name(env, placed, lag - 1, c)
        now.append(ir.Let(carry_name(env, placed, lag, c), Ref(source, statement.dtypes[c].compute)))
    return now
