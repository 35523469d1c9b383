"""Asynchronous copies from global to shared memory: the memory system fills the cells while the thread goes on.

The copies of a thread form groups, in order, and it waits for all but the last few of them (PTX ISA, cp.async; sm_80).
"""

from __future__ import annotations

from typing import Any

from polyfuse.backends.numba_cuda.fragments.accesses import (
    Placed,
    addresses,
    as_integer,
    placed,
    predicates,
    vector_places,
)
from polyfuse.backends.numba_cuda.fragments.declare import Emit, literal, operation
from polyfuse.backends.numba_cuda.fragments.formats import Access
from polyfuse.backends.numba_cuda.fragments.slots import assembly, spread
from polyfuse.backends.numba_cuda.fragments.values import GLOBAL, I32, I64, SHARED, Builder, Value
from polyfuse.backends.numba_cuda.numba_api import TypingError, ir, types

_SIZES = (4, 8, 16)


@operation
def copy_async(
    buffer: Any, into: Any, cells: Any, pointer: Any, offset: Any, tile: Any, sizes: Any = (), mask: Any = None
) -> tuple[Any, Emit] | None:
    """Begin to copy a tile of a global array to cells of a shared buffer of its dtype; slots masked off touch no global
    memory, and their cells get zeros."""
    source, target = placed(pointer, offset, tile, sizes, mask), placed(buffer, into, cells, (), None)
    if source is None or target is None:
        return None
    access = _copied(source, target)

    def emit(b: Builder, p: Value, at: Value, _: Value, q: Value, start: Value, __: Value, n: Value, m: Value) -> None:
        ends = addresses(b, target, p, at, n), addresses(b, source, q, start, n)
        for cell, address, predicate in zip(*ends, predicates(b, source, m), strict=True):
            _copy(b, cell, address, access.size, predicate)

    return types.void, emit


@operation
def copy_cut(
    buffer: Any,
    into: Any,
    cells: Any,
    pointer: Any,
    offset: Any,
    tile: Any,
    sizes: Any = (),
    end: Any = 0,
    mask: Any = None,
) -> tuple[Any, Emit] | None:
    """The same of vectors that may begin before a row and end behind it: they are copied whole, with zeros for what
    lies beyond the `end` elements of the array, whose first one `pointer` is."""
    source, target = placed(pointer, offset, tile, sizes, mask), placed(buffer, into, cells, (), None)
    if source is None or target is None:
        return None
    access = _copied(source, target)

    def emit(b: Builder, p: Value, at: Value, _: Value, q: Value, start: Value, __: Value, *rest: Value) -> None:
        n, count, m = rest
        (elements,) = spread(b, end, count, types.int64, ())
        ends = addresses(b, target, p, at, n), vector_places(b, source, q, start, n)
        for cell, place, predicate in zip(*ends, predicates(b, source, m), strict=True):
            kind, zero = place.start.type, ir.Constant(place.start.type, 0)
            last = b.sub(as_integer(b, elements, kind), ir.Constant(kind, place.constant + access.width))
            beyond = b.sub(place.start, last)  # elements of the vector that the array has not
            lacking = as_integer(b, b.select(b.icmp_signed(">", beyond, zero), beyond, zero), I32)
            lacking = b.mul(lacking, ir.Constant(I32, access.size // access.width))
            read = b.sub(ir.Constant(I32, access.size), lacking)
            read = read if predicate is None else b.select(predicate, read, ir.Constant(I32, 0))
            _begin_copy(b, cell, place.address(b, 0), access.size, read)

    return types.void, emit


def _copied(source: Placed, target: Placed) -> Access:
    """What one copy moves.  Raises TypingError where there is none from the one to the other."""
    if (target.pointer.space, source.pointer.space) != (SHARED, GLOBAL) or target.pointer.dtype != source.pointer.dtype:
        ends = f"{source.pointer} to {target.pointer}"
        raise TypingError(f"an asynchronous copy goes from global to shared memory of its dtype: {ends}")
    if source.access != target.access or source.tile.shape != target.tile.shape:
        raise TypingError(f"cells in {target.tile} do not take {source.tile}")
    if source.access.size not in _SIZES:
        raise TypingError(f"an asynchronous copy moves 4, 8 or 16 bytes, not {source.access.size}")
    return source.access


def _copy(b: Builder, cell: Value, address: Value, size: int, predicate: Value | None) -> None:
    if predicate is None:
        _begin_copy(b, cell, address, size, None)
    else:
        _begin_copy(b, cell, address, size, b.select(predicate, ir.Constant(I32, size), ir.Constant(I32, 0)))


def _begin_copy(b: Builder, cell: Value, address: Value, size: int, read: Value | None) -> None:
    """`read`: bytes that are read, the rest of the cells is zeros; None: all.  16 bytes pass by the first-level cache,
    where nobody reads them again."""
    text = f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global [$0], [$1], {size}"
    arguments = [b.trunc(b.ptrtoint(cell, I64), I32), b.ptrtoint(address, I64)]
    if read is None:
        assembly(b, f"{text};", "r,l,~{memory}", ir.VoidType(), arguments, effect=True)
    else:
        assembly(b, f"{text}, $2;", "r,l,r,~{memory}", ir.VoidType(), [*arguments, read], effect=True)


@operation
def commit_copies() -> tuple[Any, Emit]:
    """The copies begun since the last commit are the next group of this thread."""
    return types.void, lambda b: _control(b, "commit_group")


@operation
def wait_copies(pending: Any) -> tuple[Any, Emit]:
    """Wait until only the last `pending` groups (literal) of this thread may be on their way."""
    return types.void, lambda b, _: _control(b, f"wait_group {literal(pending, 'the groups left on their way')}")


def _control(b: Builder, instruction: str) -> None:
    assembly(b, f"cp.async.{instruction};", "~{memory}", ir.VoidType(), [], effect=True)
