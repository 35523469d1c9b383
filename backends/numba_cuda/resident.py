"""More blocks per multiprocessor than a kernel's registers allow, where the assembler gets by with fewer.

Threads that wait for each other leave gaps, which another block fills as long as less than half of the threads that a
processor holds are there.  Blocks that share a reduction are as many as the device is to run at once: what does not
fit runs alone, in a second wave.  ptxas takes registers as it likes, up to the bound that the PTX sets; only the
figures of the finished kernel tell whether a tighter bound makes it spill.  Layernorm of rows of 4096 in blocks of 256
on an H200: 141 us in 3 blocks, 133 to 135 in 4, 135 in 5 and 6, and 218 in 5 with 112 bytes spilled.
"""

from __future__ import annotations

import re
from dataclasses import replace

from polyfuse.backends.numba_cuda.assemble import assemble
from polyfuse.backends.numba_cuda.compile import CompiledKernel
from polyfuse.target import Target


def denser(kernel: CompiledKernel, target: Target) -> CompiledKernel:
    """`kernel`, which is assembled, or the same with fewer registers and room for one more block."""
    blocks = _resident(kernel, target)
    enough = 2 * blocks * kernel.threads >= target.threads_per_processor
    return kernel if enough else _bounded(kernel, target, blocks + 1)


def at_once(kernel: CompiledKernel, target: Target, blocks: int) -> CompiledKernel:
    """`kernel`, which is assembled, or the same with fewer registers and room for `blocks`, or for as many of them as
    spill nothing."""
    for wanted in range(blocks, _resident(kernel, target), -1):
        other = _bounded(kernel, target, wanted)
        if other is not kernel:
            return other
    return kernel


def _resident(kernel: CompiledKernel, target: Target) -> int:
    """Blocks per processor; without figures, as many as threads allow."""
    registers = 1 if kernel.resources is None else kernel.resources.registers
    return target.occupancy(kernel.threads, registers, kernel.shared_bytes)


def _bounded(kernel: CompiledKernel, target: Target, blocks: int) -> CompiledKernel:
    """`kernel` with registers for so many blocks; itself where that makes it spill, or nothing makes room for them."""
    found = kernel.resources
    full = blocks > target.occupancy(kernel.threads, 1, kernel.shared_bytes)
    if full or found is None or found.spilled_bytes:
        return kernel
    text, count = re.subn(r"^\.minnctapersm \d+$", f".minnctapersm {blocks}", kernel.ptx, flags=re.MULTILINE)
    if not count:
        return kernel
    other = assemble(replace(kernel, ptx=text, minimum_blocks=blocks, cubin=None, resources=None))
    spills = other.resources is None or other.resources.spilled_bytes or other.resources.local_bytes > found.local_bytes
    return kernel if spills else other
