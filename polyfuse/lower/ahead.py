"""Loads of a loop moved some trips ahead, so that memory is busy while threads wait for each other.

for r < n:   x = load(r);  s = combine(x);  use(x, s)
becomes, in registers,
x_next = load(0)
for r < n:   x = x_next;  if r + 1 < n: x_next = load(r + 1);  s = combine(x);  use(x, s)
and in a ring of R trips of shared memory, of which each thread has cells of its own,
for k < R - 1:  copy(k -> cells k);  commit
for r < n:   if r + R - 1 < n: copy(r + R - 1 -> cells (r + R - 1) % R)
             commit;  wait until R - 1 groups are pending;  x = cells r % R;  s = combine(x);  use(x, s)

A kernel loads only what was in memory before it started, and an earlier load of the same thread comes before every
store that the one replaced came before: the move is right wherever the loop was.  A copy has arrived behind the wait,
which stands where the loads were.  Cells are copied to again one trip after the same thread has read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.lower.environment import Environment, affine_entry
from polyfuse.lower.inspect import flatten
from polyfuse.lower.peel import at_trip
from polyfuse.lower.vectors import vector_slot
from polyfuse.schedule import Digit, Placed
from polyfuse.target import is_copied
from polyfuse.terms import Inside, Ref


def loaded_ahead(
    env: Environment,
    loop: str,
    extent: Affine,
    body: Sequence[ir.Op],
    whole: Affine | None = None,
    unmasked: Sequence[ir.Op] = (),
) -> list[ir.Op]:
    """The loop over `body` with its first loads in front and the others one trip early.  A loop without trips loads
    what its masks allow of the first one, and uses nothing of it.  `whole`: trips that do with the body `unmasked`, all
    or all but the last one, which then stands behind the loop."""
    early = {op.name: op for op in body if isinstance(op, ir.Load) and _moves(env, loop, op)}
    if not early or not env.context.implies(extent - 1):
        return [ir.For(loop, extent, tuple(body))]
    following = tuple(replace(op, name=next_name(op.name)) for op in early.values())
    trip = Affine.symbol(f"${loop}")
    more = ir.If(Inside((extent - trip - 2,)), at_trip(following, loop, trip + 1))

    def with_loaded(ops: Sequence[ir.Op], then: Sequence[ir.Op]) -> tuple[ir.Op, ...]:
        out: list[ir.Op] = []
        for op in ops:
            if isinstance(op, ir.Load) and op.name in early:
                out.append(ir.Let(op.name, Ref(next_name(op.name), env.arrays[_use(env, op)].dtype.compute)))
                out += then if op.name == last else []
            else:
                out.append(op)
        return tuple(out)

    last, front = next(reversed(early)), at_trip(following, loop, Affine.of(0))
    if whole is None:
        return [*front, ir.For(loop, extent, with_loaded(body, [more]))]
    behind = at_trip(with_loaded(body, ()), loop, whole)
    main = [ir.For(loop, whole, with_loaded(unmasked, [more]))] if whole != Affine.of(0) else []
    return [*front, *main, ir.If(Inside((extent - whole - 1,)), behind)]


def next_name(name: str) -> str:
    """The register of the next trip's load of `name`."""
    return f"{name}.next"


def _use(env: Environment, op: ir.Load) -> tuple[int, int, bool]:
    placed = env.by_name[op.name]
    return placed.value, placed.component, True


def _moves(env: Environment, loop: str, op: ir.Load) -> bool:
    """Whether a load is of global memory, at places that the trip alone decides."""
    placed = env.by_name.get(op.name)
    if placed is None or placed.role != "load" or loop not in placed.digits() or op.array == ring_name(placed):
        return False
    return op.mask is None and all(isinstance(at, Affine) for at in op.index)


# ---------------------------------------------------------------------------------------------- rings


def in_ring(env: Environment, loop: str, extent: Affine, body: Sequence[ir.Op], trips: int) -> list[ir.Op]:
    """The loop over `body` with what it loads in a ring of `trips` trips; one trip ahead in registers what cannot be
    copied: elements of two bytes that are no vectors."""
    moved = [op for op in body if isinstance(op, ir.Load) and _moves(env, loop, op) and _is_copied(env, op)]
    if not moved:
        return loaded_ahead(env, loop, extent, body)
    trip, lead = digit(loop), trips - 1
    copies = tuple(_copy(env, op, trip, trips) for op in moved)
    front: list[ir.Op] = []
    for k in range(lead):
        front += [ir.If(Inside((extent - k - 1,)), at_trip(copies, loop, Affine.of(k))), ir.CommitCopies()]
    following = ir.If(Inside((extent - trip - trips,)), at_trip(copies, loop, trip + lead))
    head = (following, ir.CommitCopies(), ir.WaitCopies(lead))
    reads = {op.name: _read(env, op, trip, trips) for op in moved}
    rest = [reads[op.name] if isinstance(op, ir.Load) and op in moved else op for op in body]
    return [*front, *loaded_ahead(env, loop, extent, [*head, *rest])]


def ring_name(placed: Placed) -> str:
    """The buffer that holds what a load brings; user names end in neither this nor ``_tile``."""
    return f"{placed.name}_ring"


def ring_buffers(env: Environment, body: Sequence[ir.Op]) -> tuple[ir.SharedBuffer, ...]:
    """The buffers that copies of `body` fill, each with cells of every thread: trip, slots, thread, vector."""
    filled = dict.fromkeys(op.buffer for op in flatten(body) if isinstance(op, ir.AsyncCopy))
    found = []
    for placed in env.schedule.placed:
        if placed.role == "load" and ring_name(placed) in filled:
            (trips,) = (n for loop, n in env.schedule.rings if loop in placed.digits())
            shape = (trips, *(s.count for s in _slots(env, placed)), env.schedule.threads, *_vector(env, placed))
            pitch = [1]
            for extent in reversed(shape[1:]):
                pitch.append(pitch[-1] * extent)
            dtype = env.arrays[placed.value, placed.component, True].dtype
            found.append(ir.SharedBuffer(ring_name(placed), dtype, shape, tuple(reversed(pitch))))
    return tuple(found)


def _slots(env: Environment, placed: Placed) -> list[Digit]:
    """The slots of a load but for that of its vector, which lies innermost."""
    inner = vector_slot(placed.place, env.slots)
    return [s for s in env.slots if s.name in placed.digits() and s != inner]


def _vector(env: Environment, placed: Placed) -> tuple[int, ...]:
    inner = vector_slot(placed.place, env.slots)
    return () if inner is None else (inner.count,)


def _cells(env: Environment, placed: Placed, trip: Affine, trips: int) -> tuple[Affine, ...]:
    inner = vector_slot(placed.place, env.slots)
    own = [digit(s.name) for s in _slots(env, placed)]
    return (trip % trips, *own, digit("t"), *([] if inner is None else [digit(inner.name)]))


def _copy(env: Environment, op: ir.Load, trip: Affine, trips: int) -> ir.AsyncCopy:
    placed = env.by_name[op.name]
    index = tuple(affine_entry(at) for at in placed.place)
    return ir.AsyncCopy(ring_name(placed), _cells(env, placed, trip, trips), op.array, index, op.where, op.vector)


def _read(env: Environment, op: ir.Load, trip: Affine, trips: int) -> ir.Load:
    placed = env.by_name[op.name]
    return ir.Load(op.name, ring_name(placed), _cells(env, placed, trip, trips), vector=op.vector)


def _is_copied(env: Environment, op: ir.Load) -> bool:
    """Cells of what a mask leaves out are zeros, as registers are.  A copy moves all of a vector or nothing."""
    return not op.cut and not op.across and is_copied(op.vector, env.arrays[_use(env, op)].dtype.itemsize)
