"""More blocks per multiprocessor than a kernel's registers allow, where the assembler gets by with fewer.

Threads that wait for each other leave gaps, which another block fills as long as less than half of the threads that a
processor holds are there.  Blocks that share a reduction are as many as the device is to run at once: what does not
fit runs alone, in a second wave.  ptxas takes registers as it likes, up to the bound that the PTX sets; only the
figures of the finished kernel tell whether a tighter bound makes it spill.  Layernorm of rows of 4096 in blocks of 256
on an H200: 141 us in 3 blocks, 133 to 135 in 4, 135 in 5 and 6, and 218 in 5 with 112 bytes spilled.

ptxas is a process of its own, and takes about as long as all that comes before it: a bound that will probably be asked
for is assembled beside the first version, on a processor that is free, or in place of it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from polyfuse.backends.numba_cuda.assemble import assemble, find_ptxas
from polyfuse.backends.numba_cuda.compile import CompiledKernel
from polyfuse.backends.numba_cuda.pressure import pressure
from polyfuse.target import Target

TAKEN = (1.03, 1.12)
"""Times the registers needed at once that ptxas takes, from and to.  Of 50 kernels of benchmark programs whose threads
wait, 19 are asked for with room for one more block: for 6 of them that is begun where both factors say so, and 2
versions are begun in vain; with any one factor at most 13, and 6.  Of 31 whose blocks share a reduction, 4 begin with a
bound where the first says so, and need it."""

Bounded = Callable[[int], CompiledKernel]


def assembled(kernel: CompiledKernel, target: Target, *, waits: bool, blocks: int) -> CompiledKernel:
    """`kernel` as machine code, with room for as many blocks as it profits from.

    `waits`: its threads wait for each other.  `blocks`: of a processor that are to run at once, 0 where that does not
    matter.  Raises as `assemble` does.
    """
    least = max(1, kernel.minimum_blocks)  # that the first version has registers for
    wanted = blocks > least if blocks else waits and not _are_enough(least, kernel, target)
    if not wanted or not _BOUND.search(kernel.ptx):
        return assemble(kernel)
    versions, expected = Versions(kernel), _expected(kernel, target)
    if blocks:  # room for more than there are is no use
        found = crowded(kernel, target, blocks, max(expected), versions)
        return found or at_once(assemble(kernel), target, blocks, versions)
    if find_ptxas() and min(expected) == max(expected):  # the driver assembles in this process, for its current device
        versions.begin(_likely(kernel, target, max(expected)))
    return denser(assemble(kernel), target, versions)


def denser(kernel: CompiledKernel, target: Target, bounded: Bounded) -> CompiledKernel:
    """`kernel`, which is assembled, or the same with fewer registers and room for one more block.  `bounded`: it with
    room for so many blocks, assembled."""
    blocks = _resident(kernel, target)
    return kernel if _are_enough(blocks, kernel, target) else _with_room(kernel, target, blocks + 1, bounded)


def at_once(kernel: CompiledKernel, target: Target, blocks: int, bounded: Bounded) -> CompiledKernel:
    """`kernel`, which is assembled, or the same with fewer registers and room for `blocks`, or for as many of them as
    spill nothing."""
    for wanted in range(blocks, _resident(kernel, target), -1):
        other = _with_room(kernel, target, wanted, bounded)
        if other is not kernel:
            return other
    return kernel


def crowded(
    kernel: CompiledKernel, target: Target, blocks: int, expected: int, bounded: Bounded
) -> CompiledKernel | None:
    """What `at_once` finds, where that is known without the version that takes registers as it likes: one that takes
    all that there are for its blocks, and spills nothing.  `expected`: blocks that probably fit without."""
    for wanted in range(min(blocks, _most(kernel, target)), expected, -1):
        other = bounded(wanted)
        found = other.resources
        if found is not None and found.spilled_bytes:
            continue
        if found is None or found.local_bytes:
            return None
        fuller = target.occupancy(kernel.threads, found.registers + 1, kernel.shared_bytes)
        return other if fuller < wanted else None
    return None


def _resident(kernel: CompiledKernel, target: Target) -> int:
    """Blocks per processor; without figures, as many as threads allow."""
    registers = 1 if kernel.resources is None else kernel.resources.registers
    return target.occupancy(kernel.threads, registers, kernel.shared_bytes)


def _are_enough(blocks: int, kernel: CompiledKernel, target: Target) -> bool:
    return 2 * blocks * kernel.threads >= target.threads_per_processor


def _with_room(kernel: CompiledKernel, target: Target, blocks: int, bounded: Bounded) -> CompiledKernel:
    """`kernel` with registers for so many blocks; itself where that makes it spill, or nothing makes room for them."""
    found = kernel.resources
    if found is None or found.spilled_bytes or blocks > _most(kernel, target) or not _BOUND.search(kernel.ptx):
        return kernel
    other = bounded(blocks)
    spills = other.resources is None or other.resources.spilled_bytes or other.resources.local_bytes > found.local_bytes
    return kernel if spills else other


def _most(kernel: CompiledKernel, target: Target) -> int:
    """Blocks per processor, whatever registers they take."""
    return target.occupancy(kernel.threads, 1, kernel.shared_bytes)


def _expected(kernel: CompiledKernel, target: Target) -> tuple[int, int]:
    """The most and the fewest blocks per processor that there is probably room for, before registers are known."""
    needed, shared = pressure(kernel.ptx), kernel.shared_bytes
    most, least = [target.occupancy(kernel.threads, max(1, int(factor * needed)), shared) for factor in TAKEN]
    return max(kernel.minimum_blocks, most), max(kernel.minimum_blocks, least)


def _likely(kernel: CompiledKernel, target: Target, expected: int) -> Sequence[int]:
    """The bound that will probably be asked for, for one block more than is expected; none where there are enough."""
    is_one = expected < _most(kernel, target) and not _are_enough(expected, kernel, target)
    return [expected + 1] if is_one else []


_BOUND = re.compile(r"^\.minnctapersm \d+$", re.MULTILINE)
_FREE = threading.BoundedSemaphore(max(1, (os.cpu_count() or 1) - 1))  # processors beside the one that waits


@dataclass(frozen=True, slots=True)
class Versions:
    """A kernel by the blocks per processor that it has registers for, assembled when asked for or before."""

    kernel: CompiledKernel
    begun: dict[int, Future[CompiledKernel]] = field(default_factory=dict)

    def begin(self, bounds: Iterable[int]) -> None:
        """Assemble these on processors that are free."""
        threads = ThreadPoolExecutor(1)  # of this kernel alone: a fork would leave a shared one without its threads
        for blocks in bounds:
            if not _FREE.acquire(blocking=False):
                break
            self.begun[blocks] = threads.submit(self._assembled, blocks)
            self.begun[blocks].add_done_callback(lambda _: _FREE.release())
        threads.shutdown(wait=False)

    def __call__(self, blocks: int) -> CompiledKernel:
        if blocks not in self.begun:
            made = self.begun[blocks] = Future[CompiledKernel]()
            made.set_result(self._assembled(blocks))
        return self.begun[blocks].result()

    def _assembled(self, blocks: int) -> CompiledKernel:
        text = _BOUND.sub(f".minnctapersm {blocks}", self.kernel.ptx)
        return assemble(replace(self.kernel, ptx=text, minimum_blocks=blocks, cubin=None, resources=None))
