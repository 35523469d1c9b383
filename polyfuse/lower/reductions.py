"""Reductions: over the slots of a thread, around loops, and across the threads of a block."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from math import prod

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.dtypes import DType, bool_, i64
from polyfuse.lower.bodies import body_term, carries, carry_name
from polyfuse.lower.cascades import OF_MAXIMA, gathered, merged, moving
from polyfuse.lower.environment import (
    Environment,
    affine_entry,
    held_name,
    reduced_slots,
    result_names,
    summed_over,
)
from polyfuse.lower.vanishing import is_neutral, zero_outside
from polyfuse.lower.vectors import hoist_from_vector
from polyfuse.scalars import CASCADES, MONOIDS, RECURRENCE
from polyfuse.schedule import Placed
from polyfuse.scop import Statement, neutral
from polyfuse.terms import Apply, Const, Expr, Index, Inside, Ref


def initialise(env: Environment, placed: Placed) -> list[ir.Op]:
    statement = env.scop.statements[placed.value]
    assert isinstance(statement, Statement) and statement.monoid is not None
    if statement.lags:
        nothing = [neutral(RECURRENCE, (dtype,))[0] for dtype in statement.dtypes]
        return [ir.Let(carry_name(env, placed, lag, c), nothing[c]) for lag, c in carries(statement)]
    fill = neutral(statement.monoid, statement.dtypes)
    if statement.scanned is not None:
        return [ir.Let(f"{placed.name}.carry", fill[0])]
    if lanes := vector_lanes(env, placed, statement):
        return [ir.Let(lanes, fill[0])]
    return [ir.Let(n, f) for n, f in zip(result_names(env, placed), fill, strict=True)]


def reduce_slots(env: Environment, placed: Placed, statement: Statement, names: tuple[str, ...]) -> list[ir.Op]:
    assert statement.monoid is not None
    slots = reduced_slots(env, placed)
    meets = statement.monoid in CASCADES and bool(slots)
    values = masked_operands(env, placed, statement, only_counts=meets)
    if meets:
        dtype = statement.dtypes[0].compute
        return gathered(
            statement.monoid, dtype, names, values, lambda n, monoid, v: [ir.Reduce((n,), monoid, (v,), slots)]
        )
    if slots:
        return [ir.Reduce(names, statement.monoid, values, slots)]
    return [ir.Let(n, v) for n, v in zip(names, values, strict=True)]


def accumulate(env: Environment, placed: Placed, statement: Statement) -> list[ir.Op]:
    assert statement.monoid is not None
    names = result_names(env, placed)
    product, lanes = folded_factors(env, placed, statement), vector_lanes(env, placed, statement)
    if product is not None:
        slots = () if lanes else reduced_slots(env, placed)
        return [ir.Contract(lanes or names[0], product[0], product[1], slots)]
    if lanes:
        held = Ref(lanes, statement.dtypes[0].compute)
        operands = (held, *masked_operands(env, placed, statement))
        return [ir.Let(lanes, Apply(MONOIDS[statement.monoid].function, operands, held.dtype))]
    parts = tuple(f"{n}.part" for n in names)
    ops = reduce_slots(env, placed, statement, parts)
    refs = [Ref(n, d.compute) for n, d in zip(names, statement.dtypes, strict=True)]
    new = [Ref(n, d.compute) for n, d in zip(parts, statement.dtypes, strict=True)]
    if statement.monoid in CASCADES:
        return [*ops, *merged(statement.monoid, refs[0].dtype, names, parts)]
    if len(names) > 1:
        return [*ops, *merge_state(statement.monoid, names, refs, new)]
    function = MONOIDS[statement.monoid].function
    return [*ops, ir.Let(names[0], Apply(function, (refs[0], new[0]), refs[0].dtype))]


def merge_state(monoid: str, names: tuple[str, ...], old: list[Ref], new: list[Ref]) -> list[ir.Op]:
    """argmax and argmin: the new pair wins if better, or the first NaN, or equal at a lower index."""
    better = "greater" if monoid == "argmax" else "less"
    (v, i), (w, j) = old, new
    wins: Expr = Apply(better, (w, v), bool_)
    lower = Apply("less", (j, i), bool_)
    tie: Expr = Apply("bitwise_and", (Apply("equal", (w, v), bool_), lower), bool_)
    wins = Apply("bitwise_or", (wins, tie), bool_)
    if v.dtype.is_float:
        old_nan, new_nan = Apply("isnan", (v,), bool_), Apply("isnan", (w,), bool_)
        first = Apply("bitwise_or", (Apply("invert", (old_nan,), bool_), lower), bool_)
        wins = Apply("where", (new_nan, first, wins), bool_)
    take = f"{names[0]}.wins"
    choose = Ref(take, bool_)
    return [
        ir.Let(take, wins),
        ir.Let(names[0], Apply("where", (choose, w, v), v.dtype)),
        ir.Let(names[1], Apply("where", (choose, j, i), i.dtype)),
    ]


def finish(env: Environment, placed: Placed) -> list[ir.Op]:
    statement = env.scop.statements[placed.value]
    assert isinstance(statement, Statement) and statement.monoid is not None
    lanes = "" if statement.scanned is not None else vector_lanes(env, placed, statement)
    if not lanes:
        return combine(env, placed)
    held = Ref(lanes, statement.dtypes[0].compute)
    whole = ir.Reduce((placed.name,), statement.monoid, (held,), reduced_slots(env, placed))
    return [whole, *combine(env, placed)]


def combine(env: Environment, placed: Placed) -> list[ir.Op]:
    """Across threads: all bits of the thread digits that the reduction sums over."""
    statement = env.scop.statements[placed.value]
    assert isinstance(statement, Statement) and statement.monoid is not None
    if statement.scanned is not None:
        return []
    bits = combined_bits(env, placed)
    if not bits:
        return []
    names = result_names(env, placed)
    refs = tuple(Ref(n, d.compute) for n, d in zip(names, statement.dtypes, strict=True))
    if statement.monoid not in CASCADES:
        return [ir.Combine(names, statement.monoid, refs, bits)]
    low, held = bits & (env.schedule.block_threads - 1), names
    ops: list[ir.Op] = []
    if low:
        held = tuple(f"{n}.block" for n in names) if low != bits else names
        ops = gathered(
            statement.monoid,
            refs[0].dtype,
            held,
            refs,
            lambda n, monoid, v: [ir.Combine((n,), monoid, (v,), low)],
        )
    return ops if low == bits else [*ops, *exchanged(env, statement, held, names, bits)]


def combined_bits(env: Environment, placed: Placed) -> int:
    """The bits of the thread index in which threads differ that share what a reduction sums over."""
    over, bits = summed_over(env, placed), 0
    for d in env.schedule.of_kind("thread"):
        if d.name in over:
            bits |= (d.count - 1) * d.stride
    return bits


PEERS = "peers"
"""What slots along which the values of other blocks lie are called, with their number behind."""
DEALT = 16
"""Blocks of a cluster from which on the lanes of a warp have one state of moments each and merge them by shuffles:
registers hold what the block does.  On an H200, before -> since: batch normalisation of 32 x 128 x 112 x 112 float32,
which spilled 220 bytes of a thread, 173 -> 130 us, of 128 x 256 x 56 x 56 bfloat16 197 -> 155.  Fewer blocks meet
sooner in the slots of each thread: in clusters of 4 and 8, layernorm of 1024 x 131072 and 512 x 262144 bfloat16 197 and
202 us, dealt 211 and 207."""


def exchanged(
    env: Environment,
    statement: Statement,
    held: tuple[str, ...],
    names: tuple[str, ...],
    bits: int,
    known: tuple[Const, ...] = (),
) -> list[ir.Op]:
    """The states `held` of the blocks of a cluster, exchanged all at once and merged into `names`.  `known`: the first
    components, where all blocks have the same numbers."""
    assert statement.monoid is not None
    dtype, threads = statement.dtypes[0].compute, env.schedule.block_threads
    peers = 1 << (bits // threads).bit_count()
    whole = bits & (threads - 1) == threads - 1 and threads >= peers
    slot = None if whole and statement.monoid not in OF_MAXIMA and peers >= DEALT else f"{PEERS}{peers}"
    each = tuple(f"{n}.each" for n in names)
    exchange = ir.Exchange(each[len(known) :], tuple(Ref(n, dtype) for n in held[len(known) :]), bits, slot)
    states: list[Expr] = [*known, *(Ref(n, dtype) for n in each[len(known) :])]

    def collect(name: str, monoid: str, value: Expr) -> list[ir.Op]:
        if slot is None:
            return [counted(name, value, peers) or ir.Combine((name,), monoid, (value,), peers - 1)]
        return [counted(name, value, peers) or ir.Reduce((name,), monoid, (value,), (slot,))]

    return [exchange, *gathered(statement.monoid, dtype, names, states, collect)]


def counted(name: str, value: Expr, times: int) -> ir.Let | None:
    """A sum of equal numbers, which is known."""
    return ir.Let(name, Const(value.value * times, value.dtype)) if isinstance(value, Const) else None


def held_cascade(env: Environment, placed: Placed, statement: Statement) -> list[ir.Op]:
    """A cascade over values that a block holds: its registers and threads take what is summed relative to the same
    maximum or mean, that of the block; those of the blocks of a cluster meet in one exchange."""
    assert statement.monoid is not None
    names, dtype = result_names(env, placed), statement.dtypes[0].compute
    slots, bits = reduced_slots(env, placed), combined_bits(env, placed)
    low = bits & (env.schedule.block_threads - 1)

    number = prod(s.count for s in env.slots if s.name in slots) << low.bit_count()
    values = masked_operands(env, placed, statement, only_counts=True)
    whole = _elements(env, placed, statement, values[0]) if low == bits else None

    def collect(name: str, monoid: str, value: Expr) -> list[ir.Op]:
        if monoid == "sum" and (known := counted(name, value, number)) is not None:
            return [known]
        if whole is not None and value is values[0]:
            return [ir.Let(name, whole)]
        mine: ir.Op = ir.Reduce((name,), monoid, (value,), slots) if slots else ir.Let(name, value)
        return [mine, ir.Combine((name,), monoid, (Ref(name, dtype),), low)] if low else [mine]

    held = tuple(f"{n}.block" for n in names)
    terms = terms_name(placed.name) if placed.name in env.taken.values() else ""
    ops = gathered(statement.monoid, dtype, held, values, collect, terms)
    if low == bits:
        ops += [ir.Let(n, Ref(h, dtype)) for n, h in zip(names, held, strict=True)]
    else:
        count = values[0]
        known = (Const(count.value * number, dtype),) if isinstance(count, Const) else ()
        ops += exchanged(env, statement, held, names, bits, known)
    if terms:
        ops.append(ir.Let(factor_name(placed.name), moving(dtype, Ref(held[0], dtype), Ref(names[0], dtype))))
    return ops


def _elements(env: Environment, placed: Placed, statement: Statement, count: Expr) -> Expr | None:
    """How many elements the state of moments counts that registers and threads of one block bring together, where each
    counts as one: all that there are along what is reduced, which no thread has to add up; else None."""
    kinds = {d.kind for d in env.schedule.digits if d.name in summed_over(env, placed)}
    match count:
        case Apply("where", (Inside(), Const(value=1), Const(value=0)), dtype) if kinds <= {"slot", "thread"}:
            if statement.monoid in OF_MAXIMA:
                return None
            each = [Apply("cast", (Index(statement.extents[d], i64),), dtype) for d in statement.reduced]
            return reduce(lambda one, other: Apply("multiply", (one, other), dtype), each)
        case _:
            return None


def terms_name(cascade: str) -> str:
    """The exponentials that a cascade has summed."""
    return f"{cascade}.terms"


def factor_name(cascade: str) -> str:
    """What moves them to the maximum of all."""
    return f"{cascade}.factor"


def taken(env: Environment, placed: Placed, dtype: DType) -> Expr:
    """An exponential that a sum has taken already, or what it is of all of them."""
    cascade, divisor = env.parts.get(placed.name) or (env.taken[placed.name], "")
    factor: Expr = Ref(factor_name(cascade), dtype)
    if divisor:
        whole = Ref(held_name(env, env.by_name[divisor], 0), dtype)
        factor = Apply("divide", (factor, whole), dtype)
    return Apply("multiply", (Ref(terms_name(cascade), dtype), factor), dtype)


def vector_lanes(env: Environment, placed: Placed, statement: Statement) -> str:
    """Name of the partial results of each vector lane, which a CPU core combines after the loop; else empty."""
    along_vector = env.slots[-1:] and env.slots[-1].name in summed_over(env, placed)
    single = len(statement.dtypes) == 1 and env.schedule.threads == 1
    return f"{placed.name}.lanes" if along_vector and single else ""


def masked_operands(
    env: Environment, placed: Placed, statement: Statement, *, only_counts: bool = False
) -> tuple[Expr, ...]:
    """The operands, neutral where a padded digit leaves the reduced range.  `only_counts`: of moments of single
    elements that meet all at once (`gathered`), what does not count may be anything."""
    assert statement.monoid is not None
    if placed.role == "total":
        names = result_names(env, replace(placed, name=f"{placed.name}.each"))
        return tuple(Ref(n, d.compute) for n, d in zip(names, statement.dtypes, strict=True))
    index = [affine_entry(placed.place[d]) for d in statement.reduced]
    where = env.context.inside(index, [statement.extents[d] for d in statement.reduced])
    values = tuple(body_term(env, placed, statement, k) for k in range(len(statement.body)))
    if not where or all(is_neutral(env, placed, v, where) for v in values):
        return values
    where = steady(env, where)
    fill = neutral(statement.monoid, statement.dtypes)
    masked = tuple(Apply("where", (Inside(where), v, f), f.dtype) for v, f in zip(values, fill, strict=True))
    single = statement.monoid in CASCADES and statement.monoid not in OF_MAXIMA and isinstance(values[0], Const)
    return (masked[0], *values[1:]) if only_counts and single else masked


def steady(env: Environment, where: tuple[Affine, ...]) -> tuple[Affine, ...]:
    """Conditions that do not vary along the innermost slot, where the sizes allow: they are then shared."""
    if not env.slots:
        return where
    hoisted = hoist_from_vector(where, env.slots[-1], env.context)
    return where if hoisted is None else hoisted


def folded_factors(env: Environment, placed: Placed, statement: Statement) -> tuple[Expr, Expr] | None:
    producer = next(iter(placed.providers), "")  # the sum of a constant reads nothing
    if env.folded.get(producer) != placed.name:
        return None
    source = env.by_name[producer]
    inner = env.scop.statements[source.value]
    assert isinstance(inner, Statement)
    term = body_term(env, source, inner, 0)
    assert isinstance(term, Apply)
    index = [affine_entry(placed.place[d]) for d in statement.reduced]
    where = env.context.inside(index, [statement.extents[d] for d in statement.reduced])
    left, right = term.operands
    if where and not (zero_outside(env, left, where) and zero_outside(env, right, where)):
        zero = Const(0.0, term.dtype)
        left = Apply("where", (Inside(where), left, zero), term.dtype)
        right = Apply("where", (Inside(where), right, zero), term.dtype)
    return left, right
