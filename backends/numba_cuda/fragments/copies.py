"""Asynchronous copies from global to shared memory: the memory system fills the cells while the thread goes on.

The copies of a thread form groups, in order, and it waits for all but the last few of them (PTX ISA, cp.async; sm_80).
"""

from __future__ import annotations

from typing import Any

from polyfuse.backends.numba_cuda.fragments.accesses import addresses, placed, predicates
from polyfuse.backends.numba_cuda.fragments.declare import Emit, literal, operation
from polyfuse.backends.numba_cuda.fragments.slots import assembly
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
    if (target.pointer.space, source.pointer.space) != (SHARED, GLOBAL) or target.pointer.dtype != source.pointer.dtype:
        raise TypingError(f"an asynchronous copy goes from global to shared memory of its dtype: {pointer} to {buffer}")
    access = source.access
    if access != target.access or source.tile.shape != target.tile.shape:
        raise TypingError(f"cells in {target.tile} do not take {source.tile}")
    if access.size not in _SIZES:
        raise TypingError(f"an asynchronous copy moves 4, 8 or 16 bytes, not {access.size}")

    def emit(b: Builder, p: Value, at: Value, _: Value, q: Value, start: Value, __: Value, n: Value, m: Value) -> None:
        ends = addresses(b, target, p, at, n), addresses(b, source, q, start, n)
        for cell, address, predicate in zip(*ends, predicates(b, source, m), strict=True):
            _copy(b, cell, address, access.size, predicate)

    return types.void, emit


def _copy(b: Builder, cell: Value, address: Value, size: int, predicate: Value | None) -> None:
    """16 bytes pass by the first-level cache, where nobody reads them again."""
    cache = "cg" if size == 16 else "ca"
    text = f"cp.async.{cache}.shared.global [$0], [$1], {size}"
    arguments = [b.trunc(b.ptrtoint(cell, I64), I32), b.ptrtoint(address, I64)]
    if predicate is None:
        assembly(b, f"{text};", "r,l,~{memory}", ir.VoidType(), arguments, effect=True)
        return
    read = b.select(predicate, ir.Constant(I32, size), ir.Constant(I32, 0))  # bytes read; the rest of the cell is zeros
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
