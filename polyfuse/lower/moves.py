"""Between registers and memory: loads and stores of global arrays, gathers, and shared boxes."""

from __future__ import annotations

from polyfuse import kernel as ir
from polyfuse.affine import Affine
from polyfuse.dtypes import bool_, i32
from polyfuse.lower.environment import ArrayUse, Environment, affine_entry, held_name, once, once_threads
from polyfuse.lower.vectors import hoist_from_vector, vector_width
from polyfuse.schedule import Placed, PlaceEntry
from polyfuse.scop import Statement
from polyfuse.terms import Apply, Const, Expr, Index, Ref

FAULT = "index_fault"
"""The flag, an i32, that a kernel sets to 1 when a data index leaves its array."""


def load(env: Environment, placed: Placed) -> list[ir.Op]:
    use = env.arrays[(placed.value, placed.component, True)]
    affine = [(e, n) for e, n in zip(placed.place, use.shape, strict=True) if isinstance(e, Affine)]
    where = env.context.inside([e for e, _ in affine], [n for _, n in affine])
    width, where = vector_access(env, placed.place, use, where)
    fill = Const(0, use.dtype.compute)
    if len(affine) == len(placed.place):
        return [ir.Load(placed.name, use.name, tuple(e for e, _ in affine), where, None, fill, width)]
    before, index, mask = gathered(env, placed, use.shape)
    return [*before, ir.Load(placed.name, use.name, index, where, mask, fill, width)]


def store(env: Environment, placed: Placed) -> ir.Op:
    use = env.arrays[(placed.value, placed.component, False)]
    place = [affine_entry(e) for e in placed.place]
    inside = (*env.context.inside(place, use.shape), *once(env, placed))
    width, where = vector_access(env, placed.place, use, inside)
    held = held_name(env, env.by_name[placed.providers[0]], placed.component)
    return ir.Store(use.name, tuple(place), Ref(held, use.dtype.compute), where, None, width)


def put(env: Environment, placed: Placed) -> ir.Op:
    box = env.box(placed.value)
    local = tuple(affine_entry(e) - o for e, o in zip(placed.place, box.origin, strict=True))
    where = (*env.context.inside(local, [Affine.of(n) for n in box.extents]), *once_threads(env, placed))
    held = held_name(env, env.by_name[placed.providers[0]], 0)
    return ir.Store(f"{box.name}_tile", local, Ref(held, env.scop.dtype(placed.value).compute), where)


def get(env: Environment, placed: Placed) -> ir.Op:
    box = env.box(placed.value)
    local = tuple(affine_entry(e) - o for e, o in zip(placed.place, box.origin, strict=True))
    return ir.Load(placed.name, f"{box.name}_tile", local)


def vector_access(
    env: Environment, place: tuple[PlaceEntry, ...], use: ArrayUse, where: tuple[Affine, ...]
) -> tuple[int, tuple[Affine, ...]]:
    """How many slots one access takes, and its conditions: the same for all of them where it takes several."""
    if use.layout.strides is not None:
        return 1, where
    width, slot = vector_width(place, env.slots, use.shape, env.context)
    if slot is None or use.layout.alignment < min(16, width * use.dtype.itemsize):
        return 1, where
    hoisted = hoist_from_vector(where, slot, env.context)
    return (1, where) if hoisted is None else (width, hoisted)


def gathered(
    env: Environment, placed: Placed, shape: tuple[Affine, ...]
) -> tuple[list[ir.Op], tuple[Affine | Ref, ...], Expr | None]:
    """Data indices kept inside the array: clipped, or masked and (where `faults`) reported."""
    consumer, bounds = reader(env, placed)
    before: list[ir.Op] = []
    index: list[Affine | Ref] = []
    mask: Expr | None = None
    for k, (entry, extent) in enumerate(zip(placed.place, shape, strict=True)):
        if isinstance(entry, Affine):
            index.append(entry)
            continue
        at = Ref(entry, env.scop.statements[env.by_name[entry].value].dtypes[0])
        low, high = Const(0, at.dtype), Index(extent - 1, at.dtype)
        if bounds == "clip":
            clipped = Ref(f"{placed.name}_at{k}", at.dtype)
            inside = Apply("minimum", (Apply("maximum", (at, low), at.dtype), high), at.dtype)
            before.append(ir.Let(clipped.name, inside))
            at = clipped
        elif bounds != "assume":
            above = Apply("greater_equal", (at, low), bool_)
            test = Apply("bitwise_and", (above, Apply("less_equal", (at, high), bool_)), bool_)
            mask = test if mask is None else Apply("bitwise_and", (mask, test), bool_)
        index.append(at)
    if mask is not None:
        before.append(ir.Let(f"{placed.name}_inside", mask))
        mask = Ref(f"{placed.name}_inside", bool_)
        if env.faults:
            before.append(report(env, consumer, mask))
    return before, tuple(index), mask


def reader(env: Environment, placed: Placed) -> tuple[Placed, str]:
    """The statement that reads a gathered value, and how it treats indices out of bounds."""
    for consumer in env.schedule.placed:
        statement = env.scop.statements[consumer.value]
        if consumer.role == "compute" and isinstance(statement, Statement) and placed.name in consumer.providers:
            return consumer, statement.reads[consumer.providers.index(placed.name)].bounds
    raise AssertionError(f"nothing reads {placed.name}")


def report(env: Environment, consumer: Placed, inside: Expr) -> ir.Op:
    """Raise the fault flag for instances that exist; padded ones may hold any index."""
    statement = env.scop.statements[consumer.value]
    assert isinstance(statement, Statement)
    exists = env.context.inside([affine_entry(e) for e in consumer.place], statement.extents)
    outside = Apply("invert", (inside,), bool_)
    return ir.AtomicUpdate(FAULT, (Affine.of(0),), "max", Const(1, i32), exists, outside)
