"""Rules of single accesses: shared indices within their box, vectors that can be one access."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NoReturn

from polyfuse.affine import Affine, FloorDiv, names_of
from polyfuse.codegen.strides import element_strides
from polyfuse.kernel import (
    ArrayParameter,
    AtomicUpdate,
    Expr,
    Kernel,
    Load,
    Ref,
    SharedBuffer,
    Store,
    cuts_at_one_place,
)
from polyfuse.kernel_types import Memory, Types, ValueType, access_axes, expression_type, slot_axes
from polyfuse.spans import Step, spans
from polyfuse.verify.intervals import Interval, at_least_zero

WORD = 4  # bytes
VECTOR_BYTES = 16
"""The widest access of one instruction; wider vectors are split."""


@dataclass(frozen=True, slots=True)
class Region:
    """What holds at a point of the kernel: loop digits with their ranges, conditions, whether control is uniform."""

    ranges: Mapping[str, Interval]
    given: tuple[Affine, ...] = ()
    uniform: bool = True


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Checks one operation of `kernel`; `refuse` raises with the operation's name."""

    kernel: Kernel
    types: Types
    sizes: frozenset[str]
    refuse: Callable[[str], NoReturn]

    def stays_inside(self, op: Load | Store | AtomicUpdate, buffer: SharedBuffer, region: Region) -> None:
        """Every index into shared memory stays within its dimension, by ranges of digits and conditions."""
        given = (*region.given, *op.where)
        for dimension, (entry, extent) in enumerate(zip(op.index, buffer.shape, strict=True)):
            if not isinstance(entry, Affine):
                continue
            if not at_least_zero(entry, region.ranges, given):
                self.refuse(f"index {entry} of dimension {dimension} of {buffer.name} may be negative")
            if not at_least_zero(extent - 1 - entry, region.ranges, given):
                sentence = f"index {entry} of dimension {dimension} of {buffer.name} may exceed {extent - 1}"
                self.refuse(sentence)

    def vector(self, op: Load | Store | AtomicUpdate, memory: Memory, region: Region) -> None:
        """Vector slots are consecutive, aligned, and read or written together."""
        width = op.vector
        if width < 1 or width & (width - 1):
            self.refuse(f"a vector has a power of two of elements, not {width}")
        axes = access_axes(op.index, op.where, op.mask, self.types, self.kernel)
        wide = [s for s in self.kernel.slots if s.name in axes and s.extent > 1]
        if not wide or wide[-1].extent % width:
            self.refuse(f"a vector of {width} does not divide the last slot of the index")
        slot = wide[-1].name
        across = isinstance(op, Load) and op.across
        cut = isinstance(op, (Load, Store)) and op.cut or across
        others = self._type(op.mask).axes if op.mask is not None else frozenset()
        others |= frozenset() if cut else slot_axes(op.where, self.kernel)
        varying = [w for w in op.where if f"${slot}" in w.names()] if cut else []
        if cut and (slot != self.kernel.slots[-1].name or not all(cuts_at_one_place(w, f"${slot}") for w in varying)):
            self.refuse(f"the conditions do not cut vectors of {slot} at one place")
        for entry in op.index:
            others |= self._type(entry).axes if isinstance(entry, Ref) else frozenset()
        if slot in others:
            self.refuse(f"a condition or a gathered index varies over {slot} inside a vector")
        strides = element_strides(memory)
        steps = [
            (entry.coefficient(f"${slot}"), stride.constant)
            for entry, stride in zip(op.index, strides, strict=True)
            if isinstance(entry, Affine) and f"${slot}" in entry.names()
        ]
        if any(stride is None for _, stride in steps) or sum(f * (s or 0) for f, s in steps) != 1:
            self.refuse(f"the stride of slot {slot} is not 1")
        if isinstance(memory, ArrayParameter) and memory.alignment < min(VECTOR_BYTES, width * memory.dtype.itemsize):
            self.refuse(f"{op.array} is aligned to {memory.alignment} bytes only")
        if across:
            self._across(op, memory)
            return
        width = min(width, max(1, VECTOR_BYTES // memory.dtype.itemsize))
        rows = [e for e, s in zip(op.index, strides, strict=True) if isinstance(e, Affine) and s.constant is None]
        moved = {name[1:] for name in names_of(rows)} if cut else set()  # by sizes too: what a frame takes back
        address = self._address(op, memory)
        if cut and any(row.constant for row in rows):
            address -= address.constant
        if isinstance(memory, SharedBuffer):  # rows that lie apart as in memory: what frames move, their rows take back
            kept = [(atom, f) for atom, f in address.terms if isinstance(atom, str) or f % width]
            address = Affine(tuple(kept), address.constant)
        self._aligned(op, address, moved | {slot}, width, region)

    def _across(self, op: Load | Store | AtomicUpdate, memory: Memory) -> None:
        """Beside a vector that begins anywhere lie aligned ones of an array, of which words are moved."""
        if not isinstance(memory, ArrayParameter) or memory.alignment < VECTOR_BYTES or op.mask is not None:
            self.refuse(f"{op.array} is no array whose vectors are aligned")
        if not WORD <= op.vector * memory.dtype.itemsize <= VECTOR_BYTES:
            self.refuse(f"vectors of {op.vector} elements of {memory.dtype} are not made of words of two vectors")

    def span(self, op: Load | Store, memory: Memory, region: Region) -> None:
        """Spans are aligned, conditions hold for all of one or none, and one that is stored has no gaps."""
        if op.span & (op.span - 1) or op.vector > 1 or op.span * memory.dtype.itemsize > VECTOR_BYTES:
            self.refuse(f"a span has a power of two of elements, at most {VECTOR_BYTES} bytes, and is no vector")
        if any(isinstance(entry, Ref) for entry in op.index):
            self.refuse("a span lies where affine indices say")
        axes = access_axes(op.index, (), None, self.types, self.kernel)
        wide = [s for s in self.kernel.slots if s.name in axes]
        steps = tuple([Step(s.name, s.extent, self._step(op, memory, s.name)) for s in wide])
        address = self._address(op, memory)
        taken = spans(steps, op.span, address.constant % op.span)
        may_have_gaps = isinstance(op, Load) and isinstance(memory, ArrayParameter)
        if taken is None or not (taken.whole or may_have_gaps):
            self.refuse(f"spans of {op.span} have gaps, or too many slots")
        conditions = slot_axes(op.where, self.kernel)
        conditions |= self._type(op.mask).axes if op.mask is not None else frozenset()
        if conditions & taken.varying:
            self.refuse(f"a condition varies over {', '.join(sorted(conditions & taken.varying))} inside a span")
        alignment = memory.alignment if isinstance(memory, ArrayParameter) else VECTOR_BYTES
        if alignment < op.span * memory.dtype.itemsize:
            self.refuse(f"{op.array} is aligned to {alignment} bytes only")
        self._aligned(op, address - address.constant, frozenset(s.name for s in wide), op.span, region)

    def _step(self, op: Load | Store, memory: Memory, slot: str) -> int | None:
        """Elements from one of `slot` to the next; None where that is a size."""
        total = 0
        for entry, stride in zip(op.index, element_strides(memory), strict=True):
            if isinstance(entry, Affine) and f"${slot}" in entry.names():
                divided = [atom.numerator.names() for atom, _ in entry.terms if isinstance(atom, FloorDiv)]
                if stride.constant is None or any(f"${slot}" in names for names in divided):
                    return None
                total += entry.coefficient(f"${slot}") * stride.constant
        return total

    def _aligned(
        self, op: Load | Store | AtomicUpdate, total: Affine, inside: Set[str], width: int, region: Region
    ) -> None:
        """Parts of the address but for the slots `inside` are multiples of `width`; what sizes multiply is a guard of
        the plan."""
        if any(isinstance(atom, FloorDiv) for atom, _ in total.terms):
            return
        given = (*region.given, *op.where)
        only = {n: number for n in total.names() - self.sizes if (number := _only(n, given)) is not None}
        total = total.substitute(only)
        parts = [(str(a), f) for a, f in total.terms if str(a)[1:] not in inside and a not in self.sizes]
        varying = [(n, f) for n, f in parts if region.ranges[n].high != 0]
        symbolic = total.names() & self.sizes
        for name, factor in [*varying, *([] if symbolic else [("the constant", total.constant)])]:
            if factor % width:
                self.refuse(f"a vector of {max(op.vector, width)} is not aligned: {name} moves the address by {factor}")

    def _address(self, op: Load | Store | AtomicUpdate, memory: Memory) -> Affine:
        """In elements, as far as dimensions have constant strides."""
        total = Affine.of(0)
        for entry, stride in zip(op.index, element_strides(memory), strict=True):
            if isinstance(entry, Affine) and stride.constant is not None:
                total += entry * stride.constant
        return total

    def _type(self, expr: Expr) -> ValueType:
        return expression_type(expr, self.types, self.kernel)


def _only(name: str, given: Sequence[Affine]) -> int | None:
    """The only number that conditions leave a digit, which has none below 0, as 1 - 11*b0 >= 0 does; else None."""
    low, high = 0, None
    for condition in given:
        factor = condition.coefficient(name)
        if condition.is_linear and condition.names() == {name} and factor:
            end = condition.constant // -factor if factor < 0 else -(condition.constant // factor)
            low, high = (low, end if high is None else min(high, end)) if factor < 0 else (max(low, end), high)
    return low if low == high else None
