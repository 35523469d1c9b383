"""Scatters whose updates may be merged as they come: two launches in place of a call of the library.

    seed     h[j] = base[j]
    merge    cells[c] = 0; barrier;  cells[i[e]] += u[e], all elements e of the block; barrier;  h[c] += cells[c]

Cells are a block's own copy of the result in shared memory, where updates that meet wait for nobody outside.  Where the
result does not fit, or hardly ever meets twice, updates go to memory at once.  Where every update is the same number,
the cells count, and the number is multiplied once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from polyfuse import kernel as ir
from polyfuse.affine import Affine, digit
from polyfuse.bindings import FAULT, Guard
from polyfuse.dtypes import DType, bool_, i32, i64
from polyfuse.expr import IndexEntry, Shape
from polyfuse.lower.inspect import affine_names, flatten
from polyfuse.lower.moves import in_range
from polyfuse.scop import OpaqueStatement, Scop, neutral
from polyfuse.terms import Apply, Const, Expr, Index, Ref

THREADS, SLOTS = 512, 4
MOST_CELLS = 8192
"""Of a block in shared memory, 32 KB: all blocks that a multiprocessor has threads for fit beside each other."""
BLOCKS = 2  # per multiprocessor, each of which clears and merges its cells once
COUNTED = 2**30  # updates that one block counts at most: its cells are i32
_WORDS = frozenset("i32 i64 u32 u64".split())
_MERGED = frozenset("sum max min bitor bitand bitxor".split())
_ONE = Affine.of(1)
_T, _V, _B = Affine.symbol("$t"), digit("v"), digit("b0")

Entry = Affine | Ref


@dataclass(frozen=True, slots=True)
class Scatter:
    """A scatter as kernels see it, with updates and indices as vectors of `count` elements, or of one for all.

    `base`, `updates`, `operands` (the integer arrays of `index`): values of the SCoP; `result` is the scatter's own.
    `wraps`: per operand whether negative indices in it count from the end.
    """

    scop: Scop
    result: int
    base: int
    updates: int
    operands: tuple[int, ...]
    index: tuple[IndexEntry, ...]
    monoid: str
    bounds: str
    wraps: tuple[bool, ...]
    count: Affine

    @staticmethod
    def of(scop: Scop, statement: OpaqueStatement) -> Scatter | None:
        """None for other calls, for updates that memory has no instruction for, and for those whose number is a product
        of sizes or that go to affine positions along several axes."""
        settings: Mapping[str, Any] = dict(statement.call.settings)
        if statement.call.name != "scatter" or statement.dtypes[0].name not in _WORDS:
            return None
        base, updates, *operands = statement.operands
        shapes = [scop.shape(v) for v in (updates, *operands)]
        over = next((s for s in shapes if elements(s) != _ONE), shapes[0])
        count, index = elements(over), settings["index"]
        is_affine = any(isinstance(e, Affine) and not e.is_constant for e in index)
        if count is None or (is_affine and len(over) > 1) or settings["monoid"] not in _MERGED:
            return None
        if any(s != over and elements(s) != _ONE for s in shapes):
            return None
        how = (settings["monoid"], settings["bounds"], settings["wraps"])
        return Scatter(scop, statement.id, base, updates, tuple(operands), index, *how, count)

    @property
    def name(self) -> str:
        return self.scop.statements[self.result].name

    @property
    def shape(self) -> Shape:
        return self.scop.shape(self.result)

    @property
    def dtype(self) -> DType:
        return self.scop.dtype(self.result)

    @property
    def is_checked(self) -> bool:
        return self.bounds == "raise" and bool(self.operands)

    @property
    def is_count(self) -> bool:
        """Whether every update adds the same number."""
        return self.monoid == "sum" and elements(self.scop.shape(self.updates)) == _ONE

    def array(self, value: int) -> str:
        """The parameter of an operand."""
        return f"{self.scop.statements[value].name}_in"

    @property
    def target(self) -> str:
        """The parameter of the result."""
        return f"{self.name}_out"

    def arrays(self) -> dict[str, int]:
        """The value behind each array parameter."""
        return {self.target: self.result, **{self.array(v): v for v in (self.base, self.updates, *self.operands)}}

    def blocks(self, processors: int, hints: Mapping[str, int]) -> int:
        """Blocks that merge in cells of their own; 0 where updates go to memory at once."""
        cells, count = elements(self.shape), self.count.evaluate(hints)
        if cells is None or not cells.is_constant or not 0 < cells.constant <= MOST_CELLS:
            return 0
        if not self.is_count and self.dtype.itemsize != 4:
            return 0  # shared memory has no instruction that adds 8 bytes
        most = count // (4 * cells.constant)  # what merging the cells costs stays small beside the updates
        return min(BLOCKS * processors, most, -(-count // (THREADS * SLOTS * 4)))


def elements(shape: Shape) -> Affine | None:
    """Of an array of that shape; None for a product of several sizes."""
    symbolic = [n for n in shape if not n.is_constant]
    if len(symbolic) > 1:
        return None
    return (symbolic or [_ONE])[0] * prod(n.constant for n in shape if n.is_constant)


def fits(scatter: Scatter, blocks: int) -> tuple[Guard, ...]:
    """For the sizes at which no cell of `blocks` blocks overflows."""
    if not blocks or scatter.count.is_constant:
        return ()
    return (Guard(Affine.of(blocks * COUNTED) - scatter.count),)


# ---------------------------------------------------------------------------------------------- kernels


def seed_kernel(scatter: Scatter) -> ir.Kernel:
    """The result begins as the base."""
    *rows, last = scatter.shape or (_ONE,)
    across = THREADS * SLOTS * _B + THREADS * _V + _T
    place = (*(digit(f"b{k + 1}") for k in range(len(rows))), across) if scatter.shape else ()
    where, dtype = (last - across - 1,), scatter.dtype
    load = ir.Load("held", scatter.array(scatter.base), place, where, None, Const(0, dtype))
    body = (load, ir.Store(scatter.target, place, Ref("held", dtype), where))
    source = _source(scatter, scatter.base, scatter.shape)
    return _kernel(scatter, f"{scatter.name}_seed", body, (last.ceildiv(THREADS * SLOTS), *rows), [source])


def merge_kernel(scatter: Scatter, blocks: int, site: int) -> ir.Kernel:
    """Every update merged into the result, by `blocks` blocks with cells of their own, or at once by as many as there
    are updates for.  `site`: the number of the check of bounds."""
    read = dict.fromkeys((scatter.updates, *scatter.operands))
    arrays = [_source(scatter, v, (_length(scatter, v),)) for v in read]
    waves = scatter.count.ceildiv(THREADS * SLOTS)
    if blocks:
        body, grid = _in_cells(scatter, blocks, waves, site), Affine.of(blocks)
    else:
        body, grid = _in_memory(scatter, site), waves
    return _kernel(scatter, f"{scatter.name}_merge", body, (grid,), arrays)


def _source(scatter: Scatter, value: int, shape: Shape) -> ir.ArrayParameter:
    dtype = scatter.scop.dtype(value)
    return ir.ArrayParameter(scatter.array(value), dtype, shape, alignment=dtype.itemsize)


def _length(scatter: Scatter, value: int) -> Affine:
    return _ONE if elements(scatter.scop.shape(value)) == _ONE else scatter.count


def _kernel(
    scatter: Scatter, name: str, body: tuple[ir.Op, ...], grid: tuple[Affine, ...], arrays: list[ir.ArrayParameter]
) -> ir.Kernel:
    used = list(flatten(body))
    shape, shared = scatter.shape, tuple[ir.SharedBuffer, ...]()
    cells = elements(shape)
    if cells is not None and any(isinstance(op, ir.Barrier) for op in used):
        shape, shared = (cells,), (ir.SharedBuffer("cells", _cell_dtype(scatter), (cells.constant,), (1,)),)
    parameters: list[ir.Parameter] = [*arrays, ir.ArrayParameter(scatter.target, scatter.dtype, shape, readonly=False)]
    if any(isinstance(op, ir.AtomicUpdate) and op.array == FAULT for op in used):
        parameters.append(ir.ArrayParameter(FAULT, i32, (_ONE,), readonly=False))
    wanted = affine_names(body) | {n for extent in (*grid[:-1], *shape[1:]) for n in extent.names()}
    sizes = [ir.SizeParameter(n) for n in sorted(wanted) if not n.startswith("$")]
    slots = (ir.Slot("v", SLOTS),)
    return ir.Kernel(name, (*parameters, *sizes), grid, THREADS, (), slots, shared, body, index_bits=64)


def _in_memory(scatter: Scatter, site: int) -> tuple[ir.Op, ...]:
    element = THREADS * SLOTS * _B + THREADS * _V + _T
    before, index, inside = _places(scatter, element, site)
    load, value = _update(scatter, element)
    where = (scatter.count - element - 1,)
    return (*before, load, ir.AtomicUpdate(scatter.target, index, scatter.monoid, value, where, inside))


def _in_cells(scatter: Scatter, blocks: int, waves: Affine, site: int) -> tuple[ir.Op, ...]:
    extents = [n.constant for n in scatter.shape]
    dtype, size = _cell_dtype(scatter), prod(extents)
    (fill,) = neutral(scatter.monoid, (dtype,))
    element = THREADS * SLOTS * (_B + blocks * digit("k")) + THREADS * _V + _T
    before, index, inside = _places(scatter, element, site)
    before.append(ir.Let("cell", _row_major(index, extents)))
    load, value = _update(scatter, element)
    once: list[ir.Op] = [load] if scatter.is_count else []
    before += [] if scatter.is_count else [load]
    given = Const(1, i32) if scatter.is_count else value
    where, cell = (scatter.count - element - 1,), THREADS * digit("c") + _T
    held, owned = Ref("held", dtype), (size - 1 - cell,)
    changed = Apply("not_equal", (held, fill), bool_)
    share = Apply("multiply", (_cast(held, scatter.dtype), value), scatter.dtype) if scatter.is_count else held
    update = ir.AtomicUpdate("cells", (Ref("cell", i64),), scatter.monoid, given, where, inside)
    each = Affine.of(-(-size // THREADS))
    merge = ir.AtomicUpdate(scatter.target, (cell,), scatter.monoid, share, owned, changed)
    return (
        *once,
        ir.For("c", each, (ir.Store("cells", (cell,), fill, owned),)),
        ir.Barrier(),
        ir.For("k", waves.ceildiv(blocks), (*before, update)),
        ir.Barrier(),
        ir.For("c", each, (ir.Load("held", "cells", (cell,), owned, None, fill), merge)),
    )


def _cell_dtype(scatter: Scatter) -> DType:
    return i32 if scatter.is_count else scatter.dtype


def _update(scatter: Scatter, element: Affine) -> tuple[ir.Op, Ref]:
    """The load of the value that goes to each place."""
    name, count = scatter.array(scatter.updates), _length(scatter, scatter.updates)
    at, where = (element, (count - element - 1,)) if count != _ONE else (Affine.of(0), ())
    load = ir.Load("update", name, (at,), where, None, Const(0, scatter.dtype) if where else None)
    return load, Ref("update", scatter.dtype)


def _places(scatter: Scatter, element: Affine, site: int) -> tuple[list[ir.Op], tuple[Entry, ...], Expr | None]:
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


def _position(scatter: Scatter, axis: int, operand: int, element: Affine) -> tuple[list[ir.Op], Ref]:
    """The index along one axis."""
    value, at = scatter.operands[operand], Ref(f"at{axis}", i64)
    dtype, count = scatter.scop.dtype(value), _length(scatter, value)
    place, where = (element, (count - element - 1,)) if count != _ONE else (Affine.of(0), ())
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


def _row_major(index: tuple[Entry, ...], extents: list[int]) -> Expr:
    """The number of a cell, in 64 bits."""
    total: Expr = Const(0, i64)
    for entry, extent in zip(index, extents, strict=True):
        here: Expr = Index(entry, i64) if isinstance(entry, Affine) else entry
        outer = Apply("multiply", (total, Const(extent, i64)), i64)
        total = here if total == Const(0, i64) else Apply("add", (outer, here), i64)
    return total
