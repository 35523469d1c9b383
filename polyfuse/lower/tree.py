"""The order tree of a schedule as operations: sequences, loops, elections, and the split at the border."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.cost.counts import element_operations
from polyfuse.dtypes import bool_
from polyfuse.lower.across_blocks import merge, partial, total
from polyfuse.lower.ahead import in_ring, loaded_ahead
from polyfuse.lower.bodies import body_term, rounded, rounded_results
from polyfuse.lower.border import Interior, interiors, passed_by
from polyfuse.lower.chosen import chosen_load
from polyfuse.lower.common import branches
from polyfuse.lower.decide import needed, with_outcomes
from polyfuse.lower.environment import Environment, counter_name, leaves, reduced_loops, result_names
from polyfuse.lower.idle_threads import with_results
from polyfuse.lower.inspect import bound, flatten, value_references
from polyfuse.lower.middle import Middle, middles
from polyfuse.lower.moves import copied, get, is_only_copied, load, put, report_unused, store, take
from polyfuse.lower.peel import at_trip, between_ends, disagree, whole_trips
from polyfuse.lower.piecewise import in_pieces
from polyfuse.lower.reductions import (
    accumulate,
    combine,
    finish,
    held_cascade,
    initialise,
    reduce_slots,
    taken,
)
from polyfuse.lower.scans import recurrence, scan
from polyfuse.scalars import CASCADES
from polyfuse.schedule import Finish, LoopNest, Placed, TreeItem, election
from polyfuse.scop import Statement
from polyfuse.sets import at_least_zero
from polyfuse.terms import Inside, Ref


def lower_body(env: Environment) -> tuple[ir.Op, ...]:
    """The masked body, or several: without masks where the block lies inside, masked at the border; where few blocks
    do, for threads that have results alone."""
    items, shared = _until_shares(env)
    body = lower_items(env, items, ())
    if env.schedule.threads == 1:
        env, found = _with_middles(env, body)
        return _split(env, found, lower_items(_of_border(env) if found else env, items, ()), items, shared)
    cut = env.schedule.border and not _is_large(env)
    found = interiors(body, env.schedule, env.scop.program, env.context) if cut else []
    if not shared and (some := with_results(body, found, env.schedule, env.scop.program, env.context)):
        env = replace(env, context=env.context.assuming(at_least_zero(some)))
        body = lower_items(env, items, ())
        found = interiors(body, env.schedule, env.scop.program, env.context)
        return (ir.If(Inside(some), _split(env, found, body, items, shared), uniform=False),)
    return _split(env, found, body, items, shared)


ONCE = 2000
"""Instructions of a thread from which a body is written once, with all of its masks.  On an H200: similarity of 8000 x
8000, 3326 instructions, 690 us so, 729 as three bodies, which spill more and take ptxas and NVVM longer; 24 harmonics
of 4000000, 2110 of them, 113 and 112, compiled in 168 ms instead of 281.  Of 400 to 1700 masks mostly cost more than
that: a step of Cahn and Hilliard 602 and 314, Gray and Scott's 398 and 266 (benchmarks/results/one_body_h200.json)."""


def _is_large(env: Environment) -> bool:
    """Whether a thread computes so much that masks hardly count beside it."""
    if env.schedule.threads == 1:
        return False
    slots, found = {d.name: d.count for d in env.schedule.of_kind("slot")}, 0
    for placed in env.schedule.placed:
        statement = env.scop.statements[placed.value]
        if placed.role == "compute" and isinstance(statement, Statement):
            found += element_operations(statement) * prod([slots[name] for name in placed.digits() & slots.keys()])
    return found >= ONCE


def _split(
    env: Environment,
    found: Sequence[Interior],
    body: tuple[ir.Op, ...],
    items: Sequence[TreeItem],
    shared: Sequence[TreeItem],
) -> tuple[ir.Op, ...]:
    """The body of each interior, and that of all other blocks."""
    behind = lower_items(env, shared, ())
    if not found or env.schedule.threads == 1:
        body = (*body, *behind)
    else:
        at_border = replace(env, bordering=True)
        own = passed_by(lower_items(at_border, items, ()), env.schedule, env.scop.program)
        body = needed((*own, *lower_items(at_border, shared, ())))
    for interior in reversed(found):
        inner = replace(env, context=env.context.assuming(at_least_zero(interior.inside)))
        whole = _of_interior(replace(inner, unread=_unread(env, interior)), items) or _of_interior(inner, items)
        assert whole is not None, "everything that it reads is there"
        body = branches(Inside(interior.inside), needed((*whole, *behind)), body)
    return body


def _with_middles(env: Environment, body: Sequence[ir.Op]) -> tuple[Environment, list[Interior]]:
    """A core's loops with middles, and interiors for what those do not decide.  Where there are several, as of arrays
    that are joined, all is asked of blocks: each is a body to compile, and middles would make two of it."""
    program, context = env.scop.program, env.context
    inside = interiors(body, env.schedule, program, context) if env.schedule.border else []
    loops = [op.digit for op in flatten(body) if isinstance(op, ir.For)]
    if len(inside) > 1 or len(set(loops)) < len(loops):  # rows in pieces have a loop for each already
        return replace(env, middles={}), inside
    found = middles(body, env.schedule, program, _handed_on(env), context)
    decided = frozenset(c for middle in found.values() for c in middle.decided)
    if inside and decided:
        inside = interiors(body, env.schedule, program, context, decided)
    return replace(env, middles=found), inside


def _of_border(env: Environment) -> Environment:
    """Few blocks are at the border of the many: their loops have all masks, so that they are written once."""
    return replace(env, middles={loop: middle for loop, middle in (env.middles or {}).items() if middle.is_all})


def _handed_on(env: Environment) -> frozenset[str]:
    """What loops hand from one trip to the next."""
    reductions = [p for p in env.schedule.placed if p.role in ("compute", "total") and reduced_loops(env, p)]
    return frozenset(name for p in reductions for op in initialise(env, p) for name in bound(op))


def _of_interior(env: Environment, items: Sequence[TreeItem]) -> tuple[ir.Op, ...] | None:
    """The body of blocks inside; None where it reads what it was thought not to.  Loops that were cut have decided what
    is known of their trips, which count from where a part begins."""
    known = {loop: inside for loop, inside in env.context.loops.items() if loop[1:] not in (env.middles or {})}
    whole = with_outcomes(lower_items(env, items, ()), replace(env.context, loops=known))
    read = {ref.name.partition(".")[0] for ref in value_references(whole)} if env.unread else set()
    return whole if read.isdisjoint(env.unread) else None


def _unread(env: Environment, interior: Interior) -> frozenset[str]:
    """What is read under conditions alone that never hold in an interior."""
    todo = [p for p in env.schedule.placed if p.role not in ("load", "compute")]
    reached = {p.name for p in todo}
    while todo and interior.never:
        placed = todo.pop()
        statement = env.scop.statements[placed.value]
        reads = statement.reads if placed.role == "compute" and isinstance(statement, Statement) else ()
        at = {f"%{d}": entry for d, entry in enumerate(placed.place) if isinstance(entry, Affine)}
        for k, provider in enumerate(placed.providers):
            where = reads[k].where if len(reads) == len(placed.providers) else ()
            if provider not in reached and not any(w.substitute(at) in interior.never for w in where):
                reached.add(provider)
                todo.append(env.by_name[provider])
    return frozenset(p.name for p in env.schedule.placed if p.name not in reached) if interior.never else frozenset()


def _until_shares(env: Environment) -> tuple[Sequence[TreeItem], Sequence[TreeItem]]:
    """What a block does until it has its shares of reductions, and what it does with them: stores them once, and adds
    up those of others if it is elected.  That is written once, with all of its masks, for blocks inside and at the
    border: the largest of 1000003 x 131 bytes has four kinds of them."""
    order, partial_ = env.schedule.order, {p.name for p in env.schedule.placed if p.role == "partial"}
    end = next((k for k, name in enumerate(order) if name in partial_), len(order))
    return order[:end], order[end:]


def lower_items(env: Environment, items: Sequence[TreeItem], loops: tuple[str, ...]) -> tuple[ir.Op, ...]:
    out: list[ir.Op] = []
    for item in items:
        if isinstance(item, LoopNest):
            finishing = reductions_ending(env, item, loops)
            out += [op for p in finishing for op in initialise(env, p)]
            out += loop(env, item, loops)
            out += [op for p in finishing for op in (*finish(env, p), *rounded_results(env, p))]
        elif isinstance(item, Finish):
            out += elected(env, item)
        elif item == "barrier":
            out.append(ir.Barrier())
        else:
            out += statement_ops(env, env.by_name[item], loops)
    return tuple(out)


def elected(env: Environment, last: Finish) -> list[ir.Op]:
    """The block that arrives last sees what all have stored."""
    group, _ = election(env.schedule.digits, last.digit)
    name, count = f"last.{last.digit}", env.schedule.digit(last.digit).extent
    elect = ir.Elect(name, counter_name(last.digit), group, count)
    return [elect, ir.If(Ref(name, bool_), lower_items(env, last.items, ()))]


def loop(env: Environment, nest: LoopNest, loops: tuple[str, ...]) -> list[ir.Op]:
    """The loop; its last trip apart where only that one needs masks and they cost: on a CPU core, where loads are
    narrow, and where masks are many."""
    if (parts := in_pieces(env, nest, loops, lower_items)) is not None:
        return parts
    extent = env.schedule.digit(nest.digit).extent
    if env.schedule.threads == 1 and env.middles is not None and nest.digit in env.middles:
        return _apart_from_middle(env, nest, loops, env.middles[nest.digit])
    body = lower_items(env, nest.items, (*loops, nest.digit))
    if env.schedule.threads == 1 and env.middles is None:
        return [ir.For(nest.digit, extent, body)]
    is_ahead = nest.digit in env.schedule.ahead
    if not is_ahead and (trips := dict(env.schedule.rings).get(nest.digit)):
        return in_ring(env, nest.digit, extent, body, trips)
    open_ = with_outcomes(body, env.context) if env.schedule.border else body  # blocks inside know more
    is_framed = not is_ahead and "frames" in dict(env.schedule.parameters)
    if is_framed and (parts := _apart_from_ends(env, nest, loops, open_)):
        return parts
    digits = env.schedule.digits
    loads = [p for name in leaves(nest) if (p := env.by_name.get(name)) is not None and p.role == "load"]
    masks_cost = env.schedule.threads == 1 or not is_ahead and _is_narrow(env, loads)
    masks_cost = masks_cost or bool(loads) and not env.bordering and disagree(body, nest.digit, digits)
    masks_cost = masks_cost and not _is_large(env)
    whole = whole_trips(open_, nest.digit, digits) if masks_cost else None
    if whole is None or not env.context.implies(whole + 1 - extent):
        return loaded_ahead(env, nest.digit, extent, body) if is_ahead else [ir.For(nest.digit, extent, body)]
    unmasked = replace(env, context=env.context.with_trips(nest.digit, whole))
    inside = lower_items(unmasked, nest.items, (*loops, nest.digit))
    if is_ahead:
        return loaded_ahead(env, nest.digit, extent, body, whole, inside)
    last, rest = at_trip(body, nest.digit, whole), extent - whole
    main = [ir.For(nest.digit, whole, inside)] if whole != Affine.of(0) else []
    if rest.is_constant:
        return [*main, *(last if rest.constant else ())]
    return [*main, ir.If(Inside((rest - 1,)), last)]


def _apart_from_ends(
    env: Environment, nest: LoopNest, loops: tuple[str, ...], body: tuple[ir.Op, ...]
) -> list[ir.Op]:
    """A loop in frames in three: the trips that a row begins in, those that it has whole, without masks, and those that
    it ends in.  Empty where it is not known that there are some, where vectors of others are made of two, which are
    as long with masks as without, and for columns of more than bytes: sums of 1000003 x 131 bfloat16 take an H200 73 us
    so and 74 otherwise, and their kernels about twice as long to compile."""
    loads = [p for name in leaves(nest) if (p := env.by_name.get(name)) is not None and p.role == "load"]
    if env.schedule.strategy == "columns" and all(env.scop.dtype(p.value, p.component).itemsize > 1 for p in loads):
        return []
    extent, implies = env.schedule.digit(nest.digit).extent, env.context.implies
    across = any(isinstance(op, ir.Load) and op.across for op in body)
    found = None if across else between_ends(body, nest.digit, env.schedule.digits)
    if found is None:
        return []
    begin, ends = Affine.of(found[0]), [e for e in found[1] if all(implies(other - e) for other in found[1])]
    if not ends or not implies(ends[0] - begin) or not implies(extent - ends[0]):
        return []
    bounds, parts = (Affine.of(0), begin, ends[0], extent), list[ir.Op]()
    for first, end in zip(bounds, bounds[1:], strict=False):
        inside = replace(env, context=env.context.between(nest.digit, first, end))
        ops = with_outcomes(lower_items(inside, nest.items, (*loops, nest.digit)), inside.context)
        parts.append(ir.For(nest.digit, end - first, at_trip(ops, nest.digit, digit(nest.digit) + first)))
    return parts


def _apart_from_middle(
    env: Environment, nest: LoopNest, loops: tuple[str, ...], middle: Middle
) -> list[ir.Op]:
    """A loop of a core in three: what comes before its middle, the middle, without masks, and what comes behind it, as
    far as there is something to do."""
    name, extent, implies = nest.digit, env.schedule.digit(nest.digit).extent, env.context.implies
    trip, zero, parts = digit(name), Affine.of(0), list[ir.Op]()
    begin, end, done = Affine.of(middle.begin), middle.end, extent if middle.done is None else middle.done
    for first, last, until in ((zero, begin, end), (begin, extent, end), (end, extent, done)):
        if last == first or until == first or implies(first - last) or implies(first - until):
            continue  # no trip
        inside = [trip - first, trip, extent - 1 - trip, last - 1 - trip, until - 1 - trip]
        context = replace(env.context, loops={**env.context.loops, f"${name}": at_least_zero(inside)})
        own = replace(env, context=context)
        ops = with_outcomes(lower_items(own, nest.items, (*loops, name)), context)
        ops = at_trip(needed(ops, _handed_on(env)), name, trip + first)
        if first == end and not implies(end):
            ops = (ir.If(Inside((trip + end,)), ops),)  # a block may have no trip in front
        least = until if implies(last - until) else last
        rest = None if implies(until - least) else until - first
        parts.append(ir.For(name, least - first, ops, rest))
    return parts


def _is_narrow(env: Environment, loads: Sequence[Placed]) -> bool:
    """Whether one of the loads is of less than a word: what computes its mask is as much as all else that is done about
    it.  Column sums of 20001 x 8191 bytes on an H200: 146 us masked, 76 unmasked."""
    vector = dict(env.schedule.parameters).get("vector", 1)
    return any(vector * env.scop.dtype(p.value, p.component).itemsize < 4 for p in loads)


def reductions_ending(env: Environment, nest: LoopNest, loops: tuple[str, ...]) -> list[Placed]:
    """The reductions inside whose outermost reduced loop is this one."""
    found = []
    for name in leaves(nest):
        placed = env.by_name.get(name)
        if placed is not None and placed.role in ("compute", "total"):
            reduced = reduced_loops(env, placed)
            if reduced and reduced[0] == nest.digit and not set(reduced) & set(loops):
                found.append(placed)
    return found


def statement_ops(env: Environment, placed: Placed, loops: tuple[str, ...]) -> list[ir.Op]:
    if placed.name in env.folded or placed.name in env.unread:
        return []
    match placed.role:
        case "load":
            return [] if is_only_copied(env, placed) else load(env, placed)
        case "store":
            return [store(env, placed)]
        case "put":
            return copied(env, placed) or [put(env, placed)]
        case "get":
            return [get(env, placed)]
        case "take":
            return [take(env, placed)]
        case "partial":
            return [partial(env, placed)]
        case "atomic":
            return [merge(env, placed)]
        case "total":
            return total(env, placed)
        case _:
            return compute(env, placed)


def compute(env: Environment, placed: Placed) -> list[ir.Op]:
    statement = env.scop.statements[placed.value]
    assert isinstance(statement, Statement)
    if placed.name in env.taken or placed.name in env.parts:
        return [ir.Let(placed.name, taken(env, placed, statement.dtypes[0].compute))]
    if env.bordering and (ops := chosen_load(env, placed, statement)) is not None:
        return ops
    if statement.monoid is None:
        value = rounded(env, statement, body_term(env, placed, statement, 0))
        return [ir.Let(placed.name, value), *report_unused(env, placed, statement)]
    if statement.lags:
        return recurrence(env, placed, statement)
    if statement.scanned is not None:
        return scan(env, placed, statement)
    if reduced_loops(env, placed):
        return accumulate(env, placed, statement)
    if statement.monoid in CASCADES:
        return held_cascade(env, placed, statement)
    if placed.name in env.folded.values():
        return [*initialise(env, placed), *accumulate(env, placed, statement)]
    reduced = reduce_slots(env, placed, statement, result_names(env, placed))
    return [*reduced, *combine(env, placed), *rounded_results(env, placed)]
