"""Between registers and memory: loads and stores of global arrays, gathers, and shared boxes."""

from __future__ import annotations

from polyfuse import kernel as ir
from polyfuse.affine import Affine, names_of
from polyfuse.bindings import FAULT
from polyfuse.dtypes import bool_, i32
from polyfuse.expr import DataIndex
from polyfuse.lower.environment import (
    ArrayUse,
    Environment,
    affine_entry,
    held_name,
    is_multiplied,
    once,
    once_threads,
)
from polyfuse.lower.spans import VECTOR_BYTES, address_in_array, address_in_box, span_access
from polyfuse.lower.unravelled import neighbours, two_rows, unravelled
from polyfuse.lower.vectors import hoist_from_vector, vector_slot, vector_width
from polyfuse.schedule import Digit, KernelSchedule, Placed, PlaceEntry, SharedBox, in_frame, window_index
from polyfuse.scop import Read, Scop, Statement
from polyfuse.terms import Apply, Const, Expr, Index, Inside, Ref
from polyfuse.unravelled import Unravelled

WORD = 4  # bytes


def load(env: Environment, placed: Placed) -> list[ir.Op]:
    use = env.arrays[(placed.value, placed.component, True)]
    affine = [(e, n) for e, n in zip(placed.place, use.shape, strict=True) if isinstance(e, Affine)]
    where = env.context.inside([e for e, _ in affine], [n for _, n in affine])
    fill = Const(False if use.dtype.kind == "b" else 0, use.dtype.compute)
    if len(affine) == len(placed.place):
        index: tuple[Affine | Ref, ...] = tuple(e for e, _ in affine)
        width, span, conditions = wide_access(env, placed.place, use, where, whole=False)
        if (width, span) == (1, 1) and (across := width_across(env, placed.place, use, where)) > 1:
            return [ir.Load(placed.name, use.name, index, where, None, fill, across, across=True)]
        cut = is_cut(env, width, conditions)
        return [ir.Load(placed.name, use.name, index, conditions, None, fill, width, span, cut)]
    consumer, read = reader(env, placed)
    if read.bounds == "assume" or any(isinstance(e, Unravelled) and not e.in_row for e in placed.place):
        # of instances that exist; what padded ones compute was never promised, and they may be behind the last row
        where = tuple(dict.fromkeys((*where, *existing(env, consumer))))
    if (entry := by_row(env, placed, where)) is not None:
        return _of_rows(env, placed, entry, use, where)
    width, where = vector_access(env, placed.place, use, where, index_digits(env, placed))
    before, index, inside = gathered(env, placed, use.shape, consumer, read)
    empty = any(extent == Affine.of(0) for extent in use.shape)  # there is nowhere to move an index to
    mask = Const(False, bool_) if empty else None
    found = [*before, ir.Load(placed.name, use.name, index, where, mask, fill, width)]
    return found if inside is None else [*found, report(env, consumer, inside, index_digits(env, placed))]


def by_row(env: Environment, placed: Placed, where: tuple[Affine, ...]) -> Unravelled | None:
    """The number of the row by which neighbours of a flat walk read an array, two elements of it at most; None where
    the first of them may not exist where another does."""
    entry = placed.place[0] if len(placed.place) == 1 else None
    if not isinstance(entry, Unravelled) or entry.in_row or not entry.is_plain or env.schedule.block_threads == 1:
        return None
    slot = neighbours(env, entry)
    first = slot is not None and all(w.coefficient(f"${slot.name}") <= 0 for w in where)
    return entry if first else None


def _of_rows(
    env: Environment, placed: Placed, entry: Unravelled, use: ArrayUse, where: tuple[Affine, ...]
) -> list[ir.Op]:
    """The element of the row of the first of some neighbours, that of the next row, and each neighbour's of the two."""
    slot = neighbours(env, entry)
    assert slot is not None
    first = tuple([w.substitute({f"${slot.name}": 0}) for w in where])
    fill = Const(False if use.dtype.kind == "b" else 0, use.dtype.compute)
    before, rows, beyond = two_rows(env, f"{placed.name}.at", entry, use.shape[0])
    names = [f"{placed.name}.{k}" for k in ("this", "next")]
    loads = [ir.Load(name, use.name, (row,), first, None, fill) for name, row in zip(names, rows, strict=True)]
    this, following = (Ref(name, use.dtype) for name in names)
    return [*before, *loads, ir.Let(placed.name, Apply("where", (beyond, following, this), use.dtype))]


def store(env: Environment, placed: Placed) -> ir.Op:
    use = env.arrays[(placed.value, placed.component, False)]
    place = [affine_entry(e) for e in placed.place]
    inside = (*env.context.inside(place, use.shape), *once(env, placed))
    width, span, where = wide_access(env, placed.place, use, inside, whole=True)
    held = held_name(env, env.by_name[placed.providers[0]], placed.component)
    cut = is_cut(env, width, where)
    return ir.Store(use.name, tuple(place), Ref(held, use.dtype.compute), where, None, width, span, cut)


def copied(env: Environment, placed: Placed) -> list[ir.Op]:
    """A put as asynchronous copies of what it would load, all of which the thread waits for; empty where the array is
    not aligned, or has strides.  Each thread has other cells, in all of which something is put."""
    box, (provider,) = env.box(placed.value), placed.providers
    use = env.arrays.get((placed.value, placed.component, True))
    if use is None or not box.copied or not _is_plain(use) or env.by_name[provider].role != "load":
        return []
    place = [affine_entry(e) for e in placed.place]
    local = tuple(e - o for e, o in zip(place, box.origin, strict=True))
    width, slot = vector_width(placed.place, env.slots, use.shape, env.context)
    if width != box.copied or slot is None or once_threads(env, placed):
        return []
    where = (*env.context.inside(place, use.shape), box.extents[-1] - 1 - local[-1])  # some of what is needed
    some = env.context.remaining([_of_some(w, slot) for w in where])
    copy = ir.AsyncCopy(f"{box.name}_tile", local, use.name, tuple(place), some, width, cut=True)
    return [copy, ir.CommitCopies(), ir.WaitCopies(0)]


def _of_some(condition: Affine, slot: Digit) -> Affine:
    """What holds where the condition does in some place of a slot along which it steps by one."""
    factor = condition.coefficient(f"${slot.name}")
    return condition.substitute({f"${slot.name}": slot.count - 1 if factor > 0 else 0})


def is_only_copied(env: Environment, placed: Placed) -> bool:
    """Whether asynchronous copies bring a load to all that need it."""
    if not any(box.copied for box in env.schedule.shared):
        return False
    takers = [p for p in env.schedule.placed if placed.name in p.providers]
    return bool(takers) and all(p.role == "put" and copied(env, p) for p in takers)


def _is_plain(use: ArrayUse) -> bool:
    """Whether an array lies in C order, and begins where vectors do."""
    return use.layout.strides is None and use.layout.alignment >= VECTOR_BYTES


def put(env: Environment, placed: Placed) -> ir.Op:
    box = env.box(placed.value)
    local = tuple(affine_entry(e) - o for e, o in zip(placed.place, box.origin, strict=True))
    where = (*env.context.inside(local, [Affine.of(n) for n in box.extents]), *once_threads(env, placed))
    provider, dtype = env.by_name[placed.providers[0]], env.scop.dtype(placed.value).compute
    value: Expr = Ref(held_name(env, provider, 0), dtype)
    place = [affine_entry(e) for e in placed.place]
    exists = env.context.inside(place, env.scop.shape(placed.value))
    if exists and provider.role != "load" and is_multiplied(env, placed.value):  # what is loaded is zero elsewhere
        value = Apply("where", (Inside(exists), value, Const(0.0, dtype)), dtype)
    span, conditions = box_access(env, box, local, where, whole=True)
    return ir.Store(f"{box.name}_tile", local, value, conditions, span=span)


def get(env: Environment, placed: Placed) -> ir.Op:
    box = env.box(placed.value)
    local = tuple(affine_entry(e) - o for e, o in zip(placed.place, box.origin, strict=True))
    span, _ = box_access(env, box, local, (), whole=False)
    return ir.Load(placed.name, f"{box.name}_tile", local, span=span)


def take(env: Environment, placed: Placed) -> ir.Op:
    holder = env.by_name[placed.providers[0]]
    held = Ref(held_name(env, holder, placed.component), env.scop.dtype(placed.value, placed.component).compute)
    return ir.Take(placed.name, held, window_index(holder, placed, {s.name for s in env.slots}))


def wide_access(
    env: Environment, place: tuple[PlaceEntry, ...], use: ArrayUse, where: tuple[Affine, ...], *, whole: bool
) -> tuple[int, int, tuple[Affine, ...]]:
    """Slots that are one vector, or else elements that are one span, and the conditions of the access: where threads
    hold rows of a few elements, several of these may be one span, of which each is a vector.  A CPU core makes vectors
    of its own."""
    width, conditions = vector_access(env, place, use, where, may_cut=True)
    itemsize = use.dtype.itemsize
    plain = _is_plain(use) and env.schedule.block_threads > 1
    if not plain or width * itemsize >= VECTOR_BYTES:
        return width, 1, conditions
    address = address_in_array(place, env.slots, use.shape)
    span, uniform = span_access(address, env.slots, where, env.context, itemsize, whole=whole)
    return (1, span, uniform) if span > width or width == 1 else (width, 1, conditions)


def box_access(
    env: Environment, box: SharedBox, local: tuple[Affine, ...], where: tuple[Affine, ...], *, whole: bool
) -> tuple[int, tuple[Affine, ...]]:
    """Elements of shared memory that are one span, and the conditions of the access."""
    itemsize = box.cells(env.scop.dtype(box.value)).itemsize
    if not (box.spans or box.packed) or itemsize >= VECTOR_BYTES:
        return 1, where
    address = address_in_box(local, env.slots, box.pitch)
    return span_access(address, env.slots, where, env.context, itemsize, whole=whole)


def vector_access(
    env: Environment,
    place: tuple[PlaceEntry, ...],
    use: ArrayUse,
    where: tuple[Affine, ...],
    varying: frozenset[str] = frozenset(),
    *,
    may_cut: bool = False,
) -> tuple[int, tuple[Affine, ...]]:
    """How many slots one access takes, and its conditions: the same for all of them where it takes several, unless
    those of a vector `may_cut` it.

    `varying`: digits that data indices depend on.  Slots of which each has an index of its own are no vector, nor are
    those around a slot over which an index or a condition varies: a vector is the innermost slot of its access.
    """
    if use.layout.strides is not None:
        return 1, where
    width, slot = vector_width(place, env.slots, use.shape, env.context)
    if slot is None or slot.name in varying or use.layout.alignment < min(16, width * use.dtype.itemsize):
        return 1, where
    hoisted = hoist_from_vector(where, slot, env.context)
    if hoisted is None and may_cut and slot is env.slots[-1] and _may_be_cut(env, place, where):
        return width, where  # the ends of a row, or of the array, cut vectors
    if hoisted is None:
        return 1, where
    within = {s.name for s in env.slots[env.slots.index(slot) + 1 :]}
    conditions = frozenset(name.removeprefix("$") for name in names_of(hoisted))
    return (1, where) if within & (varying | conditions) else (width, hoisted)


def width_across(
    env: Environment, place: tuple[PlaceEntry, ...], use: ArrayUse, where: tuple[Affine, ...]
) -> int:
    """How many slots are a vector that begins anywhere, of rows in frames of another array; 1: they are none."""
    slot = vector_slot(place, env.slots)
    if slot is None or slot is not env.slots[-1] or not (_is_plain(use) and is_framed(place)):
        return 1
    fits = 2 * WORD <= slot.count * use.dtype.itemsize <= VECTOR_BYTES
    return slot.count if fits and _may_be_cut(env, place, where) else 1


def _may_be_cut(env: Environment, place: tuple[PlaceEntry, ...], where: tuple[Affine, ...]) -> bool:
    """Whether vectors of a device's kernel are cut, each at one place: of rows that begin anywhere, and of an array of
    one row.  A CPU core masks vectors of its own."""
    name = f"${env.slots[-1].name}"
    at_one_place = all(ir.cuts_at_one_place(w, name) for w in where if name in w.names())
    return at_one_place and env.schedule.block_threads > 1 and (is_framed(place) or len(place) == 1)


def is_framed(place: tuple[PlaceEntry, ...]) -> bool:
    """Whether the last dimension is dealt by where its rows begin in memory, see `polyfuse.strategies.frames`."""
    return bool(place) and isinstance(place[-1], Affine) and in_frame(place[-1])


def is_cut(env: Environment, width: int, where: tuple[Affine, ...]) -> bool:
    """Whether conditions vary inside of the vectors of an access, whose slots are the innermost ones then."""
    return width > 1 and f"${env.slots[-1].name}" in names_of(where)


def gathered(
    env: Environment, placed: Placed, shape: tuple[Affine, ...], consumer: Placed, read: Read
) -> tuple[list[ir.Op], tuple[Affine | Ref, ...], Expr | None]:
    """Data indices moved into the array where nothing promises that they are, and whether they were where that is told.

    Moving them costs less than a masked load: the load stays one access, and all loads can be in flight together.
    """
    before: list[ir.Op] = []
    index: list[Affine | Ref] = []
    inside: Expr | None = None
    for k, (entry, extent) in enumerate(zip(placed.place, shape, strict=True)):
        if isinstance(entry, Affine):
            index.append(entry)
            continue
        if isinstance(entry, Unravelled):
            ops, place = unravelled(env, f"{placed.name}.at{k}", entry)
            before += ops
            index.append(place)
            continue
        at = data_index(env, consumer, read, k)
        if read.bounds != "assume":
            low, high = Const(0, at.dtype), Index(extent - 1, at.dtype)
            moved = Ref(f"{placed.name}.at{k}", at.dtype)
            before.append(ir.Let(moved.name, Apply("minimum", (Apply("maximum", (at, low), at.dtype), high), at.dtype)))
            empty = extent == Affine.of(0)  # whose edges, 0 and -1, are no elements
            test = Const(False, bool_) if empty else Apply("equal", (moved, at), bool_)
            inside = test if inside is None else Apply("bitwise_and", (inside, test), bool_)
            at = moved
        index.append(at)
    if inside is None or read.bounds == "clip":
        return before, tuple(index), None
    before.append(ir.Let(f"{placed.name}.inside", inside))
    return before, tuple(index), Ref(f"{placed.name}.inside", bool_)


def report_unused(env: Environment, placed: Placed, statement: Statement) -> list[ir.Op]:
    """Checks of the data indices that choose nothing, which no load makes."""
    found: list[ir.Op] = []
    for position, read in enumerate(statement.reads):
        for number, (operand, extent) in enumerate(read.checks):
            at = operand_register(env, placed, statement, operand)
            name = f"{placed.name}.inside{position}_{number}"
            index = env.by_name[placed.providers[operand]]
            varying = index.digits() | index_digits(env, index)
            found += [ir.Let(name, in_range(at, extent)), report(env, placed, Ref(name, bool_), varying)]
    return found


def in_range(at: Ref, extent: Affine) -> Expr:
    above = Apply("greater_equal", (at, Const(0, at.dtype)), bool_)
    return Apply("bitwise_and", (above, Apply("less_equal", (at, Index(extent - 1, at.dtype)), bool_)), bool_)


def index_digits(env: Environment, placed: Placed) -> frozenset[str]:
    """Digits on which the data indices of a gather depend; an index may itself have been gathered."""
    indices = [env.by_name[entry] for entry in placed.place if isinstance(entry, str)]
    flat = [name[1:] for e in placed.place if isinstance(e, Unravelled) for name in e.names() if name.startswith("$")]
    return frozenset(flat).union(*(index.digits() | index_digits(env, index) for index in indices))


def data_index(env: Environment, consumer: Placed, read: Read, axis: int) -> Ref:
    """The register of the index along `axis`, which is a value that the consumer reads too."""
    entry, statement = read.index[axis], env.scop.statements[consumer.value]
    assert isinstance(entry, DataIndex) and isinstance(statement, Statement)
    return operand_register(env, consumer, statement, entry.operand)


def operand_register(env: Environment, consumer: Placed, statement: Statement, operand: int) -> Ref:
    """The register of read number `operand`."""
    index, provider = statement.reads[operand], env.by_name[consumer.providers[operand]]
    dtype = env.scop.statements[index.source].dtypes[index.component]
    return Ref(held_name(env, provider, index.component), dtype)


def reader(env: Environment, placed: Placed) -> tuple[Placed, Read]:
    """The statement that reads a gathered value, where it is now, and the access by which it does."""
    for consumer in env.schedule.placed:
        statement = env.scop.statements[consumer.value]
        if consumer.role == "compute" and isinstance(statement, Statement) and placed.name in consumer.providers:
            return env.by_name[consumer.name], statement.reads[consumer.providers.index(placed.name)]
    raise AssertionError(f"nothing reads {placed.name}")


def report(env: Environment, consumer: Placed, inside: Expr, varying: frozenset[str]) -> ir.Op:
    """Leave the number of the check in the status word, for instances that exist; padded ones may hold any index.
    Where slots have an index in common, which no digit of `varying` is, the first of them speaks for all."""
    outside = Apply("invert", (inside,), bool_)
    number = Const(env.sites[consumer.value], i32)
    where = existing(env, consumer)
    common = [f"${s.name}" for s in env.slots if s.name not in varying]
    tested = [(c, name) for c in where for name in common if name in c.names()]
    if all(c.is_linear and c.coefficient(name) < 0 for c, name in tested):  # where any exists, so does the first
        where = env.context.remaining([c.substitute(dict.fromkeys(common, 0)) for c in where])
    return ir.AtomicUpdate(FAULT, (Affine.of(0),), "max", number, where, outside)


def existing(env: Environment, consumer: Placed) -> tuple[Affine, ...]:
    """What must be tested for an instance of `consumer` to exist."""
    statement = env.scop.statements[consumer.value]
    assert isinstance(statement, Statement)
    return env.context.inside([affine_entry(e) for e in consumer.place], statement.extents)


def index_sites(scop: Scop, schedule: KernelSchedule, first: int) -> dict[int, int]:
    """The number of each statement of a kernel that checks data indices, counted on from `first`."""
    found = (scop.statements[value] for value in sorted(schedule.body))
    checked = [s.id for s in found if isinstance(s, Statement) and any(r.bounds == "raise" for r in s.reads)]
    return {value: first + k for k, value in enumerate(checked)}
