"""The types of the fragment language: element types, `Fragment`, `Pointer`, `Tile` and `Size`.

A fragment is the registers that one thread holds of a value.  With one slot it is an LLVM scalar, with more an LLVM
array `[n x T]`, which the optimiser keeps in registers, also across loops.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Union

from polyfuse.backends.numba_cuda.numba_api import (
    Conversion,
    ir,
    lowering_registry,
    models,
    register_model,
    typeof_impl,
    types,
)

Builder = Any  # llvmlite.ir.IRBuilder
Value = Any  # llvmlite.ir.Value
DType = Any  # a scalar type of Numba

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
GLOBAL, SHARED = 1, 3  # NVVM address spaces

boolean, float16, bfloat16, float32, float64 = (
    types.boolean,
    types.float16,
    types.bfloat16,
    types.float32,
    types.float64,
)
int8, int16, int32, int64 = types.int8, types.int16, types.int32, types.int64
uint8, uint16, uint32, uint64 = types.uint8, types.uint16, types.uint32, types.uint64

INTEGERS = (int8, int16, int32, int64, uint8, uint16, uint32, uint64)
DTYPES: dict[str, DType] = {"boolean": boolean, "bfloat16": bfloat16} | {
    str(t): t for t in (*INTEGERS, float16, float32, float64)
}

_REGISTER = {boolean: I1, float32: F32, float64: F64} | {t: ir.IntType(t.bitwidth) for t in INTEGERS}


def is_half(dtype: DType) -> bool:
    """True for the types that exist in memory only."""
    return dtype in (float16, bfloat16)


def register_dtype(dtype: DType) -> DType:
    """The type of a value in registers: 16-bit floats compute in float32."""
    return float32 if is_half(dtype) else dtype


def register_type(dtype: DType) -> Any:
    """The LLVM type of one slot in registers."""
    return _REGISTER[dtype]


def itemsize(dtype: DType) -> int:
    """Bytes per element in memory."""
    return 2 if is_half(dtype) else 1 if dtype == boolean else int(dtype.bitwidth) // 8


def memory_type(dtype: DType) -> Any:
    """The LLVM type of one element in memory."""
    return F32 if dtype == float32 else F64 if dtype == float64 else ir.IntType(8 * itemsize(dtype))


def is_float(dtype: DType) -> bool:
    """True for float32 and float64."""
    return dtype in (float32, float64)


def is_signed(dtype: DType) -> bool:
    """True for the signed integers."""
    return isinstance(dtype, types.Integer) and bool(dtype.signed)


class Fragment(types.Type):
    """The slots of a value, `shape` in C order.  A weak fragment (an index, a scalar parameter) takes the dtype of a
    strong one that it meets, as a Python literal does.  `known`: per slot its number, or None; empty where no slot has
    one."""

    def __init__(
        self, dtype: DType, shape: tuple[int, ...], weak: bool = False, known: tuple[int | None, ...] = ()
    ) -> None:
        self.dtype, self.shape, self.weak, self.known = dtype, tuple(shape), weak, known
        self.size = math.prod(shape)
        super().__init__(name=f"{'Weak' if weak else ''}Fragment({dtype}, {self.shape}{f', {known}' if known else ''})")

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """Weak to strong only: if fragments became Numba's integers by themselves, its operators would take them."""
        same = isinstance(other, Fragment) and (other.dtype, other.shape) == (self.dtype, self.shape)
        return Conversion.promote if same and self.weak else None


class Pointer(types.Type):
    """The address of elements of `dtype` in global or shared memory; read-only data is loaded through the
    non-coherent path, and with `evicted_last` stays in the last-level cache longer than other data."""

    def __init__(
        self, dtype: DType, space: int = GLOBAL, readonly: bool = False, evicted_last: bool = False
    ) -> None:
        self.dtype, self.space, self.readonly, self.evicted_last = dtype, space, readonly, evicted_last
        super().__init__(name=f"Pointer({dtype}, {space}, {readonly}, {evicted_last})")


@dataclass(frozen=True)
class Size:
    """A stride known at launch, `factor` times the size called `name`."""

    name: str
    factor: int = 1

    def __mul__(self, factor: int) -> Size:
        return Size(self.name, self.factor * factor)

    __rmul__ = __mul__


@dataclass(frozen=True)
class Tile:
    """A layout in memory: slot (i, j, ...) lies at element offset ``first + i*strides[0] + j*strides[1] + ...``.

    `vector` consecutive slots of the last axis of extent > 1 are one access; or, where `span` is above 1, aligned spans
    of that many elements are, whichever slots lie in them.  Raises ValueError where they cannot be.
    """

    shape: tuple[int, ...]
    strides: tuple[Union[int, Size], ...]
    vector: int = 1
    span: int = 1
    first: int = 0

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.strides):
            raise ValueError(f"{self}: {len(self.shape)} extents but {len(self.strides)} strides")
        if self.span & (self.span - 1) or min(self.vector, self.span) > 1:
            raise ValueError(f"{self}: a span has a power of two of elements, and is no vector")
        if self.vector > 1:
            axis = self.vector_axis
            if axis is None or self.strides[axis] != 1 or self.shape[axis] % self.vector:
                raise ValueError(f"{self}: a vector needs unit stride along the last axis and must divide its extent")

    @property
    def vector_axis(self) -> int | None:
        """The last axis of extent > 1."""
        wide = [axis for axis, extent in enumerate(self.shape) if extent > 1]
        return wide[-1] if wide else None

    def accesses(self, width: int) -> list[list[tuple[int, int]]]:
        """Per access of `width` elements: its slots, numbered in C order, each with its element of the access."""
        count = math.prod(self.shape)
        if self.span == 1 or width == 1:
            return [[(first + k, k) for k in range(width)] for first in range(0, count, width)]
        found: dict[Any, list[tuple[int, int]]] = {}
        for slot, (constant, factors) in enumerate(self.offsets()):
            found.setdefault((constant // width, factors), []).append((slot, constant % width))
        return list(found.values())

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the sizes in the strides, in order of first appearance."""
        return tuple(dict.fromkeys(stride.name for stride in self.strides if isinstance(stride, Size)))

    def offsets(self) -> list[tuple[int, tuple[tuple[str, int], ...]]]:
        """Per slot: the constant part of its offset, and the factor of each size."""
        found, none = [], dict.fromkeys(self.sizes, 0)
        for slot in itertools.product(*map(range, self.shape)):
            constant, factors = self.first, dict(none)
            for position, stride in zip(slot, self.strides, strict=True):
                if isinstance(stride, Size):
                    factors[stride.name] += position * stride.factor
                else:
                    constant += position * stride
            found.append((constant, tuple((name, factor) for name, factor in factors.items() if factor)))
        return found


class TileType(types.Type):
    """A tile as a type: layouts are known at compile time."""

    def __init__(self, tile: Tile) -> None:
        self.tile = tile
        super().__init__(name=str(tile))


def representation(fragment: Fragment) -> Any:
    """The LLVM type of a fragment."""
    slot = register_type(fragment.dtype)
    return slot if fragment.size == 1 else ir.ArrayType(slot, fragment.size)


class FragmentModel(models.PrimitiveModel):
    """Fragments are LLVM values; as a kernel argument a boolean is a byte."""

    def __init__(self, manager: Any, fragment: Fragment) -> None:
        super().__init__(manager, fragment, representation(fragment))

    def get_argument_type(self) -> Any:
        return I8 if self.get_value_type() == I1 else self.get_value_type()

    def as_argument(self, builder: Builder, value: Value) -> Value:
        return builder.zext(value, I8) if value.type == I1 else value

    def from_argument(self, builder: Builder, value: Value) -> Value:
        return builder.trunc(value, I1) if self.get_value_type() == I1 else value


class PointerModel(models.PrimitiveModel):
    """Pointers are LLVM pointers in their address space."""

    def __init__(self, manager: Any, pointer: Pointer) -> None:
        super().__init__(manager, pointer, ir.PointerType(memory_type(pointer.dtype), pointer.space))


register_model(Fragment)(FragmentModel)
register_model(Pointer)(PointerModel)
register_model(TileType)(models.OpaqueModel)
typeof_impl.register(Tile)(lambda tile, context: TileType(tile))
lowering_registry.lower_constant(TileType)(lambda context, builder, ty, tile: context.get_dummy_value())
