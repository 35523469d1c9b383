"""Scans: running sums along the slots, threads and loops of one dimension; recurrences, along a loop alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from math import prod

from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.dtypes import DType, i32, u64
from polyfuse.lower.bodies import body_term, carries, carry_name, rounded
from polyfuse.lower.decide import needed
from polyfuse.lower.declarations import ScratchUse
from polyfuse.lower.environment import (
    TURNS,
    Environment,
    affine_entry,
    arrived_name,
    reduced_loops,
    result_names,
    summed_over,
    words_name,
)
from polyfuse.lower.peel import at_trip
from polyfuse.scalars import MONOIDS
from polyfuse.schedule import GridScan, Placed, election, scanned_slots
from polyfuse.scop import Statement, neutral
from polyfuse.terms import Apply, Expr, Inside, Ref


def scan(env: Environment, placed: Placed, statement: Statement) -> list[ir.Op]:
    """Innermost slot and threads, then the pieces that a thread holds one behind the other, then the blocks in front.

    part, total = scan of x      ahead, whole = exclusive scan of the totals of all pieces      before = whole of blocks
    y = (before . ahead) . part
    """
    assert statement.monoid is not None and statement.scanned is not None
    over = summed_over(env, placed)
    entry = affine_entry(placed.place[statement.scanned])
    pieces, slots = scanned_slots(entry, env.schedule.digits, over)
    onwards = next((scan for scan in env.schedule.grid_scans if scan.scan == placed.name), None)
    carried, bits = bool(reduced_loops(env, placed)), _bits(env, over)
    where = _counted(env, entry, statement, whole=onwards is not None or carried or not bits)
    value = body_term(env, placed, statement, 0)
    fill = neutral(statement.monoid, statement.dtypes)[0]
    if where:
        value = Apply("where", (Inside(where), value, fill), fill.dtype)
    if onwards is not None and env.leading:
        return _left_ahead(env, placed, onwards, value, [*pieces, *slots], fill.dtype)
    name = f"{placed.name}.part" if carried or pieces or onwards else placed.name
    total = f"{placed.name}.total"
    inner = slots[0] if slots else None
    ops: list[ir.Op] = [ir.Scan(name, total, statement.monoid, value, inner, bits, statement.exclusive)]
    in_front: list[Ref] = []
    for piece in pieces:
        ahead, part, total = f"{placed.name}.ahead", total, f"{placed.name}.whole"
        ops.append(ir.Scan(ahead, total, statement.monoid, Ref(part, fill.dtype), piece, 0, exclusive=True))
        in_front.append(Ref(ahead, fill.dtype))
    if onwards is not None:
        ops += _handed_on(env, placed, onwards, Ref(total, fill.dtype))
        in_front.insert(0, Ref(f"{placed.name}.before", fill.dtype))
    if carried:
        in_front.append(Ref(f"{placed.name}.carry", fill.dtype))
    result: Expr = Ref(name, fill.dtype)
    if in_front:
        result = _merged(statement.monoid, fill.dtype, _merged(statement.monoid, fill.dtype, *in_front), result)
    rounds = rounded(env, statement, result)
    ops += [ir.Let(placed.name, rounds)] if in_front or rounds is not result else []
    if carried:
        carry = Ref(f"{placed.name}.carry", fill.dtype)
        ops.append(ir.Let(carry.name, _merged(statement.monoid, fill.dtype, carry, Ref(total, fill.dtype))))
    return ops


def _counted(env: Environment, at: Affine, statement: Statement, *, whole: bool) -> tuple[Affine, ...]:
    """What must be tested for an element to count.  Those behind the end of a row are in none of its prefixes, and
    count where the total of the `whole` goes on to others.  A loop through rows that are tested has a last trip of its
    own: prefixes of rows of 4096 float32 take an H200 131 us so, 138 else, of 4001 over their sums 173 and 182.  Of
    rows of 300 bfloat16 over theirs, in three pieces, 115 us without tests and 124 with them, of 252 days 123 and 129.
    """
    assert statement.scanned is not None
    if whole or statement.run or env.context.is_of_any_part(at):
        return env.context.inside([at], [statement.extents[statement.scanned]])
    return env.context.remaining([at])


def _left_ahead(
    env: Environment, placed: Placed, onwards: GridScan, value: Expr, slots: list[str], dtype: DType
) -> list[ir.Op]:
    """The total of a block, which a reduction finds: what scans comes to it later."""
    statement = env.scop.statements[placed.value]
    assert isinstance(statement, Statement) and statement.monoid is not None
    name, bits = f"{placed.name}.whole", _bits(env, summed_over(env, placed))
    ops: list[ir.Op] = [ir.Let(name, value)]
    if slots:
        ops = [ir.Reduce((name,), statement.monoid, (value,), tuple(slots))]
    ops += [ir.Combine((name,), statement.monoid, (Ref(name, dtype),), bits)] if bits else []
    return [*ops, _leave(env, placed, onwards, Ref(name, dtype))]


def _merged(monoid: str, dtype: DType, *values: Expr) -> Expr:
    found, *rest = values
    for value in rest:
        found = Apply(MONOIDS[monoid].function, (found, value), dtype)
    return found


def _bits(env: Environment, over: Collection[str]) -> int:
    return sum((d.count - 1) * d.stride for d in env.schedule.of_kind("thread") if d.name in over)


def _handed_on(env: Environment, placed: Placed, scan: GridScan, total: Ref) -> list[ir.Op]:
    """The total, unless it is left ahead, and those of the blocks that differ in one digit alone and are in front."""
    statement, leave = env.scop.statements[placed.value], _leave(env, placed, scan, total)
    assert isinstance(statement, Statement) and statement.monoid is not None
    where = (leave.words, arrived_name(placed.name), leave.line, leave.number, leave.count, leave.group)
    carry = ir.Carry(f"{placed.name}.before", statement.monoid, total, leave.bits, *where)
    return [carry] if scan.lead else [leave, carry]


def _leave(env: Environment, placed: Placed, scan: GridScan, total: Ref) -> ir.Leave:
    bits, (line, _) = _bits(env, summed_over(env, placed)), election(env.schedule.digits, scan.digit)
    count = env.schedule.digit(scan.digit).extent
    return ir.Leave(total, bits, words_name(placed.name), line, digit(scan.digit), count, scan.group)


def with_lead(env: Environment, lowered: Callable[[Environment], tuple[ir.Op, ...]]) -> tuple[ir.Op, ...]:
    """A body; where totals are left ahead, what leaves them, then the body of so many blocks before.

    x = load(x, 8192*b); y = scan(x); store(y)
    becomes
    if b < n:       leave sum(load(x, 8192*b))
    if b >= lead:   x = load(x, 8192*(b - lead)); y = carry + scan(x); store(y)
    """
    body = lowered(env)
    scan = next((scan for scan in env.schedule.grid_scans if scan.lead), None)
    if scan is None:
        return body
    number, count = digit(scan.digit), env.schedule.digit(scan.digit).extent
    ahead = needed(_without_stores(lowered(replace(env, leading=True))))
    behind = at_trip(body, scan.digit, number - scan.lead)
    return (ir.If(Inside((count - 1 - number,)), ahead), ir.If(Inside((number - scan.lead,)), behind))


def _without_stores(ops: Sequence[ir.Op]) -> tuple[ir.Op, ...]:
    found: list[ir.Op] = []
    for op in ops:
        if isinstance(op, ir.If):
            found.append(replace(op, body=_without_stores(op.body), orelse=_without_stores(op.orelse)))
        elif not isinstance(op, ir.Store):
            found.append(op)
    return tuple(found)


def carry_uses(env: Environment) -> list[ScratchUse]:
    """What blocks leave those behind them, per line of blocks; who has read all that it needs; and the turns."""
    found: list[ScratchUse] = []
    for scan in env.schedule.grid_scans:
        placed = env.by_name[scan.scan]
        over, dtype = summed_over(env, placed), env.scop.dtype(placed.value).compute
        slots = prod(s.count for s in env.slots if s.name in placed.digits() and s.name not in over)
        each = ir.carry_words(env.schedule.threads, _bits(env, over), slots, dtype)
        count = env.schedule.digit(scan.digit).extent
        _, lines = election(env.schedule.digits, scan.digit)
        shape = (*lines, ir.carry_rows(count, scan.group, slots), Affine.of(each))
        found.append(ScratchUse(words_name(scan.scan), u64, shape, zeroed=True))
        counters = (*lines, ir.carry_counters(count, scan.group, slots))
        found.append(ScratchUse(arrived_name(scan.scan), i32, counters, zeroed=True))
    return [*found, ScratchUse(TURNS, i32, (Affine.of(1),), zeroed=True)] if found else []


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
