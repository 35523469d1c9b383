"""The hidden arguments of a kernel: the current block and its scratch memory.

Numba passes every compiled function a pointer to exception state as its second argument, and hands it on to callees.
The entry point (`entry.py`) lets it point to the first field of a larger record instead, the *frame*::

    {exception state, block 0, block 1, block 2, scratch}

After inlining LLVM keeps the fields in registers, so a kernel's text needs no parameters that a reader did not write.
"""

from __future__ import annotations

from llvmlite import ir

from polyfuse.backends.numba_cpu.fragments.vectors import I64, Builder, Value

FRAME = ir.LiteralStructType([ir.PointerType(), I64, I64, I64, ir.PointerType()])
SCRATCH = 4
CACHE_LINE = 64
_SIZES = "polyfuse.scratch"


def _field(builder: Builder, index: int) -> Value:
    frame = builder.function.args[1]
    zero = ir.IntType(32)(0)
    address = builder.gep(frame, [zero, ir.IntType(32)(index)], source_etype=FRAME)
    return builder.load(address, typ=FRAME.elements[index])


def block_index(builder: Builder, axis: int) -> Value:
    """The index of the running block along a grid axis, 64 bits."""
    return _field(builder, 1 + axis)


def scratch_address(builder: Builder, size: int) -> Value:
    """The address of `size` bytes of scratch memory that belong to this call alone.

    The sizes are noted in the module's metadata; `scratch_bytes` reads them back when the entry point is built.
    """
    start = scratch_bytes(builder.module)
    whole = -(-size // CACHE_LINE) * CACHE_LINE
    builder.module.add_named_metadata(_SIZES, [I64(whole)])
    return builder.gep(_field(builder, SCRATCH), [I64(start)], source_etype=ir.IntType(8))


def scratch_bytes(module: ir.Module) -> int:
    """The scratch memory that the kernel in `module` needs."""
    try:
        noted = module.get_named_metadata(_SIZES)
    except KeyError:
        return 0
    return sum(int(node.operands[0].constant) for node in noted.operands)
