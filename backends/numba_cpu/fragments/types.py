"""The Numba types of the fragment language and how their values are represented in LLVM."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.imputils import lower_constant
from numba.extending import models, register_model, typeof_impl

from polyfuse.backends.numba_cpu.fragments.elements import Element
from polyfuse.backends.numba_cpu.fragments.layouts import Shape, Tile, VectorLayout, vector_layout


class Fragment(types.Type):
    """The slots that one thread holds of a value.  `dtype` is a compute element, never a 16-bit float.

    `weak`: a size, a scalar parameter or a loop variable (0-d), which takes the dtype of the fragment that it meets.
    """

    def __init__(self, dtype: Element, shape: Shape, weak: bool = False) -> None:
        self.dtype, self.shape, self.weak = dtype, tuple(shape), weak
        self.size = math.prod(self.shape)
        super().__init__(name=f"{'Weak' if weak else ''}Fragment({dtype}, {self.shape})")

    @property
    def layout(self) -> VectorLayout:
        return vector_layout(self.shape)


class Pointer(types.Type):
    """An address of `dtype` elements in memory.  `nontemporal` stores bypass the cache where they are aligned."""

    def __init__(self, dtype: Element, readonly: bool = False, nontemporal: bool = False) -> None:
        self.dtype, self.readonly, self.nontemporal = dtype, readonly, nontemporal
        super().__init__(name=f"Pointer({dtype}, {readonly}, {nontemporal})")


class TileType(types.Type):
    """The type of one `Tile`: the layout is part of it."""

    def __init__(self, tile: Tile) -> None:
        self.tile = tile
        super().__init__(name=repr(tile))


class ElementType(types.Type):
    """The type of one `Element` named in a kernel."""

    def __init__(self, element: Element) -> None:
        self.element = element
        super().__init__(name=f"Element({element})")


def vector_type(scalar: ir.Type, lanes: int) -> ir.Type:
    """A vector of `lanes` scalars; one lane is the scalar itself."""
    return scalar if lanes == 1 else ir.VectorType(scalar, lanes)


def representation(fragment: Fragment) -> ir.Type:
    """One LLVM vector, or a struct of them in C order."""
    layout, scalar = fragment.layout, fragment.dtype.register
    if layout.vectors == 1:
        return vector_type(scalar, layout.chunks[0])
    return ir.LiteralStructType([vector_type(scalar, lanes) for lanes in layout.chunks] * layout.rows)


@register_model(Fragment)
class FragmentModel(models.PrimitiveModel):
    """A fragment is a first-class LLVM value; scalar replacement keeps it in registers, also across loops."""

    def __init__(self, manager: Any, fragment: Fragment) -> None:
        super().__init__(manager, fragment, representation(fragment))


# Numba stores variables through typed pointers only, so a pointer variable has one.
BYTE_POINTER = ir.IntType(8).as_pointer()


@register_model(Pointer)
class PointerModel(models.PrimitiveModel):
    def __init__(self, manager: Any, pointer: Pointer) -> None:
        super().__init__(manager, pointer, BYTE_POINTER)


register_model(TileType)(models.OpaqueModel)
register_model(ElementType)(models.OpaqueModel)


@typeof_impl.register(Tile)
def typeof_tile(tile: Tile, context: Any) -> TileType:
    return TileType(tile)


@typeof_impl.register(Element)
def typeof_element(element: Element, context: Any) -> ElementType:
    return ElementType(element)


@lower_constant(TileType)
@lower_constant(ElementType)
def lower_layout(context: Any, builder: Any, ty: Any, value: Any) -> Any:
    return context.get_dummy_value()
