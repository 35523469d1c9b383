"""Loads read what somebody wants of an array: of half a square, half.

    x = load x[i, j] where j < n              x = load x[i, j] where j < n and j <= i
    y = where(j <= i, x, -inf)         ->     y = where(j <= i, x, -inf)

A vector is read where any of its elements is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from polyfuse import kernel as ir
from polyfuse.affine import Affine, names_of
from polyfuse.lower.ahead import next_name
from polyfuse.lower.environment import Environment
from polyfuse.schedule import Placed
from polyfuse.wanted import wanted

Wanted = tuple[Placed, tuple[Affine, ...]]


def with_wanted_loads(env: Environment, body: tuple[ir.Op, ...]) -> tuple[ir.Op, ...]:
    """The body whose loads ask for what is wanted.  A CPU core makes vectors of its own, which masks would end."""
    if env.schedule.block_threads == 1:
        return body
    loads = [p for p in env.schedule.placed if p.role == "load"]
    found = {p.name: (p, conditions) for p in loads if (conditions := wanted(env.scop, env.schedule, p))}
    outside = frozenset(f"${d.name}" for d in env.schedule.of_kind("loop"))
    return _asking(env, body, found, outside) if found else body


def _asking(
    env: Environment, body: tuple[ir.Op, ...], found: Mapping[str, Wanted], outside: frozenset[str]
) -> tuple[ir.Op, ...]:
    """`outside`: the digits of loops around none of these operations."""
    ops = list[ir.Op]()
    for op in body:
        match op:
            case ir.For():
                ops.append(replace(op, body=_asking(env, op.body, found, outside - {f"${op.digit}"})))
            case ir.If():
                branches = [_asking(env, part, found, outside) for part in (op.body, op.orelse)]
                ops.append(replace(op, body=branches[0], orelse=branches[1]))
            case ir.Load(name, span=1) if (loaded := name.removesuffix(next_name(""))) in found:
                placed, conditions = found[loaded]
                here = _trips(env, placed, op)
                asked = [] if here is None else _of_accesses(env, op, [c.substitute(here) for c in conditions])
                asked = [c for c in asked if not c.names() & outside]
                where = tuple(dict.fromkeys((*op.where, *env.context.remaining(asked))))
                ops.append(replace(op, where=where))
            case _:
                ops.append(op)
    return tuple(ops)


def _of_accesses(env: Environment, op: ir.Load, conditions: Sequence[Affine]) -> list[Affine]:
    """What holds where a condition does in some slot of an access: of a vector, and of slots that share it."""
    own = names_of([entry for entry in op.index if isinstance(entry, Affine)])
    slots = [s for s in env.slots if f"${s.name}" in own]
    vector = slots[-1] if op.vector > 1 else None
    if vector is not None and vector.count != op.vector:
        return []
    shared = [s for s in env.slots if s is vector or f"${s.name}" not in own]
    found = []
    for condition in conditions:
        loose = condition
        for slot in shared:
            factor = loose.coefficient(f"${slot.name}")
            loose = loose.substitute({f"${slot.name}": slot.count - 1 if factor > 0 else 0}) if factor else loose
        if not loose.names() & {f"${s.name}" for s in shared}:
            found.append(loose)
    return found


def _trips(env: Environment, placed: Placed, op: ir.Load) -> dict[str, Affine] | None:
    """The trips of loops at which a load reads, where that is no loop any more or goes ahead of it; None where it reads
    elsewhere."""
    loops = {f"${d.name}" for d in env.schedule.of_kind("loop")}
    found = dict[str, Affine]()
    pairs = [(entry, index) for entry, index in zip(placed.place, op.index, strict=True) if isinstance(entry, Affine)]
    for entry, index in pairs:
        if not isinstance(index, Affine):
            return None
        for name in entry.names() & loops:
            factor = entry.coefficient(name)
            rest = index - entry + factor * Affine.symbol(name)
            if factor and rest.is_linear and not rest.constant % factor and not any(f % factor for _, f in rest.terms):
                found[name] = Affine(tuple((a, f // factor) for a, f in rest.terms), rest.constant // factor)
    return found if all(entry.substitute(found) == index for entry, index in pairs) else None
