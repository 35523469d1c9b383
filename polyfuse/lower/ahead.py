"""Loads of a loop moved one trip ahead, so that memory is busy while threads wait for each other.

for r < n:   x = load(r);  s = combine(x);  use(x, s)
becomes
x_next = load(0)
for r < n:   x = x_next;  if r + 1 < n: x_next = load(r + 1);  s = combine(x);  use(x, s)

A kernel loads only what was in memory before it started, and an earlier load of the same thread comes before every
store that the one replaced came before: the move is right wherever the loop was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.lower.environment import Environment
from polyfuse.lower.peel import at_trip
from polyfuse.terms import Inside, Ref


def loaded_ahead(env: Environment, loop: str, extent: Affine, body: Sequence[ir.Op]) -> list[ir.Op]:
    """The loop over `body` with its first loads in front and the others one trip early.  A loop without trips loads
    what its masks allow of the first one, and uses nothing of it."""
    early = [op for op in body if isinstance(op, ir.Load) and _moves(env, loop, op)]
    if not early or not env.context.implies(extent - 1):
        return [ir.For(loop, extent, tuple(body))]
    following = tuple(replace(op, name=_next(env, op)) for op in early)
    trip = Affine.symbol(f"${loop}")
    more = ir.If(Inside((extent - trip - 2,)), at_trip(following, loop, trip + 1))
    out: list[ir.Op] = []
    for op in body:
        if op in early:
            assert isinstance(op, ir.Load)
            out.append(ir.Let(op.name, Ref(_next(env, op), env.arrays[_use(env, op)].dtype.compute)))
            out += [more] if op is early[-1] else []
        else:
            out.append(op)
    return [*at_trip(following, loop, Affine.of(0)), ir.For(loop, extent, tuple(out))]


def _next(env: Environment, op: ir.Load) -> str:
    """The register of the next trip's load; no statement has it."""
    found = f"{op.name}_next"
    while found in env.by_name:
        found += "_"
    return found


def _use(env: Environment, op: ir.Load) -> tuple[int, int, bool]:
    placed = env.by_name[op.name]
    return placed.value, placed.component, True


def _moves(env: Environment, loop: str, op: ir.Load) -> bool:
    """Whether a load is of global memory, at places that the trip alone decides."""
    placed = env.by_name.get(op.name)
    if placed is None or placed.role != "load" or loop not in placed.digits():
        return False
    return op.mask is None and all(isinstance(at, Affine) for at in op.index)
