"""One more block per multiprocessor than a kernel's registers allow, where the assembler gets by with fewer.

Threads that wait for each other leave gaps, which another block fills as long as less than half of the threads that a
processor holds are there.  ptxas takes registers as it likes, up to the bound that the PTX sets; only the figures of
the finished kernel tell whether a tighter bound makes it spill.  Layernorm of rows of 4096 in blocks of 256 on an H200:
141 us in 3 blocks, 133 to 135 in 4, 135 in 5 and 6, and 218 in 5 with 112 bytes spilled.
"""

from __future__ import annotations

import re
from dataclasses import replace

from polyfuse.backends.numba_cuda.assemble import assemble
from polyfuse.backends.numba_cuda.compile import CompiledKernel
from polyfuse.target import Target


def denser(kernel: CompiledKernel, target: Target) -> CompiledKernel:
    """`kernel`, which is assembled, or the same with fewer registers and room for one more block."""
    found = kernel.resources
    if found is None or found.spilled_bytes:
        return kernel
    blocks = target.occupancy(kernel.threads, found.registers, kernel.shared_bytes) + 1
    enough = 2 * (blocks - 1) * kernel.threads >= target.threads_per_processor
    if enough or blocks > target.occupancy(kernel.threads, 1, kernel.shared_bytes):
        return kernel
    text, count = re.subn(r"^\.minnctapersm \d+$", f".minnctapersm {blocks}", kernel.ptx, flags=re.MULTILINE)
    if not count:
        return kernel
    other = assemble(replace(kernel, ptx=text, minimum_blocks=blocks, cubin=None, resources=None))
    spills = other.resources is None or other.resources.spilled_bytes or other.resources.local_bytes
    return kernel if spills else other
