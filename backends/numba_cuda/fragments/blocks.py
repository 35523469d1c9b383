"""Where a thread stands in the launch, and the election of the block that arrives last."""

from __future__ import annotations

from typing import Any

from polyfuse.backends.numba_cuda.fragments.declare import Emit, literal, operation
from polyfuse.backends.numba_cuda.fragments.slots import assembly, intrinsic, special_register, spread
from polyfuse.backends.numba_cuda.fragments.values import (
    I32,
    I64,
    Builder,
    DType,
    Fragment,
    Pointer,
    Value,
    boolean,
    int32,
    int64,
)
from polyfuse.backends.numba_cuda.numba_api import TypingError, ir, types


def _index(b: Builder, dtype: DType, register: str) -> Value:
    value = special_register(b, register)
    return value if dtype == int32 else b.zext(value, I64)


def _thread(dtype: DType) -> tuple[Fragment, Emit]:
    return Fragment(dtype, (), weak=True), lambda b: _index(b, dtype, "tid.x")


def _block(axis: Any, dtype: DType) -> tuple[Fragment, Emit]:
    register = f"ctaid.{'xyz'[literal(axis, 'the axis of a block')]}"
    return Fragment(dtype, (), weak=True), lambda b, _: _index(b, dtype, register)


@operation
def thread() -> tuple[Fragment, Emit]:
    """The index of the thread in its block."""
    return _thread(int32)


@operation
def thread64() -> tuple[Fragment, Emit]:
    """`thread` in a kernel with 64-bit indices."""
    return _thread(int64)


@operation
def block(axis: Any) -> tuple[Fragment, Emit]:
    """The index of the block along a grid axis."""
    return _block(axis, int32)


@operation
def block64(axis: Any) -> tuple[Fragment, Emit]:
    """`block` in a kernel with 64-bit indices."""
    return _block(axis, int64)


def _fence(b: Builder) -> None:
    """Global accesses before are visible to the device before those after (``__threadfence``)."""
    intrinsic(b, "llvm.nvvm.membar.gl", ir.VoidType(), [])


# thread 0 counts up and wraps at the limit, so the counter is zero again after the last block; others keep -1
_ARRIVE = """{
.reg .pred p;
setp.eq.u32 p, $3, 0;
@p atom.global.inc.u32 $0, [$1], $2;
}"""


@operation
def elect(counter: Any, group: Any, count: Any) -> tuple[Fragment, Emit] | None:
    """True in the block that arrives last of `count`: it then sees the global stores of all of them.

    Every thread fences its stores, the block meets, and one thread counts; the vote tells the others
    (CUDA C++ Programming Guide, memory fence functions).
    """
    if not isinstance(counter, Pointer):
        return None
    if counter.dtype not in (types.int32, types.uint32) or counter.readonly:
        raise TypingError(f"the counter of elect is a writable array of int32, not {counter}")
    fragment = Fragment(boolean, (), weak=True)

    def emit(b: Builder, p: Value, at: Value, total: Value) -> Value:
        (position,), (blocks,) = spread(b, group, at, int64, ()), spread(b, count, total, int32, ())
        limit = b.sub(blocks, ir.Constant(I32, 1))
        _fence(b)
        intrinsic(b, "llvm.nvvm.barrier0", ir.VoidType(), [], convergent=True)
        address = b.ptrtoint(b.gep(p, [position]), I64)
        arguments = [address, limit, special_register(b, "tid.x"), ir.Constant(I32, -1)]
        arrived = assembly(b, _ARRIVE, "=r,l,r,r,0,~{memory}", I32, arguments, effect=True)
        mine = b.zext(b.icmp_unsigned("==", arrived, limit), I32)
        any_of_block = intrinsic(b, "llvm.nvvm.barrier0.or", I32, [mine], convergent=True)
        _fence(b)
        return b.icmp_unsigned("!=", any_of_block, ir.Constant(I32, 0))

    return fragment, emit
