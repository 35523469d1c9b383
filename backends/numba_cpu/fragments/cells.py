"""A thread's own cells: on a core, scratch memory that holds one fragment."""

from __future__ import annotations

from typing import Any

from numba.core import types
from numba.extending import models, register_model

from polyfuse.backends.numba_cpu.fragments.elementwise import element_of
from polyfuse.backends.numba_cpu.fragments.frame import scratch_address
from polyfuse.backends.numba_cpu.fragments.layouts import LANES
from polyfuse.backends.numba_cpu.fragments.operation import Typed, literal, operation
from polyfuse.backends.numba_cpu.fragments.types import BYTE_POINTER, Fragment, representation
from polyfuse.backends.numba_cpu.fragments.vectors import Builder, Value


class Cells(types.Type):
    """The address of memory for one fragment."""

    def __init__(self, held: Fragment) -> None:
        self.held = held
        super().__init__(name=f"Cells({held})")


@register_model(Cells)
class CellsModel(models.PrimitiveModel):
    def __init__(self, manager: Any, cells: Cells) -> None:
        super().__init__(manager, cells, BYTE_POINTER)


@operation
def own_cells(dtype: Any, shape: Any, threads: Any) -> Typed:
    """Memory for a fragment of `shape`."""
    held = Fragment(element_of(dtype, "own_cells"), literal(shape, "the shape of cells"))
    size = held.layout.vectors * LANES * held.dtype.itemsize  # a shorter vector is followed by padding
    return Cells(held), lambda builder, *_: scratch_address(builder, size)


@operation
def put_cells(cells: Any, value: Any) -> Typed:
    """Keep a fragment of the cells' own shape."""
    if not isinstance(cells, Cells) or value != cells.held:
        return None

    def lower(builder: Builder, address: Value, held: Value) -> None:
        builder.store(held, address)

    return types.void, lower


@operation
def get_cells(cells: Any) -> Typed:
    """What was kept."""
    if not isinstance(cells, Cells):
        return None
    kind = representation(cells.held)
    return cells.held, lambda builder, address: builder.load(address, typ=kind)
