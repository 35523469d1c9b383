"""Scatters of rows: the result begins as the base, and rows are merged into it as they come, where they may.

    seed     y[p, c] = x[p, c]
    merge    y[t[r], c] += u[r, c]      atomic updates, of as many columns as one access moves

Where order matters, `polyfuse.lower.scatters.sorted_rows` has what follows the seed.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.dtypes import DType, i64
from polyfuse.lower.inspect import affine_names
from polyfuse.scatters.call import ONE
from polyfuse.scatters.rows import THREADS, Role, RowScatter
from polyfuse.terms import Apply, Const, Expr, Ref

SEEDED = 4  # accesses of a thread that copies the base
ROWS = 4
"""Rows that a thread merges, all of whose loads are on their way together."""
_V = digit("v")


def row_kernels(scatter: RowScatter) -> tuple[ir.Kernel, ...]:
    """In order."""
    return seed_kernel(scatter), _merge(scatter)


def seed_kernel(scatter: RowScatter) -> ir.Kernel:
    """The result begins as the base, which places keep that nothing goes to."""
    dtype, vector = scatter.dtype, scatter.vector
    at = vector * (THREADS * (SEEDED * digit("b0") + digit("u")) + Affine.symbol("$t")) + _V
    where = (scatter.total - vector - at.substitute({"$v": 0}),)
    source, target = scatter.array("base"), scatter.target
    fill = Const(zero(dtype), dtype.compute)
    if scatter.is_filled:
        load, extent = ir.Load("held", source, (Affine.of(0),)), ONE
    else:
        load, extent = ir.Load("held", source, (at,), where, None, fill, vector), scatter.total
    body = (load, ir.Store(target, (at,), Ref("held", dtype.compute), where, None, vector))
    arrays = [array(scatter, "base", (extent,))]
    arrays.append(ir.ArrayParameter(target, dtype, (scatter.total,), readonly=False))
    grid = (scatter.total.ceildiv(THREADS * SEEDED * vector),)
    slots = (ir.Slot("u", SEEDED), ir.Slot("v", vector))
    return row_kernel(f"{scatter.name}_seed", arrays, body, grid, (), slots)


def zero(dtype: DType) -> bool | int:
    return False if dtype.kind == "b" else 0


def array(scatter: RowScatter, role: Role, shape: tuple[Affine, ...]) -> ir.ArrayParameter:
    dtype = scatter.scop.dtype(scatter.operands[role])
    is_wide = scatter.vector > 1 and role in ("base", "updates")
    return ir.ArrayParameter(scatter.array(role), dtype, shape, alignment=16 if is_wide else dtype.itemsize)


def row_kernel(
    name: str, arrays: Sequence[ir.ArrayParameter], body: tuple[ir.Op, ...], grid: tuple[Affine, ...],
    digits: tuple[ir.ThreadDigit, ...], slots: tuple[ir.Slot, ...],
) -> ir.Kernel:
    """With the sizes that it mentions."""
    wanted = affine_names(body) | {n for g in grid for n in g.names()}
    wanted |= {n for a in arrays for extent in a.shape for n in extent.names()}
    sizes = [ir.SizeParameter(n) for n in sorted(wanted) if not n.startswith("$")]
    return ir.Kernel(name, (*arrays, *sizes), grid, THREADS, digits, slots, (), body, index_bits=64)


def row_digits(scatter: RowScatter) -> tuple[ir.ThreadDigit, ...]:
    """Threads side by side along a row, and those of other rows."""
    lanes = scatter.lanes
    return ir.ThreadDigit("lane", 1, lanes), ir.ThreadDigit("group", lanes, THREADS // lanes)


def column_of(scatter: RowScatter) -> tuple[Affine, Affine]:
    """(the column of a thread and slot, what is at least 0 where the whole access lies in the row)"""
    first = scatter.vector * (scatter.lanes * digit("b1") + digit("lane"))
    return first + _V, scatter.width - scatter.vector - first


def _merge(scatter: RowScatter) -> ir.Kernel:
    compute, dtype = scatter.dtype.compute, scatter.scop.dtype(scatter.targets)
    groups = THREADS // scatter.lanes
    row = groups * (ROWS * digit("b0") + digit("u")) + digit("group")
    column, edge = column_of(scatter)
    here = (scatter.count - 1 - row,)
    read, place, update = Ref("place_read", dtype), Ref("place", i64), Ref("update", compute)
    wide: Expr = read if dtype == i64 else Apply("cast", (read,), i64)
    fill = Const(zero(scatter.dtype), compute)
    body = (
        ir.Load(read.name, scatter.array("targets"), (row,), here, None, Const(0, dtype)),
        ir.Let(place.name, wide),
        ir.Load(update.name, scatter.array("updates"), (row, column), (*here, edge), None, fill, scatter.vector),
        ir.AtomicUpdate(
            scatter.target, (place, column), scatter.monoid, update, (*here, edge), None, scatter.vector
        ),
    )
    arrays = [
        array(scatter, "updates", (scatter.count, scatter.width)),
        array(scatter, "targets", (scatter.count,)),
        ir.ArrayParameter(scatter.target, scatter.dtype, (scatter.places, scatter.width), readonly=False),
    ]
    grid = (scatter.count.ceildiv(groups * ROWS), scatter.width.ceildiv(scatter.lanes * scatter.vector))
    slots = (ir.Slot("u", ROWS), ir.Slot("v", scatter.vector))
    return row_kernel(f"{scatter.name}_merge", arrays, body, grid, row_digits(scatter), slots)
