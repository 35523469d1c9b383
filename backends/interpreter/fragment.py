"""The values of the NumPy runtime: fragments of all threads of some blocks, with the operators of docs/fragments.md.

It is as strict as the compiled runtimes: dtypes must agree, only Python numbers are weak, a float literal does not
meet an integer fragment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

from polyfuse import dtypes
from polyfuse.backends.interpreter.functions import apply
from polyfuse.backends.interpreter.special import Array
from polyfuse.dtypes import DType
from polyfuse.errors import PolyfuseError
from polyfuse.scalars import FUNCTIONS

Number = Union[bool, int, float]
_WEAK_KINDS = {bool: "b", int: "iuf", float: "f"}


class FragmentError(PolyfuseError, TypeError):
    """Text that the compiled runtimes would refuse: dtypes that differ, shapes that do not broadcast."""


@dataclass(frozen=True, slots=True, eq=False)
class Fragment:
    """`array` is ``(blocks, threads, *shape)``; leading extents may be 1 where all blocks or threads agree."""

    array: Array
    dtype: DType

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape[2:]

    def __bool__(self) -> bool:
        raise FragmentError("a fragment has no truth value outside of an `if` statement")

    def __add__(self, other: Operand) -> Fragment:
        return operate("add", self, other)

    def __radd__(self, other: Operand) -> Fragment:
        return operate("add", other, self)

    def __sub__(self, other: Operand) -> Fragment:
        return operate("subtract", self, other)

    def __rsub__(self, other: Operand) -> Fragment:
        return operate("subtract", other, self)

    def __mul__(self, other: Operand) -> Fragment:
        return operate("multiply", self, other)

    def __rmul__(self, other: Operand) -> Fragment:
        return operate("multiply", other, self)

    def __truediv__(self, other: Operand) -> Fragment:
        return operate("divide", self, other)

    def __rtruediv__(self, other: Operand) -> Fragment:
        return operate("divide", other, self)

    def __floordiv__(self, other: Operand) -> Fragment:
        return operate("floor_divide", _index_scalar(self), other)

    def __mod__(self, other: Operand) -> Fragment:
        return operate("remainder", _index_scalar(self), other)

    def __and__(self, other: Operand) -> Fragment:
        return operate("bitwise_and", self, other)

    def __rand__(self, other: Operand) -> Fragment:
        return operate("bitwise_and", other, self)

    def __or__(self, other: Operand) -> Fragment:
        return operate("bitwise_or", self, other)

    def __ror__(self, other: Operand) -> Fragment:
        return operate("bitwise_or", other, self)

    def __xor__(self, other: Operand) -> Fragment:
        return operate("bitwise_xor", self, other)

    def __rxor__(self, other: Operand) -> Fragment:
        return operate("bitwise_xor", other, self)

    def __lshift__(self, other: Operand) -> Fragment:
        return operate("left_shift", self, other)

    def __rlshift__(self, other: Operand) -> Fragment:
        return operate("left_shift", other, self)

    def __rshift__(self, other: Operand) -> Fragment:
        return operate("right_shift", self, other)

    def __rrshift__(self, other: Operand) -> Fragment:
        return operate("right_shift", other, self)

    def __neg__(self) -> Fragment:
        return operate("negative", self)

    def __invert__(self) -> Fragment:
        return operate("invert", self)

    def __lt__(self, other: Operand) -> Fragment:
        return operate("less", self, other)

    def __le__(self, other: Operand) -> Fragment:
        return operate("less_equal", self, other)

    def __gt__(self, other: Operand) -> Fragment:
        return operate("greater", self, other)

    def __ge__(self, other: Operand) -> Fragment:
        return operate("greater_equal", self, other)

    def __eq__(self, other: Operand) -> Fragment:  # type: ignore[override]
        return operate("equal", self, other)

    def __ne__(self, other: Operand) -> Fragment:  # type: ignore[override]
        return operate("not_equal", self, other)


Operand = Union[Fragment, Number]


def _index_scalar(x: Fragment) -> Fragment:
    if x.shape or x.dtype.kind not in "iu":
        raise FragmentError("// and % are for index scalars; use floor_divide and remainder")
    return x


def operate(function: str, *operands: Operand) -> Fragment:
    """A function of `polyfuse.scalars` on fragments and weak numbers."""
    if function == "where":
        condition, *rest = operands
        chosen = meet(rest)
        first = as_fragment(condition, dtypes.bool_)
        values = [first, *chosen]
        result = chosen[0].dtype
    else:
        values = meet(operands)
        result = dtypes.bool_ if FUNCTIONS[function].result == "bool" else values[0].dtype
        if values[0].dtype.kind not in FUNCTIONS[function].kinds:
            raise FragmentError(f"{function} does not take {values[0].dtype}")
    return Fragment(apply(function, lifted(values), result), result)


def meet(operands: Sequence[Operand]) -> list[Fragment]:
    """The operands in the one dtype that the fragments among them have."""
    found = {o.dtype.name: o.dtype for o in operands if isinstance(o, Fragment)}
    if len(found) != 1:
        raise FragmentError(f"fragments of dtypes {sorted(found)} meet: exactly one dtype is needed")
    dtype = next(iter(found.values()))
    return [as_fragment(o, dtype) for o in operands]


def as_fragment(value: Operand, dtype: DType) -> Fragment:
    """`value` as a fragment of `dtype`; Python numbers are weak."""
    if isinstance(value, Fragment):
        if value.dtype != dtype:
            raise FragmentError(f"a fragment of {value.dtype} where {dtype} is needed")
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, bool | int | float) or dtype.kind not in _WEAK_KINDS[type(value)]:
        raise FragmentError(f"{value!r} is no weak literal for {dtype}")
    with np.errstate(all="ignore"):
        return Fragment(np.asarray(value).astype(dtype.compute.numpy).reshape(1, 1), dtype.compute)


def lifted(values: Sequence[Fragment], rank: int = 0) -> list[Array]:
    """The arrays of `values` with one number of slot axes; shapes broadcast as in NumPy."""
    rank = max(rank, *(len(v.shape) for v in values))
    arrays = [v.array.reshape(*v.array.shape[:2], *([1] * (rank - len(v.shape))), *v.shape) for v in values]
    try:
        np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError as error:
        raise FragmentError(f"shapes {[v.shape for v in values]} do not broadcast") from error
    return arrays
