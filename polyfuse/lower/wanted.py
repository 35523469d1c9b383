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
            case ir.Load(name, span=1) if name in found:
                placed, conditions = found[name]
                here = _passes(placed, op, outside)
                asked = _of_accesses(env, op, [c.substitute(here) for c in conditions])
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


def _passes(placed: Placed, op: ir.Load, outside: frozenset[str]) -> dict[str, int]:
    """The passes of loops that are no loops any more, by where the load reads in them."""
    found = dict[str, int]()
    for entry, index in zip(placed.place, op.index, strict=True):
        if not isinstance(entry, Affine) or not isinstance(index, Affine):
            continue
        for name in entry.names() & outside:
            factor = entry.coefficient(name)
            ahead = index - entry + factor * Affine.symbol(name)
            if factor and ahead.is_constant and ahead.constant % factor == 0:
                found[name] = ahead.constant // factor
    return found
