"""Scatters whose updates may be merged as they come: launches in place of a call of the library.

    seed     h[j] = base[j]
    merge    cells[c] = 0; barrier;  cells[i[e]] += u[e], all elements e of the block; barrier;  h[c] += cells[c]

Cells are a block's own copy of the result in shared memory, where updates that meet wait for nobody outside.  Where the
result does not fit, or hardly ever meets twice, updates go to memory at once.  Where every update is the same number,
the cells count, and the number is multiplied once; where the result holds floats, counts are merged in an array of
their own, and a third launch adds what they stand for::

    fill     n[j] = 0
    merge    as above, with ones into n
    finish   h[j] = base[j] + n[j] * u where n[j] > 0
"""

from __future__ import annotations

from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.bindings import FAULT
from polyfuse.dtypes import DType, bool_, i32, i64
from polyfuse.expr import Shape
from polyfuse.lower.fill import fill_kernel
from polyfuse.lower.inspect import affine_names, flatten
from polyfuse.lower.moves import in_range
from polyfuse.scatters.call import ONE, elements
from polyfuse.scatters.elements import SLOTS, THREADS, Cells, ElementScatter
from polyfuse.scop import neutral
from polyfuse.terms import Apply, Const, Expr, Index, Ref

_T, _V, _B = Affine.symbol("$t"), digit("v"), digit("b0")

Entry = Affine | Ref


def merging_kernels(scatter: ElementScatter, cells: Cells, site: int) -> tuple[ir.Kernel, ...]:
    """In order.  `site`: the number of the check of bounds."""
    merge = _merge(scatter, cells, site)
    if not scatter.is_apart:
        return _seed(scatter), merge
    zeros = fill_kernel(f"{scatter.name}_fill", scatter.into, i64, scatter.shape, Const(0, i64), 64)
    return zeros, merge, _finish(scatter)


def _seed(scatter: ElementScatter) -> ir.Kernel:
    """The result begins as the base."""
    place, where, grid = _elementwise(scatter)
    dtype = scatter.dtype
    load = ir.Load("held", scatter.base_array, place, where, None, Const(0, dtype))
    body = (load, ir.Store(scatter.target, place, Ref("held", dtype), where))
    result = ir.ArrayParameter(scatter.target, dtype, scatter.shape, readonly=False)
    return _kernel(f"{scatter.name}_seed", body, grid, [_base(scatter), result])


def _finish(scatter: ElementScatter) -> ir.Kernel:
    """The base, and where anything is counted that many times the update."""
    place, where, grid = _elementwise(scatter)
    dtype = scatter.dtype.compute
    held, counted, update = Ref("held", dtype), Ref("counted", i64), Ref("update", dtype)
    added = Apply("add", (held, Apply("multiply", (_cast(counted, dtype), update), dtype)), dtype)
    some = Apply("greater", (counted, Const(0, i64)), bool_)  # no update at all is not zero times infinity
    body = (
        ir.Load(update.name, scatter.array(scatter.updates), (Affine.of(0),)),
        ir.Load(held.name, scatter.base_array, place, where, None, Const(0, dtype)),
        ir.Load(counted.name, scatter.into, place, where, None, Const(0, i64)),
        ir.Store(scatter.target, place, Apply("where", (some, added, held), dtype), where),
    )
    sources = [_vector(scatter, scatter.updates), _base(scatter)]
    counts = ir.ArrayParameter(scatter.into, i64, scatter.shape)
    result = ir.ArrayParameter(scatter.target, scatter.dtype, scatter.shape, readonly=False)
    return _kernel(f"{scatter.name}_finish", body, grid, [*sources, counts, result])


def _elementwise(scatter: ElementScatter) -> tuple[tuple[Affine, ...], tuple[Affine, ...], tuple[Affine, ...]]:
    """Where each thread is in the result, under which condition, and the grid."""
    *rows, last = scatter.shape or (ONE,)
    across = THREADS * SLOTS * _B + THREADS * _V + _T
    place = (*(digit(f"b{k + 1}") for k in range(len(rows))), across) if scatter.shape else ()
    return place, (last - across - 1,), (last.ceildiv(THREADS * SLOTS), *rows)


def _base(scatter: ElementScatter) -> ir.ArrayParameter:
    return ir.ArrayParameter(scatter.base_array, scatter.dtype, scatter.shape, alignment=scatter.dtype.itemsize)


def _vector(scatter: ElementScatter, value: int) -> ir.ArrayParameter:
    dtype = scatter.scop.dtype(value)
    return ir.ArrayParameter(scatter.array(value), dtype, (_length(scatter, value),), alignment=dtype.itemsize)


def _kernel(
    name: str, body: tuple[ir.Op, ...], grid: tuple[Affine, ...], arrays: list[ir.ArrayParameter],
    shared: tuple[ir.SharedBuffer, ...] = (),
) -> ir.Kernel:
    """With the sizes that its addresses and conditions take, and the flag of faults where it is raised."""
    if any(isinstance(op, ir.AtomicUpdate) and op.array == FAULT for op in flatten(body)):
        arrays = [*arrays, ir.ArrayParameter(FAULT, i32, (ONE,), readonly=False)]
    wanted = affine_names(body) | {n for g in grid[:-1] for n in g.names()}
    wanted |= {n for a in arrays for extent in a.shape[1:] for n in extent.names()}
    sizes = [ir.SizeParameter(n) for n in sorted(wanted) if not n.startswith("$")]
    slots = (ir.Slot("v", SLOTS),)
    return ir.Kernel(name, (*arrays, *sizes), grid, THREADS, (), slots, shared, body, index_bits=64)


# ---------------------------------------------------------------------------------------------- the updates


def _merge(scatter: ElementScatter, cells: Cells, site: int) -> ir.Kernel:
    """Every update merged, by blocks with cells of their own, or at once by as many as there are updates for."""
    read = dict.fromkeys(scatter.operands if scatter.is_apart else (scatter.updates, *scatter.operands))
    arrays = [_vector(scatter, v) for v in read]
    waves, name, size = scatter.count.ceildiv(THREADS * SLOTS), f"{scatter.name}_merge", elements(scatter.shape)
    if not cells.blocks or size is None:
        arrays.append(ir.ArrayParameter(scatter.into, scatter.merged, scatter.shape, readonly=False))
        return _kernel(name, _in_memory(scatter, site), (waves,), arrays)
    arrays.append(ir.ArrayParameter(scatter.into, scatter.merged, (size,), readonly=False))
    shared = (ir.SharedBuffer("cells", _cell_dtype(scatter), (cells.capacity,), (1,)),)
    return _kernel(name, _in_cells(scatter, cells, size, site), (Affine.of(cells.blocks),), arrays, shared)


def _length(scatter: ElementScatter, value: int) -> Affine:
    return ONE if elements(scatter.scop.shape(value)) == ONE else scatter.count


def _in_memory(scatter: ElementScatter, site: int) -> tuple[ir.Op, ...]:
    element = THREADS * SLOTS * _B + THREADS * _V + _T
    before, index, inside = _places(scatter, element, site)
    loads, value = _update(scatter, element)
    where = (scatter.count - element - 1,)
    return (*before, *loads, ir.AtomicUpdate(scatter.into, index, scatter.monoid, value, where, inside))


def _in_cells(scatter: ElementScatter, cells: Cells, size: Affine, site: int) -> tuple[ir.Op, ...]:
    dtype, trips = _cell_dtype(scatter), scatter.count.ceildiv(THREADS * SLOTS * cells.blocks)
    (fill,) = neutral(scatter.monoid, (dtype,))
    element = THREADS * SLOTS * (_B + cells.blocks * digit("k")) + THREADS * _V + _T
    before, index, inside = _places(scatter, element, site)
    before.append(ir.Let("cell", _row_major(index, scatter.shape)))
    loads, value = _update(scatter, element)
    once, each_time = (loads, []) if scatter.is_count else ([], loads)
    given: Expr = Const(1, i32) if scatter.is_count else value
    where, cell = (scatter.count - element - 1,), THREADS * digit("c") + _T
    held, owned = Ref("held", dtype), (size - 1 - cell, cells.capacity - 1 - cell)  # the guards say that one is enough
    changed = Apply("not_equal", (held, fill), bool_)
    share: Expr = _cast(held, scatter.merged)
    if scatter.is_count and not scatter.is_apart:
        share = Apply("multiply", (share, value), scatter.dtype)
    update = ir.AtomicUpdate("cells", (Ref("cell", i64),), scatter.monoid, given, where, inside)
    each = size.ceildiv(THREADS)
    merge = ir.AtomicUpdate(scatter.into, (cell,), scatter.monoid, share, owned, changed)
    return (
        *once,
        ir.For("c", each, (ir.Store("cells", (cell,), fill, owned),)),
        ir.Barrier(),
        ir.For("k", trips, (*before, *each_time, update)),
        ir.Barrier(),
        ir.For("c", each, (ir.Load("held", "cells", (cell,), owned, None, fill), merge)),
    )


def _cell_dtype(scatter: ElementScatter) -> DType:
    return i32 if scatter.is_count else scatter.dtype


def _update(scatter: ElementScatter, element: Affine) -> tuple[list[ir.Op], Expr]:
    """The load of the value that goes to each place; a count is known."""
    if scatter.is_apart:
        return [], Const(1, i64)
    name, count = scatter.array(scatter.updates), _length(scatter, scatter.updates)
    at, where = (element, (count - element - 1,)) if count != ONE else (Affine.of(0), ())
    load = ir.Load("update", name, (at,), where, None, Const(0, scatter.dtype) if where else None)
    return [load], Ref("update", scatter.dtype)


def _places(scatter: ElementScatter, element: Affine, site: int) -> tuple[list[ir.Op], tuple[Entry, ...], Expr | None]:
    """What finds the place of each update, and whether it is one where that is not known."""
    found: list[ir.Op] = []
    index: list[Entry] = []
    inside: Expr | None = None
    for axis, (entry, extent) in enumerate(zip(scatter.index, scatter.shape, strict=True)):
        if isinstance(entry, Affine):
            index.append(entry.substitute({"%0": element}))
            continue
        loads, at = _position(scatter, axis, entry.operand, element)
        found += loads
        if scatter.bounds == "clip":
            high = Index(extent - 1, i64)
            moved = Apply("maximum", (Apply("minimum", (at, high), i64), Const(0, i64)), i64)
            at = Ref(f"at{axis}_moved", i64)
            found.append(ir.Let(at.name, moved))
        elif scatter.bounds == "raise":
            test = in_range(at, extent)
            inside = test if inside is None else Apply("bitwise_and", (inside, test), bool_)
        index.append(at)
    if inside is None:
        return found, tuple(index), None
    found.append(ir.Let("inside", inside))
    inside = Ref("inside", bool_)
    outside = Apply("invert", (inside,), bool_)
    where = (scatter.count - element - 1,)
    found.append(ir.AtomicUpdate(FAULT, (Affine.of(0),), "max", Const(site, i32), where, outside))
    return found, tuple(index), inside


def _position(scatter: ElementScatter, axis: int, operand: int, element: Affine) -> tuple[list[ir.Op], Ref]:
    """The index along one axis."""
    value, at = scatter.operands[operand], Ref(f"at{axis}", i64)
    dtype, count = scatter.scop.dtype(value), _length(scatter, value)
    place, where = (element, (count - element - 1,)) if count != ONE else (Affine.of(0), ())
    read, wide = Ref(f"at{axis}_read", dtype), Ref(f"at{axis}_wide", i64)
    load = ir.Load(read.name, scatter.array(value), (place,), where, None, Const(0, dtype) if where else None)
    if not scatter.wraps[operand]:
        return [load, ir.Let(at.name, _cast(read, i64))], at
    below = Apply("less", (wide, Const(0, i64)), bool_)
    moved = Apply("add", (wide, Index(scatter.shape[axis], i64)), i64)
    wrapped = ir.Let(at.name, Apply("where", (below, moved, wide), i64))
    return [load, ir.Let(wide.name, _cast(read, i64)), wrapped], at


def _cast(value: Ref, dtype: DType) -> Expr:
    return value if value.dtype == dtype else Apply("cast", (value,), dtype)


def _row_major(index: tuple[Entry, ...], extents: Shape) -> Expr:
    """The number of a cell, in 64 bits."""
    total: Expr = Const(0, i64)
    for entry, extent in zip(index, extents, strict=True):
        here: Expr = Index(entry, i64) if isinstance(entry, Affine) else entry
        outer = Apply("multiply", (total, Index(extent, i64)), i64)
        total = here if total == Const(0, i64) else Apply("add", (outer, here), i64)
    return total
