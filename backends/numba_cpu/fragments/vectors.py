"""LLVM helpers that treat a scalar as a vector of one lane, so that every operation is written once."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from llvmlite import ir

from polyfuse.backends.numba_cpu.fragments.elements import Element
from polyfuse.backends.numba_cpu.fragments.layouts import Shape, vector_layout
from polyfuse.backends.numba_cpu.fragments.types import Fragment, representation, vector_type

Value = Any  # llvmlite is untyped
Builder = Any
I1 = ir.IntType(1)
I32 = ir.IntType(32)
I64 = ir.IntType(64)


def lanes_of(ty: ir.Type) -> int:
    return ty.count if isinstance(ty, ir.VectorType) else 1


def scalar_of(ty: ir.Type) -> ir.Type:
    return ty.element if isinstance(ty, ir.VectorType) else ty


def retyped(ty: ir.Type, scalar: ir.Type) -> ir.Type:
    """`ty` with another scalar type and as many lanes."""
    return vector_type(scalar, lanes_of(ty))


def integer_like(ty: ir.Type) -> ir.Type:
    """The integers of the width of the floats `ty`."""
    return retyped(ty, I32 if isinstance(scalar_of(ty), ir.FloatType) else I64)


def rounded(scalar: ir.Type, value: float) -> float:
    """`value` in the precision of `scalar`; out of range gives an infinity."""
    if isinstance(scalar, ir.DoubleType) or math.isinf(value) or math.isnan(value):
        return value
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


class Uniform(ir.Constant):
    """A vector constant with one number in every lane, in LLVM's short notation: half of a kernel's text would be
    repetitions of its constants."""

    def __init__(self, ty: ir.Type, number: float) -> None:
        super().__init__(ty, ir.Undefined)
        self.number = number

    def _to_string(self) -> str:
        return f"{self.type} {self._get_reference()}"

    def _get_reference(self) -> str:
        return f"splat ({self.type.element} {self.type.element.format_constant(self.number)})"


def uniform_number(value: Value) -> float | None:
    """The number that every lane of a constant has, or None."""
    if isinstance(value, Uniform):
        return value.number
    plain = isinstance(value, ir.Constant) and isinstance(value.constant, int | float)
    return value.constant if plain else None


def constant(ty: ir.Type, value: float) -> Value:
    """`value` in every lane of `ty`."""
    scalar = scalar_of(ty)
    if isinstance(scalar, ir.IntType):
        number: float = int(value) & ((1 << scalar.width) - 1)
        if scalar.width > 1 and number >> (scalar.width - 1):
            number -= 1 << scalar.width
    else:
        number = rounded(scalar, float(value))
    return Uniform(ty, number) if isinstance(ty, ir.VectorType) else ir.Constant(ty, number)


def suffix(ty: ir.Type) -> str:
    """How LLVM mangles a type in the name of an overloaded intrinsic."""
    match ty:
        case ir.VectorType():
            return f"v{ty.count}{suffix(ty.element)}"
        case ir.FloatType():
            return "f32"
        case ir.DoubleType():
            return "f64"
        case ir.PointerType():
            return "p0"
        case _:
            return str(ty)


def declare(builder: Builder, name: str, result: ir.Type, operands: Sequence[ir.Type]) -> Value:
    """The function `name` of the module, declared on first use."""
    known = builder.module.globals.get(name)
    return known or ir.Function(builder.module, ir.FunctionType(result, operands), name)


def intrinsic(
    builder: Builder,
    name: str,
    *operands: Value,
    result: ir.Type | None = None,
    overloads: Sequence[ir.Type] | None = None,
    flags: tuple[str, ...] = (),
) -> Value:
    """Call the LLVM intrinsic `name`, overloaded on the type of its first operand unless `overloads` says otherwise."""
    types = [operand.type for operand in operands]
    mangled = ".".join([name, *(suffix(ty) for ty in (types[:1] if overloads is None else overloads))])
    function = declare(builder, mangled, types[0] if result is None else result, types)
    return builder.call(function, operands, fastmath=flags)


def stack_slot(builder: Builder, ty: ir.Type) -> Value:
    """The address of uninitialised stack memory for a `ty`; to be called in the entry block of a function."""
    return untyped(builder.alloca(ty))


def untyped(pointer: Value) -> Value:
    """`pointer` as LLVM sees it: llvmlite and Numba still attach the type of what lies there."""
    pointer.type = ir.PointerType()
    return pointer


def splat(builder: Builder, scalar: Value, lanes: int) -> Value:
    """`scalar` in every one of `lanes` lanes."""
    if lanes == 1:
        return scalar
    ty = ir.VectorType(scalar.type, lanes)
    number = uniform_number(scalar)
    if number is not None:
        return Uniform(ty, number)
    undefined = ir.Constant(ty, ir.Undefined)
    first = builder.insert_element(undefined, scalar, I32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, lanes), [0] * lanes))


def lane(builder: Builder, vector: Value, index: int) -> Value:
    """One lane as a scalar."""
    return builder.extract_element(vector, I32(index)) if isinstance(vector.type, ir.VectorType) else vector


def shuffle(builder: Builder, first: Value, second: Value | None, lanes: Sequence[int]) -> Value:
    """Pick lanes of two vectors of one type; lane numbers of the second follow those of the first."""
    if not isinstance(first.type, ir.VectorType):
        picked = [first if k == 0 else second for k in lanes]
        return gathered(builder, picked)
    if len(lanes) == 1:
        source = first if lanes[0] < first.type.count else second
        return lane(builder, source, lanes[0] % first.type.count)
    other = ir.Constant(first.type, ir.Undefined) if second is None else second
    return builder.shuffle_vector(first, other, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))


def gathered(builder: Builder, scalars: Sequence[Value]) -> Value:
    """A vector from its lanes."""
    if len(scalars) == 1:
        return scalars[0]
    vector = ir.Constant(ir.VectorType(scalars[0].type, len(scalars)), ir.Undefined)
    for index, scalar in enumerate(scalars):
        vector = builder.insert_element(vector, scalar, I32(index))
    return vector


def joined(builder: Builder, first: Value, second: Value) -> Value:
    """The lanes of `first`, then those of `second`."""
    left, right = lanes_of(first.type), lanes_of(second.type)
    if left == 1 or right == 1:
        return gathered(
            builder, [lane(builder, first, k) for k in range(left)] + [lane(builder, second, k) for k in range(right)]
        )
    if left < right:
        first = shuffle(builder, first, None, [min(k, left - 1) for k in range(right)])
    elif right < left:
        second = shuffle(builder, second, None, [min(k, right - 1) for k in range(left)])
    width = max(left, right)
    return shuffle(builder, first, second, [*range(left), *range(width, width + right)])


def shared_function(
    builder: Builder, name: str, body: Callable[..., Value], *operands: Value, inline: bool = True
) -> Value:
    """Call `body` as a function of the module, built once per operand types; its result has the type of the first.
    A module then holds one copy of a long expansion until LLVM inlines it, which makes building its text cheap."""
    full = ".".join(["polyfuse", name, *(suffix(operand.type) for operand in operands)])
    function = builder.module.globals.get(full)
    if function is None:
        function = _define(builder.module, full, body, [operand.type for operand in operands], inline)
    return builder.call(function, operands)


def _define(module: Any, name: str, body: Callable[..., Value], operands: list[ir.Type], inline: bool) -> Value:
    function = ir.Function(module, ir.FunctionType(operands[0], operands), name)
    function.linkage = "internal"
    function.attributes.add("alwaysinline" if inline else "noinline")
    inner = ir.IRBuilder(function.append_basic_block("entry"))
    inner.ret(body(inner, *function.args))
    return function


@contextmanager
def each_lane(builder: Builder, lanes: int) -> Iterator[Value]:
    """Emit the body as a loop over the lane numbers ``0 .. lanes-1`` (64 bits), without values carried around."""
    entry = builder.block
    loop, done = builder.append_basic_block("lane"), builder.append_basic_block("done")
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(I64)
    index.add_incoming(I64(0), entry)
    yield index
    following = builder.add(index, I64(1))
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_unsigned("<", following, I64(lanes)), loop, done)
    builder.position_at_end(done)


# ---------------------------------------------------------------------------------------------- fragments


def unpack(builder: Builder, fragment: Fragment, value: Value) -> list[Value]:
    """The vectors of a fragment, in C order."""
    count = fragment.layout.vectors
    return [value] if count == 1 else [builder.extract_value(value, k) for k in range(count)]


def pack(builder: Builder, fragment: Fragment, vectors: Sequence[Value]) -> Value:
    """The fragment made of these vectors."""
    if len(vectors) == 1:
        return vectors[0]
    value = ir.Constant(representation(fragment), ir.Undefined)
    for position, vector in enumerate(vectors):
        value = builder.insert_value(value, vector, position)
    return value


def spread(builder: Builder, vectors: Sequence[Value], source: Shape, target: Shape) -> list[Value]:
    """The vectors of shape `source` broadcast to `target`, as NumPy broadcasts."""
    source = (1,) * (len(target) - len(source)) + tuple(source)
    if source == tuple(target):
        return list(vectors)
    goal, given = vector_layout(tuple(target)), vector_layout(source)
    if goal.axis is None:
        return list(vectors)
    slots = np.broadcast_to(np.arange(math.prod(source)).reshape(source), target).reshape(goal.rows, goal.extent)
    if source[goal.axis] == target[goal.axis]:
        per_row = len(goal.chunks)
        starts = [int(row[0]) // given.extent * per_row for row in slots]
        return [vectors[start + chunk] for start in starts for chunk in range(per_row)]
    splats: dict[tuple[int, int], Value] = {}
    result = []
    for row in slots:
        slot = int(row[0])
        for lanes in goal.chunks:
            if (slot, lanes) not in splats:
                vector, position = given.locate(slot)
                splats[slot, lanes] = splat(builder, lane(builder, vectors[vector], position), lanes)
            result.append(splats[slot, lanes])
    return result


def slot_scalars(builder: Builder, fragment: Fragment, value: Value) -> list[Value]:
    """Every slot as a scalar, in C order."""
    return [lane(builder, v, k) for v in unpack(builder, fragment, value) for k in range(lanes_of(v.type))]


def from_scalars(builder: Builder, fragment: Fragment, scalars: Sequence[Value]) -> Value:
    """The fragment of these slots, in C order."""
    vectors, start = [], 0
    for lanes in fragment.layout.chunks * fragment.layout.rows:
        vectors.append(gathered(builder, scalars[start : start + lanes]))
        start += lanes
    return pack(builder, fragment, vectors)


def zero(element: Element) -> Value:
    return constant(element.register, 0)
