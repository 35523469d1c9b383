"""Where a thread stands in the launch, and the election of the block that arrives last."""

from __future__ import annotations

from typing import Any

from polyfuse.backends.numba_cuda.fragments.clusters import told_by_first
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


def _thread(dtype: DType, threads: Any, blocks: Any) -> tuple[Fragment, Emit]:
    count, cluster = literal(threads, "the threads of a block"), literal(blocks, "the blocks of a cluster")

    def emit(b: Builder, *_: Value) -> Value:
        number = special_register(b, "tid.x")
        if cluster > 1:
            rank = b.and_(special_register(b, "ctaid.x"), ir.Constant(I32, cluster - 1))
            number = b.or_(number, b.mul(rank, ir.Constant(I32, count)))
        return number if dtype == int32 else b.zext(number, I64)

    return Fragment(dtype, (), weak=True), emit


def _block(axis: Any, dtype: DType, blocks: Any) -> tuple[Fragment, Emit]:
    register = f"ctaid.{'xyz'[literal(axis, 'the axis of a block')]}"
    shift = literal(blocks, "the blocks of a cluster").bit_length() - 1

    def emit(b: Builder, *_: Value) -> Value:
        number = special_register(b, register)
        number = b.lshr(number, ir.Constant(I32, shift)) if shift else number
        return number if dtype == int32 else b.zext(number, I64)

    return Fragment(dtype, (), weak=True), emit


@operation
def thread(threads: Any = 0, blocks: Any = 1) -> tuple[Fragment, Emit]:
    """The index of the thread in its block, or in its cluster of `blocks` blocks of `threads` threads."""
    return _thread(int32, threads, blocks)


@operation
def thread64(threads: Any = 0, blocks: Any = 1) -> tuple[Fragment, Emit]:
    """`thread` in a kernel with 64-bit indices."""
    return _thread(int64, threads, blocks)


@operation
def block(axis: Any, blocks: Any = 1) -> tuple[Fragment, Emit]:
    """The index of the block along a grid axis, or of its cluster of `blocks` blocks."""
    return _block(axis, int32, blocks)


@operation
def block64(axis: Any, blocks: Any = 1) -> tuple[Fragment, Emit]:
    """`block` in a kernel with 64-bit indices."""
    return _block(axis, int64, blocks)


def _fence(b: Builder) -> None:
    """Global accesses before are visible to the device before those after (``__threadfence``)."""
    intrinsic(b, "llvm.nvvm.membar.gl", ir.VoidType(), [])


# thread 0 counts up and wraps at the limit, so the counter is zero again after the last block; others keep -1.  It
# releases what its block has stored before the barrier and acquires what others released; a fence in every thread would
# empty the first-level cache of its processor as often
_ARRIVE = """{
.reg .pred p;
setp.eq.u32 p, $3, 0;
@p atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;
}"""


def _counted(b: Builder, address: Value, limit: Value) -> Value:
    """The arrivals before, in thread 0, which counts; -1 in others."""
    arguments = [address, limit, special_register(b, "tid.x"), ir.Constant(I32, -1)]
    return assembly(b, _ARRIVE, "=r,l,r,r,0,~{memory}", I32, arguments, effect=True)


@operation
def elect(counter: Any, group: Any, count: Any, blocks: Any = 1) -> tuple[Fragment, Emit] | None:
    """True in the block, or the cluster of `blocks` blocks, that arrives last of `count`: it then sees the global
    stores of all of them.

    The block meets, and one thread counts, which releases the stores of all of it and acquires those of the blocks
    that counted before; the vote tells the others (PTX ISA, memory consistency model: release and acquire patterns are
    cumulative over barriers).
    """
    if not isinstance(counter, Pointer):
        return None
    if counter.dtype not in (types.int32, types.uint32) or counter.readonly:
        raise TypingError(f"the counter of elect is a writable array of int32, not {counter}")
    fragment, cluster = Fragment(boolean, (), weak=True), literal(blocks, "the blocks of a cluster")

    def emit(b: Builder, p: Value, at: Value, total: Value, *_: Value) -> Value:
        (position,), (arrivals,) = spread(b, group, at, int64, ()), spread(b, count, total, int32, ())
        limit = b.sub(arrivals, ir.Constant(I32, 1))
        address = b.ptrtoint(b.gep(p, [position]), I64)
        if cluster > 1:
            _fence(b)
            last = told_by_first(b, cluster, lambda: _counted(b, address, limit))
            _fence(b)
            return b.icmp_unsigned("==", last, limit)
        intrinsic(b, "llvm.nvvm.barrier0", ir.VoidType(), [], convergent=True)
        arrived = _counted(b, address, limit)
        mine = b.zext(b.icmp_unsigned("==", arrived, limit), I32)
        any_of_block = intrinsic(b, "llvm.nvvm.barrier0.or", I32, [mine], convergent=True)
        return b.icmp_unsigned("!=", any_of_block, ir.Constant(I32, 0))

    return fragment, emit
