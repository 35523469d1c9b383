"""Fragments as lists of slots while code is emitted: unpack, convert, broadcast, pack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakSet

import numpy as np

from polyfuse.backends.numba_cuda.fragments.values import (
    F32,
    I1,
    I32,
    I64,
    Builder,
    DType,
    Fragment,
    Value,
    boolean,
    float32,
    is_float,
    register_type,
    representation,
)
from polyfuse.backends.numba_cuda.numba_api import TypingError, cgutils, ir, packed, slots_of, types


def constant_of(llvm_type: Any, value: float) -> Value:
    """An LLVM constant; floats are rounded to the type first, as the text of LLVM demands."""
    if llvm_type == F32:
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    return ir.Constant(llvm_type, value)


def is_known(value: Value, number: int) -> bool:
    """Whether a slot is this constant."""
    return isinstance(value, ir.Constant) and value.constant == number


def both(b: Builder, one: Value, other: Value) -> Value:
    """The conjunction of two truths, of which a known one takes no instruction."""
    if is_known(one, False) or is_known(other, True):
        return one
    return other if is_known(one, True) or is_known(other, False) else b.and_(one, other)


def either(b: Builder, one: Value, other: Value) -> Value:
    """The disjunction, as `both` is the conjunction."""
    if is_known(one, True) or is_known(other, False):
        return one
    return other if is_known(one, False) or is_known(other, True) else b.or_(one, other)


def negated(b: Builder, truth: Value) -> Value:
    return ir.Constant(I1, 1 - int(truth.constant)) if isinstance(truth, ir.Constant) else b.not_(truth)


def intrinsic(b: Builder, name: str, result: Any, arguments: list[Value], convergent: bool = False) -> Value:
    """Call an LLVM intrinsic or a libdevice function."""
    function_type = ir.FunctionType(result, [value.type for value in arguments])
    function = cgutils.get_or_insert_function(b.module, function_type, name)
    if convergent:
        function.attributes.add("convergent")
    return b.call(function, arguments)


def assembly(b: Builder, text: str, constraints: str, result: Any, arguments: list[Value], effect: bool) -> Value:
    """Inline PTX; `effect` keeps it even where its result is unused, and in order."""
    function_type = ir.FunctionType(result, [value.type for value in arguments])
    return b.call(ir.InlineAsm(function_type, text, constraints, side_effect=effect), arguments)


def special_register(b: Builder, name: str) -> Value:
    """A special register of PTX as i32."""
    return intrinsic(b, f"llvm.nvvm.read.ptx.sreg.{name}", I32, [])


def unpack(b: Builder, fragment: Fragment, value: Value) -> list[Value]:
    """The slots of a fragment in C order, as constants where the compiler is to know them."""
    if fragment.size == 1:
        found = [value]
    else:  # those of a fragment that was packed need not be taken out again
        found = slots_of(value) or [b.extract_value(value, slot) for slot in range(fragment.size)]
    numbers = zip(found, fragment.known or [None] * fragment.size, strict=True)
    return [slot if number is None else ir.Constant(slot.type, number) for slot, number in numbers]


def pack(b: Builder, fragment: Fragment, slots: list[Value]) -> Value:
    """The fragment with these slots."""
    if fragment.size == 1:
        return slots[0]
    return packed(b, representation(fragment), slots)


def dtype_of(argument: Any) -> DType:
    """The element type of a fragment or of a scalar of Numba."""
    return argument.dtype if isinstance(argument, Fragment) else types.unliteral(argument)


def convert(b: Builder, value: Value, source: DType, target: DType) -> Value:
    """One slot from one register type to another: integers wrap, floats truncate, anything to bool tests for zero."""
    source = types.unliteral(source)
    if source == target:
        return value
    if isinstance(value, ir.Constant) and is_float(target) and isinstance(value.constant, (int, float)):
        return constant_of(register_type(target), float(value.constant))
    llvm = register_type(target)
    if is_float(source):
        return _from_float(b, value, target, llvm)
    if source == boolean:
        value = value if value.type == I1 else b.trunc(value, I1)
        return b.uitofp(value, llvm) if is_float(target) else b.zext(value, llvm)
    if target == boolean:
        return b.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
    if is_float(target):
        return b.sitofp(value, llvm) if source.signed else b.uitofp(value, llvm)
    if llvm.width == value.type.width:
        return value
    if llvm.width < value.type.width:
        return b.trunc(value, llvm)
    return b.sext(value, llvm) if source.signed else b.zext(value, llvm)


def _from_float(b: Builder, value: Value, target: DType, llvm: Any) -> Value:
    if target == boolean:
        return b.fcmp_unordered("!=", value, ir.Constant(value.type, 0.0))
    if is_float(target):
        return b.fptrunc(value, llvm) if target == float32 else b.fpext(value, llvm)
    if llvm.width < 32:  # through int32, so that values outside the narrow type wrap as on the host
        return b.trunc(b.fptosi(value, I32), llvm)
    return b.fptosi(value, llvm) if target.signed else b.fptoui(value, llvm)


def spread(b: Builder, argument: Any, value: Value, dtype: DType, shape: tuple[int, ...]) -> list[Value]:
    """The slots of a fragment or scalar as `dtype`, broadcast to `shape`."""
    if not isinstance(argument, Fragment):
        return [convert(b, value, argument, dtype)] * int(np.prod(shape))
    slots = [convert(b, slot, argument.dtype, dtype) for slot in unpack(b, argument, value)]
    if argument.shape == tuple(shape):
        return slots
    positions = np.broadcast_to(np.arange(argument.size).reshape(argument.shape), shape)
    return [slots[position] for position in positions.ravel()]


def index_of(b: Builder, argument: Any, value: Value) -> Value:
    """A 0-d index as i32, or i64 where it is wider than 32 bits and no literal."""
    if isinstance(argument, Fragment):
        return value
    return b.trunc(value, I32) if isinstance(argument, types.Literal) and value.type == I64 else value


def is_scalar(argument: Any) -> bool:
    """True for the scalars of Numba: literals, loop variables, scalar parameters."""
    return isinstance(types.unliteral(argument), (types.Integer, types.Float, types.Boolean))


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's broadcasting; raises TypingError."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        raise TypingError(f"shapes {', '.join(map(str, shapes))} do not broadcast") from None


def shape_of(argument: Any) -> tuple[int, ...]:
    """The slots of a fragment; () for a scalar."""
    return argument.shape if isinstance(argument, Fragment) else ()


_KEEPING = WeakSet[Any]()


def note_cells(b: Builder) -> None:
    _KEEPING.add(b.function)


def keeps_cells(b: Builder) -> bool:
    """Whether threads of this kernel keep values in cells, because registers have no room for all."""
    return b.function in _KEEPING


def seldom(b: Builder, condition: Value, values: list[Value], replaced: Callable[[], Iterator[Value]]) -> list[Value]:
    """`values`, or behind a branch what `replaced` computes."""
    if is_known(condition, False):
        return values
    before = b.block
    with b.if_then(condition, likely=False):
        others = list(replaced())
        inside = b.block
    found = []
    for value, other in zip(values, others, strict=True):
        phi = b.phi(value.type)
        phi.add_incoming(value, before)
        phi.add_incoming(other, inside)
        found.append(phi)
    return found
