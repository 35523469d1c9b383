"""The type of every value of a kernel: its dtype and the slots on which it varies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Union, assert_never

from polyfuse import dtypes
from polyfuse.affine import Affine, names_of
from polyfuse.dtypes import DType
from polyfuse.kernel import (
    Apply,
    ArrayParameter,
    AsyncCopy,
    AtomicUpdate,
    Barrier,
    Carry,
    Combine,
    CommitCopies,
    Const,
    Contract,
    Elect,
    Exchange,
    Expr,
    For,
    If,
    Index,
    Inside,
    Keep,
    Kept,
    Kernel,
    Leave,
    Let,
    Load,
    Neighbours,
    Op,
    Reduce,
    Ref,
    ScalarParameter,
    Scan,
    SharedBuffer,
    Store,
    Take,
    WaitCopies,
)

Memory = Union[ArrayParameter, SharedBuffer]


@dataclass(frozen=True, slots=True)
class ValueType:
    """`axes`: slots on which the value varies.  `ranked`: its fragment has one axis per slot, else it is 0-d."""

    dtype: DType
    axes: frozenset[str] = frozenset()
    ranked: bool = False

    def joined(self, other: ValueType) -> ValueType:
        return ValueType(self.dtype, self.axes | other.axes, self.ranked or other.ranked)

    def shape(self, kernel: Kernel) -> tuple[int, ...]:
        """The fragment's shape: one extent per slot, 1 where the value does not vary; () where it is 0-d."""
        if not self.ranked:
            return ()
        return tuple(s.extent if s.name in self.axes else 1 for s in kernel.slots)


Types = Mapping[str, ValueType]


def memories(kernel: Kernel) -> dict[str, Memory]:
    """Global arrays and shared buffers by name."""
    arrays: dict[str, Memory] = {p.name: p for p in kernel.parameters if isinstance(p, ArrayParameter)}
    return arrays | {b.name: b for b in kernel.shared}


def slot_axes(expressions: Iterable[Affine], kernel: Kernel) -> frozenset[str]:
    """The slots whose digits occur in `expressions`."""
    used = names_of(expressions)
    return frozenset(s.name for s in kernel.slots if f"${s.name}" in used)


def expression_type(expr: Expr, types: Types, kernel: Kernel) -> ValueType:
    """The type of `expr`; a name that `types` lacks counts as 0-d (an accumulator seen before its first pass)."""
    match expr:
        case Ref(name, dtype):
            return types.get(name, ValueType(dtype.compute))
        case Const(_, dtype):
            return ValueType(dtype.compute)
        case Index(affine, dtype):
            axes = slot_axes((affine,), kernel)
            return ValueType(dtype.compute, axes, bool(axes))
        case Inside(where):
            axes = slot_axes(where, kernel)
            return ValueType(dtypes.bool_, axes, bool(axes))
        case Apply(_, operands, dtype):
            result = ValueType(dtype.compute)
            for operand in operands:
                result = result.joined(expression_type(operand, types, kernel))
            return result
        case _:
            assert_never(expr)


def access_axes(
    index: Sequence[Affine | Ref], where: Sequence[Affine], mask: Expr | None, types: Types, kernel: Kernel
) -> frozenset[str]:
    """The slots that one access ranges over."""
    axes = slot_axes([i for i in index if isinstance(i, Affine)], kernel) | slot_axes(where, kernel)
    for expr in [i for i in index if isinstance(i, Ref)] + ([mask] if mask is not None else []):
        axes |= expression_type(expr, types, kernel).axes
    return axes


def taken_axes(
    axes: frozenset[str], index: Sequence[tuple[tuple[str, ...], Affine]], kernel: Kernel
) -> frozenset[str]:
    """The slots on which registers taken from a value over `axes` vary."""
    counted = {slot for slots, _ in index for slot in slots}
    return (axes - counted) | slot_axes([at for slots, at in index if axes & set(slots)], kernel)


def register_numbers(
    axes: frozenset[str], index: Sequence[tuple[tuple[str, ...], Affine]], kernel: Kernel
) -> tuple[int, dict[str, int]]:
    """What `Take` reads of a value over `axes`, its registers counted in C order: the number at slots 0, and the step
    per slot.  Only for slots that count one number and lie side by side, as `verify_kernel` checks."""
    strides: dict[str, int] = {}
    count = 1
    for slot in reversed(kernel.slots):
        if slot.name in axes:
            strides[slot.name], count = count, count * slot.extent
    counted = {slot for slots, _ in index for slot in slots}
    start, steps = 0, {name: stride for name, stride in strides.items() if name not in counted}
    for slots, at in index:
        if slots and slots[-1] in axes:
            start += at.constant * strides[slots[-1]]
            for slot in kernel.slots:
                if factor := at.coefficient(f"${slot.name}"):
                    steps[slot.name] = steps.get(slot.name, 0) + factor * strides[slots[-1]]
    return start, steps


def value_types(kernel: Kernel) -> dict[str, ValueType]:
    """The type of every bound name: the join over all its bindings, so that accumulators have one type throughout."""
    types: dict[str, ValueType] = {
        p.name: ValueType(p.dtype.compute) for p in kernel.parameters if isinstance(p, ScalarParameter)
    }
    while _visit(kernel.body, types, kernel):
        pass
    return types


def _visit(body: Sequence[Op], types: dict[str, ValueType], kernel: Kernel) -> bool:
    """One pass over `body`; true when it changed a type."""
    changed = False
    for op in body:
        for name, bound in _bindings(op, types, kernel):
            known = types.get(name)
            joined = known.joined(bound) if known else bound
            if joined != known:
                types[name] = joined
                changed = True
        match op:
            case For(_, _, inner):
                changed |= _visit(inner, types, kernel)
            case If(_, inner, orelse):
                changed |= _visit(inner, types, kernel)
                changed |= _visit(orelse, types, kernel)
            case Neighbours(loads):
                changed |= _visit(loads, types, kernel)
            case _:
                pass
    return changed


def _bindings(op: Op, types: Types, kernel: Kernel) -> list[tuple[str, ValueType]]:
    """The names that `op` itself binds, with their types."""
    match op:
        case Let(name, value):
            return [(name, expression_type(value, types, kernel))]
        case Load(name, array, index, where, mask, _, _):
            memory = memories(kernel).get(array)
            dtype = memory.dtype.compute if memory else dtypes.f32
            return [(name, ValueType(dtype, access_axes(index, where, mask, types, kernel), True))]
        case Take(name, value, index):
            held = expression_type(value, types, kernel)
            return [(name, replace(held, axes=taken_axes(held.axes, index, kernel)))]
        case Kept(name, cells):
            found = next((c for c in kernel.cells if c.name == cells), None)
            return [(name, ValueType(found.dtype.compute, frozenset(found.slots), True))] if found else []
        case Reduce(names, _, values, slots):
            operands = [expression_type(v, types, kernel) for v in values]
            axes = frozenset().union(*(o.axes for o in operands)) - set(slots)
            ranked = bool(slots) or any(o.ranked for o in operands)
            return [(n, ValueType(o.dtype, axes, ranked)) for n, o in zip(names, operands, strict=False)]
        case Contract(name, left, right, slots):
            pair = expression_type(left, types, kernel).joined(expression_type(right, types, kernel))
            return [(name, ValueType(pair.dtype, pair.axes - set(slots), True))]
        case Combine(names, _, values, _):
            operands = [expression_type(v, types, kernel) for v in values]
            axes = frozenset().union(*(o.axes for o in operands))
            ranked = any(o.ranked for o in operands)
            return [(n, ValueType(o.dtype, axes, ranked)) for n, o in zip(names, operands, strict=False)]
        case Exchange(names, values, _, slot):
            operands = [expression_type(v, types, kernel) for v in values]
            axes = frozenset().union(*(o.axes for o in operands), [slot] if slot else [])
            return [(n, ValueType(o.dtype, axes, True)) for n, o in zip(names, operands, strict=False)]
        case Scan(name, total, _, value, slot, _, _, _):
            operand = expression_type(value, types, kernel)
            extra = frozenset([slot] if slot else [])
            ranked = operand.ranked or bool(slot)
            return [
                (name, ValueType(operand.dtype, operand.axes | extra, ranked)),
                (total, ValueType(operand.dtype, operand.axes - extra, ranked)),
            ]
        case Carry(name, _, value):
            return [(name, expression_type(value, types, kernel))]
        case Elect(name):
            return [(name, ValueType(dtypes.bool_))]
        case Store() | Keep() | Leave() | AtomicUpdate() | Barrier() | For() | If() | Neighbours():
            return []
        case AsyncCopy() | CommitCopies() | WaitCopies():
            return []
        case _:
            assert_never(op)


def bound_names(body: Sequence[Op]) -> list[str]:
    """Names bound anywhere in `body`, in order of first binding."""
    found: dict[str, None] = {}
    for op in body:
        match op:
            case Let(name) | Load(name) | Take(name) | Kept(name) | Contract(name) | Carry(name) | Elect(name):
                found.setdefault(name)
            case Reduce(names) | Combine(names) | Exchange(names):
                found.update(dict.fromkeys(names))
            case Scan(name, total):
                found.setdefault(name)
                found.setdefault(total)
            case For(_, _, inner) | Neighbours(inner):
                found.update(dict.fromkeys(bound_names(inner)))
            case If(_, inner, orelse):
                found.update(dict.fromkeys(bound_names(inner) + bound_names(orelse)))
            case Store() | Keep() | Leave() | AtomicUpdate() | Barrier() | AsyncCopy() | CommitCopies() | WaitCopies():
                pass
            case _:
                assert_never(op)
    return list(found)
