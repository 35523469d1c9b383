"""A thread's own cells: shared memory that no other thread touches, so that no barrier stands between a thread's writes
and its reads.

The words of a thread lie a vector apart from those of its neighbours, so that a warp's accesses meet no bank twice.
"""

from __future__ import annotations

import math
from typing import Any

from polyfuse.backends.numba_cuda.fragments.declare import Emit, literal, operation
from polyfuse.backends.numba_cuda.fragments.formats import Access, narrow, widen
from polyfuse.backends.numba_cuda.fragments.slots import broadcast_shape, note_cells, pack, special_register, spread
from polyfuse.backends.numba_cuda.fragments.threads import i32, shared_buffer, to_memory
from polyfuse.backends.numba_cuda.fragments.values import (
    SHARED,
    Builder,
    DType,
    Fragment,
    Value,
    itemsize,
    memory_type,
    register_dtype,
)
from polyfuse.backends.numba_cuda.numba_api import TypingError, ir, models, register_model, types


class Cells(types.Type):
    """The address of a thread's first cell; `threads` of the block, whose cells lie in between."""

    def __init__(self, dtype: DType, shape: tuple[int, ...], threads: int) -> None:
        self.dtype, self.shape, self.threads = dtype, shape, threads
        self.size = math.prod(shape)
        self.vector = math.gcd(self.size, max(1, 16 // itemsize(dtype)))
        self.access = Access(dtype, self.vector)
        super().__init__(name=f"Cells({dtype}, {shape}, {threads})")


@register_model(Cells)
class CellsModel(models.PrimitiveModel):
    """A pointer into shared memory."""

    def __init__(self, manager: Any, cells: Cells) -> None:
        super().__init__(manager, cells, ir.PointerType(memory_type(cells.dtype), SHARED))


@operation
def own_cells(dtype: Any, shape: Any, threads: Any) -> tuple[Any, Emit]:
    """Cells for a fragment of `shape`, of each of the `threads` threads of a block."""
    extents, count = literal(shape, "the shape of cells"), literal(threads, "the threads of a block")
    cells = Cells(dtype.instance_type, extents, count)

    def emit(b: Builder, *_: Value) -> Value:
        note_cells(b)
        buffer = shared_buffer(b, cells.dtype, cells.size * count)
        return b.gep(buffer, [b.mul(special_register(b, "tid.x"), i32(cells.vector))])

    return cells, emit


def _addresses(b: Builder, cells: Cells, first: Value) -> list[Value]:
    """Of the vectors of a thread, as vectors of words."""
    word, count = cells.access.word, cells.access.count
    kind = ir.VectorType(word, count) if count > 1 else word
    steps = range(0, cells.size * cells.threads, cells.vector * cells.threads)
    return [b.bitcast(b.gep(first, [i32(step)]), kind.as_pointer(SHARED)) for step in steps]


@operation
def put_cells(cells: Any, value: Any) -> tuple[Any, Emit] | None:
    """Keep a fragment in the thread's own cells."""
    if not isinstance(cells, Cells) or not isinstance(value, Fragment):
        return None
    held = register_dtype(cells.dtype)
    if value.dtype != held or broadcast_shape(value.shape, cells.shape) != cells.shape:
        raise TypingError(f"{value} is kept in {cells}")

    def emit(b: Builder, first: Value, kept: Value) -> None:
        slots, count = spread(b, value, kept, held, cells.shape), cells.access.count
        words = narrow(b, cells.access, [to_memory(b, slot) for slot in slots])
        for k, address in enumerate(_addresses(b, cells, first)):
            part = words[k * count : (k + 1) * count]
            stored = part[0]
            if len(part) > 1:
                stored = ir.Constant(address.type.pointee, ir.Undefined)
                for n, word in enumerate(part):
                    stored = b.insert_element(stored, word, i32(n))
            b.store(stored, address).align = cells.access.size

    return types.void, emit


@operation
def get_cells(cells: Any) -> tuple[Fragment, Emit] | None:
    """What the thread has kept."""
    if not isinstance(cells, Cells):
        return None
    fragment = Fragment(register_dtype(cells.dtype), cells.shape)

    def emit(b: Builder, first: Value) -> Value:
        words: list[Value] = []
        for address in _addresses(b, cells, first):
            found = b.load(address)
            found.align = cells.access.size
            count = cells.access.count
            words += [found] if count == 1 else [b.extract_element(found, i32(n)) for n in range(count)]
        return pack(b, fragment, widen(b, cells.access, words))

    return fragment, emit
