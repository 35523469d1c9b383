"""Sums across blocks: what each block leaves, or merges into the result, and what the block that arrives last makes of
it."""

from __future__ import annotations

from polyfuse import kernel as ir
from polyfuse.affine import digit
from polyfuse.lower.bodies import rounded_results
from polyfuse.lower.environment import (
    Environment,
    affine_entry,
    held_name,
    once_threads,
    reduced_loops,
    result_names,
    summed_digit,
)
from polyfuse.lower.moves import vector_access
from polyfuse.lower.reductions import accumulate, combine, masked_operands, reduce_slots
from polyfuse.schedule import Placed
from polyfuse.scop import Statement, neutral
from polyfuse.terms import Ref


def partial(env: Environment, placed: Placed) -> ir.Op:
    """The block's share, under the number of the block."""
    use = env.shares[placed.value, placed.component]
    place = (digit(summed_digit(env.schedule, placed)), *map(affine_entry, placed.place))
    where = (*env.context.inside(place, use.shape), *once_threads(env, placed))
    width, where = vector_access(env, place, use, where)
    held = held_name(env, env.by_name[placed.providers[0]], placed.component)
    return ir.Store(use.name, place, Ref(held, use.dtype), where, None, width)


def merge(env: Environment, placed: Placed) -> ir.Op:
    """The block's share into the result, in the dtype of both."""
    statement, use = env.scop.statements[placed.value], env.arrays[placed.value, placed.component, False]
    assert isinstance(statement, Statement) and statement.monoid is not None
    place = tuple(map(affine_entry, placed.place))
    where = (*env.context.inside(place, use.shape), *once_threads(env, placed))
    width, where = vector_access(env, place, use, where)
    held = Ref(held_name(env, env.by_name[placed.providers[0]], placed.component), use.dtype)
    return ir.AtomicUpdate(use.name, place, statement.monoid, held, where, None, width)


def total(env: Environment, placed: Placed) -> list[ir.Op]:
    """Shares, neutral where there is no such block, in registers; then as any reduction."""
    statement = env.scop.statements[placed.value]
    assert isinstance(statement, Statement) and statement.monoid is not None
    place = tuple(map(affine_entry, placed.place))
    loads: list[ir.Op] = []
    fill = neutral(statement.monoid, statement.dtypes)
    for k, value in enumerate(masked_operands(env, placed, statement)):
        assert isinstance(value, Ref)
        use = env.shares[placed.value, k]
        where = env.context.inside(place, use.shape)
        width, where = vector_access(env, place, use, where)
        loads.append(ir.Load(value.name, use.name, place, where, None, fill[k], width))
    if reduced_loops(env, placed):
        return [*loads, *accumulate(env, placed, statement)]
    names = result_names(env, placed)
    reduced = reduce_slots(env, placed, statement, names)
    return [*loads, *reduced, *combine(env, placed), *rounded_results(env, placed)]
